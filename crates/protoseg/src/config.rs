//! What a network is made of. One value describes any of them; it is stored with the weights.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::{
    decoder::DecoderKind,
    encoder::{EncoderConfig, ResNetConfig},
    network::Network,
};

/// A value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key} = {got}` cannot be; expected {expected}")]
pub struct ConfigError {
    pub key: String,
    pub got: String,
    pub expected: &'static str,
}

impl ConfigError {
    pub(crate) fn new(key: impl Into<String>, got: impl ToString, expected: &'static str) -> Self {
        Self { key: key.into(), got: got.to_string(), expected }
    }
}

/// Encoder, decoder and the learned parts around them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    pub encoder: EncoderConfig,
    pub decoder: DecoderKind,
    /// Dimension d of features and prototypes. The auxiliary head has half of it.
    pub dim: usize,
    /// Channel dropout in the heads.
    pub dropout: f64,
    /// A second, shallower head on the encoder's last map but one, for training only.
    pub aux_head: bool,
    /// G_sup has a trained network of its own (the paper's best SCE).
    pub support_mlp: bool,
    /// G_qry has one (an ablation; the paper's best DQCE has none).
    pub query_mlp: bool,
    /// Rows of the classifier.
    pub rows: usize,
}

impl NetworkConfig {
    /// The reference's network: PSPNet on a deep-stem ResNet, d = 512, auxiliary head, G_sup as MLP.
    pub fn pspnet(depth: usize, rows: usize) -> Self {
        Self {
            encoder: EncoderConfig::ResNet(ResNetConfig::new(depth)),
            decoder: DecoderKind::PspNet,
            dim: 512,
            dropout: 0.1,
            aux_head: true,
            support_mlp: true,
            query_mlp: false,
            rows,
        }
    }

    pub fn validate(&self) -> Result<(), ConfigError> {
        self.encoder.validate()?;
        if !(8..=4096).contains(&self.dim) || !self.dim.is_multiple_of(2) {
            return Err(ConfigError::new("dim", self.dim, "an even number from 8 to 4096"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::new("dropout", self.dropout, "a number from 0 to below 1"));
        }
        if self.rows == 0 || self.rows >= usize::from(u16::MAX) {
            return Err(ConfigError::new("rows", self.rows, "1 to 65534 classifier rows"));
        }
        Ok(())
    }

    /// A network with fresh weights. On the CPU nothing is drawn before it is first used, so a network whose weights
    /// are about to be loaded costs nothing to make.
    pub fn init(&self, device: &Device) -> Result<Network, ConfigError> {
        self.validate()?;
        Ok(Network::new(self, device))
    }

    /// `PSPNet, ResNet-50 (deep stem, stride on the 3x3, output stride 8)`.
    pub fn describe(&self) -> String {
        let decoder = match self.decoder {
            DecoderKind::PspNet => "PSPNet",
            DecoderKind::DeepLabV3 => "DeepLab-V3",
            DecoderKind::Fcn => "FCN",
            DecoderKind::Project => "projection (PANet-style)",
            DecoderKind::Identity => "no decoder",
        };
        match &self.encoder {
            EncoderConfig::ResNet(resnet) => format!("{decoder}, {}", resnet.describe()),
            EncoderConfig::Vgg16(vgg) => format!("{decoder}, VGG-16 (output stride {})", vgg.output_stride),
        }
    }
}
