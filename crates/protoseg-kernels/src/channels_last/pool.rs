//! Pooling.

use std::ops::Range;

use rayon::prelude::*;

use crate::simd::{Simd, Work, fast};

/// The largest of each 3x3 window, one pixel beyond the border included as nothing. `[height, width, channels]` to
/// `[ceil(height / stride), ceil(width / stride), channels]`.
pub fn max_pool_3x3([height, width, channels]: [usize; 3], stride: usize, input: &[f32], out: &mut [f32]) {
    let out_width = width.div_ceil(stride);
    assert_eq!(input.len(), height * width * channels);
    assert_eq!(out.len(), height.div_ceil(stride) * out_width * channels);
    out.par_chunks_mut((out_width * channels).max(1)).enumerate().for_each(|(row, out)| {
        let rows = around(row * stride, height);
        fast(MaxLine { input, width, channels, stride, rows, out });
    });
}

/// What lies within one step of `middle`.
fn around(middle: usize, side: usize) -> Range<usize> {
    middle.saturating_sub(1)..side.min(middle + 2)
}

struct MaxLine<'a> {
    input: &'a [f32],
    width: usize,
    channels: usize,
    stride: usize,
    rows: Range<usize>,
    out: &'a mut [f32],
}

impl Work for MaxLine<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (column, out) in self.out.chunks_exact_mut(self.channels).enumerate() {
            out.fill(f32::NEG_INFINITY);
            for y in self.rows.clone() {
                for x in around(column * self.stride, self.width) {
                    let pixel = &self.input[(y * self.width + x) * self.channels..][..self.channels];
                    out.iter_mut().zip(pixel).for_each(|(out, &value)| *out = out.max(value));
                }
            }
        }
    }
}

/// The pixels of each of `bins` parts of a line, which overlap where the line cannot be divided.
pub fn cells(side: usize, bins: usize) -> impl Iterator<Item = Range<usize>> {
    (0..bins).map(move |bin| bin * side / bins..((bin + 1) * side).div_ceil(bins))
}

/// Means over pyramids of cells, `[cell, channels]`: `bins` x `bins` cells row by row, for each of `bins` in order.
pub fn average_pool([height, width, channels]: [usize; 3], bins: &[usize], input: &[f32]) -> Vec<f32> {
    assert_eq!(input.len(), height * width * channels);
    let areas: Vec<(Range<usize>, Range<usize>)> = bins
        .iter()
        .flat_map(|&bins| {
            cells(height, bins).flat_map(move |y| cells(width, bins).map(move |x| (y.clone(), x)))
        })
        .collect();
    let mut out = vec![0.0; areas.len() * channels];
    out.par_chunks_mut(channels.max(1)).zip(&areas).for_each(|(out, (rows, columns))| {
        fast(Mean { input, width, rows: rows.clone(), columns: columns.clone(), out });
    });
    out
}

struct Mean<'a> {
    input: &'a [f32],
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    out: &'a mut [f32],
}

impl Work for Mean<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let channels = self.out.len();
        for y in self.rows.clone() {
            for x in self.columns.clone() {
                let pixel = &self.input[(y * self.width + x) * channels..][..channels];
                self.out.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
            }
        }
        let area = (self.rows.len() * self.columns.len()) as f32;
        self.out.iter_mut().for_each(|sum| *sum /= area);
    }
}
