//! SCL (Zhang et al. 2021): self-guided and cross-guided learning, on PFENet or on CANet.
//!
//! A support first predicts its own mask from its own vector (pass 1). The true mask falls into what that finds and what
//! it misses; the masked averages of both, z1 and z2, are the class for everything after: for the query, and in training
//! for the support once more (pass 2). Several shots weigh in by how well the vectors of each find all supports.
//!
//! [`SclPfenet`] and [`SclCanet`] are the two networks; what is published of both is said there.
//!
//! With several shots, training takes every shot as an episode by itself. Published code trains with one.

mod canet;
mod pfenet;

use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use protoseg_core::RowMap;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Frozen, Losses, Maps, Method, Vision,
    canet::{caffe_resnet, needs_three_layers, validate_passes},
    fem,
    mask::masked_average,
    pfenet::needs_dilated_resnet,
};
use crate::{
    config::ConfigError,
    encoder::{EncoderConfig, Tensors},
    network::Network,
    weights::few_shot::{Published, semseg_resnet},
};

pub use canet::{SclCanet, SclCanetWeights};
pub(crate) use pfenet::SHOTS;
pub use pfenet::{SclPfenet, SclPfenetWeights};

/// Added to the area under a mask.
pub(crate) const TINY_AREA: f64 = 5e-4;
/// A resized mask is 1 or 0 up to rounding; between them it is further away.
pub(crate) const ROUNDING: f64 = 1e-4;

/// The network that SCL is built on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// PFENet.
    #[default]
    Pfenet,
    /// CANet.
    Canet,
}

/// SCL's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scl {
    /// The network below.
    pub on: Base,
    /// On PFENet: sides of the grids, or shares of the map's side.
    pub bins: Vec<f64>,
    /// On PFENet: whether the prior is part of the network.
    pub prior: bool,
    /// On CANet: passes over a query. The first has an empty history.
    pub iterations: usize,
    /// On CANet: how often a query has a history in training.
    pub history: f64,
    /// On CANet: the scales of the query whose scores are summed. The published test has 0.7, 1 and 1.3, which takes more
    /// than three times as long; the default is 1 alone.
    pub scales: Vec<f64>,
}

impl Default for Scl {
    fn default() -> Self {
        Self {
            on: Base::Pfenet,
            bins: fem::BINS.to_vec(),
            prior: true,
            iterations: 5,
            history: 0.1,
            scales: vec![1.0],
        }
    }
}

/// What SCL adds to its encoder.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one per network
pub enum SclWeights {
    /// On PFENet.
    Pfenet(SclPfenetWeights),
    /// On CANet.
    Canet(SclCanetWeights),
}

/// One of the two networks with its settings.
enum Built<'a> {
    Pfenet(SclPfenet<'a>),
    Canet(SclCanet<'a>),
}

impl Scl {
    /// As published on this network.
    pub fn new(on: Base) -> Self {
        Self { on, ..Self::default() }
    }

    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> SclWeights {
        match self.on {
            Base::Pfenet => SclWeights::Pfenet(SclPfenetWeights::new(self, shape, device)),
            Base::Canet => SclWeights::Canet(SclCanetWeights::new(shape, device)),
        }
    }

    /// The vectors z1 and z2, one after the other, of a class in each of its images: `[images, 512]`. An empty part is a
    /// vector of zeros. `maps` are of supports.
    pub fn class_vectors(&self, network: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        match self.built(network) {
            Built::Pfenet(scl) => scl.guide(&maps[0], labels, false).vectors,
            Built::Canet(scl) => scl.guide(&maps[0], labels).vectors,
        }
    }

    /// Scores `[classes, 2, h, w]` of one query for the vectors `[classes, 512]` of many classes, on the map's grid, with
    /// a prior of zeros where the network has one.
    pub fn class_scores(&self, network: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        match self.built(network) {
            Built::Pfenet(scl) => scl.class_scores(&query[0], vectors),
            Built::Canet(scl) => scl.class_scores(&query[0], vectors),
        }
    }

    fn built<'a>(&'a self, network: &'a Network) -> Built<'a> {
        match network.method.scl() {
            SclWeights::Pfenet(weights) => Built::Pfenet(SclPfenet::new(self, weights)),
            SclWeights::Canet(weights) => Built::Canet(SclCanet::new(self, weights)),
        }
    }

    fn validate_scales(&self) -> Result<(), ConfigError> {
        let good = |scale: &f64| (0.1..=4.0).contains(scale);
        if (1..=8).contains(&self.scales.len()) && self.scales.iter().all(good) {
            return Ok(());
        }
        let expected = "1 to 8 numbers from 0.1 to 4";
        Err(ConfigError::new("method.scales", format!("{:?}", self.scales), expected))
    }
}

impl Episodic for Scl {
    fn name(&self) -> &'static str {
        match self.on {
            Base::Pfenet => "scl-pfenet",
            Base::Canet => "scl-canet",
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        fem::validate_bins(&self.bins)?;
        validate_passes(self.iterations, self.history)?;
        self.validate_scales()
    }

    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        match self.on {
            Base::Pfenet => needs_dilated_resnet(encoder),
            Base::Canet => needs_three_layers(encoder),
        }
    }

    fn frozen(&self) -> Frozen {
        Frozen::Encoder
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        match self.built(vision.network()) {
            Built::Pfenet(scl) => scl.encode(vision, images),
            Built::Canet(scl) => scl.encode(vision, &images, &self.scales),
        }
    }

    fn encode_supports(&self, vision: &Vision<'_>, images: Tensor<4>, labels: &[RowMap]) -> Maps {
        match self.built(vision.network()) {
            Built::Pfenet(scl) => scl.encode_supports(vision, images, labels),
            Built::Canet(scl) => scl.encode(vision, &images, &[1.0]),
        }
    }

    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        match self.built(network) {
            Built::Pfenet(scl) => scl.answer(encoded),
            Built::Canet(scl) => scl.answer(encoded),
        }
    }

    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        rng: &mut dyn RngCore,
    ) -> Losses {
        match self.built(vision.network()) {
            Built::Pfenet(scl) => scl.losses(vision, episodes),
            Built::Canet(scl) => scl.losses(vision, episodes, rng),
        }
    }
}

