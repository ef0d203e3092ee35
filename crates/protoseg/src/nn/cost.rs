//! What a forward pass costs: multiply-accumulates a convolution.

use burn::nn::conv::Conv2d;

/// One convolution of a network at one input size.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvCost {
    pub kernel: usize,
    pub macs: u64,
}

/// The convolutions met so far, in the order of the forward pass.
#[derive(Clone, Debug, Default)]
pub struct Cost(pub Vec<ConvCost>);

impl Cost {
    /// Notes `conv` on a map of `[height, width]` and returns the size of its output.
    pub fn conv(&mut self, conv: &Conv2d, [height, width]: [usize; 2]) -> [usize; 2] {
        // Every padded convolution here is padded to keep its size at stride 1.
        let out = [height.div_ceil(conv.stride[0]), width.div_ceil(conv.stride[1])];
        let weights = conv.weight.lazy_shape().num_elements();
        self.0.push(ConvCost { kernel: conv.kernel_size[0], macs: (weights * out[0] * out[1]) as u64 });
        out
    }

    pub fn macs(&self) -> u64 {
        self.0.iter().map(|conv| conv.macs).sum()
    }
}
