//! VGG-16 (Simonyan and Zisserman 2015), dilated as PANet (Wang et al. 2019) uses it.
//!
//! Five blocks of 3x3 convolutions with bias. 3x3 max pooling of stride 2 behind the first three (and, at output stride
//! 16, the fourth) blocks; at output stride 8 the pooling behind the fourth keeps the size and the fifth block dilates
//! by 2. The last ReLU is left out, so that features are signed.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor, activation::relu},
};
use serde::{Deserialize, Serialize};

use crate::{
    bridge,
    config::ConfigError,
    nn::{Conv, Cost, max_pool_3x3},
};

/// VGG-16 without its fully connected layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VggConfig {
    /// 8 or 16.
    pub output_stride: usize,
}

/// Convolutions and channels of the five blocks.
pub(crate) const BLOCKS: [(usize, usize); 5] = [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)];

impl VggConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        if ![8, 16].contains(&self.output_stride) {
            return Err(ConfigError::new("encoder.output_stride", self.output_stride, "8 or 16 for VGG-16"));
        }
        Ok(())
    }

    pub(super) fn channels(&self) -> [usize; 2] {
        [BLOCKS[3].1, BLOCKS[4].1]
    }

    pub fn init(&self, device: &Device) -> Vgg {
        let mut from = 3;
        let dilated = self.output_stride == 8;
        let blocks = BLOCKS.iter().enumerate().map(|(block, &(convs, channels))| {
            let dilation = if block == 4 && dilated { 2 } else { 1 };
            let convs = (0..convs)
                .map(|_| {
                    let conv = Conv::new(from, channels, 3).dilation(dilation).bias();
                    from = channels;
                    conv.init_he(device)
                })
                .collect();
            VggBlock { convs }
        });
        Vgg { blocks: blocks.collect(), last_pool_stride: if dilated { 1 } else { 2 } }
    }
}

/// The convolutions between two poolings.
#[derive(Module, Debug)]
pub struct VggBlock {
    pub convs: Vec<Conv2d>,
}

/// VGG-16. See the module's head.
#[derive(Module, Debug)]
pub struct Vgg {
    pub blocks: Vec<VggBlock>,
    /// Stride of the pooling behind the fourth block.
    last_pool_stride: usize,
}

impl Vgg {
    pub(super) fn output_stride(&self) -> usize {
        8 * self.last_pool_stride
    }

    pub(crate) fn pool_stride(&self, block: usize) -> usize {
        if block == 3 { self.last_pool_stride } else { 2 }
    }

    pub fn forward(&self, image: Tensor<4>) -> [Tensor<4>; 5] {
        let mut x = image;
        std::array::from_fn(|block| {
            if block > 0 {
                x = max_pool_3x3(x.clone(), self.pool_stride(block - 1));
            }
            let convs = &self.blocks[block].convs;
            for (i, conv) in convs.iter().enumerate() {
                x = bridge::conv(conv, x.clone());
                let is_last = block == 4 && i + 1 == convs.len();
                if !is_last {
                    x = relu(x.clone());
                }
            }
            x.clone()
        })
    }

    pub(super) fn cost(&self, cost: &mut Cost, size: [usize; 2]) -> [[usize; 2]; 2] {
        let mut sizes = [size; 2];
        for (block, VggBlock { convs }) in self.blocks.iter().enumerate() {
            let mut size = sizes[1];
            if block > 0 {
                size = size.map(|side| side.div_ceil(self.pool_stride(block - 1)));
            }
            sizes = [sizes[1], convs.iter().fold(size, |size, conv| cost.conv(conv, size))];
        }
        sizes
    }
}
