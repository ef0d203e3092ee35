//! From a network's modules to the steps of a plan.

use burn::{
    module::Param,
    nn::{PaddingConfig2d, conv::Conv2d},
    tensor::Tensor,
};
use protoseg_kernels::{
    ConvShape,
    channels_last::{Finish, FixedConv, Lanes, Panels, lanes, multiply},
};

use super::{
    plan::{Builder, Map, Plan, Work},
    pyramid::{Context, Pyramid},
};
use crate::{
    decoder::{Decoder, DeepLabV3, PYRAMID_BINS, Projector, PspNet},
    encoder::{Basic, Block, Bottleneck, Encoder, ResNet, Vgg},
    network::Network,
    nn::{BatchNorm, ConvNorm},
};

pub fn plan(network: &Network, size: [usize; 2]) -> Plan {
    let (mut builder, image) = Builder::new(size);
    let encoded = match &network.encoder {
        Encoder::ResNet(encoder) => resnet(&mut builder, encoder, image),
        Encoder::Vgg16(encoder) => vgg(&mut builder, encoder, image),
    };
    let features = match &network.decoder {
        Decoder::PspNet(head) => pspnet(&mut builder, head, encoded),
        Decoder::DeepLabV3(head) => deeplab(&mut builder, head, encoded),
        Decoder::Fcn(head) => projector(&mut builder, head, encoded),
        Decoder::Project(conv) => Layer::new("decoder.out", conv).build(&mut builder, encoded),
    };
    builder.finish(features)
}

fn resnet(builder: &mut Builder, encoder: &ResNet, image: Map) -> Map {
    let mut x = image;
    for (index, conv) in encoder.stem.iter().enumerate() {
        x = Layer::with_norm(format!("stem.{index}"), conv).relu().build(builder, x);
    }
    x = max_pool(builder, "stem.pool", x, 2);
    let layers = [&encoder.layer1, &encoder.layer2, &encoder.layer3, &encoder.layer4];
    for (layer, blocks) in (1..).zip(layers) {
        for (index, block) in blocks.iter().enumerate() {
            x = residual(builder, &format!("layer{layer}.{index}"), block, x);
        }
    }
    x
}

fn residual(builder: &mut Builder, name: &str, block: &Block, x: Map) -> Map {
    let (convs, downsample): (Vec<(&Conv2d, &BatchNorm)>, _) = match block {
        Block::Basic(Basic { conv1, bn1, conv2, bn2, downsample }) => {
            (vec![(conv1, bn1), (conv2, bn2)], downsample)
        }
        Block::Bottleneck(Bottleneck { conv1, bn1, conv2, bn2, conv3, bn3, downsample }) => {
            (vec![(conv1, bn1), (conv2, bn2), (conv3, bn3)], downsample)
        }
    };
    let shortcut = match downsample {
        Some(conv) => Layer::with_norm(format!("{name}.downsample"), conv).build(builder, x),
        None => x,
    };
    let count = convs.len();
    let mut out = x;
    for (index, (conv, norm)) in (1..).zip(convs) {
        let layer = Layer::new(format!("{name}.conv{index}"), conv).norm(norm).relu();
        let layer = if index == count { layer.add(shortcut) } else { layer };
        out = layer.build(builder, out);
    }
    out
}

fn vgg(builder: &mut Builder, encoder: &Vgg, image: Map) -> Map {
    let mut x = image;
    for (block, convs) in encoder.blocks.iter().enumerate() {
        if block > 0 {
            x = max_pool(builder, &format!("block{block}.pool"), x, encoder.pool_stride(block - 1));
        }
        for (index, conv) in convs.convs.iter().enumerate() {
            let layer = Layer::new(format!("block{}.{index}", block + 1), conv);
            let is_last = block + 1 == encoder.blocks.len() && index + 1 == convs.convs.len();
            let layer = if is_last { layer } else { layer.relu() };
            x = layer.build(builder, x);
        }
    }
    x
}

fn max_pool(builder: &mut Builder, name: &str, x: Map, stride: usize) -> Map {
    let [height, width, channels] = x.shape;
    let out = builder.map([height.div_ceil(stride), width.div_ceil(stride), channels]);
    builder.step(name, Work::MaxPool { stride }, x, out);
    out
}

fn pspnet(builder: &mut Builder, PspNet { ppm, projector }: &PspNet, x: Map) -> Map {
    let [height, width, from] = x.shape;
    let ConvNorm { conv, bn } = &projector.conv;
    let [to, all, ..] = conv.weight.val().dims();
    let weight = values(&conv.weight);
    let (scale, shift) = bn.scale_and_shift();
    // The pyramid's share of the convolution, computed where the pyramid is small.
    let narrow = (all - from) / PYRAMID_BINS.len();
    let taps = |tap: usize, level: usize, channel: usize, to: usize| {
        weight[(to * all + from + level * narrow + channel) * 9 + tap] * scale[to]
    };
    let branches = ppm.branches.iter().map(Folded::new).collect();
    let pyramid = builder.map([height, width, to]);
    builder.step("decoder.ppm", Work::Pyramid(Pyramid::new(x.shape, to, branches, taps)), x, pyramid);
    let own: Vec<f32> = weight
        .chunks_exact(all * 9)
        .zip(&scale)
        .flat_map(|(weight, scale)| weight[..from * 9].iter().map(move |tap| tap * scale))
        .collect();
    let shape = ConvShape { from, ..conv_shape(conv, x) };
    let projected = builder.map([height, width, to]);
    let conv = FixedConv::new(shape, &own, &shift, true);
    builder.step("decoder.projector.conv", Work::Conv { conv, add: Some(pyramid), offset: 0 }, x, projected);
    Layer::new("decoder.projector.out", &projector.out).build(builder, projected)
}

