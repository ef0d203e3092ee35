//! From wide maps to the embedding: 3x3 convolution, batch-norm, ReLU, channel dropout, 1x1 convolution with bias. No
//! ReLU last, so that features are signed. With half the channels it is also the auxiliary head.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor},
};

use crate::{
    bridge::conv,
    nn::{Conv, ConvNorm, Cost, Dropout2d},
};

/// `[batch, from, h, w]` -> `[batch, dim, h, w]`.
#[derive(Module, Debug)]
pub struct Projector {
    pub conv: ConvNorm,
    pub dropout: Dropout2d,
    pub out: Conv2d,
}

impl Projector {
    pub fn new(from: usize, dim: usize, dropout: f64, device: &Device) -> Self {
        Self {
            conv: ConvNorm::new(Conv::new(from, dim, 3), device),
            dropout: Dropout2d::new(dropout),
            out: Conv::new(dim, dim, 1).bias().init(device),
        }
    }

    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.finish(conv(&self.conv.conv, x))
    }

    /// Everything behind the first convolution.
    pub(super) fn finish(&self, convolved: Tensor<4>) -> Tensor<4> {
        let x = self.conv.bn.forward_relu(convolved);
        conv(&self.out, self.dropout.forward(x))
    }

    pub(crate) fn cost(&self, cost: &mut Cost, size: [usize; 2]) {
        self.conv.cost(cost, size);
        cost.conv(&self.out, size);
    }
}
