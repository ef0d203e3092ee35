//! 3x3 convolutions of stride 1 that keep the size of their maps, with any dilation.
//!
//! Maps are cut into tiles (see [`grid`]), tiles and weights are transformed (see [`tile`]), and for each of the N^2 places
//! in a transformed tile one matrix product mixes the channels of all tiles of the batch.

mod grid;
mod tile;

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    ConvShape,
    matmul::{Matrix, multiply},
    simd::fast,
};
use grid::Grid;
use tile::{LANES, Lanes, Tile, transform};

/// Channels that are transformed at a time: bounds the memory, and is enough for matrix products to run at full speed.
const BLOCK: usize = 512;

/// Whether this kernel is the fast one: it needs channels for its products to be worth the transforms, and maps that tiles
/// do not overhang by far.
pub fn suits(shape: &ConvShape) -> bool {
    let square = shape.kernel == 3 && shape.stride == 1 && shape.padding == shape.dilation;
    let (_, products) = Grid::cheapest(shape);
    square && shape.from.min(shape.to) >= 16 && 5 * products < 4 * 9 * shape.in_plane()
}

pub fn forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    match Grid::cheapest(shape).0 {
        4 => convolve::<4, 6>(shape, input, weight, false),
        3 => convolve::<3, 5>(shape, input, weight, false),
        _ => convolve::<2, 4>(shape, input, weight, false),
    }
}

/// The same convolution with taps in reverse and channels exchanged.
pub fn input_grad(shape: &ConvShape, grad: &[f32], weight: &[f32]) -> Vec<f32> {
    match Grid::cheapest(shape).0 {
        4 => convolve::<4, 6>(shape, grad, weight, true),
        3 => convolve::<3, 5>(shape, grad, weight, true),
        _ => convolve::<2, 4>(shape, grad, weight, true),
    }
}

