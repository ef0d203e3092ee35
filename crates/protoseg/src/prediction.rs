//! What a model makes of one image: labels, confidence, probabilities, areas, regions and an overlay.

use std::sync::{Arc, OnceLock};

use protoseg_core::{Classes, IGNORE, Image, RowMap, ScoreMap, best};
use serde::Serialize;

use crate::picture::{ClassRegion, Palette};

/// The scores of one image, and every answer that follows from them.
///
/// Answers are computed when they are first asked for, and labels and confidence are kept. Labels alone are cheapest.
/// Confidence takes a pass over the scores of all classes, which finds the labels too; a pass for probabilities finds
/// all three. Whoever needs several therefore asks for the probabilities first, then for the confidence.
#[derive(Clone, Debug)]
pub struct Prediction {
    scores: ScoreMap,
    palette: Arc<Palette>,
    /// Pixels below this confidence get no label.
    least_confidence: Option<f64>,
    labels: OnceLock<RowMap>,
    confidence: OnceLock<Vec<f32>>,
}

/// How much of an image a class covers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Area {
    /// Name of the class.
    pub class: String,
    /// Its row; files call it an id.
    #[serde(rename = "id")]
    pub row: u16,
    /// Number of its pixels.
    pub pixels: u64,
    /// Their share of all pixels, from 0 to 1.
    pub share: f64,
}

impl Prediction {
    pub(crate) fn new(scores: ScoreMap, palette: Arc<Palette>) -> Self {
        assert_eq!(scores.classes, palette.classes().rows().len(), "every row of the scores has a class");
        let (labels, confidence) = (OnceLock::new(), OnceLock::new());
        Self { scores, palette, least_confidence: None, labels, confidence }
    }

    /// The same prediction without a label ([`IGNORE`]) where the confidence is below `least`. Labels, areas, regions
    /// and the overlay follow.
    pub fn abstain_below(self, least: f64) -> Self {
        Self { least_confidence: Some(least), ..Self::new(self.scores, self.palette) }
    }

    /// Width of the image.
    pub fn width(&self) -> usize {
        self.scores.width
    }

    /// Height of the image.
    pub fn height(&self) -> usize {
        self.scores.height
    }

    /// What the labels mean: label 0 is the first of these classes.
    pub fn classes(&self) -> &Classes {
        self.palette.classes()
    }

    /// The classes with their colours.
    pub fn palette(&self) -> &Palette {
        &self.palette
    }

    /// The most probable class of every pixel; the first of equals.
    pub fn labels(&self) -> &RowMap {
        if self.least_confidence.is_some() {
            // This pass decides which pixels keep their labels.
            self.confidence();
        }
        self.labels.get_or_init(|| self.scores.labels())
    }

    /// The probability of the most probable class of every pixel, line by line.
    pub fn confidence(&self) -> &[f32] {
        self.confidence.get_or_init(|| {
            let (labels, confidence) = self.decide(|_, _| {});
            // Labels that are already there are the same.
            let _ = self.labels.set(labels);
            confidence
        })
    }

    /// The confidence as gray values, 255 for certainty.
    pub fn confidence_u8(&self) -> Vec<u8> {
        self.confidence().iter().map(|confidence| (255.0 * confidence).round() as u8).collect()
    }

    /// The probability of every class at every pixel: one plane per class, each line by line.
    pub fn probabilities(&self) -> Vec<Vec<f32>> {
        self.planes(|weight, sum| weight / sum)
    }

    /// The probabilities as gray values, 255 for certainty, in a quarter of the memory.
    pub fn probabilities_u8(&self) -> Vec<Vec<u8>> {
        self.planes(|weight, sum| (255.0 * weight / sum).round() as u8)
    }

    /// The classes that occur, largest first.
    pub fn areas(&self) -> Vec<Area> {
        let all = (self.width() * self.height()).max(1) as f64;
        let counts = (0u16..).zip(self.count_pixels()).filter(|(_, pixels)| *pixels > 0);
        let area = |(row, pixels): (u16, u64)| {
            let class = self.palette.name(row).to_string();
            Area { class, row, pixels, share: pixels as f64 / all }
        };
        let mut areas: Vec<Area> = counts.map(area).collect();
        areas.sort_by_key(|area| (std::cmp::Reverse(area.pixels), area.row));
        areas
    }

    /// Number of pixels without a label.
    pub fn abstained(&self) -> u64 {
        self.labels().data.iter().filter(|&&label| label == IGNORE).count() as u64
    }

    /// The region of every class that occurs, by row, without the background.
    pub fn regions(&self) -> Vec<ClassRegion> {
        let confidence = self.confidence_u8();
        let rows = (0u16..).zip(self.count_pixels()).filter(|(_, pixels)| *pixels > 0).map(|(row, _)| row);
        rows.filter(|&row| Some(row) != self.palette.background())
            .map(|row| ClassRegion::new(row, self.labels(), &confidence))
            .collect()
    }

    /// The image with its labels painted over it and a legend below.
    pub fn overlay(&self, image: &Image) -> Image {
        self.palette.overlay(image, self.labels())
    }