/// SCL in a checkpoint of its authors.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    let (scl, resnet, rename) = if tensors.shape("supp_init_merge.0.0.weight").is_some() {
        let prior = tensors.shape("init_merge.0.0.weight")?.get(1) != Some(&(3 * fem::CHANNELS));
        let scl = Scl { prior, ..Scl::new(Base::Pfenet) };
        (scl, semseg_resnet(tensors), pfenet::rename as fn(&str) -> _)
    } else {
        tensors.shape("FPM_Decoder.layer55.0.weight")?;
        (Scl::new(Base::Canet), caffe_resnet(tensors), canet::rename as fn(&str) -> _)
    };
    Some(resnet.map(|resnet| {
        let method = Method::Scl(scl);
        Published { network: method.published_network(EncoderConfig::ResNet(resnet)), method, rename }
    }))
}

/// z1 and z2 `[n, 512]`: the averages of maps `[n, 256, h, w]` under both parts `[n, 1, h, w]` of a mask.
fn two_averages(map: &Tensor<4>, [covered, missed]: [Tensor<4>; 2]) -> Tensor<2> {
    let average = |part| masked_average(map.clone(), part, TINY_AREA);
    Tensor::cat(vec![average(covered), average(missed)], 1)
}

/// Where the foreground has more than the background: `[n, 1, h, w]`, 1 or 0.
fn foreground(scores: &Tensor<4>) -> Tensor<4> {
    let of = |row: usize| scores.clone().slice_dim(1, row..row + 1);
    of(1).greater(of(0)).float()
}

/// The scores of every shot, `[episodes * shots, 2, h, w]`, times what the shot weighs.
fn weighted(scores: Tensor<4>, weights: &[f32]) -> Tensor<4> {
    let device = scores.device();
    let weights = TensorData::new(weights.to_vec(), [weights.len(), 1, 1, 1]);
    scores * Tensor::<4>::from_data(weights, &device)
}

/// The labels of queries, one for every shot.
fn labels_for_every_shot(labels: &[RowMap], shots: usize) -> Vec<RowMap> {
    labels.iter().flat_map(|label| std::iter::repeat_n(label.clone(), shots)).collect()
}

/// IoU of background and foreground of scores `[n, 2, height, width]` with labels of that size, for which `counts` says
/// what is judged and whether it is foreground.
fn ious(scores: &Tensor<4>, labels: &[RowMap], counts: fn(u16) -> Option<bool>) -> Vec<[f32; 2]> {
    let found: Vec<f32> = foreground(scores).try_into_vec_as().expect("scores are f32");
    let pixels = found.len() / labels.len();
    let one = |(found, label): (&[f32], &RowMap)| {
        let (mut both, mut either) = ([0u32; 2], [0u32; 2]);
        for (&found, &label) in found.iter().zip(&label.data) {
            let Some(own) = counts(label) else { continue };
            let (found, own) = (usize::from(found > 0.5), usize::from(own));
            either[found] += 1;
            if found == own {
                both[own] += 1;
            } else {
                either[own] += 1;
            }
        }
        [0, 1].map(|class| both[class] as f32 / either[class].max(1) as f32)
    };
    found.chunks_exact(pixels).zip(labels).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_core::IGNORE;

    #[test]
    fn iou_of_four_pixels_by_hand() {
        // Found: 1 1 0 0. True: 1 0 0 and one that nobody knows.
        let scores = Tensor::<4>::from_floats([[[[0., 0., 1., 1.]], [[1., 1., 0., 0.]]]], &cpu());
        let label = RowMap::new(4, 1, vec![1, 0, 0, IGNORE]);
        let judged = |label: u16| (label != IGNORE).then_some(label == 1);
        assert_eq!(ious(&scores, std::slice::from_ref(&label), judged), [[0.5, 0.5]]);
        // As background, the last pixel is found.
        assert_eq!(ious(&scores, &[label], |label| Some(label == 1)), [[2.0 / 3.0, 0.5]]);
    }
}
