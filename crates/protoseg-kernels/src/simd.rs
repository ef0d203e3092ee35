//! The same code compiled for several instruction sets, chosen at run time.

/// Loops worth compiling for more than the least of machines.
pub trait Work {
    /// Must be `#[inline(always)]`, with all it calls, to be compiled anew for each instruction set; hence a trait, since a
    /// closure is compiled once.
    fn run(self);
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
    work.run();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Work;

    #[target_feature(enable = "avx2,fma")]
    pub fn with_avx2(work: impl Work) {
        work.run();
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub fn with_avx512(work: impl Work) {
        work.run();
    }
}
