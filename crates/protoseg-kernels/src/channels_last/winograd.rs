//! 3x3 convolutions of stride 1 with constant weights (see [`crate::winograd`] for the algorithm).
//!
//! A task takes some tiles through all of it: transform, one product for each place in a transformed tile, and the
//! transform back with bias, shortcut and activation. Its intermediate values stay in the caches.

use std::ops::Range;

use rayon::prelude::*;

use super::panels::{Block, Finish, LANES, Line, PanelsView, as_lines, read_vector, share, write_vector};
use crate::{
    ConvShape,
    scratch::Scratch,
    simd::{Simd, Work, fast, prefetch, unrolled},
    winograd::{
        grid::{Corner, Grid, corners, place},
        tile::Tile,
        with_tile,
    },
};

/// Input channels that are transformed at a time by a task that takes some tiles from beginning to end.
const CHANNELS: usize = 1024;
/// The same for all tiles together: half as many take half of the memory, tens of megabytes.
const CHANNELS_OF_ALL: usize = 512;
/// Intermediate values of a task, at most, 1 MiB: they stay in the second cache or near it.
const VALUES: usize = 1 << 18;
/// Transformed weights that are kept, in bytes: a cache holds them. Of larger ones the taps are kept ([`run_stages`]).
const CACHED: usize = 8 << 20;
/// Weights that are transformed at a time in use, in bytes.
const STREAMED: usize = 8 << 20;
/// Input channels whose taps are transformed by one task.
const TAPS: usize = 64;
/// Channels of a pixel that are asked for before they are needed.
const AHEAD: usize = 2 * LANES;
/// Tiles that are multiplied with a place's weights together, if these stay in a cache, and if they do not.
const TILES: usize = 24;
const MANY_TILES: usize = 128;

#[derive(Clone, Debug)]
pub struct Winograd {
    /// Outputs along a tile's side.
    m: usize,
    tiles: Vec<Corner>,
    weights: Weights,
}

/// Weights in lines of [`LANES`] output channels, a panel.
#[derive(Clone, Debug)]
enum Weights {
    /// Transformed, `[place in a transformed tile][panel][from]`, places as far apart as [`place_lines`] says.
    Places(Vec<Line>),
    /// As they are, `[panel][from][tap]`. In each run, so many panels are transformed at a time.
    Taps { lines: Vec<Line>, panels: usize },
}

impl Winograd {
    pub fn new(shape: &ConvShape, weight: &[f32]) -> Self {
        Self::keeping(shape, weight, CACHED, STREAMED)
    }

    /// Keeps transformed weights of at most `cached` bytes, and transforms others in parts of about `streamed` bytes.
    fn keeping(shape: &ConvShape, weight: &[f32], cached: usize, streamed: usize) -> Self {
        let &ConvShape { from, to, .. } = shape;
        let (m, _) = Grid::cheapest(shape);
        let taps = tap_lines(shape, weight);
        let (panels, places) = (to.div_ceil(LANES), (m + 2) * (m + 2));
        let bytes = |panels: usize| places * place_lines(panels, from) * size_of::<Line>();
        let weights = if bytes(panels) <= cached {
            let mut lines = vec![Line([0.0; LANES]); places * place_lines(panels, from)];
            with_tile!(m, transform_taps(&taps, from, 0..from, &mut lines));
            Weights::Places(lines)
        } else {
            let panel = places * place_lines(1, from.min(CHANNELS_OF_ALL)) * size_of::<Line>();
            let parts = panels.div_ceil((streamed / panel).max(1));
            // Products take two panels at a time.
            Weights::Taps { lines: taps, panels: panels.div_ceil(parts).next_multiple_of(2).min(panels) }
        };
        Self { m, tiles: corners(shape, m), weights }
    }

    pub fn tile_side(&self) -> usize {
        self.m
    }

    /// Products of a channel pair.
    pub fn products(&self) -> usize {
        self.tiles.len() * (self.m + 2) * (self.m + 2)
    }

    pub fn weight_bytes(&self) -> usize {
        match &self.weights {
            Weights::Places(lines) | Weights::Taps { lines, .. } => size_of_val(&lines[..]),
        }
    }

    pub fn run(&self, shape: &ConvShape, input: &[f32], finish: Finish, out: &mut [f32], stride: usize) {
        let to = Output { finish, out, stride };
        match &self.weights {
            Weights::Places(lines) => with_tile!(self.m, run_tiles(&self.tiles, lines, shape, input, to)),
            Weights::Taps { lines, panels } => {
                with_tile!(self.m, run_stages(&self.tiles, (lines, *panels), shape, input, to));
            }
        }
    }
}