pub fn weight_grad(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f32> {
    match Grid::cheapest(shape).0 {
        4 => correlate::<4, 6>(shape, input, grad),
        3 => correlate::<3, 5>(shape, input, grad),
        _ => correlate::<2, 4>(shape, input, grad),
    }
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
    let mut transformed = Vec::new();
    for to_block in blocks(to) {
        let mut products = vec![0.0; N * N * to_block.len() * grid.tiles];
        for from_block in blocks(from) {
            // All of `from` in one block serves every block of `to`.
            if transformed.is_empty() || from > BLOCK {
                transformed = transform_maps(
                    shape,
                    &grid,
                    &Tile::<M, N>::INPUT,
                    &grid.inputs,
                    maps,
                    from,
                    from_block.clone(),
                );
            }
            let (o, c) = if backward { (&from_block, &to_block) } else { (&to_block, &from_block) };
            let taps = transform_weight::<M, N>(shape, weight, o.clone(), c.clone(), backward);
            let place_len = to_block.len() * grid.tiles;
            products.par_chunks_mut(place_len).enumerate().for_each(|(place, products)| {
                let taps = &taps[place * o.len() * c.len()..][..o.len() * c.len()];
                let taps = Matrix::new(taps, o.len(), c.len());
                let taps = if backward { taps.transposed() } else { taps };
                let tiles =
                    &transformed[place * from_block.len() * grid.tiles..][..from_block.len() * grid.tiles];
                let tiles = Matrix::new(tiles, from_block.len(), grid.tiles);
                multiply(products, grid.tiles, taps, tiles, from_block.start > 0, 1);
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
        let grads =
            transform_maps(shape, &grid, &Tile::<M, N>::OUTPUT_GRAD, &grid.outputs, grad, to, o.clone());
        for c in blocks(from) {
            let tiles =
                transform_maps(shape, &grid, &Tile::<M, N>::INPUT, &grid.inputs, input, from, c.clone());
            let place_len = o.len() * c.len();
            let mut taps = vec![0.0; N * N * place_len];
            taps.par_chunks_mut(place_len).enumerate().for_each(|(place, taps)| {
                let grads = &grads[place * o.len() * grid.tiles..][..o.len() * grid.tiles];
                let tiles = &tiles[place * c.len() * grid.tiles..][..c.len() * grid.tiles];
                let grads = Matrix::new(grads, o.len(), grid.tiles);
                let tiles = Matrix::new(tiles, c.len(), grid.tiles).transposed();
                multiply(taps, c.len(), grads, tiles, false, 1);
            });
            collect_weight::<M, N>(shape, &taps, o.clone(), c, &mut weight);
        }
    }
    weight
}

fn blocks(channels: usize) -> impl Iterator<Item = Range<usize>> {
    (0..channels).step_by(BLOCK).map(move |start| start..channels.min(start + BLOCK))
}

/// Parts of `data`, `[places][rows][len]`, by row: `[rows][places]` slices.
fn rows_of(data: &mut [f32], places: usize, rows: usize, len: usize) -> Vec<Vec<&mut [f32]>> {
    let mut parts: Vec<Vec<&mut [f32]>> = (0..rows).map(|_| Vec::with_capacity(places)).collect();
    for place in data.chunks_mut(rows * len) {
        for (part, row) in parts.iter_mut().zip(place.chunks_mut(len)) {
            part.push(row);
        }
    }
    parts
}

/// The tiles of some of the `all` channels of `maps` with `matrix` on both sides: `[place][channel][tile]`.
fn transform_maps<const I: usize, const N: usize>(
    shape: &ConvShape,
    grid: &Grid,
    matrix: &[[f32; I]; N],
    table: &[u32],
    maps: &[f32],
    all: usize,
    channels: Range<usize>,
) -> Vec<f32> {
    let plane = shape.in_plane();
    let mut out = vec![0.0; N * N * channels.len() * grid.tiles];
    let rows = rows_of(&mut out, N * N, channels.len(), grid.tiles);
    rows.into_par_iter().zip(channels).for_each_init(
        || vec![0.0; grid.nowhere + 1],
        |line, (mut row, channel)| {
            for (image, part) in line[..grid.nowhere].chunks_mut(plane).enumerate() {
                part.copy_from_slice(&maps[(image * all + channel) * plane..][..plane]);
            }
            fast(|| transform_channel(matrix, table, line, &mut row));
        },
    );
    out
}

#[inline(always)]
fn transform_channel<const I: usize, const N: usize>(
    matrix: &[[f32; I]; N],
    table: &[u32],
    line: &[f32],
    row: &mut [&mut [f32]],
) {
    for (chunk, table) in table.chunks_exact(I * I * LANES).enumerate() {
        let mut x = [[[0.0; LANES]; I]; I];
        for (lanes, table) in x.as_flattened_mut().iter_mut().zip(table.as_chunks::<LANES>().0) {
            for (value, &place) in lanes.iter_mut().zip(table) {
                *value = line[place as usize];
            }
        }
        let y = transform(matrix, &x);
        store(&y, row, chunk);
    }
}

/// Writes the lanes of each place to its row; the last chunk may be short.
#[inline(always)]
fn store<const N: usize>(y: &[[Lanes; N]; N], row: &mut [&mut [f32]], chunk: usize) {
    for (lanes, row) in y.as_flattened().iter().zip(row) {
        let row = &mut row[chunk * LANES..];
        match row.first_chunk_mut() {
            Some(row) => *row = *lanes,
            None => row.copy_from_slice(&lanes[..row.len()]),
        }
    }
}

/// The opposite of [`store`].
#[inline(always)]
fn load<const N: usize>(row: &[&[f32]], chunk: usize) -> [[Lanes; N]; N] {
    let mut x = [[[0.0; LANES]; N]; N];
    for (lanes, row) in x.as_flattened_mut().iter_mut().zip(row) {
        let row = &row[chunk * LANES..];
        match row.first_chunk() {
            Some(row) => *lanes = *row,
            None => lanes[..row.len()].copy_from_slice(row),
        }
    }
    x
}

/// The outputs of `products`, `[place][channel][tile]`, written to those of the `all` channels of `out`.
fn collect_maps<const M: usize, const N: usize>(
    shape: &ConvShape,
    grid: &Grid,
    products: &[f32],
    all: usize,
    channels: Range<usize>,
    out: &mut [f32],
) {
    let plane = shape.in_plane();
    let mut planes: Vec<Vec<&mut [f32]>> =
        channels.clone().map(|_| Vec::with_capacity(shape.batch)).collect();
    for image in out.chunks_mut(all * plane) {
        for (part, plane) in planes.iter_mut().zip(image.chunks_mut(plane).skip(channels.start)) {
            part.push(plane);
        }
    }
    planes.into_par_iter().enumerate().for_each_init(
        || vec![0.0; grid.nowhere + 1],
        |line, (channel, planes)| {
            let row = |place| &products[(place * channels.len() + channel) * grid.tiles..][..grid.tiles];
            let row: Vec<&[f32]> = (0..N * N).map(row).collect();
            fast(|| collect_channel::<M, N>(&grid.outputs, &row, line));
            for (to, from) in planes.into_iter().zip(line.chunks(plane)) {
                to.copy_from_slice(from);
            }
        },
    );
}

#[inline(always)]
fn collect_channel<const M: usize, const N: usize>(table: &[u32], row: &[&[f32]], line: &mut [f32]) {
    for (chunk, table) in table.chunks_exact(M * M * LANES).enumerate() {
        let y = transform(&Tile::<M, N>::OUTPUT, &load::<N>(row, chunk));
        for (lanes, table) in y.as_flattened().iter().zip(table.as_chunks::<LANES>().0) {
            for (&value, &place) in lanes.iter().zip(table) {
                line[place as usize] = value;
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
) -> Vec<f32> {
    let mut out = vec![0.0; N * N * o.len() * c.len()];
    let rows = rows_of(&mut out, N * N, o.len(), c.len());
    rows.into_par_iter().zip(o).for_each(|(mut row, o)| {
        let taps = weight[(o * shape.from + c.start) * 9..][..c.len() * 9].as_chunks::<9>().0;
        fast(|| {
            for (chunk, taps) in taps.chunks(LANES).enumerate() {
                let mut x = [[[0.0; LANES]; 3]; 3];
                for (lane, taps) in taps.iter().enumerate() {
                    for (i, lanes) in x.as_flattened_mut().iter_mut().enumerate() {
                        lanes[lane] = if backward { taps[8 - i] } else { taps[i] };
                    }
                }
                store(&transform(&Tile::<M, N>::TAPS, &x), &mut row, chunk);
            }
        });
    });
    out
}

/// The gradients of taps from those of transformed taps, `[place][o][c]`.
fn collect_weight<const M: usize, const N: usize>(
    shape: &ConvShape,
    taps: &[f32],
    o: Range<usize>,
    c: Range<usize>,
    weight: &mut [f32],
) {
    let all = shape.from * 9;
    let (o_len, c_len) = (o.len(), c.len());
    weight[o.start * all..o.end * all].par_chunks_mut(all).enumerate().for_each(|(o, weight)| {
        let row = |place| &taps[(place * o_len + o) * c_len..][..c_len];
        let row: Vec<&[f32]> = (0..N * N).map(row).collect();
        let weight = weight[c.start * 9..c.end * 9].as_chunks_mut::<9>().0;
        fast(|| {
            for (chunk, weight) in weight.chunks_mut(LANES).enumerate() {
                let y = transform(&Tile::<M, N>::TAPS_GRAD, &load::<N>(&row, chunk));
                for (lane, taps) in weight.iter_mut().enumerate() {
                    *taps = std::array::from_fn(|i| y[i / 3][i % 3][lane]);
                }
            }
        });
    });
}
