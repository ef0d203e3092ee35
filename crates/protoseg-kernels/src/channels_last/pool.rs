//! Pooling.

use std::ops::Range;

use rayon::prelude::*;

use crate::simd::{Simd, Work, fast};

/// The largest value of each square window, channel by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool {
    /// Side of a window: 2 without padding, or 3 with one pixel of padding.
    pub window: usize,
    /// From one window to the next.
    pub stride: usize,
    /// Whether a last window that reaches beyond the map counts.
    pub ceil: bool,
}

impl MaxPool {
    /// Windows of 3x3, with one pixel of padding.
    pub const fn three(stride: usize) -> Self {
        Self { window: 3, stride, ceil: false }
    }

    /// Pixels beyond the map on each side.
    pub const fn padding(self) -> usize {
        (self.window - 1) / 2
    }

    /// Windows along a side.
    pub fn out(self, side: usize) -> usize {
        let span = (side + 2 * self.padding()).saturating_sub(self.window);
        let whole = span / self.stride + 1;
        // A further window must begin on the map or its first padding.
        let further =
            self.ceil && !span.is_multiple_of(self.stride) && whole * self.stride < side + self.padding();
        whole + usize::from(further)
    }

    /// What window `at` covers of a side.
    fn reach(self, at: usize, side: usize) -> Range<usize> {
        let start = at * self.stride;
        let end = (start + self.window).saturating_sub(self.padding()).min(side);
        start.saturating_sub(self.padding())..end
    }
}

/// Max pooling of `[height, width, channels]`.
pub fn max_pool([height, width, channels]: [usize; 3], pool: MaxPool, input: &[f32], out: &mut [f32]) {
    let out_width = pool.out(width);
    assert_eq!(input.len(), height * width * channels);
    assert_eq!(out.len(), pool.out(height) * out_width * channels);
    out.par_chunks_mut((out_width * channels).max(1)).enumerate().for_each(|(row, out)| {
        let rows = pool.reach(row, height);
        fast(MaxLine { input, width, channels, pool, rows, out });
    });
}

struct MaxLine<'a> {
    input: &'a [f32],
    width: usize,
    channels: usize,
    pool: MaxPool,
    rows: Range<usize>,
    out: &'a mut [f32],
}

impl Work for MaxLine<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (column, out) in self.out.chunks_exact_mut(self.channels).enumerate() {
            out.fill(f32::NEG_INFINITY);
            for y in self.rows.clone() {
                for x in self.pool.reach(column, self.width) {
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
