//! How far confidences can be trusted: how often pixels of each confidence are right, and the temperature that brings
//! both together.

use serde::{Deserialize, Serialize};

/// Pixels by confidence, in steps of one hundredth, and how many of them are right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// The first step holds confidences from 0 to 0.01.
    steps: Vec<Step>,
}

/// The pixels of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Step {
    pixels: u64,
    right: u64,
    /// The sum of their confidences.
    confidence: f64,
}

/// Pixels of similar confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReliabilityGroup {
    /// Mean confidence, from 0 to 1.
    pub confidence: f64,
    /// The share of them that is right.
    pub accuracy: f64,
    /// Their share of all pixels.
    pub share: f64,
}

impl Reliability {
    const STEPS: usize = 100;
    /// Steps that make one group of [`Self::groups`] and of the calibration error: 20 groups.
    const GROUP: usize = 5;

    /// Counts a pixel.
    pub fn add(&mut self, confidence: f32, is_right: bool) {
        self.steps.resize(Self::STEPS, Step::default());
        let place = (f64::from(confidence) * Self::STEPS as f64) as usize;
        let step = &mut self.steps[place.min(Self::STEPS - 1)];
        step.pixels += 1;
        step.right += u64::from(is_right);
        step.confidence += f64::from(confidence);
    }

    /// Counts the pixels of another.
    pub fn merge(&mut self, other: &Self) {
        self.steps.resize(Self::STEPS, Step::default());
        for (own, other) in self.steps.iter_mut().zip(&other.steps) {
            own.pixels += other.pixels;
            own.right += other.right;
            own.confidence += other.confidence;
        }
    }

    /// Number of pixels.
    pub fn pixels(&self) -> u64 {
        self.steps.iter().map(|step| step.pixels).sum()
    }

    /// Pixels in groups of one twentieth, lowest confidence first; empty groups are left out.
    pub fn groups(&self) -> Vec<ReliabilityGroup> {
        let all = self.pixels() as f64;
        let group = |steps: &[Step]| {
            let pixels: u64 = steps.iter().map(|step| step.pixels).sum();
            let count = pixels as f64;
            (pixels > 0).then(|| ReliabilityGroup {
                confidence: steps.iter().map(|step| step.confidence).sum::<f64>() / count,
                accuracy: steps.iter().map(|step| step.right).sum::<u64>() as f64 / count,
                share: count / all,
            })
        };
        self.steps.chunks(Self::GROUP).filter_map(group).collect()
    }

    /// The expected calibration error: the mean difference between confidence and accuracy, over the groups, weighted by
    /// their pixels; from 0 to 1.
    pub fn ece(&self) -> f64 {
        self.groups().iter().map(|group| group.share * (group.confidence - group.accuracy).abs()).sum()
    }

    /// The lowest confidence such that pixels which are at least as sure are right with this share, from 0 to 1; none if
    /// even the surest are not.
    pub fn threshold(&self, precision: f64) -> Option<f64> {
        let (mut pixels, mut right, mut lowest) = (0u64, 0u64, None);
        for (place, step) in self.steps.iter().enumerate().rev() {
            pixels += step.pixels;
            right += step.right;
            if pixels > 0 && right as f64 >= precision * pixels as f64 {
                lowest = Some(place as f64 / Self::STEPS as f64);
            }
        }
        lowest
    }
}

/// Scores of some pixels with the class that is right.
#[derive(Clone, Debug, Default)]
pub struct ScoredPixels {
    classes: usize,
    scores: Vec<f32>,
    truth: Vec<u16>,
}

impl ScoredPixels {
    /// For scores of this many classes.
    pub fn new(classes: usize) -> Self {
        Self { classes, ..Self::default() }
    }

    /// Adds a pixel.
    pub fn push(&mut self, scores: &[f32], truth: u16) {
        assert_eq!(scores.len(), self.classes, "a score for every class");
        self.scores.extend_from_slice(scores);
        self.truth.push(truth);
    }

