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

/// Added to the area under a mask by [`means_at_mask_size`].
pub const TINY_AREA: f32 = 1e-5;

/// The mean feature of background and foreground under each mask, as if the features were resized up to it:
/// `[images, d, h, w]` -> `[images, 2, d]`. `weights` of two sides are the share of each position of the first in each of
/// the second.
///
/// Averaging is linear, so the masks are brought down to the features instead, by the transposed weights: the same
/// numbers from a map 64 times smaller.
pub fn means_at_mask_size(
    features: Tensor<4>,
    labels: &[RowMap],
    weights: fn(usize, usize) -> Vec<Vec<f32>>,
) -> Tensor<3> {
    let [images, dim, height, width] = features.dims();
    let mut masks = Vec::with_capacity(images * 2 * height * width);
    for label in labels {
        let (rows, columns) = (weights(height, label.height), weights(width, label.width));
        for class in [BACKGROUND, FOREGROUND] {
            let mask: Vec<f32> =
                label.data.iter().map(|&label| f32::from(u8::from(label == class))).collect();
            let area = mask.iter().sum::<f32>() + TINY_AREA;
            masks.extend(brought_down(&mask, &rows, &columns).into_iter().map(|share| share / area));
        }
    }
    let masks = TensorData::new(masks, [images, 2, height * width]);
    let masks = Tensor::<3>::from_data(masks, &features.device());
    masks.matmul(features.reshape([images, dim, height * width]).swap_dims(1, 2))
}

/// `rows^T mask columns`: how much each position of the features counts under the mask. `rows` is `[height][h]`,
/// `columns` is `[width][w]`.
fn brought_down(mask: &[f32], rows: &[Vec<f32>], columns: &[Vec<f32>]) -> Vec<f32> {
    let (h, w) = (rows[0].len(), columns[0].len());
    // A pixel lies between few positions.
    let columns: Vec<Vec<(usize, f64)>> = columns.iter().map(|column| present(column).collect()).collect();
    let mut shares = vec![0f64; h * w];
    for (line, row) in mask.chunks_exact(columns.len()).zip(rows) {
        let mut across = vec![0f64; w];
        for (&value, column) in line.iter().zip(&columns).filter(|(value, _)| **value != 0.0) {
            column.iter().for_each(|&(x, share)| across[x] += f64::from(value) * share);
        }
        for (y, share) in present(row) {
            let line = &mut shares[y * w..][..w];
            line.iter_mut().zip(&across).for_each(|(sum, value)| *sum += share * value);
        }
    }
    shares.into_iter().map(|share| share as f32).collect()
}

/// The shares that are not zero, with their places.
fn present(shares: &[f32]) -> impl Iterator<Item = (usize, f64)> {
    shares.iter().enumerate().filter(|(_, share)| **share != 0.0).map(|(at, &share)| (at, f64::from(share)))
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

/// The same for every shot of an episode: `[episodes, ..]` -> `[episodes * shots, ..]`.
pub fn for_every_shot(values: Tensor<4>, shots: usize) -> Tensor<4> {
    if shots == 1 {
        return values;
    }
    let [episodes, channels, height, width] = values.dims();
    let values = values.unsqueeze_dim::<5>(1).expand([episodes, shots, channels, height, width]);
    values.reshape([episodes * shots, channels, height, width])
}

/// `[n, d]` at every place of a map: `[n, d, h, w]`.
pub fn tiled(vectors: Tensor<2>, [height, width]: [usize; 2]) -> Tensor<4> {
    let [n, dim] = vectors.dims();
    vectors.reshape([n, dim, 1, 1]).expand([n, dim, height, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        nn::{resize_centred_weights, upsample_weights},
    };
    use protoseg_core::IGNORE;
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

    #[test]
    fn a_mask_of_the_features_size_gives_the_plain_mean() {
        let features = Tensor::<1>::from_floats([1.0, 3.0, 5.0, 7.0], &cpu()).reshape([1, 1, 1, 4]);
        let label = RowMap::new(4, 1, vec![1, 0, 1, IGNORE]);
        let means = means_at_mask_size(features, &[label], resize_centred_weights);
        assert_close("means", &means.try_into_vec_as::<f32>().unwrap(), &[3.0, 3.0], 1e-4);
    }

    #[test]
    fn a_larger_mask_weighs_the_features_as_upsampling_would() {
        let features = Tensor::<1>::from_floats([10.0, 20.0], &cpu()).reshape([1, 1, 1, 2]);
        let label = RowMap::new(4, 1, vec![0, 1, 0, 0]);
        let means = |weights| {
            let means = means_at_mask_size(features.clone(), std::slice::from_ref(&label), weights);
            means.try_into_vec_as::<f32>().unwrap()
        };
        // Two positions, upsampled to four by centres: 0, 0.25, 0.75, 1 of the way. The class is on the second pixel.
        let expected = [(10.0 + 17.5 + 20.0) / 3.0, 12.5];
        assert_close("by centres", &means(resize_centred_weights), &expected, 1e-3);
        // By corners: 0, 1/3, 2/3, 1.
        let expected = [(10.0 + 50.0 / 3.0 + 20.0) / 3.0, 40.0 / 3.0];
        assert_close("by corners", &means(upsample_weights), &expected, 1e-3);
    }
}
