//! How the outputs along one line of a tile are computed: `OUTPUT ((TAPS g) * (INPUT d))`, with `*` an elementwise
//! product. In two dimensions, rows and columns may be computed in different ways.

use super::tile::Tile;

/// Most inputs, products or outputs of a line.
pub const SIDE: usize = 8;

/// Factors of inputs, taps or products. Those beyond what there is are zero.
type Matrix<const COLUMNS: usize> = [[f32; COLUMNS]; SIDE];

pub trait Lines {
    const OUTPUTS: usize;
    const INPUTS: usize;
    const PRODUCTS: usize;
    /// Inputs before the place of the first output.
    const BEFORE: usize;
    const INPUT: Matrix<SIDE>;
    const TAPS: Matrix<3>;
    const OUTPUT: Matrix<SIDE>;
}

/// Tiles of M outputs among others, by N = M + 2 products ([`Tile`]).
pub struct Tiles<const M: usize, const N: usize>;

impl<const M: usize, const N: usize> Lines for Tiles<M, N> {
    const OUTPUTS: usize = M;
    const INPUTS: usize = N;
    const PRODUCTS: usize = N;
    const BEFORE: usize = 1;
    const INPUT: Matrix<SIDE> = padded(Tile::<M, N>::INPUT);
    const TAPS: Matrix<3> = padded(Tile::<M, N>::TAPS);
    const OUTPUT: Matrix<SIDE> = padded(Tile::<M, N>::OUTPUT);
}

/// Two outputs between zeros, `g1 d0 + g2 d1` and `g0 d0 + g1 d1`, by three products (Karatsuba 1962): what both have in
/// common is `g1 (d0 + d1)`.
pub struct Pair;

impl Lines for Pair {
    const OUTPUTS: usize = 2;
    const INPUTS: usize = 2;
    const PRODUCTS: usize = 3;
    const BEFORE: usize = 0;
    const INPUT: Matrix<SIDE> = padded([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]);
    const TAPS: Matrix<3> = padded([[0.0, 1.0, 0.0], [0.0, -1.0, 1.0], [1.0, -1.0, 0.0]]);
    const OUTPUT: Matrix<SIDE> = padded([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]);
}

/// One output between zeros: only the middle tap meets anything.
pub struct Single;

impl Lines for Single {
    const OUTPUTS: usize = 1;
    const INPUTS: usize = 1;
    const PRODUCTS: usize = 1;
    const BEFORE: usize = 0;
    const INPUT: Matrix<SIDE> = padded([[1.0]]);
    const TAPS: Matrix<3> = padded([[0.0, 1.0, 0.0]]);
    const OUTPUT: Matrix<SIDE> = padded([[1.0]]);
}

const fn padded<const R: usize, const C: usize, const TO: usize>(matrix: [[f32; C]; R]) -> [[f32; TO]; SIDE] {
    let mut out = [[0.0; TO]; SIDE];
    let mut i = 0;
    while i < R * C {
        out[i / C][i % C] = matrix[i / C][i % C];
        i += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convolves<L: Lines>() {
        let dot =
            |factors: &[f32], values: &[f32]| -> f32 { factors.iter().zip(values).map(|(f, v)| f * v).sum() };
        let d: [f32; SIDE] =
            std::array::from_fn(|i| if i < L::INPUTS { (i * i) as f32 - 3.0 } else { f32::NAN });
        let g = [2.0, -1.0, 0.5];
        let products: Vec<f32> =
            (0..L::PRODUCTS).map(|i| dot(&L::INPUT[i][..L::INPUTS], &d) * dot(&L::TAPS[i], &g)).collect();
        for out in 0..L::OUTPUTS {
            let input =
                |tap: usize| d[..L::INPUTS].get((out + tap + L::BEFORE).wrapping_sub(1)).unwrap_or(&0.0);
            let expected: f32 = (0..3).map(|tap| g[tap] * input(tap)).sum();
            let got = dot(&L::OUTPUT[out], &products);
            assert!((got - expected).abs() < 1e-4, "output {out} of {}: {got} {expected}", L::OUTPUTS);
        }
    }

    #[test]
    fn lines_are_convolved() {
        convolves::<Tiles<3, 5>>();
        convolves::<Tiles<6, 8>>();
        convolves::<Pair>();
        convolves::<Single>();
    }
}
