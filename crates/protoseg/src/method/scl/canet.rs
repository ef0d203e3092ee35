//! SCL on CANet.
//!
//! The encoder and the [`Comparison`] are CANet's, with two vectors. The support has a first residual block of its own,
//! without a history; everything after that is shared.
//!
//! - Parts of the mask: found and 1 in the resized mask, and the rest of the mask that is either found or 1. So a cell on
//!   a soft border counts as missed if it is found.
//! - Loss: cross-entropy of the query and of both passes of the support, whose unknown pixels count as background.
//! - History in training: as in [`canet`](crate::method::canet), for 10 % of the queries.
//! - Test: five passes; the scores of all scales of the query, brought to the image's size, are summed; their softmax is
//!   the next history.
//! - Several shots: scores are weighed by the mean IoU of the foreground, over all supports, that the shot's vectors
//!   reach in the support's path, and averaged. This happens on each scale's map, in every pass.
//!
//! Published training: as CANet, 150 epochs.

use burn::{
    module::Module,
    tensor::{Device, Tensor, activation::softmax},
};
use protoseg_core::{IGNORE, RowMap};
use rand::RngCore;

use super::{ROUNDING, Scl, TINY_AREA, foreground, ious, labels_for_every_shot, two_averages, weighted};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    method::{
        Encoded, Episodes, FeatureShape, Losses, Maps, Vision,
        canet::{
            Compared, Comparison, Feature, NAMES, Residual, draw_history, encode, new_feature, rename_beside,
        },
        fem::CHANNELS,
        mask::{BACKGROUND, FOREGROUND, for_every_shot, masked_average, masks, mean_over_shots},
    },
    nn::{resize_centred, upsample},
    weights::{Rename, few_shot::rename_by},
};

/// What SCL on CANet adds to its encoder.
#[derive(Module, Debug)]
pub struct SclCanetWeights {
    /// Layers 2 and 3 of queries and supports.
    pub feature: Feature,
    /// The decoder.
    pub comparison: Comparison,
    /// The first residual block of supports.
    pub supp_residual1: Residual,
}

impl SclCanetWeights {
    pub(super) fn new(shape: &FeatureShape, device: &Device) -> Self {
        Self {
            feature: new_feature(shape, device),
            comparison: Comparison::new(2, device),
            supp_residual1: Residual::new(CHANNELS, device),
        }
    }
}

/// SCL on CANet with its weights.
#[derive(Clone, Copy)]
pub struct SclCanet<'a> {
    scl: &'a Scl,
    weights: &'a SclCanetWeights,
}

/// Supports after pass 1.
pub struct Guided {
    share: Tensor<4>,
    /// The scores of pass 1, `[supports, 2, h, w]`.
    pub first: Tensor<4>,
    /// z1 and z2, `[supports, 512]`.
    pub vectors: Tensor<2>,
}

impl Guided {
    /// Some of the supports.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self {
            share: self.share.clone().slice_dim(0, range.clone()),
            first: self.first.clone().slice_dim(0, range.clone()),
            vectors: self.vectors.clone().slice_dim(0, range),
        }
    }
}

impl<'a> SclCanet<'a> {
    /// These settings with these weights.
    pub fn new(scl: &'a Scl, weights: &'a SclCanetWeights) -> Self {
        Self { scl, weights }
    }

    /// One map per scale.
    pub(super) fn encode(self, vision: &Vision<'_>, images: &Tensor<4>, scales: &[f64]) -> Maps {
        let [.., height, width] = images.dims();
        let of = |&scale: &f64| {
            let scaled = |side: usize| ((side as f64 * scale) as usize).max(1);
            let images = resize_centred(images.clone(), [scaled(height), scaled(width)]);
            encode(vision, &self.weights.feature, images)
        };
        scales.iter().map(of).collect()
    }

    /// Pass 1 on supports `[n, 256, h, w]`, and the vectors of what it covers and misses.
    pub fn guide(self, map: &Tensor<4>, labels: &[RowMap]) -> Guided {
        let [.., height, width] = map.dims();
        let share = self.weights.comparison.share(map.clone());
        let mask = masks(labels, FOREGROUND, [height, width], &map.device());
        let z = masked_average(map.clone(), mask.clone(), TINY_AREA);
        let first = self.support_scores(&share, &Tensor::cat(vec![z.clone(), z], 1));
        let found = foreground(&first);
        let own = mask.clone().greater_elem(1.0 - ROUNDING).float();
        let covered = own.clone() * found.clone();
        // Either, not both, and inside the mask.
        let either = own + found - covered.clone().mul_scalar(2.0);
        let missed = either * mask.greater_elem(ROUNDING).float();
        Guided { share, vectors: two_averages(map, [covered, missed]), first }
    }

    /// The scores of pass 2 on supports with vectors `[supports, 512]`, their own or of others.
    pub fn second_pass(self, guided: &Guided, vectors: &Tensor<2>) -> Tensor<4> {
        self.support_scores(&guided.share, vectors)
    }

    /// Queries `[n, 256, h, w]` compared with vectors `[n * shots, 512]`.
    pub fn compare(self, query: &Tensor<4>, vectors: &Tensor<2>) -> Compared {
        let shots = vectors.dims()[0] / query.dims()[0];
        let comparison = &self.weights.comparison;
        let share = for_every_shot(comparison.share(query.clone()), shots);
        comparison.begin(&comparison.residual1, comparison.compare(&share, vectors))
    }

