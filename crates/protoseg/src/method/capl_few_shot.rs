//! CAPL in the classic few-shot setting (Tian et al. 2022), on PANet or PFENet.
//!
//! The encoder is trained. Metric features are one 1x1 on its last layer (the network's decoder). For each episode:
//!
//! 1. Prototypes of class and background as in PANet, of features at unit length, mean over the shots; the query scores
//!    20 times its cosine with them.
//! 2. q: the query's own prototypes, where that prediction has class and background.
//! 3. For each shot with its own prototypes s: w = max(0, cos(s, a)), where a is the query attended with s, softmax over
//!    positions; b = sigmoid(MLP([q; s])); refined = [(1 - w) s + w q] + [(1 - b) s + b q].
//! 4. 20 times the cosine with the refined ones, mean over the shots. Where step 1 finds no pixel of the class, its own
//!    scores stay.
//!
//! On PANet that is the answer. On PFENet its softmax is the prior of the [`fem`], which has no inner scores.
//! s, q and a are means of raw features on the features' grid; only step 1 takes them at unit length and under masks of
//! full size. Paper and text leave that open; the golden data of the reference decides it.
//!
//! In training the supports must be found by q (alignment) and by s (self-support), and all images are classified among
//! the base classes: half with the learned rows, half with the rows of all classes in the batch's supports replaced by
//! their means.
//!
//! Shapes: maps of an image `[n, 512, h, w]`, on PFENet also `[n, 1536, h, w]`.

use burn::{
    module::{Initializer, Module, Param},
    nn::conv::Conv2d,
    tensor::{
        Device, Tensor,
        activation::{relu, softmax},
    },
};
use protoseg_core::RowMap;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    BaseClasses, ClassLabels, Encoded, Episodes, Episodic, FeatureShape, Losses, Maps, Method, Vision,
    capl::gate::GammaMlp,
    cosine::{cosine_of_rows, scaled_scores, unit},
    episodic::encode_all,
    fem::{self, Fem, Part},
    mask::{BACKGROUND, FOREGROUND, masked_average, masks, mean_over_shots, means_at_mask_size},
    pfenet::needs_dilated_resnet,
    pooling::masked_sums,
};
use crate::{
    bridge::{self, PixelTargets, pixel_loss},
    config::ConfigError,
    decoder::Decoder,
    encoder::{EncoderConfig, Tensors},
    network::{Network, Tap},
    nn::{Conv, Dropout2d, upsample, upsample_weights},
    weights::{
        Rename,
        few_shot::{Published, rename_by, rename_semseg, semseg_resnet},
    },
};

/// What a cosine is multiplied by before the softmax.
const ALPHA: f64 = 20.0;
/// Added to every area that is divided by.
const TINY_AREA: f64 = 1e-5;

/// What answers the query in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// The refined prototypes.
    Panet,
    /// PFENet's enrichment, with the refined prototypes' answer as its prior.
    #[default]
    Pfenet,
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaplFewShot {
    /// What answers the query in the end.
    pub on: On,
    /// Rows of the base classifier, the background included.
    pub rows: usize,
    /// Sides of PFENet's grids, or shares of the map's side.
    pub bins: Vec<f64>,
}

impl Default for CaplFewShot {
    fn default() -> Self {
        Self { on: On::Pfenet, rows: 16, bins: fem::BINS.to_vec() }
    }
}

/// What CAPL adds to encoder and decoder.
#[derive(Module, Debug)]
pub struct CaplFewShotWeights {
    /// Rows of the base classes, `[rows, 512]`.
    pub classifier: Param<Tensor<2>>,
    /// b of step 3.
    pub beta: GammaMlp,
    /// On PFENet.
    pub enrichment: Option<Enrichment>,
}

/// PFENet's part.
#[derive(Module, Debug)]
pub struct Enrichment {
    /// Layers 3 and 2 to 256 channels, for queries and supports.
    pub mid: Conv2d,
    /// After it, in training.
    pub dropout: Dropout2d,
    /// Per grid: query, vector, prior.
    pub init_merge: Vec<Conv2d>,
    /// The rest.
    pub fem: Fem,
}

