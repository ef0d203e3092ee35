//! MobileNetV3 Large and Small (Howard et al. 2019) as torchvision has them: inverted residual blocks, some of which weigh
//! their channels by what they see in the whole map.
//!
//! The last 1x1 before the ImageNet classifier is left out, as in MobileNetV2.
//!
//! Shapes of Large at 473x473, stride 32: [16, 237, 237], [24, 119, 119], [40, 60, 60], [112, 30, 30], [160, 15, 15].

use burn::{module::Module, nn::conv::Conv2d, tensor::Device};
use protoseg_kernels::Activation;
use serde::{Deserialize, Serialize};

use super::table::{Describe, Family, Rename, Settings, Tensors};
use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    nn::{Conv, ConvNorm, NormSettings},
};

const STEM: usize = 16;
const NORM: NormSettings = NormSettings { epsilon: 1e-3, momentum: 0.01 };

/// A block of the tables: kernel, channels inside and after it, stride, whether it weighs its channels, and whether it has
/// hard swish instead of ReLU.
struct Row(usize, usize, usize, usize, bool, bool);

const LARGE: [Row; 15] = [
    Row(3, 16, 16, 1, false, false),
    Row(3, 64, 24, 2, false, false),
    Row(3, 72, 24, 1, false, false),
    Row(5, 72, 40, 2, true, false),
    Row(5, 120, 40, 1, true, false),
    Row(5, 120, 40, 1, true, false),
    Row(3, 240, 80, 2, false, true),
    Row(3, 200, 80, 1, false, true),
    Row(3, 184, 80, 1, false, true),
    Row(3, 184, 80, 1, false, true),
    Row(3, 480, 112, 1, true, true),
    Row(3, 672, 112, 1, true, true),
    Row(5, 672, 160, 2, true, true),
    Row(5, 960, 160, 1, true, true),
    Row(5, 960, 160, 1, true, true),
];

const SMALL: [Row; 11] = [
    Row(3, 16, 16, 2, true, false),
    Row(3, 72, 24, 2, false, false),
    Row(3, 88, 24, 1, false, false),
    Row(5, 96, 40, 2, true, true),
    Row(5, 240, 40, 1, true, true),
    Row(5, 240, 40, 1, true, true),
    Row(5, 120, 48, 1, true, true),
    Row(5, 144, 48, 1, true, true),
    Row(5, 288, 96, 2, true, true),
    Row(5, 576, 96, 1, true, true),
    Row(5, 576, 96, 1, true, true),
];

/// A MobileNetV3 without its classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MobileNetV3Config {
    /// Large, or small.
    pub large: bool,
    /// 8, 16 or 32.
    pub output_stride: usize,
}

/// Stem and blocks.
#[derive(Module, Debug)]
pub struct MobileNetV3 {
    /// 3x3 of stride 2.
    pub stem: ConvNorm,
    /// In order.
    pub blocks: Vec<MobileNetV3Block>,
    /// Whether the stem's output is the first of the encoder's maps: no block of Small is at stride 2.
    stem_ends_stage: bool,
}

/// One block.
#[derive(Module, Debug)]
pub struct MobileNetV3Block {
    /// 1x1 to the wide map; blocks that are not wider inside have none.
    pub expand: Option<ConvNorm>,
    /// Every channel by itself.
    pub depthwise: ConvNorm,
    /// Weights of the channels, from their means.
    pub squeeze: Option<SqueezeExcite>,
    /// 1x1 to the narrow map, without an activation.
    pub project: ConvNorm,
    has_shortcut: bool,
    has_swish: bool,
    /// Whether the output is one of the encoder's maps.
    ends_stage: bool,
}

/// Weights of channels (Hu et al. 2018).
#[derive(Module, Debug)]
pub struct SqueezeExcite {
    /// From the means to few values.
    pub fc1: Conv2d,
    /// To a weight for each channel.
    pub fc2: Conv2d,
}

