//! Cross-entropy of scores that are upsampled on the way. Neither the full-size scores of every class nor their
//! softmax is ever stored: a row of pixels is made, judged and folded back into the gradient of the small grid.

use rayon::prelude::*;

use crate::simd::{Simd, Work, fast};

/// A grid of scores and the pixels it is judged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelLossShape {
    pub batch: usize,
    pub classes: usize,
    /// Height and width of the scores.
    pub grid: [usize; 2],
    /// Height and width of the labels.
    pub size: [usize; 2],
}

/// The label of a pixel that is not judged.
pub const UNJUDGED: u16 = u16::MAX;

/// How pixels are judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PixelLossRule {
    /// How much pixels of each class count; all the same if there are none. The mean is over the weights.
    pub weights: Vec<f32>,
    /// The share of its target that a pixel gives to the classes that it is not of, evenly.
    pub smoothing: f32,
}

impl PixelLossRule {
    /// How much a pixel of this label counts.
    pub(crate) fn weight(&self, label: u16) -> f32 {
        match label {
            UNJUDGED => 0.0,
            label => self.weights.get(usize::from(label)).copied().unwrap_or(1.0),
        }
    }

    /// What each class is given of every pixel, and what a pixel's own is given beside that.
    pub(crate) fn targets(&self, classes: usize) -> [f32; 2] {
        let others = if classes > 1 { self.smoothing / (classes - 1) as f32 } else { 0.0 };
        let own = if classes > 1 { 1.0 - self.smoothing - others } else { 1.0 };
        [others, own]
    }
}

/// A loss, and its gradient in the scores.
#[derive(Clone, Debug)]
pub struct PixelLoss {
    pub loss: f64,
    /// `[batch, classes, grid]`
    pub grad: Vec<f32>,
}

/// Rows of pixels that are one part of the work.
const BAND: usize = 32;

/// The mean cross-entropy over all judged pixels of `scores` (`[batch, classes, grid]`), brought to the size of
/// `labels` (`[batch, size]`) bilinearly with the corners kept in the corners. Zero where no pixel is judged.
pub fn pixel_loss(shape: &PixelLossShape, scores: &[f32], labels: &[u16]) -> PixelLoss {
    pixel_loss_by(shape, scores, labels, &PixelLossRule::default())
}

/// The same by a rule of its own.
pub fn pixel_loss_by(
    shape: &PixelLossShape,
    scores: &[f32],
    labels: &[u16],
    rule: &PixelLossRule,
) -> PixelLoss {
    let &PixelLossShape { batch, classes, grid: [grid_height, grid_width], size: [height, width] } = shape;
    let map = classes * grid_height * grid_width;
    assert_eq!(scores.len(), batch * map, "scores of {shape:?}");
    assert_eq!(labels.len(), batch * height * width, "labels of {shape:?}");
    assert!(rule.weights.is_empty() || rule.weights.len() == classes, "weights of {shape:?}");
    let judged: f64 = labels.iter().map(|&label| f64::from(rule.weight(label))).sum();
    let known = labels.iter().all(|&label| label == UNJUDGED || usize::from(label) < classes);
    assert!(known, "a label is not below {classes}");
    if judged == 0.0 {
        return PixelLoss { loss: 0.0, grad: vec![0.0; scores.len()] };
    }

    let (down, across) = (Axis::new(grid_height, height), Axis::new(grid_width, width));
    let scale = (1.0 / judged) as f32;
    let images: Vec<(f64, Vec<f32>)> = (0..batch)
        .into_par_iter()
        .map(|image| {
            let scores = &scores[image * map..][..map];
            let labels = &labels[image * height * width..][..height * width];
            let bands: Vec<(f64, Vec<f32>)> = labels
                .par_chunks(BAND * width.max(1))
                .enumerate()
                .map(|(band, labels)| {
                    let (mut loss, mut grad) = (0.0, vec![0.0; map]);
                    let first = band * BAND;
                    fast(Band {
                        scores,
                        labels,
                        first,
                        classes,
                        grid: shape.grid,
                        down: &down,
                        across: &across,
                        rule,
                        scale,
                        loss: &mut loss,
                        grad: &mut grad,
                    });
                    (loss, grad)
                })
                .collect();
            bands.into_iter().reduce(join).unwrap_or_else(|| (0.0, vec![0.0; map]))
        })
        .collect();
    let loss = images.iter().map(|(loss, _)| loss).sum::<f64>() / judged;
    PixelLoss { loss, grad: images.into_iter().flat_map(|(_, grad)| grad).collect() }
}

