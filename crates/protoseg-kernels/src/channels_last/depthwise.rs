//! Convolutions of every channel by itself: lanes are channels, and nothing is summed across them.
//!
//! A block of neighbouring outputs is computed together, channels by the vector: a pixel or a tap that is read
//! serves all of them. With a dilation, neighbours are the outputs that see the same pixels, a dilation apart.

use std::ops::Range;

use rayon::prelude::*;

use super::panels::{Finish, LANES, Lanes, activate, read_vector, share, write_vector};
use crate::{
    Activation, ConvShape,
    simd::{Simd, Work, fast, prefetch, unrolled},
};

/// Most output rows of a task. Rows that two tasks see are read twice.
const ROWS: usize = 16;

/// The taps of every channel.
#[derive(Clone, Debug)]
pub struct Depthwise {
    /// `[panel][kernel * kernel][lane]`
    taps: Vec<Lanes>,
}

impl Depthwise {
    /// `weight` is `[channels, kernel, kernel]`.
    pub fn new(shape: &ConvShape, weight: &[f32]) -> Self {
        let count = shape.kernel * shape.kernel;
        let mut taps = vec![[0.0; LANES]; count * shape.to.div_ceil(LANES)];
        for (channel, weight) in weight.chunks_exact(count).enumerate() {
            let panel = &mut taps[channel / LANES * count..];
            panel.iter_mut().zip(weight).for_each(|(lanes, &tap)| lanes[channel % LANES] = tap);
        }
        Self { taps }
    }

    pub fn weight_bytes(&self) -> usize {
        size_of_val(&self.taps[..])
    }

    pub fn taps(&self) -> &[Lanes] {
        &self.taps
    }

    pub fn run(&self, shape: &ConvShape, input: &[f32], finish: Finish, out: &mut [f32], stride: usize) {
        let rows = share(shape.batch * shape.out_height(), ROWS);
        let row_len = shape.out_width() * stride;
        out.par_chunks_mut((rows * row_len).max(1)).enumerate().for_each(|(index, out)| {
            let first = index * rows;
            let finish = Finish { add: finish.add.map(|add| &add[first * row_len..]), ..finish };
            fast(Band { shape, taps: &self.taps, input, finish, first, out, stride });
        });
    }
}

/// Some output rows, from `first` of all the batch's on.
pub struct Band<'a> {
    pub shape: &'a ConvShape,
    pub taps: &'a [Lanes],
    pub input: &'a [f32],
    pub finish: Finish<'a>,
    pub first: usize,
    pub out: &'a mut [f32],
    pub stride: usize,
}

impl Work for Band<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let &ConvShape { from, kernel, stride, dilation, .. } = self.shape;
        let pixels = self.out.len().div_ceil(self.stride);
        let reach = (pixels - 1) * self.stride + from;
        let panels = from.div_ceil(LANES);
        assert!(self.out.len() >= reach && self.finish.add.is_none_or(|add| add.len() >= reach));
        assert!(self.finish.bias.is_none_or(|bias| bias.len() >= panels));
        assert_eq!(self.taps.len(), kernel * kernel * panels);
        let (rows, out_height) = (pixels / self.shape.out_width(), self.shape.out_height());
        let mut row = 0;
        while row < rows {
            // Two rows of the same image, if there are two and if their sums fit in registers.
            let is_pair = row + 1 < rows && !(self.first + row + 1).is_multiple_of(out_height);
            row += match (kernel, stride, dilation) {
                (3, 1, 1) if S::WIDE && is_pair => self.rows::<S, 3, 1, 2, 8, 4, 10>(row),
                (5, 1, 1) if S::WIDE && is_pair => self.rows::<S, 5, 1, 2, 8, 6, 12>(row),
                (3, 2, 1) if S::WIDE && is_pair => self.rows::<S, 3, 2, 2, 4, 5, 9>(row),
                (5, 2, 1) if S::WIDE && is_pair => self.rows::<S, 5, 2, 2, 4, 7, 11>(row),
                (3, 1, _) => self.rows::<S, 3, 1, 1, 4, 3, 6>(row),
                (5, 1, _) => self.rows::<S, 5, 1, 1, 4, 5, 8>(row),
                (3, 2, 1) => self.rows::<S, 3, 2, 1, 4, 3, 9>(row),
                (5, 2, 1) => self.rows::<S, 5, 2, 1, 4, 5, 11>(row),
                _ => self.row::<S>(row),
            };
        }
    }
}

/// The pixels that some outputs see, as far as they lie on the map.
struct Window<'a> {
    /// Where the first column of each row is, or would be; none for rows beyond the map.
    lines: &'a [Option<*const f32>],
    /// Values from one column to the next.
    step: usize,
    columns: Range<usize>,
}

/// Outputs of one row.
#[derive(Clone, Copy)]
struct Outputs {
    /// The first one, counted from the first of the band.
    pixel: usize,
    /// Pixels from one to the next.
    apart: usize,
    count: usize,
}

