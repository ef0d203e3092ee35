//! Windows of a convolution by tiles, on the map as it lies.
//!
//! The map is rounded once, with zeros around it. The values of sixteen neighbouring outputs under one tap are then
//! sixteen rows at the same distance, which is what a tile is filled from: nothing is copied.

use std::ops::Range;

use rayon::prelude::*;

use super::panels::{Finish, LANES, Panels, share};
use crate::{
    ConvShape,
    scratch::Scratch,
    simd::{LeftTiles, Simd, TILE, Work, fast_pairs},
    tiles::{DEPTH, ResultRows, Right, STEPS},
};

/// Blocks of sixteen outputs of a task, and of one whose weights no cache holds: every task fetches all of them.
const BLOCKS: usize = 8;
const MANY_BLOCKS: usize = 16;
/// Bytes of weights that a cache holds.
const CACHED: usize = 8 << 20;

/// Whether this kernel can be used: channels fill whole steps.
pub fn suits(shape: &ConvShape) -> bool {
    shape.groups == 1 && shape.from.is_multiple_of(DEPTH)
}

/// The convolution of a map of whole steps of channels with a matrix of tiles, `[kernel * kernel * from, to]`.
pub fn run(
    shape: &ConvShape,
    input: &[f32],
    weight: &Panels,
    finish: Finish,
    out: &mut [f32],
    stride: usize,
) {
    let right = weight.tiles().expect("a matrix of tiles");
    let map = &RoundedMap::new(shape, input);
    let steps = &map.steps();
    let (lines, width) = (shape.batch * shape.out_height(), shape.out_width());
    let blocks = if weight.bytes() > CACHED { MANY_BLOCKS } else { BLOCKS };
    let rows = share(lines, (blocks / width.div_ceil(LANES)).max(1));
    out.par_chunks_mut((rows * width * stride).max(1)).enumerate().for_each(|(index, out)| {
        let first = index * rows;
        let finish = Finish { add: finish.add.map(|add| &add[first * width * stride..]), ..finish };
        let lines = first..lines.min(first + rows);
        fast_pairs(Task { map, steps, right, lines, finish, out, stride });
    });
}

/// A rounded map with zeros around it: `[image][row][pixel][step][pairs]`, a line of the caches after each pixel, so that
/// neighbours do not compete for the same place in a cache.
struct RoundedMap<'a> {
    shape: &'a ConvShape,
    values: Scratch,
    /// From a pixel to the next.
    pixel: usize,
    /// With zeros.
    width: usize,
    height: usize,
}

impl<'a> RoundedMap<'a> {
    fn new(shape: &'a ConvShape, input: &[f32]) -> Self {
        let &ConvShape { batch, from, height, width, padding, padding_after, .. } = shape;
        let (height_with_zeros, width_with_zeros) =
            (height + padding + padding_after, width + padding + padding_after);
        let pixel = (from / DEPTH + 1) * LANES;
        let (line, lines) = (width_with_zeros * pixel, batch * height_with_zeros);
        // Tiles of the last outputs reach beyond the map.
        let beyond = (LANES * shape.stride + shape.dilation * shape.kernel) * pixel;
        let mut values = Scratch::new(lines * line + beyond);
        values[lines * line..].fill(0.0);
        values[..lines * line].par_chunks_mut(line).enumerate().for_each(|(row, to)| {
            let (image, y) = (row / height_with_zeros, (row % height_with_zeros).checked_sub(padding));
            let y = y.filter(|&y| y < height);
            let from = y.map(|y| &input[(image * height + y) * width * from..][..width * from]);
            fast_pairs(RoundRow { from, shape, pixel, to });
        });
        Self { shape, values, pixel, width: width_with_zeros, height: height_with_zeros }
    }

