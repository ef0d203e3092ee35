//! What a model makes of one image: labels, confidence, probabilities, areas, regions and an overlay.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use protoseg_core::{Classes, IGNORE, Image, RowMap, ScoreMap, best};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    once::get_or_make,
    picture::{ClassRegion, Palette, thumbnail},
};

/// Rows of pixels that a thread works on at a time.
const BAND: usize = 32;
/// Rows of pixels that are decided before their values are put together.
const GROUP: usize = 32 * BAND;

/// The scores of one image, and every answer that follows from them.
///
/// Answers are computed when they are first asked for, and labels and confidence are kept. Labels alone are cheapest.
/// Confidence takes a pass over the scores of all classes, which finds the labels too; a pass for probabilities finds
/// all three. Whoever needs several therefore asks for the probabilities first, then for the confidence.
#[derive(Clone, Debug)]
pub struct Prediction {
    scores: ScoreMap,
    palette: Arc<Palette>,
    /// Scores are divided by this before the softmax.
    temperature: f64,
    /// Pixels below this confidence get no label.
    least_confidence: Option<f64>,
    labels: OnceLock<RowMap>,
    confidence: OnceLock<Vec<f32>>,
}

/// How much of an image a class covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub(crate) fn new(scores: ScoreMap, palette: Arc<Palette>, temperature: f64) -> Self {
        assert_eq!(scores.classes, palette.classes().rows().len(), "every row of the scores has a class");
        let (labels, confidence) = (OnceLock::new(), OnceLock::new());
        Self { scores, palette, temperature, least_confidence: None, labels, confidence }
    }

    /// The same prediction without a label ([`IGNORE`]) where the confidence is below `least`. Labels, areas, regions
    /// and the overlay follow.
    pub fn abstain_below(self, least: f64) -> Self {
        Self { least_confidence: Some(least), ..Self::new(self.scores, self.palette, self.temperature) }
    }

    /// Whether the model's scores are numbers. If not, its weights are damaged, and labels mean nothing.
    pub fn is_finite(&self) -> bool {
        self.scores.is_finite()
    }

    /// Whether the model's scores are the same everywhere. On an image that shows anything, its weights are then damaged.
    pub fn is_flat(&self) -> bool {
        self.scores.is_flat()
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
        get_or_make(&self.labels, || {
            let bands: Vec<Vec<u16>> =
                bands(0..self.height()).map(|rows| self.scores.labels_in(rows)).collect();
            RowMap::new(self.width(), self.height(), bands.concat())
        })
    }

    /// The probability of the most probable class of every pixel, line by line.
    pub fn confidence(&self) -> &[f32] {
        let confidence: &Vec<f32> = get_or_make(&self.confidence, || {
            let (labels, confidence, _) = self.decide(|_, _, _: &mut [Vec<()>]| {});
            // Labels that are already there are the same.
            let _ = self.labels.set(labels);
            confidence
        });
        confidence
    }

    /// The confidence as gray values, 255 for certainty.
    pub fn confidence_u8(&self) -> Vec<u8> {
        self.confidence().iter().map(|confidence| gray(255.0 * confidence)).collect()
    }

    /// The probability of every class at every pixel: one plane per class, each line by line.
    pub fn probabilities(&self) -> Vec<Vec<f32>> {
        self.planes(|weight, sum| weight / sum)
    }

    /// The probabilities as gray values, 255 for certainty, in a quarter of the memory.
    pub fn probabilities_u8(&self) -> Vec<Vec<u8>> {
        self.planes(|weight, sum| gray(255.0 * weight / sum))
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
        let rows: Vec<u16> = rows.filter(|&row| Some(row) != self.palette.background()).collect();
        rows.into_par_iter().map(|row| ClassRegion::new(row, self.labels(), &confidence)).collect()
    }

    /// The image with its labels painted over it and a legend below.
    pub fn overlay(&self, image: &Image) -> Image {
        self.palette.overlay(image, self.labels())
    }

    /// The image and its painted labels, both with a longer side of at most `side` pixels.
    pub fn thumbnails(&self, image: &Image, side: usize) -> [Image; 2] {
        let input = thumbnail(image, side);
        let painted = self.palette.paint(&input, self.labels());
        [input, painted]
    }

    /// Pixels of each row.
    fn count_pixels(&self) -> Vec<u64> {
        let mut counts = vec![0; self.scores.classes];
        for run in self.labels().data.chunk_by(|a, b| a == b).filter(|run| run[0] != IGNORE) {
            counts[usize::from(run[0])] += run.len() as u64;
        }
        counts
    }

    /// One plane per class of `value(e^(score - highest), the sum of these over the classes)`.
    fn planes<T: Clone + Send>(&self, value: impl Fn(f32, f32) -> T + Sync) -> Vec<Vec<T>> {
        let (labels, confidence, planes) = self.decide(|weights, sum, planes: &mut [Vec<T>]| {
            for (plane, &weight) in planes.iter_mut().zip(weights) {
                plane.push(value(weight, sum));
            }
        });
        let _ = self.labels.set(labels);
        let _ = self.confidence.set(confidence);
        planes
    }

    /// Labels and confidence in one pass over all scores. `pixel` is told the softmax of each pixel, the weights of the
    /// classes and their sum, and may add a value to the plane of every class.
    fn decide<T: Clone + Send>(
        &self,
        pixel: impl Fn(&[f32], f32, &mut [Vec<T>]) + Sync,
    ) -> (RowMap, Vec<f32>, Vec<Vec<T>>) {
        let ScoreMap { width, height, classes, .. } = self.scores;
        let sharp = (1.0 / self.temperature) as f32;
        let decide_band = |rows: Range<usize>| {
            let mut labels = Vec::with_capacity(width * rows.len());
            let mut confidence = Vec::with_capacity(width * rows.len());
            let mut planes = vec![Vec::new(); classes];
            let mut weights = vec![0.0f32; classes];
            self.scores.for_rows_in(rows, |_, scores| {
                for scores in scores.chunks_exact(classes) {
                    let (row, highest) = best(scores);
                    weights
                        .iter_mut()
                        .zip(scores)
                        .for_each(|(to, score)| *to = (sharp * (score - highest)).exp());
                    let sum: f32 = weights.iter().sum();
                    let sure = 1.0 / sum;
                    let kept = self.least_confidence.is_none_or(|least| f64::from(sure) >= least);
                    labels.push(if kept { row as u16 } else { IGNORE });
                    confidence.push(sure);
                    pixel(&weights, sum, &mut planes);
                }
            });
            (labels, confidence, planes)
        };
        let mut labels = Vec::with_capacity(width * height);
        let mut confidence = Vec::with_capacity(width * height);
        let mut planes: Vec<Vec<T>> = (0..classes).map(|_| Vec::with_capacity(width * height)).collect();
        // A few bands at a time: the planes of a large picture are not held twice.
        for top in (0..height).step_by(GROUP) {
            let decided: Vec<_> = bands(top..(top + GROUP).min(height)).map(&decide_band).collect();
            for (more_labels, more_confidence, more_planes) in decided {
                labels.extend(more_labels);
                confidence.extend(more_confidence);
                planes.iter_mut().zip(more_planes).for_each(|(plane, more)| plane.extend(more));
            }
        }
        (RowMap::new(width, height, labels), confidence, planes)
    }
}

