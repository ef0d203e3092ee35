//! What users and machines read. Answers go to stdout; everything else to stderr.

#[allow(dead_code)] // until `train` uses it
mod braille;
#[allow(dead_code)] // until `train` uses it
mod chart;
#[cfg(test)]
mod fake_run;
pub mod progress;
#[allow(dead_code)] // until `train` uses it
pub mod run_folder;
#[allow(dead_code)] // until `train` uses it
pub mod stop;
#[allow(dead_code)] // until `train` uses it
mod svg;
pub mod table;
#[allow(dead_code)] // until `train` uses it
mod train_dashboard;
#[allow(dead_code)] // until `train` uses it
mod train_log;
#[allow(dead_code)] // until `train` uses it
pub mod train_watch;
#[allow(dead_code)] // until `train` uses it
mod train_words;
#[allow(dead_code)] // until `train` uses it
mod units;

use std::{
    fmt,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Result, bail};
use serde::Serialize;

/// One line of the answer.
pub fn line(text: impl fmt::Display) -> Result<()> {
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// The answer as one JSON object.
pub fn json(value: &impl Serialize) -> Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Runs never overwrite unless told to.
pub fn refuse_overwrite(path: &Path, force: bool) -> Result<()> {
    if path.exists() && !force {
        bail!("`{}` is there already\nhint: choose another name or add --force", path.display());
    }
    Ok(())
}

/// A path as a shell reads it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The exit code of a run: 0 done, 1 with the error on stderr. A reader that left (`| head`) is no error.
pub fn finish(result: Result<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let is_broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    // Our errors name their cause themselves. Nobody is left to tell if stderr is gone too.
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted(Path::new("runs/a-1.safetensors")), "runs/a-1.safetensors");
        assert_eq!(quoted(Path::new("my model.safetensors")), "'my model.safetensors'");
        assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
    }
}
