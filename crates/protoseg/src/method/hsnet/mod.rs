//! HSNet (Min, Kang, Cho 2021): hypercorrelation squeeze for few-shot segmentation.
//!
//! The encoder is an ImageNet classifier, frozen, at its own stride of 32. Every block of its stages 2 to 4 is compared
//! between query and support ([`hypercorrelation`]), the comparisons are squeezed by centre-pivot 4D convolutions
//! ([`centre_pivot`]), and mixed from coarse to fine ([`learner`]). In use on a CPU the same numbers come from kernels
//! (`inference`).
//!
//! Shots vote: each makes a mask of its own; foreground is where at least half of the most votes of the image are.
//! Training is with one shot. Its cross-entropy counts pixels without a label as background, as published code does.
//!
//! Shapes: maps of a query and of a support `[n, d, h, w]`, one per block, stage 2 first (13 for ResNet-50, 30 for
//! ResNet-101, 7 for VGG-16); scores `[episodes, 2, H, W]`.

pub mod centre_pivot;
pub mod hypercorrelation;
mod inference;
pub mod learner;

use burn::tensor::{Device, Tensor};
use protoseg_core::{IGNORE, RowMap};
use rand::RngCore;
use serde::{Deserialize, Serialize};

pub use learner::HsnetWeights;

use super::{
    BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Frozen, Losses, Maps, Method, Vision,
    episodic::encode_all, mask::BACKGROUND,
};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    config::ConfigError,
    encoder::{EncoderConfig, ResNetConfig, Tensors, VggConfig},
    network::{Network, Tap},
    nn::upsample,
    weights::{
        Rename,
        few_shot::{Published, Under, in_encoder, rename_by},
    },
};
use learner::STAGES;

/// HSNet has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hsnet {}

impl Hsnet {
    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> HsnetWeights {
        HsnetWeights::new(shape, device)
    }

    /// The scores that each shot makes alone, `[episodes, 2, H, W]` each.
    fn shots(&self, network: &Network, encoded: &Encoded<'_>) -> Vec<Tensor<4>> {
        let weights = network.method.hsnet();
        let small = inference::scores(weights, encoded).unwrap_or_else(|| small_scores(weights, encoded));
        small.into_iter().map(|scores| upsample(scores, encoded.size)).collect()
    }
}

/// The scores that each shot makes alone, on the decoder's grid, by operations of Burn.
fn small_scores(weights: &HsnetWeights, encoded: &Encoded<'_>) -> Vec<Tensor<4>> {
    let one = |shot| {
        let (supports, labels) = encoded.shot(shot);
        weights.scores(&encoded.queries, &hypercorrelation::masked(&supports, &labels))
    };
    (0..encoded.shots).map(one).collect()
}

impl Episodic for Hsnet {
    fn name(&self) -> &'static str {
        "hsnet"
    }

    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        match encoder {
            EncoderConfig::ResNet(resnet) if resnet.layers == 4 && resnet.output_stride == 32 => Ok(()),
            EncoderConfig::Vgg16(VggConfig { output_stride: 32 }) => Ok(()),
            other => {
                let expected = "a ResNet with four layers or VGG-16, at output stride 32, for this method";
                Err(ConfigError::new("encoder", other.describe(), expected))
            }
        }
    }

    fn frozen(&self) -> Frozen {
        Frozen::Encoder
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        vision.maps(images, &STAGES.map(Tap::Blocks))
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        let mut shots = self.shots(network, encoded);
        if shots.len() == 1 { shots.swap_remove(0) } else { vote(&shots) }
    }

    /// The mean cross-entropy of the shots, each alone.
    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        _: &mut dyn RngCore,
    ) -> Losses {
        let mut encoded = encode_all(self, vision, episodes);
        for map in encoded.queries.iter_mut().chain(&mut encoded.supports) {
            *map = map.clone().detach();
        }
        let labels: Vec<RowMap> = episodes.query_labels.iter().map(unlabelled_is_background).collect();
        let targets = PixelTargets::new(&labels);
        let scores = small_scores(vision.network().method.hsnet(), &encoded);
        let losses = scores.into_iter().map(|scores| pixel_loss(scores, &targets));
        let sum = losses.reduce(|sum, loss| sum + loss).expect("there is a shot");
        let main = sum.div_scalar(episodes.shots() as f64);
        Losses { total: main.clone(), main, aux: None }
    }
}

fn unlabelled_is_background(label: &RowMap) -> RowMap {
    let data = label.data.iter().map(|&row| if row == IGNORE { BACKGROUND } else { row }).collect();
    RowMap::new(label.width, label.height, data)
}

/// The shots' common answer. A pixel has as many votes as shots find foreground there; it is foreground if it has at
/// least half of the most votes that any pixel of its image has. The scores are shares of those most votes, that of the
/// foreground raised by a quarter of a vote, since half is enough.
pub fn vote(shots: &[Tensor<4>]) -> Tensor<4> {
    let found = shots.iter().map(|scores| {
        let [background, foreground] = [0, 1].map(|row| scores.clone().slice_dim(1, row..row + 1));
        foreground.greater(background).float()
    });
    let votes = found.reduce(|sum, one| sum + one).expect("there is a shot");
    let [episodes, _, height, width] = votes.dims();
    let most = votes.clone().reshape([episodes, height * width]).max_dim(1).clamp_min(1.0);
    let most = most.reshape([episodes, 1, 1, 1]);
    let against = (most.clone() - votes.clone()) / most.clone();
    Tensor::cat(vec![against, votes.add_scalar(0.25) / most], 1)
}

