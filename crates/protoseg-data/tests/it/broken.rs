//! Broken inputs give errors that name the file and the fix.

use std::path::Path;

use protoseg_core::{ClassTable, IdMap};
use protoseg_data::picture::read_image;
use protoseg_data::reader::coco::{self, find_splits};
use protoseg_data::reader::folder::{self, FolderOptions};
use protoseg_data::reader::list::{self, ListOptions};
use protoseg_data::reader::{labelme, yolo};
use protoseg_data::{Benchmark, CheckOptions, DataError, Dataset, MaskDataset, MaskKind, check, quiet};

use crate::fixture::{Folder, gradient, scene};

/// Asserts that an error begins and hints as a person needs it.
fn assert_says(error: &DataError, parts: &[&str]) {
    let text = error.to_string();
    assert!(text.contains("\nhint: "), "no hint: {text}");
    assert!(!text.ends_with('.'), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

fn open_list(root: &Path, list: &str) -> Result<MaskDataset, DataError> {
    list::open(ListOptions {
        name: "farm".to_string(),
        image_root: root.to_path_buf(),
        label_root: root.to_path_buf(),
        lists: vec![("train".to_string(), root.join(list))],
        classes: ClassTable::from_names(&["background", "cow", "duck"], &[255]).unwrap(),
        masks: MaskKind::Index,
    })
}

#[test]
fn a_jpeg_cut_short_is_named_and_not_filled_with_gray() {
    let folder = Folder::new();
    let whole = std::fs::read(folder.picture("whole.jpg", &gradient(200, 100))).unwrap();
    assert!(read_image(folder.path().join("whole.jpg")).is_ok());
    for keep in [whole.len() - 2, whole.len() / 2, 300] {
        let path = folder.write("cut.jpg", &whole[..keep]);
        let error = read_image(&path).unwrap_err();
        assert_says(&error, &["cut.jpg", "copy or download it again"]);
        assert_eq!(error.kind(), "unreadable");
    }
}

#[test]
fn a_jpeg_with_damaged_pixels_is_named_and_nothing_panics() {
    let whole = include_bytes!("../data/jpeg_420.jpg");
    let folder = Folder::new();
    // Pixels come last; an early end mark leaves out their second half.
    let start = whole.windows(2).rposition(|marker| marker == [0xFF, 0xDA]).unwrap() + 14;
    let middle = (start + whole.len()) / 2;
    let path = folder.write("half.jpg", [&whole[..middle], &[0xFF, 0xD9]].concat());
    assert_says(
        &read_image(&path).unwrap_err(),
        &["half.jpg`: its coded pixels are damaged", "save it again"],
    );
    // Stray bytes before the end mark are common and harm nothing.
    let (pixels, end) = whole.split_at(whole.len() - 2);
    let path = folder.write("stray.jpg", [pixels, &[0, 7, 7, 0], end].concat());
    assert!(read_image(&path).is_ok());
    // Whatever byte is wrong, the file is read or refused by name.
    for at in 0..start {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x55;
        let path = folder.write("odd.jpg", &bytes);
        if let Err(error) = read_image(&path) {
            assert_says(&error, &["odd.jpg"]);
        }
    }
}

#[test]
fn cut_pngs_empty_files_and_text_are_no_images() {
    let folder = Folder::new();
    let whole = std::fs::read(folder.picture("whole.png", &gradient(200, 100))).unwrap();
    for (name, bytes) in
        [("cut.png", &whole[..whole.len() / 2]), ("empty.png", &[]), ("text.png", b"hello there")]
    {
        let path = folder.write(name, bytes);
        assert_says(&read_image(&path).unwrap_err(), &[name]);
    }
    let mask = std::fs::read(folder.mask("mask.png", &scene())).unwrap();
    let path = folder.write("cut mask.png", &mask[..mask.len() - 20]);
    assert_says(&protoseg_data::mask::read_index_mask(&path).unwrap_err(), &["cut mask.png"]);
}

#[test]
fn a_small_file_that_claims_a_huge_picture_is_refused() {
    let folder = Folder::new();
    let mut bytes = std::fs::read(folder.picture("small.png", &gradient(4, 4))).unwrap();
    // Width and height in the header, with its checksum.
    bytes[16..24].copy_from_slice(&[0, 1, 0x86, 0xA0, 0, 1, 0x86, 0xA0]);
    let checksum = crc32(&bytes[12..29]).to_be_bytes();
    bytes[29..33].copy_from_slice(&checksum);
    let path = folder.write("bomb.png", &bytes);
    assert_says(&read_image(&path).unwrap_err(), &["bomb.png"]);
    assert_says(&protoseg_data::mask::read_index_mask(&path).unwrap_err(), &["bomb.png"]);
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 },
        )
    })
}

