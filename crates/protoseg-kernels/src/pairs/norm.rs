//! Group normalisation and ReLU. Statistics are over a group's channels and all pairs, in double precision.

use rayon::prelude::*;

use super::rows::Padded;
use crate::simd::{Simd, Work, fast};

/// Pairs whose sums a task computes: a number that threads do not change, so that the result does not either.
const PAIRS: usize = 1024;

/// The layer: one scale and one shift per channel.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    pub groups: usize,
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    /// Added to the variance before its root is taken.
    pub epsilon: f64,
}

/// Sums of the values and of their squares, per channel.
type Sums = Vec<[f64; 2]>;

impl GroupNorm {
    /// Scale and shift per channel, given the sums over `count` pairs.
    fn affine(&self, sums: &Sums, count: usize) -> Vec<[f32; 2]> {
        let own = self.weight.len() / self.groups;
        let mut affine = Vec::with_capacity(self.weight.len());
        for (group, sums) in sums.chunks_exact(own).enumerate() {
            let count = (own * count) as f64;
            let [sum, square] = sums.iter().fold([0.0; 2], |all, one| [all[0] + one[0], all[1] + one[1]]);
            let mean = sum / count;
            let deviation = ((square / count - mean * mean).max(0.0) + self.epsilon).sqrt();
            for channel in group * own..(group + 1) * own {
                let scale = f64::from(self.weight[channel]) / deviation;
                affine.push([scale as f32, (f64::from(self.bias[channel]) - mean * scale) as f32]);
            }
        }
        affine
    }
}

/// `values`, `[pairs, channels]`, normalised, then ReLU.
pub fn group_norm(norm: &GroupNorm, values: &mut [f32]) {
    let channels = norm.weight.len();
    let part = PAIRS * channels;
    let parts: Vec<Sums> = values
        .par_chunks(part)
        .map(|values| {
            let mut sums = vec![[0.0; 2]; channels];
            fast(SumPixels { values, sums: &mut sums });
            sums
        })
        .collect();
    let affine = norm.affine(&added(&parts, channels), values.len() / channels.max(1));
    values.par_chunks_mut(part).for_each(|values| fast(Apply { values, affine: &affine }));
}

/// As [`group_norm`], from planes: `[cells, channels, grid.whole_len()]`, of which only the grid's own values count,
/// to `[cells, height * width, channels]`.
pub fn group_norm_planes(norm: &GroupNorm, planes: &[f32], grid: Padded) -> Vec<f32> {
    let channels = norm.weight.len();
    let (whole, pixels) = (grid.whole_len(), grid.height * grid.width);
    let parts: Vec<Sums> = planes
        .par_chunks((channels * whole).max(1))
        .map(|maps| {
            let mut sums = vec![[0.0; 2]; channels];
            for (map, sums) in maps.chunks_exact(whole).zip(&mut sums) {
                fast(SumPlane { map, grid, sums });
            }
            sums
        })
        .collect();
    let affine = norm.affine(&added(&parts, channels), parts.len() * pixels);
    let mut out = vec![0.0; parts.len() * pixels * channels];
    let each = (pixels * channels).max(1);
    out.par_chunks_mut(each).zip(planes.par_chunks((channels * whole).max(1))).for_each(|(out, maps)| {
        fast(Turn { maps, grid, affine: &affine, out });
    });
    out
}

fn added(parts: &[Sums], channels: usize) -> Sums {
    let mut all = vec![[0.0; 2]; channels];
    for part in parts {
        all.iter_mut().zip(part).for_each(|(all, one)| *all = [all[0] + one[0], all[1] + one[1]]);
    }
    all
}

struct SumPixels<'a, 'b> {
    values: &'a [f32],
    sums: &'b mut [[f64; 2]],
}

impl Work for SumPixels<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let channels = self.sums.len();
        // Apart, so that each is a plain loop over channels.
        let (mut sums, mut squares) = (vec![0.0; channels], vec![0.0; channels]);
        for pixel in self.values.chunks_exact(channels) {
            for ((sum, square), &value) in sums.iter_mut().zip(&mut squares).zip(pixel) {
                let value = f64::from(value);
                *sum += value;
                *square += value * value;
            }
        }
        for (to, sums) in self.sums.iter_mut().zip(sums.into_iter().zip(squares)) {
            *to = [sums.0, sums.1];
        }
    }
}

struct SumPlane<'a, 'b> {
    map: &'a [f32],
    grid: Padded,
    sums: &'b mut [f64; 2],
}

impl Work for SumPlane<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        const WAYS: usize = 8;
        let (mut sums, mut squares) = ([0.0; WAYS], [0.0; WAYS]);
        for row in self.map.chunks(self.grid.pitch()).take(self.grid.height) {
            let row = &row[..self.grid.width];
            let (whole, rest) = row.as_chunks::<WAYS>();
            for values in whole {
                for way in 0..WAYS {
                    let value = f64::from(values[way]);
                    sums[way] += value;
                    squares[way] += value * value;
                }
            }
            for &value in rest {
                sums[0] += f64::from(value);
                squares[0] += f64::from(value) * f64::from(value);
            }
        }
        *self.sums = [sums.iter().sum(), squares.iter().sum()];
    }
}

struct Apply<'a, 'b> {
    values: &'a mut [f32],
    affine: &'b [[f32; 2]],
}

impl Work for Apply<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (scales, shifts): (Vec<f32>, Vec<f32>) =
            self.affine.iter().map(|&[scale, shift]| (scale, shift)).unzip();
        for pixel in self.values.chunks_exact_mut(scales.len()) {
            for ((value, &scale), &shift) in pixel.iter_mut().zip(&scales).zip(&shifts) {
                *value = S::mul_add(*value, scale, shift).max(0.0);
            }
        }
    }
}

struct Turn<'a, 'b> {
    maps: &'a [f32],
    grid: Padded,
    affine: &'a [[f32; 2]],
    out: &'b mut [f32],
}

impl Work for Turn<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        /// Cells that are turned at a time.
        const BLOCK: usize = 16;
        let Self { maps, grid, affine, out } = self;
        let (whole, channels) = (grid.whole_len(), affine.len());
        for (y, line) in out.chunks_exact_mut(grid.width * channels).enumerate() {
            for (block, cells) in line.chunks_mut(BLOCK * channels).enumerate() {
                let first = y * grid.pitch() + block * BLOCK;
                let count = cells.len() / channels;
                for (channel, &[scale, shift]) in affine.iter().enumerate() {
                    let row = &maps[channel * whole + first..][..count];
                    for (cell, &value) in row.iter().enumerate() {
                        cells[cell * channels + channel] = S::mul_add(value, scale, shift).max(0.0);
                    }
                }
            }
        }
    }
}
