//! PFENet (Tian et al. 2020): a prior from features that are never trained, and feature enrichment.
//!
//! The encoder is frozen. Layers 3 and 2, concatenated, go through a 1x1 of 256 channels, one for queries and one for
//! supports; the support's vector is the masked average of its map, the mean over the shots. Layer 4 makes the
//! [`prior`](super::prior). The [`fem`] compares query and vector on four grids.
//!
//! Without `prior` the network has no channel for it. That is how it takes part in the generalized setting, where a
//! class is a vector and no image.
//!
//! Published code leaves batch-norm of the frozen encoder in training mode, so its statistics drift; here a frozen
//! encoder stays as it is.
//!
//! Shapes: maps of a query `[n, 1536, h, w]`, `[n, 2048, h, w]`; of a support the same, layer 4 from the masked layer 3.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor, activation::relu},
};
use protoseg_core::RowMap;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Frozen, Losses, Maps, Method, Vision,
    episodic::encode_all,
    fem::{self, Enriched, Fem, Part},
    mask::{FOREGROUND, masked_average, masks, mean_over_shots},
    prior::mean_prior,
};
use crate::{
    bridge::{self, PixelTargets, pixel_loss},
    config::ConfigError,
    encoder::{EncoderConfig, Tensors},
    network::{Network, Tap},
    nn::{Conv, Dropout2d, upsample},
    weights::{
        Rename,
        few_shot::{Published, rename_by, rename_semseg, semseg_resnet},
    },
};

/// Added to the area under a mask.
pub(crate) const TINY_AREA: f64 = 5e-4;

/// PFENet's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pfenet {
    /// Sides of the grids, or shares of the map's side.
    pub bins: Vec<f64>,
    /// Whether the prior is part of the network.
    pub prior: bool,
}

impl Default for Pfenet {
    fn default() -> Self {
        Self { bins: fem::BINS.to_vec(), prior: true }
    }
}

/// What PFENet adds to its encoder.
#[derive(Module, Debug)]
pub struct PfenetWeights {
    /// Layers 3 and 2 of a query.
    pub down_query: MidConv,
    /// Layers 3 and 2 of a support.
    pub down_supp: MidConv,
    /// Per grid: query, vector, prior.
    pub init_merge: Vec<Conv2d>,
    /// The rest.
    pub fem: Fem,
}

/// Layers 3 and 2 to 256 channels: 1x1, ReLU, channel dropout.
#[derive(Module, Debug)]
pub struct MidConv {
    /// The 1x1.
    pub conv: Conv2d,
    /// In training.
    pub dropout: Dropout2d,
}

impl MidConv {
    /// For an encoder of this shape.
    pub fn new(shape: &FeatureShape, device: &Device) -> Self {
        let from = shape.stages[3] + shape.stages[2];
        Self { conv: Conv::new(from, fem::CHANNELS, 1).init(device), dropout: Dropout2d::new(0.5) }
    }

    /// `[n, 1536, h, w]` -> `[n, 256, h, w]`.
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        self.dropout.forward(relu(bridge::conv(&self.conv, maps)))
    }
}

impl Pfenet {
    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> PfenetWeights {
        let merge = || Conv::new(2 * fem::CHANNELS + usize::from(self.prior), fem::CHANNELS, 1).init(device);
        PfenetWeights {
            down_query: MidConv::new(shape, device),
            down_supp: MidConv::new(shape, device),
            init_merge: self.bins.iter().map(|_| merge()).collect(),
            fem: Fem::new(self.bins.len(), true, device),
        }
    }

    /// The enriched query for vectors `[n, 256]`; `prior` is `[n, 1, h, w]`.
    fn enrich(
        &self,
        weights: &PfenetWeights,
        query: &Tensor<4>,
        vectors: &Tensor<2>,
        prior: Option<&Tensor<4>>,
        inner: bool,
    ) -> Enriched {
        let [.., height, width] = query.dims();
        let size = [height, width];
        let grids = fem::grids(&self.bins, size);
        let merged = grids.into_iter().zip(&weights.init_merge).map(|(grid, conv)| {
            let mut parts = vec![Part::Map(fem::pooled(query.clone(), grid)), Part::Vector(vectors.clone())];
            parts.extend(prior.map(|prior| Part::Map(upsample(prior.clone(), grid))));
            relu(fem::merge(conv, parts))
        });
        weights.fem.forward(merged.collect(), size, inner, None)
    }

    /// The vector of a class in each of its images, `[images, 256]`.
    pub fn class_vectors(&self, network: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        support_vectors(network.method.pfenet(), maps, labels)
    }

    /// Scores `[classes, 2, h, w]` of one query for the vectors `[classes, 256]` of many classes, on the map's grid, with
    /// a prior of zeros where the network has one. The query's share of the first merge is computed once.
    pub fn class_scores(&self, network: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        let weights = network.method.pfenet();
        let query = weights.down_query.forward(query[0].clone());
        let [.., height, width] = query.dims();
        let prior = self.prior.then(|| Tensor::zeros([1, 1, height, width], &query.device()));
        self.enrich(weights, &query, vectors, prior.as_ref(), false).scores
    }