    /// Pixels of each row.
    fn count_pixels(&self) -> Vec<u64> {
        let mut counts = vec![0; self.scores.classes];
        for &label in self.labels().data.iter().filter(|&&label| label != IGNORE) {
            counts[usize::from(label)] += 1;
        }
        counts
    }

    /// One plane per class of `value(e^(score - highest), the sum of these over the classes)`.
    fn planes<T: Clone>(&self, value: impl Fn(f32, f32) -> T) -> Vec<Vec<T>> {
        let size = self.width() * self.height();
        let mut planes = vec![Vec::with_capacity(size); self.scores.classes];
        let (labels, confidence) = self.decide(|weights, sum| {
            for (plane, &weight) in planes.iter_mut().zip(weights) {
                plane.push(value(weight, sum));
            }
        });
        let _ = self.labels.set(labels);
        let _ = self.confidence.set(confidence);
        planes
    }

    /// Labels and confidence in one pass over all scores. `pixel` is told the softmax of each pixel: the weights of
    /// the classes and their sum.
    fn decide(&self, mut pixel: impl FnMut(&[f32], f32)) -> (RowMap, Vec<f32>) {
        let ScoreMap { width, height, classes, .. } = self.scores;
        let mut labels = Vec::with_capacity(width * height);
        let mut confidence = Vec::with_capacity(width * height);
        let mut weights = vec![0.0f32; classes];
        self.scores.for_rows(|_, scores| {
            for scores in scores.chunks_exact(classes) {
                let (row, highest) = best(scores);
                weights.iter_mut().zip(scores).for_each(|(weight, score)| *weight = (score - highest).exp());
                let sum: f32 = weights.iter().sum();
                let sure = 1.0 / sum;
                let kept = self.least_confidence.is_none_or(|least| f64::from(sure) >= least);
                labels.push(if kept { row as u16 } else { IGNORE });
                confidence.push(sure);
                pixel(&weights, sum);
            }
        });
        (RowMap::new(width, height, labels), confidence)
    }
}

#[cfg(test)]
mod tests {
    use protoseg_core::ScoreGrid;

    use super::*;

    /// Three classes on 2 x 2 pixels: duck wins twice, clearly and barely; cow once, background once.
    fn prediction() -> Prediction {
        let scores = vec![0.0, 0.0, 4.0, 0.0, 0.0, 0.1, 0.0, 3.0, 0.0, 2.0, 0.0, 0.0];
        let classes = Classes::new(&["background", "cow"], &["duck"]).unwrap();
        let map = ScoreMap::stretched(ScoreGrid::new(3, 2, 2, scores), 2, 2);
        Prediction::new(map, Arc::new(Palette::new(&classes)))
    }

    #[test]
    fn every_answer_is_the_same_in_whichever_order_it_is_asked_for() {
        let (first, last) = (prediction(), prediction());
        let labels = first.labels().clone();
        let confidence = first.confidence().to_vec();
        let planes = last.probabilities();
        assert_eq!(labels.data, [2, 2, 1, 0]);
        assert_eq!((last.labels(), last.confidence()), (&labels, &confidence[..]));
        for (pixel, &label) in labels.data.iter().enumerate() {
            assert!((planes.iter().map(|plane| plane[pixel]).sum::<f32>() - 1.0).abs() < 1e-6);
            assert_eq!(planes[usize::from(label)][pixel], confidence[pixel]);
        }
        let sure = 4f32.exp() / (4f32.exp() + 2.0);
        assert!((confidence[0] - sure).abs() < 1e-6);
        assert_eq!(first.confidence_u8()[0], (255.0 * sure).round() as u8);
        assert_eq!(last.probabilities_u8()[2][0], first.confidence_u8()[0]);
    }

    #[test]
    fn areas_are_largest_first_and_regions_leave_the_background_out() {
        let areas = prediction().areas();
        let short: Vec<_> = areas.iter().map(|area| (area.class.as_str(), area.row, area.pixels)).collect();
        assert_eq!(short, [("duck", 2, 2), ("background", 0, 1), ("cow", 1, 1)]);
        assert_eq!(areas[0].share, 0.5);
        let regions = prediction().regions();
        let short: Vec<_> = regions.iter().map(|region| (region.row, region.area, region.bbox)).collect();
        assert_eq!(short, [(1, 1, [0, 1, 1, 1]), (2, 2, [0, 0, 2, 1])]);
    }

    #[test]
    fn an_unsure_pixel_loses_its_label_everywhere() {
        // Also after the labels were already asked for.
        let plain = prediction();
        plain.labels();
        let abstaining = plain.abstain_below(0.5);
        assert_eq!(abstaining.labels().data, [2, IGNORE, 1, 0]);
        assert_eq!(abstaining.abstained(), 1);
        assert_eq!(abstaining.areas()[0].pixels, 1);
        assert_eq!(abstaining.regions()[1].area, 1);
        assert_eq!(abstaining.confidence(), prediction().confidence());
        assert_eq!(prediction().abstain_below(0.0).labels(), prediction().labels());
        assert_eq!(prediction().abstain_below(1.0).abstained(), 4);
    }

    #[test]
    fn a_prediction_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>(_: &T) {}
        shared(&prediction());
    }
}
