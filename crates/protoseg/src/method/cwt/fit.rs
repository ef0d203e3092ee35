//! A linear classifier of two classes, fitted to an episode's supports by plain gradient steps.
//!
//! Scores of the features' grid are resized to the image and judged there by a weighted cross-entropy. Resizing and the
//! classifier are linear, so the gradient is closed: with the pixels' own gradients brought down to the grid by the
//! transposed resizing (g, one per cell), that of a row is g^T F. What two classes are judged by is the difference of
//! their rows alone, and both rows get the same gradient with opposite signs. So one vector is fitted instead of two.

use protoseg_core::{IGNORE, RowMap};
use protoseg_kernels::{
    MarginShape, PixelLossRule, PixelLossShape, add_weighted, dots, margin_grad, pixel_loss_by,
};
use rayon::prelude::*;

use crate::method::{
    cells::Cells,
    mask::{BACKGROUND, FOREGROUND},
};

/// Cells that are one part of the work.
const PART: usize = 512;

/// The weights of background and foreground pixels, `[1, n_bg / n_fg]`; a class that is missing weighs nothing anyway.
pub fn class_weights(labels: &[RowMap]) -> [f32; 2] {
    let count = |class: u16| {
        let of = |label: &RowMap| label.data.iter().filter(|&&label| label == class).count();
        labels.iter().map(of).sum::<usize>()
    };
    match (count(BACKGROUND), count(FOREGROUND)) {
        (_, 0) | (0, _) => [1.0, 1.0],
        (background, foreground) => [1.0, (background as f64 / foreground as f64) as f32],
    }
}

/// A classifier on its way.
pub struct ClassifierFit<'a> {
    /// `[shots * h * w, d]`
    cells: Cells,
    labels: &'a [RowMap],
    grid: [usize; 2],
    shape: MarginShape,
    weights: [f32; 2],
    /// Of a weight of one, in the mean over all pixels.
    share: f32,
    /// `[2, d]`
    start: &'a [f32],
    /// What has been added to the second row and taken from the first.
    moved: Vec<f32>,
}

impl<'a> ClassifierFit<'a> {
    /// Of features on a `grid` and labels of one size, from the rows `start` (`[2, d]`, background first).
    pub fn new(cells: Cells, grid: [usize; 2], labels: &'a [RowMap], start: &'a [f32]) -> Self {
        let (dim, size) = (cells.dim, [labels[0].height, labels[0].width]);
        assert_eq!(cells.len(), labels.len() * grid[0] * grid[1], "cells of {} maps", labels.len());
        assert_eq!(start.len(), 2 * dim, "two rows of {dim}");
        let weights = class_weights(labels);
        let weight = |&label: &u16| match label {
            IGNORE => 0.0,
            label => f64::from(weights[usize::from(label)]),
        };
        let total: f64 = labels.iter().flat_map(|label| &label.data).map(weight).sum();
        let share = if total > 0.0 { (1.0 / total) as f32 } else { 0.0 };
        let shape = MarginShape::new(grid, size);
        Self { cells, labels, grid, shape, weights, share, start, moved: vec![0.0; dim] }
    }

    /// One step of plain gradient descent.
    pub fn step(&mut self, lr: f64) {
        let Self { cells: Cells { rows, dim }, labels, shape, weights, share, .. } = self;
        let (dim, map) = (*dim, self.grid[0] * self.grid[1]);
        let margins = margins(rows, dim, &difference(self.start, &self.moved));
        let weights = weights.map(|weight| weight * *share);
        let slopes: Vec<f32> = margins
            .par_chunks(map)
            .zip(labels.par_iter())
            .flat_map_iter(|(margins, label)| margin_grad(shape, margins, &label.data, weights))
            .collect();
        // Parts are added in their order: the same sum with any number of threads.
        let parts: Vec<Vec<f32>> = rows
            .par_chunks(PART * dim)
            .zip(slopes.par_chunks(PART))
            .map(|(rows, slopes)| {
                let mut sum = vec![0.0; dim];
                add_weighted(rows, slopes, &mut sum);
                sum
            })
            .collect();
        for part in parts {
            self.moved.iter_mut().zip(&part).for_each(|(moved, slope)| *moved -= lr as f32 * slope);
        }
    }