#[test]
fn a_mask_of_another_size() {
    let folder = Folder::new();
    folder.picture("a.png", &gradient(20, 10));
    folder.mask("a_mask.png", &scene());
    folder.write("train.txt", "a.png a_mask.png\n");
    let error = open_list(folder.path(), "train.txt").unwrap().load(0).unwrap_err();
    assert_says(&error, &["a_mask.png", "a.png", "got `20 x 12`, expected `20 x 10`", "own size"]);
}

#[test]
fn an_id_outside_the_class_list() {
    let folder = Folder::new();
    folder.picture("a.png", &gradient(20, 12));
    let mut labels = scene();
    labels.data[43] = 7;
    folder.mask("a_mask.png", &labels);
    folder.write("train.txt", "a.png a_mask.png\n");
    let dataset = open_list(folder.path(), "train.txt").unwrap();
    let error = protoseg_data::scan(&dataset, "train").unwrap_err();
    assert_says(&error, &["a_mask.png", "id `7` at pixel (3, 2)", "class ids are 0 to 2"]);
    assert_eq!(error.kind(), "unknown-id");
}

#[test]
fn a_missing_file_and_an_empty_list() {
    let folder = Folder::new();
    folder.picture("a.png", &gradient(20, 12));
    folder.write("train.txt", "a.png masks/a.png\n");
    let error = open_list(folder.path(), "train.txt").unwrap().load(0).unwrap_err();
    assert_says(&error, &["masks/a.png` does not exist", "hint: create the folder"]);
    folder.write("empty.txt", "\n# nothing\n\n");
    assert_says(
        &open_list(folder.path(), "empty.txt").unwrap_err(),
        &["empty.txt` has no samples", "`image label`"],
    );
    assert_says(&open_list(folder.path(), "none.txt").unwrap_err(), &["none.txt` does not exist"]);
    folder.write("latin.txt", [0x61, 0xE9, 0x20, 0x62]);
    assert_says(&open_list(folder.path(), "latin.txt").unwrap_err(), &["latin.txt", "UTF-8"]);
}

#[test]
fn lines_that_are_no_pairs() {
    let folder = Folder::new();
    folder.write("one.txt", "a.png a_mask.png\nb.png\n");
    assert_says(
        &open_list(folder.path(), "one.txt").unwrap_err(),
        &["one.txt` line 2: got `b.png`", "a tab"],
    );
    folder.write("three.txt", "a b.png a b_mask.png\n");
    assert_says(&open_list(folder.path(), "three.txt").unwrap_err(), &["line 1", "a tab"]);
    folder.write("twice.txt", "a.png a.png\na.png b.png\n");
    assert_says(
        &open_list(folder.path(), "twice.txt").unwrap_err(),
        &["line 2", "the same label as on an earlier line"],
    );
}

