//! The baseline of mining latent classes (Yang et al. 2021): a matching network like PANet on a ResNet.
//!
//! The features are those of layer 3 without its last ReLU. Prototypes of the class and of everything else are masked
//! means of a support's features, resized up to the mask (`align_corners = true`), averaged over the shots; a query
//! scores 10 times its cosine with both.
//!
//! Only this baseline was published, not the mining of latent classes itself, which is not here. Its ResNet dilates
//! like torchvision's: the first block of layer 3 keeps a dilation of 1. In training all weights but those of
//! batch-norm are learned; statistics stay as they are (`freeze_batch_norm`).
//!
//! Shapes: queries `[episodes, 3, H, W]` -> features `[episodes, 1024, H/8, W/8]` -> scores `[episodes, 2, H, W]`,
//! background first.

use burn::{module::Module, tensor::Tensor};
use protoseg_core::RowMap;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    BaseClasses, Encoded, Episodes, Episodic, Losses, Maps, Method, Vision, cosine, episodic::encode_all,
    mask::means_at_mask_size,
};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    config::ConfigError,
    encoder::{EncoderConfig, Rename, ResNetConfig, Stem, Tensors},
    network::{Network, Tap},
    nn::{upsample, upsample_weights},
    weights::few_shot::{Published, Under, in_encoder, rename_by},
};

/// It has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mining {}

/// It adds no weights to its encoder.
#[derive(Module, Debug)]
pub struct MiningWeights {}

/// The mean feature of background and foreground of every support: `[supports, d, h, w]` -> `[supports, 2, d]`.
pub fn prototypes(supports: Tensor<4>, labels: &[RowMap]) -> Tensor<3> {
    means_at_mask_size(supports, labels, upsample_weights)
}

impl Mining {
    pub(super) fn init(self) -> MiningWeights {
        MiningWeights {}
    }
}

/// Scores on the features' grid.
fn scores(encoded: &Encoded<'_>) -> Tensor<4> {
    let (count, shots) = (encoded.len(), encoded.shots);
    let (supports, queries) = (encoded.supports[0].clone(), encoded.queries[0].clone());
    let dim = supports.dims()[1];
    let prototypes = prototypes(supports, encoded.support_labels).reshape([count, shots, 2, dim]);
    cosine::scores(queries, prototypes.mean_dim(1).squeeze_dim(1))
}

impl Episodic for Mining {
    fn name(&self) -> &'static str {
        "mining"
    }

    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        match encoder {
            EncoderConfig::ResNet(resnet) if resnet.layers == 3 => Ok(()),
            other => {
                let expected = "a ResNet of three layers for this method";
                Err(ConfigError::new("encoder", other.describe(), expected))
            }
        }
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        vision.maps(images, &[Tap::Signed(3)])
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, _: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        upsample(scores(encoded), encoded.size)
    }

    /// Cross-entropy of the queries.
    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        _: &mut dyn RngCore,
    ) -> Losses {
        let scores = scores(&encode_all(self, vision, episodes));
        let main = pixel_loss(scores, &PixelTargets::new(episodes.query_labels));
        Losses { total: main.clone(), main, aux: None }
    }
}

/// A deep-stem ResNet of three layers under `backbone.`, and nothing else.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("backbone.conv1.6.weight")?;
    tensors.shape("backbone.layer3.0.conv1.weight")?;
    let resnet = ResNetConfig::read_layers(&Under { tensors, prefix: "backbone." });
    Some(resnet.map(|resnet| {
        let method = Method::Mining(Mining::default());
        let encoder = EncoderConfig::ResNet(ResNetConfig { stem: Stem::Deep, ..resnet });
        Published { network: method.published_network(encoder), method, rename }
    }))
}

fn rename(name: &str) -> Rename {
    // The last batch-norm of the stem stands outside its sequence.
    const STEM: [(&str, &str); 6] = [
        ("conv1.0.", "encoder.stem.0.conv."),
        ("conv1.1.", "encoder.stem.0.bn."),
        ("conv1.3.", "encoder.stem.1.conv."),
        ("conv1.4.", "encoder.stem.1.bn."),
        ("conv1.6.", "encoder.stem.2.conv."),
        ("bn1.", "encoder.stem.2.bn."),
    ];
    let Some(name) = name.strip_prefix("backbone.") else { return Rename::Unknown };
    rename_by(&STEM, name).unwrap_or_else(|| in_encoder(ResNetConfig::rename_layer(name)))
}
