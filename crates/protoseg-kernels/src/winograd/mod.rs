//! 3x3 convolutions of stride 1 that keep the size of their maps, with any dilation.
//!
//! Maps are cut into tiles (see [`grid`]), tiles and weights are transformed (see [`tile`]), and for each of the
//! N^2 places in a transformed tile one matrix product mixes the channels of all tiles of the batch.
//!
//! Transforms are those of the baseline, without fused multiply-adds: fused ones turned the sign of a value near zero, and
//! with it a gradient that is compared with double precision.

pub(crate) mod grid;
pub(crate) mod lines;
mod spectrum;
pub(crate) mod tile;

use std::{marker::PhantomData, ops::Range};

use rayon::prelude::*;

use crate::{
    ConvShape,
    matmul::multiply,
    planes::by_channel_mut,
    simd::{Baseline, Simd, Work, fast},
};
use grid::Grid;
use spectrum::{Spectrum, load, store};
use tile::{LANES, Room, Tile};

/// Channels that are transformed at a time: bounds the memory, and is enough for matrix products to run at full speed.
const BLOCK: usize = 512;

/// Whether this kernel is the fast one: it needs channels for its products to be worth the transforms, and maps
/// that tiles do not overhang by far.
pub fn suits(shape: &ConvShape) -> bool {
    let (_, products) = Grid::cheapest_in_training(shape);
    shape.is_same_3x3() && shape.from.min(shape.to) >= 16 && 5 * products < 4 * 9 * shape.in_plane()
}

/// Calls a function of a tile's two sides, given as values, with them as constants.
macro_rules! with_tile {
    ($m:expr, $function:ident $arguments:tt) => {
        match $m {
            6 => $function::<6, 8> $arguments,
            5 => $function::<5, 7> $arguments,
            4 => $function::<4, 6> $arguments,
            3 => $function::<3, 5> $arguments,
            _ => $function::<2, 4> $arguments,
        }
    };
}

pub fn forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    with_tile!(Grid::cheapest_in_training(shape).0, convolve(shape, input, weight, false))
}

/// The same convolution with taps in reverse and channels exchanged.
pub fn input_grad(shape: &ConvShape, grad: &[f32], weight: &[f32]) -> Vec<f32> {
    with_tile!(Grid::cheapest_in_training(shape).0, convolve(shape, grad, weight, true))
}

