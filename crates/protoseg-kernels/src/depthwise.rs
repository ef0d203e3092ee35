//! Convolutions of every channel by itself, in training.
//!
//! A plane is copied between zeros first, with its columns sorted by their remainder when divided by the stride.
//! Every tap of a line of outputs then reads a line of neighbours, without a look at borders or strides: all three
//! directions are sums of shifted lines.

use rayon::prelude::*;

use crate::{
    ConvShape,
    scratch::Scratch,
    simd::{LANES, Simd, Work, fast, unrolled},
};

/// Most values of a line that are computed at a time. Reading may go this far beyond a line.
const BLOCK: usize = 4 * LANES;

pub fn forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut output = vec![0.0; shape.output_len()];
    let padded = Padded::of_input(shape);
    let taps = shape.kernel * shape.kernel;
    output.par_chunks_mut(shape.out_plane().max(1)).enumerate().for_each_init(
        || (Scratch::new(padded.len()), Vec::with_capacity(taps)),
        |(source, shifts), (place, output)| {
            padded.fill(&input[place * shape.in_plane()..][..shape.in_plane()], source);
            let weight = &weight[place % shape.to * taps..][..taps];
            shifts.clear();
            shifts.extend(padded.taps(shape).zip(weight).map(|(shift, &weight)| Shift { shift, weight }));
            for (y, line) in output.chunks_exact_mut(shape.out_width()).enumerate() {
                let source = &source[padded.at(y * shape.stride, 0)..];
                fast(SumLine { source, shifts, line, first: 0, step: 1 });
            }
        },
    );
    output
}

pub fn input_grad(shape: &ConvShape, grad: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut input = vec![0.0; shape.input_len()];
    if grad.is_empty() {
        return input;
    }
    let (padded, stride, taps) = (Padded::of_grad(shape), shape.stride, shape.kernel * shape.kernel);
    input.par_chunks_mut(shape.in_plane().max(1)).enumerate().for_each_init(
        || Scratch::new(padded.len()),
        |source, (place, input)| {
            padded.fill(&grad[place * shape.out_plane()..][..shape.out_plane()], source);
            let weight = &weight[place % shape.to * taps..][..taps];
            // Pixels whose place leaves the same remainders see the same taps, at the same distances.
            let shifts: Vec<Vec<Shift>> = (0..stride * stride)
                .map(|phase| grad_shifts(shape, &padded, weight, [phase / stride, phase % stride]))
                .collect();
            for (y, line) in input.chunks_exact_mut(shape.width).enumerate() {
                let source = &source[padded.at(y / stride, 0)..];
                for first in 0..stride.min(shape.width) {
                    let shifts = &shifts[y % stride * stride + first];
                    fast(SumLine { source, shifts, line, first, step: stride });
                }
            }
        },
    );
    input
}

/// The taps that reach the input pixels `[y, x]` plus any multiple of the stride.
fn grad_shifts(shape: &ConvShape, padded: &Padded, weight: &[f32], [y, x]: [usize; 2]) -> Vec<Shift> {
    let from = |pixel: usize, tap: usize| {
        let place = pixel + shape.padding + padded.before * shape.stride - tap * shape.dilation;
        place.is_multiple_of(shape.stride).then_some(place / shape.stride)
    };
    let mut shifts = Vec::new();
    for (ky, line) in weight.chunks_exact(shape.kernel).enumerate() {
        for (kx, &weight) in line.iter().enumerate() {
            if let (Some(row), Some(column)) = (from(y, ky), from(x, kx)) {
                shifts.push(Shift { shift: padded.at(row, column), weight });
            }
        }
    }
    shifts
}

