//! Maps of several stages against the rows of classes, without joining the maps.
//!
//! A joined pixel ([`join_stages`](super::join_stages)) is one part of each stage, and the coarse parts are resized
//! bilinearly. Both a product with a row and resizing are linear, so the product may come first: coarse maps are
//! multiplied on their own grids, and the products are resized. For EfficientNet-Lite0's 40, 112 and 320 channels at
//! strides 8, 16 and 32, that is 88 instead of 472 multiplications per pixel and row.

use rayon::prelude::*;

use super::{
    panels::{Block, Finish, LANES, Panels, Products, Rounded, multiply},
    stages::{Place, TINY, places, square_sum},
};
use crate::{
    Precision,
    simd::{Simd, Work, fast, fast_pairs},
};

/// Rows of classes, cut into the channels of each stage.
#[derive(Clone, Debug)]
pub struct StageRows {
    /// `[channels, rows]` of each stage, and how much each of its channels counts.
    stages: Vec<(Panels, Vec<f32>)>,
    /// Number of rows.
    count: usize,
    /// Where the rows of each class end.
    ends: Vec<usize>,
    scale: f32,
}

impl StageRows {
    /// `rows` is `[rows, dim]`, each of unit length; the rows of class c end before `ends[c]`, where those of the next
    /// begin. `channels` are those of the stages, finest first, and `weights` say how much each of the `dim` counts in a
    /// pixel. Cosines are multiplied by `scale`.
    pub fn new(rows: &[f32], channels: &[usize], weights: &[f32], ends: &[usize], scale: f32) -> Self {
        let dim: usize = channels.iter().sum();
        assert_eq!(weights.len(), dim, "a weight for each of {dim} channels");
        let count = rows.len() / dim.max(1);
        assert!(ends.last().is_none_or(|&last| last <= count), "classes end at {ends:?}, of {count} rows");
        let mut first = 0;
        let stages = channels.iter().map(|&channels| {
            let start = first;
            first += channels;
            let panels = Panels::new(channels, count, |channel, row| rows[row * dim + start + channel]);
            (panels, weights[start..first].to_vec())
        });
        Self { stages: stages.collect(), count, ends: ends.to_vec(), scale }
    }

    /// The same with this precision.
    pub fn with_precision(self, precision: Precision) -> Self {
        self.with_products(|panels| Products::of(precision, panels.inner, panels.outer))
    }

    fn with_products(self, products: impl Fn(&Panels) -> Products) -> Self {
        let stage = |(panels, weights): (Panels, Vec<f32>)| {
            let products = products(&panels);
            (panels.with_products(products), weights)
        };
        Self { stages: self.stages.into_iter().map(stage).collect(), ..self }
    }

    /// The largest cosine of each joined pixel with the rows of each class, times the scale, on the grid of the first map:
    /// `[pixels, classes]`. Maps are `[height, width, channels]`, finest first. A class without rows scores as a cosine of
    /// -1.
    pub fn scores(&self, maps: &[(&[f32], [usize; 3])]) -> Vec<f32> {
        assert_eq!(maps.len(), self.stages.len(), "a map of each stage");
        let (Some((&(fine, [height, width, _]), coarse)), Some((own, others))) =
            (maps.split_first(), self.stages.split_first())
        else {
            return Vec::new();
        };
        let coarse: Vec<Coarse> = coarse
            .iter()
            .zip(others)
            .map(|(&(map, shape), (panels, weights))| {
                Coarse::new(map, shape, [height, width], panels, weights)
            })
            .collect();
        let classes = self.ends.len();
        let mut scores = vec![0.0; height * width * classes];
        let lines = scores.par_chunks_exact_mut((width * classes).max(1)).enumerate();
        lines.for_each_init(Buffers::default, |buffers, (y, scores)| {
            let fine = &fine[y * width * own.0.inner..][..width * own.0.inner];
            if own.0.products() == Products::Plain {
                fast(Line::<false> { rows: self, fine, coarse: &coarse, y, width, buffers, scores });
            } else {
                fast_pairs(Line::<true> { rows: self, fine, coarse: &coarse, y, width, buffers, scores });
            }
        });
        scores
    }
}

/// Every pixel of `map` at unit length, its channels then multiplied by `weights`.
#[inline(always)]
fn weigh(map: &[f32], weights: &[f32], out: &mut [f32]) {
    let channels = weights.len().max(1);
    for (pixel, out) in map.chunks_exact(channels).zip(out.chunks_exact_mut(channels)) {
        let scale = 1.0 / square_sum(pixel).max(TINY).sqrt();
        out.iter_mut()
            .zip(pixel)
            .zip(weights)
            .for_each(|((out, value), weight)| *out = value * scale * weight);
    }
}

