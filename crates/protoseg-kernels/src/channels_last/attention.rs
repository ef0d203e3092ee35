//! Attention of vision transformers.
//!
//! The whole matrix of weights is never held: a task takes some queries and, head by head, multiplies them with all
//! keys, and the softmax of that with all values, while both stay in the caches.

use rayon::prelude::*;

use super::{
    PackedConv,
    joined::product,
    panels::{Block, Finish, Line, PanelsView, as_lines, multiply_block, pack_columns, pack_rows, share},
    token_layers::TokenLayers,
};
use crate::{
    scratch::Scratch,
    simd::{LANES, Simd, Work, fast, unrolled},
};

/// Queries whose weights are there at a time: they stay in the second cache.
const QUERIES: usize = 48;
/// Most queries of one task. With 48, keys and values are fetched again for each of them: 1,370 tokens of 6 heads took
/// 6.85 ms instead of 6.72 on a CPU with 1 MiB of second cache.
const TASK: usize = 192;

/// Vectors that a pass over a row takes at a time, so that none waits for the one before.
const SIDE_BY_SIDE: usize = 4;

/// Rotations of the queries and keys of patches, which tell a head where a patch is.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotations {
    /// Tokens before the patches, which are not rotated.
    pub prefix: usize,
    /// `[patches, channels of a head]`.
    pub cos: Vec<f32>,
    /// Of the same shape.
    pub sin: Vec<f32>,
}

/// Attention among all tokens, and the product that may follow it.
#[derive(Clone, Debug)]
pub struct Attention {
    heads: usize,
    /// Of all heads.
    channels: usize,
    rotations: Option<Rotations>,
    projection: Option<PackedConv>,
}

impl Attention {
    /// Of tokens with so many channels, which the heads share.
    pub fn new(heads: usize, channels: usize, rotations: Option<Rotations>) -> Self {
        assert_eq!(channels % heads.max(1), 0, "{channels} channels of {heads} heads");
        Self { heads, channels, rotations, projection: None }
    }

    /// The same with a product of the result, if it takes every token by itself and there is none yet.
    pub fn and_then(&self, projection: &PackedConv) -> Option<Self> {
        let fits = self.projection.is_none()
            && TokenLayers::takes(projection)
            && projection.shape.from == self.channels;
        fits.then(|| Self { projection: Some(projection.clone()), ..self.clone() })
    }

    /// The product of the result, if there is one.
    pub fn projection(&self) -> Option<&PackedConv> {
        self.projection.as_ref()
    }

    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Of all heads.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// `qkv` holds the queries, keys and values of each token, `[tokens, 3 * channels]`; channels of a head lie together.
    /// `out` is `[tokens, channels]`, or what the product makes of that; `add` is added to it.
    pub fn run(&self, qkv: &[f32], add: Option<&[f32]>, out: &mut [f32]) {
        let &Self { heads, channels, .. } = self;
        let (wide, depth) = (3 * channels, channels / heads);
        let tokens = qkv.len() / wide;
        let to = self.projection.as_ref().map_or(channels, |projection| projection.shape.to);
        assert_eq!((qkv.len(), out.len()), (tokens * wide, tokens * to));
        assert!(add.is_none() || self.projection.is_some(), "a product adds");
        let mut rotated = Scratch::new(if self.rotations.is_some() { qkv.len() } else { 0 });
        let qkv = match &self.rotations {
            Some(rotations) => {
                rotate(qkv, heads, depth, rotations, &mut rotated);
                &rotated[..]
            }
            None => qkv,
        };
        let each = Sides::lines(tokens, depth);
        let mut sides = Scratch::new(heads * each * LANES);
        let sides = &mut as_lines(&mut sides)[..heads * each];
        sides.par_chunks_exact_mut(each).enumerate().for_each(|(head, lines)| {
            let [keys, values] = [1, 2].map(|part| &qkv[part * channels + head * depth..]);
            Sides::pack(keys, values, [wide, depth, tokens], lines);
        });
        let queries = share(tokens, TASK);
        out.par_chunks_mut((queries * to).max(1)).enumerate().for_each(|(task, out)| {
            let qkv = &qkv[task * queries * wide..];
            let Some(projection) = &self.projection else {
                return self.attend(qkv, sides, tokens, out);
            };
            let mut attended = Scratch::new(out.len() / to * channels);
            self.attend(qkv, sides, tokens, &mut attended);
            product(projection, &attended, add.map(|add| &add[task * queries * to..]), out, to);
        });
    }

