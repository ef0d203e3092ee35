//! Confidences that mean something: the temperature at which they are right as often as they say, found on base classes.

use protoseg_core::{IGNORE, NovelPixels, Reliability, Remap, RowMap, ScoreMap, ScoredPixels, decide};
use protoseg_data::{Benchmark, DataError, Progress, scan};
use serde::{Deserialize, Serialize};

use super::{EvaluateError, check_classes, evenly};
use crate::{
    model::{Calibration, Manifest, Model, Training},
    segmenter::Segmenter,
};

/// Images that the temperature is found on.
const IMAGES: usize = 100;
/// Every so many pixels along both axes are looked at: neighbours say the same.
const STEP: usize = 8;

/// How far confidences can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// As `predict` writes them: at the model's temperature, if it has one for this use.
    pub written: Reliability,
    /// Of scores as they are.
    pub plain: Reliability,
}

impl Trust {
    /// Counts some pixels of an image.
    pub(super) fn add(&mut self, scores: &ScoreMap, truth: &RowMap, temperature: f64) {
        for_sample(scores, truth, |scores, truth| {
            let add = |to: &mut Reliability, temperature: f64| {
                let (row, confidence) = decide(scores, temperature);
                to.add(confidence, row == usize::from(truth));
            };
            add(&mut self.written, temperature);
            add(&mut self.plain, 1.0);
        });
    }

    /// Counts the pixels of another.
    pub(super) fn merge(&mut self, other: &Self) {
        self.written.merge(&other.written);
        self.plain.merge(&other.plain);
    }
}

impl Model {
    /// The same model with confidences that are as often right as they say on base classes: a temperature is found on
    /// training images of the fold that it was trained on, before any class is taught.
    pub fn calibrated(&self, benchmark: &Benchmark, progress: Progress<'_>) -> Result<Self, EvaluateError> {
        let dataset = benchmark.dataset.as_ref();
        let training = &self.manifest().training;
        let index = training.fold.unwrap_or(0);
        let fold = benchmark.fold(index)?;
        let classes = fold.classes(dataset.classes()).map_err(DataError::from)?;
        check_classes(self, &classes, index, dataset.name())?;
        let rule = training.novel_pixels.unwrap_or(NovelPixels::Ignore);
        let remap = Remap::for_base_training(dataset.classes(), fold, rule).map_err(DataError::from)?;
        let all = scan(dataset, &benchmark.train)?.for_base_training(dataset.classes(), fold, rule);
        let images = evenly(&all, IMAGES);
        if images.is_empty() {
            return Err(EvaluateError::NoImages { split: benchmark.train.clone() });
        }
        let usage = self.usage()?;
        let segmenter = Segmenter::with_classifier(self, self.base_classifier(&usage), usage);
        let mut pixels = ScoredPixels::new(segmenter.classes().rows().len());
        for (done, &index) in images.iter().enumerate() {
            progress(done, images.len());
            let (image, truth) = benchmark.load_rows(index, &remap)?;
            for_sample(&segmenter.score(&image), &truth, |scores, truth| pixels.push(scores, truth));
        }
        progress(images.len(), images.len());
        let temperature = pixels.temperature();
        let calibration = Calibration {
            temperature,
            reliability: pixels.reliability(temperature),
            data: dataset.name().to_string(),
            images: images.len(),
        };
        let training = Training { calibration: Some(calibration), ..training.clone() };
        Ok(self.with_manifest(Manifest { training, ..self.manifest().clone() }))
    }
}

/// Calls `each` with the scores and the true row of some labelled pixels of an image, evenly spread.
fn for_sample(scores: &ScoreMap, truth: &RowMap, mut each: impl FnMut(&[f32], u16)) {
    for y in (STEP / 2..truth.height).step_by(STEP) {
        scores.for_rows_in(y..y + 1, |_, line| {
            let labels = &truth.data[y * truth.width..][..truth.width];
            let pixels = line.chunks_exact(scores.classes).zip(labels).skip(STEP / 2).step_by(STEP);
            pixels.filter(|(_, label)| **label != IGNORE).for_each(|(scores, &label)| each(scores, label));
        });
    }
}