/// HSNet in a checkpoint of its authors: `backbone` is torchvision's ResNet or VGG-16.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("hpn_learner.encoder_layer4.0.conv1.weight")?;
    let encoder = EncoderConfig::recognise(&Under { tensors, prefix: "backbone." });
    let missing = || "`backbone` is neither a ResNet nor VGG-16".to_string();
    Some(encoder.unwrap_or_else(|| Err(missing())).map(|encoder| {
        let method = Method::Hsnet(Hsnet::default());
        Published { network: method.published_network(encoder), method, rename }
    }))
}

/// Layers of a block are numbered among its ReLUs: 0 (4D convolution), 1 (normalisation), 3, 4, 6, 7.
fn rename(name: &str) -> Rename {
    if let Some(name) = name.strip_prefix("backbone.") {
        let is_vgg = ["features.", "classifier."].iter().any(|part| name.starts_with(part));
        let encoder = if is_vgg {
            EncoderConfig::Vgg16(VggConfig { output_stride: 32 })
        } else {
            EncoderConfig::ResNet(ResNetConfig::new(50))
        };
        return in_encoder(encoder.rename(name));
    }
    let Some(name) = name.strip_prefix("hpn_learner.") else { return Rename::Unknown };
    const DECODER: [(&str, &str); 4] = [
        ("decoder1.0.", "decoder1.0."),
        ("decoder1.2.", "decoder1.1."),
        ("decoder2.0.", "decoder2.0."),
        ("decoder2.2.", "decoder2.1."),
    ];
    let block = || {
        let mut parts = name.strip_prefix("encoder_layer")?.splitn(3, '.');
        let part = match parts.next()? {
            "4" => "squeeze4",
            "3" => "squeeze3",
            "2" => "squeeze2",
            "4to3" => "mix43",
            "3to2" => "mix32",
            _ => return None,
        };
        let number: usize = parts.next()?.parse().ok()?;
        let rest = parts.next()?;
        Some(match number % 3 {
            0 => Rename::to(format!("{part}.{}.{rest}", number / 3)),
            1 => Rename::to(format!("{part}.{}.norm.{rest}", number / 3)),
            _ => Rename::Unknown,
        })
    };
    rename_by(&DECODER, name).or_else(block).unwrap_or(Rename::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_testing::assert_close;

    /// Scores of one image with these pixels in the foreground.
    fn found(pixels: [f32; 4]) -> Tensor<4> {
        let foreground = Tensor::<1>::from_floats(pixels, &cpu()).reshape([1, 1, 1, 4]);
        Tensor::cat(vec![foreground.clone().neg(), foreground], 1)
    }

    #[test]
    fn half_of_the_most_votes_is_enough() {
        let shots = [
            found([1.0, 1.0, -1.0, 0.0]),
            found([1.0, -1.0, -1.0, -1.0]),
            found([1.0, 1.0, 1.0, -1.0]),
            found([1.0, -1.0, -1.0, -1.0]),
        ];
        // 4, 2, 1 and 0 votes of 4; a tie of one shot is background.
        let scores = vote(&shots).try_into_vec_as::<f32>().unwrap();
        let mask: Vec<bool> = (0..4).map(|pixel| scores[4 + pixel] > scores[pixel]).collect();
        assert_eq!(mask, [true, true, false, false]);
        assert_close("background", &scores[..4], &[0.0, 0.5, 0.75, 1.0], 1e-6);
        // The most votes are those of the image: one vote of two shots is half of two, none of none is not.
        let two = vote(&[found([1.0, 1.0, -1.0, -1.0]), found([1.0, -1.0, -1.0, -1.0])]);
        let scores = two.try_into_vec_as::<f32>().unwrap();
        let mask: Vec<bool> = (0..4).map(|pixel| scores[4 + pixel] > scores[pixel]).collect();
        assert_eq!(mask, [true, true, false, false]);
        let none = vote(&[found([-1.0; 4]), found([-1.0; 4])]).try_into_vec_as::<f32>().unwrap();
        assert!((0..4).all(|pixel| none[4 + pixel] < none[pixel]));
    }

    #[test]
    fn published_names_become_ours() {
        let to = |name: &str| Rename::To(name.to_string());
        assert_eq!(rename("backbone.layer3.5.bn3.bias"), to("encoder.layer3.5.bn3.bias"));
        assert_eq!(rename("backbone.conv1.weight"), to("encoder.stem.0.conv.weight"));
        assert_eq!(rename("backbone.fc.bias"), Rename::Skip);
        assert_eq!(rename("backbone.features.28.bias"), to("encoder.blocks.4.convs.2.bias"));
        assert_eq!(rename("backbone.classifier.0.bias"), Rename::Skip);
        assert_eq!(rename("hpn_learner.encoder_layer4.3.conv2.bias"), to("squeeze4.1.conv2.bias"));
        assert_eq!(rename("hpn_learner.encoder_layer3to2.7.weight"), to("mix32.2.norm.weight"));
        assert_eq!(rename("hpn_learner.encoder_layer2.2.weight"), Rename::Unknown);
        assert_eq!(rename("hpn_learner.decoder2.2.bias"), to("decoder2.1.bias"));
        assert_eq!(rename("hpn_learner.decoder3.0.bias"), Rename::Unknown);
    }
}
