//! Pascal-5^i: VOC 2012 and SBD combined.
//!
//! The training images are those of VOC's train list and SBD's train and val lists, minus VOC's val list: 10,582. The
//! validation images are VOC's val list: 1,449. An image that VOC labels keeps VOC's labels; others get SBD's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Prepared, claim, finish, stay_inside};
use crate::mask::{read_index_mask, write_index_mask};
use crate::mat::read_sbd_labels;
use crate::progress::{Counter, Progress};
use crate::reader::voc::{VOC_CLASSES, find_tree, read_stems};
use crate::{DataError, files};

/// Builds Pascal-5^i in `out` from the folders of VOC and SBD (`dataset/cls/*.mat`, `dataset/train.txt`,
/// `dataset/val.txt`).
pub fn prepare_pascal(
    voc: &Path,
    sbd: &Path,
    out: &Path,
    force: bool,
    progress: Progress<'_>,
) -> Result<Prepared, DataError> {
    let tree = find_tree(voc)?;
    let sbd = find_sbd(sbd)?;
    let lists = tree.join("ImageSets").join("Segmentation");
    let read = |path: PathBuf| -> Result<BTreeSet<String>, DataError> {
        Ok(read_stems(&path)?.into_iter().collect())
    };
    let (voc_train, val) = (read(lists.join("train.txt"))?, read(lists.join("val.txt"))?);
    let mut train: BTreeSet<String> = &read(sbd.join("train.txt"))? | &read(sbd.join("val.txt"))?;
    train.extend(voc_train.iter().cloned());
    let train: BTreeSet<String> = train.difference(&val).cloned().collect();
    for (list, path) in [(&train, &sbd), (&val, &lists)] {
        if list.is_empty() {
            return Err(DataError::Empty { path: path.join("val.txt"), hint: "unpack the archive again" });
        }
    }

    claim(out, force)?;
    let labels_dir = out.join("SegmentationClassAug");
    files::create_dir(&labels_dir)?;
    let all: Vec<&String> = train.iter().chain(&val).collect();
    let counter = Counter::new(all.len(), progress);
    let results: Vec<Result<(), DataError>> = all
        .par_iter()
        .map(|stem| {
            stay_inside(&sbd.join("train.txt"), stem)?;
            let image = tree.join("JPEGImages").join(format!("{stem}.jpg"));
            if !image.is_file() {
                return Err(DataError::missing(&image));
            }
            let by_voc = tree.join("SegmentationClass").join(format!("{stem}.png"));
            let mut labels = match by_voc.is_file() || voc_train.contains(*stem) || val.contains(*stem) {
                true => read_index_mask(&by_voc)?,
                false => read_sbd_labels(&sbd.join("cls").join(format!("{stem}.mat")))?,
            };
            labels
                .data
                .iter_mut()
                .filter(|label| **label == 255)
                .for_each(|label| *label = protoseg_core::IGNORE);
            write_index_mask(&labels_dir.join(format!("{stem}.png")), &labels)?;
            counter.step();
            Ok(())
        })
        .collect();
    results.into_iter().collect::<Result<(), _>>()?;

    let pairs = |stems: &BTreeSet<String>| -> Vec<(String, String)> {
        stems
            .iter()
            .map(|stem| (format!("JPEGImages/{stem}.jpg"), format!("SegmentationClassAug/{stem}.png")))
            .collect()
    };
    let classes = VOC_CLASSES.map(str::to_string).to_vec();
    let spec = finish(out, "pascal-5i", &tree, classes, [&pairs(&train), &pairs(&val)])?;
    Ok(Prepared {
        spec,
        train_images: train.len(),
        val_images: val.len(),
        labels: train.len() + val.len(),
        overlapped_pixels: 0,
    })
}

fn find_sbd(root: &Path) -> Result<PathBuf, DataError> {
    let places = ["", "dataset", "benchmark_RELEASE/dataset", "benchmark/benchmark_RELEASE/dataset"];
    let trees = places.iter().map(|place| root.join(place));
    trees.into_iter().find(|tree| tree.join("cls").is_dir()).ok_or_else(|| DataError::Missing {
        path: root.join("cls"),
        hint:
            "point at SBD's folder `dataset` (it holds `cls`, `train.txt` and `val.txt`) or at one above it"
                .to_string(),
    })
}
