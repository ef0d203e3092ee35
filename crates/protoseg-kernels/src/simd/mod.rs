//! The same code compiled for several instruction sets, chosen at run time.

/// Values of a vector.
pub const LANES: usize = 16;

/// An instruction set, as far as code must know of it. Most loops are left to the compiler; those whose sums must
/// stay in registers are written with vectors.
pub trait Simd {
    /// Whether sixteen values fit in one register, of which there are 32.
    const WIDE: bool;

    /// `a * b + c`, rounded once where the machine does that at no cost.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;

    /// Sixteen values, in one register or in several.
    type Vector: Copy;

    fn load(values: &[f32; LANES]) -> Self::Vector;

    /// The first `count` values, then zeros.
    fn load_first(values: &[f32], count: usize) -> Self::Vector;

    fn splat(value: f32) -> Self::Vector;

    fn store(vector: Self::Vector, to: &mut [f32; LANES]);

    /// The first `count` values.
    fn store_first(vector: Self::Vector, to: &mut [f32], count: usize);

    /// What [`Self::mul_add`] gives, lane by lane.
    fn mul_add_all(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The larger one, `b` where `a` is not a number.
    fn max(a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// The smaller one, `b` where `a` is not a number.
    fn min(a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `2^x` of each lane, for x of at most 0, with about 2e-7 relative error; below 2^-125, that.
    #[inline(always)]
    fn power_of_two(x: Self::Vector) -> Self::Vector {
        let mut lanes = [0.0; LANES];
        Self::store(x, &mut lanes);
        lanes.iter_mut().for_each(|x| *x = power::of_two::<Self>(*x));
        Self::load(&lanes)
    }

    /// `c` plus the sum of products of two pairs, lane by lane. A lane of `a` and `b` holds a pair of bfloat16 numbers,
    /// the first one in its lower half.
    #[inline(always)]
    fn dot_pairs(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        let [a, b, c] = [a, b, c].map(|vector| {
            let mut lanes = [0.0; LANES];
            Self::store(vector, &mut lanes);
            lanes
        });
        let halves = |pair: f32| [pair.to_bits() << 16, pair.to_bits() & 0xffff_0000].map(f32::from_bits);
        Self::load(&std::array::from_fn(|lane| {
            let ([a0, a1], [b0, b1]) = (halves(a[lane]), halves(b[lane]));
            Self::mul_add(a1, b1, Self::mul_add(a0, b0, c[lane]))
        }))
    }

    /// Values rounded to bfloat16, two of them in each of `pairs`; a zero is added where their number is odd.
    #[inline(always)]
    fn round_pairs(values: &[f32], pairs: &mut [f32]) {
        for (two, pair) in values.chunks(2).zip(pairs) {
            *pair = pair_of(two[0], two.get(1).copied().unwrap_or(0.0));
        }
    }

    /// Before and after [`Self::multiply_tiles`] in a thread.
    #[inline(always)]
    fn open_tiles() {}

    #[inline(always)]
    fn close_tiles() {}

    /// The products of two blocks of rows with two panels, `sums[block][panel][row][column]`, added to what is there
    /// or not. Panels are tiles of lines of pairs, one per step.
    #[inline(always)]
    fn multiply_tiles(left: &LeftTiles, right: [&[f32]; 2], sums: &mut [f32; 4 * TILE], accumulate: bool) {
        multiply_tiles_by_vectors::<Self>(left, right, sums, accumulate);
    }
}

/// Pairs in a tile.
pub const TILE: usize = LANES * LANES;

/// Where the tiles of two blocks of sixteen rows lie.
pub struct LeftTiles<'a> {
    /// Pairs.
    pub values: &'a [f32],
    /// Where the blocks begin.
    pub starts: [usize; 2],
    /// Where the steps lie, from a block's beginning.
    pub steps: &'a [usize],
    /// From a row to the next.
    pub row: usize,
}

impl LeftTiles<'_> {
    /// All that is read exists.
    #[inline(always)]
    fn check(&self) {
        let first = self.starts[0].max(self.starts[1]);
        let furthest = self.steps.iter().fold(0, |furthest, &step| furthest.max(step));
        let last = furthest + (LANES - 1) * self.row + LANES;
        assert!(first + last <= self.values.len(), "{first} and {last} of {} values", self.values.len());
    }
}

/// What [`Simd::multiply_tiles`] says, where there are no instructions for it.
#[inline(always)]
fn multiply_tiles_by_vectors<S: Simd + ?Sized>(
    left: &LeftTiles,
    right: [&[f32]; 2],
    sums: &mut [f32; 4 * TILE],
    accumulate: bool,
) {
    if !accumulate {
        sums.fill(0.0);
    }
    for (index, sums) in sums.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
        for (step, tile) in left.steps.iter().zip(right[index % 2].as_chunks::<TILE>().0) {
            let lines = tile.as_chunks::<LANES>().0;
            for (row, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let pairs = &left.values[left.starts[index / 2] + step + row * left.row..][..LANES];
                let mut sum = S::load(sums);
                for (&pair, line) in pairs.iter().zip(lines) {
                    sum = S::dot_pairs(S::splat(pair), S::load(line), sum);
                }
                S::store(sum, sums);
            }
        }
    }
}

