//! Encoders (backbones): image -> feature maps. Encoder + decoder = the paper's F.

mod resnet;
pub(crate) mod vgg;

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

pub use resnet::{Basic, Block, Bottleneck, ResNet, ResNetConfig, Stem, StrideOn};
pub use vgg::{Vgg, VggConfig};

use crate::{
    config::ConfigError,
    graph::{Graph, Node},
};

/// Which encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum EncoderConfig {
    ResNet(ResNetConfig),
    Vgg16(VggConfig),
}

impl EncoderConfig {
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::ResNet(config) => config.validate(),
            Self::Vgg16(config) => config.validate(),
        }
    }

    /// Side of the input over the side of the last map.
    pub fn output_stride(&self) -> usize {
        match self {
            Self::ResNet(config) => config.output_stride,
            Self::Vgg16(config) => config.output_stride,
        }
    }

    /// Channels of the last map but one (where the auxiliary head sits) and of the last.
    pub fn channels(&self) -> [usize; 2] {
        match self {
            Self::ResNet(config) => config.channels(),
            Self::Vgg16(config) => config.channels(),
        }
    }

    pub fn init(&self, device: &Device) -> Encoder {
        match self {
            Self::ResNet(config) => Encoder::ResNet(config.init(device)),
            Self::Vgg16(config) => Encoder::Vgg16(config.init(device)),
        }
    }
}

/// Any encoder.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one per network; an indirection would serve nobody
pub enum Encoder {
    ResNet(ResNet),
    Vgg16(Vgg),
}

impl Encoder {
    /// `[batch, 3, height, width]` -> the maps of the network's stages, finest first: stem, layer1 .. layer4 of a
    /// ResNet, the five blocks of VGG.
    pub fn forward(&self, image: Tensor<4>) -> Vec<Tensor<4>> {
        let (mut graph, input) = Graph::new();
        let stages = self.describe(&mut graph, input);
        graph.run(image, &stages)
    }

    /// The network's layers; returns the last node of every stage, finest first.
    pub(crate) fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        match self {
            Self::ResNet(encoder) => encoder.describe(graph, image),
            Self::Vgg16(encoder) => encoder.describe(graph, image),
        }
    }

    /// Side of the input over the side of the last map.
    pub fn output_stride(&self) -> usize {
        match self {
            Self::ResNet(encoder) => encoder.output_stride,
            Self::Vgg16(encoder) => encoder.output_stride(),
        }
    }
}
