//! MobileNetV2 (Sandler et al. 2018) as torchvision has it.
//!
//! The 1x1 to 1280 channels before the ImageNet classifier is left out: as the paper puts it for DeepLab, heads on the
//! map before it cost far less and segment as well.
//!
//! Shapes at 473x473, stride 32: [16, 237, 237], [24, 119, 119], [32, 60, 60], [96, 30, 30], [320, 15, 15].

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::{
    inverted_residual::{InvertedResiduals, Padding, Shape, Stage},
    table::{Family, Rename, Settings, Tensors},
};
use crate::{config::ConfigError, nn::NormSettings};

/// Widening, kernel, stride, channels and blocks of each stage.
const STAGES: [Stage; 7] = [
    Stage::new([1, 3, 1, 16, 1]),
    Stage::new([6, 3, 2, 24, 2]),
    Stage::new([6, 3, 2, 32, 3]),
    Stage::new([6, 3, 2, 64, 4]),
    Stage::new([6, 3, 1, 96, 3]),
    Stage::new([6, 3, 2, 160, 3]),
    Stage::new([6, 3, 1, 320, 1]),
];

/// MobileNetV2 without its classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MobileNetV2Config {
    /// 8, 16 or 32.
    pub output_stride: usize,
}

impl MobileNetV2Config {
    fn shape(&self) -> Shape {
        Shape {
            stem: 32,
            stages: STAGES.to_vec(),
            output_stride: self.output_stride,
            padding: Padding::Even,
            norm: NormSettings::default(),
        }
    }
}

impl Family for MobileNetV2Config {
    type Encoder = InvertedResiduals;

    const NAMES: &'static [&'static str] = &["mobilenetv2"];
    const TENSORS: &'static str = "MobileNetV2 (`features.0.0.weight`, `features.1.conv.0.0.weight`, ..)";

    fn parse(name: &str) -> Option<Self> {
        (name == "mobilenetv2").then_some(Self { output_stride: 32 })
    }

    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
        tensors.shape("features.1.conv.0.0.weight")?;
        Some(Ok(Self { output_stride: 32 }))
    }

    /// torchvision numbers layers by their place: `features.3.conv.1.0` is the third module's second layer's
    /// convolution. The first block has no expansion, so its layers count from the depthwise one.
    fn rename(name: &str) -> Rename {
        if name.starts_with("classifier.") || name.starts_with("features.18.") {
            return Rename::Skip;
        }
        let rename = || {
            let (module, layer) = name.strip_prefix("features.")?.split_once('.')?;
            let block = match module.parse::<usize>().ok()? {
                0 => {
                    let (part, rest) = layer.split_once('.')?;
                    return Some(format!("stem.{}.{rest}", ["conv", "bn"].get(part.parse::<usize>().ok()?)?));
                }
                module => module - 1,
            };
            const PLACES: [(&str, &str); 6] = [
                ("0.0.", "expand.conv."),
                ("0.1.", "expand.bn."),
                ("1.0.", "depthwise.conv."),
                ("1.1.", "depthwise.bn."),
                ("2.", "project.conv."),
                ("3.", "project.bn."),
            ];
            let layer = layer.strip_prefix("conv.")?;
            let layer = if block == 0 { shifted(layer)? } else { layer.to_string() };
            let (ours, rest) =
                PLACES.iter().find_map(|(theirs, ours)| Some((ours, layer.strip_prefix(theirs)?)))?;
            Some(format!("blocks.{block}.{ours}{rest}"))
        };
        rename().map_or(Rename::Unknown, Rename::to)
    }

    fn adjust(self, found: Option<&Self>, settings: &Settings) -> Self {
        Self { output_stride: settings.output_stride.unwrap_or(found.unwrap_or(&self).output_stride) }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if ![8, 16, 32].contains(&self.output_stride) {
            return Err(ConfigError::new("encoder.output_stride", self.output_stride, "8, 16 or 32"));
        }
        Ok(())
    }

    fn output_stride(&self) -> usize {
        self.output_stride
    }

    fn channels(&self) -> [usize; 2] {
        self.shape().channels()
    }

    fn name(&self) -> &'static str {
        Self::NAMES[0]
    }

    fn describe(&self) -> String {
        format!("MobileNetV2 (output stride {})", self.output_stride)
    }

    fn init(&self, device: &Device) -> InvertedResiduals {
        self.shape().init(device)
    }
}

/// A layer's name with its place one higher.
fn shifted(layer: &str) -> Option<String> {
    let (place, rest) = layer.split_once('.')?;
    Some(format!("{}.{rest}", place.parse::<usize>().ok()? + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_from_the_expansion_where_there_is_one() {
        let rename = MobileNetV2Config::rename;
        let to = |name: &str| Rename::To(name.to_string());
        assert_eq!(rename("features.0.1.running_var"), to("stem.bn.running_var"));
        assert_eq!(rename("features.1.conv.0.0.weight"), to("blocks.0.depthwise.conv.weight"));
        assert_eq!(rename("features.1.conv.1.weight"), to("blocks.0.project.conv.weight"));
        assert_eq!(rename("features.1.conv.2.bias"), to("blocks.0.project.bn.bias"));
        assert_eq!(rename("features.17.conv.0.1.bias"), to("blocks.16.expand.bn.bias"));
        assert_eq!(rename("features.17.conv.3.num_batches_tracked"), Rename::Skip);
        assert_eq!(rename("features.18.0.weight"), Rename::Skip);
        assert_eq!(rename("features.2.block.0.weight"), Rename::Unknown);
    }
}