    fn iter(&self) -> impl Iterator<Item = (&[f32], u16)> {
        self.scores.chunks_exact(self.classes.max(1)).zip(self.truth.iter().copied())
    }

    /// The temperature that makes the right classes most probable: scores are divided by it before the softmax. From
    /// 1/16 to 16; 1 without a pixel.
    pub fn temperature(&self) -> f64 {
        if self.truth.is_empty() {
            return 1.0;
        }
        // The loss has one minimum along the inverse temperature, so a search by thirds finds it.
        let (mut low, mut high) = (-4.0f64, 4.0f64);
        for _ in 0..40 {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if self.loss(left.exp2()) < self.loss(right.exp2()) { high = right } else { low = left }
        }
        ((low + high) / 2.0).exp2()
    }

    /// The mean negative logarithm of the right class's probability.
    fn loss(&self, temperature: f64) -> f64 {
        let sharp = (1.0 / temperature) as f32;
        let of = |(scores, truth): (&[f32], u16)| {
            let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = scores.iter().map(|score| (sharp * (score - highest)).exp()).sum();
            f64::from(sum.ln() - sharp * (scores[usize::from(truth)] - highest))
        };
        self.iter().map(of).sum::<f64>() / self.truth.len() as f64
    }

    /// How far confidences at this temperature can be trusted.
    pub fn reliability(&self, temperature: f64) -> Reliability {
        let mut reliability = Reliability::default();
        for (scores, truth) in self.iter() {
            let (row, confidence) = decide(scores, temperature);
            reliability.add(confidence, row == usize::from(truth));
        }
        reliability
    }
}

/// The class with the highest score, and its probability at this temperature.
pub fn decide(scores: &[f32], temperature: f64) -> (usize, f32) {
    let (row, highest) = crate::best(scores);
    let sharp = (1.0 / temperature) as f32;
    (row, 1.0 / scores.iter().map(|score| (sharp * (score - highest)).exp()).sum::<f32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_four_pixels_by_hand() {
        // Two pixels with a confidence of 0.9, one right; two with 0.6, both right.
        let mut reliability = Reliability::default();
        [(0.9, true), (0.9, false), (0.6, true), (0.6, true)]
            .into_iter()
            .for_each(|(confidence, is_right)| reliability.add(confidence, is_right));
        assert!((reliability.ece() - 0.4).abs() < 1e-6, "{}", reliability.ece());
        assert_eq!(reliability.groups().len(), 2);
        // All four are right three times in four; the two surest only half of the time.
        assert_eq!(reliability.threshold(0.75), Some(0.0));
        assert_eq!(reliability.threshold(0.8), None);
        let mut twice = reliability.clone();
        twice.merge(&reliability);
        assert_eq!((twice.pixels(), twice.ece()), (8, reliability.ece()));
    }

    #[test]
    fn the_threshold_is_the_lowest_that_is_right_often_enough() {
        let mut reliability = Reliability::default();
        [(0.95, true), (0.85, true), (0.55, false), (0.15, false)]
            .into_iter()
            .for_each(|(confidence, is_right)| reliability.add(confidence, is_right));
        assert_eq!(reliability.threshold(1.0), Some(0.56));
        assert_eq!(reliability.threshold(0.6), Some(0.16));
        assert_eq!(Reliability::default().threshold(0.5), None);
    }

    #[test]
    fn the_temperature_makes_confidence_true() {
        // Scores of 0 and 2, and the second class is right three times in four: 2 / T = ln 3.
        let mut pixels = ScoredPixels::new(2);
        [1, 1, 1, 0].into_iter().for_each(|truth| pixels.push(&[0.0, 2.0], truth));
        let temperature = pixels.temperature();
        assert!((temperature - 2.0 / 3f64.ln()).abs() < 1e-3, "{temperature}");
        assert!(pixels.reliability(temperature).ece() < 1e-3);
        assert!(pixels.reliability(1.0).ece() > 0.1);
        assert_eq!(ScoredPixels::new(2).temperature(), 1.0);
    }
}
