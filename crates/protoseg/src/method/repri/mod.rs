//! RePRI (Boudiaf et al. 2021): a plain PSPNet of the base classes, and per episode the optimisation of one prototype
//! and one bias, regularised by the proportion of the class in the query.
//!
//! Nothing is learned from episodes. Base training is cross-entropy with label smoothing over all base classes, without
//! an auxiliary head ([`Repri`] says how much). Use: features at unit length, labels brought to their grid by nearest
//! neighbour, then [`fit`]. With several shots all cells of all supports are pooled, and the query's two terms weigh
//! 1 / K each.
//!
//! Published code reads the query's labels for which cells are ignored; so is done here where they are known. The
//! data set's own unlabelled pixels become background in its base training, a slip that is not repeated. A support whose
//! class is smaller than a cell may leave no cell to average; then nothing is foreground (there: not a number).
//!
//! Shapes: features `[n, 512, h, w]`, not negative; prototype `[512]`; scores `[episodes, 2, H, W]`, of which the
//! softmax is (1 - P, P).

pub mod fit;

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor, TensorData},
};
use protoseg_core::RowMap;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use self::fit::Fit;
use super::{
    BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Images, Losses, Maps, Method, Vision,
    cells::Cells,
};
use crate::{
    bridge::{self, PixelTargets, pixel_loss},
    config::ConfigError,
    encoder::{EncoderConfig, Rename, Tensors},
    network::Network,
    nn::{Conv, upsample},
    weights::few_shot::{Published, rename_by, rename_semseg, semseg_resnet},
};

/// Its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repri {
    /// Rows of the classifier of base training: base classes, the background included.
    pub rows: usize,
    /// What a base pixel's target gives to the classes that it is not of.
    pub smoothing: f64,
    /// What a cosine is multiplied by.
    pub temperature: f64,
    /// Of each step on prototype and bias.
    pub lr: f64,
    /// Steps per episode.
    pub steps: usize,
    /// After this step the proportion is estimated again and weighs more.
    pub update_after: usize,
}

impl Default for Repri {
    fn default() -> Self {
        Self { rows: 16, smoothing: 0.1, temperature: 20.0, lr: 0.025, steps: 49, update_after: 9 }
    }
}

/// What it adds to encoder and decoder.
#[derive(Module, Debug)]
pub struct RepriWeights {
    /// The 1x1 of base training, `[rows, 512, 1, 1]` with bias.
    pub classifier: Conv2d,
}

impl Repri {
    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> RepriWeights {
        RepriWeights { classifier: Conv::new(shape.dim, self.rows, 1).bias().init(device) }
    }

    /// The losses of base training: smoothed cross-entropy of all base classes.
    pub(super) fn losses(&self, network: &Network, batch: &Images<'_>) -> Losses {
        let scores = self.base_scores(network, network.features(batch.images.clone()));
        let main = pixel_loss(scores, &PixelTargets::new(batch.labels).smoothed(self.smoothing as f32));
        Losses { total: main.clone(), main, aux: None }
    }

    /// Scores of the base classes, `[n, rows, h, w]`.
    pub fn base_scores(&self, network: &Network, features: Tensor<4>) -> Tensor<4> {
        bridge::conv(&network.method.repri().classifier, features)
    }

    /// Fits the prototype and bias of every episode.
    pub fn fits(&self, encoded: &Encoded<'_>) -> Vec<Fit> {
        (0..encoded.len()).map(|episode| self.fit_one(&encoded.episode(episode)).0).collect()
    }

    /// Of one episode, and the query's features.
    fn fit_one(&self, episode: &Encoded<'_>) -> (Fit, Cells) {
        let [_, _, height, width] = episode.queries[0].dims();
        let [.., support_height, support_width] = episode.supports[0].dims();
        let supports = Cells::new(episode.supports[0].clone()).unit();
        let query = Cells::new(episode.queries[0].clone()).unit();
        let support_labels = on_grid(episode.support_labels, [support_height, support_width]);
        let query_labels = match episode.query_labels {
            [] => vec![0; query.len()],
            labels => on_grid(labels, [height, width]),
        };
        let fit = fit::fit(self, (&supports, &support_labels), (&query, &query_labels), episode.shots);
        (fit, query)
    }
}

/// The labels of all cells, by nearest neighbour.
fn on_grid(labels: &[RowMap], [height, width]: [usize; 2]) -> Vec<u16> {
    labels.iter().flat_map(|label| label.resize_nearest(width, height).data).collect()
}

impl Episodic for Repri {
    fn name(&self) -> &'static str {
        "repri"
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if self.rows == 0 {
            return Err(ConfigError::new("method.rows", self.rows, "1 or more base classes"));
        }
        if !(0.0..1.0).contains(&self.smoothing) {
            return Err(ConfigError::new("method.smoothing", self.smoothing, "a share from 0 to below 1"));
        }
        for (key, value) in [("method.temperature", self.temperature), ("method.lr", self.lr)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(ConfigError::new(key, value, "a number above 0"));
            }
        }
        Ok(())
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        vec![vision.features(images)]
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, _: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        let device = encoded.queries[0].device();
        let [.., height, width] = encoded.queries[0].dims();
        let answers = (0..encoded.len()).map(|episode| {
            let (Fit { prototype, bias, .. }, query) = self.fit_one(&encoded.episode(episode));
            let scores = fit::scores(self, &query, &prototype);
            let scores = Tensor::<4>::from_data(TensorData::new(scores, [1, 1, height, width]), &device);
            let foreground = upsample(scores, encoded.size).sub_scalar(bias);
            Tensor::cat(vec![foreground.zeros_like(), foreground], 1)
        });
        Tensor::cat(answers.collect(), 0)
    }

    /// # Panics
    /// Always: it learns from labelled images.
    fn losses(&self, _: &Vision<'_>, _: BaseClasses, _: &Episodes<'_>, _: &mut dyn RngCore) -> Losses {
        panic!("repri learns from labelled images, not from episodes");
    }
}

/// semseg's PSPNet whose classifier, with bias, reads the bottleneck.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("bottleneck.0.weight")?;
    tensors.shape("classifier.bias")?;
    let rows = *tensors.shape("classifier.weight")?.first()?;
    Some(semseg_resnet(tensors).map(|resnet| {
        let method = Method::Repri(Repri { rows, ..Repri::default() });
        Published { network: method.published_network(EncoderConfig::ResNet(resnet)), method, rename }
    }))
}

fn rename(name: &str) -> Rename {
    if name.starts_with("classifier.") {
        return Rename::to(name);
    }
    rename_pspnet(name)
}

/// Encoder and decoder, which are CWT's too.
pub(super) fn rename_pspnet(name: &str) -> Rename {
    // ReLU and dropout come after these two.
    const BOTTLENECK: [(&str, &str); 2] =
        [("bottleneck.0.", "decoder.bottleneck.conv."), ("bottleneck.1.", "decoder.bottleneck.bn.")];
    // Pooling, convolution, batch-norm.
    if let Some(branch) = name.strip_prefix("ppm.features.") {
        let branch = branch.replacen(".1.", ".conv.", 1).replacen(".2.", ".bn.", 1);
        return Rename::to(format!("decoder.ppm.branches.{branch}"));
    }
    rename_by(&BOTTLENECK, name).unwrap_or_else(|| rename_semseg(name))
}