fn join((loss, mut grad): (f64, Vec<f32>), (more, other): (f64, Vec<f32>)) -> (f64, Vec<f32>) {
    grad.iter_mut().zip(&other).for_each(|(a, b)| *a += b);
    (loss + more, grad)
}

/// Where the positions of an axis lie between those of a shorter one.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// For each position: the old one before it, and the share of the next.
    pub places: Vec<(usize, f32)>,
    /// Runs of positions between the same two old ones: the old one, and the run.
    pub runs: Vec<(usize, std::ops::Range<usize>)>,
    pub shares: Vec<f32>,
}

impl Axis {
    pub fn new(from: usize, to: usize) -> Self {
        let step = (from as f64 - 1.0) / (to.max(2) as f64 - 1.0);
        let place = |new: usize| {
            let at = new as f64 * step;
            let old = (at as usize).min(from.saturating_sub(2));
            (old, (at - old as f64) as f32)
        };
        let places: Vec<(usize, f32)> = (0..to).map(place).collect();
        let mut runs: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
        for (new, &(old, _)) in places.iter().enumerate() {
            match runs.last_mut() {
                Some((last, run)) if *last == old => run.end = new + 1,
                _ => runs.push((old, new..new + 1)),
            }
        }
        let shares = places.iter().map(|&(_, share)| share).collect();
        Self { places, runs, shares }
    }
}

/// Some rows of pixels of one image.
struct Band<'a> {
    scores: &'a [f32],
    labels: &'a [u16],
    /// The first row.
    first: usize,
    classes: usize,
    grid: [usize; 2],
    down: &'a Axis,
    across: &'a Axis,
    rule: &'a PixelLossRule,
    /// Of a weight of one, in the mean.
    scale: f32,
    loss: &'a mut f64,
    grad: &'a mut [f32],
}

impl Work for Band<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.across.places.len();
        let [grid_height, grid_width] = self.grid;
        // The old position after the last one of an axis of one is that one again.
        let (next_row, next) = (usize::from(grid_height > 1), usize::from(grid_width > 1));
        let mut line = vec![0.0f32; grid_width];
        let mut pixels = vec![0.0f32; self.classes * width];
        let (mut largest, mut sum) = (vec![0.0f32; width], vec![0.0f32; width]);
        let [others, own] = self.rule.targets(self.classes);
        for (row, labels) in self.labels.chunks_exact(width).enumerate() {
            let (y, share) = self.down.places[self.first + row];
            let lines = |class: usize| {
                let start = (class * grid_height + y) * grid_width;
                (start, start + next_row * grid_width)
            };
            largest.fill(f32::NEG_INFINITY);
            for (class, pixels) in pixels.chunks_exact_mut(width).enumerate() {
                let (upper, lower) = lines(class);
                let old = self.scores[upper..][..grid_width].iter().zip(&self.scores[lower..][..grid_width]);
                line.iter_mut().zip(old).for_each(|(line, (a, b))| *line = a + share * (b - a));
                for (x, run) in &self.across.runs {
                    let (left, right) = (line[*x], line[x + next]);
                    let shares = &self.across.shares[run.clone()];
                    let pixels = pixels[run.clone()].iter_mut().zip(shares);
                    pixels.for_each(|(pixel, share)| *pixel = left + share * (right - left));
                }
                largest.iter_mut().zip(&*pixels).for_each(|(most, &pixel)| *most = most.max(pixel));
            }
            let mut loss = 0.0f64;
            for (x, &label) in labels.iter().enumerate().filter(|(_, label)| **label != UNJUDGED) {
                let mut below = own * (largest[x] - pixels[usize::from(label) * width + x]);
                if others > 0.0 {
                    let all = pixels[x..].iter().step_by(width).map(|pixel| largest[x] - pixel);
                    below += others * all.sum::<f32>();
                }
                loss += f64::from(self.rule.weight(label) * below);
            }
            sum.fill(0.0);
            for pixels in pixels.chunks_exact_mut(width) {
                for ((pixel, most), sum) in pixels.iter_mut().zip(&largest).zip(&mut sum) {
                    *pixel = exp(*pixel - most);
                    *sum += *pixel;
                }
            }
            for (sum, &label) in sum.iter_mut().zip(labels) {
                if label == UNJUDGED {
                    *sum = 0.0;
                } else {
                    let weight = self.rule.weight(label);
                    loss += f64::from(weight) * f64::from(*sum).ln();
                    *sum = weight * self.scale / *sum;
                }
            }
            *self.loss += loss;
            // The softmax, less the target, is the gradient of a pixel's scores; from here the way back.
            for pixels in pixels.chunks_exact_mut(width) {
                pixels.iter_mut().zip(&sum).for_each(|(pixel, scale)| *pixel *= scale);
            }
            for (x, &label) in labels.iter().enumerate().filter(|(_, label)| **label != UNJUDGED) {
                let weight = self.rule.weight(label) * self.scale;
                pixels[usize::from(label) * width + x] -= weight * own;
                if others > 0.0 {
                    pixels[x..].iter_mut().step_by(width).for_each(|pixel| *pixel -= weight * others);
                }
            }
            for (class, pixels) in pixels.chunks_exact(width).enumerate() {
                line.fill(0.0);
                for (x, run) in &self.across.runs {
                    let (mut whole, mut right) = (0.0f32, 0.0f32);
                    for (pixel, share) in pixels[run.clone()].iter().zip(&self.across.shares[run.clone()]) {
                        whole += pixel;
                        right += share * pixel;
                    }
                    line[*x] += whole - right;
                    line[x + next] += right;
                }
                let (upper, lower) = lines(class);
                let old = self.grad[upper..][..grid_width].iter_mut().zip(&line);
                old.for_each(|(grad, line)| *grad += (1.0 - share) * line);
                let old = self.grad[lower..][..grid_width].iter_mut().zip(&line);
                old.for_each(|(grad, line)| *grad += share * line);
            }
        }
    }
}