    /// Where each step of a window lies, from the window's first pixel.
    fn steps(&self) -> Vec<usize> {
        let &ConvShape { kernel, dilation, from, .. } = self.shape;
        let taps = (0..kernel * kernel).map(|tap| (tap / kernel * self.width + tap % kernel) * dilation);
        taps.flat_map(|tap| (0..from / DEPTH).map(move |step| tap * self.pixel + step * LANES)).collect()
    }

    /// The first pixel of the window of an output; `line` is counted over all images.
    #[inline(always)]
    fn window(&self, line: usize, x: usize) -> usize {
        let out_height = self.shape.out_height();
        let (image, y) = (line / out_height, line % out_height);
        let row = image * self.height + y * self.shape.stride;
        (row * self.width + x * self.shape.stride) * self.pixel
    }
}

/// A row of the map, or of zeros.
struct RoundRow<'a, 'b> {
    from: Option<&'a [f32]>,
    shape: &'a ConvShape,
    pixel: usize,
    to: &'b mut [f32],
}

impl Work for RoundRow<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { from, shape, pixel, to } = self;
        let Some(from) = from else { return to.fill(0.0) };
        let (before, rest) = to.split_at_mut(shape.padding * pixel);
        let (inside, after) = rest.split_at_mut(shape.width * pixel);
        before.fill(0.0);
        after.fill(0.0);
        for (values, to) in from.chunks_exact(shape.from).zip(inside.chunks_exact_mut(pixel)) {
            S::round_pairs(values, &mut to[..shape.from / 2]);
        }
    }
}

/// Some lines of outputs.
struct Task<'a, 'b> {
    map: &'a RoundedMap<'a>,
    steps: &'a [usize],
    right: Right<'a>,
    /// Counted over all images.
    lines: Range<usize>,
    finish: Finish<'a>,
    out: &'b mut [f32],
    stride: usize,
}

impl Work for Task<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { map, steps, right, lines, finish, out, stride } = self;
        let width = map.shape.out_width();
        let line_blocks = width.div_ceil(LANES);
        let count = lines.len() * line_blocks;
        let block_pairs = count.div_ceil(2);
        // The line and the first output of a block; the last one may be there twice.
        let block = |index: usize| {
            let index = index.min(count - 1);
            (lines.start + index / line_blocks, index % line_blocks * LANES)
        };
        let panel_pairs = right.outer.div_ceil(2 * LANES);
        let waiting = if steps.len() > STEPS { panel_pairs * block_pairs } else { 1 };
        let mut sums = Scratch::new(waiting * 4 * TILE);
        S::open_tiles();
        for start in (0..steps.len()).step_by(STEPS) {
            let now = start..steps.len().min(start + STEPS);
            for panels in 0..panel_pairs {
                let tiles = right.panels(panels, &now);
                for pair in 0..block_pairs {
                    let (first, second) = (block(2 * pair), block(2 * pair + 1));
                    let left = LeftTiles {
                        values: &map.values,
                        starts: [map.window(first.0, first.1), map.window(second.0, second.1)],
                        steps: &steps[now.clone()],
                        row: map.shape.stride * map.pixel,
                    };
                    let at = if waiting > 1 { panels * block_pairs + pair } else { 0 };
                    let sums: &mut [f32; 4 * TILE] =
                        sums[at * 4 * TILE..].first_chunk_mut().expect("four tiles of sums");
                    S::multiply_tiles(&left, tiles, sums, start > 0);
                    if now.end < steps.len() {
                        continue;
                    }
                    for (index, sums) in (2 * pair..count).zip(sums.as_chunks().0) {
                        let (line, x) = block(index);
                        let place = ((line - lines.start) * width + x) * stride;
                        let result = ResultRows {
                            outer: right.outer,
                            rows: LANES.min(width - x),
                            finish: Finish { add: finish.add.map(|add| &add[place..]), ..finish },
                            out: &mut out[place..],
                            stride,
                        };
                        result.write::<S>(sums, panels);
                    }
                }
            }
        }
        S::close_tiles();
    }
}
