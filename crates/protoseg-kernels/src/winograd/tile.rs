//! The transforms of F(M x M, 3 x 3): M x M outputs of a 3x3 convolution from N x N inputs, N = M + 2, with N^2
//! products instead of 9 M^2 (Winograd 1980, Lavin and Gray 2016). Along one line, with `*` an elementwise product,
//! `out = A^T ((G g) * (B^T d))`; in two dimensions each matrix is applied to both sides.
//!
//! The matrices are those of Cook and Toom: a line is a polynomial, evaluated at N - 1 points and at infinity.

/// Values that are transformed side by side.
pub use crate::channels_last::{LANES, Lanes};
use crate::simd::Simd;

/// The first N - 1 of these are used. Points of this kind keep single precision longest (Barabasz et al. 2020).
const POINTS: [f64; 7] = [0.0, 1.0, -1.0, 0.5, -2.0, 2.0, -0.5];

pub struct Tile<const M: usize, const N: usize>;

impl<const M: usize, const N: usize> Tile<M, N> {
    /// B^T: inputs to products.
    pub const INPUT: [[f32; N]; N] = {
        let mut matrix = [[0.0; N]; N];
        let mut row = 0;
        while row < N {
            // Coefficients of the product of (x - point) over all points but this row's own.
            let mut poly = [0.0; N];
            poly[0] = 1.0;
            let mut point = 0;
            while point < N - 1 {
                if point != row {
                    let mut power = N - 1;
                    while power > 0 {
                        poly[power] = poly[power - 1] - POINTS[point] * poly[power];
                        power -= 1;
                    }
                    poly[0] *= -POINTS[point];
                }
                point += 1;
            }
            matrix[row] = single(poly);
            row += 1;
        }
        matrix
    };

    /// G: taps to products.
    pub const TAPS: [[f32; 3]; N] = {
        let mut matrix = [[0.0; 3]; N];
        let mut row = 0;
        while row < N - 1 {
            let mut scale = 1.0;
            let mut other = 0;
            while other < N - 1 {
                if other != row {
                    scale *= POINTS[row] - POINTS[other];
                }
                other += 1;
            }
            let at = POINTS[row];
            matrix[row] = single([1.0 / scale, at / scale, at * at / scale]);
            row += 1;
        }
        matrix[N - 1][2] = 1.0;
        matrix
    };

    /// A^T: products to outputs.
    pub const OUTPUT: [[f32; N]; M] = {
        let mut matrix = [[0.0; N]; M];
        let mut column = 0;
        while column < N - 1 {
            let mut power = 1.0;
            let mut row = 0;
            while row < M {
                matrix[row][column] = power as f32;
                power *= POINTS[column];
                row += 1;
            }
            column += 1;
        }
        matrix[M - 1][N - 1] = 1.0;
        matrix
    };

    /// A: gradients of outputs to gradients of products.
    pub const OUTPUT_GRAD: [[f32; M]; N] = transpose(Self::OUTPUT);

    /// G^T: gradients of products to gradients of taps.
    pub const TAPS_GRAD: [[f32; N]; 3] = transpose(Self::TAPS);
}

const fn single<const N: usize>(values: [f64; N]) -> [f32; N] {
    let mut out = [0.0; N];
    let mut i = 0;
    while i < N {
        out[i] = values[i] as f32;
        i += 1;
    }
    out
}

const fn transpose<const R: usize, const C: usize>(matrix: [[f32; C]; R]) -> [[f32; R]; C] {
    let mut out = [[0.0; R]; C];
    let mut i = 0;
    while i < R * C {
        out[i % C][i / C] = matrix[i / C][i % C];
        i += 1;
    }
    out
}

/// Room for a transform from I x I to O x O values, lane by lane.
pub struct Room<const I: usize, const O: usize> {
    pub x: [[Lanes; I]; I],
    half: [[Lanes; I]; O],
    pub y: [[Lanes; O]; O],
}

impl<const I: usize, const O: usize> Room<I, O> {
    #[inline(always)]
    pub fn new() -> Self {
        Self { x: [[[0.0; LANES]; I]; I], half: [[[0.0; LANES]; I]; O], y: [[[0.0; LANES]; O]; O] }
    }

    /// `y = matrix x matrix^T`. The matrix must be a constant where this is inlined, so that the loops over it unroll.
    #[inline(always)]
    pub fn transform<S: Simd>(&mut self, matrix: &[[f32; I]; O]) {
        for column in 0..I {
            for lane in 0..LANES {
                let line: [f32; I] = std::array::from_fn(|row| self.x[row][column][lane]);
                for (half, factors) in self.half.iter_mut().zip(matrix) {
                    half[column][lane] = dot::<S, I>(factors, &line);
                }
            }
        }
        for row in 0..O {
            for lane in 0..LANES {
                let line: [f32; I] = std::array::from_fn(|column| self.half[row][column][lane]);
                for (y, factors) in self.y[row].iter_mut().zip(matrix) {
                    y[lane] = dot::<S, I>(factors, &line);
                }
            }
        }
    }
}

#[inline(always)]
fn dot<S: Simd, const I: usize>(factors: &[f32; I], values: &[f32; I]) -> f32 {
    let mut sum = 0.0;
    let mut started = false;
    for i in 0..I {
        if factors[i] != 0.0 {
            sum = if started { S::mul_add(factors[i], values[i], sum) } else { factors[i] * values[i] };
            started = true;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Baseline;

    fn dot<const I: usize>(factors: &[f32; I], values: &[f32; I]) -> f32 {
        super::dot::<Baseline, I>(factors, values)
    }

    fn convolves_a_line<const M: usize, const N: usize>() {
        let d: [f32; N] = std::array::from_fn(|i| (i * i) as f32 - 3.0);
        let g = [2.0, -1.0, 0.5];
        let products: [f32; N] =
            std::array::from_fn(|i| dot(&Tile::<M, N>::INPUT[i], &d) * dot(&Tile::<M, N>::TAPS[i], &g));
        for out in 0..M {
            let expected = d[out] * g[0] + d[out + 1] * g[1] + d[out + 2] * g[2];
            let got = dot(&Tile::<M, N>::OUTPUT[out], &products);
            assert!((got - expected).abs() < 1e-4, "F({M}) at {out}: {got} {expected}");
        }
    }

    #[test]
    fn matrices_convolve_a_line() {
        convolves_a_line::<2, 4>();
        convolves_a_line::<3, 5>();
        convolves_a_line::<4, 6>();
        convolves_a_line::<5, 7>();
        convolves_a_line::<6, 8>();
    }
}
