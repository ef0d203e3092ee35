//! What the machine can do at most: fused multiply-adds on registers, no memory.

use std::{hint::black_box, time::Instant};

use crate::{
    channels_last::LANES,
    simd::{Simd, Work, fast},
};

const ROUNDS: usize = 1 << 18;
const REPEATS: usize = 40;

/// Floating-point operations per second of `threads` threads together, at their best of some repeats.
pub fn peak_flops(threads: usize) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be had");
    let mut best: f64 = 0.0;
    for _ in 0..REPEATS {
        let started = Instant::now();
        let done: Vec<usize> = pool.broadcast(|_| {
            let mut operations = 0;
            fast(Spin { operations: &mut operations });
            operations
        });
        best = best.max(done.iter().sum::<usize>() as f64 / started.elapsed().as_secs_f64());
    }
    best
}

struct Spin<'a> {
    operations: &'a mut usize,
}

impl Work for Spin<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        // As many sums as a product keeps in registers.
        *self.operations = if S::WIDE { spin::<S, 12>() } else { spin::<S, 6>() };
    }
}

#[inline(always)]
fn spin<S: Simd, const R: usize>() -> usize {
    let mut sums = black_box([[0.5f32; LANES]; R]);
    let (factor, term) = (black_box(0.75f32), black_box(0.25f32));
    for _ in 0..ROUNDS {
        for sum in sums.as_flattened_mut() {
            *sum = S::mul_add(*sum, factor, term);
        }
    }
    black_box(sums);
    2 * ROUNDS * R * LANES
}
