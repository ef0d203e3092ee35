//! Models without training, start to end: the model in the box, and one made of a small data set.

use std::{fs, path::Path};

use protoseg::core::{IdMap, Image};
use protoseg_data::{
    mask::{read_index_mask, write_index_mask},
    picture::write_image,
};
use serde_json::Value;

use crate::run::Folder;

const SIDE: usize = 96;

/// What is at a pixel of picture `number`: 0 background, 1 a square, 2 a disc.
fn label(number: usize, x: usize, y: usize) -> u16 {
    let (left, top) = (8 + 3 * number, 10 + number);
    let (dx, dy) = (x as f64 - 70.0 + number as f64, y as f64 - 66.0);
    if (left..left + 34).contains(&x) && (top..top + 34).contains(&y) {
        1
    } else if dx.hypot(dy) < 20.0 {
        2
    } else {
        0
    }
}

fn color(number: usize, x: usize, y: usize) -> [u8; 3] {
    match label(number, x, y) {
        0 => [(90 + x / 3) as u8, (140 + y / 4) as u8, 60],
        1 => [220, if (x / 4 + y / 4).is_multiple_of(2) { 30 } else { 200 }, (10 * number) as u8],
        _ => [30, (40 + 3 * (x % 9)) as u8, 210],
    }
}

