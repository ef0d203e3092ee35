//! The binary `protoseg`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(protoseg_cli::run(std::env::args_os()))
}