#[test]
fn paths_with_blanks_and_other_letters_work_or_are_named() {
    let folder = Folder::new();
    for name in ["plain", "två kor", "鴨 の 池", "a  b"] {
        folder.picture(&format!("images/{name}.png"), &gradient(20, 12));
        folder.mask(&format!("labels/{name}.png"), &scene());
    }
    folder.write(
        "train.txt",
        "images/plain.png labels/plain.png\nimages/två kor.png labels/två kor.png\nimages/鴨 の 池.png\tlabels/鴨 の 池.png\r\nimages/a  b.png labels/a  b.png\n",
    );
    let dataset = open_list(folder.path(), "train.txt").unwrap();
    for index in 0..4 {
        assert_eq!(dataset.load(index).unwrap().1, scene());
    }
    folder.write("gone.txt", "images/ingen ko.png\tlabels/ingen ko.png\n");
    let error = open_list(folder.path(), "gone.txt").unwrap().load(0).unwrap_err();
    assert_says(&error, &["images/ingen ko.png` does not exist", "upper case and the file extension matter"]);
}

#[test]
fn masks_that_are_not_masks() {
    let folder = Folder::new();
    folder.write("classes.txt", "background\ncow\n");
    folder.picture("images/a.png", &gradient(20, 12));
    folder.picture("masks/a.png", &gradient(20, 12));
    let open = || folder::open(FolderOptions::new(folder.path()));
    assert_says(&open().unwrap().labels(0).unwrap_err(), &["masks/a.png", "Rgb", "label map"]);
    std::fs::remove_file(folder.path().join("masks/a.png")).unwrap();
    folder.picture("masks/a.jpg", &gradient(20, 12));
    assert_says(&open().unwrap().labels(0).unwrap_err(), &["masks/a.jpg", "JPEG", "as PNG"]);
    folder.write("labelmap.txt", "background:0,0,0::\ncow:128,0,0::\n");
    std::fs::remove_file(folder.path().join("masks/a.jpg")).unwrap();
    folder.color_mask("masks/a.png", &IdMap::new(2, 1, vec![0, 1]), |label| [label as u8 * 127, 0, 0]);
    assert_says(
        &open().unwrap().labels(0).unwrap_err(),
        &["masks/a.png", "colour `127,0,0` at pixel (1, 0)"],
    );
    folder.write("labelmap.txt", "background:0,0,0::\ncow:128,0::\n");
    assert_says(&open().unwrap_err(), &["labelmap.txt` line 2: got `cow:128,0::`"]);
    std::fs::remove_file(folder.path().join("labelmap.txt")).unwrap();
    std::fs::remove_file(folder.path().join("classes.txt")).unwrap();
    assert_says(&open().unwrap_err(), &["classes.txt` does not exist", "one class name per line"]);
}

fn open_coco(segmentation: &str, more: &str) -> Result<coco::CocoDataset, DataError> {
    let folder = Folder::new();
    let json = format!(
        r#"{{"images": [{{"id": 1, "file_name": "a.png", "width": 20, "height": 12}}],
            "annotations": [{{"id": 41, "image_id": 1, "category_id": 3, "segmentation": {segmentation}}}{more}],
            "categories": [{{"id": 3, "name": "cow"}}]}}"#
    );
    folder.write("annotations/instances_train.json", json);
    coco::open("farm", &find_splits(folder.path())?, true)
}