/// Images are added in their order.
pub fn weight_grad(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f32> {
    let taps = shape.kernel * shape.kernel;
    let mut weight = vec![0.0; shape.weight_len()];
    if grad.is_empty() {
        return weight;
    }
    let padded = Padded::of_input(shape);
    let shifts: Vec<usize> = padded.taps(shape).collect();
    weight.par_chunks_mut(taps).enumerate().for_each_init(
        || Scratch::new(padded.len()),
        |source, (channel, weight)| {
            let mut sums = vec![0.0; taps];
            for image in 0..shape.batch {
                let place = image * shape.to + channel;
                padded.fill(&input[place * shape.in_plane()..][..shape.in_plane()], source);
                let grad = &grad[place * shape.out_plane()..][..shape.out_plane()];
                let row = padded.at(shape.stride, 0);
                fast(Correlate {
                    source,
                    row,
                    grad,
                    width: shape.out_width(),
                    shifts: &shifts,
                    sums: &mut sums,
                });
            }
            weight.iter_mut().zip(sums).for_each(|(weight, sum)| *weight = sum as f32);
        },
    );
    weight
}

/// How a plane lies between zeros: `[row][remainder][column / phases]`, where the remainder is that of the column.
struct Padded {
    /// Of the plane as it comes.
    height: usize,
    /// Of the plane as it comes.
    width: usize,
    /// Rows above it, and columns left of it.
    before: usize,
    /// With the zeros.
    rows: usize,
    phases: usize,
    /// Values of one remainder in one row.
    line: usize,
}

impl Padded {
    /// An input plane, as far as outputs see it.
    fn of_input(shape: &ConvShape) -> Self {
        let seen =
            |out: usize| out.saturating_sub(1) * shape.stride + (shape.kernel - 1) * shape.dilation + 1;
        Self {
            height: shape.height,
            width: shape.width,
            before: shape.padding,
            rows: seen(shape.out_height()),
            phases: shape.stride,
            line: seen(shape.out_width()).div_ceil(shape.stride),
        }
    }

    /// A plane of the output's gradient, as far as inputs see it.
    fn of_grad(shape: &ConvShape) -> Self {
        let before = ((shape.kernel - 1) * shape.dilation).div_ceil(shape.stride);
        let seen = |side: usize| before + (side + shape.padding) / shape.stride + 1;
        Self {
            height: shape.out_height(),
            width: shape.out_width(),
            before,
            rows: seen(shape.height),
            phases: 1,
            line: seen(shape.width),
        }
    }

    /// Where a value lies. The sum of two places that are whole numbers of phases apart is the place of their sum.
    fn at(&self, row: usize, column: usize) -> usize {
        (row * self.phases + column % self.phases) * self.line + column / self.phases
    }

    /// Values of a padded plane, with room to read beyond its end.
    fn len(&self) -> usize {
        self.rows * self.phases * self.line + BLOCK
    }

    /// The places of the taps of the first output.
    fn taps(&self, shape: &ConvShape) -> impl Iterator<Item = usize> {
        let (kernel, dilation) = (shape.kernel, shape.dilation);
        (0..kernel * kernel).map(move |tap| self.at(tap / kernel * dilation, tap % kernel * dilation))
    }

    fn fill(&self, plane: &[f32], to: &mut [f32]) {
        let row_len = self.phases * self.line;
        let rows = self.height.min(self.rows.saturating_sub(self.before));
        let (above, below) = (self.before.min(self.rows) * row_len, (self.before + rows) * row_len);
        to[..above].fill(0.0);
        to[below.max(above)..].fill(0.0);
        for (y, from) in plane.chunks_exact(self.width).take(rows).enumerate() {
            let to = &mut to[(self.before + y) * row_len..][..row_len];
            for (phase, to) in to.chunks_exact_mut(self.line).enumerate() {
                // Columns c with c = phase + i * phases, before <= c < before + width.
                let first = self.before.saturating_sub(phase).div_ceil(self.phases).min(self.line);
                let end =
                    (self.before + self.width).saturating_sub(phase).div_ceil(self.phases).min(self.line);
                to[..first].fill(0.0);
                to[end.max(first)..].fill(0.0);
                if end <= first {
                    continue;
                }
                let from = &from[phase + first * self.phases - self.before..];
                let values = from.iter().step_by(self.phases);
                if self.phases == 1 {
                    to[first..end].copy_from_slice(&from[..end - first]);
                } else {
                    to[first..end].iter_mut().zip(values).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }
}

/// A line of neighbours, from `shift` on, and what it is multiplied by.
#[derive(Clone, Copy)]
struct Shift {
    shift: usize,
    weight: f32,
}

/// `line[first + i * step] = sum of weight * source[shift + i]`
struct SumLine<'a> {
    source: &'a [f32],
    shifts: &'a [Shift],
    line: &'a mut [f32],
    first: usize,
    step: usize,
}

impl Work for SumLine<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let len = (self.line.len() - self.first).div_ceil(self.step);
        let mut start = 0;
        while start < len {
            start += match len - start {
                49.. => self.block::<S, 4>(start, len),
                17.. => self.block::<S, 2>(start, len),
                _ => self.block::<S, 1>(start, len),
            };
        }
    }
}

impl SumLine<'_> {
    /// The sums from `start` on; returns how many were made.
    #[inline(always)]
    fn block<S: Simd, const B: usize>(&mut self, start: usize, len: usize) -> usize {
        let mut sums = [S::splat(0.0); B];
        for &Shift { shift, weight } in self.shifts {
            let source = self.source[shift + start..][..B * LANES].as_chunks::<LANES>().0;
            let weight = S::splat(weight);
            unrolled!(b in 0..B, at most 5, { sums[b] = S::mul_add_all(S::load(&source[b]), weight, sums[b]) });
        }
        let mut block = [[0.0; LANES]; B];
        unrolled!(b in 0..B, at most 5, { S::store(sums[b], &mut block[b]) });
        let count = (B * LANES).min(len - start);
        let sums = &block.as_flattened()[..count];
        if self.step == 1 {
            self.line[self.first + start..][..count].copy_from_slice(sums);
        } else {
            let line = self.line[self.first + start * self.step..].iter_mut().step_by(self.step);
            line.zip(sums).for_each(|(to, from)| *to = *from);
        }
        count
    }
}

