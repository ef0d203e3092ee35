//! SCL on PFENet.
//!
//! The encoder and the [`fem`] are PFENet's. Per grid, a query is merged with z1, z2 and the prior (769 channels), a
//! support with two vectors (768) by weights of its own; everything after that is shared. Pass 2 takes what flows from
//! grid to grid from pass 1, not from itself, as published code does.
//!
//! - Parts of the mask: cells where the resized mask is 1, found or not. Cells on a soft border belong to neither.
//! - Loss: cross-entropy of the query and of both passes of the support, and the mean over the grids of each.
//! - Several shots: every shot has its own vectors and prior. Its scores are weighed by the mean IoU (of background and
//!   foreground, over all supports) of pass 2 with its vectors, and summed; published code divides by 5 whatever the
//!   number of shots. PFENet's own rule for several shots is not used.
//!
//! Published training: 473 pixels, SGD at 0.025 (the code's 0.0025 is multiplied by 10 for every layer), poly 0.9,
//! momentum 0.9, weight decay 1e-4, batches of 4, 200 epochs; on COCO 641 pixels, 0.2, batches of 32, 50 epochs, and
//! grids of 1, 1/2, 1/4 and 1/8 of the map. Published code lets the frozen encoder's batch-norm drift; here it stays.

use std::ops::Range;

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor, activation::relu},
};
use protoseg_core::{IGNORE, RowMap};

use super::{ROUNDING, Scl, TINY_AREA, foreground, ious, labels_for_every_shot, two_averages, weighted};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    method::{
        Encoded, Episodes, FeatureShape, Losses, Maps, Vision,
        episodic::encode_all,
        fem::{self, CHANNELS, Enriched, Fem, Part},
        mask::{FOREGROUND, for_every_shot, masked_average, masks},
        pfenet::{MidConv, encode_masked, encode_query, fem_inner_loss},
        prior::prior,
    },
    nn::{Conv, upsample},
    weights::{
        Rename,
        few_shot::{rename_by, rename_semseg},
    },
};

/// What the sum over the shots is divided by.
pub(crate) const SHOTS: f64 = 5.0;

/// What SCL on PFENet adds to its encoder.
#[derive(Module, Debug)]
pub struct SclPfenetWeights {
    /// Layers 3 and 2 of a query.
    pub down_query: MidConv,
    /// Layers 3 and 2 of a support.
    pub down_supp: MidConv,
    /// Per grid: query, z1, z2, prior.
    pub init_merge: Vec<Conv2d>,
    /// Per grid: support, two vectors.
    pub supp_init_merge: Vec<Conv2d>,
    /// The rest.
    pub fem: Fem,
}

impl SclPfenetWeights {
    pub(super) fn new(scl: &Scl, shape: &FeatureShape, device: &Device) -> Self {
        let merges =
            |from: usize| scl.bins.iter().map(|_| Conv::new(from, CHANNELS, 1).init(device)).collect();
        Self {
            down_query: MidConv::new(shape, device),
            down_supp: MidConv::new(shape, device),
            init_merge: merges(3 * CHANNELS + usize::from(scl.prior)),
            supp_init_merge: merges(3 * CHANNELS),
            fem: Fem::new(scl.bins.len(), true, device),
        }
    }
}

/// SCL on PFENet with its weights.
#[derive(Clone, Copy)]
pub struct SclPfenet<'a> {
    scl: &'a Scl,
    weights: &'a SclPfenetWeights,
}

/// What a map adds to each grid's merge, whatever it is merged with.
#[derive(Clone)]
struct Shares {
    grids: Vec<Tensor<4>>,
    size: [usize; 2],
}

/// Supports after pass 1.
pub struct Guided {
    shares: Shares,
    /// Pass 1.
    pub first: Enriched,
    /// z1 and z2, `[supports, 512]`.
    pub vectors: Tensor<2>,
}

impl Guided {
    /// Some of the supports.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let of = |map: &Tensor<4>| map.clone().slice_dim(0, range.clone());
        let all = |maps: &[Tensor<4>]| maps.iter().map(of).collect();
        Self {
            shares: Shares { grids: all(&self.shares.grids), ..self.shares },
            first: Enriched {
                scores: of(&self.first.scores),
                inner: all(&self.first.inner),
                grids: all(&self.first.grids),
            },
            vectors: self.vectors.clone().slice_dim(0, range.clone()),
        }
    }
}

