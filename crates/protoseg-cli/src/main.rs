//! `protoseg`: the command line. Only this crate prints, exits or reads flags.

mod allocator;
mod cli;
mod commands;
mod hints;
mod measure;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Demo(args) => commands::demo::run(&args),
        cli::Command::New(args) => commands::new::run(&args),
        cli::Command::Calibrate(args) => commands::calibrate::run(&args),
        cli::Command::Train(mut args) => commands::train::run(&mut args),
        cli::Command::Register(args) => commands::register::run(&args),
        cli::Command::Classes(args) => commands::classes::run(&args),
        cli::Command::Predict(args) => commands::predict::run(&args),
        cli::Command::Eval(args) => commands::eval::run(&args),
        cli::Command::Episodes(args) => commands::episodes::run(&args),
        cli::Command::Experiment(args) => commands::experiment::run(&args),
        cli::Command::Segment(args) => commands::segment::run(&args),
        cli::Command::Bench(args) => commands::bench::run(&args),
        cli::Command::Completions(args) => commands::completions::run(&args),
        cli::Command::Import(args) => commands::import::run(&args),
        cli::Command::Export(args) => commands::export::run(&args),
        cli::Command::Info(args) => commands::info::run(&args),
        cli::Command::Data(cli::Data::Check(args)) => commands::data_check::run(&args),
        cli::Command::Data(cli::Data::Show(args)) => commands::data_show::run(&args),
        cli::Command::Data(cli::Data::Supports(args)) => commands::data_supports::run(&args),
        cli::Command::Data(cli::Data::Prepare(args)) => commands::data_prepare::run(&args),
    };
    output::finish(result)
}
