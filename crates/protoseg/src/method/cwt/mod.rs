//! CWT (Lu et al. 2021): a classifier is fitted to the supports, then a transformer adapts its weights to the query.
//!
//! The PSPNet is RePRI's, trained on base classes and frozen (`protoseg train` with RePRI, then `--init` of its model).
//! Per episode a fresh classifier of two rows without bias is [fitted](fit) to the supports' features, as they are, by 200
//! plain gradient steps; all shots count alike. Its rows then look at the query's features, at unit length, through one
//! block of [attention](transformer) and score them. Only the transformer learns.
//!
//! The classifier starts at random: in training from the run's own stream, in use from the setting `seed`, so that an
//! answer can be had again. Published code leaves the network in training mode for the first support of every epoch;
//! here what is frozen stays as it is.
//!
//! Shapes: features `[n, 512, h, w]`; rows `[episodes, 2, 512]`; scores `[episodes, 2, H, W]`, background first.

pub mod fit;
pub mod transformer;

use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use protoseg_core::seed;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use self::{
    fit::{ClassifierFit, class_weights},
    transformer::Transformer,
};
use super::{
    BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Frozen, Losses, Maps, Method, Vision,
    cells::Cells, cosine, episodic::encode_all, repri::rename_pspnet,
};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    config::ConfigError,
    encoder::{EncoderConfig, Rename, Tensors},
    network::Network,
    nn::upsample,
    weights::few_shot::{Published, rename_by, semseg_resnet},
};

/// Its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cwt {
    /// Of the transformer.
    pub heads: usize,
    /// Steps of the classifier per episode.
    pub steps: usize,
    /// Rate of those steps.
    pub cls_lr: f64,
    /// What the classifier starts from in use.
    pub seed: u64,
}

impl Default for Cwt {
    fn default() -> Self {
        Self { heads: 4, steps: 200, cls_lr: 0.1, seed: 0 }
    }
}

/// What it adds to encoder and decoder.
#[derive(Module, Debug)]
pub struct CwtWeights {
    /// From rows of a classifier to rows for one query.
    pub transformer: Transformer,
}

/// The rows that the classifier of one episode starts from, `[2, d]`.
pub type Start = Vec<f32>;

impl Cwt {
    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> CwtWeights {
        CwtWeights { transformer: Transformer::new(shape.dim, self.heads, device) }
    }

    /// The classifier of each episode, fitted to its supports: `[episodes, 2, d]`.
    pub fn classifiers(&self, encoded: &Encoded<'_>, starts: &[Start]) -> Tensor<3> {
        let fitted = starts.iter().enumerate().flat_map(|(episode, start)| {
            let mut fit = classifier_fit(encoded, episode, start);
            (0..self.steps).for_each(|_| fit.step(self.cls_lr));
            fit.rows()
        });
        let [_, dim, ..] = encoded.supports[0].dims();
        let rows = TensorData::new(fitted.collect::<Vec<f32>>(), [starts.len(), 2, dim]);
        Tensor::from_data(rows, &encoded.queries[0].device())
    }

    /// The fitted rows of classifiers after they have looked at their queries, `[episodes, 2, d]`, and the queries' cells
    /// at unit length, `[episodes, h * w, d]`.
    pub fn adapted(
        &self,
        network: &Network,
        encoded: &Encoded<'_>,
        rows: Tensor<3>,
    ) -> (Tensor<3>, Tensor<3>) {
        let [episodes, dim, height, width] = encoded.queries[0].dims();
        let cells = encoded.queries[0].clone().reshape([episodes, dim, height * width]).swap_dims(1, 2);
        let cells = cosine::unit(cells);
        (network.method.cwt().transformer.forward(rows, cells.clone()), cells)
    }

    /// Scores of the queries on the features' grid, for the fitted rows of classifiers: `[episodes, 2, h, w]`.
    pub fn score_rows(&self, network: &Network, encoded: &Encoded<'_>, rows: Tensor<3>) -> Tensor<4> {
        let [episodes, _, height, width] = encoded.queries[0].dims();
        let (rows, cells) = self.adapted(network, encoded, rows);
        rows.matmul(cells.swap_dims(1, 2)).reshape([episodes, 2, height, width])
    }

    /// The answer of classifiers that start from `starts`, one per episode.
    pub fn answer_from(&self, network: &Network, encoded: &Encoded<'_>, starts: &[Start]) -> Tensor<4> {
        let rows = self.classifiers(encoded, starts);
        upsample(self.score_rows(network, encoded, rows), encoded.size)
    }

    /// The loss of each episode with classifiers that start from `starts`: weighted cross-entropy of the query.
    pub fn losses_from(&self, network: &Network, encoded: &Encoded<'_>, starts: &[Start]) -> Vec<Tensor<1>> {
        let rows = self.classifiers(encoded, starts);
        let scores = self.score_rows(network, encoded, rows);
        let loss = |(episode, label)| {
            let own = scores.clone().slice_dim(0, episode..episode + 1);
            let label = std::slice::from_ref(label);
            pixel_loss(own, &PixelTargets::new(label).weighed(&class_weights(label)))
        };
        encoded.query_labels.iter().enumerate().map(loss).collect()
    }
}

