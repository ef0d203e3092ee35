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
    #[cfg(test)]
    if let Some(path) = pretend::path() {
        return pretend::run(path, work);
    }
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

/// Paths that this machine would not choose, for tests.
#[cfg(test)]
pub mod pretend {
    use std::sync::{
        Mutex,
        atomic::{AtomicU8, Ordering},
    };

    use super::{Baseline, Simd, Work};

    /// The code of wide registers on whatever the baseline has.
    struct Wide;

    impl Simd for Wide {
        const WIDE: bool = true;

        #[inline(always)]
        fn mul_add(a: f32, b: f32, c: f32) -> f32 {
            Baseline::mul_add(a, b, c)
        }
    }

    #[derive(Clone, Copy, Debug)]
    pub enum Path {
        Portable = 1,
        Wide = 2,
    }

    static PATH: AtomicU8 = AtomicU8::new(0);
    /// Held by a test that changes the path, and by one that minds.
    pub static TURN: Mutex<()> = Mutex::new(());

    /// Takes `path` in all threads while `work` runs, those of other tests included.
    pub fn with<T>(path: Path, work: impl FnOnce() -> T) -> T {
        let _turn = TURN.lock();
        PATH.store(path as u8, Ordering::SeqCst);
        let result = work();
        PATH.store(0, Ordering::SeqCst);
        result
    }

    pub fn path() -> Option<Path> {
        match PATH.load(Ordering::Relaxed) {
            1 => Some(Path::Portable),
            2 => Some(Path::Wide),
            _ => None,
        }
    }

    pub fn run(path: Path, work: impl Work) {
        match path {
            Path::Portable => work.run::<Baseline>(),
            Path::Wide => work.run::<Wide>(),
        }
    }
}
