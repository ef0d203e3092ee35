//! What [`crate::check`] found: one object, problems first.

use protoseg_core::{ClassId, NovelPixels};
use serde::Serialize;

use crate::DataError;

/// The schema of the report.
pub const SCHEMA: &str = "protoseg.data-check.v1";

/// The whole report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    pub schema: &'static str,
    pub dataset: String,
    /// Problems, each with its file, in the order of the samples.
    pub problems: Vec<Problem>,
    pub notes: Vec<Note>,
    /// The rule for base training.
    pub novel_pixels: NovelPixels,
    pub min_support_pixels: u64,
    pub train: String,
    pub val: Option<String>,
    pub background: Option<String>,
    /// Number of samples in any split.
    pub samples: usize,
    pub splits: Vec<SplitReport>,
    pub folds: Vec<FoldReport>,
}

/// A problem with one sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub sample: String,
    pub file: String,
    /// `missing`, `unreadable`, `size`, `unknown-id` or `labels`.
    pub kind: &'static str,
    pub message: String,
    pub hint: String,
}

/// Not a problem, but worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    pub kind: &'static str,
    pub message: String,
    pub hint: &'static str,
}

/// What a split contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SplitReport {
    pub name: String,
    pub images: usize,
    /// Images whose labels cannot be read; the other figures leave them out.
    pub unreadable: usize,
    pub without_label_file: usize,
    /// Images skipped in training and evaluation: they hold only background, or no label at all.
    pub no_foreground: usize,
    pub pixels: u64,
    pub ignored_pixels: u64,
    pub overlapped_pixels: u64,
    pub empty_shapes: u64,
    pub classes: Vec<ClassReport>,
    /// Number of images that hold both classes; rows and columns as in `classes`. The diagonal counts each class's
    /// images. Empty if there are over 1,000 classes.
    pub co_occurrence: Vec<Vec<u64>>,
}

/// How often a class occurs in a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassReport {
    pub id: ClassId,
    pub name: String,
    pub images: usize,
    pub pixels: u64,
}

/// What the rules keep for a fold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoldReport {
    pub fold: usize,
    pub novel: Vec<String>,
    /// Training images with readable labels.
    pub train_images: usize,
    /// One entry per rule for novel pixels.
    pub base_training: Vec<BaseReport>,
    pub supports: Vec<SupportReport>,
    pub val_images: usize,
    /// Validation images with foreground.
    pub val_kept: usize,
}

/// Training images under one rule for novel pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaseReport {
    pub novel_pixels: NovelPixels,
    pub kept: usize,
    pub dropped_no_foreground: usize,
    pub dropped_novel: usize,
}

/// Training images that can be supports of a novel class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SupportReport {
    pub class: String,
    /// Images that hold the class.
    pub images: usize,
    /// Images in which it is the lowest novel id.
    pub pool: usize,
    pub usable: usize,
    /// Images in the pool that are rejected because they hold another novel class.
    pub other_novel: usize,
    /// Images in the pool that are rejected because they hold too few pixels of the class.
    pub too_small: usize,
}

impl Problem {
    pub(crate) fn new(sample: &str, error: &DataError) -> Self {
        let text = error.to_string();
        let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        Self {
            sample: sample.to_string(),
            file: error.path().map_or_else(|| sample.to_string(), |path| path.display().to_string()),
            kind: error.kind(),
            message: message.to_string(),
            hint: hint.to_string(),
        }
    }
}
