//! Equations (1) and (3) of the CAPL paper: a class's prototype is the average of the features under its mask.
//!
//! What is kept is the sum of the features and the number of pixels, per image and class: every way of averaging over
//! shots and supports that the paper or its reference uses can be made from those, in any order.

use burn::tensor::{Tensor, TensorData};
use protoseg_core::RowMap;

use super::support_sums::ClassSum;

/// Sums of features under the masks of some classes.
pub struct MaskedSums {
    /// `[batch, classes, d]`
    pub sums: Tensor<3>,
    /// Pixels of each class in each image, on the feature grid: `[batch][classes]`.
    pub counts: Vec<Vec<f32>>,
}

/// Sums `features` (`[batch, d, h, w]`) over the pixels of each label in `classes`, image by image. `labels` are at any
/// size; they are brought to the features' grid by nearest neighbour.
pub fn masked_sums(features: Tensor<4>, labels: &[RowMap], classes: &[u16]) -> MaskedSums {
    let [batch, dim, height, width] = features.dims();
    assert_eq!(labels.len(), batch, "{} label maps for {batch} feature maps", labels.len());
    let positions = height * width;
    let mut masks = Vec::with_capacity(batch * classes.len() * positions);
    let mut counts = Vec::with_capacity(batch);
    for label in labels {
        let small = label.resize_nearest(width, height);
        let start = masks.len();
        for &class in classes {
            masks.extend(small.data.iter().map(|&label| f32::from(u8::from(label == class))));
        }
        counts.push(masks[start..].chunks(positions).map(|mask| mask.iter().sum()).collect());
    }
    let masks = TensorData::new(masks, [batch, classes.len(), positions]);
    let masks = Tensor::<3>::from_data(masks, &features.device());
    let pixels = features.reshape([batch, dim, positions]).swap_dims(1, 2);
    MaskedSums { sums: masks.matmul(pixels), counts }
}

/// What a support says of its own class and of every base class labelled in it. Other novel classes in the picture speak
/// through their own supports only.
pub fn class_sums(features: Tensor<4>, labels: &RowMap, own: u16, n_base: usize) -> Vec<ClassSum> {
    let mut wanted = labels.present();
    wanted.retain(|&row| row == own || usize::from(row) < n_base);
    if wanted.is_empty() {
        return Vec::new();
    }
    let pooled = masked_sums(features, std::slice::from_ref(labels), &wanted);
    let dim = pooled.sums.dims()[2];
    let sums: Vec<f32> = pooled.sums.try_into_vec_as().expect("features are f32");
    let sums = wanted.iter().zip(sums.chunks(dim)).zip(&pooled.counts[0]);
    let class_sum =
        |((&row, sum), &count): ((&u16, &[f32]), &f32)| ClassSum { row, sum: sum.to_vec(), count };
    sums.map(class_sum).filter(|sum| sum.count > 0.0).collect()
}

impl MaskedSums {
    /// One mean per class over the pixels of all images: `[classes, d]`. A class without pixels gets zeros.
    pub fn mean(self) -> Tensor<2> {
        let classes = self.sums.dims()[1];
        let total = |class: usize| self.counts.iter().map(|image| image[class]).sum::<f32>().max(1.0);
        let totals: Vec<f32> = (0..classes).map(total).collect();
        let totals = Tensor::<2>::from_data(TensorData::new(totals, [classes, 1]), &self.sums.device());
        self.sums.sum_dim(0).squeeze_dim(0) / totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use proptest::prelude::*;
    use protoseg_core::IGNORE;
    use protoseg_testing::assert_close;

    fn mean(features: &[f32], dims: [usize; 4], labels: &[RowMap], classes: &[u16]) -> Vec<f32> {
        let features = Tensor::from_data(TensorData::new(features.to_vec(), dims), &cpu());
        masked_sums(features, labels, classes).mean().try_into_vec_as().unwrap()
    }

    #[test]
    fn mean_over_two_images_by_hand() {
        // d = 2, 1 x 2 maps. Class 3 lies on the first pixel of image 0 and on both of image 1.
        let features = [1.0, 9.0, 2.0, 9.0, /* image 1 */ 4.0, 7.0, 5.0, 8.0];
        let labels = [RowMap::new(2, 1, vec![3, IGNORE]), RowMap::new(2, 1, vec![3, 3])];
        assert_eq!(mean(&features, [2, 2, 1, 2], &labels, &[3]), [4.0, 5.0]);
    }

    #[test]
    fn ignored_pixels_do_not_move_the_prototype() {
        let labels = [RowMap::new(3, 1, vec![0, IGNORE, 0])];
        let a = mean(&[1.0, 100.0, 3.0], [1, 1, 1, 3], &labels, &[0]);
        let b = mean(&[1.0, -5.0, 3.0], [1, 1, 1, 3], &labels, &[0]);
        assert_eq!((a[0], b[0]), (2.0, 2.0));
    }

    #[test]
    fn a_class_without_pixels_gets_zeros() {
        let labels = [RowMap::new(1, 1, vec![0])];
        assert_eq!(mean(&[4.0], [1, 1, 1, 1], &labels, &[0, 7]), [4.0, 0.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn prototype_of_a_constant_map_is_that_constant(
            value in -50f32..50.0,
            labels in proptest::collection::vec(0u16..3, 12),
        ) {
            let map = RowMap::new(4, 3, labels);
            let present = map.present();
            for prototype in mean(&[value; 24], [1, 2, 3, 4], std::slice::from_ref(&map), &present) {
                prop_assert!((prototype - value).abs() <= 1e-4 * value.abs().max(1.0), "{prototype}");
            }
        }

        #[test]
        fn order_of_supports_does_not_matter(
            features in proptest::collection::vec(-5f32..5.0, 24),
            labels in proptest::collection::vec(0u16..2, 12),
        ) {
            let maps = |order: [usize; 3]| order.map(|i| RowMap::new(2, 2, labels[4 * i..][..4].to_vec()));
            let ordered = |order: [usize; 3]| -> Vec<f32> {
                order.iter().flat_map(|&i| features[8 * i..][..8].to_vec()).collect()
            };
            let a = mean(&ordered([0, 1, 2]), [3, 2, 2, 2], &maps([0, 1, 2]), &[0, 1]);
            let b = mean(&ordered([2, 0, 1]), [3, 2, 2, 2], &maps([2, 0, 1]), &[0, 1]);
            assert_close("prototypes", &a, &b, 1e-5);
        }
    }
}
