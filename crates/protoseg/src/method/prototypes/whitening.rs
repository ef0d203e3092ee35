//! A space in which classes vary by the same amount in every direction.
//!
//! With means mu_c of the base classes, W = mean over classes of the covariance within the class, g = mean of mu_c:
//! A = W + s mean(diag W) I, L L^T = A^-1, and the score of a feature f for a prototype p is
//! cos((f - g) L, (p - g) L). Directions in which pixels of one class differ much say little about the class.

use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor, TensorData},
};
use protoseg_kernels::channels_last::{Finish, Panels, lanes, multiply};

/// g and L.
#[derive(Module, Debug)]
pub struct Whitening {
    /// g, `[1, d]`
    pub centre: Param<Tensor<2>>,
    /// L, `[d, d]`
    pub matrix: Param<Tensor<2>>,
}

impl Whitening {
    /// Of the mean of class means `[d]` and the mean covariance within classes `[d, d]`, with the shrinkage s.
    pub fn new(centre: &[f64], covariance: &[f64], shrinkage: f64, device: &Device) -> Self {
        let dim = centre.len();
        let mean_variance = (0..dim).map(|i| covariance[i * dim + i]).sum::<f64>() / dim.max(1) as f64;
        // Pixels that never differ leave no direction to prefer.
        let ridge = (shrinkage * mean_variance).max(f64::MIN_POSITIVE.sqrt());
        let mut shrunk = covariance.to_vec();
        (0..dim).for_each(|i| shrunk[i * dim + i] += ridge);
        let inverse = inverse_root(shrunk, dim);
        let matrix: Vec<f32> = inverse.into_iter().map(|value| value as f32).collect();
        let centre: Vec<f32> = centre.iter().map(|&value| value as f32).collect();
        let tensor = |values: Vec<f32>, shape: [usize; 2]| {
            Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
        };
        Self { centre: tensor(centre, [1, dim]), matrix: tensor(matrix, [dim, dim]) }
    }

    /// Zeros, about to be loaded.
    pub fn empty(dim: usize, device: &Device) -> Self {
        Self {
            centre: Param::from_tensor(Tensor::zeros([1, dim], device)),
            matrix: Param::from_tensor(Tensor::zeros([dim, dim], device)),
        }
    }

    /// `[n, d]` -> `[n, d]`, not of unit length.
    pub fn apply(&self, rows: Tensor<2>) -> Tensor<2> {
        (rows - self.centre.val()).matmul(self.matrix.val())
    }

    /// The same of many rows, by a kernel.
    pub(super) fn apply_to(&self, rows: &[f32]) -> Vec<f32> {
        let values = |tensor: Tensor<2>| -> Vec<f32> { tensor.try_into_vec_as().expect("weights are f32") };
        let (centre, matrix) = (self.centre.val(), values(self.matrix.val()));
        let dim = centre.dims()[1];
        let panels = Panels::new(dim, dim, |row, column| matrix[row * dim + column]);
        let moved: Vec<f32> = values(centre.neg().matmul(self.matrix.val()));
        let bias = lanes(&moved);
        let mut out = vec![0.0; rows.len()];
        multiply(rows, &panels, Finish { bias: Some(&bias), ..Finish::default() }, &mut out, dim);
        out
    }
}

/// L with `L L^T = A^-1` of a symmetric positive definite matrix A, by Cholesky's A = C C^T: L = C^-T.
fn inverse_root(mut a: Vec<f64>, dim: usize) -> Vec<f64> {
    // C replaces the lower half of A, row by row.
    for i in 0..dim {
        let (above, below) = a.split_at_mut(i * dim);
        let row = &mut below[..dim];
        for j in 0..i {
            let other = &above[j * dim..][..=j];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        row[i] = (row[i] - dot(&row[..i], &row[..i])).max(f64::MIN_POSITIVE).sqrt();
    }
    // Row j of L^T = C^-1 solves C x = e_j; L has these as columns. Computed by columns of C^-1.
    let mut inverse = vec![0.0; dim * dim];
    for j in 0..dim {
        // x[i] for i >= j; column j of C^-1, which is row j of L.
        let x = &mut inverse[j * dim..][..dim];
        x[j] = 1.0 / a[j * dim + j];
        for i in j + 1..dim {
            let row = &a[i * dim..][..dim];
            x[i] = -dot(&row[j..i], &x[j..i]) / row[i];
        }
    }
    inverse
}

/// Four sums at a time, so that the compiler can use vectors.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_blocks, a_rest) = a.as_chunks::<4>();
    let (b_blocks, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_testing::assert_close;

    #[test]
    fn the_root_by_hand() {
        // A = [[4, 2], [2, 5]]: C = [[2, 0], [1, 2]], C^-1 = [[1/2, 0], [-1/4, 1/2]], L = its transpose.
        assert_eq!(inverse_root(vec![4.0, 2.0, 2.0, 5.0], 2), [0.5, -0.25, 0.0, 0.5]);
    }

    #[test]
    fn whitened_lengths_are_those_of_the_inverse() {
        let dim = 9;
        let noise = |i: usize| ((i * 7919 + 13) % 101) as f64 / 50.0 - 1.0;
        let root: Vec<f64> = (0..dim * dim).map(noise).collect();
        let a = |i: usize, j: usize| {
            let sum: f64 = (0..dim).map(|k| root[i * dim + k] * root[j * dim + k]).sum();
            sum + if i == j { 1.0 } else { 0.0 }
        };
        let matrix: Vec<f64> = (0..dim * dim).map(|at| a(at / dim, at % dim)).collect();
        let l = inverse_root(matrix.clone(), dim);
        // L^T A L is the identity.
        let at = |m: &[f64], i: usize, j: usize| m[i * dim + j];
        for i in 0..dim {
            for j in 0..dim {
                let value: f64 = (0..dim)
                    .flat_map(|x| (0..dim).map(move |y| (x, y)))
                    .map(|(x, y)| at(&l, x, i) * at(&matrix, x, y) * at(&l, y, j))
                    .sum();
                assert!((value - f64::from(u8::from(i == j))).abs() < 1e-9, "{i} {j}: {value}");
            }
        }
    }

    #[test]
    fn a_direction_that_varies_much_counts_less() {
        let whitening = Whitening::new(&[1.0, 0.0], &[4.0, 0.0, 0.0, 1.0], 0.0, &cpu());
        let rows = Tensor::<2>::from_floats([[3.0, 2.0]], &cpu());
        let out: Vec<f32> = whitening.apply(rows).try_into_vec_as().unwrap();
        assert_close("whitened", &out, &[1.0, 2.0], 1e-6);
        assert_close("by the kernel", &whitening.apply_to(&[3.0, 2.0]), &[1.0, 2.0], 1e-6);
    }
}