/// A stage that is resized: its pixels, their products with all rows, and where the pixels of the finest lie on it.
struct Coarse {
    /// `[height, width, channels]`
    pixels: Vec<f32>,
    channels: usize,
    /// `[height, width, rows]`
    products: Vec<f32>,
    width: usize,
    rows: Vec<Place>,
    columns: Vec<Place>,
}

impl Coarse {
    fn new(
        map: &[f32],
        [height, width, channels]: [usize; 3],
        to: [usize; 2],
        panels: &Panels,
        weights: &[f32],
    ) -> Self {
        assert_eq!(map.len(), height * width * channels, "a map of {height} x {width} x {channels}");
        let mut pixels = vec![0.0; map.len()];
        weigh(map, weights, &mut pixels);
        let mut products = vec![0.0; height * width * panels.outer];
        multiply(&pixels, panels, Finish::default(), &mut products, panels.outer);
        let (rows, columns) = (places(height, to[0]), places(width, to[1]));
        Self { pixels, channels, products, width, rows, columns }
    }
}

/// What a line is computed in.
#[derive(Default)]
struct Buffers {
    /// `[width, channels]` of the finest stage.
    fine: Vec<f32>,
    /// `[width, rows]`
    products: Vec<f32>,
    /// Of one stage, between two of its lines: `[width of the stage, channels]`, then `[width of the stage, rows]`.
    between: Vec<f32>,
    /// Squared norms of the joined pixels.
    squares: Vec<f32>,
}

/// A line of the finest grid; the rows are rounded or not.
struct Line<'a, const ROUNDED: bool> {
    rows: &'a StageRows,
    /// `[width, channels]`
    fine: &'a [f32],
    coarse: &'a [Coarse],
    y: usize,
    width: usize,
    buffers: &'a mut Buffers,
    /// `[width, classes]`
    scores: &'a mut [f32],
}

impl<const ROUNDED: bool> Work for Line<'_, ROUNDED> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { rows, fine, coarse, y, width, buffers, scores } = self;
        let (panels, weights) = &rows.stages[0];
        let (channels, count) = (panels.inner, rows.count);
        let Buffers { fine: own, products, between, squares } = buffers;
        own.resize(width * channels, 0.0);
        weigh(fine, weights, own);
        squares.clear();
        squares.extend(own.chunks_exact(channels.max(1)).map(square_sum));
        products.resize(width * count, 0.0);
        let block = Block {
            left: own,
            left_stride: channels,
            rows: width,
            right: panels.view(),
            from: 0,
            depth: channels,
            accumulate: false,
            finish: Finish::default(),
            out: products,
            stride: count,
        };
        if ROUNDED {
            Rounded(block).run::<S>();
        } else {
            block.run::<S>();
        }
        for stage in coarse {
            blend_rows::<S>(&stage.pixels, stage.width * stage.channels, stage.rows[y], between);
            for (square, &(left, right, along)) in squares.iter_mut().zip(&stage.columns) {
                let pixel = |x: usize| &between[x * stage.channels..][..stage.channels];
                *square += blended_square::<S>(pixel(left), pixel(right), along);
            }
            blend_rows::<S>(&stage.products, stage.width * count, stage.rows[y], between);
            for (sums, &(left, right, along)) in products.chunks_exact_mut(count.max(1)).zip(&stage.columns) {
                let pixel = |x: usize| &between[x * count..][..count];
                add_blended::<S>(pixel(left), pixel(right), along, sums);
            }
        }
        let pixels = products.chunks_exact(count.max(1)).zip(scores.chunks_exact_mut(rows.ends.len().max(1)));
        for ((products, scores), square) in pixels.zip(squares.iter()) {
            let norm = square.max(TINY).sqrt();
            let mut start = 0;
            for (score, &end) in scores.iter_mut().zip(&rows.ends) {
                *score = rows.scale * (largest::<S>(&products[start..end], -norm) / norm);
                start = end;
            }
        }
    }
}