impl Band<'_> {
    /// `R` output rows, by blocks of `B` outputs of each. A block sees `H` rows and `W` columns.
    #[inline(always)]
    fn rows<
        S: Simd,
        const K: usize,
        const STEP: usize,
        const R: usize,
        const B: usize,
        const H: usize,
        const W: usize,
    >(
        &mut self,
        row: usize,
    ) -> usize {
        const { assert!(H == (R - 1) * STEP + K && W == (B - 1) * STEP + K) };
        let (out_width, dilation) = (self.shape.out_width(), self.shape.dilation);
        let mut lines = [None; H];
        for phase in 0..dilation.min(out_width) {
            for x in (phase..out_width).step_by(B * dilation) {
                let window = self.look(row, x, W, &mut lines);
                let outputs = Outputs {
                    pixel: row * out_width + x,
                    apart: dilation,
                    count: B.min((out_width - x).div_ceil(dilation)),
                };
                for panel in 0..self.shape.from / LANES {
                    // SAFETY: the window is that of these outputs, which lie in rows of this band.
                    unsafe { self.block::<S, K, STEP, R, B, W>(&window, outputs, panel) };
                }
                if !self.shape.from.is_multiple_of(LANES) {
                    for r in 0..R {
                        for b in 0..outputs.count {
                            let pixel = outputs.pixel + r * out_width + b * dilation;
                            let last = self.shape.from / LANES;
                            // SAFETY: as above.
                            unsafe { self.pixel::<S>(&window, [r * STEP, b * STEP], pixel, last) };
                        }
                    }
                }
            }
        }
        R
    }

    /// One output row of any convolution.
    #[inline(always)]
    fn row<S: Simd>(&mut self, row: usize) -> usize {
        let (kernel, out_width) = (self.shape.kernel, self.shape.out_width());
        let mut lines = vec![None; kernel];
        for x in 0..out_width {
            let window = self.look(row, x, kernel, &mut lines);
            for panel in 0..self.shape.from.div_ceil(LANES) {
                // SAFETY: the window is that of this output, which lies in a row of this band.
                unsafe { self.pixel::<S>(&window, [0, 0], row * out_width + x, panel) };
            }
        }
        1
    }

    /// The window of as many rows as there are `lines`, and of `columns`, that begins where that of the output at
    /// `row` and `x` does. Rows and columns are a dilation apart.
    #[inline(always)]
    fn look<'a>(
        &self,
        row: usize,
        x: usize,
        columns: usize,
        lines: &'a mut [Option<*const f32>],
    ) -> Window<'a> {
        let &ConvShape { from, height, width, stride, dilation, padding, .. } = self.shape;
        let out_height = self.shape.out_height();
        let (image, y) = ((self.first + row) / out_height, (self.first + row) % out_height);
        let left = x * stride;
        for (tap, line) in lines.iter_mut().enumerate() {
            let y = (y * stride + tap * dilation).checked_sub(padding).filter(|&y| y < height);
            *line = y.map(|y| {
                let map_line = &self.input[(image * height + y) * width * from..][..width * from];
                map_line.as_ptr().wrapping_add(left * from).wrapping_sub(padding * from)
            });
        }
        // Columns w with 0 <= left + w * dilation - padding < width.
        let first = padding.saturating_sub(left).div_ceil(dilation).min(columns);
        let end = (width + padding).saturating_sub(left).div_ceil(dilation).clamp(first, columns);
        Window { lines, step: dilation * from, columns: first..end }
    }

    /// A whole panel of `R` rows of `B` outputs.
    ///
    /// # Safety
    /// The window is that of these outputs, which lie in the band.
    #[inline(always)]
    unsafe fn block<
        S: Simd,
        const K: usize,
        const STEP: usize,
        const R: usize,
        const B: usize,
        const W: usize,
    >(
        &mut self,
        window: &Window,
        outputs: Outputs,
        panel: usize,
    ) {
        let start = panel * LANES;
        let taps = self.taps.as_ptr().wrapping_add(panel * K * K);
        let bias = self.finish.bias.map_or(S::splat(0.0), |bias| S::load(&bias[panel]));
        let mut sums = [[bias; R]; B];
        // The first row of outputs sees lines up to `K`, the second one those from `STEP` on.
        for (h, line) in window.lines.iter().enumerate() {
            let Some(line) = line else { continue };
            let (line, taps) = (line.wrapping_add(start), taps.wrapping_add(h * K));
            if h + R * STEP >= window.lines.len() {
                for w in W..W + B * STEP {
                    prefetch(line.wrapping_add(w * window.step));
                }
            }
            // SAFETY: the window's columns lie on the map, and `run` saw that all taps exist.
            unsafe {
                if R == 1 || h < STEP {
                    see::<S, K, STEP, R, B, W, true, false>(&mut sums, line, window, taps);
                } else if h < K {
                    see::<S, K, STEP, R, B, W, true, true>(&mut sums, line, window, taps);
                } else {
                    see::<S, K, STEP, R, B, W, false, true>(&mut sums, line, window, taps);
                }
            }
        }
        let row = self.shape.out_width() * self.stride;
        let apart = outputs.apart * self.stride;
        let first = outputs.pixel * self.stride + start;
        if let Some(add) = self.finish.add {
            let add = add.as_ptr().wrapping_add(first);
            unrolled!(b in 0..B, at most 12, {
                if b < outputs.count {
                    unrolled!(r in 0..R, at most 2, {
                        // SAFETY: the outputs lie in the band, and `run` saw that there is as much to add.
                        let more = S::load(unsafe { &*add.add(r * row + b * apart).cast() });
                        sums[b][r] = S::add(sums[b][r], more);
                    });
                }
            });
        }
        activate!(S, self.finish.activation, sums, B, R);
        let out = self.out.as_mut_ptr().wrapping_add(first);
        unrolled!(b in 0..B, at most 12, {
            if b < outputs.count {
                unrolled!(r in 0..R, at most 2, {
                    // SAFETY: the outputs lie in the band.
                    S::store(sums[b][r], unsafe { &mut *out.add(r * row + b * apart).cast() });
                });
            }
        });
    }

    /// One panel, whole or not, of one output of any convolution, whose own window begins `[row, column]` into this
    /// one.
    ///
    /// # Safety
    /// The window is that of this output, which lies in the band.
    #[inline(always)]
    unsafe fn pixel<S: Simd>(
        &mut self,
        window: &Window,
        [row, column]: [usize; 2],
        pixel: usize,
        panel: usize,
    ) {
        let kernel = self.shape.kernel;
        let start = panel * LANES;
        let width = LANES.min(self.shape.from - start);
        let taps = &self.taps[panel * kernel * kernel..][..kernel * kernel];
        let mut sums = [[self.finish.bias.map_or(S::splat(0.0), |bias| S::load(&bias[panel]))]];
        for (line, taps) in window.lines[row..].iter().zip(taps.chunks_exact(kernel)) {
            let Some(line) = line else { continue };
            for (w, tap) in (column..).zip(taps).filter(|(w, _)| window.columns.contains(w)) {
                // SAFETY: the window's columns lie on the map.
                let value = unsafe { read_vector::<S>(line.wrapping_add(w * window.step + start), width) };
                sums[0][0] = S::mul_add_all(value, S::load(tap), sums[0][0]);
            }
        }
        let first = pixel * self.stride + start;
        if let Some(add) = self.finish.add {
            // SAFETY: the output lies in the band, and `run` saw that there is as much to add.
            let more = unsafe { read_vector::<S>(add.as_ptr().add(first), width) };
            sums[0][0] = S::add(sums[0][0], more);
        }
        activate!(S, self.finish.activation, sums, 1, 1);
        // SAFETY: the output lies in the band.
        unsafe { write_vector::<S>(self.out.as_mut_ptr().add(first), sums[0][0], width) };
    }
}

