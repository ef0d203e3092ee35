//! `protoseg experiment`, start to end, on a few pictures of squares and discs.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{run::Folder, without_training::write_pictures};

/// A trained network and a frozen encoder with a head, each used in two ways.
const EXPERIMENT: &str = r#"
title = "Squares and discs"
task = "gfs-seg"
shots = [1, 2]
support_seeds = [1, 2]
min_support_pixels = 1

[recipe]
other = "plan.toml"

[models.baseline]
set = { method = "baseline" }

[models.head]
new = { novel_pixels = "ignore", size = 96, head = { steps = 4, batch = 2 } }
training_seeds = [1, 2]

[[rows]]
name = "Baseline"
model = "baseline"
use = "baseline"
paper.pascal-5i = { 1 = [60.47, 14.55, 49.54], 5 = [61.88, 16.68, 51.12] }

[[rows]]
name = "CAPL-Te"
model = "baseline"
use = "capl"

[[rows]]
name = "whitened"
model = "head"
use = "whitened"

[[rows]]
name = "product"
model = "head"
use = "product"
"#;

/// Trains a tiny network in a second.
const PLAN: &str = r#"
[data]
source = "data"
novel_pixels = "ignore"
[network]
encoder = "resnet10"
width = 0.1
dim = 16
[training]
epochs = 6
batch = 4
crop = 65
[validation]
on = "none"
[checkpoint]
every = 1
"#;

fn desk() -> Folder {
    let desk = Folder::new();
    write_pictures(&desk.path(""));
    fs::write(desk.path("mine.toml"), EXPERIMENT).unwrap();
    fs::write(desk.path("plan.toml"), PLAN).unwrap();
    desk
}