impl<'a> SclPfenet<'a> {
    /// These settings with these weights.
    pub fn new(scl: &'a Scl, weights: &'a SclPfenetWeights) -> Self {
        Self { scl, weights }
    }

    pub(super) fn encode(self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        let mut maps = encode_query(vision, images, self.scl.prior);
        maps[0] = self.weights.down_query.forward(maps[0].clone());
        maps
    }

    pub(super) fn encode_supports(self, vision: &Vision<'_>, images: Tensor<4>, labels: &[RowMap]) -> Maps {
        let mut maps = encode_masked(vision, images, labels, self.scl.prior);
        maps[0] = self.weights.down_supp.forward(maps[0].clone());
        maps
    }

    /// Pass 1 on supports `[n, 256, h, w]`, and the vectors of what it covers and misses. With `inner` the scores of each
    /// grid are computed too.
    pub fn guide(self, map: &Tensor<4>, labels: &[RowMap], inner: bool) -> Guided {
        let shares = self.shares(&self.weights.supp_init_merge, map);
        let mask = masks(labels, FOREGROUND, shares.size, &map.device());
        let z = masked_average(map.clone(), mask.clone(), TINY_AREA);
        let first = self.enrich_support(&shares, &Tensor::cat(vec![z.clone(), z], 1), inner, None);
        let own = mask.greater_elem(1.0 - ROUNDING).float();
        let found = foreground(&first.scores);
        let covered = own.clone() * found.clone();
        let missed = own * found.neg().add_scalar(1.0);
        Guided { shares, vectors: two_averages(map, [covered, missed]), first }
    }

    /// Pass 2 on supports with vectors `[supports, 512]`, their own or of others.
    pub fn second_pass(self, guided: &Guided, vectors: &Tensor<2>, inner: bool) -> Enriched {
        self.enrich_support(&guided.shares, vectors, inner, Some(&guided.first.grids))
    }

    /// Queries `[n, 256, h, w]` with vectors `[n * shots, 512]` and priors `[n * shots, 1, h, w]`.
    pub fn enrich_query(
        self,
        query: &Tensor<4>,
        vectors: &Tensor<2>,
        prior: Option<&Tensor<4>>,
        inner: bool,
    ) -> Enriched {
        let shots = vectors.dims()[0] / query.dims()[0];
        let merge = &self.weights.init_merge;
        let mut shares = self.shares(merge, query);
        for (grid, conv) in shares.grids.iter_mut().zip(merge) {
            let [.., height, width] = grid.dims();
            let share = for_every_shot(grid.clone(), shots);
            let prior = prior
                .map(|map| fem::share(conv, 3 * CHANNELS, Part::Map(upsample(map.clone(), [height, width]))));
            *grid = match prior {
                Some(prior) => share + prior,
                None => share,
            };
        }
        self.enrich(merge, &shares, vectors, inner, None)
    }

    pub(super) fn class_scores(self, query: &Tensor<4>, vectors: &Tensor<2>) -> Tensor<4> {
        let merge = &self.weights.init_merge;
        self.enrich(merge, &self.shares(merge, query), vectors, false, None).scores
    }

    /// The priors of every shot, `[episodes * shots, 1, h, w]`, if the network has one.
    pub fn priors(self, encoded: &Encoded<'_>) -> Option<Tensor<4>> {
        let queries = || for_every_shot(encoded.queries[1].clone(), encoded.shots);
        self.scl.prior.then(|| prior(queries(), encoded.supports[1].clone()))
    }

    /// How well the vectors of shot i find support j of one episode: `[i][j]`, mean IoU of background and foreground.
    pub fn agreement(self, guided: &Guided, labels: &[RowMap]) -> Vec<Vec<f32>> {
        let judged = |label: u16| (label != IGNORE).then_some(label == FOREGROUND);
        let shots = labels.len();
        let of = |shot: usize| {
            let vectors = guided.vectors.clone().slice_dim(0, shot..shot + 1).repeat_dim(0, shots);
            let scores = self.second_pass(guided, &vectors, false).scores;
            let scores = upsample(scores, [labels[0].height, labels[0].width]);
            ious(&scores, labels, judged)
                .into_iter()
                .map(|[background, class]| (background + class) / 2.0)
                .collect()
        };
        (0..shots).map(of).collect()
    }

