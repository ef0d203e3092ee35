//! The instruction sets of 64-bit x86.
//!
//! `Avx2` and `Avx512` are named only by [`with_avx2`], [`with_avx512`] and [`with_avx512_bf16`], which are called where
//! the processor has the instructions; `Sse` is the baseline. That is what makes the blocks here safe.

use std::{arch::x86_64::*, mem::transmute};

use super::{LANES, LeftTiles, Simd, TILE, Work, amx, amx::has_tiles, multiply_tiles_by_vectors, power};

#[target_feature(enable = "avx2,fma")]
pub fn with_avx2(work: impl Work) {
    work.run::<Avx2>();
}

#[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
pub fn with_avx512(work: impl Work) {
    work.run::<Avx512<false>>();
}

#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bf16")]
pub fn with_avx512_bf16(work: impl Work) {
    work.run::<Avx512<true>>();
}

/// Vectors that fill `$count` registers of `$lanes` values.
macro_rules! vectors_of {
    (
        $register:ty, $count:literal, $lanes:literal,
        $load:ident $splat:ident $store:ident $add:ident $max:ident $min:ident
    ) => {
        type Vector = [$register; $count];

        #[inline(always)]
        fn load(values: &[f32; $crate::simd::LANES]) -> Self::Vector {
            // SAFETY: see the module; all parts lie in the array.
            std::array::from_fn(|part| unsafe { $load(values.as_ptr().add(part * $lanes)) })
        }

        #[inline(always)]
        fn load_first(values: &[f32], count: usize) -> Self::Vector {
            let mut all = [0.0; $crate::simd::LANES];
            (0..$crate::simd::LANES).filter(|&lane| lane < count).for_each(|lane| all[lane] = values[lane]);
            Self::load(&all)
        }

        #[inline(always)]
        fn splat(value: f32) -> Self::Vector {
            // SAFETY: see the module.
            [unsafe { $splat(value) }; $count]
        }

        #[inline(always)]
        fn store(vector: Self::Vector, to: &mut [f32; $crate::simd::LANES]) {
            for (part, register) in vector.into_iter().enumerate() {
                // SAFETY: see the module; all parts lie in the array.
                unsafe { $store(to.as_mut_ptr().add(part * $lanes), register) };
            }
        }

        #[inline(always)]
        fn store_first(vector: Self::Vector, to: &mut [f32], count: usize) {
            let mut all = [0.0; $crate::simd::LANES];
            Self::store(vector, &mut all);
            (0..$crate::simd::LANES).filter(|&lane| lane < count).for_each(|lane| to[lane] = all[lane]);
        }

        #[inline(always)]
        fn mul_add_all(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
            std::array::from_fn(|part| Self::mul_add_register(a[part], b[part], c[part]))
        }

        #[inline(always)]
        fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector {
            // SAFETY: see the module.
            std::array::from_fn(|part| unsafe { $add(a[part], b[part]) })
        }

        #[inline(always)]
        fn max(a: Self::Vector, b: Self::Vector) -> Self::Vector {
            // SAFETY: see the module.
            std::array::from_fn(|part| unsafe { $max(a[part], b[part]) })
        }

        #[inline(always)]
        fn min(a: Self::Vector, b: Self::Vector) -> Self::Vector {
            // SAFETY: see the module.
            std::array::from_fn(|part| unsafe { $min(a[part], b[part]) })
        }
    };
}
/// What every machine of this architecture has.
pub struct Sse;

impl Sse {
    #[inline(always)]
    fn mul_add_register(a: __m128, b: __m128, c: __m128) -> __m128 {
        // SAFETY: the baseline has these instructions.
        unsafe { _mm_add_ps(_mm_mul_ps(a, b), c) }
    }
}

impl Simd for Sse {
    const WIDE: bool = false;

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        // Without an instruction for it, `f32::mul_add` is a slow function.
        a * b + c
    }

    vectors_of!(__m128, 4, 4, _mm_loadu_ps _mm_set1_ps _mm_storeu_ps _mm_add_ps _mm_max_ps _mm_min_ps);
}

struct Avx2;