impl Describe for MobileNetV3 {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        let stem = graph.conv_norm("stem", &self.stem, image);
        let mut x = graph.hard_swish(stem);
        let mut stages = if self.stem_ends_stage { vec![x] } else { Vec::new() };
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.describe(graph, &format!("blocks.{index}"), x);
            if block.ends_stage {
                stages.push(x);
            }
        }
        stages
    }
}

impl MobileNetV3Block {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, name: &str, x: Node) -> Node {
        let mut wide = x;
        if let Some(expand) = &self.expand {
            wide = graph.conv_norm(format!("{name}.expand"), expand, wide);
            wide = self.activate(graph, wide);
        }
        wide = graph.conv_norm(format!("{name}.depthwise"), &self.depthwise, wide);
        wide = self.activate(graph, wide);
        if let Some(squeeze) = &self.squeeze {
            let means = graph.average_pool(format!("{name}.means"), wide, 1);
            let few = graph.conv(format!("{name}.squeeze.fc1"), &squeeze.fc1, means);
            let few = graph.activation(Activation::Relu, few);
            let all = graph.conv(format!("{name}.squeeze.fc2"), &squeeze.fc2, few);
            let weights = graph.hard_sigmoid(all);
            wide = graph.weigh(wide, weights);
        }
        let narrow = graph.conv_norm(format!("{name}.project"), &self.project, wide);
        if self.has_shortcut { graph.add(narrow, x) } else { narrow }
    }

    fn activate(&self, graph: &mut Graph<'_>, x: Node) -> Node {
        if self.has_swish { graph.hard_swish(x) } else { graph.relu(x) }
    }
}

impl MobileNetV3Config {
    fn rows(&self) -> &'static [Row] {
        if self.large { &LARGE } else { &SMALL }
    }

    fn block(
        &self,
        row: &Row,
        from: usize,
        stride: usize,
        dilation: usize,
        device: &Device,
    ) -> MobileNetV3Block {
        let &Row(kernel, wide, to, _, weighs, has_swish) = row;
        let layer = |conv| ConvNorm::new_he(conv, device).with_norm(NORM);
        // A quarter, in whole eighths that take no more than a tenth away.
        let quarter = wide / 4;
        let few = ((quarter + 4) / 8 * 8).max(8);
        let few = if 10 * few < 9 * quarter { few + 8 } else { few };
        let squeeze = || SqueezeExcite {
            fc1: Conv::new(wide, few, 1).bias().init(device),
            fc2: Conv::new(few, wide, 1).bias().init(device),
        };
        MobileNetV3Block {
            expand: (wide != from).then(|| layer(Conv::new(from, wide, 1))),
            depthwise: layer(Conv::new(wide, wide, kernel).depthwise().stride(stride).dilation(dilation)),
            squeeze: weighs.then(squeeze),
            project: layer(Conv::new(wide, to, 1)),
            has_shortcut: stride == 1 && row.3 == 1 && from == to,
            has_swish,
            ends_stage: false,
        }
    }
}

impl Family for MobileNetV3Config {
    type Encoder = MobileNetV3;