    /// The loss as it stands.
    pub fn loss(&self) -> f64 {
        let Cells { rows, dim } = &self.cells;
        let map = self.grid[0] * self.grid[1];
        let margins = margins(rows, *dim, &difference(self.start, &self.moved));
        let scores: Vec<f32> =
            margins.chunks(map).flat_map(|map| [vec![0.0; map.len()], map.to_vec()].concat()).collect();
        let labels: Vec<u16> = self.labels.iter().flat_map(|label| label.data.iter().copied()).collect();
        let size = [self.labels[0].height, self.labels[0].width];
        let shape = PixelLossShape { batch: self.labels.len(), classes: 2, grid: self.grid, size };
        let rule = PixelLossRule { weights: self.weights.to_vec(), smoothing: 0.0 };
        pixel_loss_by(&shape, &scores, &labels, &rule).loss
    }

    /// `[2, d]`, background first.
    pub fn rows(&self) -> Vec<f32> {
        let (background, foreground) = self.start.split_at(self.cells.dim);
        let less = background.iter().zip(&self.moved).map(|(start, moved)| start - moved);
        let more = foreground.iter().zip(&self.moved).map(|(start, moved)| start + moved);
        less.chain(more).collect()
    }
}

/// The row of the foreground less that of the background.
fn difference(start: &[f32], moved: &[f32]) -> Vec<f32> {
    let (background, foreground) = start.split_at(moved.len());
    let rows = foreground.iter().zip(background).zip(moved);
    rows.map(|((foreground, background), moved)| foreground - background + 2.0 * moved).collect()
}

fn margins(rows: &[f32], dim: usize, difference: &[f32]) -> Vec<f32> {
    let mut margins = vec![0.0; rows.len() / dim];
    let parts = margins.par_chunks_mut(PART).zip(rows.par_chunks(PART * dim));
    parts.for_each(|(margins, rows)| dots(rows, difference, margins));
    margins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_follows_the_slope_of_the_loss() {
        let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
        let (grid, dim) = ([3, 4], 3);
        let cells = Cells { rows: (0..2 * 12 * dim).map(value).collect(), dim };
        let label = |seed: usize| {
            let labels = (0..17 * 25).map(|i| [0, 0, 1, IGNORE, 0, 1, 0][(i / 5 + seed) % 7]);
            RowMap::new(25, 17, labels.collect())
        };
        let labels = [label(0), label(3)];
        let start: Vec<f32> = (0..2 * dim).map(|i| value(i + 500)).collect();
        let loss = |start: &[f32]| ClassifierFit::new(cells.clone(), grid, &labels, start).loss();
        let mut fit = ClassifierFit::new(cells.clone(), grid, &labels, &start);
        let lr = 0.5;
        fit.step(lr);
        for (i, row) in fit.rows().iter().enumerate() {
            let moved = |by: f32| {
                let mut start = start.clone();
                start[i] += by;
                loss(&start)
            };
            let slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            let expected = f64::from(start[i]) - lr * slope;
            assert!((f64::from(*row) - expected).abs() < 1e-4, "of value {i}: {row} {expected}");
        }
        let before = loss(&start);
        (0..200).for_each(|_| fit.step(lr));
        assert!(fit.loss() < before, "{} {before}", fit.loss());
    }

    #[test]
    fn classes_weigh_the_same_together() {
        let labels = [RowMap::new(5, 1, vec![0, 0, 0, 1, IGNORE]), RowMap::new(3, 1, vec![0, 1, 0])];
        assert_eq!(class_weights(&labels), [1.0, 2.5]);
        assert_eq!(class_weights(&[RowMap::new(2, 1, vec![0, 0])]), [1.0, 1.0]);
    }
}