const RUN: &str = "experiment mine.toml --data data";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn results(desk: &Folder, out: &str) -> Vec<u8> {
    fs::read(desk.path(&format!("{out}/mine/results.json"))).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_table_is_one_command_and_reuses_what_is_there() {
    let desk = desk();
    let plan = desk.done(&format!("{RUN} -o out --dry-run"));
    assert!(plan.contains("to train") && plan.contains("to make, with a head"), "{plan}");
    assert!(plan.contains("6 of 6 cells left (3 models)"), "{plan}");
    assert!(!desk.path("out").exists(), "a dry run writes nothing");

    let printed = desk.done(&format!("{RUN} -o out"));
    assert!(printed.contains("Squares and discs: data, fold 0, protocol exact"), "{printed}");
    assert!(printed.contains("49.54") && printed.contains("paper (pascal-5i), 1-shot"), "{printed}");
    let results = json(&String::from_utf8(results(&desk, "out")).unwrap());
    assert_eq!(results["schema"], "protoseg.experiment-results/1");
    let rows = results["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["mean"].as_array().unwrap().len() == 2), "{results}");
    assert_eq!(rows[1]["usage"], "capl (reference)");
    assert_eq!(rows[0]["folds"][0]["training_seeds"], serde_json::json!([321]));
    assert_eq!(rows[3]["folds"][0]["training_seeds"], serde_json::json!([1, 2]));
    let total = &rows[3]["mean"][0]["scores"]["total"];
    assert!(total["over_draws"].is_number() && total["over_training"].is_number(), "{total}");
    for file in ["results.md", "results.tex", "results.csv", "report.html"] {
        let text = fs::read_to_string(desk.path(&format!("out/mine/{file}"))).unwrap();
        assert!(text.contains("49.54"), "{file} has the paper's numbers: {text}");
    }
    let markdown = fs::read_to_string(desk.path("out/mine/results.md")).unwrap();
    assert!(markdown.contains("`protoseg experiment mine.toml --data data`"), "{markdown}");
    assert_eq!(names(&desk.path("out/models")).len(), 3, "rows share their models");

    // A second time there is nothing to do. Another row of the same model is only evaluated.
    let answer = desk.run(&format!("{RUN} -o out"));
    assert!(!answer.stderr.contains("made in"), "{}", answer.stderr);
    let more = format!("{EXPERIMENT}\n[[rows]]\nname = \"cosine\"\nmodel = \"head\"\nuse = \"cosine\"\n");
    fs::write(desk.path("mine.toml"), more).unwrap();
    let plan = json(&desk.done(&format!("{RUN} -o out --dry-run --json")));
    assert_eq!((&plan["cells"], &plan["cells_left"]), (&8.into(), &2.into()), "{plan}");
    let states: Vec<&Value> =
        plan["models"].as_array().unwrap().iter().map(|model| &model["state"]).collect();
    assert!(states.iter().all(|state| **state == "there"), "{plan}");
    assert!(plan["seconds_left"].as_f64().is_some(), "{plan}");
    // Another number of epochs is another model.
    let plan = json(&desk.done(&format!("{RUN} -o out --epochs 2 --only Baseline --dry-run --json")));
    assert_eq!((&plan["cells_left"], &plan["models"][0]["state"]), (&1.into(), &"to train".into()), "{plan}");
}

#[test]
fn a_killed_experiment_goes_on_to_the_same_results() {
    let desk = desk();
    desk.done(&format!("{RUN} -o whole"));
    // Killed in the training, and once more with the head.
    for wanted in ["checkpoints", "cells"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_protoseg"))
            .current_dir(desk.path(""))
            .args(format!("{RUN} -o killed").split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while !is_there(&desk.path("killed"), wanted) && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(60), "no {wanted}");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    desk.done(&format!("{RUN} -o killed"));
    assert!(results(&desk, "killed") == results(&desk, "whole"), "the same bytes");
}

/// Whether a checkpoint, or a cell, is written.
fn is_there(out: &Path, wanted: &str) -> bool {
    let files = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    match wanted {
        "cells" => files(&out.join("cells")) > 0,
        _ => fs::read_dir(out.join("models"))
            .is_ok_and(|mut models| models.any(|model| files(&model.unwrap().path().join(wanted)) > 0)),
    }
}

#[test]
fn parts_of_an_experiment_merge_to_the_whole() {
    let desk = desk();
    desk.done(&format!("{RUN} -o whole"));
    for part in ["1/2", "2/2"] {
        let out = &part[..1];
        let answer = desk.run(&format!("{RUN} -o part{out} --shard {part} --cache shared"));
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        assert!(answer.stderr.contains("are missing"), "a part says what it lacks: {}", answer.stderr);
    }
    let answer = desk.run(&format!("{RUN} -o all --merge part1 part2"));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(!desk.path("all/models").exists(), "nothing is trained");
    assert!(results(&desk, "all") == results(&desk, "whole"), "the same bytes");
    // Kept features change nothing, and neither does a damaged file among them.
    let kept = names(&desk.path("shared"));
    let folder = desk.path("shared").join(&kept[0]);
    for file in names(&folder) {
        fs::write(folder.join(file), b"damaged").unwrap();
    }
    desk.done(&format!("{RUN} -o again --cache shared"));
    desk.done(&format!("{RUN} -o without --cache none"));
    assert!(results(&desk, "again") == results(&desk, "whole"));
    assert!(results(&desk, "without") == results(&desk, "whole"));
    assert!(!desk.path("without/features").exists());
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_written() {
    let desk = desk();
    let list = desk.done("experiment");
    assert!(list.contains("fs-in-gfs") && list.contains("Heads on a frozen encoder"), "{list}");
    let unknown = desk.refused("experiment strategy --data data");
    assert!(unknown.contains("no experiment `strategy`") && unknown.contains("strategies"), "{unknown}");
    let refused = |from: &str, to: &str, words: &[&str]| {
        assert!(EXPERIMENT.contains(from), "{from}");
        fs::write(desk.path("bad.toml"), EXPERIMENT.replace(from, to)).unwrap();
        let error = desk.refused("experiment bad.toml --data data -o out --dry-run");
        for word in words.iter().chain(&["hint:"]) {
            assert!(error.contains(word), "{word} is not in: {error}");
        }
    };
    refused("title =", "titel =", &["bad.toml", "line 2", "titel", "--print"]);
    refused("model = \"head\"", "model = \"haed\"", &["bad.toml", "`haed`", "baseline, head"]);
    refused("other = \"plan.toml\"", "other = \"paln.toml\"", &["`paln.toml`", "scenes-small"]);
    refused("method = \"baseline\"", "method = \"baslein\"", &["bad.toml", "baslein"]);
    refused("[60.47, 14.55, 49.54]", "[60.47]", &["`Baseline`", "base, novel and total"]);
    let wrong = desk.refused(&format!("{RUN} --only CAPL --dry-run"));
    assert!(wrong.contains("`CAPL`") && wrong.contains("CAPL-Te"), "{wrong}");
    let wrong = desk.refused(&format!("{RUN} --shard 3/2 --dry-run"));
    assert!(wrong.contains("`--shard`") && wrong.contains("`3/2`"), "{wrong}");
    let wrong = desk.refused(&format!("{RUN} --folds 4 --dry-run"));
    assert!(wrong.contains("fold `4`"), "{wrong}");
    let wrong = desk.refused("experiment heads");
    assert!(wrong.contains("--data"), "{wrong}");
    assert!(!desk.path("out").exists() && !desk.path("experiments").exists());
    // A use that the model does not have is found when the model is there.
    fs::write(desk.path("bad.toml"), EXPERIMENT.replace("use = \"whitened\"", "use = \"whitend\"")).unwrap();
    let error = desk.refused("experiment bad.toml --data data -o out --only head --training-seeds 1");
    assert!(error.contains("`whitend`") && error.contains("cosine, whitened"), "{error}");
}

#[test]
fn a_system_for_episodes_is_tested_in_both_settings_with_one_training() {
    let desk = desk();
    let plan =
        PLAN.replace("encoder =", "freeze_batch_norm = true\nencoder =").replace("epochs = 6", "epochs = 1");
    let plan = format!("task = \"fs-seg\"\nmethod = \"panet\"\n{plan}")
        .replace("batch = 4", "batch = 2\nmin_pixels = 1");
    fs::write(desk.path("panet.toml"), plan).unwrap();
    let table = |task: &str, more: &str| {
        format!(
            "title = \"PANet\"\ntask = \"{task}\"\nshots = [1, 2]\nsupport_seeds = [1]\nmin_support_pixels = 1\n{more}\n\
             [models.panet]\nrecipe = \"panet.toml\"\n[[rows]]\nname = \"PANet\"\nmodel = \"panet\"\n"
        )
    };
    fs::write(desk.path("episodes.toml"), table("fs-seg", "episodes = { episodes = 4, runs = 2 }")).unwrap();
    fs::write(desk.path("fed.toml"), table("gfs-seg", "")).unwrap();
    let results = json(&desk.done("experiment episodes.toml --data data -o out --json"));
    let scores = &results["rows"][0]["mean"][1]["scores"];
    assert!(
        scores["class_miou"]["mean"].is_number() && scores["fb_iou"]["over_draws"].is_number(),
        "{results}"
    );
    let markdown = fs::read_to_string(desk.path("out/episodes/results.md")).unwrap();
    assert!(
        markdown.contains("episodes in the style `pfenet`") && markdown.contains("class mIoU"),
        "{markdown}"
    );
    let plan = desk.done("experiment fed.toml --data data -o out --dry-run");
    assert!(plan.contains("there") && plan.contains("1 of 1 left"), "{plan}");
    let results = json(&desk.done("experiment fed.toml --data data -o out --json"));
    assert_eq!(results["rows"][0]["usage"], "panet (all prototypes fed)");
    assert!(results["rows"][0]["mean"][0]["scores"]["total"]["mean"].is_number(), "{results}");
}
