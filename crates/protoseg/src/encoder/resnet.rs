//! ResNet 18/34/50/101/152 (He et al. 2016), dilated for segmentation, and a depth of 10 for demonstrations and tests.
//!
//! Differences between published weights that the config names: the stem (`classic` 7x7, or `deep`, three 3x3 as the
//! GFS-Seg reference and semseg have it) and the place of a bottleneck's stride (its 3x3 as torchvision, or its first
//! 1x1 as Caffe and Keras). At output stride 8, layer3 and layer4 keep their size and dilate every 3x3 by 2 and 4.
//!
//! Shapes at 473x473, stride 8: stem [128, 119, 119], layer1 [256, 119, 119], layer2 [512, 60, 60], layer3
//! [1024, 60, 60], layer4 [2048, 60, 60].

use burn::{module::Module, nn::conv::Conv2d, tensor::Device};
use protoseg_kernels::channels_last::MaxPool;
use serde::{Deserialize, Serialize};

use super::table::{Describe, Family, Rename, Settings, Tensors};
use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    nn::{BatchNorm, Conv, ConvNorm},
};

/// The first convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stem {
    /// One 7x7 of stride 2, 64 channels.
    Classic,
    /// 3x3 of stride 2 to 64, 3x3 to 64, 3x3 to 128.
    Deep,
}

/// Which convolution of a bottleneck carries the block's stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrideOn {
    /// The first 1x1 (Caffe, Keras).
    #[serde(rename = "first-1x1")]
    First1x1,
    /// The 3x3 (torchvision, the GFS-Seg reference).
    #[serde(rename = "3x3")]
    Conv3x3,
}

/// A residual network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResNetConfig {
    /// 10, 18, 34 (two 3x3 per block), 50, 101 or 152 (bottlenecks).
    pub depth: usize,
    /// The first convolutions.
    pub stem: Stem,
    /// Which convolution of a bottleneck carries the stride.
    pub stride_on: StrideOn,
    /// 8, 16 or 32.
    pub output_stride: usize,
    /// All channel counts are multiplied by this and rounded to a multiple of 8.
    pub width: f64,
    /// 4, or 3 without the last layer.
    #[serde(default = "four", skip_serializing_if = "is_four")]
    pub layers: usize,
    /// Whether the stem's pooling keeps a last window that reaches beyond the map (Caffe, CANet).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ceil_pool: bool,
    /// Whether the first block of a dilated layer keeps the dilation of the layer before (torchvision).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late_dilation: bool,
}

fn four() -> usize {
    4
}

fn is_four(layers: &usize) -> bool {
    *layers == 4
}

impl ResNetConfig {
    /// The reference's encoder: deep stem, stride on the 3x3, output stride 8.
    pub fn new(depth: usize) -> Self {
        Self {
            depth,
            stem: Stem::Deep,
            stride_on: StrideOn::Conv3x3,
            output_stride: 8,
            width: 1.0,
            layers: 4,
            ceil_pool: false,
            late_dilation: false,
        }
    }

    /// Blocks in layer1 .. layer4, and whether they are bottlenecks.
    fn blocks(&self) -> Option<([usize; 4], bool)> {
        Some(match self.depth {
            10 => ([1, 1, 1, 1], false),
            18 => ([2, 2, 2, 2], false),
            34 => ([3, 4, 6, 3], false),
            50 => ([3, 4, 6, 3], true),
            101 => ([3, 4, 23, 3], true),
            152 => ([3, 8, 36, 3], true),
            _ => return None,
        })
    }

    /// The depth that has these blocks.
    fn depth_of(blocks: [usize; 4], bottleneck: bool) -> Option<usize> {
        let has = |&depth: &usize| Self::new(depth).blocks() == Some((blocks, bottleneck));
        [10, 18, 34, 50, 101, 152].into_iter().find(has)
    }

    fn scaled(&self, channels: usize) -> usize {
        ((channels as f64 * self.width / 8.0).round() as usize).max(1) * 8
    }

    /// Output channels of layer1 .. layer4.
    fn layer_channels(&self) -> [usize; 4] {
        let expansion = if self.is_bottleneck() { 4 } else { 1 };
        [64, 128, 256, 512].map(|channels| self.scaled(channels) * expansion)
    }

    fn is_bottleneck(&self) -> bool {
        self.depth >= 50
    }

