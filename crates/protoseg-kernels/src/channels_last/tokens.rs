//! Steps of vision transformers on tokens, `[tokens, channels]`: normalisation, GELU, gated units and attention.
//!
//! Attention never holds the whole matrix of weights: a task takes some queries of one head, multiplies them with all
//! keys, and the softmax of that with all values, while both stay in the caches.

use rayon::prelude::*;

use super::panels::{Block, Finish, Panels, multiply_block};
use crate::{
    scratch::Scratch,
    simd::{LANES, Simd, Work, fast},
};

/// Values that one task takes.
const PART: usize = 1 << 14;
/// Queries of one task: their weights stay in the second cache.
const QUERIES: usize = 48;

/// Every token with mean 0 and deviation 1, then scaled and shifted by channel.
pub fn layer_norm(tokens: &[f32], weight: &[f32], bias: &[f32], epsilon: f32, out: &mut [f32]) {
    let channels = weight.len();
    let rows = (PART / channels.max(1)).max(1);
    out.par_chunks_mut(rows * channels)
        .zip(tokens.par_chunks(rows * channels))
        .for_each(|(out, tokens)| fast(LayerNorm { tokens, weight, bias, epsilon, out }));
}

struct LayerNorm<'a> {
    tokens: &'a [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    epsilon: f32,
    out: &'a mut [f32],
}

impl Work for LayerNorm<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let channels = self.weight.len();
        for (token, out) in self.tokens.chunks_exact(channels).zip(self.out.chunks_exact_mut(channels)) {
            let mean = sum::<S>(token, |value| value) / channels as f32;
            let variance = sum::<S>(token, |value| (value - mean) * (value - mean)) / channels as f32;
            let scale = 1.0 / (variance + self.epsilon).sqrt();
            for (((out, value), weight), bias) in out.iter_mut().zip(token).zip(self.weight).zip(self.bias) {
                *out = S::mul_add((value - mean) * scale, *weight, *bias);
            }
        }
    }
}

/// The sum of `of` each value, in as many parts as a vector has lanes.
#[inline(always)]
fn sum<S: Simd>(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (lines, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for line in lines {
        for (sum, value) in sums.iter_mut().zip(line) {
            *sum += of(*value);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|value| of(*value)).sum::<f32>()
}

/// `x` times the share of a normal distribution below it.
pub fn gelu(values: &[f32], out: &mut [f32]) {
    out.par_chunks_mut(PART)
        .zip(values.par_chunks(PART))
        .for_each(|(out, values)| fast(Gelu { values, out }));
}

struct Gelu<'a> {
    values: &'a [f32],
    out: &'a mut [f32],
}

impl Work for Gelu<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (out, value) in self.out.iter_mut().zip(self.values) {
            *out = 0.5 * value * (1.0 + erf::<S>(value * std::f32::consts::FRAC_1_SQRT_2));
        }
    }
}

/// Abramowitz and Stegun 7.1.26, off by at most 1.5e-7.
#[inline(always)]
fn erf<S: Simd>(x: f32) -> f32 {
    let t = 1.0 / S::mul_add(0.327_591_1, x.abs(), 1.0);
    let powers = [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6];
    let sum = powers.iter().fold(1.061_405_4, |sum, &next| S::mul_add(sum, t, next));
    let rest = sum * t * exp::<S>(-x * x);
    (1.0 - rest).copysign(x)
}