    /// One thread's queries, as many as there is room for in `out`, head by head: its keys and values then stay in the
    /// caches from block to block.
    fn attend(&self, qkv: &[f32], sides: &[Line], tokens: usize, out: &mut [f32]) {
        let &Self { heads, channels, .. } = self;
        let (wide, depth) = (3 * channels, channels / heads);
        let stride = tokens.next_multiple_of(LANES);
        let most = QUERIES.min(out.len() / channels);
        let mut weights = Scratch::new(most * stride);
        let mut sums = [0.0; QUERIES];
        for (head, lines) in sides.chunks_exact(Sides::lines(tokens, depth)).enumerate() {
            let Sides { keys, values } = Sides::of(lines, tokens, depth);
            for (out, qkv) in out.chunks_mut(most * channels).zip(qkv.chunks(most * wide)) {
                let rows = out.len() / channels;
                multiply_block(Block {
                    left: &qkv[head * depth..],
                    left_stride: wide,
                    rows,
                    right: keys,
                    from: 0,
                    depth,
                    accumulate: false,
                    finish: Finish::default(),
                    out: &mut weights,
                    stride,
                });
                let (weights, sums) = (&mut weights[..rows * stride], &mut sums[..rows]);
                fast(Softmax { weights, tokens, stride, sums });
                multiply_block(Block {
                    left: weights,
                    left_stride: stride,
                    rows,
                    right: values,
                    from: 0,
                    depth: tokens,
                    accumulate: false,
                    finish: Finish::default(),
                    out: &mut out[head * depth..],
                    stride: channels,
                });
                for (token, sum) in out.chunks_exact_mut(channels).zip(sums) {
                    token[head * depth..][..depth].iter_mut().for_each(|value| *value *= *sum);
                }
            }
        }
    }
}

/// The right sides of a head's two products.
struct Sides<'a> {
    /// `[channels, tokens]`, scaled so that weights are powers of two, which are cheaper than those of e.
    keys: PanelsView<'a>,
    /// `[tokens, channels]`
    values: PanelsView<'a>,
}

impl<'a> Sides<'a> {
    /// How many lines both take for heads of `depth` channels.
    fn lines(tokens: usize, depth: usize) -> usize {
        depth * tokens.div_ceil(LANES) + tokens * depth.div_ceil(LANES)
    }

    /// Brings keys and values into their form. Those of a token are `wide` apart.
    fn pack(keys: &[f32], values: &[f32], [wide, depth, tokens]: [usize; 3], lines: &mut [Line]) {
        let (to_keys, to_values) = lines.split_at_mut(depth * tokens.div_ceil(LANES));
        let scale = std::f32::consts::LOG2_E / (depth as f32).sqrt();
        pack_columns(keys, wide, depth, scale, to_keys);
        pack_rows(values, wide, depth, to_values);
    }

    fn of(lines: &'a [Line], tokens: usize, depth: usize) -> Self {
        let (keys, values) = lines.split_at(depth * tokens.div_ceil(LANES));
        let (keys, values) =
            (PanelsView::of_lines(keys, depth, tokens), PanelsView::of_lines(values, tokens, depth));
        Self { keys, values }
    }
}

/// Queries and keys rotated where they are of patches, everything else as it is.
fn rotate(qkv: &[f32], heads: usize, depth: usize, rotations: &Rotations, out: &mut [f32]) {
    let (channels, half) = (heads * depth, depth / 2);
    assert_eq!(rotations.cos.len(), rotations.sin.len());
    out.par_chunks_mut(3 * channels).zip(qkv.par_chunks(3 * channels)).enumerate().for_each(
        |(token, (out, from))| {
            out.copy_from_slice(from);
            let Some(patch) = token.checked_sub(rotations.prefix) else { return };
            let cos = &rotations.cos[patch * depth..][..depth];
            let sin = &rotations.sin[patch * depth..][..depth];
            for (out, from) in out.chunks_exact_mut(depth).zip(from.chunks_exact(depth)).take(2 * heads) {
                for channel in 0..depth {
                    let other = match channel < half {
                        true => -from[channel + half],
                        false => from[channel - half],
                    };
                    out[channel] = from[channel] * cos[channel] + other * sin[channel];
                }
            }
        },
    );
}

/// `2^(weight - the largest of its row)`, and one over the sum of each row.
struct Softmax<'a> {
    weights: &'a mut [f32],
    tokens: usize,
    stride: usize,
    sums: &'a mut [f32],
}

