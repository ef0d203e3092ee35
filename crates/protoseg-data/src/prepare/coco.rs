//! COCO-20^i: COCO's instances as one label map per image, ids 1 to 80 in ascending order of category id.
//!
//! Images without instances are left out, because they have no foreground. Crowds become 255, as in
//! [`crate::reader::coco`].

use std::path::Path;

use rayon::prelude::*;

use super::{Prepared, claim, finish, stay_inside};
use crate::mask::write_index_mask;
use crate::progress::{Counter, Progress};
use crate::reader::coco::{CocoDataset, CocoSplit, find_splits, open};
use crate::{DataError, Dataset, Split, files};

/// Builds COCO-20^i in `out` from COCO's folder (`annotations/instances_train2014.json`, `instances_val2014.json`,
/// and the images in `train2014`, `val2014`; the 2017 files work as well).
pub fn prepare_coco(
    coco: &Path,
    out: &Path,
    force: bool,
    progress: Progress<'_>,
) -> Result<Prepared, DataError> {
    let found = find_splits(coco)?;
    let pick = |kind: &str| -> Result<CocoSplit, DataError> {
        let split = ["2014", "2017", ""]
            .iter()
            .find_map(|year| found.iter().find(|split| split.name == format!("{kind}{year}")).cloned());
        let missing = coco.join("annotations").join(format!("instances_{kind}2014.json"));
        split.ok_or_else(|| DataError::missing(&missing))
    };
    let splits = [pick("train")?, pick("val")?];
    let dataset = open("coco-20i", &splits, true)?;
    let (got, expected) = (dataset.classes().foreground().count(), 80);
    if got != expected {
        return Err(DataError::ClassCount { name: "coco-20i", path: coco.to_path_buf(), got, expected });
    }

    claim(out, force)?;
    let total = dataset.splits().iter().map(|split| labelled(&dataset, split).count()).sum();
    let counter = Counter::new(total, progress);
    let (mut lists, mut overlapped_pixels) = (Vec::new(), 0);
    for (place, split) in splits.iter().enumerate() {
        files::create_dir(&out.join("labels").join(&split.name))?;
        let (pairs, overlapped) = rasterise(&dataset, place, coco, split, out, &counter)?;
        lists.push(pairs);
        overlapped_pixels += overlapped;
    }
    let classes = dataset.classes().classes().iter().map(|class| class.name.clone()).collect();
    let spec = finish(out, "coco-20i", coco, classes, [&lists[0], &lists[1]])?;
    let [train_images, val_images] = [lists[0].len(), lists[1].len()];
    Ok(Prepared { spec, train_images, val_images, labels: train_images + val_images, overlapped_pixels })
}

type Pair = (String, String);

/// The images of a split that hold at least one instance.
fn labelled<'a>(dataset: &'a CocoDataset, split: &'a Split) -> impl Iterator<Item = usize> + 'a {
    split.samples.iter().copied().filter(|&index| dataset.n_instances(index) > 0)
}

fn rasterise(
    dataset: &CocoDataset,
    place: usize,
    root: &Path,
    split: &CocoSplit,
    out: &Path,
    counter: &Counter<'_>,
) -> Result<(Vec<Pair>, u64), DataError> {
    let indices: Vec<usize> = labelled(dataset, &dataset.splits()[place]).collect();
    let results: Vec<Result<(Pair, u64), DataError>> = indices
        .par_iter()
        .map(|&index| {
            let image = &dataset.samples()[index].image;
            if !image.is_file() {
                return Err(DataError::missing(image));
            }
            let labels = dataset.labels(index)?;
            let label = format!("labels/{}/{}.png", split.name, files::stem_under(&split.images, image));
            stay_inside(&split.annotations, &label)?;
            if let Some(parent) = out.join(&label).parent() {
                files::create_dir(parent)?;
            }
            write_index_mask(&out.join(&label), &labels.map)?;
            counter.step();
            Ok(((files::name_under(root, image), label), labels.overlapped))
        })
        .collect();
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let overlapped = results.iter().map(|(_, overlapped)| overlapped).sum();
    Ok((results.into_iter().map(|(pair, _)| pair).collect(), overlapped))
}
