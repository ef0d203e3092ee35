//! The same scene in every format gives the same labels.

use base64::{Engine, engine::general_purpose::STANDARD};
use protoseg_core::{ClassId, IGNORE, IdMap, NovelPixels};
use protoseg_data::palette::voc_color;
use protoseg_data::reader::coco::{self, find_splits};
use protoseg_data::reader::folder::{self, FolderOptions};
use protoseg_data::reader::{cvat, labelme, voc, yolo};
use protoseg_data::{Benchmark, CheckOptions, Dataset, check, quiet};

use crate::fixture::{COW, DUCK, Folder, coordinates, gradient, scene, scene_without_background};

fn assert_scene(dataset: &dyn Dataset, index: usize, expected: &IdMap) {
    let (image, labels) = dataset.load(index).unwrap();
    assert_eq!((image.width, image.height), (20, 12));
    assert_eq!(&labels, expected);
    assert_eq!(dataset.classes().name(ClassId(1)), Some("cow"));
    assert_eq!(dataset.classes().name(ClassId(2)), Some("duck"));
}

fn split_names(dataset: &dyn Dataset) -> Vec<(&str, usize)> {
    dataset.splits().iter().map(|split| (split.name.as_str(), split.samples.len())).collect()
}

#[test]
fn plain_folders_with_every_kind_of_mask() {
    let folder = Folder::new();
    folder.write("classes.txt", "background\ncow\nduck\n");
    let image = gradient(20, 12);
    folder.picture("images/palette.jpg", &image);
    folder.mask("masks/palette.png", &scene());
    folder.picture("images/gray 8 bits.PNG", &image);
    let gray: Vec<u8> = scene().data.iter().map(|&label| label as u8).collect();
    let path = folder.write("masks/gray 8 bits.png", []);
    image::save_buffer(path, &gray, 20, 12, image::ColorType::L8).unwrap();
    folder.picture("images/gray16é.png", &image);
    let path = folder.write("masks/gray16é.tiff", []);
    let wide: Vec<u8> = scene().data.iter().flat_map(|label| label.to_ne_bytes()).collect();
    image::save_buffer(path, &wide, 20, 12, image::ColorType::L16).unwrap();
    let dataset = folder::open(FolderOptions::new(folder.path())).unwrap();
    assert_eq!(split_names(&dataset), [("all", 3)]);
    for index in 0..3 {
        assert_scene(&dataset, index, &scene());
    }
    assert_eq!(dataset.classes().background(), Some(ClassId(0)));
}

#[test]
fn plain_folders_with_colours_and_a_label_map() {
    let folder = Folder::new();
    folder.write(
        "labelmap.txt",
        "# name:r,g,b:parts:actions\nbackground:0,0,0::\ncow:10,200,30::\nduck:9,9,255::\n",
    );
    folder.picture("images/train/a.png", &gradient(20, 12));
    folder.color_mask("masks/train/a.png", &scene(), |label| {
        [[0, 0, 0], [10, 200, 30], [9, 9, 255]][label as usize]
    });
    let dataset = folder::open(FolderOptions::new(folder.path())).unwrap();
    assert_eq!(split_names(&dataset), [("train", 1)]);
    assert_scene(&dataset, 0, &scene());
}

#[test]
fn plain_folders_know_their_splits_by_lists_or_folders() {
    let folder = Folder::new();
    folder.write("classes.txt", "background\ncow\nduck\n");
    for name in ["a", "b", "c d"] {
        folder.picture(&format!("images/{name}.png"), &gradient(20, 12));
        folder.mask(&format!("masks/{name}.png"), &scene());
    }
    folder.write("train.txt", "a\nc d.png\n");
    folder.write("val.txt", "b\n");
    let dataset = folder::open(FolderOptions::new(folder.path())).unwrap();
    assert_eq!(split_names(&dataset), [("train", 2), ("val", 1)]);
    let nested = Folder::new();
    nested.write("classes.txt", "background\ncow\nduck\n");
    for split in ["train", "val"] {
        nested.picture(&format!("{split}/images/x.png"), &gradient(20, 12));
        nested.mask(&format!("{split}/labels/x.png"), &scene());
    }
    let dataset = folder::open(FolderOptions::new(nested.path())).unwrap();
    assert_eq!(split_names(&dataset), [("train", 1), ("val", 1)]);
    assert_eq!(dataset.samples()[1].name, "val/x.png");
    assert_scene(&dataset, 1, &scene());
}

