//! Turns the original archives into lists and label maps that every run reads.
//!
//! A prepared folder holds index PNGs, `train.txt` and `val.txt` with `image label` pairs, and `protoseg.toml`. The
//! latter is written last, so an interrupted preparation is never mistaken for a complete one. Images stay where they
//! are.

mod coco;
mod pascal;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use coco::prepare_coco;
pub use pascal::prepare_pascal;

use crate::benchmark::SPEC_FILE;
use crate::{DataError, files};

/// What was prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Prepared {
    /// The file to open next.
    pub spec: PathBuf,
    pub train_images: usize,
    pub val_images: usize,
    /// Number of label maps written.
    pub labels: usize,
    /// Pixels that instances of two or more classes claim; they go to the smaller instance.
    pub overlapped_pixels: u64,
}

/// A description in the form that [`crate::Benchmark`] reads.
#[derive(Serialize)]
struct ListSpec<'a> {
    name: &'a str,
    format: &'a str,
    image_root: PathBuf,
    label_root: &'a str,
    classes: Vec<String>,
    ignore: [u16; 1],
    folds: &'a str,
    train: &'a str,
    val: &'a str,
    splits: Splits<'a>,
}

#[derive(Serialize)]
struct Splits<'a> {
    train: &'a str,
    val: &'a str,
}

/// Creates the folder; refuses one that is already prepared, unless forced.
fn claim(out: &Path, force: bool) -> Result<(), DataError> {
    let spec = out.join(SPEC_FILE);
    if spec.exists() {
        if !force {
            return Err(DataError::AlreadyPrepared { path: out.to_path_buf() });
        }
        std::fs::remove_file(&spec).map_err(|source| DataError::writing(&spec, source))?;
    }
    files::create_dir(out)
}

/// Refuses a name from a file if it would lead out of the folder that is written to.
fn stay_inside(path: &Path, name: &str) -> Result<(), DataError> {
    use std::path::Component::{CurDir, Normal};
    match Path::new(name).components().all(|part| matches!(part, Normal(_) | CurDir)) {
        true => Ok(()),
        false => Err(DataError::Outside { path: path.to_path_buf(), got: name.to_string() }),
    }
}

/// Writes both lists of `image label` lines and then the description.
fn finish(
    out: &Path,
    name: &str,
    image_root: &Path,
    classes: Vec<String>,
    lists: [&[(String, String)]; 2],
) -> Result<PathBuf, DataError> {
    for (split, pairs) in ["train.txt", "val.txt"].into_iter().zip(lists) {
        let lines: String = pairs.iter().map(|(image, label)| format!("{image}\t{label}\n")).collect();
        files::write_atomic(&out.join(split), lines.as_bytes())?;
    }
    let image_root = image_root.canonicalize().map_err(|source| DataError::reading(image_root, source))?;
    let spec = ListSpec {
        name,
        format: "list",
        image_root,
        label_root: ".",
        classes,
        ignore: [255],
        folds: name,
        train: "train",
        val: "val",
        splits: Splits { train: "train.txt", val: "val.txt" },
    };
    let path = out.join(SPEC_FILE);
    let text = toml::to_string(&spec).map_err(|error| DataError::Spec {
        path: path.clone(),
        line: 0,
        reason: error.to_string(),
        hint: "move the images to a path in UTF-8".to_string(),
    })?;
    files::write_atomic(&path, text.as_bytes())?;
    Ok(path)
}