/// Where a convolution is written, and what is done to its sums before.
struct Output<'a> {
    finish: Finish<'a>,
    out: &'a mut [f32],
    stride: usize,
}

/// The pixels of a tile's outputs, as far as they exist.
type Pixels<'a, const M: usize> = [[Option<&'a mut [f32]>; M]; M];

/// The tiles in blocks of `count`, each tile with the pixels that it writes, none of them in two.
fn blocks<'t, 'a, const M: usize>(
    tiles: &'t [Corner],
    shape: &ConvShape,
    count: usize,
    out: &'a mut [f32],
    stride: usize,
) -> Vec<(&'t [Corner], Vec<Pixels<'a, M>>)> {
    let mut pixels: Vec<Option<&mut [f32]>> = out.chunks_mut(stride).map(Some).collect();
    let mut own = |corner: &Corner| -> Pixels<'a, M> {
        std::array::from_fn(|j| {
            std::array::from_fn(|i| place(shape, corner, j, i, 0).and_then(|place| pixels[place].take()))
        })
    };
    tiles.chunks(count).map(|tiles| (tiles, tiles.iter().map(&mut own).collect())).collect()
}

/// Task by task, each some tiles from beginning to end: weights stay in a cache.
fn run_tiles<const M: usize, const N: usize>(
    tiles: &[Corner],
    weights: &[Line],
    shape: &ConvShape,
    input: &[f32],
    Output { finish, out, stride }: Output,
) {
    let &ConvShape { from, to, .. } = shape;
    let channels = from.min(CHANNELS);
    let count = share(tiles.len(), TILES.max(VALUES / (N * N * (channels + to))));
    blocks::<M>(tiles, shape, count, out, stride).into_par_iter().for_each_init(
        || (Scratch::new(N * N * apart(count * channels)), Scratch::new(N * N * apart(count * to))),
        |(inputs, products), (tiles, pixels)| {
            for start in (0..from).step_by(CHANNELS) {
                let depth = CHANNELS.min(from - start);
                fast(TransformTiles::<M, N> { shape, input, tiles, start, depth, out: inputs });
                let lefts = inputs.chunks(apart(tiles.len() * depth));
                let outs = products.chunks_mut(apart(tiles.len() * to));
                for ((right, left), out) in places(weights, from, to).zip(lefts).zip(outs) {
                    multiply_place((right, start), (left, depth), tiles.len(), start > 0, (out, to));
                }
            }
            fast(CollectTiles::<M, N> { shape, products, tiles, pixels, finish, stride });
        },
    );
}

/// Stage by stage, for weights that no cache holds once they are transformed. Transformed ones are 4 to 7 times as many
/// as the taps, so taps are kept and transformed for some panels of output channels at a time, which stay in the last
/// cache. Fetching all of them takes about a tenth less time, and several times the memory. A task is then a place in the
/// transformed tiles, of all tiles, so that its weights stay in the second cache.
fn run_stages<const M: usize, const N: usize>(
    tiles: &[Corner],
    (taps, together): (&[Line], usize),
    shape: &ConvShape,
    input: &[f32],
    Output { finish, out, stride }: Output,
) {
    let &ConvShape { from, to, .. } = shape;
    let channels = from.min(CHANNELS_OF_ALL);
    let count = share(tiles.len(), MANY_TILES);
    let blocks = blocks::<M>(tiles, shape, count, out, stride);
    let mut inputs = Scratch::new(blocks.len() * N * N * apart(count * channels));
    let mut products = Scratch::new(blocks.len() * N * N * apart(count * to));
    let mut weights = Scratch::new(N * N * place_lines(together, channels) * LANES);
    for start in (0..from).step_by(CHANNELS_OF_ALL) {
        let depth = CHANNELS_OF_ALL.min(from - start);
        let block_len = N * N * apart(count * depth);
        inputs.par_chunks_mut(block_len).zip(&blocks).for_each(|(out, (tiles, _))| {
            fast(TransformTiles::<M, N> { shape, input, tiles, start, depth, out });
        });
        for (part, taps) in taps.chunks(together * from * 9).enumerate() {
            let first = part * together * LANES;
            let outer = (to - first).min(together * LANES);
            let lines = &mut as_lines(&mut weights)[..N * N * place_lines(outer.div_ceil(LANES), depth)];
            transform_taps::<M, N>(taps, from, start..start + depth, lines);
            let mut tasks: Vec<Vec<_>> = (0..N * N).map(|_| Vec::with_capacity(blocks.len())).collect();
            let sides = inputs.chunks(block_len).zip(products.chunks_mut(N * N * apart(count * to)));
            for ((tiles, _), (left, out)) in blocks.iter().zip(sides) {
                let rows = tiles.len();
                let parts = left.chunks(apart(rows * depth)).zip(out.chunks_mut(apart(rows * to)));
                tasks.iter_mut().zip(parts).for_each(|(task, (left, out))| task.push((rows, left, out)));
            }
            let rights: Vec<PanelsView> = places(lines, depth, outer).collect();
            tasks.into_par_iter().zip(rights).for_each(|(blocks, right)| {
                for (rows, left, out) in blocks {
                    multiply_place((right, 0), (left, depth), rows, start > 0, (&mut out[first..], to));
                }
            });
        }
    }
    let products = products.par_chunks(N * N * apart(count * to));
    blocks.into_par_iter().zip(products).for_each(|((tiles, pixels), products)| {
        fast(CollectTiles::<M, N> { shape, products, tiles, pixels, finish, stride });
    });
}

