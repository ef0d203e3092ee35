//! Features cell by cell, as slices: what is fitted to an episode reads them many times.

use burn::tensor::Tensor;
use protoseg_kernels::channels_last::transpose;

/// The features of some images, one row per cell.
#[derive(Clone, Debug)]
pub struct Cells {
    /// `[images * h * w, dim]`
    pub rows: Vec<f32>,
    /// Length of a row.
    pub dim: usize,
}

impl Cells {
    /// Of `[images, d, h, w]`.
    pub fn new(features: Tensor<4>) -> Self {
        let [_, dim, height, width] = features.dims();
        let positions = height * width;
        let maps: Vec<f32> = features.try_into_vec_as().expect("features are f32");
        let rows = maps.chunks_exact(dim * positions).flat_map(|map| transpose(map, positions)).collect();
        Self { rows, dim }
    }

    /// Every row at unit length; rows of zeros stay.
    pub fn unit(mut self) -> Self {
        for row in self.rows.chunks_exact_mut(self.dim) {
            let norm = norm(row).max(1e-12);
            row.iter_mut().for_each(|value| *value /= norm);
        }
        self
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.rows.len() / self.dim
    }

    /// Whether there is no cell.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The length of a vector.
pub(super) fn norm(vector: &[f32]) -> f32 {
    vector.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt() as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::tensor::Tensor;

    #[test]
    fn rows_are_the_channels_of_a_cell() {
        let maps = Tensor::<1>::from_floats([3.0, 0.0, 4.0, 0.0, 1.0, 0.0, 0.0, 2.0], &cpu());
        let cells = Cells::new(maps.reshape([2, 2, 1, 2]));
        assert_eq!(cells.rows, [3.0, 4.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0]);
        assert_eq!(cells.unit().rows, [0.6, 0.8, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    }
}