    /// How well the vectors of shot i find support j of one episode: `[i][j]`, IoU of the foreground.
    pub fn agreement(self, guided: &Guided, labels: &[RowMap]) -> Vec<Vec<f32>> {
        let shots = labels.len();
        let of = |shot: usize| {
            let vectors = guided.vectors.clone().slice_dim(0, shot..shot + 1).repeat_dim(0, shots);
            let scores = self.second_pass(guided, &vectors);
            let scores = resize_centred(scores, [labels[0].height, labels[0].width]);
            ious(&scores, labels, |label| Some(label == FOREGROUND))
                .into_iter()
                .map(|[_, class]| class)
                .collect()
        };
        (0..shots).map(of).collect()
    }

    /// What every shot of every episode weighs: its mean agreement, or 1 if it is alone.
    pub fn shot_weights(self, guided: &Guided, labels: &[RowMap], shots: usize) -> Vec<f32> {
        if shots == 1 {
            return vec![1.0; labels.len()];
        }
        let weights = labels.chunks_exact(shots).enumerate().flat_map(|(episode, labels)| {
            let own = guided.slice(episode * shots..(episode + 1) * shots);
            self.agreement(&own, labels).into_iter().map(|of| of.iter().sum::<f32>() / of.len() as f32)
        });
        weights.collect()
    }

    /// Scores `[episodes, 2, h, w]` of one pass from all shots; the history is `[episodes, 2, ..]` of any size.
    pub fn pass(
        self,
        compared: &Compared,
        weights: &[f32],
        shots: usize,
        history: Option<Tensor<4>>,
    ) -> Tensor<4> {
        let comparison = &self.weights.comparison;
        let [.., height, width] = compared.map.dims();
        let history = history.map(|history| for_every_shot(upsample(history, [height, width]), shots));
        let scores = comparison.pass(&comparison.residual1, compared, history);
        mean_over_shots(weighted(scores, weights), shots)
    }

    pub(super) fn class_scores(self, query: &Tensor<4>, vectors: &Tensor<2>) -> Tensor<4> {
        let comparison = &self.weights.comparison;
        let compared = comparison.compare(&comparison.share(query.clone()), vectors);
        let compared = comparison.begin(&comparison.residual1, compared);
        comparison.refine(&compared, self.scl.iterations).pop().expect("there is a pass")
    }

    pub(super) fn answer(self, encoded: &Encoded<'_>) -> Tensor<4> {
        let shots = encoded.shots;
        let guided = self.guide(&encoded.supports[0], encoded.support_labels);
        let weights = self.shot_weights(&guided, encoded.support_labels, shots);
        let scales: Vec<Compared> =
            encoded.queries.iter().map(|query| self.compare(query, &guided.vectors)).collect();
        let mut scores: Option<Tensor<4>> = None;
        for _ in 0..self.scl.iterations {
            let history = scores.map(|scores| softmax(scores, 1));
            let of = |compared: &Compared| {
                resize_centred(self.pass(compared, &weights, shots, history.clone()), encoded.size)
            };
            scores = scales.iter().map(of).reduce(|sum, more| sum + more);
        }
        scores.expect("there is a scale and a pass")
    }

    pub(super) fn losses(
        self,
        vision: &Vision<'_>,
        episodes: &Episodes<'_>,
        rng: &mut dyn RngCore,
    ) -> Losses {
        let shots = episodes.shots();
        let comparison = &self.weights.comparison;
        let query = encode(vision, &self.weights.feature, episodes.queries.clone());
        let support = encode(vision, &self.weights.feature, episodes.supports.clone().flatten(0, 1));
        let guided = self.guide(&support, episodes.support_labels);
        let second = self.second_pass(&guided, &guided.vectors);
        let compared = self.compare(&query, &guided.vectors);
        let history = draw_history(comparison, &compared, self.scl.history, rng);
        let scores = comparison.pass(&comparison.residual1, &compared, history);
        let query_labels = labels_for_every_shot(episodes.query_labels, shots);
        let supports = PixelTargets::new(&without_ignored(episodes.support_labels));
        let main = pixel_loss(scores, &PixelTargets::new(&query_labels))
            + pixel_loss(guided.first, &supports)
            + pixel_loss(second, &supports);
        Losses { total: main.clone(), main, aux: None }
    }

    fn support_scores(self, share: &Tensor<4>, vectors: &Tensor<2>) -> Tensor<4> {
        let SclCanetWeights { comparison, supp_residual1, .. } = self.weights;
        let compared = comparison.begin(supp_residual1, comparison.compare(share, vectors));
        comparison.pass(supp_residual1, &compared, None)
    }
}

/// Unknown pixels as background.
fn without_ignored(labels: &[RowMap]) -> Vec<RowMap> {
    let known = |&label: &u16| if label == IGNORE { BACKGROUND } else { label };
    let of = |map: &RowMap| RowMap::new(map.width, map.height, map.data.iter().map(known).collect());
    labels.iter().map(of).collect()
}

pub(super) fn rename(name: &str) -> Rename {
    const OWN: [(&str, &str); 2] =
        [("supp_residule1.1.", "supp_residual1.first."), ("supp_residule1.3.", "supp_residual1.second.")];
    match name.strip_prefix("FPM_Decoder.") {
        Some(name) => rename_by(&OWN, name).or_else(|| rename_by(&NAMES, name)).unwrap_or(Rename::Unknown),
        None => rename_beside(name),
    }
}
