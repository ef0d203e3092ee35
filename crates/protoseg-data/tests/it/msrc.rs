//! MSRC-21: our figures compared with an independent count.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use protoseg_core::{NovelPixels, SUPPORT_SEEDS};
use protoseg_data::{
    Benchmark, CheckOptions, check, quiet, read_supports, resolve_supports, save_supports, scan,
};
use protoseg_testing::shared;

use crate::fixture::Folder;

/// (class, usable supports with at least 2000 pixels) in ascending order of id.
type Supports = [(&'static str, usize); 5];

/// Of 296 training images: kept under `drop`, kept under `ignore`, supports. From a script that decodes the PNGs
/// itself.
const FIGURES: [(usize, usize, Supports); 3] = [
    (195, 280, [("cow", 22), ("car", 21), ("bird", 17), ("book", 19), ("boat", 14)]),
    (203, 282, [("sheep", 17), ("face", 16), ("bicycle", 16), ("sign", 15), ("cat", 12)]),
    (205, 279, [("aeroplane", 15), ("flower", 16), ("chair", 15), ("dog", 13), ("body", 28)]),
];

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn figures_of_every_fold_agree_with_the_known_ones() {
    let root = shared("data/msrc");
    let benchmark = Benchmark::open("msrc", Some(&root)).unwrap();
    assert_eq!((benchmark.train.as_str(), benchmark.val.as_deref()), ("train", Some("test")));
    let report = check(&benchmark, CheckOptions::default(), &quiet);
    assert_eq!(report.problems, []);
    assert_eq!(report.notes, []);
    assert_eq!((report.samples, report.splits[0].images, report.splits[1].images), (591, 296, 295));
    assert_eq!(report.splits[0].classes[1].pixels, 4_015_250, "grass");
    assert_eq!(report.splits[1].ignored_pixels, 4_228_466);
    assert_eq!(report.folds.len(), 3);
    for (fold, (drop, ignore, supports)) in report.folds.iter().zip(FIGURES) {
        let kept: Vec<_> = fold.base_training.iter().map(|rule| (rule.novel_pixels, rule.kept)).collect();
        assert_eq!(kept, [(NovelPixels::Drop, drop), (NovelPixels::Ignore, ignore)], "fold {}", fold.fold);
        let usable: Vec<_> = fold.supports.iter().map(|class| (class.class.as_str(), class.usable)).collect();
        assert_eq!(usable, supports, "fold {}", fold.fold);
        assert_eq!((fold.val_images, fold.val_kept), (295, 295));
    }
    let body = &report.folds[2].supports[4];
    assert_eq!((body.images, body.pool, body.other_novel, body.too_small), (32, 28, 0, 0));
}

/// Pixels of each value in a mask.
type Counts = HashMap<u8, u64>;

/// Counts without our code: another PNG decoder, sets instead of tables.
fn count_naively(root: &Path) -> (Vec<Counts>, Vec<HashSet<u8>>) {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let names: Vec<String> = read("classes.txt").lines().map(str::to_string).collect();
    let ids = |line: &str| {
        line.split(' ').map(|name| names.iter().position(|other| other == name).unwrap() as u8).collect()
    };
    let folds = read("folds.txt").lines().map(ids).collect();
    let list = read("train.txt");
    let images = list.lines().map(|line| {
        let label = line.split(' ').nth(1).unwrap();
        let mut counts = [0; 256];
        for value in image::open(root.join(label)).unwrap().to_luma8().into_raw() {
            counts[usize::from(value)] += 1;
        }
        (0..=255).zip(counts).filter(|(_, count)| *count > 0).collect()
    });
    (images.collect(), folds)
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn figures_agree_with_a_naive_count() {
    let root = shared("data/msrc");
    let (images, folds) = count_naively(&root);
    let report = check(&Benchmark::folder(&root).unwrap(), CheckOptions { images: false }, &quiet);
    for (fold, novel) in report.folds.iter().zip(folds) {
        let holds = |counts: &Counts| counts.keys().any(|id| novel.contains(id));
        let base = |counts: &Counts| counts.keys().any(|id| *id != 255 && !novel.contains(id));
        let drop = images.iter().filter(|counts| !holds(counts) && base(counts)).count();
        let ignore = images.iter().filter(|counts| base(counts)).count();
        assert_eq!([fold.base_training[0].kept, fold.base_training[1].kept], [drop, ignore]);
        let mut classes: Vec<u8> = novel.iter().copied().collect();
        classes.sort_unstable();
        for (class, supports) in classes.into_iter().zip(&fold.supports) {
            let usable = images.iter().filter(|counts| {
                let present: Vec<&u8> = counts.keys().filter(|id| novel.contains(id)).collect();
                present == [&class] && counts[&class] >= 2000
            });
            assert_eq!(supports.usable, usable.count(), "{}", supports.class);
        }
    }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn supports_are_drawn_saved_and_replayed() {
    let root = shared("data/msrc");
    let benchmark = Benchmark::folder(&root).unwrap();
    let dataset = benchmark.dataset.as_ref();
    let stats = scan(dataset, &benchmark.train).unwrap();
    let folder = Folder::new();
    for (fold, seeds) in
        benchmark.folds.iter().zip([&SUPPORT_SEEDS[..2], &SUPPORT_SEEDS[2..4], &SUPPORT_SEEDS[4..]])
    {
        for &seed in seeds {
            let draw = benchmark.support_draw(5, seed);
            let (list, samples) = stats.draw_supports(dataset, fold, draw).unwrap();
            for (&class, samples) in fold.novel().iter().zip(&samples) {
                assert_eq!(samples.iter().collect::<HashSet<_>>().len(), 5, "distinct");
                for &sample in samples {
                    let map = dataset.labels(sample).unwrap().map;
                    assert!(map.data.iter().filter(|&&label| label == class.0).count() >= 2000);
                    assert!(fold.novel().iter().all(|&other| other == class || !map.data.contains(&other.0)));
                }
            }
            let path = folder.path().join("supports.json");
            save_supports(&path, &list).unwrap();
            let read = read_supports(&path).unwrap();
            assert_eq!(read, list);
            assert_eq!(resolve_supports(dataset, fold, &read).unwrap(), samples);
        }
    }
    // A draw is part of every published result, so it must never change.
    let draw = benchmark.support_draw(1, 123);
    let (list, _) = stats.draw_supports(dataset, &benchmark.folds[0], draw).unwrap();
    let first: Vec<_> = list.classes.iter().map(|class| class.samples[0].as_str()).collect();
    assert_eq!(
        first,
        [
            "images/5_17_s.jpg",
            "images/7_9_s.jpg",
            "images/18_25_s.jpg",
            "images/13_19_s.jpg",
            "images/20_7_s.jpg"
        ]
    );
    let by_hand =
        folder.write("hand.json", r#"{"classes": [{"class": "cow", "samples": ["images/1_1_s.jpg"]}]}"#);
    let error =
        resolve_supports(dataset, &benchmark.folds[0], &read_supports(&by_hand).unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("the support list has no support for class `car`"), "{error}");
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn kept_images_load_in_rows() {
    let root = shared("data/msrc");
    let benchmark = Benchmark::folder(&root).unwrap();
    let table = benchmark.dataset.classes();
    let fold = benchmark.fold(0).unwrap();
    let stats = scan(benchmark.dataset.as_ref(), "train").unwrap();
    let kept = stats.for_base_training(table, fold, NovelPixels::Drop);
    assert_eq!(kept.len(), 195);
    let remap = protoseg_core::Remap::for_base_training(table, fold, NovelPixels::Drop).unwrap();
    for &index in kept.iter().take(5) {
        let (_, rows) = benchmark.load_rows(index, &remap).unwrap();
        assert!(rows.present().iter().all(|&row| row < 16));
    }
    let novel = (0..296).find(|index| !kept.contains(index)).unwrap();
    let error = benchmark.load_rows(novel, &remap).unwrap_err().to_string();
    assert!(error.contains("which is novel in this fold") && error.contains("hint: "), "{error}");
    assert!(benchmark.fold(3).unwrap_err().to_string().contains("choose a fold from 0 to 2"));
}
