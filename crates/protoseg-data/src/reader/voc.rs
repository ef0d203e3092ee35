//! The Pascal VOC tree: `JPEGImages`, `ImageSets/Segmentation/*.txt`, and masks in `SegmentationClassAug` (VOC and
//! SBD merged, if somebody did so) or `SegmentationClass`.
//!
//! Every list is a split. The lists `trainaug` and `train_aug` are both called `train_aug`. If there are augmented
//! masks but no such list, the split holds every augmented mask that is not in `val`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use protoseg_core::ClassTable;

use super::DEFAULT_IGNORE;
use crate::dataset::{Contents, MaskDataset, MaskKind, Sample, SampleTable, Split};
use crate::{DataError, files};

/// The classes of Pascal VOC by id.
pub const VOC_CLASSES: [&str; 21] = [
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
];

/// The name of the split with VOC's and SBD's training images.
pub const TRAIN_AUG: &str = "train_aug";

/// The folder with `JPEGImages`: `root` itself, or where the archive puts it.
pub fn find_tree(root: &Path) -> Result<PathBuf, DataError> {
    let places = ["", "VOC2012", "VOCdevkit/VOC2012", "VOCtrainval_11-May-2012/VOCdevkit/VOC2012"];
    let trees = places.iter().map(|place| root.join(place));
    trees.into_iter().find(|tree| tree.join("JPEGImages").is_dir()).ok_or_else(|| DataError::Missing {
        path: root.join("JPEGImages"),
        hint: "point at the folder VOC2012 (it holds `JPEGImages` and `ImageSets`) or at one above it"
            .to_string(),
    })
}

/// Opens the tree with VOC's own 20 classes.
pub fn open(root: &Path) -> Result<MaskDataset, DataError> {
    let tree = find_tree(root)?;
    let classes = ClassTable::from_names(&VOC_CLASSES, &DEFAULT_IGNORE)
        .map_err(|source| DataError::Classes { path: tree.clone(), source })?;
    open_tree(&tree, "voc2012", classes, MaskKind::Index)
}

/// Opens any data set with VOC's layout.
pub fn open_tree(
    tree: &Path,
    name: &str,
    classes: ClassTable,
    masks: MaskKind,
) -> Result<MaskDataset, DataError> {
    let augmented = tree.join("SegmentationClassAug");
    let masks_dir = match augmented.is_dir() {
        true => augmented.clone(),
        false => tree.join("SegmentationClass"),
    };
    let lists_dir = tree.join("ImageSets").join("Segmentation");
    let mut table = SampleTable::default();
    let mut splits: Vec<Split> = Vec::new();
    let add = |stems: Vec<String>, table: &mut SampleTable| -> Vec<usize> {
        let samples = stems.into_iter().map(|stem| make_sample(tree, &masks_dir, &stem));
        samples.filter_map(|sample| table.add(sample)).collect()
    };
    for path in files::list_dir(&lists_dir)?.into_iter().filter(|path| files::has_ending(path, "txt")) {
        let stem = files::stem_under(&lists_dir, &path);
        let name = if stem == "trainaug" { TRAIN_AUG.to_string() } else { stem };
        let stems = read_stems(&path)?;
        if stems.is_empty() {
            return Err(DataError::Empty { path, hint: "write one image name per line" });
        }
        splits.push(Split { name, samples: add(stems, &mut table) });
    }
    if splits.is_empty() {
        return Err(DataError::Empty {
            path: lists_dir,
            hint: "add a list such as `train.txt`, with one image name per line",
        });
    }
    if augmented.is_dir() && splits.iter().all(|split| split.name != TRAIN_AUG) {
        let val = lists_dir.join("val.txt");
        let val: HashSet<String> = match val.is_file() {
            true => read_stems(&val)?.into_iter().collect(),
            false => HashSet::new(),
        };
        let masks = files::walk(&augmented, |path| files::has_ending(path, "png"))?;
        let stems = masks.iter().map(|mask| files::stem_under(&augmented, mask));
        let stems = stems.filter(|stem| !val.contains(stem)).collect();
        splits.push(Split { name: TRAIN_AUG.to_string(), samples: add(stems, &mut table) });
    }
    Ok(MaskDataset {
        contents: Contents { name: name.to_string(), classes, samples: table.samples, splits },
        masks,
    })
}

/// The image names in a list, one per line. Of an `image label` pair it takes the image, without folder and
/// extension.
pub(crate) fn read_stems(path: &Path) -> Result<Vec<String>, DataError> {
    let lines = files::read_lines(path)?;
    Ok(lines.into_iter().map(|(_, line)| line_stem(&line)).collect())
}

fn line_stem(line: &str) -> String {
    let mut words = line.split_whitespace();
    let image = match (words.next(), words.next(), words.next()) {
        (Some(image), Some(label), None)
            if [image, label].iter().all(|word| files::is_picture(Path::new(word))) =>
        {
            image
        }
        _ => line,
    };
    let image = image.trim_start_matches('/');
    let image = image.strip_prefix("JPEGImages/").unwrap_or(image);
    match files::is_picture(Path::new(image)) {
        true => files::name_under(Path::new(""), &Path::new(image).with_extension("")),
        false => image.to_string(),
    }
}

fn make_sample(tree: &Path, masks: &Path, stem: &str) -> Sample {
    let images = tree.join("JPEGImages");
    let jpeg = images.join(format!("{stem}.jpg"));
    let image = match jpeg.is_file() {
        true => jpeg,
        false => files::find_picture(&images, stem).unwrap_or(jpeg),
    };
    Sample { name: stem.to_string(), image, label: Some(masks.join(format!("{stem}.png"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_lines_come_in_several_forms() {
        for line in [
            "2007_000032",
            "JPEGImages/2007_000032.jpg",
            "/JPEGImages/2007_000032.jpg /SegmentationClassAug/2007_000032.png",
            "2007_000032.jpg",
        ] {
            assert_eq!(line_stem(line), "2007_000032", "{line}");
        }
        assert_eq!(line_stem("my photo.v2 of 3"), "my photo.v2 of 3");
        assert_eq!(line_stem("sub dir/my photo 1"), "sub dir/my photo 1");
    }
}
