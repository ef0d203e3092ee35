//! Running the binary.

use std::process::{Command, Output};

/// What `protoseg ARGS` answered.
pub struct Answer {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

pub fn protoseg<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Answer {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_protoseg")).args(args).output().expect("the binary runs");
    Answer {
        code: status.code().expect("it was not killed"),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
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