impl CaplFewShot {
    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> CaplFewShotWeights {
        let normal = Initializer::Normal { mean: 0.0, std: 1.0 };
        let enrichment = || Enrichment {
            mid: Conv::new(shape.stages[3] + shape.stages[2], fem::CHANNELS, 1).bias().init(device),
            dropout: Dropout2d::new(0.5),
            init_merge: self
                .bins
                .iter()
                .map(|_| Conv::new(2 * fem::CHANNELS + 2, fem::CHANNELS, 1).init(device))
                .collect(),
            fem: Fem::new(self.bins.len(), false, device),
        };
        CaplFewShotWeights {
            classifier: normal.init([self.rows, shape.dim], device),
            beta: GammaMlp::new(shape.dim, device),
            enrichment: (self.on == On::Pfenet).then(enrichment),
        }
    }

    /// The losses of training, each by itself.
    ///
    /// # Panics
    /// If the episodes have no labels of base classes.
    pub fn terms(&self, vision: &Vision<'_>, episodes: &Episodes<'_>) -> Terms {
        let network = vision.network();
        let encoded = encode_all(self, vision, episodes);
        let refined = Refined::new(network, &encoded);
        let scores = self.finish(network, &encoded, refined.scores.clone());
        let classes = episodes.classes.expect("CAPL learns base classes beside its episodes");
        Terms {
            query: pixel_loss(scores, &PixelTargets::new(episodes.query_labels)),
            supports: refined.support_loss(&encoded),
            base: base_loss(network, &encoded, classes),
        }
    }

    /// From the refined prototypes' scores to the answer, on the features' grid.
    fn finish(&self, network: &Network, encoded: &Encoded<'_>, scores: Tensor<4>) -> Tensor<4> {
        let weights = network.method.capl_few_shot();
        let Some(Enrichment { mid, dropout, init_merge, fem }) = &weights.enrichment else { return scores };
        let middle = |maps: &Maps| dropout.forward(relu(bridge::conv(mid, maps[1].clone())));
        let (query, supports) = (middle(&encoded.queries), middle(&encoded.supports));
        let [.., height, width] = query.dims();
        let size = [height, width];
        let [.., support_height, support_width] = supports.dims();
        let device = supports.device();
        let mask = masks(encoded.support_labels, FOREGROUND, [support_height, support_width], &device);
        let vectors = mean_over_shots(masked_average(supports, mask, TINY_AREA), encoded.shots);
        let prior = softmax(upsample(scores, size), 1);
        let merged = fem::grids(&self.bins, size).into_iter().zip(init_merge).map(|(grid, conv)| {
            let parts = vec![
                Part::Map(fem::pooled(query.clone(), grid)),
                Part::Vector(vectors.clone()),
                Part::Map(upsample(prior.clone(), grid)),
            ];
            relu(fem::merge(conv, parts))
        });
        fem.forward(merged.collect(), size, false, None).scores
    }
}

impl Episodic for CaplFewShot {
    fn name(&self) -> &'static str {
        match self.on {
            On::Panet => "capl-panet",
            On::Pfenet => "capl-pfenet",
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=65534).contains(&self.rows) {
            return Err(ConfigError::new("method.rows", self.rows, "1 to 65534 base classes"));
        }
        fem::validate_bins(&self.bins)
    }

    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        match self.on {
            On::Panet => Ok(()),
            On::Pfenet => needs_dilated_resnet(encoder),
        }
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        match (self.on, &vision.network().decoder) {
            (On::Pfenet, Decoder::Project(project)) => {
                let maps = vision.maps(images, &[Tap::Stage(2), Tap::Stage(3), Tap::Stage(4)]);
                let [layer2, layer3, layer4] = maps.try_into().expect("three maps were asked for");
                vec![bridge::conv(project, layer4), Tensor::cat(vec![layer3, layer2], 1)]
            }
            _ => vec![vision.features(images)],
        }
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        let refined = Refined::new(network, encoded);
        upsample(self.finish(network, encoded, refined.scores), encoded.size)
    }

    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        _: &mut dyn RngCore,
    ) -> Losses {
        let Terms { query, supports, base } = self.terms(vision, episodes);
        let aux = supports + base;
        Losses { total: query.clone() + aux.clone(), main: query, aux: Some(aux) }
    }
}