    /// Depth and place of the stride, from the tensors of layer1 to layer4.
    pub(crate) fn read_layers(tensors: &dyn Tensors) -> Result<Self, String> {
        let mut blocks = [1, 2, 3, 4].map(|layer| tensors.count(&format!("layer{layer}.")));
        let bottleneck = tensors.shape("layer1.0.conv3.weight").is_some();
        let layers = if blocks[3] == 0 { 3 } else { 4 };
        if layers == 3 {
            // Every depth has as many blocks in the last layer as in the first.
            blocks[3] = blocks[0];
        }
        let depth = Self::depth_of(blocks, bottleneck).ok_or_else(|| {
            format!(
                "its layers have {blocks:?} {} blocks, which is no ResNet that is known\n\
                 hint: 10, 18, 34, 50, 101 and 152 are",
                if bottleneck { "bottleneck" } else { "basic" }
            )
        })?;
        // Tensors look the same wherever the stride is; a file can only say so.
        let stride_on = match tensors.metadata("stride") {
            Some("first-1x1") => StrideOn::First1x1,
            _ => StrideOn::Conv3x3,
        };
        Ok(Self { stride_on, layers, ..Self::new(depth) })
    }

    /// `layer1` .. `layer4`, whose names are ours but for the shortcut's two layers.
    pub(crate) fn rename_layer(name: &str) -> Rename {
        if !name.starts_with("layer") {
            return Rename::Unknown;
        }
        Rename::to(
            name.replace("downsample.0.", "downsample.conv.").replace("downsample.1.", "downsample.bn."),
        )
    }

    /// Stride and dilation of layer1 .. layer4.
    fn strides(&self) -> [(usize, usize); 4] {
        match self.output_stride {
            8 => [(1, 1), (2, 1), (1, 2), (1, 4)],
            16 => [(1, 1), (2, 1), (2, 1), (1, 2)],
            _ => [(1, 1), (2, 1), (2, 1), (2, 1)],
        }
    }
}

impl Family for ResNetConfig {
    type Encoder = ResNet;

    const NAMES: &'static [&'static str] =
        &["resnet10", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"];
    const TENSORS: &'static str = "ResNet (`conv1.weight`, `layer1.0.conv1.weight`, ..)";

    fn parse(name: &str) -> Option<Self> {
        let config = Self::new(name.strip_prefix("resnet")?.parse().ok()?);
        config.blocks().is_some().then_some(config)
    }

    /// torchvision's ResNets, the deep-stem ResNets of semseg, and ResNets with Caffe's and Keras's stride under
    /// torchvision's names.
    fn recognise(tensors: &dyn Tensors) -> Option<Result<Self, String>> {
        let stem = match tensors.shape("conv1.weight")? {
            [_, _, 7, 7] => Stem::Classic,
            [_, _, 3, 3] if tensors.shape("conv3.weight").is_some() => Stem::Deep,
            _ => return None,
        };
        Some(Self::read_layers(tensors).map(|config| Self { stem, ..config }))
    }

    /// torchvision and semseg: `conv1`, `bn1` (and `conv2` .. `bn3` of a deep stem), `layer1` .., `fc`.
    fn rename(name: &str) -> Rename {
        if name.starts_with("fc.") {
            return Rename::Skip;
        }
        for kind in ["conv", "bn"] {
            let stem = name.strip_prefix(kind).and_then(|rest| rest.split_once('.'));
            if let Some((number, rest)) = stem
                && let Ok(number @ 1..=3) = number.parse::<usize>()
            {
                return Rename::to(format!("stem.{}.{kind}.{rest}", number - 1));
            }
        }
        Self::rename_layer(name)
    }

    fn adjust(self, found: Option<&Self>, settings: &Settings) -> Self {
        let base = found.unwrap_or(&self);
        Self {
            depth: self.depth,
            stem: settings.stem.unwrap_or(base.stem),
            stride_on: settings.stride_on.unwrap_or(base.stride_on),
            output_stride: settings.output_stride.unwrap_or(base.output_stride),
            width: settings.width,
            ..self
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if self.blocks().is_none() {
            return Err(ConfigError::new("encoder.depth", self.depth, "10, 18, 34, 50, 101 or 152"));
        }
        if ![8, 16, 32].contains(&self.output_stride) {
            return Err(ConfigError::new("encoder.output_stride", self.output_stride, "8, 16 or 32"));
        }
        if !(0.05..=4.0).contains(&self.width) {
            return Err(ConfigError::new("encoder.width", self.width, "a number from 0.05 to 4"));
        }
        if ![3, 4].contains(&self.layers) {
            return Err(ConfigError::new("encoder.layers", self.layers, "3 or 4"));
        }
        Ok(())
    }

    fn output_stride(&self) -> usize {
        let [.., last] = self.strides();
        // Without the last layer the map is that of the one before.
        if self.layers == 3 { self.output_stride / last.0 } else { self.output_stride }
    }

    fn channels(&self) -> [usize; 2] {
        let channels = self.layer_channels();
        [channels[self.layers - 2], channels[self.layers - 1]]
    }

    fn name(&self) -> &'static str {
        let is_own = |name: &&&str| Self::parse(name).is_some_and(|other| other.depth == self.depth);
        Self::NAMES.iter().find(is_own).copied().unwrap_or("resnet")
    }

    fn describe(&self) -> String {
        let stem = match self.stem {
            Stem::Classic => "classic stem",
            Stem::Deep => "deep stem",
        };
        let stride_on = match self.stride_on {
            StrideOn::First1x1 => ", stride on the first 1x1",
            StrideOn::Conv3x3 if self.is_bottleneck() => ", stride on the 3x3",
            StrideOn::Conv3x3 => "",
        };
        let width = if self.width == 1.0 { String::new() } else { format!(", width x {}", self.width) };
        let layers = if self.layers == 4 { "" } else { ", without layer4" };
        let stride = Family::output_stride(self);
        format!("ResNet-{} ({stem}{stride_on}, output stride {stride}{width}{layers})", self.depth)
    }

    fn init(&self, device: &Device) -> ResNet {
        let (blocks, bottleneck) = self.blocks().expect("depth was validated");
        let narrow = self.scaled(64);
        let stem = match self.stem {
            Stem::Classic => vec![Conv::new(3, narrow, 7).stride(2)],
            Stem::Deep => vec![
                Conv::new(3, narrow, 3).stride(2),
                Conv::new(narrow, narrow, 3),
                Conv::new(narrow, 2 * narrow, 3),
            ],
        };
        let mut from = stem.last().expect("a stem has layers").to;
        let mut layer = |index: usize| {
            let (stride, dilation) = self.strides()[index];
            let to = self.layer_channels()[index];
            let init = |block: usize| {
                let late = block == 0 && self.late_dilation;
                let dilation = if late { (dilation / 2).max(1) } else { dilation };
                let stride = if block == 0 { stride } else { 1 };
                let shape = BlockShape { from, to, stride, dilation, stride_on: self.stride_on };
                from = to;
                if bottleneck {
                    Block::Bottleneck(Bottleneck::new(shape, device))
                } else {
                    Block::Basic(Basic::new(shape, device))
                }
            };
            (0..blocks[index]).map(init).collect()
        };
        ResNet {
            stem: stem.into_iter().map(|conv| ConvNorm::new_he(conv, device)).collect(),
            layer1: layer(0),
            layer2: layer(1),
            layer3: layer(2),
            layer4: if self.layers == 4 { layer(3) } else { Vec::new() },
            ceil_pool: self.ceil_pool,
        }
    }
}

