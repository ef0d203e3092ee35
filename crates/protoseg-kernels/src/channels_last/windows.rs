//! Windows of a convolution in tiles. The map is split into its parts once, however many windows see a pixel.

use std::ops::Range;

use rayon::prelude::*;

use super::panels::{Finish, LANES, Panels, share};
use crate::{
    ConvShape,
    scratch::Scratch,
    simd::{Simd, TILE, Work, fast_pairs},
    tiles::{DEPTH, Left, ROWS, Tiled},
};

/// The convolution of a map of whole steps of channels with a matrix of tiles, `[kernel * kernel * from, to]`.
pub fn run(shape: &ConvShape, input: &[f32], right: &Panels, finish: Finish, out: &mut [f32], stride: usize) {
    let right = right.tiles().expect("a matrix of tiles");
    let map = &SplitMap::new(input, shape.from, right.parts);
    let pixels = shape.batch * shape.out_plane();
    let block = share(pixels, ROWS);
    out.par_chunks_mut((block * stride).max(1)).enumerate().for_each(|(index, out)| {
        let first = index * block;
        let rows = block.min(pixels - first);
        let finish = Finish { add: finish.add.map(|add| &add[first * stride..]), ..finish };
        let left = Windows { shape, map, first };
        fast_pairs(Tiled { left, rows, right, finish, accumulate: false, out, stride });
    });
}

/// Whether the channels fill whole steps.
pub fn suits(shape: &ConvShape) -> bool {
    shape.groups == 1 && shape.from.is_multiple_of(DEPTH)
}

/// A map in parts: `[pixel][step][part][pairs]`. Its channels fill whole steps.
struct SplitMap {
    lines: Scratch,
    steps: usize,
    parts: usize,
}

impl SplitMap {
    fn new(map: &[f32], channels: usize, parts: usize) -> Self {
        let steps = channels / DEPTH;
        let pixels = map.len() / channels;
        let mut lines = Scratch::new(pixels * steps * parts * LANES);
        let block = share(pixels, 256);
        let to = lines.par_chunks_mut((block * steps * parts * LANES).max(1));
        to.zip(map.par_chunks((block * channels).max(1)))
            .for_each(|(to, map)| fast_pairs(Split { map, parts, to }));
        Self { lines, steps, parts }
    }

    /// A step of a pixel.
    fn line(&self, pixel: usize, step: usize) -> &[f32] {
        &self.lines[(pixel * self.steps + step) * self.parts * LANES..][..self.parts * LANES]
    }
}

struct Split<'a> {
    map: &'a [f32],
    parts: usize,
    to: &'a mut [f32],
}

impl Work for Split<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (values, to) in self.map.chunks_exact(DEPTH).zip(self.to.chunks_exact_mut(self.parts * LANES)) {
            match to.as_chunks_mut::<LANES>().0 {
                [rounded, rest] => S::split_pairs(values, rounded, rest),
                _ => S::round_pairs(values, to),
            }
        }
    }
}

/// Windows of a convolution, `[kernel, kernel, from]` each, one for each output pixel from `first` on.
struct Windows<'a> {
    shape: &'a ConvShape,
    map: &'a SplitMap,
    first: usize,
}

impl Windows<'_> {
    /// The pixel under a tap, if there is one.
    #[inline(always)]
    fn pixel(&self, output: usize, tap: usize) -> Option<usize> {
        let &ConvShape { height, width, kernel, stride, dilation, padding, .. } = self.shape;
        let (out_width, out_plane) = (self.shape.out_width(), self.shape.out_plane());
        let (image, place) = (output / out_plane, output % out_plane);
        let along = |at: usize, tap: usize, side: usize| {
            (at * stride + tap * dilation).checked_sub(padding).filter(|&at| at < side)
        };
        let y = along(place / out_width, tap / kernel, height)?;
        let x = along(place % out_width, tap % kernel, width)?;
        Some((image * height + y) * width + x)
    }
}

impl Left for Windows<'_> {
    #[inline(always)]
    fn fill<S: Simd>(&self, first: usize, rows: usize, steps: Range<usize>, parts: usize, to: &mut [f32]) {
        let own = self.map.steps;
        for tap in steps.start / own..steps.end.div_ceil(own) {
            let here = steps.start.max(tap * own)..steps.end.min((tap + 1) * own);
            let to = &mut to[(here.start - steps.start) * parts * TILE..][..here.len() * parts * TILE];
            for row in 0..rows {
                let pixel = self.pixel(self.first + first + row, tap);
                for (step, to) in (here.start - tap * own..).zip(to.chunks_exact_mut(parts * TILE)) {
                    let line = pixel.map(|pixel| self.map.line(pixel, step));
                    for part in 0..parts {
                        let to = &mut to[part * TILE + row * LANES..][..LANES];
                        match line {
                            Some(line) => to.copy_from_slice(&line[part * LANES..][..LANES]),
                            None => to.fill(0.0),
                        }
                    }
                }
            }
        }
    }
}