pub fn weight_grad(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f32> {
    with_tile!(Grid::cheapest_in_training(shape).0, correlate(shape, input, grad))
}

fn convolve<const M: usize, const N: usize>(
    shape: &ConvShape,
    maps: &[f32],
    weight: &[f32],
    backward: bool,
) -> Vec<f32> {
    let (from, to) = if backward { (shape.to, shape.from) } else { (shape.from, shape.to) };
    let grid = Grid::new(shape, M);
    let mut out = vec![0.0; shape.batch * to * shape.in_plane()];
    let mut tiles = None;
    for to_block in blocks(to) {
        let mut products = Spectrum::new(N * N, to_block.len(), grid.tiles);
        for from_block in blocks(from) {
            // All of `from` in one block serves every block of `to`.
            if tiles.is_none() || from > BLOCK {
                drop(tiles.take());
                tiles =
                    Some(transform_maps::<Inputs<M, N>, N, N>(shape, &grid, maps, from, from_block.clone()));
            }
            let tiles = tiles.as_ref().expect("they were just made");
            let (o, c) = if backward { (&from_block, &to_block) } else { (&to_block, &from_block) };
            let taps = transform_weight::<M, N>(shape, weight, o.clone(), c.clone(), backward);
            products.places_mut().enumerate().for_each(|(place, products)| {
                let taps = taps.matrix(place);
                let taps = if backward { taps.transposed() } else { taps };
                multiply(products, grid.tiles, taps, tiles.matrix(place), from_block.start > 0, 1);
            });
        }
        collect_maps::<M, N>(shape, &grid, &products, to, to_block, &mut out);
    }
    out
}

fn correlate<const M: usize, const N: usize>(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f32> {
    let &ConvShape { from, to, .. } = shape;
    let grid = Grid::new(shape, M);
    let mut weight = vec![0.0; shape.weight_len()];
    for o in blocks(to) {
        let grads = transform_maps::<OutputGrads<M, N>, M, N>(shape, &grid, grad, to, o.clone());
        for c in blocks(from) {
            let tiles = transform_maps::<Inputs<M, N>, N, N>(shape, &grid, input, from, c.clone());
            let mut taps = Spectrum::new(N * N, o.len(), c.len());
            taps.places_mut().enumerate().for_each(|(place, taps)| {
                multiply(taps, c.len(), grads.matrix(place), tiles.matrix(place).transposed(), false, 1);
            });
            collect_weight::<M, N>(shape, &taps, o.clone(), c, &mut weight);
        }
    }
    weight
}

fn blocks(channels: usize) -> impl Iterator<Item = Range<usize>> {
    (0..channels).step_by(BLOCK).map(move |start| start..channels.min(start + BLOCK))
}

/// A transform of tiles of maps. A type and not a value, so that its matrix is known where loops over it are compiled.
trait MapTransform<const I: usize, const N: usize> {
    const MATRIX: [[f32; I]; N];

    fn table(grid: &Grid) -> &[u32];
}

struct Inputs<const M: usize, const N: usize>;

impl<const M: usize, const N: usize> MapTransform<N, N> for Inputs<M, N> {
    const MATRIX: [[f32; N]; N] = Tile::<M, N>::INPUT;

    fn table(grid: &Grid) -> &[u32] {
        &grid.inputs
    }
}

struct OutputGrads<const M: usize, const N: usize>;

impl<const M: usize, const N: usize> MapTransform<M, N> for OutputGrads<M, N> {
    const MATRIX: [[f32; M]; N] = Tile::<M, N>::OUTPUT_GRAD;

    fn table(grid: &Grid) -> &[u32] {
        &grid.outputs
    }
}

/// The tiles of some of the `all` channels of `maps` transformed: `[place][channel][tile]`.
fn transform_maps<T: MapTransform<I, N>, const I: usize, const N: usize>(
    shape: &ConvShape,
    grid: &Grid,
    maps: &[f32],
    all: usize,
    channels: Range<usize>,
) -> Spectrum {
    let plane = shape.in_plane();
    let table = T::table(grid);
    let mut out = Spectrum::new(N * N, channels.len(), grid.tiles);
    out.rows_mut().into_par_iter().zip(channels).for_each_init(
        || vec![0.0; grid.nowhere + 1],
        |line, (mut row, channel)| {
            for (image, part) in line[..grid.nowhere].chunks_mut(plane).enumerate() {
                part.copy_from_slice(&maps[(image * all + channel) * plane..][..plane]);
            }
            fast(TransformChannel::<T, I, N> { table, line, row: &mut row, kind: PhantomData });
        },
    );
    out
}

struct TransformChannel<'a, 'b, T, const I: usize, const N: usize> {
    table: &'a [u32],
    line: &'a [f32],
    row: &'a mut [&'b mut [f32]],
    kind: PhantomData<T>,
}

impl<T: MapTransform<I, N>, const I: usize, const N: usize> Work for TransformChannel<'_, '_, T, I, N> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut room = Room::<I, N>::new();
        for (chunk, table) in self.table.chunks_exact(I * I * LANES).enumerate() {
            for (lanes, table) in room.x.as_flattened_mut().iter_mut().zip(table.as_chunks::<LANES>().0) {
                for (value, &place) in lanes.iter_mut().zip(table) {
                    *value = self.line[place as usize];
                }
            }
            room.transform::<Baseline>(&T::MATRIX);
            store(&room.y, self.row, chunk);
        }
    }
}

