//! From wide maps to the embedding: 3x3 convolution, batch-norm, ReLU, channel dropout, 1x1 convolution with bias. No
//! ReLU last, so that features are signed. With half the channels it is also the auxiliary head.

use burn::{module::Module, nn::conv::Conv2d, tensor::Device};

use crate::{
    graph::{Graph, Node},
    nn::{Conv, ConvNorm, Dropout2d},
};

/// `[batch, from, h, w]` -> `[batch, dim, h, w]`.
#[derive(Module, Debug)]
pub struct Projector {
    /// The 3x3 with batch-norm.
    pub conv: ConvNorm,
    /// Of whole channels, in training.
    pub dropout: Dropout2d,
    /// The last 1x1, with bias.
    pub out: Conv2d,
}

impl Projector {
    /// With fresh weights.
    pub fn new(from: usize, dim: usize, dropout: f64, device: &Device) -> Self {
        Self {
            conv: ConvNorm::new(Conv::new(from, dim, 3), device),
            dropout: Dropout2d::new(dropout),
            out: Conv::new(dim, dim, 1).bias().init(device),
        }
    }

    pub(crate) fn describe<'a>(&'a self, graph: &mut Graph<'a>, name: &str, x: Node) -> Node {
        let x = graph.conv_norm(format!("{name}.conv"), &self.conv, x);
        let x = graph.relu(x);
        let x = graph.dropout(&self.dropout, x);
        graph.conv(format!("{name}.out"), &self.out, x)
    }
}
