//! Tells the program which revision it was built from, so that every run can say so, and the tests whether `../shared`
//! is there.

use std::process::Command;

#[path = "../protoseg-testing/build/has_shared.rs"]
mod has_shared;

fn main() {
    has_shared::main();
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let revision = git(&["rev-parse", "--short=12", "HEAD"]).map_or("unknown".to_string(), |revision| {
        let changed =
            git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
        if changed { format!("{revision} with changes") } else { revision }
    });
    println!("cargo::rustc-env=PROTOSEG_REVISION={revision}");
    for file in ["HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
