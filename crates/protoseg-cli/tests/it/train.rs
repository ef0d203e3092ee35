//! `protoseg train`, start to end, on pictures of a few coloured stripes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use protoseg::core::{Image, RowMap};
use protoseg_data::{mask::write_index_mask, picture::write_image};

use crate::run::{Answer, protoseg, protoseg_in};

const SIDE: usize = 40;

/// A data set of three classes and a plan that trains a tiny network on it.
pub fn data_and_plan(folder: &Path) -> PathBuf {
    for part in ["data/images", "data/masks"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    fs::write(folder.join("data/classes.txt"), "background\nred\ngreen\nblue\n").unwrap();
    for picture in 0..14 {
        let class = |pixel: usize| (pixel % SIDE / 14 + picture) % 4;
        let colour = |pixel: usize| {
            let shade = 60 + (pixel * 7 + picture * 13) as u8 % 60;
            [1, 2, 3].map(|channel| if class(pixel) == channel { 130 + shade } else { shade })
        };
        let pixels = (0..SIDE * SIDE).flat_map(colour).collect();
        let labels = (0..SIDE * SIDE).map(|pixel| class(pixel) as u16).collect();
        let name = format!("stripes-{picture:02}");
        let image = Image::new(SIDE, SIDE, pixels);
        write_image(folder.join(format!("data/images/{name}.png")), &image).unwrap();
        let label = RowMap::new(SIDE, SIDE, labels);
        write_index_mask(&folder.join(format!("data/masks/{name}.png")), &label).unwrap();
    }
    let plan = folder.join("plan.toml");
    let text = "seed = 3\n[data]\nsource = \"data\"\n[network]\nencoder = \"resnet10\"\nwidth = 0.1\ndim = 16\n\
        [training]\nepochs = 4\nbatch = 4\ncrop = 33\n[optimizer]\nlr = 0.02\n[augment]\nscale = [0.9, 1.1]\n\
        [checkpoint]\nevery = 2\n";
    fs::write(&plan, text).unwrap();
    plan
}

fn train(folder: &Path, out: &str, more: &[&str]) -> Answer {
    let args = ["train", "plan.toml", "--out", out];
    protoseg_in(folder, args.iter().chain(more))
}

pub fn events(folder: &Path, out: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(folder.join(out).join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Steps with their losses, whatever else was noted.
pub fn losses(events: &[serde_json::Value]) -> Vec<(u64, f64)> {
    let steps = events.iter().filter(|event| event["event"] == "step");
    steps.map(|event| (event["step"].as_u64().unwrap(), event["loss"].as_f64().unwrap())).collect()
}

#[test]
fn a_run_leaves_models_metrics_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    let answer = train(folder.path(), "run", &[]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let out = folder.path().join("run");
    for file in [
        "plan.toml",
        "run.json",
        "metrics.jsonl",
        "curves.svg",
        "curves.png",
        "samples/epoch-004.png",
        "best.safetensors",
        "last.safetensors",
        "checkpoints/step-00000012.safetensors",
    ] {
        assert!(out.join(file).is_file(), "{file} is missing");
    }
    assert_eq!(fs::read_dir(out.join("checkpoints")).unwrap().count(), 2);
    assert!(fs::read_dir(out.join("tensorboard")).unwrap().count() > 0);
    let events = events(folder.path(), "run");
    assert_eq!(losses(&events).len(), 12);
    assert_eq!(events.last().unwrap()["event"], "end");
    assert!(events.iter().any(|event| event["event"] == "validation" && event["on"] == "holdout"));

    let info = protoseg(["info", out.join("best.safetensors").to_str().unwrap()]);
    assert!(info.stdout.contains("held-out training images"), "{}", info.stdout);
    let again = train(folder.path(), "run", &[]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("--resume"), "{}", again.stderr);
}

#[test]
fn a_killed_run_resumes_to_the_same_weights() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    assert_eq!(train(folder.path(), "whole", &[]).code, 0);

    let killed = folder.path().join("killed");
    let mut child = spawn(folder.path(), "killed");
    wait_for(&killed.join("checkpoints/step-00000004.safetensors"), &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    // What a write leaves behind that a kill cut short.
    fs::write(killed.join("checkpoints/.protoseg-torn"), b"half").unwrap();
    let mut metrics = fs::read(killed.join("metrics.jsonl")).unwrap();
    metrics.extend_from_slice(b"{\"event\":\"st");
    fs::write(killed.join("metrics.jsonl"), metrics).unwrap();
    let resumed = protoseg_in(folder.path(), ["train", "--resume", "killed"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);

    let read = |out: &str, file: &str| fs::read(folder.path().join(out).join(file)).unwrap();
    for file in ["last.safetensors", "best.safetensors"] {
        assert!(read("whole", file) == read("killed", file), "{file} differs");
    }
    let [whole, killed_events] = ["whole", "killed"].map(|out| losses(&events(folder.path(), out)));
    assert_eq!(whole, killed_events);
    assert!(!killed.join("checkpoints/.protoseg-torn").exists());
}

#[test]
fn a_damaged_checkpoint_is_passed_over_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    assert_eq!(train(folder.path(), "run", &[]).code, 0);
    let last = fs::read(folder.path().join("run/last.safetensors")).unwrap();
    let newest = folder.path().join("run/checkpoints/step-00000012.safetensors");
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&newest, bytes).unwrap();
    fs::remove_file(folder.path().join("run/last.safetensors")).unwrap();
    let resumed = protoseg_in(folder.path(), ["train", "--resume", "run"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(
        resumed.stderr.contains("step-00000012") && resumed.stderr.contains("checksum"),
        "{}",
        resumed.stderr
    );
    assert!(fs::read(folder.path().join("run/last.safetensors")).unwrap() == last);
}

#[test]
fn what_cannot_be_trained_is_said_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let plan = data_and_plan(folder.path());
    let refused = |more: &[&str], words: &[&str]| {
        let answer = train(folder.path(), "run", more);
        assert_eq!(answer.code, 1, "{more:?}: {}", answer.stderr);
        for word in words {
            assert!(answer.stderr.contains(word), "{more:?}: {}", answer.stderr);
        }
        assert!(!folder.path().join("run/plan.toml").exists());
    };
    refused(&["--batch", "1"], &["`--batch` must be", "at least 2", "got 1"]);
    refused(&["--epochs", "0"], &["`--epochs` must be at least 1, got 0"]);
    refused(&["--crop", "3"], &["`--crop` must be a side", "got 3"]);
    refused(&["--method", "kapl"], &["kapl", "capl-tr"]);
    refused(&["--device", "tpu"], &["tpu", "cpu"]);
    refused(&["--fold", "7"], &["7"]);
    refused(&["--init", "nowhere.pth"], &["nowhere.pth"]);
    refused(&["--arch", "unet50"], &["unet50", "pspnet"]);
    refused(&["--validation", "test"], &["test"]);
    refused(&["--batch", "400"], &["400"]);
    fs::write(&plan, "[data]\nsource = \"data\"\n[training]\nepochs = 0\n").unwrap();
    refused(&[], &["line 4", "training.epochs"]);
    let nothing = protoseg_in(folder.path(), ["train", "--resume", "nowhere"]);
    assert!(nothing.code == 1 && nothing.stderr.contains("no run"), "{}", nothing.stderr);
}

#[test]
fn a_folder_is_a_data_set_and_random_weights_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    let dry = protoseg_in(folder.path(), ["train", "data", "--epochs", "1", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stdout.contains("source = \"data\""), "{}", dry.stdout);
    let both = protoseg_in(folder.path(), ["train", "data", "--data", "scenes", "--dry-run"]);
    assert!(both.code == 1 && both.stderr.contains("two data sets"), "{}", both.stderr);

    let run = train(folder.path(), "run", &["--epochs", "1"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("1 epoch,") && run.stderr.contains("random weights"), "{}", run.stderr);
    let again = protoseg_in(folder.path(), ["train", "run"]);
    assert!(again.code == 1 && again.stderr.contains("--resume run"), "{}", again.stderr);

    // A model is a start, if its encoder is the same.
    let init = ["--init", "run/last.safetensors", "--epochs", "1"];
    let warm = train(folder.path(), "warm", &init);
    assert_eq!(warm.code, 0, "{}", warm.stderr);
    assert!(!warm.stderr.contains("random weights"), "{}", warm.stderr);

    // A finished run goes on to more epochs, and says that the result is not that of a longer run.
    let longer = protoseg_in(folder.path(), ["train", "--resume", "warm", "--epochs", "3"]);
    assert_eq!(longer.code, 0, "{}", longer.stderr);
    assert!(
        longer.stderr.contains("differs from that of an uninterrupted run of 3 epochs"),
        "{}",
        longer.stderr
    );
    assert!(longer.stderr.contains("resumed after step 3"), "{}", longer.stderr);
    assert_eq!(losses(&events(folder.path(), "warm")).len(), 9);
    let plan = fs::read_to_string(folder.path().join("warm/plan.toml")).unwrap();
    assert!(plan.contains("epochs = 3"), "{plan}");
    assert_eq!(protoseg_in(folder.path(), ["train", "--resume", "warm"]).code, 0);
    let shorter = protoseg_in(folder.path(), ["train", "--resume", "warm", "--epochs", "2"]);
    assert!(shorter.stderr.contains("`--epochs` must be at least 3"), "{}", shorter.stderr);
    let other = protoseg_in(folder.path(), ["train", "--resume", "warm", "--epochs", "4", "--lr", "1"]);
    assert!(other.code == 1 && other.stderr.contains("as it was planned"), "{}", other.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("warm/plan.toml")).unwrap(), plan);
    let other = train(folder.path(), "other", &[&init[..], &["--arch", "pspnet18"]].concat());
    assert_eq!(other.code, 1);
    for words in ["last.safetensors` holds weights of `resnet10`", "is `resnet18`", "--arch pspnet-resnet10"]
    {
        assert!(other.stderr.contains(words), "{}", other.stderr);
    }
    assert!(!other.stderr.contains("layer1"), "{}", other.stderr);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_protoseg"))
        .current_dir(folder.path())
        .args(["demo", "--train", "--quick"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let metrics = folder.path().join("demo/run/metrics.jsonl");
    wait_for(&metrics, &mut child);
    while fs::metadata(&metrics).unwrap().len() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the demo ended before its first event");
        std::thread::sleep(Duration::from_millis(20));
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("protoseg demo --train --out demo --force"), "{stderr}");
}

#[test]
fn a_bad_image_stops_the_run_or_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    let image = folder.path().join("data/images/stripes-05.png");
    let bytes = fs::read(&image).unwrap();
    fs::write(&image, &bytes[..bytes.len() / 2]).unwrap();
    let stopped = train(folder.path(), "run", &["--validation", "none"]);
    assert_eq!(stopped.code, 1);
    assert!(
        stopped.stderr.contains("stripes-05.png") && stopped.stderr.contains("--on-error skip"),
        "{}",
        stopped.stderr
    );
    let skipped = train(folder.path(), "run", &["--validation", "none", "--on-error", "skip", "--force"]);
    assert_eq!(skipped.code, 0, "{}", skipped.stderr);
    assert!(skipped.stderr.contains("stripes-05.png"), "{}", skipped.stderr);
}

#[test]
fn a_diverging_run_names_its_step_its_files_and_the_last_good_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    let answer = train(folder.path(), "run", &["--lr", "1e30"]);
    assert_eq!(answer.code, 1, "{}", answer.stdout);
    for word in ["diverged", "stripes-", "checkpoint", "--lr"] {
        assert!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
    }
}

#[test]
fn choosing_by_the_test_split_is_said_wherever_the_model_goes() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    let data = folder.path().join("data");
    let names: Vec<String> =
        (0..14).map(|i| format!("images/stripes-{i:02}.png masks/stripes-{i:02}.png\n")).collect();
    fs::write(data.join("train.txt"), names[..10].concat()).unwrap();
    fs::write(data.join("val.txt"), names[10..].concat()).unwrap();
    let spec = "name = \"stripes\"\nformat = \"list\"\nclasses = [\"background\", \"red\", \"green\", \"blue\"]\n\
        [splits]\ntrain = \"train.txt\"\nval = \"val.txt\"\n";
    fs::write(data.join("protoseg.toml"), spec).unwrap();
    let answer = train(folder.path(), "run", &["--validation", "val", "--epochs", "1"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("split `val`"), "{}", answer.stderr);
    let best = folder.path().join("run/best.safetensors");
    let info = protoseg(["info", best.to_str().unwrap()]);
    assert!(info.stdout.contains("split `val`"), "{}", info.stdout);
}

#[cfg(unix)]
#[test]
fn an_interrupt_saves_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    data_and_plan(folder.path());
    let mut child = spawn(folder.path(), "run");
    wait_for(&folder.path().join("run/checkpoints/step-00000002.safetensors"), &mut child);
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("--resume"), "{stderr}");
    assert_eq!(protoseg_in(folder.path(), ["train", "--resume", "run"]).code, 0);
}

