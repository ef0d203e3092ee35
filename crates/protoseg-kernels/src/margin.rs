//! The gradient of a two-way cross-entropy whose scores are upsampled on the way: what a linear classifier of two
//! classes is fitted with. Only the difference of the two scores matters, so one map is resized instead of two, and no
//! logarithm is taken.

use rayon::prelude::*;

use crate::{
    UNJUDGED,
    pixel_loss::{Axis, exp},
    simd::{Simd, Work, fast},
};

/// Rows of pixels that are one part of the work.
const BAND: usize = 60;

/// Maps of margins and the pixels that they are judged on.
#[derive(Clone, Debug)]
pub struct MarginShape {
    grid: [usize; 2],
    down: Axis,
    across: Axis,
}

impl MarginShape {
    /// Height and width of a map of margins, and of its labels.
    pub fn new(grid: [usize; 2], size: [usize; 2]) -> Self {
        Self { grid, down: Axis::new(grid[0], size[0]), across: Axis::new(grid[1], size[1]) }
    }
}

/// The gradient in `margins` (a grid: the score of class 1 less that of class 0) of the weighted sum of the
/// cross-entropies of all pixels, after the margins have been brought to the size of `labels` with corners on corners.
/// `weights` are of the classes 0 and 1.
pub fn margin_grad(shape: &MarginShape, margins: &[f32], labels: &[u16], weights: [f32; 2]) -> Vec<f32> {
    let width = shape.across.places.len();
    assert_eq!(margins.len(), shape.grid[0] * shape.grid[1], "margins of a grid of {:?}", shape.grid);
    assert_eq!(labels.len(), shape.down.places.len() * width, "labels of {width} columns");
    let bands: Vec<Vec<f32>> = labels
        .par_chunks(BAND * width.max(1))
        .enumerate()
        .map(|(band, labels)| {
            let mut grad = vec![0.0; margins.len()];
            fast(Band { shape, margins, labels, first: band * BAND, weights, grad: &mut grad });
            grad
        })
        .collect();
    let add = |mut sum: Vec<f32>, band: Vec<f32>| {
        sum.iter_mut().zip(&band).for_each(|(a, b)| *a += b);
        sum
    };
    bands.into_iter().reduce(add).unwrap_or_else(|| vec![0.0; margins.len()])
}

/// Some rows of pixels.
struct Band<'a> {
    shape: &'a MarginShape,
    margins: &'a [f32],
    labels: &'a [u16],
    /// The first row.
    first: usize,
    weights: [f32; 2],
    grad: &'a mut [f32],
}

impl Work for Band<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let MarginShape { grid: [grid_height, grid_width], down, across } = self.shape;
        let (grid_width, width) = (*grid_width, across.places.len());
        let (next_row, next) = (usize::from(*grid_height > 1), usize::from(grid_width > 1));
        let mut line = vec![0.0f32; grid_width];
        let mut pixels = vec![0.0f32; width];
        for (row, labels) in self.labels.chunks_exact(width).enumerate() {
            let (y, share) = down.places[self.first + row];
            let (upper, lower) = (y * grid_width, (y + next_row) * grid_width);
            let old = self.margins[upper..][..grid_width].iter().zip(&self.margins[lower..][..grid_width]);
            line.iter_mut().zip(old).for_each(|(line, (a, b))| *line = a + share * (b - a));
            for (x, run) in &across.runs {
                let (left, right) = (line[*x], line[x + next]);
                let pixels = pixels[run.clone()].iter_mut().zip(&across.shares[run.clone()]);
                pixels.for_each(|(pixel, share)| *pixel = left + share * (right - left));
            }
            for (pixel, &label) in pixels.iter_mut().zip(labels) {
                // The sigmoid, by the exponential of what is not above zero.
                let small = exp(-pixel.abs());
                let positive = 1.0 / (1.0 + small);
                let probability = if *pixel < 0.0 { small * positive } else { positive };
                let judged = if label == UNJUDGED { 0.0 } else { self.weights[0] * probability };
                let own = self.weights[1] * (probability - 1.0);
                *pixel = if label == 1 { own } else { judged };
            }
            line.fill(0.0);
            for (x, run) in &across.runs {
                let (mut whole, mut right) = (0.0f32, 0.0f32);
                for (pixel, share) in pixels[run.clone()].iter().zip(&across.shares[run.clone()]) {
                    whole += pixel;
                    right += share * pixel;
                }
                line[*x] += whole - right;
                line[x + next] += right;
            }
            let old = self.grad[upper..][..grid_width].iter_mut().zip(&line);
            old.for_each(|(grad, line)| *grad += (1.0 - share) * line);
            let old = self.grad[lower..][..grid_width].iter_mut().zip(&line);
            old.for_each(|(grad, line)| *grad += share * line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PixelLossRule, PixelLossShape, reference};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_gradient_of_a_margin_is_that_of_class_one(
            grid in (1usize..6, 1usize..6),
            size in (1usize..130, 1usize..20),
            scale in 0.1f32..30.0,
            ratio in 0.1f32..9.0,
            seed in any::<u32>(),
        ) {
            let value = |i: usize| ((i as u32).wrapping_add(seed).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
            let cells = grid.0 * grid.1;
            let margins: Vec<f32> = (0..cells).map(|i| scale * value(i)).collect();
            let labels: Vec<u16> = (0..size.0 * size.1)
                .map(|i| match (value(i + 999) * 1.5).round() as i32 { -1 => 0, 0 => 1, _ => UNJUDGED })
                .collect();
            let weights = [1.0, ratio];
            let got = margin_grad(&MarginShape::new(grid.into(), size.into()), &margins, &labels, weights);
            let shape = PixelLossShape { batch: 1, classes: 2, grid: grid.into(), size: size.into() };
            let rule = PixelLossRule { weights: weights.to_vec(), smoothing: 0.0 };
            let scores: Vec<f32> = vec![0.0; cells].into_iter().chain(margins).collect();
            let (_, grad) = reference::pixel_loss(&shape, &scores, &labels, &rule);
            let total: f64 = labels.iter().filter(|&&label| label != UNJUDGED).map(|&label| f64::from(weights[usize::from(label)])).sum();
            for (got, expected) in got.iter().zip(&grad[cells..]) {
                prop_assert!((f64::from(*got) - expected * total).abs() < 1e-4 * total.max(1.0), "{got} {expected}");
            }
        }
    }
}