impl Avx2 {
    #[inline(always)]
    fn mul_add_register(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: see the module.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
}

impl Simd for Avx2 {
    const WIDE: bool = false;

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    vectors_of!(
        __m256, 2, 8,
        _mm256_loadu_ps _mm256_set1_ps _mm256_storeu_ps _mm256_add_ps _mm256_max_ps _mm256_min_ps
    );
}

/// With instructions for pairs of bfloat16 numbers or without.
struct Avx512<const PAIRS: bool>;

impl<const PAIRS: bool> Avx512<PAIRS> {
    /// The first `count` lanes.
    #[inline(always)]
    fn mask(count: usize) -> __mmask16 {
        ((1u32 << count) - 1) as __mmask16
    }
}

impl<const PAIRS: bool> Simd for Avx512<PAIRS> {
    const WIDE: bool = true;

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    type Vector = __m512;

    #[inline(always)]
    fn load(values: &[f32; LANES]) -> __m512 {
        // SAFETY: see the module; the array is as long as the vector.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn load_first(values: &[f32], count: usize) -> __m512 {
        let values = &values[..count.min(LANES)];
        // SAFETY: see the module; lanes beyond the slice are not read.
        unsafe { _mm512_maskz_loadu_ps(Self::mask(values.len()), values.as_ptr()) }
    }

    #[inline(always)]
    fn splat(value: f32) -> __m512 {
        // SAFETY: see the module.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn store(vector: __m512, to: &mut [f32; LANES]) {
        // SAFETY: see the module; the array is as long as the vector.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), vector) }
    }

    #[inline(always)]
    fn store_first(vector: __m512, to: &mut [f32], count: usize) {
        let to = &mut to[..count.min(LANES)];
        // SAFETY: see the module; lanes beyond the slice are not written.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), Self::mask(to.len()), vector) }
    }

    #[inline(always)]
    fn mul_add_all(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: see the module.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the module.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn max(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the module.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the module.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn power_of_two(x: __m512) -> __m512 {
        let x = Self::max(x, Self::splat(power::LEAST));
        // SAFETY: see the module. 8: to the nearest whole number, without exceptions.
        let whole = unsafe { _mm512_roundscale_ps::<8>(x) };
        // SAFETY: see the module.
        let rest = unsafe { _mm512_sub_ps(x, whole) };
        let [first, others @ ..] = power::POWERS.map(Self::splat);
        let value = others.into_iter().fold(first, |sum, next| Self::mul_add_all(sum, rest, next));
        // SAFETY: see the module.
        unsafe { _mm512_scalef_ps(value, whole) }
    }

    #[inline(always)]
    fn dot_pairs(a: __m512, b: __m512, c: __m512) -> __m512 {
        assert!(PAIRS, "instructions that were not asked for");
        // SAFETY: see the module; both are registers of the same size.
        unsafe { _mm512_dpbf16_ps(c, transmute::<__m512, __m512bh>(a), transmute::<__m512, __m512bh>(b)) }
    }

    #[inline(always)]
    fn round_pairs(values: &[f32], pairs: &mut [f32]) {
        assert!(PAIRS, "instructions that were not asked for");
        for (values, pairs) in values.chunks(2 * LANES).zip(pairs.chunks_mut(LANES)) {
            let (low, high) = values.split_at(values.len().min(LANES));
            let (low, high) = (Self::load_first(low, low.len()), Self::load_first(high, high.len()));
            // SAFETY: see the module; both are registers of the same size.
            let rounded = unsafe { transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low)) };
            Self::store_first(rounded, pairs, pairs.len());
        }
    }

    #[inline(always)]
    fn open_tiles() {
        if has_tiles() {
            amx::open();
        }
    }

    #[inline(always)]
    fn close_tiles() {
        if has_tiles() {
            amx::close();
        }
    }

    #[inline(always)]
    fn multiply_tiles(left: &LeftTiles, right: [&[f32]; 2], sums: &mut [f32; 4 * TILE], accumulate: bool) {
        if has_tiles() {
            amx::multiply(left, right, sums, accumulate);
        } else {
            multiply_tiles_by_vectors::<Self>(left, right, sums, accumulate);
        }
    }
}