/// e to the power of `x`, for `x` of at most 0, to two units in the last place: the library's own cannot be
/// compiled to work on many values at once.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding this rounds to a whole number, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.max(-87.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    // The series of e^r on |r| <= ln 2 / 2, fitted.
    let series = 1.987_569_1e-4f32;
    let series = series * rest + 1.398_199_9e-3;
    let series = series * rest + 8.333_452e-3;
    let series = series * rest + 4.166_579_6e-2;
    let series = series * rest + 1.666_666_5e-1;
    let series = series * rest + 0.5;
    let series = series * rest * rest + rest + 1.0;
    let power = f32::from_bits(((shifted.to_bits() as i32 - ROUND.to_bits() as i32 + 127) << 23) as u32);
    series * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_exp() {
        for i in 0..=8600 {
            let x = -(i as f32) / 100.0;
            let (got, expected) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got - expected).abs() <= 3e-7 * expected, "{x}: {got:e} {expected:e}");
        }
        assert!(exp(-1e9) < 1e-37);
    }

    #[test]
    fn two_pixels_by_hand() {
        // Scores of two classes at one place; the pixel of label 1 costs ln(1 + e^-2), the other is not judged.
        let shape = PixelLossShape { batch: 1, classes: 2, grid: [1, 1], size: [1, 2] };
        let PixelLoss { loss, grad } = pixel_loss(&shape, &[1.0, 3.0], &[1, UNJUDGED]);
        let share = 1.0 / (1.0 + 2f64.exp());
        assert!((loss - (1.0 + (-2f64).exp()).ln()).abs() < 1e-6);
        assert!((f64::from(grad[0]) - share).abs() < 1e-6 && (f64::from(grad[1]) + share).abs() < 1e-6);
    }

    #[test]
    fn weights_and_smoothing_by_hand() {
        // Three classes at two places, labels 0 and 2: -ln p of each class by the label's weight and the target.
        let shape = PixelLossShape { batch: 1, classes: 3, grid: [1, 2], size: [1, 2] };
        let scores = [1.0, 0.0, 2.0, 1.0, 0.0, 3.0];
        let rule = PixelLossRule { weights: vec![1.0, 5.0, 3.0], smoothing: 0.2 };
        let PixelLoss { loss, .. } = pixel_loss_by(&shape, &scores, &[0, 2], &rule);
        let minus_log = |scores: [f64; 3]| {
            let total: f64 = scores.iter().map(|score| score.exp()).sum();
            scores.map(|score| total.ln() - score)
        };
        let (first, second) = (minus_log([1.0, 2.0, 0.0]), minus_log([0.0, 1.0, 3.0]));
        let judged = |own: f64, others: f64| 0.8 * own + 0.1 * others;
        let expected = judged(first[0], first[1] + first[2]) + 3.0 * judged(second[2], second[0] + second[1]);
        assert!((loss - expected / 4.0).abs() < 1e-6, "{loss} {}", expected / 4.0);
    }
}