/// The classifier of one episode, at its start.
pub fn classifier_fit<'a>(encoded: &Encoded<'a>, episode: usize, start: &'a [f32]) -> ClassifierFit<'a> {
    let own = episode * encoded.shots..(episode + 1) * encoded.shots;
    let features = encoded.supports[0].clone().slice_dim(0, own.clone());
    let [.., height, width] = features.dims();
    ClassifierFit::new(Cells::new(features), [height, width], &encoded.support_labels[own], start)
}

/// Rows as PyTorch starts a 1x1 convolution: evenly within 1 / sqrt(d) of zero.
fn draw(dim: usize, mut rng: &mut dyn RngCore) -> Start {
    let bound = (1.0 / dim as f64).sqrt();
    let mut value = || ((&mut rng).next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (0..2 * dim).map(|_| ((2.0 * value() - 1.0) * bound) as f32).collect()
}

impl Episodic for Cwt {
    fn name(&self) -> &'static str {
        "cwt"
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=64).contains(&self.heads) {
            return Err(ConfigError::new("method.heads", self.heads, "1 to 64"));
        }
        if !(self.cls_lr > 0.0 && self.cls_lr.is_finite()) {
            return Err(ConfigError::new("method.cls_lr", self.cls_lr, "a number above 0"));
        }
        Ok(())
    }

    fn frozen(&self) -> Frozen {
        Frozen::Extractor
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        vec![vision.features(images)]
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        let [_, dim, ..] = encoded.queries[0].dims();
        let start = draw(dim, &mut seed::stream(self.seed, &[]));
        self.answer_from(network, encoded, &vec![start; encoded.len()])
    }

    /// Cross-entropy of the queries, in which both classes of an image weigh the same together.
    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        rng: &mut dyn RngCore,
    ) -> Losses {
        let encoded = encode_all(self, vision, episodes);
        let [_, dim, ..] = encoded.queries[0].dims();
        let starts: Vec<Start> = (0..encoded.len()).map(|_| draw(dim, rng)).collect();
        let losses = self.losses_from(vision.network(), &encoded, &starts);
        let count = losses.len() as f64;
        let sum = losses.into_iter().reduce(|sum, loss| sum + loss).expect("a batch has episodes");
        let main = sum.div_scalar(count);
        Losses { total: main.clone(), main, aux: None }
    }
}

/// Two files are published. Together, they are semseg's PSPNet up to its bottleneck, and the transformer under
/// `transformer.`; a base classifier is of no use here.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    let pspnet = tensors.shape("bottleneck.0.weight").is_some();
    let alone = tensors.shape("w_qkvs.weight").is_some();
    let Some(&[wide, dim]) = tensors.shape("transformer.w_qkvs.weight") else {
        let is_half = alone || (pspnet && tensors.shape("classifier.bias").is_none());
        return is_half.then(|| Err(half(alone)));
    };
    if !pspnet {
        return Some(Err(half(true)));
    }
    Some(semseg_resnet(tensors).map(|resnet| {
        let method = Method::Cwt(Cwt { heads: wide / dim.max(1), ..Cwt::default() });
        Published { network: method.published_network(EncoderConfig::ResNet(resnet)), method, rename }
    }))
}

/// What is said of a file that holds only the transformer, or all but that.
fn half(transformer: bool) -> String {
    let (has, lacks) = match transformer {
        true => ("transformer", "PSPNet that it was trained on (`layer0.0.weight`, .., `bottleneck.1.bias`)"),
        false => ("PSPNet", "transformer (`transformer.w_qkvs.weight`, `.fc.*`, `.layer_norm.*`)"),
    };
    format!(
        "it holds only the {has} of CWT, without the {lacks}\n\
         hint: CWT is published as two files; put the tensors of both into one, those of the transformer under \
         `transformer.`"
    )
}

fn rename(name: &str) -> Rename {
    const NORM: [(&str, &str); 3] = [
        ("transformer.layer_norm.weight", "transformer.layer_norm.gamma"),
        ("transformer.layer_norm.bias", "transformer.layer_norm.beta"),
        ("transformer.", "transformer."),
    ];
    if name.starts_with("classifier.") {
        return Rename::Skip;
    }
    rename_by(&NORM, name).unwrap_or_else(|| rename_pspnet(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_within_its_bound_and_the_same_again() {
        let draw = |seed: u64| draw(512, &mut seed::stream(seed, &[]));
        let start = draw(0);
        assert_eq!(start.len(), 1024);
        assert!(start.iter().all(|value| value.abs() <= 1.0 / 512f32.sqrt()));
        assert!(start.iter().any(|value| value.abs() > 0.9 / 512f32.sqrt()));
        assert_eq!(start, draw(0));
        assert_ne!(start, draw(1));
    }
}
