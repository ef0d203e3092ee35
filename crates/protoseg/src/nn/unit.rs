//! Vectors at unit length.

use burn::tensor::Tensor;

/// Below this, a norm counts as this: a vector of zeros stays one, with a gradient of zero and not NaN.
const TINY: f64 = 1e-12;

/// Every pixel of maps `[batch, d, h, w]` at unit length over its channels.
pub fn unit_pixels(maps: Tensor<4>) -> Tensor<4> {
    let norms = maps.clone().square().sum_dim(1).clamp_min(TINY * TINY).sqrt();
    maps / norms
}
