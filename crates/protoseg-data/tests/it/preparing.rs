//! Benchmarks built from the layouts of their archives.

use protoseg_core::{FoldScheme, IGNORE, IdMap};
use protoseg_data::prepare::{prepare_coco, prepare_pascal};
use protoseg_data::{Benchmark, CheckOptions, DataError, check, quiet};

use crate::fixture::{Folder, gradient};

/// VOC with one training and one validation image; SBD with those and one more.
fn archives() -> (Folder, Folder) {
    let (voc, sbd) = (Folder::new(), Folder::new());
    for name in ["2007_a", "2007_b", "2008_c"] {
        voc.picture(&format!("VOCdevkit/VOC2012/JPEGImages/{name}.jpg"), &gradient(7, 5));
    }
    let mut labels = vec![0; 35];
    (labels[3], labels[4]) = (12, IGNORE);
    for name in ["2007_a", "2007_b"] {
        voc.mask(
            &format!("VOCdevkit/VOC2012/SegmentationClass/{name}.png"),
            &IdMap::new(7, 5, labels.clone()),
        );
    }
    voc.write("VOCdevkit/VOC2012/ImageSets/Segmentation/train.txt", "2007_a\n");
    voc.write("VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt", "2007_b\n");
    let mat = include_bytes!("../data/sbd_compressed.mat");
    for name in ["2007_a", "2007_b", "2008_c"] {
        sbd.write(&format!("benchmark_RELEASE/dataset/cls/{name}.mat"), mat);
    }
    sbd.write("benchmark_RELEASE/dataset/train.txt", "2007_b\n2008_c\n");
    sbd.write("benchmark_RELEASE/dataset/val.txt", "2007_a\n");
    (voc, sbd)
}

#[test]
fn pascal_from_voc_and_sbd() {
    let (voc, sbd) = archives();
    let out = Folder::new();
    let out = out.path().join("pascal 5i");
    let made = prepare_pascal(voc.path(), sbd.path(), &out, false, &quiet).unwrap();
    assert_eq!((made.train_images, made.val_images, made.labels), (2, 1, 3));
    let lists = std::fs::read_to_string(out.join("train.txt")).unwrap();
    assert_eq!(
        lists,
        "JPEGImages/2007_a.jpg\tSegmentationClassAug/2007_a.png\nJPEGImages/2008_c.jpg\tSegmentationClassAug/2008_c.png\n"
    );

    let benchmark = Benchmark::open("pascal-5i", Some(&out)).unwrap();
    assert_eq!((benchmark.train.as_str(), benchmark.val.as_deref()), ("train", Some("val")));
    let table = benchmark.dataset.classes();
    assert_eq!(benchmark.folds, FoldScheme::Pascal5i.folds(table).unwrap());
    let by_name = |name: &str| {
        let index = benchmark.dataset.samples().iter().position(|sample| sample.name.contains(name)).unwrap();
        benchmark.dataset.load(index).unwrap().1
    };
    let (by_voc, by_sbd) = (by_name("2007_a"), by_name("2008_c"));
    assert_eq!((by_voc.data[3], by_voc.data[4]), (12, IGNORE));
    assert_eq!(
        (by_sbd.data[0], by_sbd.data[1], by_sbd.data[7]),
        (15, 1, 3),
        "row 1 of SBD's matrix begins with 7 mod 4"
    );
    assert!(check(&benchmark, CheckOptions::default(), &quiet).problems.is_empty());

    let again = prepare_pascal(voc.path(), sbd.path(), &out, false, &quiet).unwrap_err();
    assert!(matches!(again, DataError::AlreadyPrepared { .. }));
    prepare_pascal(voc.path(), sbd.path(), &out, true, &quiet).unwrap();
    let left: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "no temporary file stays: {left:?}");
}

