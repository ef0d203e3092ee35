//! 3x3 convolutions of stride 1 with constant weights (see [`crate::winograd`] for the algorithm).
//!
//! A task takes some tiles through all of it: transform, one product for each place in a transformed tile, and the
//! transform back with bias, shortcut and activation. Its intermediate values stay in the caches. Layers with many
//! weights go stage by stage instead ([`run_stages`]).

use std::{marker::PhantomData, ops::Range};

use rayon::prelude::*;

use super::{
    panels::{Block, Finish, LANES, Line, PanelsView, as_lines, busiest, read_vector, share, write_vector},
    taps,
};
use crate::{
    ConvShape,
    scratch::Scratch,
    simd::{Simd, Work, fast, prefetch, unrolled},
    winograd::{
        grid::{self, Corner, Cut, corners, place},
        lines::{Lines, Pair, SIDE, Single, Tiles},
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

/// Whether this kernel is the fast one: it needs channels for its products to be worth the transforms, and few products
/// beside those of the taps that lie on the map.
pub fn suits(shape: &ConvShape) -> bool {
    let products = grid::products(shape, &grid::parts(shape));
    let has_fewer_taps = shape.dilation > 1 && taps::products(shape) < products;
    let is_cheap = 5 * products < 4 * 9 * shape.in_plane() && !has_fewer_taps;
    shape.is_same_3x3() && shape.from.min(shape.to) >= 16 && is_cheap
}

#[derive(Clone, Debug)]
pub struct Winograd {
    parts: Vec<Part>,
    /// `[panel][from][tap]`, for the parts that transform them in use. A panel is [`LANES`] output channels.
    taps: Vec<Line>,
}

/// Tiles that are cut in the same way.
#[derive(Clone, Debug)]
struct Part {
    cuts: [Cut; 2],
    tiles: Vec<Corner>,
    weights: Weights,
}

#[derive(Clone, Debug)]
enum Weights {
    /// Transformed, `[place in a transformed tile][panel][from]`, places as far apart as [`place_lines`] says.
    Places(Vec<Line>),
    /// Taps, of which so many panels are transformed at a time in each run.
    Taps { panels: usize },
}

impl Part {
    fn places(&self) -> usize {
        self.cuts.map(Cut::places).iter().product()
    }
}

/// Calls a function of how rows and columns are cut, given as values, with types that say it.
macro_rules! with_lines {
    ($cuts:expr, $function:ident $arguments:tt) => {
        match $cuts {
            [Cut::All(6), _] => $function::<Tiles<6, 8>, Tiles<6, 8>> $arguments,
            [Cut::All(5), _] => $function::<Tiles<5, 7>, Tiles<5, 7>> $arguments,
            [Cut::All(4), _] => $function::<Tiles<4, 6>, Tiles<4, 6>> $arguments,
            [Cut::All(2), _] => $function::<Tiles<2, 4>, Tiles<2, 4>> $arguments,
            [Cut::Three, Cut::Whole(2)] => $function::<Tiles<3, 5>, Pair> $arguments,
            [Cut::Three, Cut::Whole(_)] => $function::<Tiles<3, 5>, Single> $arguments,
            [Cut::Whole(2), Cut::Three] => $function::<Pair, Tiles<3, 5>> $arguments,
            [Cut::Whole(2), Cut::Whole(2)] => $function::<Pair, Pair> $arguments,
            [Cut::Whole(2), _] => $function::<Pair, Single> $arguments,
            [Cut::Whole(_), Cut::Three] => $function::<Single, Tiles<3, 5>> $arguments,
            [Cut::Whole(_), Cut::Whole(2)] => $function::<Single, Pair> $arguments,
            [Cut::Whole(_), _] => $function::<Single, Single> $arguments,
            _ => $function::<Tiles<3, 5>, Tiles<3, 5>> $arguments,
        }
    };
}

impl Winograd {
    pub fn new(shape: &ConvShape, weight: &[f32]) -> Self {
        Self::of_parts(&grid::parts(shape), shape, weight, [CACHED, STREAMED])
    }

    /// A map that is cut into these parts. Keeps transformed weights of at most `cached` bytes for each, and transforms
    /// others about `streamed` bytes at a time.
    fn of_parts(
        parts: &[[Cut; 2]],
        shape: &ConvShape,
        weight: &[f32],
        [cached, streamed]: [usize; 2],
    ) -> Self {
        let &ConvShape { from, to, .. } = shape;
        let taps = tap_lines(shape, weight);
        let panels = to.div_ceil(LANES);
        let part = |&cuts: &[Cut; 2]| {
            let places: usize = cuts.map(Cut::places).iter().product();
            let lines = places * place_lines(panels, from);
            let weights = if lines * size_of::<Line>() <= cached {
                let mut lines = vec![Line([0.0; LANES]); lines];
                with_lines!(cuts, transform_taps(&taps, from, 0..from, &mut lines));
                Weights::Places(lines)
            } else {
                let panel = places * place_lines(1, from.min(CHANNELS_OF_ALL)) * size_of::<Line>();
                let times = panels.div_ceil((streamed / panel).max(1));
                // Products take two panels at a time.
                Weights::Taps { panels: panels.div_ceil(times).next_multiple_of(2).min(panels) }
            };
            Part { cuts, tiles: corners(shape, cuts), weights }
        };
        let parts: Vec<Part> = parts.iter().map(part).collect();
        let are_needed = parts.iter().any(|part| matches!(part.weights, Weights::Taps { .. }));
        Self { parts, taps: if are_needed { taps } else { Vec::new() } }
    }

    /// Outputs along the sides of tiles, as `5` or `3, 2`.
    pub fn sides(&self) -> String {
        let mut sides: Vec<usize> = self.parts.iter().flat_map(|part| part.cuts.map(Cut::outputs)).collect();
        sides.sort_unstable_by_key(|&side| std::cmp::Reverse(side));
        sides.dedup();
        sides.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Products of a channel pair.
    pub fn products(&self) -> usize {
        self.parts.iter().map(|part| part.tiles.len() * part.places()).sum()
    }

    /// The share of the busiest of so many threads in all products: tiles are divided, or places in a transformed tile.
    pub fn busiest(&self, threads: usize) -> f64 {
        let share = |part: &Part| {
            let things = match part.weights {
                Weights::Places(_) => part.tiles.len(),
                Weights::Taps { .. } => part.places(),
            };
            (part.tiles.len() * part.places()) as f64 * busiest(things, threads)
        };
        self.parts.iter().map(share).sum::<f64>() / self.products().max(1) as f64
    }

    pub fn weight_bytes(&self) -> usize {
        let transformed = |part: &Part| match &part.weights {
            Weights::Places(lines) => size_of_val(&lines[..]),
            Weights::Taps { .. } => 0,
        };
        size_of_val(&self.taps[..]) + self.parts.iter().map(transformed).sum::<usize>()
    }

    pub fn run(&self, shape: &ConvShape, input: &[f32], finish: Finish, out: &mut [f32], stride: usize) {
        for Part { cuts, tiles, weights } in &self.parts {
            let to = Output { finish, out: &mut *out, stride };
            match weights {
                Weights::Places(lines) => with_lines!(*cuts, run_tiles(tiles, lines, shape, input, to)),
                Weights::Taps { panels } => {
                    with_lines!(*cuts, run_stages(tiles, (&self.taps, *panels), shape, input, to));
                }
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
type Pixels<'a> = [[Option<&'a mut [f32]>; SIDE]; SIDE];

/// The tiles in blocks of `count`, each tile with the pixels that it writes, none of them in two.
fn blocks<'t, 'a, R: Lines, C: Lines>(
    tiles: &'t [Corner],
    shape: &ConvShape,
    count: usize,
    out: &'a mut [f32],
    stride: usize,
) -> Vec<(&'t [Corner], Vec<Pixels<'a>>)> {
    let mut pixels: Vec<Option<&mut [f32]>> = out.chunks_mut(stride).map(Some).collect();
    let mut own = |corner: &Corner| -> Pixels<'a> {
        pixels_of::<R, C, _>(|steps| {
            place(shape, corner, steps, [0; 2]).and_then(|place| pixels[place].take())
        })
    };
    tiles.chunks(count).map(|tiles| (tiles, tiles.iter().map(&mut own).collect())).collect()
}

/// Something for each output of a tile.
fn pixels_of<R: Lines, C: Lines, T>(
    mut of: impl FnMut([usize; 2]) -> Option<T>,
) -> [[Option<T>; SIDE]; SIDE] {
    std::array::from_fn(|j| {
        std::array::from_fn(|i| if j < R::OUTPUTS && i < C::OUTPUTS { of([j, i]) } else { None })
    })
}

/// Task by task, each some tiles from beginning to end: weights stay in a cache.
fn run_tiles<R: Lines, C: Lines>(
    tiles: &[Corner],
    weights: &[Line],
    shape: &ConvShape,
    input: &[f32],
    Output { finish, out, stride }: Output,
) {
    let &ConvShape { from, to, .. } = shape;
    let all = R::PRODUCTS * C::PRODUCTS;
    let channels = from.min(CHANNELS);
    let count = share(tiles.len(), TILES.max(VALUES / (all * (channels + to))));
    blocks::<R, C>(tiles, shape, count, out, stride).into_par_iter().for_each_init(
        || (Scratch::new(all * apart(count * channels)), Scratch::new(all * apart(count * to))),
        |(inputs, products), (tiles, pixels)| {
            for start in (0..from).step_by(CHANNELS) {
                let depth = CHANNELS.min(from - start);
                fast(TransformTiles::<R, C> {
                    cut: PhantomData,
                    shape,
                    input,
                    tiles,
                    start,
                    depth,
                    out: inputs,
                });
                let lefts = inputs.chunks(apart(tiles.len() * depth));
                let outs = products.chunks_mut(apart(tiles.len() * to));
                for ((right, left), out) in places(weights, from, to).zip(lefts).zip(outs) {
                    multiply_place((right, start), (left, depth), tiles.len(), start > 0, (out, to));
                }
            }
            fast(CollectTiles::<R, C> { cut: PhantomData, shape, products, tiles, pixels, finish, stride });
        },
    );
}

/// Stage by stage, for weights that no cache holds once they are transformed. Transformed ones are up to 7 times as many
/// as the taps, so taps are kept and transformed for some panels of output channels at a time, which stay in the last
/// cache. Fetching all of them takes about a tenth less time, and several times the memory. A task is then a place in the
/// transformed tiles, of all tiles, so that its weights stay in the second cache.
fn run_stages<R: Lines, C: Lines>(
    tiles: &[Corner],
    (taps, together): (&[Line], usize),
    shape: &ConvShape,
    input: &[f32],
    Output { finish, out, stride }: Output,
) {
    let &ConvShape { from, to, .. } = shape;
    let all = R::PRODUCTS * C::PRODUCTS;
    let channels = from.min(CHANNELS_OF_ALL);
    let count = share(tiles.len(), MANY_TILES);
    let blocks = blocks::<R, C>(tiles, shape, count, out, stride);
    let mut inputs = Scratch::new(blocks.len() * all * apart(count * channels));
    let mut products = Scratch::new(blocks.len() * all * apart(count * to));
    let mut weights = Scratch::new(all * place_lines(together, channels) * LANES);
    for start in (0..from).step_by(CHANNELS_OF_ALL) {
        let depth = CHANNELS_OF_ALL.min(from - start);
        let block_len = all * apart(count * depth);
        inputs.par_chunks_mut(block_len).zip(&blocks).for_each(|(out, (tiles, _))| {
            fast(TransformTiles::<R, C> { cut: PhantomData, shape, input, tiles, start, depth, out });
        });
        for (part, taps) in taps.chunks(together * from * 9).enumerate() {
            let first = part * together * LANES;
            let outer = (to - first).min(together * LANES);
            let lines = &mut as_lines(&mut weights)[..all * place_lines(outer.div_ceil(LANES), depth)];
            transform_taps::<R, C>(taps, from, start..start + depth, lines);
            let mut tasks: Vec<Vec<_>> = (0..all).map(|_| Vec::with_capacity(blocks.len())).collect();
            let sides = inputs.chunks(block_len).zip(products.chunks_mut(all * apart(count * to)));
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
    let products = products.par_chunks(all * apart(count * to));
    blocks.into_par_iter().zip(products).for_each(|((tiles, pixels), products)| {
        fast(CollectTiles::<R, C> { cut: PhantomData, shape, products, tiles, pixels, finish, stride });
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
fn transform_taps<R: Lines, C: Lines>(taps: &[Line], from: usize, channels: Range<usize>, out: &mut [Line]) {
    let (panels, depth) = (taps.len() / (from * 9), channels.len());
    let parts = depth.div_ceil(TAPS);
    // For each part of a panel, that part of every place.
    let mut tasks: Vec<Vec<&mut [Line]>> =
        (0..panels * parts).map(|_| Vec::with_capacity(R::PRODUCTS * C::PRODUCTS)).collect();
    for place in out.chunks_mut(place_lines(panels, depth)) {
        let part = place[..panels * depth].chunks_mut(depth).flat_map(|panel| panel.chunks_mut(TAPS));
        tasks.iter_mut().zip(part).for_each(|(task, part)| task.push(part));
    }
    tasks.into_par_iter().enumerate().for_each(|(index, places)| {
        let (panel, part) = (index / parts, index % parts);
        let first = panel * from + channels.start + part * TAPS;
        let taps = &taps[first * 9..][..places[0].len() * 9];
        fast(TransformTaps::<R, C> { cut: PhantomData, taps, places });
    });
}

/// The taps of some input channels and [`LANES`] output channels.
struct TransformTaps<'a, 'b, R, C> {
    cut: PhantomData<(R, C)>,
    /// `[channel][tap]`
    taps: &'a [Line],
    /// `[place][channel]`
    places: Vec<&'b mut [Line]>,
}

impl<R: Lines, C: Lines> Work for TransformTaps<'_, '_, R, C> {
    /// As [`crate::winograd::tile::Room::transform`], but the values stay in registers between taps and places.
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let (rows, columns) = const { (&R::TAPS, &C::TAPS) };
        let count = self.taps.len() / 9;
        let all = R::PRODUCTS * C::PRODUCTS;
        assert!(self.places.len() == all && self.places.iter().all(|place| place.len() == count));
        let places: Vec<*mut Line> = self.places.iter_mut().map(|place| place.as_mut_ptr()).collect();
        for (channel, taps) in self.taps.as_chunks::<9>().0.iter().enumerate() {
            let mut taps_of = [S::splat(0.0); 9];
            unrolled!(tap in 0..9, at most 12, { taps_of[tap] = S::load(&taps[tap].0) });
            let [a, b, c, d, e, f, g, h, i] = taps_of;
            unrolled!(row in 0..R::PRODUCTS, at most 8, {
                let left = dot::<S, 3>(&rows[row], &[a, d, g]);
                let middle = dot::<S, 3>(&rows[row], &[b, e, h]);
                let right = dot::<S, 3>(&rows[row], &[c, f, i]);
                unrolled!(column in 0..C::PRODUCTS, at most 8, {
                    // SAFETY: there are as many places, each of as many lines as there are channels, and this is their
                    // only borrower.
                    let line = unsafe { &mut *places[row * C::PRODUCTS + column].add(channel) };
                    S::store(dot::<S, 3>(&columns[column], &[left, middle, right]), &mut line.0);
                });
            });
        }
    }
}

/// Factors times vectors. The factors are constants where this is inlined: those of zero cost nothing.
#[inline(always)]
fn dot<S: Simd, const I: usize>(factors: &[f32; I], vectors: &[S::Vector; I]) -> S::Vector {
    let mut sum = S::splat(0.0);
    unrolled!(i in 0..I, at most 8, {
        if factors[i] != 0.0 {
            sum = S::mul_add_all(S::splat(factors[i]), vectors[i], sum);
        }
    });
    sum
}

/// Tiles of the channels from `start` on, transformed: `[place][tile][channel]`.
struct TransformTiles<'a, R, C> {
    cut: PhantomData<(R, C)>,
    shape: &'a ConvShape,
    input: &'a [f32],
    tiles: &'a [Corner],
    start: usize,
    depth: usize,
    out: &'a mut [f32],
}

impl<R: Lines, C: Lines> Work for TransformTiles<'_, R, C> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { cut: _, shape, input, tiles, start, depth, out } = self;
        let (rows, columns) = const { (&R::INPUT, &C::INPUT) };
        let place_len = apart(tiles.len() * depth);
        let all = R::PRODUCTS * C::PRODUCTS;
        assert!(out.len() >= (all - 1) * place_len + tiles.len() * depth, "room for all places");
        for (tile, corner) in tiles.iter().enumerate() {
            let mut pixels: [[Option<&[f32]>; SIDE]; SIDE] = [[None; SIDE]; SIDE];
            for (j, row) in pixels[..R::INPUTS].iter_mut().enumerate() {
                for (i, pixel) in row[..C::INPUTS].iter_mut().enumerate() {
                    let place = place(shape, corner, [j, i], [R::BEFORE, C::BEFORE]);
                    *pixel = place.map(|place| &input[place * shape.from + start..][..depth]);
                }
            }
            for channel in (0..depth).step_by(LANES) {
                let width = LANES.min(depth - channel);
                // So many pixels are read side by side that the machine does not see what comes next.
                for row in &pixels[..R::INPUTS] {
                    for pixel in row[..C::INPUTS].iter().flatten() {
                        prefetch(pixel.as_ptr().wrapping_add(channel + AHEAD));
                    }
                }
                let mut half = [[S::splat(0.0); SIDE]; SIDE];
                unrolled!(i in 0..C::INPUTS, at most 8, {
                    let mut line = [S::splat(0.0); SIDE];
                    unrolled!(j in 0..R::INPUTS, at most 8, {
                        if let Some(pixel) = pixels[j][i] {
                            // SAFETY: `channel + width` is at most `depth`, the pixel's length.
                            line[j] = unsafe { read_vector::<S>(pixel.as_ptr().add(channel), width) };
                        }
                    });
                    unrolled!(row in 0..R::PRODUCTS, at most 8, {
                        half[row][i] = dot::<S, SIDE>(&rows[row], &line);
                    });
                });
                // The value of the first place; the others follow at the same distance.
                let out = out[tile * depth + channel..].as_mut_ptr();
                unrolled!(row in 0..R::PRODUCTS, at most 8, {
                    unrolled!(column in 0..C::PRODUCTS, at most 8, {
                        let value = dot::<S, SIDE>(&columns[column], &half[row]);
                        let index = row * C::PRODUCTS + column;
                        // SAFETY: there is room for all places.
                        unsafe { write_vector::<S>(out.add(index * place_len), value, width) };
                    });
                });
            }
        }
    }
}

/// The outputs of products, `[place][tile][channel]`, written to the tiles' pixels.
struct CollectTiles<'a, 'b, R, C> {
    cut: PhantomData<(R, C)>,
    shape: &'a ConvShape,
    products: &'a [f32],
    tiles: &'a [Corner],
    pixels: Vec<Pixels<'b>>,
    finish: Finish<'a>,
    stride: usize,
}

impl<R: Lines, C: Lines> Work for CollectTiles<'_, '_, R, C> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { cut: _, shape, products, tiles, pixels, finish, stride } = self;
        let (rows, columns) = const { (&R::OUTPUT, &C::OUTPUT) };
        let place_len = apart(tiles.len() * shape.to);
        let all = R::PRODUCTS * C::PRODUCTS;
        assert!(products.len() >= (all - 1) * place_len + tiles.len() * shape.to, "products of all places");
        let [least, most] = finish.activation.limits().map(S::splat);
        for (tile, (corner, mut pixels)) in tiles.iter().zip(pixels).enumerate() {
            let adds: [[Option<&[f32]>; SIDE]; SIDE] = pixels_of::<R, C, _>(|steps| {
                let place = place(shape, corner, steps, [0; 2]);
                finish.add.zip(place).map(|(add, place)| &add[place * stride..][..shape.to])
            });
            for channel in (0..shape.to).step_by(LANES) {
                let width = LANES.min(shape.to - channel);
                // The product of the first place; the others follow at the same distance.
                let products = products[tile * shape.to + channel..].as_ptr();
                let mut half = [[S::splat(0.0); SIDE]; SIDE];
                unrolled!(i in 0..C::PRODUCTS, at most 8, {
                    let mut line = [S::splat(0.0); SIDE];
                    unrolled!(j in 0..R::PRODUCTS, at most 8, {
                        let index = j * C::PRODUCTS + i;
                        // SAFETY: there are products of all places.
                        line[j] = unsafe { read_vector::<S>(products.add(index * place_len), width) };
                    });
                    unrolled!(row in 0..R::OUTPUTS, at most 8, {
                        half[row][i] = dot::<S, SIDE>(&rows[row], &line);
                    });
                });
                let bias = finish.bias.map_or(S::splat(0.0), |bias| S::load(&bias[channel / LANES]));
                unrolled!(row in 0..R::OUTPUTS, at most 8, {
                    unrolled!(column in 0..C::OUTPUTS, at most 8, {
                        if let Some(pixel) = &mut pixels[row][column] {
                            let mut sum = S::add(dot::<S, SIDE>(&columns[column], &half[row]), bias);
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

    fn shape([height, width]: [usize; 2], [from, to]: [usize; 2], dilation: usize) -> ConvShape {
        let (padding, padding_after) = (dilation, dilation);
        ConvShape {
            batch: 2,
            from,
            to,
            height,
            width,
            kernel: 3,
            stride: 1,
            dilation,
            padding,
            padding_after,
            groups: 1,
        }
    }

    fn values(len: usize, step: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * step) % 1013) as f32 / 1013.0 - 0.5).collect()
    }

    #[test]
    fn weights_that_are_transformed_in_use_give_the_same_bits() {
        // Other tests change what `fast` is.
        let _turn = TURN.lock();
        for (from, to, dilation) in [(70, 37, 1), (1030, 16, 1), (33, 100, 2)] {
            let shape = shape([13, 11], [from, to], dilation);
            let (input, weight) = (values(shape.input_len(), 331), values(shape.weight_len(), 577));
            let run = |memory: [usize; 2]| {
                let conv = Winograd::of_parts(&grid::parts(&shape), &shape, &weight, memory);
                assert_eq!(conv.taps.is_empty(), memory[0] > 0);
                let mut out = vec![0.0; shape.output_len()];
                conv.run(&shape, &input, Finish::default(), &mut out, to);
                out
            };
            let kept = run([usize::MAX, 0]);
            assert!(kept.iter().any(|value| value.abs() > 0.1));
            assert!(run([0, usize::MAX]) == kept, "all panels at a time");
            assert!(run([0, 0]) == kept, "two panels at a time");
        }
    }

    #[test]
    fn short_phases_are_convolved_whatever_their_lengths() {
        let _turn = TURN.lock();
        // Phases of three and two rows and columns, of two and one, and of two rows with one column.
        for (sides, count) in [([13, 16], 4), ([13, 11], 4), ([11, 13], 4), ([10, 9], 4), ([12, 5], 1)] {
            let shape = shape(sides, [40, 20], 6);
            let parts = grid::parts_of_short_phases(&shape);
            assert_eq!(parts.len(), count, "{parts:?}");
            let (input, weight) = (values(shape.input_len(), 331), values(shape.weight_len(), 577));
            // The reference takes channel by channel.
            let plane = shape.in_plane();
            let planes: Vec<f32> = (0..input.len())
                .map(|i| {
                    let (image, channel, pixel) = (i / (plane * 40), i / plane % 40, i % plane);
                    input[(image * plane + pixel) * 40 + channel]
                })
                .collect();
            let expected = crate::reference::conv_forward(&shape, &planes, &weight);
            for memory in [[usize::MAX, 0], [0, 0]] {
                let conv = Winograd::of_parts(&parts, &shape, &weight, memory);
                assert!(conv.products() < grid::products(&shape, &[[Cut::All(2); 2]]));
                let mut out = vec![f32::NAN; shape.output_len()];
                conv.run(&shape, &input, Finish::default(), &mut out, 20);
                for (i, value) in out.iter().enumerate() {
                    let (image, pixel, channel) = (i / (plane * 20), i / 20 % plane, i % 20);
                    let right = expected[(image * 20 + channel) * plane + pixel];
                    assert!((f64::from(*value) - right).abs() < 1e-5, "{value} {right} at {sides:?}");
                }
            }
        }
        assert!(
            grid::parts_of_short_phases(&shape([13, 25], [40, 20], 6)).is_empty(),
            "a phase of five columns"
        );
    }
}
