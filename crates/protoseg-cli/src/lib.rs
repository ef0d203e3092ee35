//! The command line as a function: the binary `protoseg` calls it, and so does the command in the Python package. Only
//! this crate prints, exits or reads flags.

mod allocator;
mod cli;
mod commands;
mod hints;
mod measure;
mod output;
mod weights;

use std::{
    ffi::OsString,
    io::{self, Write},
    sync::OnceLock,
};

use clap::Parser;

pub use allocator::keep_freed_memory;

/// The arguments of this process, without the program's name.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Carries out a command. `args` begin with the program's name. Returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    keep_freed_memory();
    let args: Vec<OsString> = args.into_iter().collect();
    let _ = ARGUMENTS.set(args.iter().skip(1).cloned().collect());
    let code = match cli::Cli::try_parse_from(args) {
        Ok(cli) => carry_out(cli),
        Err(error) => {
            // Nobody is left to tell if the pipe is broken.
            let _ = error.print();
            error.exit_code() as u8
        }
    };
    // In a Python process nobody else does.
    let _ = io::stdout().flush();
    code
}

fn carry_out(cli: cli::Cli) -> u8 {
    let result = match cli.command {
        cli::Command::Demo(args) => commands::demo::run(&args),
        cli::Command::New(args) => commands::new::run(&args),
        cli::Command::Calibrate(args) => commands::calibrate::run(&args),
        cli::Command::Train(mut args) => commands::train::run(&mut args),
        cli::Command::Register(args) => commands::register::run(&args),
        cli::Command::Classes(args) => commands::classes::run(&args),
        cli::Command::Predict(args) => commands::predict::run(&args),
        cli::Command::Studio(args) => commands::studio::run(&args),
        cli::Command::Serve(args) => commands::serve::run(&args),
        cli::Command::Eval(args) => commands::eval::run(&args),
        cli::Command::Episodes(args) => commands::episodes::run(&args),
        cli::Command::Experiment(args) => commands::experiment::run(&args),
        cli::Command::Segment(args) => commands::segment::run(&args),
        cli::Command::Bench(args) => commands::bench::run(&args),
        cli::Command::Completions(args) => commands::completions::run(&args),
        cli::Command::Import(args) => commands::import::run(&args),
        cli::Command::Export(args) => commands::export::run(&args),
        cli::Command::Weights(args) => commands::weights::run(&args),
        cli::Command::Info(args) => commands::info::run(&args),
        cli::Command::Data(cli::Data::Check(args)) => commands::data_check::run(&args),
        cli::Command::Data(cli::Data::Show(args)) => commands::data_show::run(&args),
        cli::Command::Data(cli::Data::Draw(args)) => commands::data_draw::run(&args),
        cli::Command::Data(cli::Data::Supports(args)) => commands::data_supports::run(&args),
        cli::Command::Data(cli::Data::Prepare(args)) => commands::data_prepare::run(&args),
    };
    output::finish(result)
}
