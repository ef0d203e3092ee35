//! Pixels against the rows of classes: a class scores as its best row.

use rayon::prelude::*;

use super::{
    panels::{Finish, LANES, Lanes, Panels, multiply},
    stages::{TINY, square_sum},
};

/// Pixels whose products are kept at a time: with 550 rows some 2 MB, which the caches hold between product and maximum.
const BLOCK: usize = 1024;

/// Every pixel of `[pixels, dim]`, its channels first multiplied by `weights` if there are any, at unit length.
pub fn unit_pixels(pixels: &mut [f32], dim: usize, weights: Option<&[f32]>) {
    pixels.par_chunks_exact_mut(dim.max(1)).with_min_len(64).for_each(|pixel| {
        if let Some(weights) = weights {
            pixel.iter_mut().zip(weights).for_each(|(value, weight)| *value *= weight);
        }
        let scale = 1.0 / square_sum(pixel).max(TINY).sqrt();
        pixel.iter_mut().for_each(|value| *value *= scale);
    });
}

/// The largest product of each pixel of `[pixels, dim]` with the rows of each class, times `scale`:
/// `[pixels, classes]`. `rows` is `[dim, rows]`; the rows of class c end before `ends[c]`, where those of the next begin.
/// All are of unit length, so products are at least -1; a class without rows scores as that.
pub fn best_rows(pixels: &[f32], rows: &Panels, ends: &[usize], scale: f32) -> Vec<f32> {
    let (dim, count, classes) = (rows.inner.max(1), rows.outer.max(1), ends.len());
    assert!(ends.last().is_none_or(|&last| last <= count), "classes end at {ends:?}, of {count} rows");
    let mut scores = vec![0.0; pixels.len() / dim * classes];
    let mut products = Vec::new();
    for (pixels, scores) in pixels.chunks(BLOCK * dim).zip(scores.chunks_mut((BLOCK * classes).max(1))) {
        products.resize(pixels.len() / dim * count, 0.0);
        multiply(pixels, rows, Finish::default(), &mut products, count);
        let lines = scores.par_chunks_exact_mut(classes.max(1)).zip(products.par_chunks_exact(count));
        lines.with_min_len(64).for_each(|(scores, products)| {
            let mut start = 0;
            for (score, &end) in scores.iter_mut().zip(ends) {
                *score = scale * largest(&products[start..end]);
                start = end;
            }
        });
    }
    scores
}

/// Lane by lane, so that the compiler can use vectors; -1 of nothing.
fn largest(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut best: Lanes = [-1.0; LANES];
    for block in blocks {
        best.iter_mut().zip(block).for_each(|(best, &value)| *best = larger(*best, value));
    }
    best.iter().chain(rest).copied().fold(-1.0, larger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    #[track_caller]
    fn assert_close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) {
        assert_eq!(got.len(), expected.len(), "{what}");
        let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= tolerance;
        assert!(got.iter().zip(expected).all(is_close), "{what}: {got:?}, expected {expected:?}");
    }

    fn noise(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + 13) % 1009) as f32 / 500.0 - 1.0).collect()
    }

    #[test]
    fn a_class_scores_as_its_best_row() {
        // More pixels than a block, rows that fill no panel, a class with one row and one with many.
        for (pixels, dim, ends) in [(2100, 24, vec![1, 40, 40, 43]), (3, 17, vec![2]), (70, 8, vec![16, 32])]
        {
            let count = *ends.last().unwrap();
            let (values, rows) = (noise(pixels * dim), noise(count * dim));
            let panels = Panels::new(dim, count, |channel, row| rows[row * dim + channel]);
            let scores = best_rows(&values, &panels, &ends, 20.0);
            assert_close("scores", &scores, &reference::best_rows(&values, dim, &rows, &ends, 20.0), 1e-3);
        }
    }

    #[test]
    fn pixels_have_unit_length_after_their_weights() {
        let mut pixels = vec![3.0, 2.0, 0.0, 0.0];
        unit_pixels(&mut pixels, 2, Some(&[1.0, 2.0]));
        assert_close("pixels", &pixels, &[0.6, 0.8, 0.0, 0.0], 1e-6);
        unit_pixels(&mut pixels, 2, None);
        assert_close("pixels", &pixels, &[0.6, 0.8, 0.0, 0.0], 1e-6);
    }
}