impl Work for Softmax<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (row, sum) in self.weights.chunks_exact_mut(self.stride).zip(self.sums) {
            let (lines, rest) = row[..self.tokens].as_chunks_mut::<LANES>();
            let (fours, ones) = lines.as_chunks_mut::<SIDE_BY_SIDE>();
            let mut most = [S::splat(f32::NEG_INFINITY); SIDE_BY_SIDE];
            for four in &*fours {
                unrolled!(i in 0..SIDE_BY_SIDE, at most 5, { most[i] = S::max(S::load(&four[i]), most[i]) });
            }
            for line in &*ones {
                most[0] = S::max(S::load(line), most[0]);
            }
            let most = of_lanes::<S>(S::max(S::max(most[0], most[1]), S::max(most[2], most[3])));
            let less = S::splat(-most.iter().chain(&*rest).copied().fold(f32::NEG_INFINITY, f32::max));
            let mut sums = [S::splat(0.0); SIDE_BY_SIDE];
            for four in fours {
                unrolled!(i in 0..SIDE_BY_SIDE, at most 5, {
                    let weight = S::power_of_two(S::add(S::load(&four[i]), less));
                    sums[i] = S::add(sums[i], weight);
                    S::store(weight, &mut four[i]);
                });
            }
            for line in ones {
                let weight = S::power_of_two(S::add(S::load(line), less));
                sums[0] = S::add(sums[0], weight);
                S::store(weight, line);
            }
            let last = of_lanes::<S>(S::power_of_two(S::add(S::load_first(rest, rest.len()), less)));
            rest.copy_from_slice(&last[..rest.len()]);
            let sums = of_lanes::<S>(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
            let whole: f32 = sums.iter().chain(&*rest).sum();
            *sum = 1.0 / whole;
        }
    }
}

#[inline(always)]
fn of_lanes<S: Simd>(vector: S::Vector) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    S::store(vector, &mut lanes);
    lanes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::channels_last::tokens::tests::{assert_near, values};

    /// Attention by its definition, in double precision.
    fn plain(qkv: &[f32], heads: usize, channels: usize) -> Vec<f64> {
        let (wide, depth) = (3 * channels, channels / heads);
        let at = |token: usize, part: usize, channel: usize| {
            f64::from(qkv[token * wide + part * channels + channel])
        };
        let tokens = qkv.len() / wide;
        let mut out = vec![0.0; tokens * channels];
        for head in 0..heads {
            let of = head * depth..(head + 1) * depth;
            for query in 0..tokens {
                let score = |key: usize| -> f64 {
                    of.clone().map(|channel| at(query, 0, channel) * at(key, 1, channel)).sum::<f64>()
                        / (depth as f64).sqrt()
                };
                let weights: Vec<f64> = (0..tokens).map(|key| score(key).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for channel in of.clone() {
                    let mean: f64 =
                        weights.iter().enumerate().map(|(key, weight)| weight * at(key, 2, channel)).sum();
                    out[query * channels + channel] = mean / sum;
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn attention_is_its_definition(tokens in 1usize..120, heads in 1usize..4, eighths in 1usize..9, seed: u64) {
            let channels = heads * 8 * eighths;
            let qkv = values(tokens * 3 * channels, seed);
            let expected = plain(&qkv, heads, channels);
            let mut out = vec![0.0; tokens * channels];
            Attention::new(heads, channels, None).run(&qkv, None, &mut out);
            assert_near(&out, &expected, 1e-5);
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let qkv: Vec<f32> = values(20 * 3 * 16, 3).into_iter().map(|value| 100.0 * value).collect();
        let mut out = vec![0.0; 20 * 16];
        Attention::new(2, 16, None).run(&qkv, None, &mut out);
        assert!(out.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn a_rotation_by_a_right_angle_exchanges_the_halves() {
        // One head of two channels, one token before two patches; the first patch is turned, the second is not.
        let qkv = values(3 * 6, 5);
        let rotations = Rotations { prefix: 1, cos: vec![0.0, 0.0, 1.0, 1.0], sin: vec![1.0, 1.0, 0.0, 0.0] };
        let mut out = vec![0.0; qkv.len()];
        rotate(&qkv, 1, 2, &rotations, &mut out);
        assert_eq!(out[..6], qkv[..6], "a token before the patches stays");
        assert_eq!(out[12..], qkv[12..], "an angle of nothing changes nothing");
        let patch = &qkv[6..12];
        assert_eq!(out[6..12], [-patch[1], patch[0], -patch[3], patch[2], patch[4], patch[5]], "values stay");
    }
}
