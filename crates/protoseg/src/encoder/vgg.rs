//! VGG-16 (Simonyan and Zisserman 2015), dilated as PANet (Wang et al. 2019) uses it.
//!
//! Five blocks of 3x3 convolutions with bias. 3x3 max pooling of stride 2 after the first three (and, at output stride
//! 16, the fourth) blocks; at output stride 8 the pooling after the fourth keeps the size and the fifth block dilates
//! by 2. The last ReLU is left out, so that features are signed. At output stride 32 it is torchvision's own network, as
//! HSNet uses it: 2x2 max pooling after each of the five blocks, and every ReLU.

use burn::{module::Module, nn::conv::Conv2d, tensor::Device};
use protoseg_kernels::channels_last::MaxPool;
use serde::{Deserialize, Serialize};

use super::table::{Describe, Family, Rename, Settings, Tensors};
use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    nn::Conv,
};

/// VGG-16 without its fully connected layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VggConfig {
    /// 8, 16 or 32.
    pub output_stride: usize,
}

/// Convolutions and channels of the five blocks.
const BLOCKS: [(usize, usize); 5] = [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)];

impl Family for VggConfig {
    type Encoder = Vgg;

    const NAMES: &'static [&'static str] = &["vgg16"];
    const TENSORS: &'static str = "VGG-16 (`features.0.weight`, ..)";

    fn parse(name: &str) -> Option<Self> {
        (name == "vgg16").then_some(Self { output_stride: 8 })
    }

    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
        tensors.shape("features.0.weight")?;
        Some(Ok(Self { output_stride: 8 }))
    }

    /// torchvision: convolutions numbered among the ReLUs and poolings between them.
    fn rename(name: &str) -> Rename {
        if name.starts_with("classifier.") {
            return Rename::Skip;
        }
        let layer = name.strip_prefix("features.").and_then(|rest| rest.split_once('.'));
        let Some((Ok(layer), kind)) = layer.map(|(layer, kind)| (layer.parse::<usize>(), kind)) else {
            return Rename::Unknown;
        };
        let mut first = 0;
        for (block, &(convs, _)) in BLOCKS.iter().enumerate() {
            let conv = layer.wrapping_sub(first) / 2;
            if layer >= first && layer < first + 2 * convs && (layer - first).is_multiple_of(2) {
                return Rename::To(format!("blocks.{block}.convs.{conv}.{kind}"));
            }
            // A convolution and its ReLU each, then a pooling.
            first += 2 * convs + 1;
        }
        Rename::Unknown
    }

    fn adjust(self, found: Option<&Self>, settings: &Settings) -> Self {
        let base = found.unwrap_or(&self);
        Self { output_stride: settings.output_stride.unwrap_or(base.output_stride) }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if ![8, 16, 32].contains(&self.output_stride) {
            let expected = "8, 16 or 32 for VGG-16";
            return Err(ConfigError::new("encoder.output_stride", self.output_stride, expected));
        }
        Ok(())
    }

    fn output_stride(&self) -> usize {
        self.output_stride
    }

    fn channels(&self) -> [usize; 2] {
        [BLOCKS[3].1, BLOCKS[4].1]
    }

    fn name(&self) -> &'static str {
        Self::NAMES[0]
    }

    fn describe(&self) -> String {
        format!("VGG-16 (output stride {})", self.output_stride)
    }

    fn init(&self, device: &Device) -> Vgg {
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
        Vgg { blocks: blocks.collect(), output_stride: self.output_stride }
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
    /// The five blocks.
    pub blocks: Vec<VggBlock>,
    output_stride: usize,
}

impl Describe for Vgg {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        let mut x = image;
        let mut stages = Vec::new();
        let whole = self.output_stride == 32;
        for (block, VggBlock { convs }) in self.blocks.iter().enumerate() {
            if block > 0 {
                let pool = if whole {
                    MaxPool { window: 2, stride: 2, ceil: false }
                } else {
                    MaxPool::three(if block == 4 && self.output_stride == 8 { 1 } else { 2 })
                };
                x = graph.max_pool(format!("block{block}.pool"), x, pool);
            }
            for (index, conv) in convs.iter().enumerate() {
                x = graph.conv(format!("block{}.{index}", block + 1), conv, x);
                graph.mark_block(block.saturating_sub(1), x);
                let is_last = block == 4 && index + 1 == convs.len();
                if whole || !is_last {
                    x = graph.relu(x);
                }
            }
            stages.push(x);
        }
        if whole {
            let pool = MaxPool { window: 2, stride: 2, ceil: false };
            x = graph.max_pool("block5.pool", x, pool);
            graph.mark_block(4, x);
            stages[4] = x;
        }
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(name: String) -> Rename {
        Rename::To(name)
    }

    #[test]
    fn vgg_layers_are_counted_among_relus_and_poolings() {
        let convs = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28];
        let blocks = [
            "0.convs.0",
            "0.convs.1",
            "1.convs.0",
            "1.convs.1",
            "2.convs.0",
            "2.convs.1",
            "2.convs.2",
            "3.convs.0",
            "3.convs.1",
            "3.convs.2",
            "4.convs.0",
            "4.convs.1",
            "4.convs.2",
        ];
        for (layer, block) in convs.into_iter().zip(blocks) {
            assert_eq!(
                VggConfig::rename(&format!("features.{layer}.bias")),
                to(format!("blocks.{block}.bias"))
            );
        }
        assert_eq!(VggConfig::rename("features.1.weight"), Rename::Unknown);
        assert_eq!(VggConfig::rename("features.30.weight"), Rename::Unknown);
        assert_eq!(VggConfig::rename("classifier.0.weight"), Rename::Skip);
    }
}