    const NAMES: &'static [&'static str] = &["mobilenetv3-large", "mobilenetv3-small"];
    const TENSORS: &'static str =
        "MobileNetV3 of torchvision (`features.0.0.weight`, `features.1.block.0.0.weight`, ..)";

    fn parse(name: &str) -> Option<Self> {
        let place = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self { large: place == 0, output_stride: 32 })
    }

    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
        tensors.shape("features.1.block.0.0.weight")?;
        // With the stem and the last 1x1.
        let modules = tensors.count("features.");
        let found = [true, false].map(|large| Self { large, output_stride: 32 });
        let found = found.into_iter().find(|config| config.rows().len() + 2 == modules);
        Some(found.ok_or_else(|| {
            format!("its {modules} layers are of no MobileNetV3 that is known\nhint: Large and Small are")
        }))
    }

    /// torchvision numbers layers by their place: the first block has no expansion, so its layers count from the depthwise
    /// one; and those that weigh channels have one more before the last.
    fn rename(name: &str) -> Rename {
        let rename = || {
            let (module, layer) = name.strip_prefix("features.")?.split_once('.')?;
            let module: usize = module.parse().ok()?;
            let named = |ours: &str, layer: &str| {
                let (part, rest) = layer.split_once('.')?;
                Some(format!("{ours}.{}.{rest}", ["conv", "bn"].get(part.parse::<usize>().ok()?)?))
            };
            if module == 0 {
                return named("stem", layer);
            }
            let (place, layer) = layer.strip_prefix("block.")?.split_once('.')?;
            let block = format!("blocks.{}", module - 1);
            match place.parse::<usize>().ok()? + usize::from(module == 1) {
                0 => named(&format!("{block}.expand"), layer),
                1 => named(&format!("{block}.depthwise"), layer),
                2 if layer.starts_with("fc") => Some(format!("{block}.squeeze.{layer}")),
                2 | 3 => named(&format!("{block}.project"), layer),
                _ => None,
            }
        };
        let is_last = |name: &str| {
            let module = name.strip_prefix("features.").and_then(|rest| rest.split_once('.'));
            module.is_some_and(|(number, layer)| {
                number != "0" && (layer.starts_with("0.") || layer.starts_with("1."))
            })
        };
        if name.starts_with("classifier.") || is_last(name) {
            return Rename::Skip;
        }
        rename().map_or(Rename::Unknown, Rename::to)
    }

    fn adjust(self, found: Option<&Self>, settings: &Settings) -> Self {
        let output_stride = settings.output_stride.unwrap_or(found.unwrap_or(&self).output_stride);
        Self { output_stride, ..self }
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
        if self.large { [112, 160] } else { [48, 96] }
    }

    fn name(&self) -> &'static str {
        Self::NAMES[usize::from(!self.large)]
    }

    fn describe(&self) -> String {
        let size = if self.large { "Large" } else { "Small" };
        format!("MobileNetV3-{size} (output stride {})", self.output_stride)
    }

    fn init(&self, device: &Device) -> MobileNetV3 {
        let mut blocks: Vec<MobileNetV3Block> = Vec::new();
        let (mut from, mut stride, mut dilation) = (STEM, 2, 1);
        for row in self.rows() {
            let &Row(_, _, to, own, ..) = row;
            if let Some(last) = blocks.last_mut().filter(|_| own > 1) {
                last.ends_stage = true;
            }
            let mut step = own;
            if stride * own > self.output_stride {
                dilation *= own;
                step = 1;
            }
            stride *= step;
            blocks.push(self.block(row, from, step, dilation, device));
            from = to;
        }
        blocks.last_mut().expect("networks have blocks").ends_stage = true;
        let stem = ConvNorm::new_he(Conv::new(3, STEM, 3).stride(2), device).with_norm(NORM);
        MobileNetV3 { stem, blocks, stem_ends_stage: self.rows()[0].3 > 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_from_the_expansion_where_there_is_one() {
        let rename = MobileNetV3Config::rename;
        let to = |name: &str| Rename::To(name.to_string());
        assert_eq!(rename("features.0.1.running_var"), to("stem.bn.running_var"));
        assert_eq!(rename("features.1.block.0.0.weight"), to("blocks.0.depthwise.conv.weight"));
        assert_eq!(rename("features.1.block.1.1.bias"), to("blocks.0.project.bn.bias"));
        assert_eq!(rename("features.1.block.1.fc1.bias"), to("blocks.0.squeeze.fc1.bias"));
        assert_eq!(rename("features.4.block.2.fc2.weight"), to("blocks.3.squeeze.fc2.weight"));
        assert_eq!(rename("features.4.block.3.0.weight"), to("blocks.3.project.conv.weight"));
        assert_eq!(rename("features.2.block.2.0.weight"), to("blocks.1.project.conv.weight"));
        assert_eq!(rename("features.16.0.weight"), Rename::Skip);
        assert_eq!(rename("classifier.3.bias"), Rename::Skip);
        assert_eq!(rename("features.2.conv.0.weight"), Rename::Unknown);
    }
}