/// The line at a place between two lines of a map.
#[inline(always)]
fn blend_rows<S: Simd>(map: &[f32], line: usize, (above, below, down): Place, out: &mut Vec<f32>) {
    out.clear();
    out.extend_from_slice(&map[above * line..][..line]);
    if down == 0.0 {
        return;
    }
    let keep = 1.0 - down;
    let below = &map[below * line..][..line];
    out.iter_mut().zip(below).for_each(|(out, &below)| *out = S::mul_add(below, down, *out * keep));
}

/// Adds the pixel at a place between two.
#[inline(always)]
fn add_blended<S: Simd>(left: &[f32], right: &[f32], along: f32, sums: &mut [f32]) {
    let keep = 1.0 - along;
    for ((sum, &left), &right) in sums.iter_mut().zip(left).zip(right) {
        *sum = S::mul_add(right, along, S::mul_add(left, keep, *sum));
    }
}

/// The squared norm of the pixel at a place between two.
#[inline(always)]
fn blended_square<S: Simd>(left: &[f32], right: &[f32], along: f32) -> f32 {
    let keep = 1.0 - along;
    let (lefts, left) = left.as_chunks::<LANES>();
    let (rights, right) = right.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (left, right) in lefts.iter().zip(rights) {
        for ((sum, &left), &right) in sums.iter_mut().zip(left).zip(right) {
            let value = S::mul_add(right, along, left * keep);
            *sum = S::mul_add(value, value, *sum);
        }
    }
    let rest = left.iter().zip(right).map(|(&left, &right)| S::mul_add(right, along, left * keep));
    sums.iter().sum::<f32>() + rest.map(|value| value * value).sum::<f32>()
}

/// At least `least`.
#[inline(always)]
fn largest<S: Simd>(values: &[f32], least: f32) -> f32 {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut best = S::splat(least);
    for block in blocks {
        best = S::max(S::load(block), best);
    }
    let mut lanes = [0.0; LANES];
    S::store(best, &mut lanes);
    lanes.iter().chain(rest).fold(least, |best, &value| if value > best { value } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        channels_last::{join_stages, unit_pixels},
        reference,
    };
    use proptest::prelude::*;

    fn noise(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + 13 * seed + 7) % 1009) as f32 / 500.0 - 1.0).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn scores_are_those_of_joined_maps(
            size in (1usize..9, 1usize..23),
            channels in prop::collection::vec(1usize..40, 1..4),
            ends in prop::collection::vec(0usize..40, 1..5),
            seed in 0usize..100,
        ) {
            let mut ends = ends;
            ends.sort_unstable();
            let (count, dim) = (ends[ends.len() - 1].max(1), channels.iter().sum::<usize>());
            let weights: Vec<f32> = noise(dim, seed + 1).iter().map(|value| 1.5 + value).collect();
            let mut rows = noise(count * dim, seed + 2);
            unit_pixels(&mut rows, dim, None);
            let shapes: Vec<[usize; 3]> = channels
                .iter()
                .enumerate()
                .map(|(stage, &channels)| [size.0.div_ceil(1 << stage), size.1.div_ceil(1 << stage), channels])
                .collect();
            let maps: Vec<Vec<f32>> =
                shapes.iter().enumerate().map(|(at, shape)| noise(shape.iter().product(), seed + at)).collect();
            let maps: Vec<(&[f32], [usize; 3])> = maps.iter().map(|map| &map[..]).zip(shapes).collect();

            let mut pixels = vec![0.0; size.0 * size.1 * dim];
            join_stages(&maps, &mut pixels);
            unit_pixels(&mut pixels, dim, Some(&weights));
            let expected = reference::best_rows(&pixels, dim, &rows, &ends, 20.0);
            let rows = StageRows::new(&rows, &channels, &weights, &ends, 20.0);
            let forms = [
                (Products::Plain, 1e-4),
                (Products::Pairs, 0.2),
                (Products::Tiles, 0.2),
            ];
            for (products, tolerance) in forms {
                let rows = rows.clone().with_products(|_| products);
                let got = rows.scores(&maps);
                prop_assert_eq!(got.len(), expected.len());
                for (got, expected) in got.iter().zip(&expected) {
                    prop_assert!((got - expected).abs() < tolerance, "{} is not {}", got, expected);
                }
            }
        }
    }

    #[test]
    fn a_picture_of_zeros_has_no_cosine() {
        let rows = StageRows::new(&[1.0, 0.0], &[1, 1], &[1.0, 1.0], &[1], 20.0);
        assert_eq!(rows.scores(&[(&[0.0], [1, 1, 1]), (&[0.0], [1, 1, 1])]), [0.0]);
    }
}
