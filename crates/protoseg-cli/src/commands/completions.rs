//! `protoseg completions`.

use std::io;

use anyhow::Result;
use clap::CommandFactory;

use crate::cli::{Cli, Completions};

pub fn run(args: &Completions) -> Result<()> {
    clap_complete::generate(args.shell, &mut Cli::command(), "protoseg", &mut io::stdout());
    Ok(())
}