/// Rows of pixels, a few at a time, for several threads.
fn bands(rows: Range<usize>) -> impl IndexedParallelIterator<Item = Range<usize>> {
    let count = rows.len().div_ceil(BAND);
    (0..count).into_par_iter().map(move |band| {
        let top = rows.start + band * BAND;
        top..(top + BAND).min(rows.end)
    })
}

/// A value from 0 to 255, rounded to the nearest: what `round` does, without a call for each pixel.
fn gray(value: f32) -> u8 {
    let below = value as u8;
    below.saturating_add(u8::from(value - f32::from(below) >= 0.5))
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
        Prediction::new(map, Arc::new(Palette::new(&classes)), 1.0)
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
    fn gray_values_are_rounded() {
        for value in (0..=25_500).map(|at| at as f32 / 100.0).chain([0.5, 0.499_999_97, 254.5, 255.0]) {
            assert_eq!(gray(value), value.round() as u8, "{value}");
        }
    }

    #[test]
    fn rows_that_threads_share_are_those_of_one_pass() {
        let classes = Classes::new(&["background", "cow"], &["duck"]).unwrap();
        let scores = (0..3 * 5 * 4).map(|at| (at * 37 % 23) as f32 / 7.0).collect();
        let map = ScoreMap::stretched(ScoreGrid::new(3, 4, 5, scores), 50, GROUP + 3 * BAND + 7);
        let labels = map.labels();
        let prediction = Prediction::new(map, Arc::new(Palette::new(&classes)), 1.0);
        assert_eq!(prediction.labels(), &labels);
        let unasked = prediction.clone().abstain_below(0.0);
        assert_eq!(unasked.confidence().len(), labels.data.len());
        assert_eq!(unasked.labels(), &labels);
        assert!(prediction.probabilities().iter().all(|plane| plane.len() == labels.data.len()));
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
