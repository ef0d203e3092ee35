//! What every machine of an architecture has, left to the compiler: NEON on 64-bit ARM.

use super::{LANES, Simd};

pub struct Portable;

impl Simd for Portable {
    const WIDE: bool = false;

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        // Without an instruction for it, `f32::mul_add` is a slow function.
        if cfg!(target_arch = "aarch64") { a.mul_add(b, c) } else { a * b + c }
    }

    type Vector = [f32; LANES];

    #[inline(always)]
    fn load(values: &[f32; LANES]) -> [f32; LANES] {
        *values
    }

    #[inline(always)]
    fn load_first(values: &[f32], count: usize) -> [f32; LANES] {
        std::array::from_fn(|lane| if lane < count { values[lane] } else { 0.0 })
    }

    #[inline(always)]
    fn splat(value: f32) -> [f32; LANES] {
        [value; LANES]
    }

    #[inline(always)]
    fn store(vector: [f32; LANES], to: &mut [f32; LANES]) {
        *to = vector;
    }

    #[inline(always)]
    fn store_first(vector: [f32; LANES], to: &mut [f32], count: usize) {
        (0..LANES).filter(|&lane| lane < count).for_each(|lane| to[lane] = vector[lane]);
    }

    #[inline(always)]
    fn mul_add_all(a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| Self::mul_add(a[lane], b[lane], c[lane]))
    }

    #[inline(always)]
    fn add(a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }

    #[inline(always)]
    fn max(a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
    }

    #[inline(always)]
    fn min(a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| if a[lane] < b[lane] { a[lane] } else { b[lane] })
    }
}
