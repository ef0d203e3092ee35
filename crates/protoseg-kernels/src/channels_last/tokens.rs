//! What vision transformers do to every token by itself, `[tokens, channels]`: normalisation, GELU and gated units.

use rayon::prelude::*;

use crate::simd::{LANES, Simd, Work, fast};

/// Values that one task takes.
const PART: usize = 1 << 14;

/// What is done to tokens of mean 0 and deviation 1.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Factors of the channels.
    pub weight: Vec<f32>,
    /// Added to the channels.
    pub bias: Vec<f32>,
    /// Added to the variance of a token.
    pub epsilon: f32,
}

impl LayerNorm {
    /// Every token with mean 0 and deviation 1, then scaled and shifted by channel.
    pub fn run(&self, tokens: &[f32], out: &mut [f32]) {
        let part = (PART / self.weight.len().max(1)).max(1) * self.weight.len();
        out.par_chunks_mut(part).zip(tokens.par_chunks(part)).for_each(|(out, tokens)| {
            fast(Normalise { norm: self, tokens, out });
        });
    }
}

/// One thread's tokens.
pub(super) struct Normalise<'a> {
    pub norm: &'a LayerNorm,
    pub tokens: &'a [f32],
    pub out: &'a mut [f32],
}

impl Work for Normalise<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let LayerNorm { weight, bias, epsilon } = self.norm;
        let channels = weight.len();
        for (token, out) in self.tokens.chunks_exact(channels).zip(self.out.chunks_exact_mut(channels)) {
            let mean = sum::<S>(token, |value| value) / channels as f32;
            let variance = sum::<S>(token, |value| (value - mean) * (value - mean)) / channels as f32;
            let scale = 1.0 / (variance + epsilon).sqrt();
            for (((out, value), weight), bias) in out.iter_mut().zip(token).zip(weight).zip(bias) {
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
    out.par_chunks_mut(PART).zip(values.par_chunks(PART)).for_each(|(out, values)| {
        out.copy_from_slice(values);
        fast(Gelu(out));
    });
}

/// GELU in place of one thread's values.
pub(super) struct Gelu<'a>(pub &'a mut [f32]);

impl Work for Gelu<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for value in self.0 {
            let half = 0.5 * *value;
            *value = S::mul_add(half, erf_of_root_half::<S>(*value), half);
        }
    }
}

/// `erf(x / sqrt(2))` within 2.8e-7; exactly 1 and -1 from 5.2 on, so that GELU ends in 0 and `x`.
///
/// The ratio to x is a polynomial in x^2, of least error by Lawson's iteration and 8e-8 larger. It takes half of the time
/// of Abramowitz and Stegun 7.1.26, which divides and needs a power of e.
#[inline(always)]
fn erf_of_root_half<S: Simd>(x: f32) -> f32 {
    const END: f32 = 5.2;
    let square = x * x;
    let square = if square < END * END { square } else { END * END };
    let at = S::mul_add(square, 2.0 / (END * END), -1.0);
    let ratio = ERF.iter().rev().skip(1).fold(ERF[ERF.len() - 1], |sum, &next| S::mul_add(sum, at, next));
    let near = if x < END { x } else { END };
    let near = if near > -END { near } else { -END };
    let erf = ratio * near;
    let erf = if erf < 1.0 { erf } else { 1.0 };
    if erf > -1.0 { erf } else { -1.0 }
}

/// Coefficients, the constant first.
const ERF: [f32; 14] = [
    0.271_900_03,
    -0.135_487_23,
    0.100_051_224,
    -0.079_863_98,
    0.063_947_93,
    -0.049_397_67,
    0.036_076_963,
    -0.025_239_127,
    0.016_731_739,
    -0.009_085_48,
    0.004_008_526_4,
    -0.002_936_297,
    0.002_378_168_3,
    -0.000_777_079_4,
];

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

/// `silu(first half) * second half` of every token, `[tokens, 2 * channels]` -> `[tokens, channels]`.
pub fn gated(values: &[f32], channels: usize, out: &mut [f32]) {
    let rows = (PART / channels.max(1)).max(1);
    out.par_chunks_mut(rows * channels)
        .zip(values.par_chunks(2 * rows * channels))
        .for_each(|(out, values)| fast(Gated { values, channels, out }));
}

/// One thread's tokens.
pub(super) struct Gated<'a> {
    pub values: &'a [f32],
    pub channels: usize,
    pub out: &'a mut [f32],
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

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::simd::pretend::{Path, with};

    pub fn values(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| 2.0 * next()).collect()
    }

    pub fn assert_near(got: &[f32], expected: &[f64], within: f64) {
        assert_eq!(got.len(), expected.len());
        for (place, (&got, &expected)) in got.iter().zip(expected).enumerate() {
            assert!((f64::from(got) - expected).abs() <= within, "{place}: {got}, not {expected}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn tokens_are_normalised(tokens in 1usize..40, channels in 1usize..100, seed: u64) {
            let from = values(tokens * channels, seed);
            let (weight, bias) = (values(channels, seed ^ 1), values(channels, seed ^ 2));
            let mut out = vec![0.0; from.len()];
            let norm = LayerNorm { weight, bias, epsilon: 1e-6 };
            norm.run(&from, &mut out);
            let expected: Vec<f64> = from
                .chunks(channels)
                .flat_map(|token| {
                    let token: Vec<f64> = token.iter().map(|&value| f64::from(value)).collect();
                    let mean = token.iter().sum::<f64>() / channels as f64;
                    let variance = token.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / channels as f64;
                    let unit = move |value: f64| (value - mean) / (variance + 1e-6).sqrt();
                    token.into_iter().map(unit).zip(&norm.weight).zip(&norm.bias)
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
}
