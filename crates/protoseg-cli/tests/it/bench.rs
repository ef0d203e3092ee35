//! `protoseg bench` on networks small enough to wait for.

use std::path::Path;

use serde_json::Value;

use crate::run::protoseg_in;

fn bench(arguments: &str) -> Value {
    let words = arguments.split_whitespace();
    let answer = protoseg_in(Path::new("."), ["bench"].into_iter().chain(words).chain(["--json"]));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    serde_json::from_str(&answer.stdout).unwrap()
}

fn number(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"))
}

#[test]
fn every_bench_gives_medians_and_memory() {
    let inference = bench("inference --arch fcn10 --size 65 --runs 3 --classes 40");
    let train = bench("train --arch fcn10 --size 33 --batch 2 --runs 2");
    let register = bench("register --arch pspnet10 --size 65 --classes 2 --shots 2 --image 40");
    for (name, report) in [("inference", &inference), ("train", &train), ("register", &register)] {
        assert_eq!(report["schema"], "protoseg.bench/1");
        assert_eq!(report["bench"], name);
        let (median, least) = (number(report, "median_ms"), number(report, "min_ms"));
        assert!(0.0 < least && least <= median, "{report}");
        assert!(number(report, "peak_memory_bytes") > 1e6);
        assert!(number(report, "threads") >= 1.0);
    }
    assert_eq!([&inference["runs"], &train["runs"], &register["runs"]], [3, 2, 10]);
    let parts = ["features_ms", "scores_ms", "labels_ms"].map(|part| number(&inference, part));
    assert!(parts.iter().all(|&ms| ms > 0.0), "{inference}");
    assert!(number(&train, "images_per_second") > 0.0 && number(&register, "bank_ms") > 0.0);
    assert!(number(&register, "whole_s") > 0.0);
}

#[test]
fn episodes_are_timed_whole_and_in_parts() {
    let report = bench("episodes --method hsnet --backbone resnet50 --size 65 --shots 2 --runs 2");
    assert_eq!([&report["method"], &report["bench"]], ["hsnet", "episodes"]);
    assert_eq!([&report["size"], &report["shots"], &report["runs"]], [65, 2, 2]);
    let [whole, encode, answer] =
        ["milliseconds", "encode_milliseconds", "answer_milliseconds"].map(|part| number(&report, part));
    assert!(encode > 0.0 && answer > 0.0 && whole >= encode.max(answer), "{report}");
    assert!(number(&report, "peak_memory_bytes") > 1e6 && number(&report, "threads") >= 1.0);
}

#[test]
fn layers_are_named_and_beside_the_peak() {
    let report = bench("layers --arch pspnet10 --size 65 --runs 2");
    let peak = number(&report, "peak_gflops");
    assert!(peak > 0.1, "{report}");
    let layers = report["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["name"] == "layer4.0.conv2"), "{report}");
    assert!(layers.iter().all(|layer| number(layer, "median_ms") >= 0.0));
    let sum: f64 = layers.iter().map(|layer| number(layer, "median_ms")).sum();
    assert!((sum - number(&report, "median_ms")).abs() < 0.1 * sum + 0.1, "{report}");
    let speedups = report["speedups"].as_array().unwrap();
    let is_possible = |speedup| (1.0..=number(speedup, "threads")).contains(&number(speedup, "times"));
    assert!(speedups.len() > 3 && speedups.iter().all(is_possible), "{report}");
    let text =
        protoseg_in(Path::new("."), ["bench", "layers", "--arch", "pspnet10", "--size", "65", "--runs", "1"]);
    assert!(text.stdout.contains("% of peak") && text.stdout.contains("decoder.ppm"), "{}", text.stdout);
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    let refuse = |arguments: &str, words: &str| {
        let answer = protoseg_in(Path::new("."), ["bench"].into_iter().chain(arguments.split_whitespace()));
        assert_ne!(answer.code, 0);
        assert!(answer.stderr.contains(words), "{}", answer.stderr);
    };
    refuse("inference --arch unet50", "unet50");
    refuse("inference --arch fcn10 --size 65 --classes 3", "16 base classes");
    refuse("layers --model nowhere.safetensors", "nowhere.safetensors");
    refuse("train --size 8", "8");
    refuse("episodes --method unet", "hsnet");
    refuse("episodes --method hsnet --backbone vgg19", "vgg19");
}