/// Adds to each tap's sum the products of `grad` with the lines that the tap sees.
struct Correlate<'a> {
    source: &'a [f32],
    /// From one line of outputs to the next.
    row: usize,
    grad: &'a [f32],
    width: usize,
    shifts: &'a [usize],
    sums: &'a mut [f64],
}

impl Work for Correlate<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let mut tap = 0;
        while tap < self.shifts.len() {
            // Sums that fit in registers.
            tap += match self.shifts.len() - tap {
                9.. if S::WIDE => self.taps::<S, 9>(tap),
                5.. => self.taps::<S, 5>(tap),
                3.. => self.taps::<S, 3>(tap),
                _ => self.taps::<S, 1>(tap),
            };
        }
    }
}

impl Correlate<'_> {
    /// The sums of `T` taps from `tap` on; returns `T`.
    #[inline(always)]
    fn taps<S: Simd, const T: usize>(&mut self, tap: usize) -> usize {
        let shifts: [usize; T] = std::array::from_fn(|i| self.shifts[tap + i]);
        let mut sums = [S::splat(0.0); T];
        for (y, grad) in self.grad.chunks_exact(self.width).enumerate() {
            let lines = shifts.map(|shift| {
                let line = &self.source[y * self.row + shift..][..self.width.next_multiple_of(LANES)];
                line.as_chunks::<LANES>().0
            });
            for (chunk, grad) in grad.chunks(LANES).enumerate() {
                let grad = match grad.first_chunk() {
                    Some(grad) => S::load(grad),
                    None => S::load_first(grad, grad.len()),
                };
                unrolled!(t in 0..T, at most 12, {
                    sums[t] = S::mul_add_all(grad, S::load(&lines[t][chunk]), sums[t]);
                });
            }
        }
        let mut totals = [[0.0; LANES]; T];
        unrolled!(t in 0..T, at most 12, { S::store(sums[t], &mut totals[t]) });
        for (total, sums) in self.sums[tap..].iter_mut().zip(&totals) {
            *total += sums.iter().copied().map(f64::from).sum::<f64>();
        }
        T
    }
}
