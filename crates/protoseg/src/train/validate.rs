//! How good the base classes are on images that were not trained on.

use protoseg_core::{ClassRole, Confusion, Image, RowMap};

use super::{Shown, Validation};
use crate::{model::Model, register::RegisterError, segmenter::Segmenter};

/// An image that is looked at again and again. Its labels are rows; novel pixels are ignored.
pub(super) struct ValidationImage {
    pub name: String,
    pub image: Image,
    pub label: RowMap,
}

/// A model with the classifier of its base classes.
pub(super) struct Validator {
    segmenter: Segmenter,
}

impl Validator {
    /// Used as it is trained.
    pub fn new(model: &Model) -> Result<Self, RegisterError> {
        Ok(Self { segmenter: Segmenter::builder(model).build()? })
    }

    pub fn count(&self, looked: &ValidationImage, counts: &mut Confusion) {
        counts.add(&looked.label, &self.segmenter.score(&looked.image).labels());
    }

    pub fn show(&self, looked: &ValidationImage) -> Shown {
        Shown {
            name: looked.name.clone(),
            image: looked.image.clone(),
            truth: looked.label.clone(),
            predicted: self.segmenter.score(&looked.image).labels(),
        }
    }

    /// What the counts come to.
    pub fn scores(
        &self,
        counts: &Confusion,
        images: usize,
        on: &str,
        epoch: usize,
        step: usize,
    ) -> Validation {
        let classes = self.segmenter.classes();
        let n_base = classes.n_base();
        let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
        let base = classes.rows().iter().filter(|class| class.role != ClassRole::Novel);
        let iou =
            base.enumerate().map(|(row, class)| (class.name.clone(), percent(counts.iou(row)))).collect();
        Validation {
            epoch,
            step,
            on: on.to_string(),
            images,
            base_miou: percent(counts.mean_iou(0..n_base)).unwrap_or(0.0),
            pixel_accuracy: percent(counts.pixel_accuracy()).unwrap_or(0.0),
            iou,
            best: false,
        }
    }
}
