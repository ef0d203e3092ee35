//! What users and machines read. Answers go to stdout; everything else to stderr.

mod braille;
pub mod experiment_watch;
#[cfg(test)]
#[path = "../../../protoseg/src/train/folder/fake_run.rs"]
mod fake_run;
pub mod masks;
pub mod progress;
pub mod results;
pub mod stop;
pub mod table;
pub mod timings;
mod train_dashboard;
mod train_log;
pub mod train_watch;
mod train_words;
pub mod units;

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

/// A line beside the answer. Nobody is left to tell if stderr is gone.
pub fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
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

/// A run that was asked to stop, and did so with everything saved.
#[derive(Debug)]
pub struct Interrupted(pub String);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

/// The exit code of a run: 0 done, 1 with the error on stderr, 130 interrupted. A reader that left (`| head`) is not
/// an error.
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
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        let _ = writeln!(io::stderr(), "{interrupted}");
        return ExitCode::from(stop::INTERRUPTED);
    }
    // Our errors name their cause themselves. Nobody is left to tell if stderr is gone too.
    let _ = writeln!(io::stderr(), "error: {error}");
    if let Some(hint) = crate::hints::of(&error) {
        let _ = writeln!(io::stderr(), "hint: {hint}");
    }
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
