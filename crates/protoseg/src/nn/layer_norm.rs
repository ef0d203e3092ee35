//! Layer normalisation of the channels of every position.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Device, Tensor},
};

/// Gives every position of `[batch, channels, height, width]` mean 0 and deviation 1 over its channels, then scales and
/// shifts each channel. Burn's own works on the last axis, and channels are not the last here.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale per channel.
    pub weight: Param<Tensor<1>>,
    /// Shift per channel.
    pub bias: Param<Tensor<1>>,
    /// Added to the variance before its root is taken.
    pub epsilon: f64,
}

impl LayerNorm {
    /// With scale 1 and shift 0.
    pub fn new(channels: usize, epsilon: f64, device: &Device) -> Self {
        let weight = Initializer::Ones.init([channels], device);
        Self { weight, bias: Initializer::Zeros.init([channels], device), epsilon }
    }

    /// Scale and shift, one of each per channel.
    pub(crate) fn scale_and_shift(&self) -> [Vec<f32>; 2] {
        [&self.weight, &self.bias].map(|values| values.val().try_into_vec_as().expect("weights are f32"))
    }

    /// The normalised maps.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let channels = x.dims()[1];
        let centred = x.clone() - x.mean_dim(1);
        let variance = centred.clone().square().mean_dim(1);
        let unit = centred / variance.add_scalar(self.epsilon).sqrt();
        let by_channel = |values: &Param<Tensor<1>>| values.val().reshape([1, channels, 1, 1]);
        unit * by_channel(&self.weight) + by_channel(&self.bias)
    }
}
