//! The build script of crates whose tests need `../shared`, the data beside the repository. It sets `has_shared` where
//! that folder exists, or where `CI` is set: those tests then fail without it instead of being ignored.

use std::{env, path::Path};

#[allow(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]
pub fn main() {
    let shared = Path::new("../../../shared");
    let ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    println!("cargo::rustc-check-cfg=cfg(has_shared)");
    if ci || shared.exists() {
        println!("cargo::rustc-cfg=has_shared");
    }
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-changed=../protoseg-testing/build/has_shared.rs");
    // Only where it exists: a watched path that is not there makes cargo build anew each time.
    if shared.exists() {
        println!("cargo::rerun-if-changed={}", shared.display());
    }
}
