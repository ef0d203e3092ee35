//! Masks of supports on the grid of a map, and averages under them.

use burn::tensor::{Device, Tensor, TensorData};
use protoseg_core::RowMap;

use crate::nn::upsample;

/// Labels of an episode.
pub const BACKGROUND: u16 = 0;
/// The class.
pub const FOREGROUND: u16 = 1;

/// Where each label map has `class`, as 0 and 1, brought to `[h, w]` by bilinear resizing with corners on corners:
/// `[maps, 1, h, w]`. From 8n + 1 pixels to n + 1 cells that is every eighth pixel; at other sizes it is soft.
pub fn masks(labels: &[RowMap], class: u16, size: [usize; 2], device: &Device) -> Tensor<4> {
    let masks = labels.iter().map(|label| {
        let mask: Vec<f32> = label.data.iter().map(|&label| f32::from(u8::from(label == class))).collect();
        let mask = TensorData::new(mask, [1, 1, label.height, label.width]);
        upsample(Tensor::<4>::from_data(mask, device), size)
    });
    Tensor::cat(masks.collect(), 0)
}

/// The mean of `features` (`[n, d, h, w]`) under `mask` (`[n, 1, h, w]`), with `tiny` added to the area: `[n, d]`.
pub fn masked_average(features: Tensor<4>, mask: Tensor<4>, tiny: f64) -> Tensor<2> {
    let [n, dim, height, width] = features.dims();
    let mask = mask.reshape([n, 1, height * width]);
    let area = mask.clone().sum_dim(2).add_scalar(tiny);
    let pixels = features.reshape([n, dim, height * width]).swap_dims(1, 2);
    (mask.matmul(pixels) / area).reshape([n, dim])
}

/// The mean over the shots of each episode: `[episodes * shots, ..]` -> `[episodes, ..]`.
pub fn mean_over_shots<const D: usize>(values: Tensor<D>, shots: usize) -> Tensor<D> {
    let dims = values.dims();
    let rest: usize = dims[1..].iter().product();
    let episodes = dims[0] / shots;
    let mut out = dims;
    out[0] = episodes;
    values.reshape([episodes, shots, rest]).mean_dim(1).reshape(out)
}

/// `[n, d]` at every place of a map: `[n, d, h, w]`.
pub fn tiled(vectors: Tensor<2>, [height, width]: [usize; 2]) -> Tensor<4> {
    let [n, dim] = vectors.dims();
    vectors.reshape([n, dim, 1, 1]).expand([n, dim, height, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_testing::assert_close;

    #[test]
    fn a_mask_of_8n_plus_1_pixels_stays_binary_and_weighs_its_cells() {
        let mut label = RowMap::new(17, 17, vec![0; 17 * 17]);
        label.data[8 * 17 + 16] = 1;
        let mask = masks(&[label], FOREGROUND, [3, 3], &cpu());
        let values: Vec<f32> = mask.clone().try_into_vec_as().unwrap();
        assert_eq!(values, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let features = Tensor::<1>::from_floats([1., 2., 3., 4., 5., 6., 7., 8., 9.], &cpu());
        let mean = masked_average(features.reshape([1, 1, 3, 3]), mask, 0.5);
        assert_close("mean", &mean.try_into_vec_as::<f32>().unwrap(), &[6.0 / 1.5], 1e-6);
    }
}
