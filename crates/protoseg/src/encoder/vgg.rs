//! VGG-16 (Simonyan and Zisserman 2015), dilated as PANet (Wang et al. 2019) uses it.
//!
//! Five blocks of 3x3 convolutions with bias. 3x3 max pooling of stride 2 after the first three (and, at output stride
//! 16, the fourth) blocks; at output stride 8 the pooling after the fourth keeps the size and the fifth block dilates
//! by 2. The last ReLU is left out, so that features are signed.

use burn::{module::Module, nn::conv::Conv2d, tensor::Device};
use serde::{Deserialize, Serialize};

use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    nn::Conv,
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
    /// Stride of the pooling after the fourth block.
    last_pool_stride: usize,
}

impl Vgg {
    pub(super) fn output_stride(&self) -> usize {
        8 * self.last_pool_stride
    }

    pub(super) fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        let mut x = image;
        let mut stages = Vec::new();
        for (block, VggBlock { convs }) in self.blocks.iter().enumerate() {
            if block > 0 {
                let stride = if block == 4 { self.last_pool_stride } else { 2 };
                x = graph.max_pool(format!("block{block}.pool"), x, stride);
            }
            for (index, conv) in convs.iter().enumerate() {
                x = graph.conv(format!("block{}.{index}", block + 1), conv, x);
                let is_last = block == 4 && index + 1 == convs.len();
                if !is_last {
                    x = graph.relu(x);
                }
            }
            stages.push(x);
        }
        stages
    }
}