/// Two values rounded to bfloat16 as the bits of one, the first in the lower half.
pub fn pair_of(first: f32, second: f32) -> f32 {
    f32::from_bits(round(first) | round(second) << 16)
}

/// The bits of the nearest bfloat16 number, the even one of two that are as near.
fn round(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_nan() {
        return bits >> 16 | 0x40;
    }
    bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16
}

/// A loop over `0..count` written out: the compiler then keeps an array that is indexed by `i` in registers. The
/// bound on `count`, one of those below, is how often the body is compiled.
macro_rules! unrolled {
    ($i:ident in 0..$count:expr, at most 2, $body:block) => {
        $crate::simd::unrolled!(@ $i, $count, 2, $body, 0 1)
    };
    ($i:ident in 0..$count:expr, at most 5, $body:block) => {
        $crate::simd::unrolled!(@ $i, $count, 5, $body, 0 1 2 3 4)
    };
    ($i:ident in 0..$count:expr, at most 8, $body:block) => {
        $crate::simd::unrolled!(@ $i, $count, 8, $body, 0 1 2 3 4 5 6 7)
    };
    ($i:ident in 0..$count:expr, at most 12, $body:block) => {
        $crate::simd::unrolled!(@ $i, $count, 12, $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    (@ $i:ident, $count:expr, $most:literal, $body:block, $($value:literal)*) => {
        const { assert!($count <= $most) };
        $(if $value < $count {
            let $i: usize = $value;
            $body
        })*
    };
}
pub(crate) use unrolled;

/// Asks for the line of memory at `place`, which need not exist, to be fetched.
#[inline(always)]
pub fn prefetch(place: *const f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint that no address can make fail, of the baseline of this architecture.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Loops worth compiling for more than the least of machines.
pub trait Work {
    /// Must be `#[inline(always)]`, with all it calls, to be compiled anew for each instruction set; hence a trait,
    /// since a closure is compiled once.
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

/// Whether this machine multiplies pairs of bfloat16 numbers, twice as many as others in the same time.
pub fn has_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Runs `work` that multiplies pairs: by instructions for them, or slowly where there are none.
#[inline]
pub fn fast_pairs(work: impl Work) {
    #[cfg(test)]
    if let Some(path) = pretend::path() {
        return pretend::run(path, work);
    }
    #[cfg(target_arch = "x86_64")]
    if has_pairs() {
        // SAFETY: the processor was just asked.
        return unsafe { x86::with_avx512_bf16(work) };
    }
    work.run::<Baseline>();
}

mod power;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub use amx::has_tiles;

/// Whether this machine multiplies tiles of bfloat16 numbers.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_tiles() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub use portable::Portable as Baseline;
#[cfg(target_arch = "x86_64")]
pub use x86::Sse as Baseline;

/// Paths that this machine would not choose, for tests.
#[cfg(test)]
pub mod pretend {
    use std::sync::{
        Mutex,
        atomic::{AtomicU8, Ordering},
    };

    use super::{Baseline, LANES, Simd, Work};

    /// The code of wide registers on whatever the baseline has.
    struct Wide;

    impl Simd for Wide {
        const WIDE: bool = true;

        #[inline(always)]
        fn mul_add(a: f32, b: f32, c: f32) -> f32 {
            Baseline::mul_add(a, b, c)
        }

        type Vector = <Baseline as Simd>::Vector;

        #[inline(always)]
        fn load(values: &[f32; LANES]) -> Self::Vector {
            Baseline::load(values)
        }

        #[inline(always)]
        fn load_first(values: &[f32], count: usize) -> Self::Vector {
            Baseline::load_first(values, count)
        }

        #[inline(always)]
        fn splat(value: f32) -> Self::Vector {
            Baseline::splat(value)
        }

        #[inline(always)]
        fn store(vector: Self::Vector, to: &mut [f32; LANES]) {
            Baseline::store(vector, to);
        }

        #[inline(always)]
        fn store_first(vector: Self::Vector, to: &mut [f32], count: usize) {
            Baseline::store_first(vector, to, count);
        }

        #[inline(always)]
        fn mul_add_all(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
            Baseline::mul_add_all(a, b, c)
        }

        #[inline(always)]
        fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector {
            Baseline::add(a, b)
        }

        #[inline(always)]
        fn max(a: Self::Vector, b: Self::Vector) -> Self::Vector {
            Baseline::max(a, b)
        }

        #[inline(always)]
        fn min(a: Self::Vector, b: Self::Vector) -> Self::Vector {
            Baseline::min(a, b)
        }
    }

    #[derive(Clone, Copy, Debug)]
    pub enum Path {
        Portable = 1,
        Wide = 2,
        /// Where the machine has it, else what [`Self::Portable`] is.
        Avx2 = 3,
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
            3 => Some(Path::Avx2),
            _ => None,
        }
    }

    pub fn run(path: Path, work: impl Work) {
        match path {
            Path::Portable => work.run::<Baseline>(),
            Path::Wide => work.run::<Wide>(),
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => {
                // SAFETY: the processor was just asked.
                unsafe { super::x86::with_avx2(work) }
            }
            Path::Avx2 => work.run::<Baseline>(),
        }
    }
}
