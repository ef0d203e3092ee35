//! The same code compiled for several instruction sets, chosen at run time.

/// Runs `work` compiled for the best instruction set this machine has. Only what is inlined into it profits, so its loops
/// belong in `#[inline(always)]` functions.
#[inline]
pub fn fast<R>(work: impl FnOnce() -> R) -> R {
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
    work()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[target_feature(enable = "avx2,fma")]
    pub fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}
