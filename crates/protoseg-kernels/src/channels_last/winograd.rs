//! 3x3 convolutions of stride 1 with constant weights (see [`crate::winograd`] for the algorithm).
//!
//! A task takes some tiles through all of it: transform, one product for each place in a transformed tile, and the
//! transform back with bias, shortcut and activation. Its intermediate values stay in the caches.

use std::ops::Range;

use rayon::prelude::*;

use super::panels::{Block, Finish, LANES, Lanes, Line, Panels, read, share, write};
use crate::{
    ConvShape,
    scratch::Scratch,
    simd::{Simd, Work, fast, prefetch},
    winograd::{
        grid::{Corner, Grid, corners, place},
        tile::{Room, Tile},
        with_tile,
    },
};

/// Input channels that are transformed at a time.
const CHANNELS: usize = 1024;
/// Intermediate values of a task, at most, 1 MiB: they stay in the second cache or near it.
const VALUES: usize = 1 << 18;
/// Transformed weights that a cache holds, in bytes. Larger ones come from memory, and should do so once: see
/// [`run_places`].
const CACHED: usize = 8 << 20;
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
    /// The transformed weights of each place in a transformed tile, `[from, to]`.
    places: Vec<Panels>,
}

impl Winograd {
    pub fn new(shape: &ConvShape, weight: &[f32]) -> Self {
        let (m, _) = Grid::cheapest(shape);
        let places = with_tile!(m, transform_weight(shape, weight));
        Self { m, tiles: corners(shape, m), places }
    }

    pub fn tile_side(&self) -> usize {
        self.m
    }

    /// Products of a channel pair.
    pub fn products(&self) -> usize {
        self.tiles.len() * self.places.len()
    }

    pub fn weight_bytes(&self) -> usize {
        self.places.iter().map(Panels::bytes).sum()
    }

