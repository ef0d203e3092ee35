//! EfficientNet-Lite 0 to 2 (Tan and Le 2019; the Lite variants of 2020): inverted residuals with 3x3 and 5x5 filters,
//! ReLU6, and no squeeze-and-excitation.
//!
//! Lite1 is deeper than Lite0, Lite2 is deeper and wider. As in the original, the stem is not scaled, nor are the
//! numbers of blocks in the first and the last stage. Convolutions of stride 2 pad as TensorFlow does on even sides, on
//! all sides: one zero more below and to the right. The 1x1 to 1280 channels before the ImageNet classifier is left
//! out.
//!
//! Maps end with blocks 0, 2, 4, 10 and 15 of Lite0. Shapes at 473x473, stride 32: [16, 236, 236], [24, 118, 118],
//! [40, 59, 59], [112, 29, 29], [320, 14, 14].

use burn::tensor::Device;
use protoseg_core::Preprocess;
use serde::{Deserialize, Serialize};

use super::{
    inverted_residual::{InvertedResiduals, Padding, Shape, Stage},
    table::{Family, Rename, Settings, Tensors},
};
use crate::{config::ConfigError, nn::NormSettings};

/// Widening, kernel, stride, channels and blocks of each stage of Lite0.
const STAGES: [Stage; 7] = [
    Stage::new([1, 3, 1, 16, 1]),
    Stage::new([6, 3, 2, 24, 2]),
    Stage::new([6, 5, 2, 40, 2]),
    Stage::new([6, 3, 2, 80, 3]),
    Stage::new([6, 5, 1, 112, 3]),
    Stage::new([6, 5, 2, 192, 4]),
    Stage::new([6, 3, 1, 320, 1]),
];
/// Factors of channels and blocks by variant.
const SCALES: [(f64, f64); 3] = [(1.0, 1.0), (1.0, 1.1), (1.1, 1.2)];

/// An EfficientNet-Lite without its classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficientNetLiteConfig {
    /// 0, 1 or 2.
    pub variant: usize,
    /// 8, 16 or 32.
    pub output_stride: usize,
}

impl EfficientNetLiteConfig {
    /// As published: output stride 32.
    pub fn new(variant: usize) -> Self {
        Self { variant, output_stride: 32 }
    }

    fn stages(&self) -> Vec<Stage> {
        let (width, depth) = SCALES[self.variant];
        let scaled = |(index, stage): (usize, &Stage)| {
            let is_fixed = index == 0 || index + 1 == STAGES.len();
            let blocks = if is_fixed { stage.blocks } else { (stage.blocks as f64 * depth).ceil() as usize };
            Stage { to: scaled_channels(stage.to, width), blocks, ..*stage }
        };
        STAGES.iter().enumerate().map(scaled).collect()
    }

    fn shape(&self) -> Shape {
        Shape {
            stem: 32,
            stages: self.stages(),
            output_stride: self.output_stride,
            padding: Padding::MoreAfter,
            norm: NormSettings { epsilon: 1e-3, momentum: 0.01 },
        }
    }
}

/// Rounded to a multiple of 8, and never down by more than a tenth.
fn scaled_channels(channels: usize, factor: f64) -> usize {
    let exact = channels as f64 * factor;
    let rounded = ((exact + 4.0) as usize / 8 * 8).max(8);
    if (rounded as f64) < 0.9 * exact { rounded + 8 } else { rounded }
}

impl Family for EfficientNetLiteConfig {
    type Encoder = InvertedResiduals;