/// The transformed weights of each place, `[inner, outer]`.
fn places(lines: &[Line], inner: usize, outer: usize) -> impl Iterator<Item = PanelsView<'_>> {
    let panels = outer.div_ceil(LANES);
    let place = move |lines| PanelsView::of_lines(lines, inner, outer);
    lines.chunks(place_lines(panels, inner)).map(move |lines| place(&lines[..panels * inner]))
}

/// Some tiles, `rows` of `depth` channels, times as many rows of a place's weights from one on; added to what is there or
/// not. Rows of the result are `stride` apart.
fn multiply_place(
    (right, from): (PanelsView, usize),
    (left, depth): (&[f32], usize),
    rows: usize,
    accumulate: bool,
    (out, stride): (&mut [f32], usize),
) {
    let left = &left[..rows * depth];
    let finish = Finish::default();
    fast(Block { left, left_stride: depth, rows, right, from, depth, accumulate, finish, out, stride });
}

/// Values of one place's matrix, and room after it: places whole pages apart would compete for the same lines of a
/// cache.
fn apart(values: usize) -> usize {
    values.next_multiple_of(LANES) | LANES
}

/// Lines of a place's weights, and one more for the same reason.
fn place_lines(panels: usize, channels: usize) -> usize {
    (panels * channels) | 1
}

/// Taps `[to, from, 3, 3]` as `[panel][from][tap]`.
fn tap_lines(shape: &ConvShape, weight: &[f32]) -> Vec<Line> {
    let &ConvShape { from, to, .. } = shape;
    let mut lines = vec![Line([0.0; LANES]); to.div_ceil(LANES) * from * 9];
    let panels = lines.par_chunks_mut((from * 9).max(1)).zip(weight.par_chunks((LANES * from * 9).max(1)));
    panels.for_each(|(lines, weight)| {
        for (lane, channel) in weight.chunks(from * 9).enumerate() {
            lines.iter_mut().zip(channel).for_each(|(line, &tap)| line.0[lane] = tap);
        }
    });
    lines
}

/// Some of the `from` channels of taps, `[panel][from][tap]`, transformed: `[place][panel][channel]`.
fn transform_taps<const M: usize, const N: usize>(
    taps: &[Line],
    from: usize,
    channels: Range<usize>,
    out: &mut [Line],
) {
    let (panels, depth) = (taps.len() / (from * 9), channels.len());
    let parts = depth.div_ceil(TAPS);
    // For each part of a panel, that part of every place.
    let mut tasks: Vec<Vec<&mut [Line]>> = (0..panels * parts).map(|_| Vec::with_capacity(N * N)).collect();
    for place in out.chunks_mut(place_lines(panels, depth)) {
        let part = place[..panels * depth].chunks_mut(depth).flat_map(|panel| panel.chunks_mut(TAPS));
        tasks.iter_mut().zip(part).for_each(|(task, part)| task.push(part));
    }
    tasks.into_par_iter().enumerate().for_each(|(index, places)| {
        let (panel, part) = (index / parts, index % parts);
        let first = panel * from + channels.start + part * TAPS;
        let taps = &taps[first * 9..][..places[0].len() * 9];
        fast(TransformTaps::<M, N> { taps, places });
    });
}

