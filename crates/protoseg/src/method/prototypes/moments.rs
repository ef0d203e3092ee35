//! What one pass over labelled images keeps of the base classes: counts, sums, and the second moment of pixels in which
//! every class weighs the same.

use burn::tensor::{Tensor, TensorData};
use protoseg_core::RowMap;

use crate::method::pooling::masked_sums;

/// Statistics of pixels by class.
#[derive(Clone, Debug)]
pub struct Moments {
    dim: usize,
    /// Positions of each class in all images, known before the first.
    counts: Vec<f64>,
    /// `[classes, d]`
    sums: Vec<f64>,
    /// Sum over classes of the mean of f f^T over the class's positions, `[d, d]`.
    second: Vec<f64>,
}

impl Moments {
    /// Of classes with these numbers of positions in all images.
    pub fn new(dim: usize, counts: &[u64]) -> Self {
        Self {
            dim,
            counts: counts.iter().map(|&count| count as f64).collect(),
            sums: vec![0.0; counts.len() * dim],
            second: vec![0.0; dim * dim],
        }
    }

    /// Takes in an image: features `[1, d, h, w]` and the labels of their grid.
    pub fn add(&mut self, features: Tensor<4>, labels: &RowMap) {
        let dim = self.dim;
        let classes: Vec<u16> =
            labels.present().into_iter().filter(|&row| usize::from(row) < self.counts.len()).collect();
        if classes.is_empty() {
            return;
        }
        let pooled = masked_sums(features.clone(), std::slice::from_ref(labels), &classes);
        let sums: Vec<f32> = pooled.sums.try_into_vec_as().expect("features are f32");
        for (&row, sum) in classes.iter().zip(sums.chunks_exact(dim)) {
            let all = &mut self.sums[usize::from(row) * dim..][..dim];
            all.iter_mut().zip(sum).for_each(|(all, &sum)| *all += f64::from(sum));
        }
        // Every position weighs one over the size of its class.
        let device = features.device();
        let weight = |&label: &u16| match self.counts.get(usize::from(label)) {
            Some(&count) if count > 0.0 => (1.0 / count).sqrt() as f32,
            _ => 0.0,
        };
        let weights: Vec<f32> = labels.data.iter().map(weight).collect();
        let positions = weights.len();
        let weights = Tensor::<2>::from_data(TensorData::new(weights, [1, positions]), &device);
        let weighted = features.reshape([dim, positions]) * weights;
        let second: Vec<f32> =
            weighted.clone().matmul(weighted.transpose()).try_into_vec_as().expect("features are f32");
        self.second.iter_mut().zip(second).for_each(|(all, value)| *all += f64::from(value));
    }

    /// The mean of each class, `[classes, d]`; zeros for a class without a position.
    pub fn means(&self) -> Vec<f64> {
        let rows = self.sums.chunks_exact(self.dim).zip(&self.counts);
        rows.flat_map(|(sum, &count)| sum.iter().map(move |sum| sum / count.max(1.0))).collect()
    }

    /// The mean over classes of their means, `[d]`, and of the covariances within them, `[d, d]`.
    pub fn centre_and_covariance(&self) -> (Vec<f64>, Vec<f64>) {
        let dim = self.dim;
        let means = self.means();
        let seen: Vec<&[f64]> = means
            .chunks_exact(dim)
            .zip(&self.counts)
            .filter(|(_, count)| **count > 0.0)
            .map(|(mean, _)| mean)
            .collect();
        let classes = seen.len().max(1) as f64;
        let mut covariance = self.second.clone();
        let mut centre = vec![0.0; dim];
        for mean in &seen {
            for (i, a) in mean.iter().enumerate() {
                centre[i] += a / classes;
                let row = &mut covariance[i * dim..][..dim];
                row.iter_mut().zip(*mean).for_each(|(value, b)| *value -= a * b);
            }
        }
        covariance.iter_mut().for_each(|value| *value /= classes);
        (centre, covariance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_core::IGNORE;

    #[test]
    fn two_classes_by_hand() {
        // d = 1. Class 0: 1 and 3 in two images; class 1: 5, 5, 8, 6 (mean 6, variance 1.5).
        let image = |values: &[f32]| {
            Tensor::<4>::from_data(TensorData::new(values.to_vec(), [1, 1, 1, values.len()]), &cpu())
        };
        let labels = |rows: &[u16]| RowMap::new(rows.len(), 1, rows.to_vec());
        let mut moments = Moments::new(1, &[2, 4]);
        moments.add(image(&[1.0, 5.0, 9.0, 5.0]), &labels(&[0, 1, IGNORE, 1]));
        moments.add(image(&[8.0, 3.0, 6.0]), &labels(&[1, 0, 1]));
        assert_eq!(moments.means(), [2.0, 6.0]);
        let (centre, covariance) = moments.centre_and_covariance();
        assert_eq!(centre, [4.0]);
        // Variances 1 and 1.5, each class once.
        assert!((covariance[0] - 1.25).abs() < 1e-6, "{covariance:?}");
    }
}