/// A folder of labelled pictures, of which the disc is novel, and a mask of each disc.
pub fn write_pictures(root: &Path) {
    for folder in ["data/images", "data/labels", "discs"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let pixels = || (0..SIDE * SIDE).map(|at| (at % SIDE, at / SIDE));
    for number in 0..8 {
        let image = Image::new(SIDE, SIDE, pixels().flat_map(|(x, y)| color(number, x, y)).collect());
        write_image(root.join(format!("data/images/{number}.png")), &image).unwrap();
        let labels = IdMap::new(SIDE, SIDE, pixels().map(|(x, y)| label(number, x, y)).collect());
        write_index_mask(&root.join(format!("data/labels/{number}.png")), &labels).unwrap();
        let disc = |(x, y)| u16::from(label(number, x, y) == 2);
        let disc = IdMap::new(SIDE, SIDE, pixels().map(disc).collect());
        write_index_mask(&root.join(format!("discs/{number}.png")), &disc).unwrap();
    }
    let list = |numbers: std::ops::Range<usize>| -> String {
        numbers.map(|number| format!("images/{number}.png labels/{number}.png\n")).collect()
    };
    fs::write(root.join("data/classes.txt"), "background\nsquare\ndisc\n").unwrap();
    fs::write(root.join("data/folds.txt"), "disc\n").unwrap();
    fs::write(root.join("data/train.txt"), list(0..5)).unwrap();
    fs::write(root.join("data/test.txt"), list(5..8)).unwrap();
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_box_is_taught_and_predicts_without_a_model_s_name() {
    let desk = Folder::new();
    write_pictures(&desk.path(""));
    let class = "disc=data/images/0.png:discs/0.png,data/images/3.png:discs/3.png";
    let told = desk.done(&format!("register --class {class} -o my.pack"));
    assert!(told.contains("protoseg predict --pack my.pack IMAGES -o OUT"), "{told}");
    desk.done("predict --pack my.pack data/images/6.png -o out");
    let found = read_index_mask(&desk.path("out/index/6.png")).unwrap();
    let (mut both, mut either) = (0, 0);
    for (at, &row) in found.data.iter().enumerate() {
        let (found, there) = (row == 1, label(6, at % SIDE, at / SIDE) == 2);
        both += usize::from(found && there);
        either += usize::from(found || there);
    }
    assert!(both * 10 > either * 7, "IoU {both} / {either}");

    let scored = json(&desk.done("eval --pack my.pack --data data -o scored --json"));
    assert!(scored["taught"].as_f64().unwrap() > 70.0, "{scored}");
    assert!(scored["base_before"].is_null(), "the box knows no class: {scored}");
    let report = fs::read_to_string(desk.path("scored/report.html")).unwrap();
    assert!(report.contains("(d) after") && report.contains("taught classes: "), "pictures and summary");
    let lessons = json(
        &desk.done("eval --data data --classes disc --shots 1 --seeds 1,2 --min-pixels 1 -o lessons --json"),
    );
    assert_eq!(lessons["schema"], "protoseg.taught/1");
    assert!(lessons["rows"][0]["mean_iou"]["mean"].as_f64().unwrap() > 50.0, "{lessons}");
    let wrong = desk.refused("register --class x=data/images/1.png:discs/1.png --rest no -o my.pack");
    assert!(wrong.contains("`--rest` must be `background` or `ignore`, got `no`"), "{wrong}");
    let wrong = desk.refused("eval --data data --classes dics -o more");
    assert!(wrong.contains("has no class `dics`"), "{wrong}");
}

#[test]
fn a_model_of_a_small_data_set_knows_its_base_classes_and_learns_another() {
    let desk = Folder::new();
    write_pictures(&desk.path(""));
    let told =
        desk.done("new --data data --novel-pixels ignore --size 96 --head --steps 6 -o mine.safetensors");
    assert!(told.contains("2 base classes -> mine.safetensors"), "{told}");
    let results = json(
        &desk
            .done("eval --model mine.safetensors --data data --shots 1 --seeds 1 --min-pixels 1 -o r --json"),
    );
    let rows = results["rows"].as_array().unwrap();
    let variants: Vec<&str> = rows.iter().map(|row| row["variant"].as_str().unwrap()).collect();
    assert_eq!(variants, ["cosine", "whitened", "head", "product", "product+prior"]);
    let whitened = &rows[1];
    assert!(whitened["base_before"].as_f64().unwrap() > 60.0, "{whitened}");
    assert!(whitened["novel"]["mean"].as_f64().unwrap() > 50.0, "{whitened}");
    let report = fs::read_to_string(desk.path("r/report.html")).unwrap();
    assert!(report.contains("reliability diagram") && rows[4]["confidence"]["ece"].is_f64(), "{}", rows[4]);

    // It was calibrated when it was made; a model that was not has to be before a precision can be asked for.
    let precise = "predict data/images/6.png --precision 0.9 --force -o precise";
    desk.done(&format!("{precise} --model mine.safetensors"));
    let wrong = desk.refused(precise);
    assert!(
        wrong.contains("is not calibrated for this use") && wrong.contains("protoseg calibrate"),
        "{wrong}"
    );
    let wrong = desk.refused("predict --model mine.safetensors data/images/6.png --precision 7 -o x");
    assert!(wrong.contains("`--precision 7` is not between 0 and 1"), "{wrong}");
    let told = json(&desk.done("calibrate mine.safetensors --data data -o again.safetensors --json"));
    assert!(told["temperature"].as_f64().unwrap() > 0.0 && told["images"] == 5, "{told}");

    let wrong = desk.refused("calibrate mine.safetensors --data scenes -o other.safetensors");
    assert!(wrong.contains("do not have the same base classes"), "{wrong}");

    desk.done("new --encoder efficientnet-lite0 --size 96 -o named.safetensors");
    desk.done("new --size 96 -o unnamed.safetensors");
    let bytes = |name: &str| fs::read(desk.path(name)).unwrap();
    assert!(bytes("named.safetensors") == bytes("unnamed.safetensors"), "the encoder in the box has a name");
    let wrong = desk.refused("new --data data --size 96 -o mine.safetensors");
    assert!(wrong.contains("mine.safetensors"), "{wrong}");
    let wrong = desk.refused("predict --model mine.safetensors data/images/6.png --preset balanced -o out");
    assert!(wrong.contains("not trained by CAPL"), "{wrong}");
}

#[test]
fn a_head_on_a_frozen_encoder_is_a_run_that_resumes_to_the_same_bytes() {
    let desk = Folder::new();
    write_pictures(&desk.path(""));
    let data = "--data data --novel-pixels ignore --size 96 --crop 64 --validation none";
    desk.done(&format!("train --freeze encoder {data} --epochs 3 --batch 2 --plain --out run"));
    let whole = fs::read(desk.path("run/last.safetensors")).unwrap();
    assert!(desk.path("run/curves.svg").is_file(), "everything that a run has");

    // As if the last epoch had been interrupted.
    let mut checkpoints: Vec<_> =
        fs::read_dir(desk.path("run/checkpoints")).unwrap().map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    let newest = checkpoints.pop().unwrap();
    if newest.is_dir() { fs::remove_dir_all(&newest) } else { fs::remove_file(&newest) }.unwrap();
    assert!(!checkpoints.is_empty(), "an earlier checkpoint is kept");
    fs::remove_file(desk.path("run/last.safetensors")).unwrap();
    desk.done("train --resume run --plain");
    assert!(fs::read(desk.path("run/last.safetensors")).unwrap() == whole, "the same bytes");

    let results = json(&desk.done(
        "eval --model run/last.safetensors --data data --shots 1 --seeds 1 --min-pixels 1 -o r --json",
    ));
    let variants: Vec<&str> =
        results["rows"].as_array().unwrap().iter().map(|row| row["variant"].as_str().unwrap()).collect();
    assert_eq!(variants, ["cosine", "whitened", "head", "product", "product+prior"]);
    let wrong = desk.refused("train --freeze encoder --data data --arch pspnet50 --out other");
    assert!(wrong.contains("`--arch` must be left out"), "{wrong}");
    let wrong = desk.refused("train --freeze decoder --data data --out other");
    assert!(wrong.contains("`--freeze` must be `encoder`, got `decoder`"), "{wrong}");
}
