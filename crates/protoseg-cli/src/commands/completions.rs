//! `protoseg completions`.

use std::io::{self, Write};

use anyhow::Result;
use clap::CommandFactory;

use crate::cli::{Cli, Completions};

pub fn run(args: &Completions) -> Result<()> {
    // The generator panics where it cannot write, as when a reader left.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "protoseg", &mut script);
    Ok(io::stdout().write_all(&script)?)
}
