//! CANet (Zhang et al. 2019): dense comparison and iterative refinement.
//!
//! Layers 2 and 3 of a frozen ResNet, concatenated, go through a 3x3 of 256 channels that queries and supports share.
//! The support's vector z is the masked average of its map. The [`comparison`](Comparison) of query and z makes two
//! scores per pixel; its softmax is the history of the next pass.
//!
//! The published code differs from what is here in these points.
//! - It tests as many passes as raise the mean IoU of the test set, at most five: a rule that reads the labels. Here the
//!   number is fixed ([`Canet::iterations`], 5).
//! - In training the history is the result of the query's last visit, whose support was another. Here it is the result of
//!   a pass with an empty history on the same episode, without gradients: a step then depends on its own batch alone, and
//!   a run that is resumed ends in the same weights. It is used for 30 % of the queries, as published.
//! - Its encoder stays in training mode though it is frozen, so the statistics of batch-norm drift. Here a frozen
//!   encoder stays as it is.
//! - Several shots: the network for five shots (an attention over the shots) was never published. Here z is the mean over
//!   the shots, which the paper compares as "mean of features".
//!
//! Published training: 321 pixels, SGD on the new layers at a constant 0.0025, momentum 0.9, weight decay 5e-4, batches
//! of 4, 200 epochs of all (image, class) pairs.
//!
//! Shapes at 321: maps `[n, 256, 41, 41]`, z `[n, 256]`, scores `[n, 2, 41, 41]`.

mod comparison;

use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData, activation::softmax},
};
use protoseg_core::RowMap;
use rand::{Rng, RngCore};
use serde::{Deserialize, Serialize};

use super::{
    BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Frozen, Losses, Maps, Method, Vision,
    episodic::encode_all,
    mask::{FOREGROUND, masked_average, masks, mean_over_shots},
};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    config::ConfigError,
    encoder::{EncoderConfig, Family, ResNetConfig, StrideOn, Tensors},
    network::{Network, Tap},
    nn::upsample,
    weights::{
        Rename,
        few_shot::{Published, in_encoder, rename_by},
    },
};

pub(super) use comparison::NAMES;
pub use comparison::{Compared, Comparison, Feature, Residual};

/// Added to the area under a mask.
pub(crate) const TINY_AREA: f64 = 5e-4;

/// CANet's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Canet {
    /// Passes over a query. The first has an empty history.
    pub iterations: usize,
    /// How often a query has a history in training.
    pub history: f64,
}

impl Default for Canet {
    fn default() -> Self {
        Self { iterations: 5, history: 0.3 }
    }
}

/// What CANet adds to its encoder.
#[derive(Module, Debug)]
pub struct CanetWeights {
    /// Layers 2 and 3 of queries and supports.
    pub feature: Feature,
    /// The decoder.
    pub comparison: Comparison,
}

impl Canet {
    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> CanetWeights {
        CanetWeights { feature: new_feature(shape, device), comparison: Comparison::new(1, device) }
    }

    /// The vector z `[images, 256]` of a class in each of its images.
    pub fn class_vectors(&self, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        let [.., height, width] = maps[0].dims();
        let mask = masks(labels, FOREGROUND, [height, width], &maps[0].device());
        masked_average(maps[0].clone(), mask, TINY_AREA)
    }

    /// Scores `[classes, 2, h, w]` of one query for the vectors `[classes, 256]` of many classes, on the map's grid. Each
    /// class has its own history.
    pub fn class_scores(&self, network: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        let comparison = &network.method.canet().comparison;
        let compared = comparison.compare(&comparison.share(query[0].clone()), vectors);
        let compared = comparison.begin(&comparison.residual1, compared);
        comparison.refine(&compared, self.iterations).pop().expect("there is a pass")
    }

    /// Queries compared with the mean of their supports' vectors.
    fn compare(&self, comparison: &Comparison, encoded: &Encoded<'_>) -> Compared {
        let vectors = self.class_vectors(&encoded.supports, encoded.support_labels);
        let vectors = mean_over_shots(vectors, encoded.shots);
        let compared = comparison.compare(&comparison.share(encoded.queries[0].clone()), &vectors);
        comparison.begin(&comparison.residual1, compared)
    }
}

/// The first layer on an encoder of this shape.
pub(super) fn new_feature(shape: &FeatureShape, device: &Device) -> Feature {
    Feature::new(shape.stages[2] + shape.stages[3], device)
}

