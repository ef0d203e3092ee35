//! ConvNeXt T and S (Liu et al. 2022): blocks of a 7x7 filter for every channel, layer normalisation, and a small network
//! for each position, scaled by channel.
//!
//! The maps are the stem's and those of the four stages. Shapes of both at 480x480: [96, 120, 120] twice, [192, 60, 60],
//! [384, 30, 30], [768, 15, 15].

use burn::{
    module::{Initializer, Module, Param},
    nn::conv::Conv2d,
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

use super::table::{Describe, Family, Rename, Settings, Tensors};
use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    nn::{Conv, LayerNorm},
    weights::{TensorFile, WeightsError},
};

const CHANNELS: [usize; 4] = [96, 192, 384, 768];
/// Blocks of each stage, by name.
const BLOCKS: [(&str, [usize; 4]); 2] = [("convnext-tiny", [3, 3, 9, 3]), ("convnext-small", [3, 3, 27, 3])];
const EPSILON: f64 = 1e-6;
/// What factors of blocks start from.
const SCALE: f64 = 1e-6;

/// A ConvNeXt without its classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvNextConfig {
    /// Blocks of each stage.
    pub blocks: [usize; 4],
}

/// Stem and stages.
#[derive(Module, Debug)]
pub struct ConvNext {
    /// 4x4 of stride 4.
    pub stem: Conv2d,
    /// After the stem.
    pub norm: LayerNorm,
    /// Finest first.
    pub stages: Vec<ConvNextStage>,
}

/// Blocks of one size.
#[derive(Module, Debug)]
pub struct ConvNextStage {
    /// Before the map is halved; the first stage has none.
    pub norm: Option<LayerNorm>,
    /// 2x2 of stride 2.
    pub down: Option<Conv2d>,
    /// In order.
    pub blocks: Vec<ConvNextBlock>,
}

/// One block.
#[derive(Module, Debug)]
pub struct ConvNextBlock {
    /// 7x7, every channel by itself.
    pub depthwise: Conv2d,
    /// Before the network.
    pub norm: LayerNorm,
    /// To the wide layer.
    pub fc1: Conv2d,
    /// Back.
    pub fc2: Conv2d,
    /// Factors of the channels.
    pub scale: Param<Tensor<1>>,
}

impl Describe for ConvNext {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        let stem = graph.conv("stem", &self.stem, image);
        let mut x = graph.layer_norm("norm", &self.norm, stem);
        graph.mark_block(0, x);
        let mut maps = vec![x];
        for (index, stage) in self.stages.iter().enumerate() {
            if let (Some(norm), Some(down)) = (&stage.norm, &stage.down) {
                x = graph.layer_norm(format!("stages.{index}.norm"), norm, x);
                x = graph.conv(format!("stages.{index}.down"), down, x);
            }
            for (place, block) in stage.blocks.iter().enumerate() {
                let name = format!("stages.{index}.blocks.{place}");
                let filtered = graph.conv(format!("{name}.depthwise"), &block.depthwise, x);
                let normed = graph.layer_norm(format!("{name}.norm"), &block.norm, filtered);
                let wide = graph.conv(format!("{name}.fc1"), &block.fc1, normed);
                let active = graph.gelu(wide);
                let narrow = graph.conv(format!("{name}.fc2"), &block.fc2, active);
                let scaled = graph.scale(&block.scale, narrow);
                x = graph.add(scaled, x);
                graph.mark_block(index + 1, x);
            }
            maps.push(x);
        }
        maps
    }
}

impl Family for ConvNextConfig {
    type Encoder = ConvNext;

