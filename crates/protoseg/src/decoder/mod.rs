//! Decoders (heads): encoder maps -> the embedding map whose pixels are compared with prototypes.

mod aspp;
mod ppm;
mod projector;

use burn::{module::Module, nn::conv::Conv2d, tensor::Device};
use serde::{Deserialize, Serialize};

pub use aspp::Aspp;
pub use ppm::Ppm;
pub use projector::Projector;

use crate::{
    graph::{Graph, Node},
    nn::{Conv, ConvNorm, Dropout2d},
};

/// Which decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecoderKind {
    /// Pyramid pooling, then the projector (Zhao et al. 2017): the paper's main extractor.
    PspNet,
    /// Pyramid pooling, then a 3x3 with its ReLU, whose map is the features: they are not signed. What RePRI and CWT are
    /// published with.
    #[serde(rename = "pspnet-bottleneck")]
    PspBottleneck,
    /// Atrous spatial pyramid pooling, then the projector (Chen et al. 2017).
    DeepLabV3,
    /// The projector alone (Long et al. 2015).
    Fcn,
    /// One 1x1 convolution and nothing else, as in PANet-style models.
    Project,
    /// The encoder's last maps joined, each at unit length per pixel, on the grid of the finest: no layer of its own, so
    /// an encoder alone is enough.
    Stages,
    /// The encoder's last map as it is, as in PANet (Wang et al. 2019).
    #[serde(rename = "none")]
    Identity,
}

/// Any decoder. `[batch, channels, h, w]` -> `[batch, dim, h, w]`, signed but for [`DecoderKind::PspBottleneck`]'s.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one per network; an indirection would serve nobody
pub enum Decoder {
    /// See [`DecoderKind::PspNet`].
    PspNet(PspNet),
    /// See [`DecoderKind::PspBottleneck`].
    PspBottleneck(PspBottleneck),
    /// See [`DecoderKind::DeepLabV3`].
    DeepLabV3(DeepLabV3),
    /// See [`DecoderKind::Fcn`].
    Fcn(Projector),
    /// See [`DecoderKind::Project`].
    Project(Conv2d),
    /// See [`DecoderKind::Stages`].
    Stages(Identity),
    /// See [`DecoderKind::Identity`].
    Identity(Identity),
}

/// No layers.
#[derive(Module, Debug)]
pub struct Identity {}

/// Pyramid pooling, projector.
#[derive(Module, Debug)]
pub struct PspNet {
    /// The pyramid.
    pub ppm: Ppm,
    /// From wide maps to the embedding.
    pub projector: Projector,
}

/// Pyramid pooling, one 3x3.
#[derive(Module, Debug)]
pub struct PspBottleneck {
    /// The pyramid.
    pub ppm: Ppm,
    /// The 3x3, before a ReLU.
    pub bottleneck: ConvNorm,
    /// Of whole channels of the features, in training.
    pub dropout: Dropout2d,
}

/// Atrous pyramid, one 1x1, projector.
#[derive(Module, Debug)]
pub struct DeepLabV3 {
    /// The atrous pyramid.
    pub aspp: Aspp,
    /// The 1x1 that merges its branches.
    pub merge: ConvNorm,
    /// After the merge, in training.
    pub dropout: Dropout2d,
    /// From wide maps to the embedding.
    pub projector: Projector,
}

/// Channel counts and rates a decoder is built from.
pub struct DecoderShape {
    /// Channels of the encoder's last map.
    pub from: usize,
    /// Dimension of the embedding. [`DecoderKind::Identity`] and [`DecoderKind::Stages`] have no layers: it follows from
    /// the encoder.
    pub dim: usize,
    /// Channel dropout.
    pub dropout: f64,
    /// The encoder's output stride, which sets the atrous rates.
    pub output_stride: usize,
}

impl DecoderKind {
    /// How many of the encoder's last maps [`Self::Stages`] joins.
    pub const STAGES: usize = 3;

    /// A decoder with fresh weights.
    pub fn init(self, shape: &DecoderShape, device: &Device) -> Decoder {
        let &DecoderShape { from, dim, dropout, output_stride } = shape;
        let projector = |from| Projector::new(from, dim, dropout, device);
        match self {
            Self::PspNet => {
                let ppm = Ppm::new(from, device);
                Decoder::PspNet(PspNet { projector: projector(ppm.channels(from)), ppm })
            }
            Self::PspBottleneck => {
                let ppm = Ppm::new(from, device);
                Decoder::PspBottleneck(PspBottleneck {
                    bottleneck: ConvNorm::new(Conv::new(ppm.channels(from), dim, 3), device),
                    dropout: Dropout2d::new(dropout),
                    ppm,
                })
            }
            Self::DeepLabV3 => {
                let narrow = dim / 2;
                Decoder::DeepLabV3(DeepLabV3 {
                    aspp: Aspp::new(from, narrow, output_stride, device),
                    merge: ConvNorm::new(Conv::new(5 * narrow, narrow, 1), device),
                    dropout: Dropout2d::new(dropout),
                    projector: projector(narrow),
                })
            }
            Self::Fcn => Decoder::Fcn(projector(from)),
            Self::Project => Decoder::Project(Conv::new(from, dim, 1).bias().init(device)),
            Self::Stages => Decoder::Stages(Identity {}),
            Self::Identity => Decoder::Identity(Identity {}),
        }
    }
}

impl Decoder {
    /// The decoder's layers on the encoder's maps, finest first; returns the node of the features.
    pub(crate) fn describe<'a>(&'a self, graph: &mut Graph<'a>, stages: &[Node]) -> Node {
        let x = *stages.last().expect("encoders have stages");
        match self {
            Self::PspNet(PspNet { ppm, projector }) => {
                let pyramid = ppm.describe(graph, "decoder.ppm", x);
                projector.describe(graph, "decoder.projector", pyramid)
            }
            Self::PspBottleneck(PspBottleneck { ppm, bottleneck, dropout }) => {
                let pyramid = ppm.describe(graph, "decoder.ppm", x);
                let mixed = graph.conv_norm("decoder.bottleneck", bottleneck, pyramid);
                let mixed = graph.relu(mixed);
                graph.dropout(dropout, mixed)
            }
            Self::DeepLabV3(head) => {
                let context = head.aspp.describe(graph, "decoder.aspp", x);
                let merged = graph.conv_norm("decoder.merge", &head.merge, context);
                let merged = graph.relu(merged);
                let merged = graph.dropout(&head.dropout, merged);
                head.projector.describe(graph, "decoder.projector", merged)
            }
            Self::Fcn(projector) => projector.describe(graph, "decoder.projector", x),
            Self::Project(conv) => graph.conv("decoder.out", conv, x),
            Self::Stages(Identity {}) => {
                let first = stages.len().saturating_sub(DecoderKind::STAGES);
                graph.stages("decoder.stages", stages[first..].to_vec())
            }
            Self::Identity(Identity {}) => x,
        }
    }
}
