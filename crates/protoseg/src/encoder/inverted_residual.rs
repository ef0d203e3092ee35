//! Networks of inverted residual blocks (Sandler et al. 2018): a 3x3 stem of stride 2, then stages of blocks that widen
//! a map by a 1x1, filter every channel by itself, and narrow it again. ReLU6 follows the first two; a shortcut joins
//! blocks that change neither size nor channels.

use burn::{module::Module, tensor::Device};
use protoseg_kernels::Activation;

use super::table::Describe;
use crate::{
    graph::{Graph, Node},
    nn::{Conv, ConvNorm, NormSettings},
};

/// Blocks of the same shape, the first of which carries the stride.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    /// How many times wider a block is inside.
    pub widen: usize,
    pub kernel: usize,
    pub stride: usize,
    pub to: usize,
    pub blocks: usize,
}

impl Stage {
    pub const fn new([widen, kernel, stride, to, blocks]: [usize; 5]) -> Self {
        Self { widen, kernel, stride, to, blocks }
    }
}

/// Where a convolution of stride 2 has its zeros.
#[derive(Clone, Copy)]
pub(super) enum Padding {
    /// As many on either side (PyTorch).
    Even,
    /// One more below and to the right (TensorFlow's `same`, on maps of even sides).
    MoreAfter,
}

/// What a network is made of.
pub(super) struct Shape {
    /// Channels of the stem.
    pub stem: usize,
    pub stages: Vec<Stage>,
    /// From here on, strides become dilations.
    pub output_stride: usize,
    pub padding: Padding,
    pub norm: NormSettings,
}

impl Shape {
    /// Channels of the last map but one and of the last.
    pub fn channels(&self) -> [usize; 2] {
        let ends: Vec<usize> = self.stage_ends().collect();
        let [.., before, last] = ends[..] else { unreachable!("networks have two maps or more") };
        [before, last]
    }

    /// Channels of each map, finest first: of the last stage before a stride, and of the last stage.
    fn stage_ends(&self) -> impl Iterator<Item = usize> {
        let next = self.stages[1..].iter().map(|stage| stage.stride).chain([2]);
        self.stages.iter().zip(next).filter(|&(_, next)| next > 1).map(|(stage, _)| stage.to)
    }

    pub fn init(&self, device: &Device) -> InvertedResiduals {
        let stem = self.pad(Conv::new(3, self.stem, 3).stride(2));
        let mut blocks: Vec<InvertedResidual> = Vec::new();
        let (mut from, mut stride, mut dilation) = (self.stem, 2, 1);
        for stage in &self.stages {
            if let Some(last) = blocks.last_mut().filter(|_| stage.stride > 1) {
                last.ends_stage = true;
            }
            let mut first_stride = stage.stride;
            if stride * stage.stride > self.output_stride {
                dilation *= stage.stride;
                first_stride = 1;
            }
            stride *= first_stride;
            for block in 0..stage.blocks {
                let stride = if block == 0 { first_stride } else { 1 };
                blocks.push(self.block(stage, from, stride, dilation, device));
                from = stage.to;
            }
        }
        blocks.last_mut().expect("networks have blocks").ends_stage = true;
        InvertedResiduals { stem: ConvNorm::new_he(stem, device).with_norm(self.norm), blocks }
    }

    fn block(
        &self,
        stage: &Stage,
        from: usize,
        stride: usize,
        dilation: usize,
        device: &Device,
    ) -> InvertedResidual {
        let wide = from * stage.widen;
        let layer = |conv| ConvNorm::new_he(conv, device).with_norm(self.norm);
        let depthwise = Conv::new(wide, wide, stage.kernel).depthwise().stride(stride).dilation(dilation);
        InvertedResidual {
            expand: (stage.widen > 1).then(|| layer(Conv::new(from, wide, 1))),
            depthwise: layer(self.pad(depthwise)),
            project: layer(Conv::new(wide, stage.to, 1)),
            has_shortcut: stride == 1 && from == stage.to,
            ends_stage: false,
        }
    }

    fn pad(&self, conv: Conv) -> Conv {
        match self.padding {
            Padding::MoreAfter if conv.stride == 2 => conv.padding(conv.kernel / 2 - 1, conv.kernel / 2),
            _ => conv,
        }
    }
}

/// Stem and blocks.
#[derive(Module, Debug)]
pub struct InvertedResiduals {
    /// 3x3 of stride 2.
    pub stem: ConvNorm,
    /// All stages' blocks in order.
    pub blocks: Vec<InvertedResidual>,
}

/// One block.
#[derive(Module, Debug)]
pub struct InvertedResidual {
    /// 1x1 to the wide map; blocks that are not wider inside have none.
    pub expand: Option<ConvNorm>,
    /// Every channel by itself.
    pub depthwise: ConvNorm,
    /// 1x1 to the narrow map, without an activation.
    pub project: ConvNorm,
    has_shortcut: bool,
    /// Whether the output is one of the encoder's maps.
    ends_stage: bool,
}

impl Describe for InvertedResiduals {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, image: Node) -> Vec<Node> {
        let stem = graph.conv_norm("stem", &self.stem, image);
        let mut x = graph.activation(Activation::Relu6, stem);
        let mut stages = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.describe(graph, &format!("blocks.{index}"), x);
            if block.ends_stage {
                stages.push(x);
            }
        }
        stages
    }
}

impl InvertedResidual {
    fn describe<'a>(&'a self, graph: &mut Graph<'a>, name: &str, x: Node) -> Node {
        let mut wide = x;
        if let Some(expand) = &self.expand {
            wide = graph.conv_norm(format!("{name}.expand"), expand, wide);
            wide = graph.activation(Activation::Relu6, wide);
        }
        wide = graph.conv_norm(format!("{name}.depthwise"), &self.depthwise, wide);
        wide = graph.activation(Activation::Relu6, wide);
        let narrow = graph.conv_norm(format!("{name}.project"), &self.project, wide);
        if self.has_shortcut { graph.add(narrow, x) } else { narrow }
    }
}