/// The terms of the loss.
pub struct Terms {
    /// Cross-entropy of the queries' answer.
    pub query: Tensor<1>,
    /// That of the supports, found by the query's prototypes and by their own.
    pub supports: Tensor<1>,
    /// That of all images among the base classes.
    pub base: Tensor<1>,
}

/// Steps 1 to 4, on the features' grid.
pub struct Refined {
    /// Step 1: the scores of PANet, `[episodes, 2, h, w]`.
    pub plain: Tensor<4>,
    /// Step 4: `[episodes, 2, h, w]`.
    pub scores: Tensor<4>,
    /// q: `[episodes, 2, d]`.
    own: Tensor<3>,
    /// s: `[episodes * shots, 2, d]`.
    of_supports: Tensor<3>,
    /// Whether step 1 finds the class.
    found: Vec<bool>,
}

impl Refined {
    /// Of episodes whose first maps are the metric features.
    pub fn new(network: &Network, encoded: &Encoded<'_>) -> Self {
        let (queries, supports) = (encoded.queries[0].clone(), encoded.supports[0].clone());
        let (count, shots) = (encoded.len(), encoded.shots);
        let [_, dim, height, width] = queries.dims();
        let plain = {
            let supports = unit(supports.clone().swap_dims(1, 3)).swap_dims(1, 3);
            let means = means_at_mask_size(supports, encoded.support_labels, upsample_weights);
            scaled_scores(queries.clone(), mean_over_shots(means, shots), ALPHA)
        };
        let foreground = plain.clone().slice_dim(1, 1..2).greater(plain.clone().slice_dim(1, 0..1)).float();
        let found: Vec<f32> = foreground.clone().sum_dim(2).sum_dim(3).try_into_vec_as().expect("f32");
        let found: Vec<bool> = found.into_iter().map(|cells| cells > 0.0).collect();
        let own = two_means(queries.clone(), foreground.clone().neg().add_scalar(1.0), foreground);
        let of_supports = {
            let [.., height, width] = supports.dims();
            let mask = |class| masks(encoded.support_labels, class, [height, width], &supports.device());
            two_means(supports.clone(), mask(BACKGROUND), mask(FOREGROUND))
        };

        // Everything for every shot: [episodes * shots, ..].
        let per_shot = |values: Tensor<3>| {
            let [count, rows, columns] = values.dims();
            values.unsqueeze_dim::<4>(1).expand([count, shots, rows, columns]).flatten::<3>(0, 1)
        };
        let pixels = per_shot(queries.reshape([count, dim, height * width]));
        let queries = pixels.clone().reshape([count * shots, dim, height, width]);
        let (q, s) = (per_shot(own.clone()), of_supports.clone());
        let attention =
            scaled_scores(queries.clone(), s.clone(), ALPHA).reshape([count * shots, 2, height * width]);
        let attended = softmax(attention, 2).matmul(pixels.swap_dims(1, 2));
        let w = relu(cosine_of_rows(s.clone(), attended));
        let b = network.method.capl_few_shot().beta.forward(q.clone(), s.clone());
        let mixed = |gate: Tensor<3>| s.clone() + gate * (q.clone() - s.clone());
        let refined = mixed(w) + mixed(b);
        let refined = mean_over_shots(scaled_scores(queries, refined, ALPHA), shots);
        let scores = (0..count).map(|episode| {
            let from = if found[episode] { &refined } else { &plain };
            from.clone().slice_dim(0, episode..episode + 1)
        });
        Self { scores: Tensor::cat(scores.collect(), 0), plain, own, of_supports, found }
    }

    /// The supports' cross-entropy under q and under their own s, mean over episodes and shots. An episode whose query
    /// shows nothing of the class has no q to be found by.
    pub fn support_loss(&self, encoded: &Encoded<'_>) -> Tensor<1> {
        let supports = &encoded.supports[0];
        let count = encoded.support_labels.len();
        let mut sum = Tensor::zeros([1], &supports.device());
        for (index, label) in encoded.support_labels.iter().enumerate() {
            let episode = index / encoded.shots;
            let features = supports.clone().slice_dim(0, index..index + 1);
            let targets = PixelTargets::new(std::slice::from_ref(label));
            let loss = |prototypes: &Tensor<3>, at: usize| {
                let prototypes = prototypes.clone().slice_dim(0, at..at + 1);
                pixel_loss(scaled_scores(features.clone(), prototypes, ALPHA), &targets)
            };
            if self.found[episode] {
                sum = sum + loss(&self.own, episode);
            }
            sum = sum + loss(&self.of_supports, index);
        }
        sum.div_scalar(count as f64)
    }
}