    /// The enriched queries of episodes.
    fn enrich_episodes(&self, network: &Network, encoded: &Encoded<'_>, inner: bool) -> Enriched {
        let weights = network.method.pfenet();
        let query = weights.down_query.forward(encoded.queries[0].clone());
        let vectors = support_vectors(weights, &encoded.supports, encoded.support_labels);
        let vectors = mean_over_shots(vectors, encoded.shots);
        let prior = self
            .prior
            .then(|| mean_prior(encoded.queries[1].clone(), encoded.supports[1].clone(), encoded.shots));
        self.enrich(weights, &query, &vectors, prior.as_ref(), inner)
    }
}

/// The masked average of every support, `[supports, 256]`.
fn support_vectors(weights: &PfenetWeights, supports: &Maps, labels: &[RowMap]) -> Tensor<2> {
    let features = weights.down_supp.forward(supports[0].clone());
    let [.., height, width] = features.dims();
    let mask = masks(labels, FOREGROUND, [height, width], &features.device());
    masked_average(features, mask, TINY_AREA)
}

/// Layers 3 and 2, concatenated, and the last layer: what PFENet and those after it look at.
pub(super) fn encode_query(vision: &Vision<'_>, images: Tensor<4>, last: bool) -> Maps {
    let maps = vision.maps(images, &[Tap::Stage(2), Tap::Stage(3)]);
    let [layer2, layer3] = two(maps);
    let last = last.then(|| vision.last_layer(layer3.clone()));
    std::iter::once(Tensor::cat(vec![layer3, layer2], 1)).chain(last).collect()
}

/// As [`encode_query`], with the last layer from what the mask leaves of layer 3, masked once more.
pub(super) fn encode_masked(vision: &Vision<'_>, images: Tensor<4>, labels: &[RowMap], last: bool) -> Maps {
    let maps = vision.maps(images, &[Tap::Stage(2), Tap::Stage(3)]);
    let [layer2, layer3] = two(maps);
    let last = last.then(|| {
        let [.., height, width] = layer3.dims();
        let mask = masks(labels, FOREGROUND, [height, width], &layer3.device());
        let layer4 = vision.last_layer(layer3.clone() * mask);
        let [.., height, width] = layer4.dims();
        let mask = masks(labels, FOREGROUND, [height, width], &layer4.device());
        layer4 * mask
    });
    std::iter::once(Tensor::cat(vec![layer3, layer2], 1)).chain(last).collect()
}

/// Refuses encoders without a last layer that can be computed by itself, or with maps of several sizes.
pub(super) fn needs_dilated_resnet(encoder: &EncoderConfig) -> Result<(), ConfigError> {
    match encoder {
        EncoderConfig::ResNet(resnet) if resnet.layers == 4 && resnet.output_stride == 8 => Ok(()),
        other => {
            let expected = "a ResNet with four layers and output stride 8 for this method";
            Err(ConfigError::new("encoder", other.describe(), expected))
        }
    }
}

fn two(maps: Vec<Tensor<4>>) -> [Tensor<4>; 2] {
    maps.try_into().expect("two maps were asked for")
}

impl Episodic for Pfenet {
    fn name(&self) -> &'static str {
        "pfenet"
    }

    fn validate(&self) -> Result<(), ConfigError> {
        fem::validate_bins(&self.bins)
    }

    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        needs_dilated_resnet(encoder)
    }

    fn frozen(&self) -> Frozen {
        Frozen::Encoder
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        encode_query(vision, images, self.prior)
    }

    fn encode_supports(&self, vision: &Vision<'_>, images: Tensor<4>, labels: &[RowMap]) -> Maps {
        encode_masked(vision, images, labels, self.prior)
    }

    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        upsample(self.enrich_episodes(network, encoded, false).scores, encoded.size)
    }

    /// Cross-entropy of the result, and the mean of that of the grids.
    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        _: &mut dyn RngCore,
    ) -> Losses {
        let encoded = encode_all(self, vision, episodes);
        let enriched = self.enrich_episodes(vision.network(), &encoded, true);
        let targets = PixelTargets::new(episodes.query_labels);
        let main = pixel_loss(enriched.scores, &targets);
        let aux = fem_inner_loss(enriched.inner, &targets);
        Losses { total: main.clone() + aux.clone(), main, aux: Some(aux) }
    }
}

/// PFENet in a checkpoint of its authors.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("down_query.0.weight")?;
    let merge = tensors.shape("init_merge.0.0.weight")?[1];
    let prior = match merge.checked_sub(2 * fem::CHANNELS)? {
        prior @ 0..=1 => prior == 1,
        _ => return None,
    };
    Some(semseg_resnet(tensors).map(|resnet| {
        let method = Method::Pfenet(Pfenet { prior, ..Pfenet::default() });
        Published { network: method.published_network(EncoderConfig::ResNet(resnet)), method, rename }
    }))
}

fn rename(name: &str) -> Rename {
    const OWN: [(&str, &str); 2] =
        [("down_query.0.", "down_query.conv."), ("down_supp.0.", "down_supp.conv.")];
    fem::rename(name).or_else(|| rename_by(&OWN, name)).unwrap_or_else(|| rename_semseg(name))
}

/// The mean cross-entropy of the grids' own scores.
pub(super) fn fem_inner_loss(inner: Vec<Tensor<4>>, targets: &PixelTargets) -> Tensor<1> {
    let count = inner.len() as f64;
    let losses = inner.into_iter().map(|scores| pixel_loss(scores, targets));
    losses.reduce(|sum, loss| sum + loss).expect("there are grids").div_scalar(count)
}
