//! Decoders (heads): encoder maps -> the embedding map whose pixels are compared with prototypes.

mod aspp;
mod ppm;
mod projector;

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

pub use aspp::Aspp;
pub use ppm::Ppm;
pub(crate) use ppm::{BINS as PYRAMID_BINS, TAPS as PYRAMID_TAPS, pyramid_spread};
pub use projector::Projector;

use crate::{
    bridge,
    nn::{Conv, ConvNorm, Cost, Dropout2d},
};

/// Which decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecoderKind {
    /// Pyramid pooling, then the projector (Zhao et al. 2017): the paper's main extractor.
    PspNet,
    /// Atrous spatial pyramid pooling, then the projector (Chen et al. 2017).
    DeepLabV3,
    /// The projector alone (Long et al. 2015).
    Fcn,
    /// One 1x1 convolution and nothing else, as in PANet-style models.
    Project,
}

/// Any decoder. `[batch, channels, h, w]` -> `[batch, dim, h, w]`, signed.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one a network; an indirection would serve nobody
pub enum Decoder {
    PspNet(PspNet),
    DeepLabV3(DeepLabV3),
    Fcn(Projector),
    Project(Conv2d),
}

/// Pyramid pooling and projector. They are one module because the projector's first convolution is computed through
/// the pyramid (see [`Ppm::project`]).
#[derive(Module, Debug)]
pub struct PspNet {
    pub ppm: Ppm,
    pub projector: Projector,
}

/// Atrous pyramid, one 1x1, projector.
#[derive(Module, Debug)]
pub struct DeepLabV3 {
    pub aspp: Aspp,
    pub merge: ConvNorm,
    pub dropout: Dropout2d,
    pub projector: Projector,
}

/// Channel counts and rates a decoder is built from.
pub struct DecoderShape {
    /// Channels of the encoder's last map.
    pub from: usize,
    /// Dimension of the embedding.
    pub dim: usize,
    pub dropout: f64,
    /// The encoder's output stride, which sets the atrous rates.
    pub output_stride: usize,
}

impl DecoderKind {
    pub fn init(self, shape: &DecoderShape, device: &Device) -> Decoder {
        let &DecoderShape { from, dim, dropout, output_stride } = shape;
        let projector = |from| Projector::new(from, dim, dropout, device);
        match self {
            Self::PspNet => {
                let ppm = Ppm::new(from, device);
                Decoder::PspNet(PspNet { projector: projector(ppm.channels(from)), ppm })
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
        }
    }
}

impl Decoder {
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match self {
            Self::PspNet(PspNet { ppm, projector }) => projector.finish(ppm.project(x, &projector.conv.conv)),
            Self::DeepLabV3(head) => {
                let merged = head.merge.forward_relu(head.aspp.forward(x));
                head.projector.forward(head.dropout.forward(merged))
            }
            Self::Fcn(projector) => projector.forward(x),
            Self::Project(conv) => bridge::conv(conv, x),
        }
    }

    /// Notes the decoder's convolutions as the paper states them, without the pyramid shortcut.
    pub(crate) fn cost(&self, cost: &mut Cost, size: [usize; 2]) {
        match self {
            Self::PspNet(head) => {
                head.ppm.cost(cost);
                head.projector.cost(cost, size);
            }
            Self::DeepLabV3(head) => {
                head.aspp.cost(cost, size);
                head.merge.cost(cost, size);
                head.projector.cost(cost, size);
            }
            Self::Fcn(projector) => projector.cost(cost, size),
            Self::Project(conv) => {
                cost.conv(conv, size);
            }
        }
    }

    /// Multiply-accumulates that the pyramid shortcut saves an image at this map size.
    pub(crate) fn saved_macs(&self, size: [usize; 2]) -> u64 {
        match self {
            Self::PspNet(head) => head.ppm.saved_macs(&head.projector.conv.conv, size),
            _ => 0,
        }
    }
}
