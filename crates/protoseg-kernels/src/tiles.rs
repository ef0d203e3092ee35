//! Products by tiles: on CPUs that multiply tiles of bfloat16 numbers (AMX), many times as fast as by vectors. Both sides
//! are rounded; sums are in single precision.
//!
//! Numbers cannot be split into two such parts instead, to lose nothing: three products of parts are as exact as 16 of the
//! 24 bits of single precision, and a network multiplies the difference beyond our bounds. Exactness would take six.
//!
//! A tile is sixteen rows of 32 numbers of the left side, or sixteen pairs of rows of a panel; its values lie together.

use std::ops::Range;

use crate::{
    Activation,
    channels_last::{Finish, LANES, panels::activate},
    scratch::Scratch,
    simd::{LeftTiles, Simd, TILE, Work, unrolled},
};

/// Numbers along a tile's row.
pub const DEPTH: usize = 32;
/// Steps whose tiles of the left side are kept at a time: with [`ROWS`] rows 256 KiB, a part of the second cache.
pub const STEPS: usize = 32;
/// Most rows of a task. The right side is fetched once for all of them.
pub const ROWS: usize = 128;

/// The right side, `[inner, outer]`: `[panel][step][pair of rows][lane]`, panels of sixteen columns, an even number of
/// them, filled with zeros.
#[derive(Clone, Copy)]
pub struct Right<'a> {
    pub data: &'a [f32],
    pub inner: usize,
    pub outer: usize,
}

impl<'a> Right<'a> {
    /// Steps of two panels.
    #[inline(always)]
    pub fn panels(self, pair: usize, steps: &Range<usize>) -> [&'a [f32]; 2] {
        let all = self.inner.div_ceil(DEPTH) * TILE;
        let first = 2 * pair * all + steps.start * TILE;
        [&self.data[first..][..steps.len() * TILE], &self.data[first + all..][..steps.len() * TILE]]
    }
}

/// One thread's product.
pub struct Tiled<'a> {
    /// `[rows, inner]`, rows `left_stride` apart.
    pub left: &'a [f32],
    pub left_stride: usize,
    pub rows: usize,
    pub right: Right<'a>,
    pub finish: Finish<'a>,
    pub out: &'a mut [f32],
    pub stride: usize,
}

impl Work for Tiled<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let steps = self.right.inner.div_ceil(DEPTH);
        let panel_pairs = self.right.outer.div_ceil(2 * LANES);
        let blocks = self.rows.div_ceil(2 * LANES);
        let mut tiles = Scratch::new(2 * blocks * steps.min(STEPS) * TILE);
        // Sums wait only if there are more steps to come.
        let waiting = if steps > STEPS { panel_pairs * blocks } else { 1 };
        let mut sums = Scratch::new(waiting * 4 * TILE);
        let places: [usize; STEPS] = std::array::from_fn(|step| step * TILE);
        S::open_tiles();
        // A product of no depth still has a bias.
        for start in (0..steps.max(1)).step_by(STEPS) {
            let now = start..steps.min(start + STEPS);
            let depth = now.len() * TILE;
            for (block, to) in tiles.chunks_exact_mut(depth.max(1)).take(2 * blocks).enumerate() {
                self.fill::<S>(block * LANES, &now, to);
            }
            for pair in 0..panel_pairs {
                let right = self.right.panels(pair, &now);
                for block in 0..blocks {
                    let left = LeftTiles {
                        values: &tiles,
                        starts: [2 * block * depth, (2 * block + 1) * depth],
                        steps: &places[..now.len()],
                        row: LANES,
                    };
                    let at = if waiting > 1 { pair * blocks + block } else { 0 };
                    let sums = sums[at * 4 * TILE..].first_chunk_mut().expect("four tiles of sums");
                    S::multiply_tiles(&left, right, sums, start > 0);
                    if now.end == steps {
                        self.finish::<S>(sums, 2 * block * LANES, pair);
                    }
                }
            }
        }
        S::close_tiles();
    }
}

impl Tiled<'_> {
    /// Rounds up to sixteen rows from `first` on: `[step][row][pairs]`. Rows that do not exist hold anything.
    #[inline(always)]
    fn fill<S: Simd>(&self, first: usize, steps: &Range<usize>, to: &mut [f32]) {
        let inner = self.right.inner;
        for row in first..self.rows.min(first + LANES) {
            let values =
                &self.left[row * self.left_stride..][steps.start * DEPTH..inner.min(steps.end * DEPTH)];
            for (values, tile) in values.chunks(DEPTH).zip(to.chunks_exact_mut(TILE)) {
                let line = &mut tile[(row - first) * LANES..][..LANES];
                let (pairs, zeros) = line.split_at_mut(values.len().div_ceil(2));
                S::round_pairs(values, pairs);
                zeros.fill(0.0);
            }
        }
    }

    /// Writes four tiles of sums: rows from `first` on, and two panels.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, sums: &[f32; 4 * TILE], first: usize, pair: usize) {
        for (block, sums) in sums.as_chunks().0.iter().enumerate() {
            let first = first + block * LANES;
            if first < self.rows {
                let place = first * self.stride;
                let result = ResultRows {
                    outer: self.right.outer,
                    rows: LANES.min(self.rows - first),
                    finish: Finish { add: self.finish.add.map(|add| &add[place..]), ..self.finish },
                    out: &mut self.out[place..],
                    stride: self.stride,
                };
                result.write::<S>(sums, pair);
            }
        }
    }
}

/// Up to sixteen rows of a result.
pub struct ResultRows<'a> {
    /// Columns of all panels.
    pub outer: usize,
    pub rows: usize,
    pub finish: Finish<'a>,
    pub out: &'a mut [f32],
    pub stride: usize,
}

impl ResultRows<'_> {
    /// Writes the columns of two panels.
    #[inline(always)]
    pub fn write<S: Simd>(self, sums: &[f32; 2 * TILE], pair: usize) {
        let Self { outer, rows, finish, out, stride } = self;
        for (panel, lines) in (2 * pair..).zip(sums.as_chunks::<TILE>().0) {
            let column = panel * LANES;
            if column >= outer {
                break;
            }
            let width = LANES.min(outer - column);
            let bias = match finish.bias {
                Some(bias) => S::load(&bias[panel]),
                None => S::splat(0.0),
            };
            for (row, line) in lines.as_chunks::<LANES>().0.iter().enumerate().take(rows) {
                let mut sums = [[S::add(S::load(line), bias)]];
                let place = row * stride + column;
                if let Some(add) = finish.add {
                    sums[0][0] = S::add(sums[0][0], S::load_first(&add[place..place + width], width));
                }
                activate!(S, finish.activation, sums, 1, 1);
                S::store_first(sums[0][0], &mut out[place..place + width], width);
            }
        }
    }
}