/// The taps of some input channels and [`LANES`] output channels.
struct TransformTaps<'a, 'b, const M: usize, const N: usize> {
    /// `[channel][tap]`
    taps: &'a [Line],
    /// `[place][channel]`
    places: Vec<&'b mut [Line]>,
}

impl<const M: usize, const N: usize> Work for TransformTaps<'_, '_, M, N> {
    /// As [`crate::winograd::tile::Room::transform`], but the values stay in registers between taps and places.
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let matrix = const { &Tile::<M, N>::TAPS };
        let count = self.taps.len() / 9;
        assert!(self.places.len() == N * N && self.places.iter().all(|place| place.len() == count));
        let places: Vec<*mut Line> = self.places.iter_mut().map(|place| place.as_mut_ptr()).collect();
        for (channel, taps) in self.taps.as_chunks::<9>().0.iter().enumerate() {
            let mut taps_of = [S::splat(0.0); 9];
            unrolled!(tap in 0..9, at most 12, { taps_of[tap] = S::load(&taps[tap].0) });
            let [a, b, c, d, e, f, g, h, i] = taps_of;
            unrolled!(row in 0..N, at most 12, {
                let left = dot::<S, 3>(&matrix[row], &[a, d, g]);
                let middle = dot::<S, 3>(&matrix[row], &[b, e, h]);
                let right = dot::<S, 3>(&matrix[row], &[c, f, i]);
                unrolled!(column in 0..N, at most 12, {
                    // SAFETY: there are N x N places, each of as many lines as there are channels, and this is their only
                    // borrower.
                    let line = unsafe { &mut *places[row * N + column].add(channel) };
                    S::store(dot::<S, 3>(&matrix[column], &[left, middle, right]), &mut line.0);
                });
            });
        }
    }
}

/// Factors times vectors. The factors are constants where this is inlined: those of zero cost nothing.
#[inline(always)]
fn dot<S: Simd, const I: usize>(factors: &[f32; I], vectors: &[S::Vector; I]) -> S::Vector {
    let mut sum = S::splat(0.0);
    unrolled!(i in 0..I, at most 12, {
        if factors[i] != 0.0 {
            sum = S::mul_add_all(S::splat(factors[i]), vectors[i], sum);
        }
    });
    sum
}

/// Tiles of the channels from `start` on, transformed: `[place][tile][channel]`.
struct TransformTiles<'a, const M: usize, const N: usize> {
    shape: &'a ConvShape,
    input: &'a [f32],
    tiles: &'a [Corner],
    start: usize,
    depth: usize,
    out: &'a mut [f32],
}

impl<const M: usize, const N: usize> Work for TransformTiles<'_, M, N> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { shape, input, tiles, start, depth, out } = self;
        let matrix = const { &Tile::<M, N>::INPUT };
        let place_len = apart(tiles.len() * depth);
        assert!(out.len() >= (N * N - 1) * place_len + tiles.len() * depth, "room for all places");
        for (tile, corner) in tiles.iter().enumerate() {
            let pixels: [[Option<&[f32]>; N]; N] = std::array::from_fn(|j| {
                std::array::from_fn(|i| {
                    place(shape, corner, j, i, 1).map(|place| &input[place * shape.from + start..][..depth])
                })
            });
            for channel in (0..depth).step_by(LANES) {
                let width = LANES.min(depth - channel);
                // So many pixels are read side by side that the machine does not see what comes next.
                for pixel in pixels.as_flattened().iter().flatten() {
                    prefetch(pixel.as_ptr().wrapping_add(channel + AHEAD));
                }
                let mut half = [[S::splat(0.0); N]; N];
                unrolled!(i in 0..N, at most 12, {
                    let mut line = [S::splat(0.0); N];
                    unrolled!(j in 0..N, at most 12, {
                        if let Some(pixel) = pixels[j][i] {
                            // SAFETY: `channel + width` is at most `depth`, the pixel's length.
                            line[j] = unsafe { read_vector::<S>(pixel.as_ptr().add(channel), width) };
                        }
                    });
                    unrolled!(row in 0..N, at most 12, { half[row][i] = dot::<S, N>(&matrix[row], &line) });
                });
                // The value of the first place; the others follow at the same distance.
                let out = out[tile * depth + channel..].as_mut_ptr();
                unrolled!(row in 0..N, at most 12, {
                    unrolled!(column in 0..N, at most 12, {
                        let value = dot::<S, N>(&matrix[column], &half[row]);
                        // SAFETY: there is room for all places.
                        unsafe { write_vector::<S>(out.add((row * N + column) * place_len), value, width) };
                    });
                });
            }
        }
    }
}

