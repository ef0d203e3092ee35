//! The published systems for episodes, by name.

use protoseg_core::Fit;

use super::{
    Method,
    asgnet::Asgnet,
    canet::Canet,
    capl_few_shot::{CaplFewShot, On},
    cwt::Cwt,
    hsnet::Hsnet,
    mining::Mining,
    panet::Panet,
    pfenet::Pfenet,
    repri::Repri,
    scl::{Base, Scl},
};
use crate::{
    config::NetworkConfig,
    decoder::DecoderKind,
    encoder::{EncoderConfig, ResNetConfig, StrideOn, VggConfig},
};

/// The names of all systems for episodes.
pub const FEW_SHOT_NAMES: [&str; 12] = [
    "panet",
    "pfenet",
    "canet",
    "scl-pfenet",
    "scl-canet",
    "capl-panet",
    "capl-pfenet",
    "hsnet",
    "asgnet",
    "repri",
    "cwt",
    "mining",
];

/// The system of this name with its published settings.
pub fn few_shot(name: &str) -> Option<Method> {
    Some(match name {
        "panet" => Method::Panet(Panet::default()),
        "pfenet" => Method::Pfenet(Pfenet::default()),
        "canet" => Method::Canet(Canet::default()),
        "capl-panet" => Method::CaplFewShot(CaplFewShot { on: On::Panet, ..CaplFewShot::default() }),
        "scl-pfenet" => Method::Scl(Scl::new(Base::Pfenet)),
        "scl-canet" => Method::Scl(Scl::new(Base::Canet)),
        "capl-pfenet" => Method::CaplFewShot(CaplFewShot::default()),
        "hsnet" => Method::Hsnet(Hsnet::default()),
        "asgnet" => Method::Asgnet(Asgnet::default()),
        "repri" => Method::Repri(Repri::default()),
        "cwt" => Method::Cwt(Cwt::default()),
        "mining" => Method::Mining(Mining::default()),
        _ => return None,
    })
}

impl Method {
    /// The network that a system is published with, around an encoder whose stem and depth are free. Only for systems
    /// for episodes.
    pub fn published_network(&self, encoder: EncoderConfig) -> NetworkConfig {
        let output_stride = if matches!(self, Self::Hsnet(_)) { 32 } else { 8 };
        let encoder = match encoder {
            EncoderConfig::ResNet(resnet) => EncoderConfig::ResNet(ResNetConfig {
                output_stride,
                layers: if self.stops_at_layer3() { 3 } else { 4 },
                ceil_pool: self.is_canet(),
                stride_on: if self.is_canet() { StrideOn::First1x1 } else { resnet.stride_on },
                late_dilation: matches!(self, Self::Mining(_)),
                ..resnet
            }),
            EncoderConfig::Vgg16(_) => EncoderConfig::Vgg16(VggConfig { output_stride }),
            other => other,
        };
        let [_, channels] = encoder.channels();
        let (decoder, dim) = match self {
            Self::CaplFewShot(_) => (DecoderKind::Project, 512),
            Self::Repri(_) | Self::Cwt(_) => (DecoderKind::PspBottleneck, 512),
            _ => (DecoderKind::Identity, channels),
        };
        NetworkConfig { encoder, decoder, dim, dropout: 0.1 }
    }

    /// CANet, or what is built on it.
    /// Side of the images that a system is published with.
    pub fn published_size(&self) -> usize {
        match self {
            Self::Hsnet(_) => 400,
            Self::Panet(_) | Self::Repri(_) => 417,
            _ if self.is_canet() => 321,
            _ => 473,
        }
    }

    /// How images reach the square that a system is published with.
    pub fn published_fit(&self) -> Fit {
        match self {
            Self::Hsnet(_) | Self::Panet(_) => Fit::Squash,
            _ if self.is_canet() => Fit::Squash,
            _ => Fit::Letterbox,
        }
    }

    fn is_canet(&self) -> bool {
        matches!(self, Self::Canet(_) | Self::Scl(Scl { on: Base::Canet, .. }))
    }

    fn stops_at_layer3(&self) -> bool {
        self.is_canet() || matches!(self, Self::Mining(_))
    }
}
