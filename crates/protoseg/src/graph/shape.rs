//! Sizes of maps.

use burn::nn::conv::Conv2d;
use protoseg_kernels::ConvShape;

use super::{Graph, Op, PerNode};
use crate::bridge::ConvGeometry;

/// `[height, width, channels]` of a map.
pub(crate) type MapShape = [usize; 3];

impl Graph<'_> {
    /// The map of every node, given the input's.
    pub fn shapes(&self, input: MapShape) -> PerNode<MapShape> {
        let mut shapes = PerNode(Vec::with_capacity(self.nodes.len()));
        for entry in &self.nodes {
            let of = |index: usize| shapes[entry.inputs[index]];
            let shape = match entry.op {
                Op::Input => input,
                Op::Conv(conv) => {
                    let shape = conv_shape(conv, of(0));
                    [shape.out_height(), shape.out_width(), shape.to]
                }
                Op::Norm(_)
                | Op::Activation(_)
                | Op::Add
                | Op::Dropout(_)
                | Op::LayerNorm(_)
                | Op::Scale(_)
                | Op::Gelu
                | Op::HardSwish
                | Op::HardSigmoid
                | Op::Weigh => of(0),
                Op::Tokens(tokens) => {
                    let [height, width, channels] = of(0);
                    [1, tokens.prefix() + height * width, channels]
                }
                Op::Grid { .. } => [of(1)[0], of(1)[1], of(0)[2]],
                Op::Gated => [of(0)[0], of(0)[1], of(0)[2] / 2],
                Op::Attention { .. } => [of(0)[0], of(0)[1], of(0)[2] / 3],
                Op::MaxPool(pool) => {
                    let [height, width, channels] = of(0);
                    [pool.out(height), pool.out(width), channels]
                }
                Op::AveragePool { bins } => [bins, bins, of(0)[2]],
                Op::Resize => [of(1)[0], of(1)[1], of(0)[2]],
                Op::Concat | Op::Stages => {
                    let [height, width, _] = of(0);
                    [height, width, entry.inputs.iter().map(|&part| shapes[part][2]).sum()]
                }
            };
            shapes.0.push(shape);
        }
        shapes
    }
}

/// A convolution on one map.
pub(crate) fn conv_shape(conv: &Conv2d, [height, width, from]: MapShape) -> ConvShape {
    let [to, _, kernel, _] = conv.weight.lazy_shape().dims();
    ConvGeometry::of(conv).shape([1, from, height, width], to, kernel)
}
