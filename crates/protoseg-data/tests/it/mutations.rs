//! Thousands of damaged files: readers answer or refuse, and never panic, hang or fill the memory.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use protoseg_data::{Benchmark, CheckOptions, check, picture::read_image, quiet, read_support_file};
use protoseg_testing::mutate;

use crate::fixture::{COW, DUCK, Folder, coordinates, gradient, scene};

/// Damaged copies of each file.
const COPIES: u64 = 150;
/// No small file takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A folder, the file in it that is damaged, and what reads it.
struct Case {
    folder: Folder,
    file: &'static str,
    read: fn(&Folder, &str),
}

fn read_data_set(folder: &Folder, _: &str) {
    if let Ok(benchmark) = Benchmark::folder(folder.path()) {
        check(&benchmark, CheckOptions::default(), &quiet);
    }
}

fn read_spec(folder: &Folder, file: &str) {
    let path = folder.path().join(file);
    if let Ok(benchmark) = Benchmark::open(&path.to_string_lossy(), None) {
        check(&benchmark, CheckOptions::default(), &quiet);
    }
}

fn read_picture(folder: &Folder, file: &str) {
    let _ = read_image(folder.path().join(file));
}

fn read_supports(folder: &Folder, file: &str) {
    let _ = read_support_file(&folder.path().join(file));
}

fn case(file: &'static str, read: fn(&Folder, &str), fill: impl FnOnce(&Folder)) -> Case {
    let folder = Folder::new();
    fill(&folder);
    assert!(folder.path().join(file).is_file(), "{file}");
    Case { folder, file, read }
}

fn plain(folder: &Folder) {
    folder.write("classes.txt", "background\ncow\nduck\n");
    folder.write("train.txt", "a\n");
    folder.picture("images/a.png", &gradient(20, 12));
    folder.mask("masks/a.png", &scene());
}

fn coco(folder: &Folder) {
    folder.picture("images/a.png", &gradient(20, 12));
    let duck = coordinates(&DUCK, ", ", (1.0, 1.0));
    let text = format!(
        r#"{{"images": [{{"id": 5, "file_name": "a.png", "width": 20, "height": 12}}], "annotations": [
        {{"id": 1, "image_id": 5, "category_id": 18, "segmentation": [[{duck}]], "iscrowd": 0}},
        {{"id": 2, "image_id": 5, "category_id": 3, "segmentation": {{"size": [12, 20], "counts": [13, 4, 8, 4, 211]}}, "iscrowd": 0}},
        {{"id": 3, "image_id": 5, "category_id": 3, "segmentation": {{"size": [12, 20], "counts": "=484_6"}}, "iscrowd": 1}}],
        "categories": [{{"id": 18, "name": "duck"}}, {{"id": 3, "name": "cow"}}]}}"#
    );
    folder.write("annotations/instances_train.json", text);
}

fn yolo(folder: &Folder) {
    folder.write("data.yaml", "train: images/train\nnc: 2\nnames:\n  0: cow\n  1: duck\n");
    folder.picture("images/train/a.png", &gradient(20, 12));
    let cow = coordinates(&COW, " ", (1.0 / 20.0, 1.0 / 12.0));
    folder.write("labels/train/a.txt", format!("0 {cow}\n1 0.1 0.1 0.5 0.1 0.3 0.9\n"));
}

fn labelme(folder: &Folder) {
    folder.picture("a.png", &gradient(20, 12));
    let record = r#"{"version": "5.4.1", "flags": {}, "shapes": [{"label": "cow", "points": [[1, 1], [9, 1], [5, 9]],
        "shape_type": "polygon", "group_id": null, "flags": {}}, {"label": "duck", "points": [[3, 3], [6, 6]],
        "shape_type": "circle"}], "imagePath": "a.png", "imageData": null, "imageHeight": 12, "imageWidth": 20}"#;
    folder.write("a.json", record);
}

fn cvat(folder: &Folder) {
    folder.write("labelmap.txt", "# label:color_rgb:parts:actions\nbackground:0,0,0::\ncow:128,0,0::\n");
    folder.picture("JPEGImages/a.jpg", &gradient(20, 12));
    folder.color_mask(
        "SegmentationClass/a.png",
        &scene(),
        |label| if label == 0 { [0; 3] } else { [128, 0, 0] },
    );
    folder.write("ImageSets/Segmentation/default.txt", "a\n");
}

fn spec(folder: &Folder) {
    plain(folder);
    let text = "name = \"farm\"\nformat = \"folder\"\nimages = \"images\"\nmasks = \"masks\"\n\
        classes = [\"background\", \"cow\", \"duck\"]\nnovel = [\"duck\"]\nignore = [255]\nnovel_pixels = \"ignore\"\n";
    folder.write("farm.toml", text);
}

fn supports(folder: &Folder) {
    plain(folder);
    folder.write(
        "supports.json",
        r#"[{"class": "duck", "image": "images/a.png", "mask": "masks/a.png", "id": 2, "box": [1, 2, 3, 4]}]"#,
    );
    folder.write("pairs.txt", "images/a.png masks/a.png\n");
}

fn cases() -> Vec<Case> {
    let picture =
        |file: &'static str| case(file, read_picture, |folder| drop(folder.picture(file, &gradient(37, 21))));
    vec![
        case("classes.txt", read_data_set, plain),
        case("train.txt", read_data_set, plain),
        case("masks/a.png", read_data_set, plain),
        case("annotations/instances_train.json", read_data_set, coco),
        case("data.yaml", read_data_set, yolo),
        case("labels/train/a.txt", read_data_set, yolo),
        case("a.json", read_data_set, labelme),
        case("labelmap.txt", read_data_set, cvat),
        case("ImageSets/Segmentation/default.txt", read_data_set, cvat),
        case("farm.toml", read_spec, spec),
        case("supports.json", read_supports, supports),
        case("pairs.txt", read_supports, supports),
        picture("a.png"),
        picture("a.jpg"),
        picture("a.bmp"),
        picture("a.tiff"),
        picture("a.webp"),
        picture("a.ppm"),
    ]
}

#[test]
fn damaged_files_are_refused_or_read() {
    for Case { folder, file, read } in cases() {
        let path = folder.path().join(file);
        let whole = fs::read(&path).unwrap();
        for seed in 0..COPIES {
            fs::write(&path, mutate(&whole, seed)).unwrap();
            let started = Instant::now();
            let read = catch_unwind(AssertUnwindSafe(|| read(&folder, file)));
            assert!(read.is_ok(), "`{file}` with damage {seed} is not survived");
            assert!(
                started.elapsed() < PATIENCE,
                "`{file}` with damage {seed} takes {:?}",
                started.elapsed()
            );
        }
    }
}