#[derive(Clone, Copy)]
struct BlockShape {
    from: usize,
    to: usize,
    stride: usize,
    dilation: usize,
    stride_on: StrideOn,
}

impl BlockShape {
    /// The 1x1 on the shortcut, where the block changes the size or the channels.
    fn downsample(self, device: &Device) -> Option<ConvNorm> {
        (self.stride != 1 || self.from != self.to)
            .then(|| ConvNorm::new_he(Conv::new(self.from, self.to, 1).stride(self.stride), device))
    }
}

/// A residual network. See the module's head for shapes.
#[derive(Module, Debug)]
pub struct ResNet {
    /// The first convolutions, before the max pooling.
    pub stem: Vec<ConvNorm>,
    /// Blocks at stride 4.
    pub layer1: Vec<Block>,
    /// Blocks at stride 8.
    pub layer2: Vec<Block>,
    /// Blocks at stride 16, or dilated by 2.
    pub layer3: Vec<Block>,
    /// Blocks at stride 32, or dilated; none in an encoder of three layers.
    pub layer4: Vec<Block>,
    ceil_pool: bool,
}

impl ResNet {
    /// `layer4` on the map of `layer3`; none in an encoder of three layers.
    pub(crate) fn describe_last<'a>(&'a self, graph: &mut Graph<'a>, layer3: Node) -> Option<Node> {
        (!self.layer4.is_empty()).then(|| describe_layer(&self.layer4, graph, 4, layer3))
    }
}

fn describe_layer<'a>(blocks: &'a [Block], graph: &mut Graph<'a>, layer: usize, mut x: Node) -> Node {
    for (index, block) in blocks.iter().enumerate() {
        let sum = block.describe(graph, &format!("layer{layer}.{index}"), x);
        graph.mark_block(layer, sum);
        x = graph.relu(sum);
    }
    x
}

impl Describe for ResNet {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        let mut x = image;
        for (index, conv) in self.stem.iter().enumerate() {
            x = graph.conv_norm(format!("stem.{index}"), conv, x);
            x = graph.relu(x);
        }
        x = graph.max_pool("stem.pool", x, MaxPool { ceil: self.ceil_pool, ..MaxPool::three(2) });
        let mut stages = vec![x];
        let layers = [&self.layer1, &self.layer2, &self.layer3, &self.layer4];
        for (layer, blocks) in (1..).zip(layers).filter(|(_, blocks)| !blocks.is_empty()) {
            x = describe_layer(blocks, graph, layer, x);
            stages.push(x);
        }
        stages
    }
}