#[test]
fn pascal_names_what_is_missing() {
    let (voc, sbd) = archives();
    let out = Folder::new();
    let prepare = || {
        prepare_pascal(voc.path(), sbd.path(), &out.path().join("p"), false, &quiet).unwrap_err().to_string()
    };
    sbd.write("benchmark_RELEASE/dataset/cls/2008_c.mat", b"not a matlab file");
    assert!(prepare().contains("2008_c.mat` is not a MATLAB file with labels: it is shorter than a header"));
    assert!(!out.path().join("p/protoseg.toml").exists());
    std::fs::remove_file(sbd.path().join("benchmark_RELEASE/dataset/cls/2008_c.mat")).unwrap();
    assert!(prepare().contains("2008_c.mat` does not exist"));
    std::fs::remove_file(voc.path().join("VOCdevkit/VOC2012/JPEGImages/2008_c.jpg")).unwrap();
    assert!(prepare().contains("2008_c.jpg` does not exist"));
    std::fs::remove_dir_all(sbd.path().join("benchmark_RELEASE")).unwrap();
    assert!(prepare().contains("SBD's folder `dataset`"));
}

fn coco_json(images: &[(u64, &str)], annotations: &str, n_categories: u64) -> String {
    let images: Vec<String> = images
        .iter()
        .map(|(id, name)| format!(r#"{{"id": {id}, "file_name": "{name}", "width": 20, "height": 12}}"#))
        .collect();
    // Category ids with gaps, as COCO has them.
    let categories: Vec<String> =
        (1..=n_categories).map(|id| format!(r#"{{"id": {}, "name": "thing {id}"}}"#, id + id / 12)).collect();
    format!(
        r#"{{"images": [{}], "annotations": [{annotations}], "categories": [{}]}}"#,
        images.join(", "),
        categories.join(", ")
    )
}

#[test]
fn coco_rasterised_and_read_back() {
    let coco = Folder::new();
    let annotations = r#"{"id": 1, "image_id": 7, "category_id": 86, "segmentation": [[0, 0, 4, 0, 4, 2, 0, 2]], "iscrowd": 0},
        {"id": 2, "image_id": 7, "category_id": 1, "segmentation": [[0, 0, 20, 0, 20, 12, 0, 12]], "iscrowd": 0}"#;
    coco.write(
        "annotations/instances_train2014.json",
        coco_json(&[(7, "x y.jpg"), (8, "none.jpg")], annotations, 80),
    );
    let one = r#"{"id": 3, "image_id": 9, "category_id": 13, "segmentation": {"size": [12, 20], "counts": [0, 240]}, "iscrowd": 1}"#;
    coco.write("annotations/instances_val2014.json", coco_json(&[(9, "z.jpg")], one, 80));
    for name in ["train2014/x y.jpg", "train2014/none.jpg", "val2014/z.jpg"] {
        coco.picture(name, &gradient(20, 12));
    }
    let out = Folder::new();
    let made = prepare_coco(coco.path(), out.path(), false, &quiet).unwrap();
    assert_eq!((made.train_images, made.val_images, made.overlapped_pixels), (1, 1, 8));
    for name in ["coco-20i", "coco-20i-contiguous"] {
        let prepared = Benchmark::open(name, Some(out.path())).unwrap();
        let (_, labels) = prepared.dataset.load(0).unwrap();
        assert_eq!((labels.data[0], labels.data[4]), (80, 1), "ids are places, without gaps");
        assert_eq!(prepared.dataset.load(1).unwrap().1.data, [IGNORE; 240]);
        assert_eq!(prepared.folds.len(), 4);
        let direct = Benchmark::open(name, Some(coco.path())).unwrap();
        assert_eq!(direct.dataset.load(0).unwrap().1, labels);
        assert_eq!(direct.folds, prepared.folds);
    }
    let sly = r#"{"id": 1, "image_id": 7, "category_id": 1, "segmentation": [[0, 0, 9, 0, 9, 9]]}"#;
    coco.write("annotations/instances_train2014.json", coco_json(&[(7, "../x.jpg")], sly, 80));
    coco.picture("x.jpg", &gradient(20, 12));
    let error = prepare_coco(coco.path(), out.path(), true, &quiet).unwrap_err().to_string();
    assert!(error.contains("which is outside its folder"), "{error}");
    let few = Folder::new();
    few.write("annotations/instances_train2014.json", coco_json(&[(7, "a.jpg")], "", 5));
    few.write("annotations/instances_val2014.json", coco_json(&[(7, "a.jpg")], "", 5));
    let error = prepare_coco(few.path(), out.path(), true, &quiet).unwrap_err().to_string();
    assert!(error.contains("needs `80` classes, got `5`"), "{error}");
}
