//! How good the base classes are on images that were not trained on, judged on the network's canvas.

use protoseg_core::{ClassRole, Confusion, Image, LabelMap};

use super::{Shown, Validation};
use crate::{model::Model, register::PrototypeBank};

/// An image that is looked at again and again. Its labels are rows; novel pixels are ignored.
pub(super) struct Looked {
    pub name: String,
    pub image: Image,
    pub label: LabelMap,
}

/// A model with the classifier of its base classes.
pub(super) struct Judge<'a> {
    model: &'a Model,
    bank: PrototypeBank,
}

impl<'a> Judge<'a> {
    pub fn new(model: &'a Model) -> Self {
        Self { model, bank: model.base_bank(&model.manifest.options) }
    }

    /// The base class of every pixel of the canvas.
    fn predict(&self, image: &Image) -> LabelMap {
        let manifest = &self.model.manifest;
        let dqce = manifest.inference().dqce;
        let scores = self.model.scores(image, &self.bank, dqce, &manifest.options);
        let rows: Vec<i64> = scores.argmax(1).try_into_vec_as().expect("row numbers are integers");
        let size = manifest.preprocess.size;
        LabelMap::new(size, size, rows.into_iter().map(|row| row as u16).collect())
    }

    pub fn count(&self, looked: &Looked, counts: &mut Confusion) {
        let truth = self.model.manifest.preprocess.label(&looked.label);
        counts.add(&truth, &self.predict(&looked.image));
    }

    /// Image, truth and prediction at the image's own size.
    pub fn show(&self, looked: &Looked) -> Shown {
        let preprocess = &self.model.manifest.preprocess;
        let Image { width, height, .. } = looked.image;
        let (content_width, content_height) = preprocess.content(width, height);
        let canvas = self.predict(&looked.image);
        let rows = canvas.data.chunks_exact(preprocess.size).take(content_height);
        let content = rows.flat_map(|row| &row[..content_width]).copied().collect();
        Shown {
            name: looked.name.clone(),
            image: looked.image.clone(),
            truth: looked.label.clone(),
            predicted: LabelMap::new(content_width, content_height, content).resize_nearest(width, height),
        }
    }

    /// What the counts come to.
    pub fn judge(
        &self,
        counts: &Confusion,
        images: usize,
        on: &str,
        epoch: usize,
        step: usize,
    ) -> Validation {
        let classes = &self.model.manifest.classes;
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