/// One residual block.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // a few dozen per network, all of one kind
pub enum Block {
    /// Of depths below 50.
    Basic(Basic),
    /// Of depth 50 and more.
    Bottleneck(Bottleneck),
}

impl Block {
    /// The block without its last ReLU.
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, name: &str, x: Node) -> Node {
        let (layers, downsample): (Vec<(&Conv2d, &BatchNorm)>, _) = match self {
            Self::Basic(Basic { conv1, bn1, conv2, bn2, downsample }) => {
                (vec![(conv1, bn1), (conv2, bn2)], downsample)
            }
            Self::Bottleneck(Bottleneck { conv1, bn1, conv2, bn2, conv3, bn3, downsample }) => {
                (vec![(conv1, bn1), (conv2, bn2), (conv3, bn3)], downsample)
            }
        };
        let shortcut = match downsample {
            Some(conv) => graph.conv_norm(format!("{name}.downsample"), conv, x),
            None => x,
        };
        let count = layers.len();
        let mut out = x;
        for (index, (conv, norm)) in (1..).zip(layers) {
            let convolved = graph.conv(format!("{name}.conv{index}"), conv, out);
            out = graph.norm(norm, convolved);
            out = if index == count { graph.add(out, shortcut) } else { graph.relu(out) };
        }
        out
    }
}

/// Two 3x3 convolutions and a shortcut.
#[derive(Module, Debug)]
pub struct Basic {
    /// The first convolution.
    pub conv1: Conv2d,
    /// Its normalisation.
    pub bn1: BatchNorm,
    /// The second convolution.
    pub conv2: Conv2d,
    /// Its normalisation.
    pub bn2: BatchNorm,
    /// The 1x1 on the shortcut, if the block changes size or channels.
    pub downsample: Option<ConvNorm>,
}

impl Basic {
    fn new(shape: BlockShape, device: &Device) -> Self {
        let conv = |from, stride| {
            Conv::new(from, shape.to, 3).stride(stride).dilation(shape.dilation).init_he(device)
        };
        Self {
            conv1: conv(shape.from, shape.stride),
            bn1: BatchNorm::new(shape.to, device),
            conv2: conv(shape.to, 1),
            bn2: BatchNorm::new(shape.to, device),
            downsample: shape.downsample(device),
        }
    }
}

/// 1x1 down, 3x3, 1x1 up by four, and a shortcut.
#[derive(Module, Debug)]
pub struct Bottleneck {
    /// The first convolution.
    pub conv1: Conv2d,
    /// Its normalisation.
    pub bn1: BatchNorm,
    /// The second convolution.
    pub conv2: Conv2d,
    /// Its normalisation.
    pub bn2: BatchNorm,
    /// The third convolution.
    pub conv3: Conv2d,
    /// Its normalisation.
    pub bn3: BatchNorm,
    /// The 1x1 on the shortcut, if the block changes size or channels.
    pub downsample: Option<ConvNorm>,
}

impl Bottleneck {
    fn new(shape: BlockShape, device: &Device) -> Self {
        let narrow = shape.to / 4;
        let (first, middle) = match shape.stride_on {
            StrideOn::First1x1 => (shape.stride, 1),
            StrideOn::Conv3x3 => (1, shape.stride),
        };
        let conv2 = Conv::new(narrow, narrow, 3).stride(middle).dilation(shape.dilation);
        Self {
            conv1: Conv::new(shape.from, narrow, 1).stride(first).init_he(device),
            bn1: BatchNorm::new(narrow, device),
            conv2: conv2.init_he(device),
            bn2: BatchNorm::new(narrow, device),
            conv3: Conv::new(narrow, shape.to, 1).init_he(device),
            bn3: BatchNorm::new(shape.to, device),
            downsample: shape.downsample(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torchvision_names_become_ours() {
        let rename = ResNetConfig::rename;
        let to = |name: &str| Rename::To(name.to_string());
        assert_eq!(rename("conv1.weight"), to("stem.0.conv.weight"));
        assert_eq!(rename("bn3.running_var"), to("stem.2.bn.running_var"));
        assert_eq!(rename("bn1.num_batches_tracked"), Rename::Skip);
        assert_eq!(rename("layer2.0.downsample.1.bias"), to("layer2.0.downsample.bn.bias"));
        assert_eq!(rename("fc.weight"), Rename::Skip);
        assert_eq!(rename("head.weight"), Rename::Unknown);
    }
}
