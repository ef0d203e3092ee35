//! A disk that is full, and kills at random moments: what was there before stays, and the next call goes on.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use protoseg::ClassPack;

use crate::{
    novel::Desk,
    run::Folder,
    train::{data_and_plan, events, losses},
};

const DUCK: &str = "register --model model.safetensors --class duck=photo0.png:mask0.png -o p.pack";
const SWAN: &str = "register --model model.safetensors --class swan=photo1.png:mask1.png -o p.pack";

/// The library that makes writes fail, built beside the desk.
fn shim(desk: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults.c");
    let library = desk.path("faults.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    assert!(compiler.status().expect("a C compiler, as for the build").success());
    library
}

/// The exit code and the error of a command whose disk is full from the n-th call on.
fn run_full(desk: &Folder, shim: &Path, command: &str, at: usize) -> (i32, String) {
    let Output { status, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_protoseg"))
        .current_dir(desk.path(""))
        .args(command.split_whitespace())
        .env("LD_PRELOAD", shim)
        .env("PROTOSEG_FAULT_AT", at.to_string())
        .output()
        .unwrap();
    (status.code().expect("it ends by itself"), String::from_utf8(stderr).unwrap())
}

/// Locks and temporary files that are left in a folder.
fn strays(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_temporary = name.strip_prefix(".protoseg-").is_some_and(|rest| !rest.contains('.'));
        if entry.path().is_dir() {
            found.extend(strays(&entry.path()));
        } else if is_temporary || name.ends_with(".lock") {
            found.push(name);
        }
    }
    found
}

/// Runs a command with a disk that is full ever later, until it succeeds. `check` looks after every failure.
fn fail_everywhere(desk: &Desk, command: &str, check: impl Fn(&str)) {
    let shim = shim(desk);
    for at in 1.. {
        let (code, error) = run_full(desk, &shim, command, at);
        if code == 0 {
            assert!(at > 1, "`{command}` never writes");
            return;
        }
        assert_eq!(code, 1, "`{command}`, full at {at}: {error}");
        assert!(error.contains("No space left") && !error.contains("panicked"), "full at {at}: {error}");
        assert_eq!(strays(&desk.path("")), [] as [&str; 0], "full at {at}");
        check(&error);
        assert!(at < 200, "`{command}` never succeeds");
    }
}

#[test]
fn a_full_disk_leaves_packs_as_they_were() {
    let desk = Desk::new();
    desk.done(DUCK);
    let pack = || fs::read(desk.path("p.pack")).unwrap();
    let before = pack();
    for command in ["classes rename p.pack duck drake", "classes recolor p.pack drake #ff0000"] {
        let before = pack();
        fail_everywhere(&desk, command, |_| assert_eq!(pack(), before, "`{command}`"));
    }
    desk.done("classes rename p.pack drake duck");
    assert_ne!(pack(), before, "it has a colour now");
    desk.done(&SWAN.replace("p.pack", "q.pack"));
    let before = pack();
    fail_everywhere(&desk, "classes merge p.pack q.pack -o p.pack --force", |_| assert_eq!(pack(), before));
    fs::write(desk.path("p.pack"), &before).unwrap();
    // The picture comes after the pack: when it fails, the class is registered.
    let shim = shim(&desk);
    for at in 1..20 {
        let (code, error) = run_full(&desk, &shim, SWAN, at);
        assert!(code == 1 && error.contains("No space left"), "full at {at}: {error}");
        let pack = ClassPack::load(desk.path("p.pack")).unwrap();
        assert!((1..=2).contains(&pack.classes().len()), "full at {at}");
        if pack.classes().len() == 2 {
            return;
        }
    }
}

#[test]
fn a_prediction_goes_on_after_a_full_disk() {
    let desk = Desk::new();
    let predict = "predict --model model.safetensors photo0.png photo1.png photo2.png -o out";
    desk.done(&predict.replace("-o out", "-o whole"));
    let shim = shim(&desk);
    for at in [1, 2, 3, 5, 8, 13, 21, 30] {
        let _ = fs::remove_dir_all(desk.path("out"));
        let (code, error) = run_full(&desk, &shim, predict, at);
        if code == 0 {
            break;
        }
        assert!(code == 1 && error.contains("No space left"), "full at {at}: {code}: {error}");
        let resume = if desk.path("out/.protoseg-predict.jsonl").exists() { " --resume" } else { "" };
        desk.done(&format!("{predict}{resume}"));
        for photo in 0..3 {
            let mask = |out: &str| fs::read(desk.path(&format!("{out}/index/photo{photo}.png"))).unwrap();
            assert_eq!(mask("out"), mask("whole"), "full at {at}");
        }
    }
}

/// A run whose disk is full from the n-th call on, and again while it is resumed, ends as if nothing had happened.
#[test]
fn a_run_goes_on_after_a_full_disk() {
    let desk = Folder::new();
    data_and_plan(&desk.path(""));
    let plan = fs::read_to_string(desk.path("plan.toml")).unwrap().replace("epochs = 4", "epochs = 2");
    fs::write(desk.path("plan.toml"), plan).unwrap();
    let train = |out: &str| format!("train plan.toml --out {out} --plain");
    desk.done(&train("whole"));
    let shim = shim(&desk);
    let full = |command: &str, at: usize| {
        let (code, error) = run_full(&desk, &shim, command, at);
        if code != 0 {
            assert!(
                code == 1 && error.contains("No space left"),
                "`{command}`, full at {at}: {code}: {error}"
            );
            assert!(!error.contains("panicked"), "`{command}`, full at {at}: {error}");
            assert_eq!(strays(&desk.path("run")), [] as [&str; 0], "`{command}`, full at {at}");
        }
        code == 0
    };
    // Without a plan nothing has begun, and the same command begins it.
    let next = || match desk.path("run/plan.toml").exists() {
        true => "train --resume run --plain".to_string(),
        false => train("run"),
    };
    let mut failures = 0;
    let mut at = 1;
    loop {
        let _ = fs::remove_dir_all(desk.path("run"));
        let is_done = full(&train("run"), at);
        if !is_done {
            failures += 1;
            full(&next(), at.div_ceil(2));
            desk.done(&next());
        }
        for file in ["last.safetensors", "best.safetensors"] {
            let read = |out: &str| fs::read(desk.path(out).join(file)).unwrap();
            assert!(read("run") == read("whole"), "full at {at}: {file} differs");
        }
        let [run, whole] = ["run", "whole"].map(|out| losses(&events(&desk.path(""), out)));
        assert_eq!(run, whole, "full at {at}");
        if is_done {
            break;
        }
        at += 1 + at / 4;
    }
    assert!(failures > 10, "only {failures} failures");
}

/// Starts a command and kills it after this long.
fn kill_after(desk: &Desk, command: &str, time: Duration) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_protoseg"))
        .current_dir(desk.path(""))
        .args(command.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(time);
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn kills_at_any_moment_leave_a_whole_pack() {
    let desk = Desk::new();
    desk.done(DUCK);
    fs::copy(desk.path("p.pack"), desk.path("old.pack")).unwrap();
    desk.done(&SWAN.replace("p.pack", "swan.pack"));
    desk.done(SWAN);
    fs::copy(desk.path("p.pack"), desk.path("new.pack")).unwrap();
    let bytes = |pack: &str| fs::read(desk.path(pack)).unwrap();
    let (old, new) = (bytes("old.pack"), bytes("new.pack"));
    assert_ne!(old, new);
    let whole = |what: &str| {
        let now = bytes("p.pack");
        assert!(now == old || now == new, "{what} left something else");
    };
    for step in 0..12 {
        let time = Duration::from_millis(7 * step);
        fs::copy(desk.path("old.pack"), desk.path("p.pack")).unwrap();
        kill_after(&desk, SWAN, 4 * time);
        whole("register");
        kill_after(&desk, "classes merge old.pack swan.pack -o p.pack --force", time);
        whole("merge");
        // Whoever was killed holds no lock, and the next call works.
        desk.done("classes merge old.pack swan.pack -o p.pack --force");
        assert_eq!(bytes("p.pack"), new);
        kill_after(&desk, "classes rename p.pack duck drake", time);
        let pack = ClassPack::load(desk.path("p.pack")).unwrap();
        assert!(["duck", "drake"].contains(&pack.classes()[0].name.as_str()));
    }
}

#[test]
fn kills_at_any_moment_leave_predictions_that_go_on() {
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    for place in 0..30 {
        fs::copy(desk.path(&format!("photo{}.png", place % 4)), desk.path(&format!("photos/{place:02}.png")))
            .unwrap();
    }
    let predict = "predict --model model.safetensors photos -o out --resume";
    for step in 0..6 {
        kill_after(&desk, predict, Duration::from_millis(40 + 25 * step));
    }
    desk.done(predict);
    assert_eq!(fs::read_dir(desk.path("out/index")).unwrap().count(), 30);
    assert_eq!(strays(&desk.path("out")), [] as [&str; 0]);
}