#[test]
fn coco_with_bad_shapes() {
    for (segmentation, says) in [
        ("[[1, 2, 3, 4]]", "a polygon has `4` numbers"),
        ("[[1, 2, 3, 4, 5, 6, 7]]", "a polygon has `7` numbers"),
        ("[[1, 2, 3, 4, 5, 1e39]]", "number out of range"),
        ("[]", "it has a box but no segmentation"),
        (r#"{"size": [12, 20], "counts": [3, 4]}"#, "its runs cover `7` pixels, expected `240`"),
        (r#"{"size": [20, 12], "counts": [240]}"#, "its mask has size `12 x 20`, its image `20 x 12`"),
        (r#"{"size": [12, 20], "counts": "a!b"}"#, "character `!`"),
    ] {
        match open_coco(segmentation, "") {
            Ok(dataset) => {
                let error = dataset.labels(0).unwrap_err();
                let places =
                    ["instances_train.json", "annotation `41` of image `a.png`", "correct or remove"];
                assert_says(&error, &places);
                let text = error.to_string();
                assert!(text.contains(says) || text.contains("coordinate `inf`"), "{text}");
            }
            Err(error) => assert_says(&error, &["instances_train.json", says]),
        }
    }
}

#[test]
fn coco_with_bad_references_or_no_json() {
    let other = |image: u64, category: u64| {
        format!(r#", {{"id": 42, "image_id": {image}, "category_id": {category}, "segmentation": []}}"#)
    };
    let error = |more: &str| open_coco("[[0, 0, 1, 0, 1, 1]]", more).err().unwrap();
    assert_says(&error(&other(9, 3)), &["refers to image `9`"]);
    assert_says(&error(&other(1, 8)), &["refers to category `8`"]);
    assert_says(&open_coco("[[0, \"x\"]]", "").err().unwrap(), &["instances_train.json", "line 2 column"]);
    let folder = Folder::new();
    assert_says(&find_splits(folder.path()).unwrap_err(), &["annotations", "instance JSON"]);
    folder.write("annotations/instances_train.json", "{\"images\": [");
    let splits = find_splits(folder.path()).unwrap();
    assert_says(&coco::open("x", &splits, true).err().unwrap(), &["instances_train.json", "line 1"]);
}

#[test]
fn yolo_and_labelme_with_bad_lines() {
    let folder = Folder::new();
    folder.write("data.yaml", "train: images\nnames: [cow]\n");
    folder.picture("images/a.png", &gradient(20, 12));
    let says = |line: &str, part: &str| {
        folder.write("labels/a.txt", format!("0 0 0 1 0 1 1\n{line}\n"));
        let error = yolo::open(folder.path(), true).unwrap().labels(0).unwrap_err();
        assert_says(&error, &["labels/a.txt` line 2", part]);
    };
    says("0 0.5 0.5 0.2 0.2", "not a box");
    says("3 0 0 1 0 1 1", "a class number that data.yaml names");
    says("0 0 0 1 x 1 1", "only numbers");

    let folder = Folder::new();
    folder.picture("a.png", &gradient(20, 12));
    let says = |shape: &str, part: &str| {
        folder.write("classes.txt", "cow\n");
        let record =
            format!(r#"{{"shapes": [{shape}], "imagePath": "a.png", "imageHeight": 12, "imageWidth": 20}}"#);
        folder.write("a.json", record);
        let error = labelme::open(folder.path(), None, true).unwrap().labels(0).unwrap_err();
        assert_says(&error, &["a.json", "shape `1`", part]);
    };
    says(
        r#"{"label": "cwo", "points": [[0, 0], [1, 0], [1, 1]]}"#,
        "(`cwo`): its label is not among the classes",
    );
    says(r#"{"label": "cow", "points": [[0, 0], [1, 0]], "shape_type": "polygon"}"#, "it has `2` points");
    says(r#"{"label": "cow", "points": [], "shape_type": "cuboid"}"#, "type `cuboid`");
    says(r#"{"label": "cow", "points": [[0, 0]], "shape_type": "mask", "mask": "?"}"#, "not base64");
}

#[test]
fn check_names_every_problem_and_goes_on() {
    let folder = Folder::new();
    folder.write("classes.txt", "background\ncow\nduck\n");
    for name in ["good", "other size", "strange", "cut", "no mask"] {
        folder.picture(&format!("images/{name}.jpg"), &gradient(20, 12));
        folder.mask(&format!("masks/{name}.png"), &scene());
    }
    folder.mask("masks/other size.png", &IdMap::new(2, 2, vec![0, 1, 1, 1]));
    let mut strange = scene();
    (strange.data[0], strange.data[1]) = (9, 77);
    folder.mask("masks/strange.png", &strange);
    let cut = std::fs::read(folder.path().join("images/cut.jpg")).unwrap();
    folder.write("images/cut.jpg", &cut[..cut.len() - 30]);
    std::fs::remove_file(folder.path().join("masks/no mask.png")).unwrap();

    let report = check(&Benchmark::folder(folder.path()).unwrap(), CheckOptions::default(), &quiet);
    let found: Vec<_> = report.problems.iter().map(|p| (p.sample.as_str(), p.kind)).collect();
    assert_eq!(
        found,
        [
            ("cut.jpg", "unreadable"),
            ("no mask.jpg", "missing"),
            ("other size.jpg", "size"),
            ("strange.jpg", "unknown-id"),
            ("strange.jpg", "unknown-id"),
        ]
    );
    assert!(report.problems.iter().all(|problem| !problem.hint.is_empty() && !problem.file.is_empty()));
    let split = &report.splits[0];
    assert_eq!((split.images, split.unreadable, split.no_foreground), (5, 1, 0));
    let cow = &split.classes[1];
    assert_eq!((cow.images, cow.pixels), (4, 3 * 68 + 3));
    assert_eq!(split.co_occurrence, [[4, 4, 3], [4, 4, 3], [3, 3, 3]]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], "protoseg.data-check.v1");
    assert!(json.as_object().unwrap().keys().any(|key| key == "problems"));
    assert!(
        serde_json::to_string(&report).unwrap().find("\"problems\"")
            < serde_json::to_string(&report).unwrap().find("\"splits\"")
    );
}

#[test]
fn tens_of_thousands_of_categories_are_counted_without_a_table_of_pairs() {
    let folder = Folder::new();
    folder.picture("images/a.png", &gradient(20, 12));
    let categories: Vec<String> =
        (1..=60_000).map(|id| format!(r#"{{"id": {id}, "name": "class {id}"}}"#)).collect();
    let text = format!(
        r#"{{"images": [{{"id": 5, "file_name": "a.png", "width": 20, "height": 12}}], "annotations":
        [{{"id": 1, "image_id": 5, "category_id": 77, "segmentation": [[1, 1, 9, 1, 5, 9]]}}], "categories": [{}]}}"#,
        categories.join(",")
    );
    folder.write("annotations/instances_train.json", text);
    let report = check(&Benchmark::folder(folder.path()).unwrap(), CheckOptions::default(), &quiet);
    let split = &report.splits[0];
    assert_eq!((report.problems.len(), split.classes.len()), (0, 60_001));
    assert_eq!((split.classes[77].images, split.co_occurrence.len()), (1, 0));
}

#[test]
fn white_masks_are_noticed() {
    let folder = Folder::new();
    folder.write("classes.txt", "background\ncow\n");
    folder.picture("images/a.png", &gradient(2, 2));
    let path = folder.write("masks/a.png", []);
    image::save_buffer(path, &[0, 255, 255, 0], 2, 2, image::ColorType::L8).unwrap();
    let report = check(&Benchmark::folder(folder.path()).unwrap(), CheckOptions::default(), &quiet);
    assert_eq!(report.notes[0].message, "no image holds `cow`");
    assert!(report.notes[0].hint.contains("if 255 is the value of a class"));
}

#[test]
fn sources_that_are_nothing() {
    let folder = Folder::new();
    let says =
        |source: &str, parts: &[&str]| assert_says(&Benchmark::open(source, None).err().unwrap(), parts);
    says("pascal-6i", &["`pascal-6i` is neither", "`pascal-5i`"]);
    says("msrc", &["benchmark `msrc` needs its folder"]);
    says(folder.path().to_str().unwrap(), &["cannot tell what kind", "protoseg.toml"]);
    folder.write("JPEGImages/a.jpg", []);
    let error = Benchmark::open("pascal-5i", Some(folder.path())).err().unwrap();
    assert_says(
        &error,
        &["SegmentationClassAug` does not exist", "hint: prepare Pascal-5i from VOC 2012 and SBD first"],
    );
}
