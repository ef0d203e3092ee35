//! Running the binary.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// What `protoseg ARGS` answered.
pub struct Answer {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

pub fn protoseg<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Answer {
    protoseg_in(Path::new("."), args)
}

/// The same in another folder.
pub fn protoseg_in<S: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = S>) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protoseg"));
    let output = command.current_dir(folder).args(args).output().expect("the binary runs");
    let Output { status, stdout, stderr } = output;
    Answer {
        code: status.code().expect("it was not killed"),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// A folder to run commands in.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn run(&self, command: &str) -> Answer {
        protoseg_in(self.0.path(), command.split_whitespace())
    }

    /// What a command that succeeds prints.
    pub fn done(&self, command: &str) -> String {
        let answer = self.run(command);
        assert_eq!(answer.code, 0, "`protoseg {command}`: {}", answer.stderr);
        answer.stdout
    }

    /// The error of a command that is refused.
    pub fn refused(&self, command: &str) -> String {
        let answer = self.run(command);
        assert_eq!(answer.code, 1, "`protoseg {command}` ended with {}: {}", answer.code, answer.stderr);
        answer.stderr
    }
}

#[test]
fn help_teaches_and_wrong_usage_is_2() {
    let help = protoseg(["help", "import"]);
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("Example:") && help.stdout.contains("--novel"), "{}", help.stdout);
    let wrong = protoseg(["import"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("CKPT"), "{}", wrong.stderr);
}