    const NAMES: &'static [&'static str] =
        &["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"];
    const TENSORS: &'static str =
        "EfficientNet-Lite (`_conv_stem.weight`, `_blocks.0._depthwise_conv.weight`, ..)";

    fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|&known| known == name).map(Self::new)
    }

    /// The names of `efficientnet_lite_pytorch`, which are those of `EfficientNet-PyTorch`.
    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
        tensors.shape("_conv_stem.weight")?;
        let blocks = tensors.count("_blocks.");
        let last = format!("_blocks.{}._project_conv.weight", blocks.saturating_sub(1));
        let channels = tensors.shape(&last).and_then(|shape| shape.first()).copied();
        let fits = |config: &Self| {
            let stages = config.stages();
            let end = stages.last().map(|stage| stage.to);
            stages.iter().map(|stage| stage.blocks).sum::<usize>() == blocks && end == channels
        };
        let found = (0..SCALES.len()).map(Self::new).find(fits);
        Some(found.ok_or_else(|| {
            format!("its {blocks} blocks are of no EfficientNet-Lite that is known\nhint: Lite0, Lite1 and Lite2 are")
        }))
    }

    fn rename(name: &str) -> Rename {
        const OURS: [(&str, &str); 6] = [
            ("_expand_conv.", "expand.conv."),
            ("_bn0.", "expand.bn."),
            ("_depthwise_conv.", "depthwise.conv."),
            ("_bn1.", "depthwise.bn."),
            ("_project_conv.", "project.conv."),
            ("_bn2.", "project.bn."),
        ];
        // The head.
        if ["_conv_head.", "_bn1.", "_fc."].iter().any(|head| name.starts_with(head)) {
            return Rename::Skip;
        }
        if let Some(rest) = name.strip_prefix("_conv_stem.") {
            return Rename::to(format!("stem.conv.{rest}"));
        }
        if let Some(rest) = name.strip_prefix("_bn0.") {
            return Rename::to(format!("stem.bn.{rest}"));
        }
        let block = name.strip_prefix("_blocks.").and_then(|rest| rest.split_once('.'));
        let renamed = block.and_then(|(block, layer)| {
            let (ours, rest) =
                OURS.iter().find_map(|(theirs, ours)| Some((ours, layer.strip_prefix(theirs)?)))?;
            Some(Rename::to(format!("blocks.{block}.{ours}{rest}")))
        });
        renamed.unwrap_or(Rename::Unknown)
    }

    fn adjust(self, found: Option<&Self>, settings: &Settings) -> Self {
        let output_stride = settings.output_stride.unwrap_or(found.unwrap_or(&self).output_stride);
        Self { output_stride, ..self }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if self.variant >= SCALES.len() {
            return Err(ConfigError::new("encoder.variant", self.variant, "0, 1 or 2"));
        }
        if ![8, 16, 32].contains(&self.output_stride) {
            return Err(ConfigError::new("encoder.output_stride", self.output_stride, "8, 16 or 32"));
        }
        Ok(())
    }

    fn preprocess(&self, size: usize) -> Preprocess {
        Preprocess { mean: [127.0; 3], std: [128.0; 3], ..Preprocess::imagenet(size) }
    }

    fn output_stride(&self) -> usize {
        self.output_stride
    }

    fn channels(&self) -> [usize; 2] {
        self.shape().channels()
    }

    fn name(&self) -> &'static str {
        Self::NAMES.get(self.variant).copied().unwrap_or("efficientnet-lite")
    }

    fn describe(&self) -> String {
        format!("EfficientNet-Lite{} (output stride {})", self.variant, self.output_stride)
    }

    fn init(&self, device: &Device) -> InvertedResiduals {
        self.shape().init(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_scaled_as_published() {
        let stages = |variant| {
            let stages = EfficientNetLiteConfig::new(variant).stages();
            stages.iter().map(|stage| (stage.to, stage.blocks)).collect::<Vec<_>>()
        };
        assert_eq!(stages(0), [(16, 1), (24, 2), (40, 2), (80, 3), (112, 3), (192, 4), (320, 1)]);
        assert_eq!(stages(1), [(16, 1), (24, 3), (40, 3), (80, 4), (112, 4), (192, 5), (320, 1)]);
        assert_eq!(stages(2), [(16, 1), (24, 3), (48, 3), (88, 4), (120, 4), (208, 5), (352, 1)]);
    }

    #[test]
    fn the_block_s_first_norm_is_the_expansion_s_and_the_file_s_own_the_stem_s() {
        let rename = EfficientNetLiteConfig::rename;
        let to = |name: &str| Rename::To(name.to_string());
        assert_eq!(rename("_bn0.running_mean"), to("stem.bn.running_mean"));
        assert_eq!(rename("_blocks.3._bn0.bias"), to("blocks.3.expand.bn.bias"));
        assert_eq!(rename("_blocks.0._bn1.weight"), to("blocks.0.depthwise.bn.weight"));
        assert_eq!(rename("_blocks.15._project_conv.weight"), to("blocks.15.project.conv.weight"));
        assert_eq!(rename("_bn1.weight"), Rename::Skip);
        assert_eq!(rename("_blocks.1._se_reduce.weight"), Rename::Unknown);
    }
}