#[test]
fn voc_trees_plain_and_augmented() {
    let folder = Folder::new();
    let tree = "VOCdevkit/VOC2012";
    let mut labels = scene();
    labels.data[0] = IGNORE;
    for name in ["2007_1", "2007_2", "2008_3"] {
        folder.picture(&format!("{tree}/JPEGImages/{name}.jpg"), &gradient(20, 12));
        folder.mask(&format!("{tree}/SegmentationClass/{name}.png"), &labels);
    }
    folder.write(&format!("{tree}/ImageSets/Segmentation/train.txt"), "2007_1\n");
    folder.write(&format!("{tree}/ImageSets/Segmentation/val.txt"), "2007_2\n");
    let dataset = voc::open(folder.path()).unwrap();
    assert_eq!(split_names(&dataset), [("train", 1), ("val", 1)]);
    assert_eq!(dataset.load(0).unwrap().1, labels);
    assert_eq!(dataset.classes().name(ClassId(20)), Some("tvmonitor"));
    for name in ["2007_1", "2007_2", "2008_3"] {
        folder.mask(&format!("{tree}/SegmentationClassAug/{name}.png"), &scene());
    }
    let benchmark = Benchmark::open("pascal-5i", Some(folder.path())).unwrap();
    assert_eq!(split_names(benchmark.dataset.as_ref()), [("train", 1), ("val", 1), ("train_aug", 2)]);
    assert_eq!((benchmark.train.as_str(), benchmark.val.as_deref()), ("train_aug", Some("val")));
    assert_eq!((benchmark.folds.len(), benchmark.novel_pixels), (4, NovelPixels::Drop));
    assert_eq!(benchmark.dataset.load(2).unwrap().1, scene());
}

#[test]
fn cvat_masks_in_colours_and_palettes() {
    let folder = Folder::new();
    folder.write(
        "labelmap.txt",
        "# label:color_rgb:parts:actions\nbackground:0,0,0::\ncow:128,0,0::\nduck:0,128,0::\n",
    );
    folder.write("ImageSets/Segmentation/default.txt", "a b\nsub/c\n");
    for name in ["a b", "sub/c"] {
        folder.picture(&format!("JPEGImages/{name}.png"), &gradient(20, 12));
    }
    folder.color_mask("SegmentationClass/a b.png", &scene(), |label| voc_color(ClassId(label)));
    folder.mask("SegmentationClass/sub/c.png", &scene());
    let dataset = cvat::open(folder.path()).unwrap();
    assert_eq!(split_names(&dataset), [("default", 2)]);
    assert_scene(&dataset, 0, &scene());
    assert_scene(&dataset, 1, &scene());
    let detected = Benchmark::folder(folder.path()).unwrap();
    assert_eq!(detected.dataset.name(), "cvat");
}