    pub fn run(&self, shape: &ConvShape, input: &[f32], finish: Finish, out: &mut [f32], stride: usize) {
        let to = Output { finish, out, stride };
        if self.weight_bytes() > CACHED {
            with_tile!(self.m, run_places(self, shape, input, to));
        } else {
            with_tile!(self.m, run_tiles(self, shape, input, to));
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
fn blocks<'a, const M: usize>(
    winograd: &'a Winograd,
    shape: &ConvShape,
    count: usize,
    out: &'a mut [f32],
    stride: usize,
) -> Vec<(&'a [Corner], Vec<Pixels<'a, M>>)> {
    let mut pixels: Vec<Option<&mut [f32]>> = out.chunks_mut(stride).map(Some).collect();
    let mut own = |corner: &Corner| -> Pixels<'a, M> {
        std::array::from_fn(|j| {
            std::array::from_fn(|i| place(shape, corner, j, i, 0).and_then(|place| pixels[place].take()))
        })
    };
    let blocks = winograd.tiles.chunks(count);
    blocks.map(|tiles| (tiles, tiles.iter().map(&mut own).collect())).collect()
}

/// Task by task, each some tiles from beginning to end: weights stay in a cache.
fn run_tiles<const M: usize, const N: usize>(
    winograd: &Winograd,
    shape: &ConvShape,
    input: &[f32],
    Output { finish, out, stride }: Output,
) {
    let &ConvShape { from, to, .. } = shape;
    let channels = from.min(CHANNELS);
    let count = share(winograd.tiles.len(), TILES.max(VALUES / (N * N * (channels + to))));
    blocks::<M>(winograd, shape, count, out, stride).into_par_iter().for_each_init(
        || (Scratch::new(N * N * apart(count * channels)), Scratch::new(N * N * apart(count * to))),
        |(inputs, products), (tiles, pixels)| {
            for start in (0..from).step_by(CHANNELS) {
                let depth = CHANNELS.min(from - start);
                fast(TransformTiles::<M, N> { shape, input, tiles, start, depth, out: inputs });
                let lefts = inputs.chunks(apart(tiles.len() * depth));
                let outs = products.chunks_mut(apart(tiles.len() * to));
                for ((right, left), out) in winograd.places.iter().zip(lefts).zip(outs) {
                    multiply_place(right, left, tiles.len(), start..start + depth, out);
                }
            }
            fast(CollectTiles::<M, N> { shape, products, tiles, pixels, finish, stride });
        },
    );
}

/// Stage by stage. A task of the middle one is a place in the transformed tiles, of all tiles: its weights come from
/// memory once and stay in the second cache. With tasks as in [`run_tiles`], each of 128 tiles, 512 channels with a
/// dilation of 4 took 30 ms on a map of 60 x 60, and 20 in this way (AVX-512, 2 threads).
fn run_places<const M: usize, const N: usize>(
    winograd: &Winograd,
    shape: &ConvShape,
    input: &[f32],
    Output { finish, out, stride }: Output,
) {
    let &ConvShape { from, to, .. } = shape;
    let channels = from.min(CHANNELS);
    let count = share(winograd.tiles.len(), MANY_TILES);
    let blocks = blocks::<M>(winograd, shape, count, out, stride);
    let mut inputs = Scratch::new(blocks.len() * N * N * apart(count * channels));
    let mut products = Scratch::new(blocks.len() * N * N * apart(count * to));
    for start in (0..from).step_by(CHANNELS) {
        let depth = CHANNELS.min(from - start);
        let block_len = N * N * apart(count * depth);
        inputs.par_chunks_mut(block_len).zip(&blocks).for_each(|(out, (tiles, _))| {
            fast(TransformTiles::<M, N> { shape, input, tiles, start, depth, out });
        });
        let mut places: Vec<Vec<_>> = (0..N * N).map(|_| Vec::with_capacity(blocks.len())).collect();
        let lefts = inputs.chunks(block_len).zip(products.chunks_mut(N * N * apart(count * to)));
        for ((tiles, _), (left, out)) in blocks.iter().zip(lefts) {
            let rows = tiles.len();
            let parts = left.chunks(apart(rows * depth)).zip(out.chunks_mut(apart(rows * to)));
            places.iter_mut().zip(parts).for_each(|(place, (left, out))| place.push((rows, left, out)));
        }
        places.into_par_iter().zip(&winograd.places).for_each(|(blocks, right)| {
            for (rows, left, out) in blocks {
                multiply_place(right, left, rows, start..start + depth, out);
            }
        });
    }
    let products = products.par_chunks(N * N * apart(count * to));
    blocks.into_par_iter().zip(products).for_each(|((tiles, pixels), products)| {
        fast(CollectTiles::<M, N> { shape, products, tiles, pixels, finish, stride });
    });
}

/// Some tiles times the weights of some input channels at one place, added to what the channels before them gave.
fn multiply_place(right: &Panels, left: &[f32], rows: usize, channels: Range<usize>, out: &mut [f32]) {
    let depth = channels.len();
    fast(Block {
        left: &left[..rows * depth],
        left_stride: depth,
        rows,
        right,
        from: channels.start,
        depth,
        accumulate: channels.start > 0,
        finish: Finish::default(),
        out,
        stride: right.outer,
    });
}

/// Values of one place's matrix, and room after it: places whole pages apart would compete for the same lines of a
/// cache.
fn apart(values: usize) -> usize {
    values.next_multiple_of(LANES) | LANES
}

fn transform_weight<const M: usize, const N: usize>(shape: &ConvShape, weight: &[f32]) -> Vec<Panels> {
    let &ConvShape { from, to, .. } = shape;
    let mut places: Vec<Panels> = (0..N * N).map(|_| Panels::zeros(from, to)).collect();
    // For each panel, that panel of every place.
    let mut panels: Vec<Vec<&mut [Line]>> =
        (0..to.div_ceil(LANES)).map(|_| Vec::with_capacity(N * N)).collect();
    for place in &mut places {
        panels.iter_mut().zip(place.panels_mut()).for_each(|(panel, part)| panel.push(part));
    }
    panels.into_par_iter().enumerate().for_each(|(panel, places)| {
        let channels = panel * LANES..to.min((panel + 1) * LANES);
        fast(TransformTaps::<M, N> {
            weight: &weight[channels.start * from * 9..channels.end * from * 9],
            from,
            places,
        });
    });
    places
}

/// The taps of up to [`LANES`] output channels.
struct TransformTaps<'a, 'b, const M: usize, const N: usize> {
    /// `[to, from, 3, 3]`
    weight: &'a [f32],
    from: usize,
    places: Vec<&'b mut [Line]>,
}

impl<const M: usize, const N: usize> Work for TransformTaps<'_, '_, M, N> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let mut room = Room::<3, N>::new();
        for c in 0..self.from {
            for (lane, weight) in self.weight.chunks_exact(self.from * 9).enumerate() {
                let taps = room.x.as_flattened_mut().iter_mut().zip(&weight[c * 9..][..9]);
                taps.for_each(|(lanes, &tap)| lanes[lane] = tap);
            }
            room.transform::<S>(&Tile::<M, N>::TAPS);
            for (place, lanes) in self.places.iter_mut().zip(room.y.as_flattened()) {
                place[c] = Line(*lanes);
            }
        }
    }
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
        let place_len = apart(tiles.len() * depth);
        let mut room = Room::<N, N>::new();
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
                for (lanes, pixel) in room.x.as_flattened_mut().iter_mut().zip(pixels.as_flattened()) {
                    match pixel {
                        Some(pixel) => read(lanes, &pixel[channel..], width),
                        None => *lanes = [0.0; LANES],
                    }
                }
                room.transform::<S>(&Tile::<M, N>::INPUT);
                for (index, lanes) in room.y.as_flattened().iter().enumerate() {
                    write(&mut out[index * place_len + tile * depth + channel..], lanes, width);
                }
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
        let place_len = apart(tiles.len() * shape.to);
        let mut room = Room::<N, M>::new();
        let [least, most] = finish.activation.limits();
        for (tile, (corner, mut pixels)) in tiles.iter().zip(pixels).enumerate() {
            let adds: [[Option<&[f32]>; M]; M] = std::array::from_fn(|j| {
                std::array::from_fn(|i| {
                    let place = place(shape, corner, j, i, 0);
                    finish.add.zip(place).map(|(add, place)| &add[place * stride..][..shape.to])
                })
            });
            for channel in (0..shape.to).step_by(LANES) {
                let width = LANES.min(shape.to - channel);
                for (index, lanes) in room.x.as_flattened_mut().iter_mut().enumerate() {
                    read(lanes, &products[index * place_len + tile * shape.to + channel..], width);
                }
                room.transform::<S>(&Tile::<M, N>::OUTPUT);
                let bias = finish.bias.map_or([0.0; LANES], |bias| bias[channel / LANES]);
                let outputs =
                    room.y.as_flattened().iter().zip(pixels.as_flattened_mut()).zip(adds.as_flattened());
                for ((sums, pixel), add) in outputs {
                    let Some(pixel) = pixel else { continue };
                    let mut more = bias;
                    if let Some(add) = add {
                        let mut lanes = [0.0; LANES];
                        read(&mut lanes, &add[channel..], width);
                        more.iter_mut().zip(lanes).for_each(|(more, add)| *more += add);
                    }
                    let out: Lanes =
                        std::array::from_fn(|lane| (sums[lane] + more[lane]).max(least).min(most));
                    write(&mut pixel[channel..], &out, width);
                }
            }
        }
    }
}
