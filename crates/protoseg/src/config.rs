//! What a network is made of. One value describes any of them; it is stored with the weights.

use std::borrow::Cow;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::{
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    method::Method,
    network::Network,
};

/// A setting with a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` must be {expected}, got `{got}`")]
pub struct ConfigError {
    /// The setting, as a plan or a model file names it.
    pub key: String,
    /// Its value.
    pub got: String,
    /// What it may be.
    pub expected: Cow<'static, str>,
}

impl ConfigError {
    pub(crate) fn new(
        key: impl Into<String>,
        got: impl ToString,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { key: key.into(), got: got.to_string(), expected: expected.into() }
    }
}

/// Encoder and decoder: the part of a network that turns images into features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Image -> maps.
    pub encoder: EncoderConfig,
    /// Maps -> features.
    pub decoder: DecoderKind,
    /// Dimension d of the features.
    pub dim: usize,
    /// Channel dropout in the heads.
    pub dropout: f64,
}

impl NetworkConfig {
    /// The reference's network: PSPNet on a deep-stem ResNet, d = 512.
    pub fn pspnet(depth: usize) -> Self {
        Self {
            encoder: EncoderConfig::ResNet(ResNetConfig::new(depth)),
            decoder: DecoderKind::PspNet,
            dim: 512,
            dropout: 0.1,
        }
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.encoder.validate()?;
        if let Some(expected) = self.fixed_dim().filter(|&expected| expected != self.dim) {
            let expected =
                format!("{expected}, the channels of the encoder's maps: this decoder has no layers");
            return Err(ConfigError::new("dim", self.dim, expected));
        }
        if !(8..=4096).contains(&self.dim) || !self.dim.is_multiple_of(2) {
            return Err(ConfigError::new("dim", self.dim, "an even number from 8 to 4096"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::new("dropout", self.dropout, "a number from 0 to below 1"));
        }
        Ok(())
    }

    /// The dimension that follows from the encoder, where the decoder has no layers.
    fn fixed_dim(&self) -> Option<usize> {
        match self.decoder {
            DecoderKind::Identity => Some(self.encoder.channels()[1]),
            DecoderKind::Stages => {
                let (channels, _) = self.encoder.init(&cpu()).stages();
                Some(channels.iter().rev().take(DecoderKind::STAGES).sum())
            }
            _ => None,
        }
    }

    /// The maps of an encoder alone.
    pub fn stages(encoder: EncoderConfig) -> Self {
        let config = Self { encoder, decoder: DecoderKind::Stages, dim: 0, dropout: 0.0 };
        Self { dim: config.fixed_dim().unwrap_or_default(), ..config }
    }

    /// A network for a method, with fresh weights. On the CPU nothing is drawn before it is first used, so a network
    /// whose weights are about to be loaded costs nothing to make.
    pub fn init(&self, method: &Method, device: &Device) -> Result<Network, ConfigError> {
        self.validate()?;
        method.validate()?;
        Ok(Network::new(self, method, device))
    }

    /// `PSPNet, ResNet-50 (deep stem, stride on the 3x3, output stride 8)`.
    pub fn describe(&self) -> String {
        let decoder = match self.decoder {
            DecoderKind::PspNet => "PSPNet",
            DecoderKind::PspBottleneck => "PSPNet up to its bottleneck",
            DecoderKind::DeepLabV3 => "DeepLab-V3",
            DecoderKind::Fcn => "FCN",
            DecoderKind::Project => "projection (PANet-style)",
            DecoderKind::Stages => "last maps joined",
            DecoderKind::Identity => "no decoder",
        };
        format!("{decoder}, {}", self.encoder.describe())
    }
}