/// Adds the products of a line with the taps of the first row of outputs, of the second one, or of both. The second
/// one's taps are `STEP` rows before the first one's.
///
/// # Safety
/// The window's columns can be read from the line, and the taps exist.
#[inline(always)]
unsafe fn see<
    S: Simd,
    const K: usize,
    const STEP: usize,
    const R: usize,
    const B: usize,
    const W: usize,
    const FIRST: bool,
    const SECOND: bool,
>(
    sums: &mut [[S::Vector; R]; B],
    line: *const f32,
    window: &Window,
    taps: *const Lanes,
) {
    // In registers: each is used for all outputs of a row.
    let first: [S::Vector; K] = std::array::from_fn(|k| {
        // SAFETY: the caller's promise.
        if FIRST { S::load(unsafe { &*taps.add(k) }) } else { S::splat(0.0) }
    });
    let second: [S::Vector; K] = std::array::from_fn(|k| {
        // SAFETY: the caller's promise.
        if SECOND { S::load(unsafe { &*taps.sub(STEP * K).add(k) }) } else { S::splat(0.0) }
    });
    unrolled!(w in 0..W, at most 12, {
        if window.columns.contains(&w) {
            // SAFETY: the caller's promise.
            let value = S::load(unsafe { &*line.wrapping_add(w * window.step).cast() });
            unrolled!(k in 0..K, at most 5, {
                if w >= k && (w - k).is_multiple_of(STEP) && (w - k) / STEP < B {
                    let sums = &mut sums[(w - k) / STEP];
                    if FIRST {
                        sums[0] = S::mul_add_all(value, first[k], sums[0]);
                    }
                    if SECOND {
                        sums[R - 1] = S::mul_add_all(value, second[k], sums[R - 1]);
                    }
                }
            });
        }
    });
}
