//! Equation (2) of the CAPL paper: a pixel scores alpha times the cosine of its feature and the class's prototype.

use burn::tensor::Tensor;

/// The paper's alpha: what a cosine is multiplied by before the softmax.
pub const ALPHA: f64 = 10.0;

/// Below this, a norm counts as this. No trained or pooled vector comes near it; a vector of zeros then scores zero
/// instead of NaN.
const TINY: f64 = 1e-12;

/// L2 norm over the last axis, kept as an axis of one.
pub fn norm<const D: usize>(rows: Tensor<D>) -> Tensor<D> {
    root(rows.square().sum_dim(D - 1))
}

/// The root of squares, at least [`TINY`]. Clamped before the root, so that a vector of zeros has a gradient of zero
/// and not NaN.
fn root<const D: usize>(squares: Tensor<D>) -> Tensor<D> {
    squares.clamp_min(TINY * TINY).sqrt()
}

/// Every vector of the last axis at unit length.
pub fn unit<const D: usize>(rows: Tensor<D>) -> Tensor<D> {
    let norms = norm(rows.clone());
    rows / norms
}

/// Cosine of corresponding rows: `[.., n, d]` twice -> `[.., n, 1]`.
pub fn cosine_of_rows<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    (unit(a) * unit(b)).sum_dim(D - 1)
}

/// Scores of every pixel for every class, with the paper's [`ALPHA`].
pub fn scores(features: Tensor<4>, prototypes: Tensor<3>) -> Tensor<4> {
    scaled_scores(features, prototypes, ALPHA)
}

/// Scores of every pixel for every class: `alpha` times the cosine.
///
/// - `features`: `[batch, d, h, w]`
/// - `prototypes`: `[1 or batch, classes, d]`
/// - result: `[batch, classes, h, w]`
pub fn scaled_scores(features: Tensor<4>, prototypes: Tensor<3>, alpha: f64) -> Tensor<4> {
    let [batch, dim, height, width] = features.dims();
    let [_, classes, _] = prototypes.dims();
    let pixels = features.reshape([batch, dim, height * width]);
    // Dividing the few scores rather than the many features by the pixels' norms gives the same for less.
    let norms = root(pixels.clone().square().sum_dim(1));
    let scores = unit(prototypes).mul_scalar(alpha).matmul(pixels) / norms;
    scores.reshape([batch, classes, height, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::tensor::Distribution;
    use proptest::prelude::*;
    use protoseg_testing::assert_close;

    #[test]
    fn scores_of_two_pixels_for_two_classes_by_hand() {
        // Pixels (3, 4) and (0, -2); classes (1, 0) and (2, 2).
        let features = Tensor::<1>::from_floats([3.0, 0.0, 4.0, -2.0], &cpu()).reshape([1, 2, 1, 2]);
        let prototypes = Tensor::<3>::from_floats([[[1.0, 0.0], [2.0, 2.0]]], &cpu());
        let out = scores(features, prototypes).try_into_vec_as::<f32>().unwrap();
        let expected = [6.0, 0.0, 70.0 / 50f32.sqrt(), -10.0 / 2f32.sqrt()];
        assert_close("scores", &out, &expected, 1e-5);
    }

    #[test]
    fn a_pixel_of_zeros_scores_zero() {
        let prototypes = Tensor::<3>::from_floats([[[1.0, 0.0]]], &cpu());
        let out: f32 = scores(Tensor::zeros([1, 2, 1, 1], &cpu()), prototypes).into_scalar();
        assert_eq!(out, 0.0);
    }

    #[test]
    fn a_prototype_of_zeros_has_no_gradient_rather_than_nan() {
        let device = cpu().autodiff();
        let features = Tensor::<4>::ones([1, 2, 1, 1], &device);
        let prototypes = Tensor::<3>::from_floats([[[0.0, 0.0], [1.0, 2.0]]], &device).require_grad();
        let grads = scores(features, prototypes.clone()).sum().backward();
        let grad: Vec<f32> = prototypes.grad(&grads).unwrap().try_into_vec_as().unwrap();
        assert!(grad.iter().all(|value| value.is_finite()), "{grad:?}");
        assert!(grad[2] != 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn scores_do_not_depend_on_any_scale(seed: u64, a in 0.01f32..100.0, b in 0.01f32..100.0) {
            let device = cpu();
            device.seed(seed);
            let normal = Distribution::Normal(0.0, 1.0);
            let features = Tensor::<4>::random([2, 8, 3, 2], normal, &device);
            let prototypes = Tensor::<3>::random([1, 5, 8], normal, &device);
            let plain = scores(features.clone(), prototypes.clone());
            let scaled = scores(features.mul_scalar(a), prototypes.mul_scalar(b));
            let values = |scores: Tensor<4>| scores.try_into_vec_as::<f32>().unwrap();
            assert_close("scores", &values(scaled), &values(plain), 1e-4);
        }
    }
}