/// The map of images that everything after is made of.
pub(super) fn encode(vision: &Vision<'_>, feature: &Feature, images: Tensor<4>) -> Tensor<4> {
    let maps = vision.maps(images, &[Tap::Stage(2), Tap::Stage(3)]);
    feature.forward(Tensor::cat(maps, 1))
}

/// A history for training: of each query with this probability the softmax of a pass without one, else zeros. No
/// gradient flows through it.
pub(super) fn draw_history(
    comparison: &Comparison,
    compared: &Compared,
    probability: f64,
    rng: &mut dyn RngCore,
) -> Option<Tensor<4>> {
    let [n, ..] = compared.map.dims();
    let drawn: Vec<bool> = (0..n).map(|_| rng.random_bool(probability)).collect();
    if !drawn.contains(&true) {
        return None;
    }
    let device = compared.map.device();
    let past = |comparison: &Comparison, compared: &Compared| {
        softmax(comparison.pass(&comparison.residual1, compared, None), 1)
    };
    let past = if device.is_autodiff() {
        Tensor::from_inner(past(&comparison.valid(), &compared.inner()))
    } else {
        past(comparison, compared)
    };
    let drawn: Vec<f32> = drawn.into_iter().map(|drawn| f32::from(u8::from(drawn))).collect();
    Some(past * Tensor::<4>::from_data(TensorData::new(drawn, [n, 1, 1, 1]), &device))
}

/// Refuses encoders that are not a ResNet with layers 2 and 3 of one size and none after.
pub(super) fn needs_three_layers(encoder: &EncoderConfig) -> Result<(), ConfigError> {
    match encoder {
        EncoderConfig::ResNet(resnet) if resnet.layers == 3 && resnet.output_stride == 8 => Ok(()),
        other => {
            let expected = "a ResNet with three layers and output stride 8 for this method";
            Err(ConfigError::new("encoder", other.describe(), expected))
        }
    }
}

/// Refuses settings of the passes that cannot be.
pub(super) fn validate_passes(iterations: usize, history: f64) -> Result<(), ConfigError> {
    if !(1..=100).contains(&iterations) {
        return Err(ConfigError::new("method.iterations", iterations, "from 1 to 100"));
    }
    if !(0.0..=1.0).contains(&history) {
        return Err(ConfigError::new("method.history", history, "a number from 0 to 1"));
    }
    Ok(())
}

impl Episodic for Canet {
    fn name(&self) -> &'static str {
        "canet"
    }

    fn validate(&self) -> Result<(), ConfigError> {
        validate_passes(self.iterations, self.history)
    }

    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        needs_three_layers(encoder)
    }

    fn frozen(&self) -> Frozen {
        Frozen::Encoder
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        vec![encode(vision, &vision.network().method.canet().feature, images)]
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        let comparison = &network.method.canet().comparison;
        let compared = self.compare(comparison, encoded);
        let scores = comparison.refine(&compared, self.iterations).pop().expect("there is a pass");
        upsample(scores, encoded.size)
    }

    /// Cross-entropy of one pass.
    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        rng: &mut dyn RngCore,
    ) -> Losses {
        let encoded = encode_all(self, vision, episodes);
        let comparison = &vision.network().method.canet().comparison;
        let compared = self.compare(comparison, &encoded);
        let history = draw_history(comparison, &compared, self.history, rng);
        let scores = comparison.pass(&comparison.residual1, &compared, history);
        let main = pixel_loss(scores, &PixelTargets::new(episodes.query_labels));
        Losses { total: main.clone(), main, aux: None }
    }
}

/// CANet in a checkpoint of its authors.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("layer55.0.weight")?;
    Some(caffe_resnet(tensors).map(|resnet| {
        let method = Method::Canet(Canet::default());
        Published { network: method.published_network(EncoderConfig::ResNet(resnet)), method, rename }
    }))
}

/// The ResNet beside the decoder. Its stride is on the first 1x1, as in Caffe.
pub(super) fn caffe_resnet(tensors: &dyn Tensors) -> Result<ResNetConfig, String> {
    let found = ResNetConfig::recognise(tensors).ok_or("it has no ResNet: `conv1.weight` is missing")??;
    Ok(ResNetConfig { stride_on: StrideOn::First1x1, ..found })
}

/// A tensor of the ResNet or of the first layer, which lie beside the decoder.
pub(super) fn rename_beside(name: &str) -> Rename {
    rename_by(&[("layer5.0.", "feature.conv.")], name)
        .unwrap_or_else(|| in_encoder(<ResNetConfig as Family>::rename(name)))
}

fn rename(name: &str) -> Rename {
    rename_by(&NAMES, name).unwrap_or_else(|| rename_beside(name))
}