    const NAMES: &'static [&'static str] = &[BLOCKS[0].0, BLOCKS[1].0];
    const TENSORS: &'static str =
        "ConvNeXt of timm (`stem.0.weight`, `stages.0.blocks.0.conv_dw.weight`, ..)";

    fn parse(name: &str) -> Option<Self> {
        BLOCKS.iter().find(|(known, _)| *known == name).map(|&(_, blocks)| Self { blocks })
    }

    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
        tensors.shape("stages.0.blocks.0.conv_dw.weight")?;
        let blocks = std::array::from_fn(|stage| tensors.count(&format!("stages.{stage}.blocks.")));
        let channels = tensors.shape("stem.0.weight").and_then(|shape| shape.first()).copied();
        let is_known = BLOCKS.iter().any(|(_, known)| *known == blocks) && channels == Some(CHANNELS[0]);
        Some(match is_known {
            true => Ok(Self { blocks }),
            false => Err(format!(
                "a ConvNeXt of {blocks:?} blocks is not known\nhint: convnext-tiny and convnext-small are"
            )),
        })
    }

    fn rename(name: &str) -> Rename {
        const OURS: [(&str, &str); 7] = [
            ("downsample.0.", "norm."),
            ("downsample.1.", "down."),
            ("conv_dw.", "depthwise."),
            ("norm.", "norm."),
            ("mlp.fc1.", "fc1."),
            ("mlp.fc2.", "fc2."),
            ("gamma", "scale"),
        ];
        if name.starts_with("head.") {
            return Rename::Skip;
        }
        for (theirs, ours) in [("stem.0.", "stem."), ("stem.1.", "norm.")] {
            if let Some(rest) = name.strip_prefix(theirs) {
                return Rename::to(format!("{ours}{rest}"));
            }
        }
        if !name.starts_with("stages.") {
            return Rename::Unknown;
        }
        let found = OURS.iter().find_map(|(theirs, ours)| {
            let (place, rest) = name.split_once(&format!(".{theirs}"))?;
            Some(Rename::to(format!("{place}.{ours}{rest}")))
        });
        found.unwrap_or(Rename::Unknown)
    }

    /// Matrices become 1x1 convolutions.
    fn adapt(&self, file: &TensorFile) -> Result<Option<TensorFile>, WeightsError> {
        let conv = |name: &str| Ok((name.to_string(), file.read_as_conv(name)?));
        file.replaced(file.names().map(conv).collect::<Result<_, WeightsError>>()?).map(Some)
    }

    fn adjust(self, _: Option<&Self>, _: &Settings) -> Self {
        self
    }

    fn validate(&self) -> Result<(), ConfigError> {
        match BLOCKS.iter().any(|(_, known)| *known == self.blocks) {
            true => Ok(()),
            false => Err(ConfigError::new(
                "encoder.blocks",
                format!("{:?}", self.blocks),
                "those of ConvNeXt T or S",
            )),
        }
    }

    fn output_stride(&self) -> usize {
        32
    }

    fn channels(&self) -> [usize; 2] {
        [CHANNELS[2], CHANNELS[3]]
    }

    fn name(&self) -> &'static str {
        BLOCKS.iter().find(|(_, blocks)| *blocks == self.blocks).map_or("convnext", |(name, _)| name)
    }

    fn describe(&self) -> String {
        let letter = if self.blocks == BLOCKS[0].1 { "T" } else { "S" };
        format!("ConvNeXt-{letter} (output stride 32)")
    }

    fn init(&self, device: &Device) -> ConvNext {
        let norm = |channels: usize| LayerNorm::new(channels, EPSILON, device);
        let block = |channels: usize| ConvNextBlock {
            depthwise: Conv::new(channels, channels, 7).depthwise().bias().init(device),
            norm: norm(channels),
            fc1: Conv::new(channels, 4 * channels, 1).bias().init(device),
            fc2: Conv::new(4 * channels, channels, 1).bias().init(device),
            scale: Initializer::Constant { value: SCALE }.init([channels], device),
        };
        let stage = |(index, &channels): (usize, &usize)| {
            let before = index.checked_sub(1).map(|before| CHANNELS[before]);
            ConvNextStage {
                norm: before.map(norm),
                down: before
                    .map(|before| Conv::new(before, channels, 2).stride(2).padding(0, 0).bias().init(device)),
                blocks: (0..self.blocks[index]).map(|_| block(channels)).collect(),
            }
        };
        ConvNext {
            stem: Conv::new(3, CHANNELS[0], 4).stride(4).padding(0, 0).bias().init(device),
            norm: norm(CHANNELS[0]),
            stages: CHANNELS.iter().enumerate().map(stage).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_timm_are_known() {
        let to = |name: &str| Rename::To(name.to_string());
        assert_eq!(ConvNextConfig::rename("stem.1.bias"), to("norm.bias"));
        assert_eq!(
            ConvNextConfig::rename("stages.2.blocks.8.norm.weight"),
            to("stages.2.blocks.8.norm.weight")
        );
        assert_eq!(ConvNextConfig::rename("stages.2.blocks.8.gamma"), to("stages.2.blocks.8.scale"));
        assert_eq!(ConvNextConfig::rename("stages.1.downsample.1.weight"), to("stages.1.down.weight"));
        assert_eq!(ConvNextConfig::rename("head.fc.bias"), Rename::Skip);
        assert_eq!(ConvNextConfig::rename("blocks.0.norm.weight"), Rename::Unknown);
    }
}