fn coco_json(segmentations: &[(u64, &str, u8)]) -> String {
    let annotations: Vec<String> = (1..)
        .zip(segmentations)
        .map(|(id, (category, segmentation, crowd))| {
            format!(r#"{{"id": {id}, "image_id": 5, "category_id": {category}, "segmentation": {segmentation}, "iscrowd": {crowd}, "area": 1, "bbox": [0, 0, 1, 1]}}"#)
        })
        .collect();
    format!(
        r#"{{"info": {{}}, "images": [{{"id": 5, "file_name": "a é.png", "width": 20, "height": 12}}], "annotations": [{}], "categories": [{{"id": 18, "name": "duck"}}, {{"id": 3, "name": "cow"}}]}}"#,
        annotations.join(", ")
    )
}

/// The scene's duck down the columns, in COCO's counts.
fn duck_counts() -> Vec<usize> {
    vec![9 * 12 + 5, 4, 8, 4, 8, 4, 8, 4, 240 - (12 * 12 + 9)]
}

#[test]
fn coco_polygons_and_both_kinds_of_runs() {
    let cow = format!("[[{}]]", coordinates(&COW, ", ", (1.0, 1.0)));
    let cow_in_parts = "[[2, 2, 7, 2, 7, 10, 2, 10], [6, 2, 12, 2, 12, 10, 6, 10]]";
    let duck = format!("[[{}]]", coordinates(&DUCK, ", ", (1.0, 1.0)));
    let plain = format!(r#"{{"size": [12, 20], "counts": {:?}}}"#, duck_counts());
    let counts: Vec<u32> = duck_counts().iter().map(|&count| count as u32).collect();
    let packed = serde_json::to_string(&protoseg_data::rle::pack_runs(&counts)).unwrap();
    let packed = format!(r#"{{"size": [12, 20], "counts": {packed}}}"#);
    for (cow, duck) in [(cow.as_str(), &duck), (cow_in_parts, &plain), (&cow, &packed)] {
        // In either order, the smaller instance stays on top.
        for instances in [[(3, cow, 0), (18, duck.as_str(), 0)], [(18, duck.as_str(), 0), (3, cow, 0)]] {
            let folder = Folder::new();
            folder.picture("images/a é.png", &gradient(20, 12));
            folder.write("annotations/instances_default.json", coco_json(&instances));
            let dataset = coco::open("farm", &find_splits(folder.path()).unwrap(), true).unwrap();
            assert_eq!(split_names(&dataset), [("default", 1)]);
            assert_scene(&dataset, 0, &scene());
            assert_eq!(dataset.labels(0).unwrap().overlapped, 12);
            let open_ended = coco::open("farm", &find_splits(folder.path()).unwrap(), false).unwrap();
            assert_scene(&open_ended, 0, &scene_without_background());
        }
    }
}

#[test]
fn coco_crowds_are_ignored_and_roboflow_folders_found() {
    let folder = Folder::new();
    folder.picture("train/a é.png", &gradient(20, 12));
    folder.picture("valid/a é.png", &gradient(20, 12));
    let cow = format!("[[{}]]", coordinates(&COW, ", ", (1.0, 1.0)));
    let crowd = format!(r#"{{"size": [12, 20], "counts": {:?}}}"#, duck_counts());
    folder.write("train/_annotations.coco.json", coco_json(&[(3, &cow, 0), (18, &crowd, 1)]));
    folder.write("valid/_annotations.coco.json", coco_json(&[(3, &cow, 0)]));
    let benchmark = Benchmark::folder(folder.path()).unwrap();
    assert_eq!(split_names(benchmark.dataset.as_ref()), [("train", 1), ("valid", 1)]);
    assert_eq!((benchmark.train.as_str(), benchmark.val.as_deref()), ("train", Some("valid")));
    let labels = benchmark.dataset.labels(0).unwrap();
    let ignored = labels.map.data.iter().filter(|&&label| label == IGNORE).count();
    assert_eq!((ignored, labels.overlapped), (4, 0), "only where no cow is");
    assert_eq!(labels.map.data[5 * 20 + 9], 1);
}

#[test]
fn yolo_polygons_from_zero_to_one() {
    let folder = Folder::new();
    let scale = (1.0 / 20.0, 1.0 / 12.0);
    let duck = format!("1 {}\n", coordinates(&DUCK, " ", scale));
    let cow = format!("0 {}\n", coordinates(&COW, " ", scale));
    folder.write("data.yaml", "train: images/train\nval: images/val\nnc: 2\nnames:\n  0: cow\n  1: duck\n");
    folder.picture("images/train/a b.jpg", &gradient(20, 12));
    folder.write("labels/train/a b.txt", format!("{duck}{cow}"));
    folder.picture("images/val/nothing.jpg", &gradient(20, 12));
    let dataset = yolo::open(folder.path(), true).unwrap();
    assert_eq!(split_names(&dataset), [("train", 1), ("val", 1)]);
    assert_scene(&dataset, 0, &scene());
    assert_eq!(dataset.labels(0).unwrap().overlapped, 12);
    assert!(dataset.labels(1).unwrap().map.data.iter().all(|&label| label == 0));
    let report = check(&Benchmark::folder(folder.path()).unwrap(), CheckOptions::default(), &quiet);
    assert_eq!(report.problems, []);
    assert_eq!(report.notes.iter().map(|note| note.kind).collect::<Vec<_>>(), ["overlap", "no-label-file"]);
}

#[test]
fn labelme_shapes_of_every_type() {
    let folder = Folder::new();
    let points = |corners: &[(f64, f64)]| serde_json::to_string(corners).unwrap();
    let shape = |label: &str, kind: &str, corners: &[(f64, f64)], more: &str| {
        format!(
            r#"{{"label": "{label}", "points": {}, "shape_type": "{kind}", "group_id": null, "flags": {{}}{more}}}"#,
            points(corners)
        )
    };
    let record = |shapes: &[String], image: &str, data: &str| {
        format!(
            r#"{{"version": "5.4.1", "flags": {{}}, "shapes": [{}], "imagePath": "{image}", "imageData": {data}, "imageHeight": 12, "imageWidth": 20}}"#,
            shapes.join(", ")
        )
    };
    // A gray PNG of 4 x 4 whites, as LabelMe embeds masks.
    let mut png = std::io::Cursor::new(Vec::new());
    image::write_buffer_with_format(
        &mut png,
        &[255; 16],
        4,
        4,
        image::ColorType::L8,
        image::ImageFormat::Png,
    )
    .unwrap();
    let mask = format!(r#", "mask": "{}""#, STANDARD.encode(png.get_ref()));

    folder.picture("a.jpg", &gradient(20, 12));
    let shapes = [shape("cow", "polygon", &COW, ""), shape("duck", "rectangle", &[DUCK[0], DUCK[2]], "")];
    folder.write("a.json", record(&shapes, "a.jpg", "null"));
    folder.picture("b.png", &gradient(20, 12));
    let shapes = [
        shape("duck", "mask", &[(9.0, 5.0), (12.0, 8.0)], &mask),
        shape("cow", "rectangle", &[COW[2], COW[0]], ""),
        shape("cow", "point", &[(1.0, 1.0)], ""),
    ];
    folder.write("b.json", record(&shapes, "..\\\\moved\\\\b.png", "null"));
    let mut embedded = std::io::Cursor::new(Vec::new());
    let picture = gradient(20, 12);
    image::write_buffer_with_format(
        &mut embedded,
        &picture.data,
        20,
        12,
        image::ColorType::Rgb8,
        image::ImageFormat::Png,
    )
    .unwrap();
    let shapes = [shape("cow", "polygon", &COW, ""), shape("duck", "polygon", &DUCK, "")];
    let data = format!("\"{}\"", STANDARD.encode(embedded.get_ref()));
    folder.write("c.json", record(&shapes, "not there.png", &data));

    let dataset = labelme::open(folder.path(), None, true).unwrap();
    assert_eq!(split_names(&dataset), [("all", 3)]);
    for index in 0..3 {
        assert_scene(&dataset, index, &scene());
    }
    assert_eq!(dataset.image(2).unwrap(), picture);
    assert_eq!(dataset.labels(1).unwrap().empty_shapes, 1);
    let open_ended = labelme::open(folder.path(), None, false).unwrap();
    assert_scene(&open_ended, 0, &scene_without_background());
}

#[test]
fn labelme_ignores_what_it_is_told_to() {
    let folder = Folder::new();
    folder.picture("train/a.jpg", &gradient(20, 12));
    folder.write("labels.txt", "__ignore__\n_background_\ncow\nduck\n");
    folder.write(
        "train/a.json",
        r#"{"shapes": [{"label": "__ignore__", "points": [[0, 0], [20, 0], [20, 1], [0, 1]]}, {"label": "duck", "points": [[4, 4], [8, 4]], "shape_type": "circle"}],
            "imagePath": "a.jpg", "imageHeight": 12, "imageWidth": 20}"#,
    );
    let dataset = labelme::open(folder.path(), None, true).unwrap();
    assert_eq!(split_names(&dataset), [("train", 1)]);
    let map = dataset.labels(0).unwrap().map;
    assert_eq!(map.data[..20], [IGNORE; 20]);
    let duck = map.data.iter().filter(|&&label| label == 2).count();
    assert!((40..=52).contains(&duck), "a circle of radius 4, cut by the ignored row: {duck}");
}
