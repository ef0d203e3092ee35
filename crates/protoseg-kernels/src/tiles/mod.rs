//! Products by tiles: on CPUs that multiply tiles of bfloat16 numbers, many times as fast as by vectors.
//!
//! A number in single precision is the sum of two bfloat16 numbers, to 2^-18 of it: what rounding gives, and what it
//! takes away. Three products of such parts (the fourth is too small to matter) give a product that is closer to the
//! exact one than most convolutions in single precision by Winograd's algorithm, and still in a fraction of their
//! time. With one part, both sides are merely rounded.
//!
//! A tile is sixteen rows of 32 numbers of the left side, or sixteen pairs of rows of a panel; its values lie together,
//! and so do the parts of a tile.

mod matrix;

pub use matrix::{Columns, MatrixRows, pack};

use std::ops::Range;

use crate::{
    Activation,
    channels_last::{Finish, LANES, panels::activate},
    scratch::Scratch,
    simd::{LeftTiles, Simd, TILE, Work, unrolled},
};

/// Numbers along a tile's row.
pub const DEPTH: usize = 32;
/// Steps whose tiles of the left side are kept at a time: with [`ROWS`] rows 512 KiB, a part of the second cache.
pub const STEPS: usize = 32;
/// Most rows of a task. The right side is fetched once for all of them.
pub const ROWS: usize = 128;

/// The left side of a product, brought into tiles as they are needed.
pub trait Left {
    /// Writes the tiles of `rows` rows, at most sixteen, from `first` on: `[step][part][row][pairs]`.
    fn fill<S: Simd>(&self, first: usize, rows: usize, steps: Range<usize>, parts: usize, to: &mut [f32]);
}

/// Rows as they lie, `stride` apart.
pub struct Rows<'a> {
    pub values: &'a [f32],
    pub stride: usize,
    pub depth: usize,
}

impl Left for Rows<'_> {
    #[inline(always)]
    fn fill<S: Simd>(&self, first: usize, rows: usize, steps: Range<usize>, parts: usize, to: &mut [f32]) {
        for row in 0..rows {
            let values = &self.values[(first + row) * self.stride..][..self.depth];
            let values = &values[steps.start * DEPTH..self.depth.min(steps.end * DEPTH)];
            for (values, step) in values.chunks(DEPTH).zip(to.chunks_exact_mut(parts * TILE)) {
                let (rounded, rest) = step.split_at_mut(TILE);
                let rounded = rounded[row * LANES..].first_chunk_mut().expect("a line of a tile");
                match rest.get_mut(row * LANES..).and_then(<[f32]>::first_chunk_mut) {
                    Some(rest) => S::split_pairs(values, rounded, rest),
                    None => {
                        let pairs = values.len().div_ceil(2);
                        S::round_pairs(values, &mut rounded[..pairs]);
                        rounded[pairs..].fill(0.0);
                    }
                }
            }
        }
    }
}

/// The right side, `[inner, outer]`: `[panel][step][part][pair of rows][lane]`, panels of sixteen columns, an even
/// number of them, filled with zeros.
#[derive(Clone, Copy)]
pub struct Right<'a> {
    pub data: &'a [f32],
    pub inner: usize,
    pub outer: usize,
    pub parts: usize,
}

impl<'a> Right<'a> {
    /// Steps of two panels.
    #[inline(always)]
    pub fn panels(self, pair: usize, steps: &Range<usize>) -> [&'a [f32]; 2] {
        let step = self.parts * TILE;
        let first = (2 * pair * self.inner.div_ceil(DEPTH) + steps.start) * step;
        let second = first + self.inner.div_ceil(DEPTH) * step;
        [&self.data[first..][..steps.len() * step], &self.data[second..][..steps.len() * step]]
    }
}

/// One thread's product.
pub struct Tiled<'a, L> {
    pub left: L,
    pub rows: usize,
    pub right: Right<'a>,
    pub finish: Finish<'a>,
    /// Whether sums are added to what is there.
    pub accumulate: bool,
    pub out: &'a mut [f32],
    pub stride: usize,
}

impl<L: Left> Work for Tiled<'_, L> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let parts = self.right.parts;
        let steps = self.right.inner.div_ceil(DEPTH);
        let panel_pairs = self.right.outer.div_ceil(2 * LANES);
        let blocks = self.rows.div_ceil(2 * LANES);
        let tiles = parts * TILE;
        let mut left = Scratch::new(2 * blocks * steps.min(STEPS) * tiles);
        // Sums wait only if there are more steps to come.
        let waiting = if steps > STEPS { panel_pairs * blocks } else { 1 };
        let mut sums = Scratch::new(waiting * 4 * TILE);
        S::open_tiles();
        let places: [usize; STEPS] = std::array::from_fn(|step| step * tiles);
        // A product of no depth still has a bias.
        for start in (0..steps.max(1)).step_by(STEPS) {
            let now = start..steps.min(start + STEPS);
            let depth = now.len() * tiles;
            for block in 0..2 * blocks {
                let first = block * LANES;
                let rows = LANES.min(self.rows.saturating_sub(first));
                let to = &mut left[block * depth..][..depth];
                self.left.fill::<S>(first, rows, now.clone(), parts, to);
            }
            for pair in 0..panel_pairs {
                let right = self.right.panels(pair, &now);
                for block in 0..blocks {
                    let starts = [2 * block * depth, (2 * block + 1) * depth];
                    let left = LeftTiles {
                        values: &left,
                        starts,
                        steps: &places[..now.len()],
                        row: LANES,
                        part: TILE,
                    };
                    let at = if waiting > 1 { pair * blocks + block } else { 0 };
                    let sums = sums[at * 4 * TILE..].first_chunk_mut().expect("four tiles of sums");
                    S::multiply_tiles(&left, right, parts, sums, start > 0);
                    if now.end == steps {
                        self.finish::<S>(sums, 2 * block * LANES, pair);
                    }
                }
            }
        }
        S::close_tiles();
    }
}

impl<L> Tiled<'_, L> {
    /// Writes four tiles of sums: rows from `first` on, and two panels.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, sums: &[f32; 4 * TILE], first: usize, pair: usize) {
        for (block, sums) in sums.as_chunks().0.iter().enumerate() {
            let first = first + block * LANES;
            if first < self.rows {
                let place = first * self.stride;
                let result = Result {
                    outer: self.right.outer,
                    rows: LANES.min(self.rows - first),
                    finish: Finish { add: self.finish.add.map(|add| &add[place..]), ..self.finish },
                    accumulate: self.accumulate,
                    out: &mut self.out[place..],
                    stride: self.stride,
                };
                result.write::<S>(sums, pair);
            }
        }
    }
}

/// Up to sixteen rows of a result.
pub struct Result<'a> {
    /// Columns of all panels.
    pub outer: usize,
    pub rows: usize,
    pub finish: Finish<'a>,
    pub accumulate: bool,
    pub out: &'a mut [f32],
    pub stride: usize,
}

impl Result<'_> {
    /// Writes the columns of two panels.
    #[inline(always)]
    pub fn write<S: Simd>(self, sums: &[f32; 2 * TILE], pair: usize) {
        let Self { outer, rows, finish, accumulate, out, stride } = self;
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
                if accumulate {
                    sums[0][0] = S::add(sums[0][0], S::load_first(&out[place..place + width], width));
                }
                activate!(S, finish.activation, sums, 1, 1);
                S::store_first(sums[0][0], &mut out[place..place + width], width);
            }
        }
    }
}
