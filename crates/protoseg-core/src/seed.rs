//! Random streams that never change: not between machines, numbers of threads or later versions.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A separate stream for each path of numbers under a seed, such as `[epoch, index]`.
pub fn stream(seed: u64, path: &[u64]) -> ChaCha8Rng {
    let mut state = mix(seed ^ 0x7072_6F74_6F73_6567);
    for &step in path {
        state = mix(state ^ step);
    }
    let mut bytes = [0u8; 32];
    for (word, chunk) in (0u64..).zip(bytes.chunks_exact_mut(8)) {
        chunk.copy_from_slice(&mix(state.wrapping_add(word)).to_le_bytes());
    }
    ChaCha8Rng::from_seed(bytes)
}

/// A number below `bound`, by multiplication and shift. The bias is below 2^-32 for every bound that fits in 32 bits.
pub fn below(rng: &mut impl RngCore, bound: usize) -> usize {
    ((u128::from(rng.next_u64()) * bound as u128) >> 64) as usize
}

/// Fisher-Yates shuffle, starting at the end.
pub fn shuffle<T>(items: &mut [T], rng: &mut impl RngCore) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(rng, last + 1));
    }
}

/// One step of splitmix64.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_never_change() {
        let mut order: Vec<u32> = (0..10).collect();
        shuffle(&mut order, &mut stream(123, &[0, 7]));
        assert_eq!(order, [9, 3, 8, 1, 5, 6, 0, 2, 7, 4]);
    }

    #[test]
    fn each_path_has_its_own_stream() {
        let first = |seed, path: &[u64]| stream(seed, path).next_u64();
        assert_eq!(first(1, &[2, 3]), first(1, &[2, 3]));
        let all = [first(1, &[2, 3]), first(1, &[3, 2]), first(2, &[1, 3]), first(1, &[2]), first(1, &[])];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut rng = stream(5, &[]);
        let mut seen = [0u32; 7];
        for _ in 0..7000 {
            seen[below(&mut rng, 7)] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }
}