fn deeplab(builder: &mut Builder, head: &DeepLabV3, x: Map) -> Map {
    let [height, width, _] = x.shape;
    let aspp = &head.aspp;
    let branches = std::iter::once(("decoder.aspp.point".to_string(), &aspp.point));
    let atrous = aspp.atrous.iter().enumerate();
    let branches: Vec<_> =
        branches.chain(atrous.map(|(index, conv)| (format!("decoder.aspp.atrous.{index}"), conv))).collect();
    let narrow = aspp.point.conv.weight.val().dims()[0];
    let all = builder.map([height, width, (branches.len() + 1) * narrow]);
    for (index, (name, conv)) in branches.iter().enumerate() {
        Layer::with_norm(name, conv).relu().build_into(builder, x, all, index * narrow);
    }
    let context = Context::new(x.shape, Folded::new(&aspp.pool));
    let offset = branches.len() * narrow;
    builder.step("decoder.aspp.pool", Work::Context { context, offset }, x, all);
    let merged = Layer::with_norm("decoder.merge", &head.merge).relu().build(builder, all);
    self::projector(builder, &head.projector, merged)
}

fn projector(builder: &mut Builder, projector: &Projector, x: Map) -> Map {
    let x = Layer::with_norm("decoder.projector.conv", &projector.conv).relu().build(builder, x);
    Layer::new("decoder.projector.out", &projector.out).build(builder, x)
}

/// A convolution and what follows it.
struct Layer<'a> {
    name: String,
    conv: &'a Conv2d,
    norm: Option<&'a BatchNorm>,
    add: Option<Map>,
    relu: bool,
}

impl<'a> Layer<'a> {
    fn new(name: impl Into<String>, conv: &'a Conv2d) -> Self {
        Self { name: name.into(), conv, norm: None, add: None, relu: false }
    }

    fn with_norm(name: impl Into<String>, ConvNorm { conv, bn }: &'a ConvNorm) -> Self {
        Self::new(name, conv).norm(bn)
    }

    fn norm(self, norm: &'a BatchNorm) -> Self {
        Self { norm: Some(norm), ..self }
    }

    fn add(self, map: Map) -> Self {
        Self { add: Some(map), ..self }
    }

    fn relu(self) -> Self {
        Self { relu: true, ..self }
    }

    fn build(self, builder: &mut Builder, x: Map) -> Map {
        let shape = conv_shape(self.conv, x);
        let out = builder.map([shape.out_height(), shape.out_width(), shape.to]);
        self.build_into(builder, x, out, 0);
        out
    }

    /// To the channels of `out` from `offset` on.
    fn build_into(self, builder: &mut Builder, x: Map, out: Map, offset: usize) {
        let (weight, bias) = folded(self.conv, self.norm);
        let conv = FixedConv::new(conv_shape(self.conv, x), &weight, &bias, self.relu);
        builder.step(self.name, Work::Conv { conv, add: self.add, offset }, x, out);
    }
}

/// A 1x1 convolution with batch-norm and ReLU, of a few rows.
#[derive(Debug)]
pub struct Folded {
    weight: Panels,
    bias: Vec<Lanes>,
}

impl Folded {
    fn new(ConvNorm { conv, bn }: &ConvNorm) -> Self {
        let [to, from, ..] = conv.weight.val().dims();
        let (weight, bias) = folded(conv, Some(bn));
        Self { weight: Panels::new(from, to, |c, o| weight[o * from + c]), bias: lanes(&bias) }
    }

    pub fn to(&self) -> usize {
        self.weight.outer
    }

    pub fn run(&self, rows: &[f32]) -> Vec<f32> {
        let to = self.weight.outer;
        let mut out = vec![0.0; rows.len() / self.weight.inner * to];
        let finish = Finish { bias: Some(&self.bias), relu: true, add: None };
        multiply(rows, &self.weight, finish, &mut out, to);
        out
    }

    /// Multiply-accumulates of one row.
    pub fn macs(&self) -> usize {
        self.weight.inner * self.weight.outer
    }

    pub fn bytes(&self) -> usize {
        self.weight.bytes()
    }
}

/// Weight and bias of a convolution with the batch-norm behind it.
fn folded(conv: &Conv2d, norm: Option<&BatchNorm>) -> (Vec<f32>, Vec<f32>) {
    let mut weight = values(&conv.weight);
    let to = conv.weight.val().dims()[0];
    match (norm, &conv.bias) {
        (None, None) => (weight, vec![0.0; to]),
        (None, Some(bias)) => (weight, values(bias)),
        (Some(norm), bias) => {
            debug_assert!(bias.is_none(), "convolutions with a norm have no bias");
            let (scale, shift) = norm.scale_and_shift();
            let filter = weight.len() / to;
            for (filter, scale) in weight.chunks_exact_mut(filter).zip(scale) {
                filter.iter_mut().for_each(|tap| *tap *= scale);
            }
            (weight, shift)
        }
    }
}

fn values<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    param.val().try_into_vec_as().expect("weights are f32")
}

fn conv_shape(conv: &Conv2d, x: Map) -> ConvShape {
    let PaddingConfig2d::Explicit(padding, ..) = conv.padding else {
        unreachable!("convolutions of this crate are padded explicitly")
    };
    let [to, from, kernel, _] = conv.weight.val().dims();
    let [height, width, _] = x.shape;
    let (stride, dilation) = (conv.stride[0], conv.dilation[0]);
    ConvShape { batch: 1, from, to, height, width, kernel, stride, dilation, padding }
}
