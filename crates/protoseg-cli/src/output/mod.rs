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
use protoseg::core::is_control;
use serde::{Serialize, Serializer};

/// One line of the answer.
pub fn line(text: impl fmt::Display) -> Result<()> {
    print(&visible(text))
}

/// Nobody is left to read if the pipe is broken (`| head`): the command goes on, and its exit code says how it ended.
fn print(text: &str) -> Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// A line beside the answer. Nobody is left to tell if stderr is gone.
pub fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", visible(without_middles(&text.to_string())));
}

/// Text without the middle of very long lines: an error may quote a line of a file, however long that is.
fn without_middles(text: &str) -> String {
    const MOST: usize = 2000;
    const END: usize = 200;
    let cut = |line: &str| {
        let start = line.char_indices().nth(MOST).map(|(start, _)| start);
        let end = line.char_indices().nth_back(END).map(|(end, _)| end);
        match start.zip(end).filter(|(start, end)| start < end) {
            Some((start, end)) => format!("{} [...] {}", &line[..start], &line[end..]),
            None => line.to_string(),
        }
    };
    text.split('\n').map(cut).collect::<Vec<_>>().join("\n")
}

/// The answer as one JSON object.
pub fn json(value: &impl Serialize) -> Result<()> {
    print(&visible_json(&serde_json::to_string_pretty(value)?))
}

/// Text in which a terminal finds nothing to obey: names of files and of classes may come from strangers. Lines and tabs
/// stay.
pub fn visible(text: impl fmt::Display) -> String {
    escaped(&text.to_string(), |c| format!("\\u{{{:x}}}", u32::from(c)))
}

/// The same for JSON, where control characters stand in strings only.
pub fn visible_json(text: &str) -> String {
    escaped(text, |c| format!("\\u{:04x}", u32::from(c)))
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> String {
    let is_obeyed = |c: char| is_control(c) && c != '\n' && c != '\t';
    if !text.contains(is_obeyed) {
        return text.to_string();
    }
    text.chars().map(|c| if is_obeyed(c) { escape(c) } else { c.to_string() }).collect()
}

/// A path in JSON. Letters that are not Unicode are replaced: there is no other way to write them.
pub fn lossy_path<S: Serializer>(path: impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.as_ref().display())
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
        note(interrupted);
        return ExitCode::from(stop::INTERRUPTED);
    }
    // Our errors name their cause themselves. Nobody is left to tell if stderr is gone too.
    note(format_args!("error: {error}"));
    if let Some(hint) = crate::hints::of(&error) {
        note(format_args!("hint: {hint}"));
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_very_long_line_is_left_out() {
        let long = format!("line 1: got `{}`", "ä".repeat(5_000_000));
        let text = without_middles(&format!("{long}\nhint: shorten it"));
        assert!(text.starts_with("line 1: got `ää") && text.ends_with("ä`\nhint: shorten it"), "{text}");
        assert!(text.contains("ä [...] ä") && text.chars().count() < 2300);
        let short = "ä".repeat(2200);
        assert_eq!(without_middles(&short), short);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        assert_eq!(visible("a\u{1b}[31m\u{9b}1m\tb\nc"), "a\\u{1b}[31m\\u{9b}1m\tb\nc");
        let json = visible_json(&serde_json::to_string("a\u{1b}\u{9b}\u{202e}").unwrap());
        assert!(json.is_ascii(), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "a\u{1b}\u{9b}\u{202e}");
    }

    #[test]
    fn paths_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted(Path::new("runs/a-1.safetensors")), "runs/a-1.safetensors");
        assert_eq!(quoted(Path::new("my model.safetensors")), "'my model.safetensors'");
        assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
    }
}
