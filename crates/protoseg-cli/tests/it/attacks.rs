//! What a hostile or unlucky user can do: odd files, odd names, two processes at once. Each was a fault once.

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use protoseg::{ClassPack, Image, write_image};

use crate::{
    novel::Desk,
    run::{Answer, Folder},
};

const REGISTER: &str = "register --model model.safetensors";
const PREDICT: &str = "predict --model model.safetensors";
/// Every attack is refused long before this.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(desk: &Folder, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_protoseg"))
        .current_dir(desk.path(""))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The answer of a command that must come soon: one that hangs is killed and fails the test.
fn soon(desk: &Folder, command: &str) -> Answer {
    within(desk, command, PATIENCE)
}

fn within(desk: &Folder, command: &str, patience: Duration) -> Answer {
    fn read(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
        // Meanwhile: whoever writes more than a pipe holds waits for its reader.
        thread::spawn(move || {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            text
        })
    }
    let mut child = start(desk, &command.split_whitespace().collect::<Vec<_>>());
    let stdout = read(child.stdout.take().unwrap());
    let stderr = read(child.stderr.take().unwrap());
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > patience {
            child.kill().unwrap();
            panic!("`protoseg {command}` hangs");
        }
        thread::sleep(Duration::from_millis(10));
    };
    let code = status.code().expect("it was not killed");
    Answer { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn answer(child: Child) -> Answer {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    Answer {
        code: status.code().expect("it was not killed"),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

#[track_caller]
fn refused(desk: &Folder, command: &str, words: &str) {
    let Answer { code, stderr, .. } = soon(desk, command);
    assert_eq!(code, 1, "`protoseg {command}`: {stderr}");
    assert!(stderr.contains(words), "`protoseg {command}`: {stderr}");
    assert!(!stderr.contains("panicked"), "`protoseg {command}`: {stderr}");
}

#[test]
#[cfg(target_os = "linux")]
fn devices_and_pipes_are_never_read() {
    let desk = Desk::new();
    assert!(Command::new("mkfifo").arg(desk.path("pipe.png")).status().unwrap().success());
    fs::copy(desk.path("photo0.png"), desk.path("photo.png")).unwrap();
    for (name, target) in [("zero.png", "/dev/zero"), ("zero.txt", "/dev/zero"), ("zero.json", "/dev/zero")] {
        std::os::unix::fs::symlink(target, desk.path(name)).unwrap();
    }
    let words = "a device or a pipe";
    for odd in ["zero.png", "pipe.png"] {
        refused(&desk, &format!("{PREDICT} {odd} -o out"), words);
        refused(&desk, &format!("{REGISTER} --class duck={odd}:mask0.png -o p.pack"), words);
        refused(&desk, &format!("{REGISTER} --class duck=photo0.png:{odd} -o p.pack"), words);
        refused(&desk, &format!("train {odd}"), words);
        refused(&desk, &format!("info {odd}"), words);
        refused(&desk, &format!("classes list {odd}"), words);
        refused(&desk, &format!("predict --model {odd} photo0.png -o out"), words);
    }
    refused(&desk, &format!("{PREDICT} zero.txt -o out"), words);
    refused(&desk, &format!("{REGISTER} --coco zero.json -o p.pack"), words);
    refused(&desk, &format!("{REGISTER} --supports zero.json -o p.pack"), words);
    assert!(!desk.path("out").exists() && !desk.path("p.pack").exists(), "nothing was written");
}

#[test]
#[cfg(unix)]
fn links_in_a_circle_are_walked_once() {
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    fs::copy(desk.path("photo0.png"), desk.path("photos/a.png")).unwrap();
    for link in ["one", "two"] {
        std::os::unix::fs::symlink(".", desk.path("photos").join(link)).unwrap();
    }
    let answer = soon(&desk, &format!("{PREDICT} photos -o out --json"));
    let json: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(json["images"].as_array().unwrap().len(), 1);
}

#[test]
fn two_processes_on_one_pack_lose_nothing() {
    let desk = Desk::new();
    for round in 0..5 {
        let pack = format!("p{round}.pack");
        let children: Vec<Child> = ["duck", "swan", "boat"]
            .map(|class| {
                let class = format!("{class}=photo0.png:mask0.png");
                start(&desk, &["register", "--model", "model.safetensors", "--class", &class, "-o", &pack])
            })
            .into();
        for child in children {
            let Answer { code, stderr, .. } = answer(child);
            assert_eq!(code, 0, "{stderr}");
        }
        let pack = ClassPack::load(desk.path(&pack)).unwrap();
        assert_eq!(pack.classes().len(), 3, "round {round}");
    }
    let renamed = [["duck", "drake"], ["swan", "cob"], ["boat", "ship"]]
        .map(|[name, new]| start(&desk, &["classes", "rename", "p0.pack", name, new]));
    for child in renamed {
        assert_eq!(answer(child).code, 0);
    }
    let names: Vec<String> = ClassPack::load(desk.path("p0.pack"))
        .unwrap()
        .classes()
        .iter()
        .map(|class| class.name.clone())
        .collect();
    assert_eq!(names, ["cob", "drake", "ship"]);
    assert!(!desk.path(".p0.pack.lock").exists(), "no lock is left");
}

#[test]
fn two_runs_in_one_folder_cannot_both_go_on() {
    let desk = Folder::new();
    let args =
        ["train", "--data", "scenes", "--arch", "pspnet18", "--crop", "65", "--batch", "2", "--out", "run"];
    let mut first = start(&desk, &args);
    let started = Instant::now();
    while !desk.path("run/plan.toml").exists() {
        assert!(
            started.elapsed() < 4 * PATIENCE && first.try_wait().unwrap().is_none(),
            "the run does not start"
        );
        thread::sleep(Duration::from_millis(10));
    }
    for command in ["train --resume run", "train --data scenes --arch pspnet18 --out run --force"] {
        refused(&desk, command, &format!("`run` is in use by process {} (protoseg train)", first.id()));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    // The system ends a claim with its process.
    fs::write(desk.path("run/notes.txt"), "mine").unwrap();
    fs::write(desk.path("run/samples/mine.png"), "mine").unwrap_or_else(|_| {
        fs::create_dir_all(desk.path("run/samples")).unwrap();
        fs::write(desk.path("run/samples/mine.png"), "mine").unwrap();
    });
    let mut again = start(&desk, &[&args[..], &["--force"]].concat());
    let started = Instant::now();
    while !desk.path("run/run.json").exists() {
        assert!(
            started.elapsed() < 4 * PATIENCE && again.try_wait().unwrap().is_none(),
            "it does not start again"
        );
        thread::sleep(Duration::from_millis(10));
    }
    again.kill().unwrap();
    again.wait().unwrap();
    for foreign in ["run/notes.txt", "run/samples/mine.png"] {
        assert_eq!(fs::read_to_string(desk.path(foreign)).unwrap(), "mine", "files of others stay");
    }
}

/// A pack as a file of tensors, with changes to its listing and to the number of values of a sum.
fn forge(from: &Path, to: &Path, dim: usize, change: impl Fn(String) -> String) {
    let bytes = fs::read(from).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = metadata.metadata().clone().unwrap().into_iter().map(|(key, value)| (key, change(value)));
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let rows = tensors.tensor("sums").unwrap().shape()[0];
    let values = vec![1f32.to_le_bytes(); rows * dim].concat();
    let view =
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![rows, dim], &values).unwrap();
    safetensors::serialize_to_file([("sums", view)], Some(metadata.collect()), to).unwrap();
}

#[test]
fn a_pack_that_is_not_the_model_s_is_refused_before_anything_is_replaced() {
    let desk = Desk::new();
    desk.register("--class duck=photo0.png:mask0.png", "mine.pack");
    let before = fs::read(desk.path("mine.pack")).unwrap();
    let mine = desk.path("mine.pack");
    forge(&mine, &desk.path("wide.pack"), 9, |text| text.replace("duck", "swan"));
    forge(&mine, &desk.path("same.pack"), 16, |text| text);
    let words = "its sums have";
    refused(&desk, "classes merge mine.pack wide.pack -o mine.pack --force", words);
    refused(&desk, &format!("{PREDICT} --pack wide.pack photo0.png -o out"), words);
    refused(&desk, &format!("{REGISTER} --class cow2=photo1.png:mask1.png -o wide.pack"), words);
    assert_eq!(fs::read(&mine).unwrap(), before);
    desk.done(&format!("{PREDICT} --pack same.pack photo0.png -o out"));
}

#[test]
fn names_that_a_terminal_obeys_are_refused_or_shown_as_text() {
    let desk = Desk::new();
    let class = "du\u{1b}[31mck=photo0.png:mask0.png";
    let child = start(&desk, &["register", "--model", "model.safetensors", "--class", class, "-o", "p.pack"]);
    let Answer { code, stderr, .. } = answer(child);
    assert!(code == 1 && stderr.contains("control characters") && !stderr.contains('\u{1b}'), "{stderr}");
    let long = format!("{}=photo0.png:mask0.png", "x".repeat(70_000));
    let child = start(&desk, &["register", "--model", "model.safetensors", "--class", &long, "-o", "p.pack"]);
    let Answer { code, stderr, .. } = answer(child);
    assert!(code == 1 && stderr.contains("70000 bytes, expected at most 255"), "{stderr}");
    assert!(!desk.path("p.pack").exists());

    fs::copy(desk.path("photo0.png"), desk.path("a\u{1b}[31mb\u{9b}c.png")).unwrap();
    let child =
        start(&desk, &["predict", "--model", "model.safetensors", "a\u{1b}[31mb\u{9b}c.png", "-o", "out"]);
    let Answer { code, stdout, stderr } = answer(child);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains(r"a\u{1b}[31mb\u{9b}c") && !stdout.contains(['\u{1b}', '\u{9b}']), "{stdout}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_name_that_is_not_unicode_has_its_results() {
    use std::os::unix::ffi::OsStrExt;
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"a\xff.png");
    fs::copy(desk.path("photo0.png"), desk.path("photos").join(name)).unwrap();
    fs::copy(desk.path("photo1.png"), desk.path("photos/b.png")).unwrap();
    desk.done(&format!("{PREDICT} photos -o out"));
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(desk.path("out/predictions.json")).unwrap()).unwrap();
    assert_eq!(summary["images"].as_array().unwrap().len(), 2);
    assert!(desk.path("out/index.html").exists());
    let again = desk.done(&format!("{PREDICT} photos -o out --resume"));
    assert!(again.contains("done before"), "{again}");
}

#[test]
#[cfg(unix)]
fn modes_links_and_what_is_no_file_are_respected() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let desk = Desk::new();
    desk.register("--class duck=photo0.png:mask0.png", "p.pack");
    fs::set_permissions(desk.path("p.pack"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("p.pack", desk.path("link.pack")).unwrap();
    desk.register("--class swan=photo1.png:mask1.png", "link.pack");
    assert_eq!(fs::metadata(desk.path("p.pack")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(desk.path("link.pack")).unwrap().is_symlink());
    assert_eq!(ClassPack::load(desk.path("p.pack")).unwrap().classes().len(), 2);

    fs::set_permissions(desk.path("p.pack"), fs::Permissions::from_mode(0o400)).unwrap();
    refused(&desk, "classes rename p.pack duck drake", "the file is read-only");
    refused(&desk, "data show scenes -o /dev/null --force", "a device or a pipe");
}

#[test]
fn absurd_numbers_are_refused() {
    let desk = Desk::new();
    refused(
        &desk,
        "data supports scenes --fold 0 --shots 1000000000000 -o s.json",
        "expected 1 to 100000 supports per class",
    );
    refused(&desk, "eval --data scenes --limit 0 -o out", "`--limit` must be at least 1, got 0");
    refused(&desk, "eval --data scenes --fold 99 -o out", "fold `99` does not exist");
    // Polygons and categories of a small COCO file.
    fs::create_dir_all(desk.path("coco")).unwrap();
    write_image(desk.path("coco/a.png"), &Image::new(64, 64, vec![9; 3 * 64 * 64])).unwrap();
    let zigzag: Vec<String> = (0..1000).map(|i| format!("{},{}", i % 64, i % 2 * 1_000_000)).collect();
    let coco = |images: &str, annotations: &str, categories: &str| {
        let text =
            format!(r#"{{"images":[{images}],"annotations":[{annotations}],"categories":[{categories}]}}"#);
        fs::write(desk.path("coco/instances.json"), text).unwrap();
    };
    let image = r#"{"id":1,"file_name":"a.png","width":64,"height":1000000}"#;
    let annotation =
        format!(r#"{{"id":1,"image_id":1,"category_id":1,"segmentation":[[{}]]}}"#, zigzag.join(","));
    coco(image, &annotation, r#"{"id":1,"name":"duck"}"#);
    refused(&desk, &format!("{REGISTER} --coco coco/instances.json --images coco -o p.pack"), "too large");
}

#[test]
fn a_photo_beside_the_pack_is_not_overwritten() {
    let desk = Desk::new();
    let before = fs::read(desk.path("photo0.png")).unwrap();
    refused(
        &desk,
        &format!("{REGISTER} --class duck=photo0.png:mask0.png -o photo0"),
        "`photo0.png` is there already",
    );
    refused(&desk, &format!("{PREDICT} photo0.png -o out --logits photo0.png --force"), "is an input");
    assert_eq!(fs::read(desk.path("photo0.png")).unwrap(), before);
    // The picture of an earlier call is replaced.
    desk.register("--class duck=photo0.png:mask0.png", "p.pack");
    desk.register("--class swan=photo1.png:mask1.png", "p.pack");
}

#[test]
fn two_predictions_into_one_folder_do_not_mix() {
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    for place in 0..200 {
        fs::copy(desk.path(&format!("photo{}.png", place % 4)), desk.path(&format!("photos/{place:03}.png")))
            .unwrap();
    }
    let args = ["predict", "--model", "model.safetensors", "photos", "-o", "out"];
    let both = [start(&desk, &args), start(&desk, &args)].map(answer);
    let codes = both.each_ref().map(|answer| answer.code);
    assert!(codes == [0, 1] || codes == [1, 0], "{codes:?}");
    let loser = both.iter().find(|answer| answer.code == 1).unwrap();
    assert!(
        loser.stderr.contains("is in use by") || loser.stderr.contains("has results already"),
        "{}",
        loser.stderr
    );
}

#[test]
fn a_broken_pipe_does_not_hide_a_failure() {
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    fs::copy(desk.path("photo0.png"), desk.path("photos/good.png")).unwrap();
    fs::write(desk.path("photos/junk.png"), b"junk").unwrap();
    for (inputs, code) in [("photos", 1), ("photo0.png", 0)] {
        let out = format!("out-{code}");
        let mut child = start(&desk, &["predict", "--model", "model.safetensors", inputs, "-o", &out]);
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{inputs}");
    }
}

#[test]
fn results_that_something_deletes_meanwhile_are_missed() {
    let desk = Desk::new();
    fs::create_dir(desk.path("photos")).unwrap();
    for place in 0..400 {
        fs::copy(desk.path("photo0.png"), desk.path(&format!("photos/{place:03}.png"))).unwrap();
    }
    let child = start(&desk, &["predict", "--model", "model.safetensors", "photos", "-o", "out"]);
    while fs::read_dir(desk.path("out/index")).map_or(0, Iterator::count) < 20 {
        thread::sleep(Duration::from_millis(1));
    }
    // It may fail where files are made at the same time; most are gone.
    let _ = fs::remove_dir_all(desk.path("out"));
    let Answer { code, stderr, .. } = answer(child);
    let is_told = stderr.contains("not in `out` any more") || stderr.contains("cannot write `out/");
    assert!(code == 1 && is_told, "{code}: {stderr}");
}

#[test]
fn a_data_set_cannot_choose_where_results_go() {
    let desk = Desk::new();
    for name in ["../../away", "/tmp/away", "..", "a\\u001bb"] {
        fs::write(desk.path("evil.toml"), format!("name = \"{name}\"\nformat = \"folder\"\n")).unwrap();
        refused(&desk, "data check evil.toml", "cannot be the name of a folder");
    }
}

/// A model with all weights the same, at `to`.
fn flatten(desk: &Desk, to: &str, weight: f32) {
    let mut bytes = fs::read(desk.path("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for value in bytes[8 + header..].chunks_exact_mut(4) {
        value.copy_from_slice(&weight.to_le_bytes());
    }
    fs::write(desk.path(to), bytes).unwrap();
}

#[test]
fn weights_that_are_no_weights_are_not_called_background() {
    let desk = Desk::new();
    flatten(&desk, "huge.safetensors", 1e30);
    refused(&desk, "predict --model huge.safetensors photo0.png -o out", "holds 1000000000000000");
    for (weight, name) in [(0.0, "zero"), (1.0, "one"), (1e4, "large"), (1e-6, "tiny")] {
        flatten(&desk, &format!("{name}.safetensors"), weight);
        let answer = soon(&desk, &format!("predict --model {name}.safetensors photo0.png -o {name}"));
        let is_told = answer.stderr.contains("the same everywhere") || answer.stderr.contains("not numbers");
        assert!(is_told, "{name}: {}{}", answer.stdout, answer.stderr);
    }
    refused(
        &desk,
        "register --model zero.safetensors --class duck=photo0.png:mask0.png -o p.pack",
        "the model sees nothing in support `photo0.png`",
    );
    let healthy = soon(&desk, &format!("{PREDICT} photo0.png -o healthy"));
    assert!(!healthy.stderr.contains("the same everywhere"), "{}", healthy.stderr);
}

#[test]
fn two_thousand_classes_are_registered_soon() {
    const CLASSES: usize = 2000;
    let desk = Desk::new();
    let pair = |class: usize| {
        format!(r#"{{"class":"c{class}","image":"photo{0}.png","mask":"mask{0}.png","value":1}}"#, class % 4)
    };
    let pairs: Vec<String> = (0..CLASSES).map(pair).collect();
    fs::write(desk.path("s.json"), format!("[{}]", pairs.join(","))).unwrap();
    // A few seconds on an idle machine.
    let answer = within(&desk, &format!("{REGISTER} --supports s.json -o p.pack"), 4 * PATIENCE);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stdout.contains("2000 classes in p.pack"), "{}", answer.stdout);
    let notes = answer.stderr.lines().filter(|line| line.contains("are not predicted")).count();
    assert_eq!(notes, 1, "{}", answer.stderr);
    assert_eq!(ClassPack::load(desk.path("p.pack")).unwrap().classes().len(), CLASSES);
}
