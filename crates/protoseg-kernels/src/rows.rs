//! Products of a matrix with one vector, for what is fitted to an image's features step by step: the matrix is read
//! from memory every time, so what counts is that each value is touched once.

use crate::simd::{LANES, Simd, Work, fast};

/// Rows that are read side by side.
const ROWS: usize = 4;

/// The product of each row of `rows` (`[out, vector]`) with `vector`.
pub fn dots(rows: &[f32], vector: &[f32], out: &mut [f32]) {
    assert_eq!(
        rows.len(),
        vector.len() * out.len(),
        "rows of {} values, {} of them",
        vector.len(),
        out.len()
    );
    if !vector.is_empty() {
        fast(Dots { rows, vector, out });
    }
}

/// Adds every row of `rows` (`[weights, sum]`), times its weight, to `sum`.
pub fn add_weighted(rows: &[f32], weights: &[f32], sum: &mut [f32]) {
    assert_eq!(rows.len(), weights.len() * sum.len(), "rows of {} values, {}", sum.len(), weights.len());
    if !sum.is_empty() {
        fast(AddWeighted { rows, weights, sum });
    }
}

struct Dots<'a> {
    rows: &'a [f32],
    vector: &'a [f32],
    out: &'a mut [f32],
}

impl Work for Dots<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let dim = self.vector.len();
        let mut rows = self.rows.chunks_exact(ROWS * dim);
        let mut out = self.out.chunks_exact_mut(ROWS);
        for (rows, out) in (&mut rows).zip(&mut out) {
            let [a, b, c, d] = four(rows, dim);
            out.copy_from_slice(&dots_of::<S, ROWS>([a, b, c, d], self.vector));
        }
        let rest = rows.remainder().chunks_exact(dim).zip(out.into_remainder());
        rest.for_each(|(row, out)| [*out] = dots_of::<S, 1>([row], self.vector));
    }
}

#[inline(always)]
fn dots_of<S: Simd, const N: usize>(rows: [&[f32]; N], vector: &[f32]) -> [f32; N] {
    let mut sums = [S::splat(0.0); N];
    let (lanes, tail) = vector.as_chunks::<LANES>();
    for (i, lanes) in lanes.iter().enumerate() {
        let factor = S::load(lanes);
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = S::mul_add_all(S::load(&row.as_chunks().0[i]), factor, *sum);
        }
    }
    let start = vector.len() - tail.len();
    let mut out = [0.0; N];
    for ((out, sum), row) in out.iter_mut().zip(sums).zip(rows) {
        let mut lanes = [0.0; LANES];
        S::store(sum, &mut lanes);
        let rest: f32 = row[start..].iter().zip(tail).map(|(a, b)| a * b).sum();
        *out = lanes.iter().sum::<f32>() + rest;
    }
    out
}

struct AddWeighted<'a> {
    rows: &'a [f32],
    weights: &'a [f32],
    sum: &'a mut [f32],
}

impl Work for AddWeighted<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let dim = self.sum.len();
        let mut rows = self.rows.chunks_exact(ROWS * dim);
        let mut weights = self.weights.chunks_exact(ROWS);
        for (rows, weights) in (&mut rows).zip(&mut weights) {
            let &[w, x, y, z] = weights else { unreachable!("weights come in fours") };
            add_rows::<S, ROWS>(four(rows, dim), [w, x, y, z], self.sum);
        }
        let rest = rows.remainder().chunks_exact(dim).zip(weights.remainder());
        rest.for_each(|(row, &weight)| add_rows::<S, 1>([row], [weight], self.sum));
    }
}

#[inline(always)]
fn add_rows<S: Simd, const N: usize>(rows: [&[f32]; N], weights: [f32; N], sum: &mut [f32]) {
    let factors = weights.map(S::splat);
    let (lanes, tail) = sum.as_chunks_mut::<LANES>();
    let start = lanes.len() * LANES;
    for (i, lanes) in lanes.iter_mut().enumerate() {
        let mut sum = S::load(lanes);
        for (row, factor) in rows.iter().zip(factors) {
            sum = S::mul_add_all(S::load(&row.as_chunks().0[i]), factor, sum);
        }
        S::store(sum, lanes);
    }
    for (i, sum) in tail.iter_mut().enumerate() {
        *sum += rows.iter().zip(weights).map(|(row, weight)| row[start + i] * weight).sum::<f32>();
    }
}

#[inline(always)]
fn four(rows: &[f32], dim: usize) -> [&[f32]; ROWS] {
    let (ab, cd) = rows.split_at(2 * dim);
    let ((a, b), (c, d)) = (ab.split_at(dim), cd.split_at(dim));
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn both_products_are_those_of_plain_loops(rows in 0usize..11, dim in 0usize..70, seed: u32) {
            let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 16) as f32 / 65536.0 - 0.5;
            let matrix: Vec<f32> = (0..rows * dim).map(value).collect();
            let vector: Vec<f32> = (0..dim).map(|i| value(i + 7777)).collect();
            let weights: Vec<f32> = (0..rows).map(|i| value(i + 9999)).collect();
            let mut out = vec![7.0; rows];
            dots(&matrix, &vector, &mut out);
            let mut sum: Vec<f32> = (0..dim).map(|i| i as f32).collect();
            add_weighted(&matrix, &weights, &mut sum);
            for (row, out) in out.iter().enumerate().filter(|_| dim > 0) {
                let expected: f64 = (0..dim).map(|i| f64::from(matrix[row * dim + i]) * f64::from(vector[i])).sum();
                prop_assert!((f64::from(*out) - expected).abs() < 1e-5);
            }
            for (i, sum) in sum.iter().enumerate() {
                let more: f64 = (0..rows).map(|row| f64::from(matrix[row * dim + i]) * f64::from(weights[row])).sum();
                prop_assert!((f64::from(*sum) - i as f64 - more).abs() < 2e-5);
            }
        }
    }
}