/// The means of `[n, d, h, w]` under two masks `[n, 1, h, w]`: `[n, 2, d]`.
fn two_means(features: Tensor<4>, background: Tensor<4>, foreground: Tensor<4>) -> Tensor<3> {
    let mean = |mask| masked_average(features.clone(), mask, TINY_AREA).unsqueeze_dim::<3>(1);
    Tensor::cat(vec![mean(background), mean(foreground)], 1)
}

/// Cross-entropy of all images among the base classes: half by the learned rows, half with those of all classes in the
/// supports, but for the background, replaced by the supports' means of features at unit length.
fn base_loss(network: &Network, encoded: &Encoded<'_>, classes: ClassLabels<'_>) -> Tensor<1> {
    let rows = network.method.capl_few_shot().classifier.val();
    let (queries, supports) = (encoded.queries[0].clone(), encoded.supports[0].clone());
    let mut present: Vec<u16> = classes.supports.iter().flat_map(RowMap::present).collect();
    present.sort_unstable();
    present.dedup();
    present.retain(|&row| row != BACKGROUND);
    let mut replaced = rows.clone();
    if !present.is_empty() {
        let supports = unit(supports.clone().swap_dims(1, 3)).swap_dims(1, 3);
        let sums = masked_sums(supports, classes.supports, &present);
        let seen = |place: usize| sums.counts.iter().any(|image| image[place] > 0.0);
        let seen: Vec<bool> = (0..present.len()).map(seen).collect();
        let means = sums.mean();
        for (place, &row) in present.iter().enumerate().filter(|(place, _)| seen[*place]) {
            let row = usize::from(row);
            let mean = means.clone().slice_dim(0, place..place + 1);
            replaced = replaced.slice_assign([row..row + 1, 0..mean.dims()[1]], mean);
        }
    }
    let targets: Vec<RowMap> = classes.queries.iter().chain(classes.supports).cloned().collect();
    let targets = PixelTargets::new(&targets);
    let loss = |rows: Tensor<2>| {
        let score = |features: Tensor<4>| scaled_scores(features, rows.clone().unsqueeze(), ALPHA);
        pixel_loss(Tensor::cat(vec![score(queries.clone()), score(supports.clone())], 0), &targets)
    };
    (loss(rows.clone()) + loss(replaced)).div_scalar(2.0)
}

/// CAPL's few-shot models in checkpoints of the reference.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("down.0.weight")?;
    let &[rows, _] = tensors.shape("main_proto")? else { return None };
    let on = if tensors.shape("fem_module.res1.0.weight").is_some() { On::Pfenet } else { On::Panet };
    Some(semseg_resnet(tensors).map(|resnet| {
        let method = Method::CaplFewShot(CaplFewShot { on, rows, ..CaplFewShot::default() });
        Published { network: method.published_network(EncoderConfig::ResNet(resnet)), method, rename }
    }))
}

fn rename(name: &str) -> Rename {
    const OWN: [(&str, &str); 6] = [
        ("main_proto", "classifier"),
        ("down.0.", "decoder."),
        ("beta_conv.0.weight", "beta.hidden"),
        ("beta_conv.2.weight", "beta.out"),
        ("beta_conv.2.bias", "beta.bias"),
        ("attn_conv.0.0.", "enrichment.mid."),
    ];
    if name.starts_with("gamma_conv.") {
        // Of the generalized setting; no step here reads it.
        return Rename::Skip;
    }
    if let Some(name) = name.strip_prefix("fem_module.") {
        return match fem::rename(name) {
            Some(Rename::To(name)) => Rename::To(format!("enrichment.{name}")),
            other => other.unwrap_or(Rename::Unknown),
        };
    }
    rename_by(&OWN, name).unwrap_or_else(|| rename_semseg(name))
}