/// The outputs of `products`, `[place][channel][tile]`, written to those of the `all` channels of `out`.
fn collect_maps<const M: usize, const N: usize>(
    shape: &ConvShape,
    grid: &Grid,
    products: &Spectrum,
    all: usize,
    channels: Range<usize>,
    out: &mut [f32],
) {
    let plane = shape.in_plane();
    let planes = by_channel_mut(out, all, plane).into_par_iter().skip(channels.start).take(channels.len());
    planes.enumerate().for_each_init(
        || vec![0.0; grid.nowhere + 1],
        |line, (channel, planes)| {
            fast(CollectChannel::<M, N> { table: &grid.outputs, row: &products.row(channel), line });
            for (to, from) in planes.into_iter().zip(line.chunks(plane)) {
                to.copy_from_slice(from);
            }
        },
    );
}

struct CollectChannel<'a, const M: usize, const N: usize> {
    table: &'a [u32],
    row: &'a [&'a [f32]],
    line: &'a mut [f32],
}

impl<const M: usize, const N: usize> Work for CollectChannel<'_, M, N> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut room = Room::<N, M>::new();
        for (chunk, table) in self.table.chunks_exact(M * M * LANES).enumerate() {
            load(&mut room.x, self.row, chunk);
            room.transform::<Baseline>(&Tile::<M, N>::OUTPUT);
            for (lanes, table) in room.y.as_flattened().iter().zip(table.as_chunks::<LANES>().0) {
                for (&value, &place) in lanes.iter().zip(table) {
                    self.line[place as usize] = value;
                }
            }
        }
    }
}

/// The taps of channels `o` to `c`, transformed: `[place][o][c]`; in reverse order if `backward`.
fn transform_weight<const M: usize, const N: usize>(
    shape: &ConvShape,
    weight: &[f32],
    o: Range<usize>,
    c: Range<usize>,
    backward: bool,
) -> Spectrum {
    let mut out = Spectrum::new(N * N, o.len(), c.len());
    out.rows_mut().into_par_iter().zip(o).for_each(|(mut row, o)| {
        let taps = weight[(o * shape.from + c.start) * 9..][..c.len() * 9].as_chunks::<9>().0;
        fast(TransformTaps::<M, N> { taps, backward, row: &mut row });
    });
    out
}

struct TransformTaps<'a, 'b, const M: usize, const N: usize> {
    taps: &'a [[f32; 9]],
    backward: bool,
    row: &'a mut [&'b mut [f32]],
}

impl<const M: usize, const N: usize> Work for TransformTaps<'_, '_, M, N> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut room = Room::<3, N>::new();
        for (chunk, taps) in self.taps.chunks(LANES).enumerate() {
            for (lane, taps) in taps.iter().enumerate() {
                for (i, lanes) in room.x.as_flattened_mut().iter_mut().enumerate() {
                    lanes[lane] = if self.backward { taps[8 - i] } else { taps[i] };
                }
            }
            room.transform::<Baseline>(&Tile::<M, N>::TAPS);
            store(&room.y, self.row, chunk);
        }
    }
}

/// The gradients of taps from those of transformed taps, `[place][o][c]`.
fn collect_weight<const M: usize, const N: usize>(
    shape: &ConvShape,
    taps: &Spectrum,
    o: Range<usize>,
    c: Range<usize>,
    weight: &mut [f32],
) {
    let all = shape.from * 9;
    weight[o.start * all..o.end * all].par_chunks_mut(all).enumerate().for_each(|(o, weight)| {
        let row = taps.row(o);
        let weight = weight[c.start * 9..c.end * 9].as_chunks_mut::<9>().0;
        fast(CollectTaps::<M, N> { row: &row, weight });
    });
}

struct CollectTaps<'a, const M: usize, const N: usize> {
    row: &'a [&'a [f32]],
    weight: &'a mut [[f32; 9]],
}

impl<const M: usize, const N: usize> Work for CollectTaps<'_, M, N> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut room = Room::<N, 3>::new();
        for (chunk, weight) in self.weight.chunks_mut(LANES).enumerate() {
            load(&mut room.x, self.row, chunk);
            room.transform::<Baseline>(&Tile::<M, N>::TAPS_GRAD);
            for (lane, taps) in weight.iter_mut().enumerate() {
                *taps = std::array::from_fn(|i| room.y[i / 3][i % 3][lane]);
            }
        }
    }
}
