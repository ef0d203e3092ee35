//! Supports as people have them, registered through the binary with the tiny model of `novel`.

use std::fs;

use image::{GrayImage, Luma, Rgba, RgbaImage};
use protoseg::core::{Image, RowMap};
use protoseg_data::{
    mask::write_index_mask,
    picture::{read_image, write_image},
};
use serde_json::Value;

use crate::novel::Desk;

/// Of the mask of photo 2: x * 3 > 64 and y * 2 > 64.
const BOX: [u32; 4] = [22, 33, 42, 31];

/// What `register --json` answers about its only class, and the bytes of the pack.
fn registered(desk: &Desk, flags: &str, pack: &str) -> (Value, Vec<u8>) {
    let answer = desk.done(&format!("register --model model.safetensors {flags} -o {pack} --json"));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    (answer["registered"][0].clone(), fs::read(desk.path(pack)).unwrap())
}

fn texts(value: &Value) -> String {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

fn is_inside(x: u32, y: u32) -> bool {
    (BOX[0]..BOX[0] + BOX[2]).contains(&x) && (BOX[1]..BOX[1] + BOX[3]).contains(&y)
}

#[test]
fn soft_masks_and_cut_outs_are_the_mask_they_show() {
    let desk = Desk::new();
    let (_, expected) = registered(&desk, "--class swan=photo2.png:mask2.png", "pair.pack");

    // An edge that runs from dark gray outside to light gray inside.
    let shade = |x: u32, y: u32| match (is_inside(x, y), x.abs_diff(BOX[0])) {
        (true, 0..=1) => 180,
        (true, _) => 255,
        (false, 1) if is_inside(x + 1, y) => 90,
        (false, _) => 0,
    };
    GrayImage::from_fn(64, 64, |x, y| Luma([shade(x, y)])).save(desk.path("soft.png")).unwrap();
    let (report, pack) = registered(&desk, "--class swan=photo2.png:soft.png", "soft.pack");
    assert!(pack == expected, "cut at half");
    assert!(texts(&report["notes"]).contains("soft.png` has soft edges"), "{report}");

    // A mask whose alpha channel is what counts, and an image that is its own mask.
    let photo = read_image(desk.path("photo2.png")).unwrap();
    let cut_out = RgbaImage::from_fn(64, 64, |x, y| {
        let rgb = &photo.data[3 * (y as usize * 64 + x as usize)..][..3];
        Rgba([rgb[0], rgb[1], rgb[2], if is_inside(x, y) { 255 } else { 0 }])
    });
    cut_out.save(desk.path("cutout.png")).unwrap();
    let (report, pack) = registered(&desk, "--class swan=photo2.png:cutout.png", "alpha.pack");
    assert!(pack == expected && texts(&report["notes"]).contains("cut-out"), "{report}");
    fs::create_dir(desk.path("cut")).unwrap();
    fs::copy(desk.path("cutout.png"), desk.path("cut/photo2.png")).unwrap();
    for form in ["--class swan=cut/photo2.png", "--class swan=cut"] {
        let (report, pack) = registered(&desk, &format!("{form} --force"), "cut.pack");
        assert!(pack == expected, "{form}");
        assert_eq!(report["notes"], Value::Array(Vec::new()), "{form}");
    }
    let error = desk.refused("register --model model.safetensors --class swan=photo2.png -o x.pack");
    assert!(error.contains("photo2.png` of class `swan` has no mask") && error.contains("hint:"), "{error}");
}

#[test]
fn boxes_and_scribbles_are_weak_masks() {
    let desk = Desk::new();
    let (_, expected) = registered(&desk, "--class swan=photo2.png:mask2.png", "pair.pack");
    let [left, top, width, height] = BOX;
    let boxed = format!("photo2.png:box={left},{top},{width},{height}");
    let (report, pack) = registered(&desk, &format!("--class swan={boxed}"), "box.pack");
    assert!(pack == expected, "here the box is the mask");
    assert_eq!(report["weak"], 1);
    assert!(texts(&report["notes"]).contains("weak"), "{report}");
    let flags = format!("--class swan={boxed},photo0.png:mask0.png,photo1.png:scribble=mask1.png");
    let (report, _) = registered(&desk, &flags, "three.pack");
    assert_eq!((&report["shots"], &report["weak"]), (&3.into(), &2.into()));
    assert_eq!(report["leave_one_out_iou"].as_array().unwrap().len(), 1, "only a mask is compared with");
    let json = format!(r#"[{{"class": "swan", "image": "photo2.png", "box": {BOX:?}}}]"#);
    fs::write(desk.path("box.json"), json).unwrap();
    let (report, pack) = registered(&desk, "--supports box.json", "json.pack");
    assert!(pack == expected && report["weak"] == 1);
    let error = desk.refused("register --model model.safetensors --class swan=photo2.png:box=1,2 -o x.pack");
    assert!(error.contains("`1,2`") && error.contains("LEFT,TOP,WIDTH,HEIGHT"), "{error}");
}

#[test]
fn a_class_gets_more_photos() {
    let desk = Desk::new();
    let both = "--class duck=photo0.png:mask0.png,photo1.png:mask1.png";
    let (_, expected) = registered(&desk, both, "both.pack");
    desk.register("--class duck=photo0.png:mask0.png", "my.pack");
    desk.done("classes recolor my.pack duck #0a0b0c");
    let (report, _) = registered(&desk, "--add --class duck=photo1.png:mask1.png", "my.pack");
    assert_eq!(report["shots"], 2);
    assert!(desk.done("classes list my.pack").contains("#0a0b0c"), "its colour stays");
    desk.register("--class duck=photo0.png:mask0.png", "plain.pack");
    let (_, pack) = registered(&desk, "--add --class duck=photo1.png:mask1.png", "plain.pack");
    assert!(pack == expected, "as if all had been given at once");
    let (report, pack) = registered(&desk, "--add --class duck=photo1.png:mask1.png", "plain.pack");
    assert!(pack == expected, "what is there is not added again");
    assert!(texts(&report["warnings"]).contains("`photo1.png` of `duck` is in the pack already"), "{report}");
    let usage =
        desk.run("register --model model.safetensors --add --force --class duck=photo0.png:mask0.png -o x");
    assert_eq!(usage.code, 2);
}

#[test]
fn what_looks_like_a_mistake_is_warned_of() {
    let desk = Desk::new();
    write_index_mask(&desk.path("all.png"), &RowMap::new(64, 64, vec![1; 64 * 64])).unwrap();
    let flags = "--class swan=photo2.png:all.png,photo0.png:mask0.png,photo0.png:mask0.png";
    let (report, _) = registered(&desk, flags, "a.pack");
    let warnings = texts(&report["warnings"]);
    assert!(warnings.contains("mask of `photo2.png` covers the whole image"), "{warnings}");
    assert!(warnings.contains("only 2 of the 3 supports of `swan` differ: `photo0.png`"), "{warnings}");
    for (name, brand) in [("a.heic", "heic"), ("b.avif", "avif")] {
        fs::create_dir_all(desk.path("phone")).unwrap();
        fs::write(desk.path("phone").join(name), format!("\0\0\0\x18ftyp{brand}\0\0\0\0")).unwrap();
        fs::copy(desk.path("mask0.png"), desk.path("phone").join(name).with_extension("png")).unwrap();
    }
    let error = desk.refused("register --model model.safetensors --class swan=phone -o x.pack");
    assert!(error.contains("phone/a.heic` is HEIC, which is not read") && error.contains("hint:"), "{error}");
    let answer = desk.run("predict --model model.safetensors phone -o out");
    assert_eq!(answer.code, 1);
    assert!(
        answer.stderr.contains("a.heic") && answer.stderr.contains("b.avif` is AVIF"),
        "{}",
        answer.stderr
    );
}

#[test]
fn names_with_commas_and_colons_are_found() {
    let desk = Desk::new();
    let (_, expected) = registered(&desk, "--class swan=photo2.png:mask2.png", "pair.pack");
    fs::create_dir(desk.path("lake,dawn:1")).unwrap();
    fs::copy(desk.path("photo2.png"), desk.path("lake,dawn:1/photo2.png")).unwrap();
    fs::copy(desk.path("mask2.png"), desk.path("lake,dawn:1/m:2,3.png")).unwrap();
    let flags = "--class swan=lake,dawn:1/photo2.png:lake,dawn:1/m:2,3.png";
    assert!(registered(&desk, flags, "odd.pack").1 == expected);
}

/// Two photos with a swan in both and a boat in one, as four programs save them.
fn write_folders(desk: &Desk) {
    let file = |path: &str, text: &str| {
        fs::create_dir_all(desk.path(path).parent().unwrap()).unwrap();
        fs::write(desk.path(path), text).unwrap();
    };
    let photo = |path: &str, from: &str| {
        fs::create_dir_all(desk.path(path).parent().unwrap()).unwrap();
        fs::copy(desk.path(from), desk.path(path)).unwrap();
    };
    for (name, shapes) in [
        (
            "photo2",
            r#"{"label": "swan", "points": [[22, 33], [64, 64]], "shape_type": "rectangle"},
            {"label": "boat", "points": [[2, 2], [20, 20]], "shape_type": "rectangle"}"#,
        ),
        ("photo0", r#"{"label": "swan", "points": [[27, 31], [80, 60]], "shape_type": "rectangle"}"#),
    ] {
        photo(&format!("labelme/{name}.png"), &format!("{name}.png"));
        let json = format!(
            r#"{{"version": "5.0", "flags": {{}}, "shapes": [{shapes}], "imagePath": "{name}.png",
            "imageData": null, "imageHeight": 64, "imageWidth": 64}}"#
        );
        let json = if name == "photo0" {
            json.replace("\"imageHeight\": 64, \"imageWidth\": 64", "\"imageHeight\": 60, \"imageWidth\": 80")
        } else {
            json
        };
        file(&format!("labelme/{name}.json"), &json);
        photo(&format!("yolo/images/train/{name}.png"), &format!("{name}.png"));
        photo(&format!("coco/train/{name}.png"), &format!("{name}.png"));
        photo(&format!("cvat/JPEGImages/{name}.png"), &format!("{name}.png"));
    }
    file("yolo/data.yaml", "train: images/train\nnames: [boat, swan]\n");
    let corners = |[left, top, right, bottom]: [f64; 4], [width, height]: [f64; 2]| {
        let (l, t, r, b) = (left / width, top / height, right / width, bottom / height);
        format!("{l} {t} {r} {t} {r} {b} {l} {b}")
    };
    let (swan, boat) = (corners([22., 33., 64., 64.], [64.; 2]), corners([2., 2., 20., 20.], [64.; 2]));
    file("yolo/labels/train/photo2.txt", &format!("1 {swan}\n0 {boat}\n"));
    file("yolo/labels/train/photo0.txt", &format!("1 {}\n", corners([27., 31., 80., 60.], [80., 60.])));
    file(
        "coco/annotations/instances_train.json",
        r#"{"images": [{"id": 1, "file_name": "photo2.png", "width": 64, "height": 64},
                {"id": 2, "file_name": "photo0.png", "width": 80, "height": 60}],
            "categories": [{"id": 1, "name": "boat"}, {"id": 2, "name": "swan"}],
            "annotations": [
                {"id": 1, "image_id": 1, "category_id": 2, "segmentation": [[22, 33, 64, 33, 64, 64, 22, 64]]},
                {"id": 2, "image_id": 1, "category_id": 1, "segmentation": [[2, 2, 20, 2, 20, 20, 2, 20]]},
                {"id": 3, "image_id": 2, "category_id": 2, "segmentation": [[27, 31, 80, 31, 80, 60, 27, 60]]}]}"#,
    );
    file("cvat/labelmap.txt", "background:0,0,0::\nboat:0,0,200::\nswan:200,0,0::\n");
    file("cvat/ImageSets/Segmentation/default.txt", "photo2\nphoto0\n");
    fs::create_dir_all(desk.path("cvat/SegmentationClass")).unwrap();
    for (name, width, height, [left, top]) in [("photo2", 64, 64, [22, 33]), ("photo0", 80, 60, [27, 31])] {
        let colour = |at: usize| match (at % width, at / width) {
            (x, y) if x >= left && y >= top => [200, 0, 0],
            (x, y) if name == "photo2" && (2..20).contains(&x) && (2..20).contains(&y) => [0, 0, 200],
            _ => [0; 3],
        };
        let mask = Image::new(width, height, (0..width * height).flat_map(colour).collect());
        write_image(desk.path(&format!("cvat/SegmentationClass/{name}.png")), &mask).unwrap();
    }
}