/// Added to a number, this leaves its nearest whole one in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// `e^x` with about 1e-7 relative error, from e^-87 to e^88. Polynomial of Cephes.
#[inline(always)]
fn exp<S: Simd>(x: f32) -> f32 {
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let shifted = S::mul_add(x, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    // ln 2 in two parts, of which the first has few bits.
    let rest = S::mul_add(whole, 2.121_944_4e-4, S::mul_add(whole, -0.693_359_4, x));
    let powers = [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let sum = powers.iter().fold(1.987_569_1e-4, |sum, &next| S::mul_add(sum, rest, next));
    let value = S::mul_add(sum * rest, rest, rest) + 1.0;
    value * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

/// `2^x` for x of at most 0, with about 2e-7 relative error; below 2^-125, that.
#[inline(always)]
fn power_of_two<S: Simd>(x: f32) -> f32 {
    let x = if x > -125.0 { x } else { -125.0 };
    let shifted = x + ROUND;
    let rest = x - (shifted - ROUND);
    // Of least relative error from -1/2 to 1/2, by Lawson's iteration.
    let powers = [9.675_542e-3, 5.550_713e-2, 0.240_221_2, 0.693_146_94, 1.000_000_1];
    let value = powers.iter().fold(1.327_647_2e-3, |sum, &next| S::mul_add(sum, rest, next));
    // The whole part goes to the exponent.
    f32::from_bits(value.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// `silu(first half) * second half` of every token, `[tokens, 2 * channels]` -> `[tokens, channels]`.
pub fn gated(values: &[f32], channels: usize, out: &mut [f32]) {
    let rows = (PART / channels.max(1)).max(1);
    out.par_chunks_mut(rows * channels)
        .zip(values.par_chunks(2 * rows * channels))
        .for_each(|(out, values)| fast(Gated { values, channels, out }));
}

struct Gated<'a> {
    values: &'a [f32],
    channels: usize,
    out: &'a mut [f32],
}

impl Work for Gated<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (out, token) in
            self.out.chunks_exact_mut(self.channels).zip(self.values.chunks_exact(2 * self.channels))
        {
            let (gate, value) = token.split_at(self.channels);
            for ((out, gate), value) in out.iter_mut().zip(gate).zip(value) {
                *out = gate / (1.0 + exp::<S>(-gate)) * value;
            }
        }
    }
}

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

/// Attention among all tokens. `qkv` holds the queries, keys and values of each token, `[tokens, 3 * channels]`; channels
/// of a head lie together. `out` is `[tokens, channels]`.
pub fn attention(qkv: &[f32], heads: usize, channels: usize, rotations: Option<&Rotations>, out: &mut [f32]) {
    assert_eq!(channels % heads.max(1), 0, "{channels} channels of {heads} heads");
    let (wide, depth) = (3 * channels, channels / heads);
    let tokens = qkv.len() / wide;
    assert_eq!((qkv.len(), out.len()), (tokens * wide, tokens * channels));
    let mut rotated = Scratch::new(if rotations.is_some() { qkv.len() } else { 0 });
    let qkv = match rotations {
        Some(rotations) => {
            rotate(qkv, heads, depth, rotations, &mut rotated);
            &rotated[..]
        }
        None => qkv,
    };
    // Weights are powers of two, which are cheaper than those of e.
    let scale = std::f32::consts::LOG2_E / (depth as f32).sqrt();
    let sides: Vec<[Panels; 2]> = (0..heads)
        .into_par_iter()
        .map(|head| {
            let [keys, values] = [1, 2].map(|part| &qkv[part * channels + head * depth..]);
            [
                Panels::of_columns(keys, wide, depth, tokens, scale),
                Panels::of_rows(values, wide, tokens, depth),
            ]
        })
        .collect();
    // All heads of some queries by one task: their outputs lie together.
    out.par_chunks_mut(QUERIES * channels).enumerate().for_each(|(block, out)| {
        let (first, rows) = (block * QUERIES, out.len() / channels);
        let stride = tokens.next_multiple_of(LANES);
        let mut weights = Scratch::new(rows * stride);
        let mut sums = [0.0; QUERIES];
        for (head, [keys, values]) in sides.iter().enumerate() {
            multiply_block(Block {
                left: &qkv[first * wide + head * depth..],
                left_stride: wide,
                rows,
                right: keys.view(),
                from: 0,
                depth,
                accumulate: false,
                finish: Finish::default(),
                out: &mut weights,
                stride,
            });
            fast(Softmax { weights: &mut weights, tokens, stride, sums: &mut sums[..rows] });
            multiply_block(Block {
                left: &weights,
                left_stride: stride,
                rows,
                right: values.view(),
                from: 0,
                depth: tokens,
                accumulate: false,
                finish: Finish::default(),
                out: &mut out[head * depth..],
                stride: channels,
            });
            for (token, sum) in out.chunks_exact_mut(channels).zip(&sums) {
                token[head * depth..][..depth].iter_mut().for_each(|value| *value *= sum);
            }
        }
    });
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
            let row = &mut row[..self.tokens];
            let (lines, rest) = row.as_chunks_mut::<LANES>();
            let mut most = [f32::NEG_INFINITY; LANES];
            for line in &*lines {
                most.iter_mut()
                    .zip(line)
                    .for_each(|(most, value)| *most = if *value > *most { *value } else { *most });
            }
            let most = most.iter().chain(&*rest).copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sums = [0.0f32; LANES];
            for line in lines {
                for (value, sum) in line.iter_mut().zip(&mut sums) {
                    *value = power_of_two::<S>(*value - most);
                    *sum += *value;
                }
            }
            let mut whole: f32 = sums.iter().sum();
            for value in rest {
                *value = power_of_two::<S>(*value - most);
                whole += *value;
            }
            *sum = 1.0 / whole;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::simd::pretend::{Path, with};

    fn values(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| 2.0 * next()).collect()
    }

    fn assert_near(got: &[f32], expected: &[f64], within: f64) {
        assert_eq!(got.len(), expected.len());
        for (place, (&got, &expected)) in got.iter().zip(expected).enumerate() {
            assert!((f64::from(got) - expected).abs() <= within, "{place}: {got}, not {expected}");
        }
    }

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
            attention(&qkv, heads, channels, None, &mut out);
            assert_near(&out, &expected, 1e-5);
        }

        #[test]
        fn tokens_are_normalised(tokens in 1usize..40, channels in 1usize..100, seed: u64) {
            let from = values(tokens * channels, seed);
            let (weight, bias) = (values(channels, seed ^ 1), values(channels, seed ^ 2));
            let mut out = vec![0.0; from.len()];
            layer_norm(&from, &weight, &bias, 1e-6, &mut out);
            let expected: Vec<f64> = from
                .chunks(channels)
                .flat_map(|token| {
                    let token: Vec<f64> = token.iter().map(|&value| f64::from(value)).collect();
                    let mean = token.iter().sum::<f64>() / channels as f64;
                    let variance = token.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / channels as f64;
                    let unit = move |value: f64| (value - mean) / (variance + 1e-6).sqrt();
                    token.into_iter().map(unit).zip(&weight).zip(&bias)
                        .map(|((value, &weight), &bias)| value * f64::from(weight) + f64::from(bias))
                        .collect::<Vec<_>>()
                })
                .collect();
            // One channel alone is its own mean, and rounding is divided by the root of epsilon.
            assert_near(&out, &expected, if channels < 3 { 2e-3 } else { 2e-5 });
        }
    }

    #[test]
    fn functions_of_one_value_are_exact_enough() {
        let from: Vec<f32> = (-1200..=1200).map(|at| at as f32 / 100.0).collect();
        let of_each = |of: &dyn Fn(f64) -> f64| from.iter().map(|&x| of(f64::from(x))).collect::<Vec<_>>();
        // The share of a normal distribution below x, by Simpson's rule.
        let below = |x: f64| {
            let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let step = x / 2000.0;
            let parts = (0..1000).map(|at| {
                let at = 2.0 * step * f64::from(at);
                density(at) + 4.0 * density(at + step) + density(at + 2.0 * step)
            });
            0.5 + parts.sum::<f64>() * step / 3.0
        };
        let (normal, silu) = (of_each(&|x| x * below(x)), of_each(&|x| 1.5 * x / (1.0 + (-x).exp())));
        let two: Vec<f32> = from.iter().flat_map(|&gate| [gate, 1.5]).collect();
        let check = || {
            let mut out = vec![0.0; from.len()];
            gelu(&from, &mut out);
            assert_near(&out, &normal, 2e-6);
            gated(&two, 1, &mut out);
            assert_near(&out, &silu, 4e-6);
        };
        check();
        with(Path::Portable, check);
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let qkv: Vec<f32> = values(20 * 3 * 16, 3).into_iter().map(|value| 100.0 * value).collect();
        let mut out = vec![0.0; 20 * 16];
        attention(&qkv, 2, 16, None, &mut out);
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
