//! The same code compiled for several instruction sets, chosen at run time.

/// An instruction set, as far as code must know of it.
pub trait Simd {
    /// Whether sixteen values fit in one register, of which there are 32.
    const WIDE: bool;

    /// `a * b + c`, rounded once where the machine does that at no cost.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

/// Loops worth compiling for more than the least of machines.
pub trait Work {
    /// Must be `#[inline(always)]`, with all it calls, to be compiled anew for each instruction set; hence a trait, since a
    /// closure is compiled once.
    fn run<S: Simd>(self);
}

/// Runs `work` compiled for the best instruction set this machine has.
#[inline]
pub fn fast(work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor was just asked.
            return unsafe { x86::with_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor was just asked.
            return unsafe { x86::with_avx2(work) };
        }
    }
    // Elsewhere the baseline has what there is to have: NEON on 64-bit ARM.
    work.run::<Baseline>();
}

/// What every machine of this architecture has.
struct Baseline;

impl Simd for Baseline {
    const WIDE: bool = false;

    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        // Without an instruction for it, `f32::mul_add` is a slow function.
        if cfg!(target_arch = "aarch64") { a.mul_add(b, c) } else { a * b + c }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Simd, Work};

    struct Fused<const WIDE: bool>;

    impl<const WIDE: bool> Simd for Fused<WIDE> {
        const WIDE: bool = WIDE;

        #[inline(always)]
        fn mul_add(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn with_avx2(work: impl Work) {
        work.run::<Fused<false>>();
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub fn with_avx512(work: impl Work) {
        work.run::<Fused<true>>();
    }
}
