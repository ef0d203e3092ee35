//! Batch-norm, or a factor per channel, as part of the convolution before it.

use burn::{module::Param, nn::conv::Conv2d, tensor::Tensor};

use crate::nn::{BatchNorm, ConvWeights};

/// A convolution's weight `[to, from, kernel, kernel]` and bias, with what follows it included.
pub(crate) struct Folded {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

impl Folded {
    /// The weight is taken from `weights`.
    pub fn new(
        conv: &Conv2d,
        norm: Option<&BatchNorm>,
        factors: Option<&Param<Tensor<1>>>,
        weights: &ConvWeights,
    ) -> Self {
        let mut weight = weights.of(&conv.weight);
        let to = conv.weight.lazy_shape()[0];
        let bias = conv.bias.as_ref().map(values);
        let (scale, mut shift) = match (norm, factors) {
            (Some(norm), _) => norm.scale_and_shift(),
            (None, Some(factors)) => (values(factors), vec![0.0; to]),
            (None, None) => return Self { weight, bias: bias.unwrap_or_else(|| vec![0.0; to]) },
        };
        let filter = weight.len() / to;
        for (filter, scale) in weight.chunks_exact_mut(filter).zip(&scale) {
            filter.iter_mut().for_each(|tap| *tap *= scale);
        }
        for ((shift, scale), bias) in shift.iter_mut().zip(&scale).zip(bias.into_iter().flatten()) {
            *shift += scale * bias;
        }
        Self { weight, bias: shift }
    }
}

fn values(param: &Param<Tensor<1>>) -> Vec<f32> {
    param.val().try_into_vec_as().expect("weights are f32")
}