#[test]
fn every_recipe_is_a_plan() {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let mut count = 0;
    for recipe in fs::read_dir(recipes).unwrap() {
        let recipe = recipe.unwrap().path();
        let answer = protoseg(["train", recipe.to_str().unwrap(), "--dry-run"]);
        assert_eq!(answer.code, 0, "{}: {}", recipe.display(), answer.stderr);
        count += 1;
    }
    assert!(count >= 19, "{count} recipes");
}

/// More epochs than a test waits for, so that it is met in the middle.
fn spawn(folder: &Path, out: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_protoseg"))
        .current_dir(folder)
        .args(["train", "plan.toml", "--out", out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn wait_for(file: &Path, child: &mut Child) {
    let started = Instant::now();
    while !file.exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "{} never came", file.display());
        assert!(child.try_wait().unwrap().is_none(), "the run ended before {}", file.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A plan that trains a tiny system for episodes on the same stripes.
fn episode_plan(folder: &Path, method: &str) {
    data_and_plan(folder);
    let text = format!(
        "task = \"fs-seg\"\nmethod = \"{method}\"\nseed = 3\n[data]\nsource = \"data\"\nworkers = 2\n\
        [network]\nencoder = \"resnet10\"\nwidth = 0.1\n[training]\nepochs = 3\nbatch = 2\nepisodes = 8\nshots = 2\n\
        crop = 33\nmin_pixels = 50\n[optimizer]\nlr = 0.002\n[augment]\nscale = [0.9, 1.1]\n\
        [validation]\nimages = 6\nshare = 0.2\n[checkpoint]\nevery = 3\n"
    );
    let options = if method == "pfenet" { "[options]\nbins = [1.0, 0.5]\n" } else { "" };
    fs::write(folder.join("plan.toml"), text + options).unwrap();
}

#[test]
fn a_run_on_episodes_resumes_to_the_same_weights() {
    for method in ["panet", "pfenet"] {
        let folder = tempfile::tempdir().unwrap();
        episode_plan(folder.path(), method);
        let whole = train(folder.path(), "whole", &[]);
        assert_eq!(whole.code, 0, "{}", whole.stderr);
        assert!(whole.stderr.contains("episodes of 2 shots: class mIoU"), "{}", whole.stderr);
        assert!(
            whole.stdout.contains("protoseg episodes --model whole/best.safetensors")
                || whole.stdout.contains("protoseg segment"),
            "{}",
            whole.stdout
        );

        // In the middle of an epoch.
        let killed = folder.path().join("killed");
        let mut child = spawn(folder.path(), "killed");
        wait_for(&killed.join("checkpoints/step-00000003.safetensors"), &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        let resumed = protoseg_in(folder.path(), ["train", "--resume", "killed"]);
        assert_eq!(resumed.code, 0, "{}", resumed.stderr);
        let read = |out: &str, file: &str| fs::read(folder.path().join(out).join(file)).unwrap();
        for file in ["last.safetensors", "best.safetensors", "samples/epoch-003.png"] {
            assert!(read("whole", file) == read("killed", file), "{method}: {file} differs");
        }
        let [whole, killed] = ["whole", "killed"].map(|out| events(folder.path(), out));
        assert_eq!(losses(&whole), losses(&killed));
        assert_eq!(losses(&whole).len(), 12);
        let validation = whole.iter().find(|event| event["event"] == "episode-validation").unwrap();
        assert_eq!((&validation["episodes"], &validation["shots"]), (&6.into(), &2.into()));
        assert!(validation["class_miou"].is_number() && validation["fb_iou"].is_number(), "{validation}");
        let info = protoseg(["info", folder.path().join("whole/best.safetensors").to_str().unwrap()]);
        assert!(info.stdout.contains("best class mIoU of base classes over 6 episodes"), "{}", info.stdout);
    }
}

#[test]
fn a_class_without_enough_images_for_an_episode_is_named() {
    let folder = tempfile::tempdir().unwrap();
    episode_plan(folder.path(), "panet");
    let answer = train(folder.path(), "run", &["--shots", "20"]);
    assert_eq!(answer.code, 1);
    for word in ["class `red`", "expected at least `21`", "20-shot", "hint:"] {
        assert!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
    }
    assert!(!folder.path().join("run/plan.toml").exists());
    let answer = train(folder.path(), "run", &["--method", "capl"]);
    assert!(
        answer.code == 1 && answer.stderr.contains("`--method` must be one of panet"),
        "{}",
        answer.stderr
    );
}

#[test]
fn a_system_without_a_recipe_is_trained_by_the_published_one() {
    let plan = |more: &[&str]| {
        let args = ["train", "--task", "fs-seg", "--method", "hsnet", "--dry-run"];
        let answer = protoseg(args.iter().chain(more));
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        answer.stdout
    };
    let published = plan(&[]);
    for line in ["source = \"pascal-5i\"", "novel_pixels = \"background\"", "batch = 20", "fit = \"squash\""]
    {
        assert!(published.contains(line), "{line}: {published}");
    }
    let own = plan(&["--data", "scenes", "--batch", "1"]);
    assert!(own.contains("batch = 1\n") && !own.contains("novel_pixels"), "{own}");
}

#[test]
fn a_model_is_the_start_of_another_and_says_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    episode_plan(folder.path(), "repri");
    let plan = folder.path().join("plan.toml");
    let repri = fs::read_to_string(&plan).unwrap().replace("[training]", "dim = 16\n[training]");
    fs::write(&plan, &repri).unwrap();
    let base = train(folder.path(), "base", &["--batch", "4", "--epochs", "1"]);
    assert_eq!(base.code, 0, "{}", base.stderr);

    // The encoder is the model's, down to its width.
    let next = repri.replace("encoder = \"resnet10\"\nwidth = 0.1\n", "");
    let start = |method: &str, out: &str| {
        fs::write(&plan, next.replace("\"repri\"", &format!("\"{method}\""))).unwrap();
        let answer = train(folder.path(), out, &["--init", "base/last.safetensors", "--epochs", "1"]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        answer.stderr
    };
    let cwt = start("cwt", "cwt");
    assert!(!cwt.contains("warning") && cwt.contains("width x 0.1"), "{cwt}");
    let tensor = |out: &str, name: &str| {
        let file =
            protoseg::weights::TensorFile::open(&folder.path().join(out).join("last.safetensors")).unwrap();
        file.read(name).unwrap()
    };
    let name = "encoder.layer1.0.conv1.weight";
    assert_eq!(tensor("base", name), tensor("cwt", name), "CWT's extractor is frozen");
    let capl = start("capl-panet", "capl");
    assert!(capl.contains("start fresh") && capl.contains("`decoder.weight`"), "{capl}");
}
