//! 3x3 convolutions of stride 1 with constant weights (see [`crate::winograd`] for the algorithm).
//!
//! A task takes some tiles through all of it: transform, one product for each place in a transformed tile, and the
//! transform back with bias, shortcut and activation. Its intermediate values stay in the caches.

use rayon::prelude::*;

use super::panels::{Block, Finish, LANES, Lanes, Line, Panels, read, share, write};
use crate::{
    ConvShape,
    scratch::Scratch,
    simd::{Simd, Work, fast},
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
/// Transformed weights that a cache holds, in bytes. Larger ones come from memory for every task, which then takes
/// [`MANY_TILES`] rather than [`FEW_TILES`] even if its values are more.
const CACHED: usize = 8 << 20;
const MANY_TILES: usize = 128;
const FEW_TILES: usize = 24;

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
        with_tile!(self.m, run_tiles(self, shape, input, finish, out, stride));
    }
}

fn run_tiles<const M: usize, const N: usize>(
    winograd: &Winograd,
    shape: &ConvShape,
    input: &[f32],
    finish: Finish,
    out: &mut [f32],
    stride: usize,
) {
    let &ConvShape { from, to, .. } = shape;
    let channels = from.min(CHANNELS);
    let least = if winograd.weight_bytes() > CACHED { MANY_TILES } else { FEW_TILES };
    let count = share(winograd.tiles.len(), least.max(VALUES / (N * N * (channels + to))));
    // Each tile is given the pixels it writes, none of them in two.
    let mut pixels: Vec<Option<&mut [f32]>> = out.chunks_mut(stride).map(Some).collect();
    let mut own = |corner: &Corner| -> [[Option<&mut [f32]>; M]; M] {
        std::array::from_fn(|j| {
            std::array::from_fn(|i| place(shape, corner, j, i, 0).and_then(|place| pixels[place].take()))
        })
    };
    let blocks: Vec<_> = winograd
        .tiles
        .chunks(count)
        .map(|tiles| (tiles, tiles.iter().map(&mut own).collect::<Vec<_>>()))
        .collect();
    blocks.into_par_iter().for_each_init(
        || (Scratch::new(N * N * apart(count * channels)), Scratch::new(N * N * apart(count * to))),
        |(inputs, products), (tiles, pixels)| {
            for start in (0..from).step_by(CHANNELS) {
                let depth = CHANNELS.min(from - start);
                let place_len = apart(tiles.len() * depth);
                fast(TransformTiles::<M, N> { shape, input, tiles, start, depth, out: inputs });
                let lefts = inputs.chunks(place_len);
                let outs = products.chunks_mut(apart(tiles.len() * to));
                for ((right, left), out) in winograd.places.iter().zip(lefts).zip(outs) {
                    fast(Block {
                        left: &left[..tiles.len() * depth],
                        left_stride: depth,
                        rows: tiles.len(),
                        right,
                        from: start,
                        depth,
                        accumulate: start > 0,
                        finish: Finish::default(),
                        out,
                        stride: to,
                    });
                }
            }
            fast(CollectTiles::<M, N> { shape, products, tiles, pixels, finish, stride });
        },
    );
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
            room.transform(&Tile::<M, N>::TAPS);
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
                for (lanes, pixel) in room.x.as_flattened_mut().iter_mut().zip(pixels.as_flattened()) {
                    match pixel {
                        Some(pixel) => read(lanes, &pixel[channel..], width),
                        None => *lanes = [0.0; LANES],
                    }
                }
                room.transform(&Tile::<M, N>::INPUT);
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
    pixels: Vec<[[Option<&'b mut [f32]>; M]; M]>,
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
                room.transform(&Tile::<M, N>::OUTPUT);
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