/// The outputs of products, `[place][tile][channel]`, written to the tiles' pixels.
struct CollectTiles<'a, 'b, const M: usize, const N: usize> {
    shape: &'a ConvShape,
    products: &'a [f32],
    tiles: &'a [Corner],
    pixels: Vec<Pixels<'b, M>>,
    finish: Finish<'a>,
    stride: usize,
}

impl<const M: usize, const N: usize> Work for CollectTiles<'_, '_, M, N> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { shape, products, tiles, pixels, finish, stride } = self;
        let matrix = const { &Tile::<M, N>::OUTPUT };
        let place_len = apart(tiles.len() * shape.to);
        assert!(products.len() >= (N * N - 1) * place_len + tiles.len() * shape.to, "products of all places");
        let [least, most] = finish.activation.limits().map(S::splat);
        for (tile, (corner, mut pixels)) in tiles.iter().zip(pixels).enumerate() {
            let adds: [[Option<&[f32]>; M]; M] = std::array::from_fn(|j| {
                std::array::from_fn(|i| {
                    let place = place(shape, corner, j, i, 0);
                    finish.add.zip(place).map(|(add, place)| &add[place * stride..][..shape.to])
                })
            });
            for channel in (0..shape.to).step_by(LANES) {
                let width = LANES.min(shape.to - channel);
                // The product of the first place; the others follow at the same distance.
                let products = products[tile * shape.to + channel..].as_ptr();
                let mut half = [[S::splat(0.0); N]; M];
                unrolled!(i in 0..N, at most 12, {
                    let mut line = [S::splat(0.0); N];
                    unrolled!(j in 0..N, at most 12, {
                        // SAFETY: there are products of all places.
                        line[j] = unsafe { read_vector::<S>(products.add((j * N + i) * place_len), width) };
                    });
                    unrolled!(row in 0..M, at most 12, { half[row][i] = dot::<S, N>(&matrix[row], &line) });
                });
                let bias = finish.bias.map_or(S::splat(0.0), |bias| S::load(&bias[channel / LANES]));
                unrolled!(row in 0..M, at most 12, {
                    unrolled!(column in 0..M, at most 12, {
                        if let Some(pixel) = &mut pixels[row][column] {
                            let mut sum = S::add(dot::<S, N>(&matrix[column], &half[row]), bias);
                            if let Some(add) = adds[row][column] {
                                // SAFETY: `channel + width` is at most the length of what is added.
                                let add = unsafe { read_vector::<S>(add.as_ptr().add(channel), width) };
                                sum = S::add(sum, add);
                            }
                            let out = &mut pixel[channel..][..width];
                            // SAFETY: it has that length.
                            unsafe {
                                write_vector::<S>(out.as_mut_ptr(), S::min(S::max(sum, least), most), width);
                            }
                        }
                    });
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::pretend::TURN;

    #[test]
    fn weights_that_are_transformed_in_use_give_the_same_bits() {
        // Other tests change what `fast` is.
        let _turn = TURN.lock();
        for (from, to, dilation) in [(70, 37, 1), (1030, 16, 1), (33, 100, 2)] {
            let (padding, padding_after) = (dilation, dilation);
            let shape = ConvShape {
                batch: 1,
                from,
                to,
                height: 13,
                width: 11,
                kernel: 3,
                stride: 1,
                dilation,
                padding,
                padding_after,
                groups: 1,
            };
            let values = |len: usize, step: usize| -> Vec<f32> {
                (0..len).map(|i| ((i * step) % 1013) as f32 / 1013.0 - 0.5).collect()
            };
            let (input, weight) = (values(shape.input_len(), 331), values(shape.weight_len(), 577));
            let run = |cached, streamed| {
                let conv = Winograd::keeping(&shape, &weight, cached, streamed);
                assert_eq!(matches!(conv.weights, Weights::Places(_)), cached > 0);
                let mut out = vec![0.0; shape.output_len()];
                conv.run(&shape, &input, Finish::default(), &mut out, to);
                out
            };
            let kept = run(usize::MAX, 0);
            assert!(kept.iter().any(|value| value.abs() > 0.1));
            assert!(run(0, usize::MAX) == kept, "all panels at a time");
            assert!(run(0, 0) == kept, "two panels at a time");
        }
    }
}