#[test]
fn folders_of_several_classes_teach_every_class_that_is_new() {
    let desk = Desk::new();
    write_folders(&desk);
    let shown = |pack: &str| desk.done(&format!("classes list {pack} --json"));
    let mut lists = Vec::new();
    for folder in ["labelme", "yolo", "coco", "cvat"] {
        let pack = format!("{folder}.pack");
        let answer = desk.run(&format!("register --model model.safetensors --data {folder} -o {pack}"));
        assert_eq!(answer.code, 0, "{folder}: {}", answer.stderr);
        assert!(!answer.stderr.contains("fewer"), "{folder}: {}", answer.stderr);
        let mut list: Value = serde_json::from_str(&shown(&pack)).unwrap();
        let classes = list["classes"].take();
        assert_eq!((&classes[0]["name"], &classes[0]["shots"]), (&"boat".into(), &1.into()), "{folder}");
        assert_eq!((&classes[1]["name"], &classes[1]["shots"]), (&"swan".into(), &2.into()), "{folder}");
        assert_eq!(classes[1]["pixels"], 42 * 31 + 53 * 29, "{folder}");
        assert_eq!(classes[1]["base_classes_seen"], 0, "what is not labelled says nothing");
        lists.push(classes);
    }
    assert!(lists.iter().all(|list| *list == lists[0]));

    let few = desk.run("register --model model.safetensors --data yolo --shots 5 -o few.pack");
    assert!(few.stderr.contains("`boat` has fewer supports than asked for: 1 of 5"), "{}", few.stderr);
    let one = desk.done("register --model model.safetensors --data yolo --shots 1 -o one.pack --json");
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["registered"][1]["shots"], 1);
    desk.done("register --model model.safetensors --data yolo/data.yaml -o yaml.pack");
    assert!(fs::read(desk.path("yaml.pack")).unwrap() == fs::read(desk.path("yolo.pack")).unwrap());

    fs::write(desk.path("yolo/data.yaml"), "train: images/train\nnames: [cow, grass]\n").unwrap();
    let error = desk.refused("register --model model.safetensors --data yolo -o none.pack");
    assert!(error.contains("does not know") && error.contains("`cow`, `grass`"), "{error}");
}