    pub(super) fn answer(self, encoded: &Encoded<'_>) -> Tensor<4> {
        let shots = encoded.shots;
        let guided = self.guide(&encoded.supports[0], encoded.support_labels, false);
        let priors = self.priors(encoded);
        let scores = self.enrich_query(&encoded.queries[0], &guided.vectors, priors.as_ref(), false).scores;
        if shots == 1 {
            return upsample(scores, encoded.size);
        }
        let weights = encoded.support_labels.chunks_exact(shots).enumerate().flat_map(|(episode, labels)| {
            let own = guided.slice(episode * shots..(episode + 1) * shots);
            let agreement = self.agreement(&own, labels);
            agreement.into_iter().map(|of| of.iter().sum::<f32>() / of.len() as f32)
        });
        let scores = weighted(scores, &weights.collect::<Vec<f32>>());
        let [_, rows, height, width] = scores.dims();
        let sum = scores.reshape([encoded.len(), shots, rows * height * width]).sum_dim(1).div_scalar(SHOTS);
        upsample(sum.reshape([encoded.len(), rows, height, width]), encoded.size)
    }

    pub(super) fn losses(self, vision: &Vision<'_>, episodes: &Episodes<'_>) -> Losses {
        let encoded = encode_all(self.scl, vision, episodes);
        let guided = self.guide(&encoded.supports[0], encoded.support_labels, true);
        let second = self.second_pass(&guided, &guided.vectors, true);
        let priors = self.priors(&encoded);
        let query = self.enrich_query(&encoded.queries[0], &guided.vectors, priors.as_ref(), true);
        let query_labels = labels_for_every_shot(episodes.query_labels, encoded.shots);
        let queries = PixelTargets::new(&query_labels);
        let supports = PixelTargets::new(episodes.support_labels);
        let judged = [(query, &queries), (guided.first, &supports), (second, &supports)];
        let both = judged.map(|(Enriched { scores, inner, .. }, targets)| {
            [pixel_loss(scores, targets), fem_inner_loss(inner, targets)]
        });
        let sum = both.into_iter().reduce(|[main, aux], [more, more_aux]| [main + more, aux + more_aux]);
        let [main, aux] = sum.expect("there are three");
        Losses { total: main.clone() + aux.clone(), main, aux: Some(aux) }
    }

    fn shares(self, merge: &[Conv2d], map: &Tensor<4>) -> Shares {
        let [.., height, width] = map.dims();
        let size = [height, width];
        let grids = fem::grids(&self.scl.bins, size).into_iter().zip(merge);
        let share = |(grid, conv)| fem::share(conv, 0, Part::Map(fem::pooled(map.clone(), grid)));
        Shares { grids: grids.map(share).collect(), size }
    }

    fn enrich_support(
        self,
        shares: &Shares,
        vectors: &Tensor<2>,
        inner: bool,
        before: Option<&[Tensor<4>]>,
    ) -> Enriched {
        self.enrich(&self.weights.supp_init_merge, shares, vectors, inner, before)
    }

    fn enrich(
        self,
        merge: &[Conv2d],
        shares: &Shares,
        vectors: &Tensor<2>,
        inner: bool,
        before: Option<&[Tensor<4>]>,
    ) -> Enriched {
        let merged = shares.grids.iter().zip(merge).map(|(share, conv)| {
            relu(share.clone() + fem::share(conv, CHANNELS, Part::Vector(vectors.clone())))
        });
        self.weights.fem.forward(merged.collect(), shares.size, inner, before)
    }
}

pub(super) fn rename(name: &str) -> Rename {
    const OWN: [(&str, &str); 2] =
        [("down_query.0.", "down_query.conv."), ("down_supp.0.", "down_supp.conv.")];
    fem::rename(name).or_else(|| rename_by(&OWN, name)).unwrap_or_else(|| rename_semseg(name))
}
