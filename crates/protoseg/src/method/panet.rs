//! PANet (Wang et al. 2019): few-shot segmentation by prototype alignment.
//!
//! The extractor is VGG-16, dilated, without its last ReLU, and nothing after it. Prototypes of the class and of
//! everything else are masked means of a support's features, averaged over the shots; a query scores 20 times its
//! cosine with both. In training the query's own prediction makes prototypes too, and the supports must be found with
//! them (the alignment loss, weight 1).
//!
//! The paper upsamples features to the mask's size before it averages them (`align_corners = false`). Averaging is
//! linear, so the mask is brought down to the features instead, by the transposed weights: the same numbers from a map
//! 64 times smaller.
//!
//! Shapes: queries `[episodes, 3, H, W]` -> features `[episodes, 512, H/8, W/8]` -> scores `[episodes, 2, H, W]`,
//! background first.

use burn::{module::Module, tensor::Tensor};
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    BaseClasses, Encoded, Episodes, Episodic, Losses, Maps, Method, Vision,
    cosine::scaled_scores,
    episodic::encode_all,
    mask::{TINY_AREA, means_at_mask_size},
};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    encoder::{EncoderConfig, Tensors, VggConfig},
    network::Network,
    nn::{resize_centred, resize_centred_weights},
    weights::{Rename, few_shot::Published},
};

/// What a cosine is multiplied by before the softmax.
pub(crate) const ALPHA: f64 = 20.0;

/// PANet has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panet {}

/// PANet adds no weights to its encoder; what it keeps is alpha.
#[derive(Module, Debug)]
pub struct PanetWeights {
    alpha: f64,
}

impl Panet {
    pub(super) fn init(self) -> PanetWeights {
        PanetWeights { alpha: ALPHA }
    }
}

impl Episodic for Panet {
    fn name(&self) -> &'static str {
        "panet"
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        vec![vision.features(images)]
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, _: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        resize_centred(answer(encoded).scores, encoded.size)
    }

    /// Cross-entropy of the queries, and the alignment loss.
    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        _: &mut dyn RngCore,
    ) -> Losses {
        let encoded = encode_all(self, vision, episodes);
        let found = answer(&encoded);
        let scores = resize_centred(found.scores.clone(), encoded.size);
        let main = pixel_loss(scores, &PixelTargets::new(episodes.query_labels));
        let align = found.alignment(episodes);
        Losses { total: main.clone() + align.clone(), main, aux: Some(align) }
    }
}

/// PANet in a checkpoint of its authors: VGG-16 in five blocks, or another encoder under the same prefix.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("encoder.backbone.features.0.0.weight")?;
    let method = Method::Panet(Panet::default());
    let encoder = EncoderConfig::Vgg16(VggConfig { output_stride: 8 });
    Some(Ok(Published { network: method.published_network(encoder), method, rename }))
}

/// `encoder.backbone.features.BLOCK.LAYER`: blocks are counted among poolings, layers among ReLUs.
fn rename(name: &str) -> Rename {
    let conv = || {
        let mut parts = name.strip_prefix("encoder.backbone.features.")?.split('.');
        let mut even = || parts.next()?.parse::<usize>().ok().filter(|number| number.is_multiple_of(2));
        let (block, layer) = (even()? / 2, even()? / 2);
        Some(Rename::to(format!("encoder.blocks.{block}.convs.{layer}.{}", parts.next()?)))
    };
    conv().unwrap_or(Rename::Unknown)
}

/// What PANet makes of episodes, on the features' grid.
struct Answer {
    /// `[episodes, d, h, w]`
    query_features: Tensor<4>,
    /// `[episodes * shots, d, h, w]`
    support_features: Tensor<4>,
    /// `[episodes, 2, h, w]`
    scores: Tensor<4>,
}

fn answer(encoded: &Encoded<'_>) -> Answer {
    let (count, shots) = (encoded.len(), encoded.shots);
    let (support_features, query_features) = (encoded.supports[0].clone(), encoded.queries[0].clone());
    // [episodes * shots, 2, d] -> the mean over the shots.
    let dim = support_features.dims()[1];
    let means = means_at_mask_size(support_features.clone(), encoded.support_labels, resize_centred_weights);
    let prototypes = means.reshape([count, shots, 2, dim]).mean_dim(1).squeeze_dim(1);
    let scores = scaled_scores(query_features.clone(), prototypes, ALPHA);
    Answer { query_features, support_features, scores }
}

impl Answer {
    /// The supports' cross-entropy under the prototypes of the queries' own predictions. An episode in which no
    /// foreground is predicted adds nothing.
    fn alignment(&self, episodes: &Episodes<'_>) -> Tensor<1> {
        let (count, shots) = (episodes.len(), episodes.shots());
        let mut sum = Tensor::zeros([1], &self.scores.device());
        for episode in 0..count {
            let scores = self.scores.clone().slice_dim(0, episode..episode + 1);
            let foreground = scores.clone().slice_dim(1, 1..2).greater(scores.slice_dim(1, 0..1)).float();
            if foreground.clone().sum().into_scalar::<f32>() == 0.0 {
                continue;
            }
            let features = self.query_features.clone().slice_dim(0, episode..episode + 1);
            let prototypes = hard_means(features, foreground);
            let own = episode * shots..(episode + 1) * shots;
            let features = self.support_features.clone().slice_dim(0, own.clone());
            let scores = scaled_scores(features, prototypes, ALPHA);
            // Each support is averaged over its own labelled pixels, then over the shots.
            for (shot, label) in episodes.support_labels[own].iter().enumerate() {
                let scores = scores.clone().slice_dim(0, shot..shot + 1);
                let scores = resize_centred(scores, [label.height, label.width]);
                let loss = pixel_loss(scores, &PixelTargets::new(std::slice::from_ref(label)));
                sum = sum + loss.div_scalar(shots as f64);
            }
        }
        sum.div_scalar(count as f64)
    }
}

/// The mean feature of background and foreground where a query's own prediction has them: `[1, d, h, w]` and
/// `[1, 1, h, w]` -> `[1, 2, d]`.
fn hard_means(features: Tensor<4>, foreground: Tensor<4>) -> Tensor<3> {
    let [_, dim, height, width] = features.dims();
    let foreground = foreground.reshape([1, 1, height * width]);
    let background = foreground.clone().neg().add_scalar(1.0);
    let masks = Tensor::cat(vec![background, foreground], 1);
    let areas = masks.clone().sum_dim(2).add_scalar(TINY_AREA);
    let pixels = features.reshape([1, dim, height * width]).swap_dims(1, 2);
    masks.matmul(pixels) / areas
}
