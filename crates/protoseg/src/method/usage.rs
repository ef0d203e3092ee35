//! How a model of a generalized method is used: supports become rows of a classifier, once; then every image is scored
//! alone.

use std::sync::OnceLock;

use burn::tensor::Tensor;
use protoseg_core::{RowMap, ScoreGrid};
use protoseg_kernels::{
    Precision,
    channels_last::{Panels, StageRows},
};

use super::{
    capl,
    prototypes::{Looked, PrototypeUsage, StageMaps},
    support_sums::SupportSums,
};
use crate::network::Network;

/// The parts of a method that act, and how.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Usage {
    /// CAPL's.
    Capl(capl::Usage),
    /// Of prototypes without training.
    Prototypes(PrototypeUsage),
}

/// What a usage has seen of an image.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // one per image; an indirection would serve nobody
pub enum Seen {
    /// Its features.
    Features(Tensor<4>),
    /// What prototypes are compared with.
    Prototypes(Looked),
    /// The maps that features would be joined of.
    Stages(StageMaps),
}

impl Seen {
    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let values = match self {
            Self::Features(features) => features.dims().iter().product(),
            Self::Prototypes(looked) => looked.values(),
            Self::Stages(maps) => maps.values(),
        };
        size_of::<f32>() * values
    }
}

/// What the pixels of an image are compared with.
#[derive(Clone, Debug)]
pub struct Rows {
    /// `[rows, d]`
    pub vectors: Tensor<2>,
    /// The class of each row. Classes are numbered from 0, and their rows lie together.
    pub owners: Vec<u16>,
    /// Rows of a trained head beside them, `[classes, d of the head]`.
    pub head: Option<Tensor<2>>,
    /// The vectors as [`StageMaps`] are compared with them, packed when they are first needed.
    pub(super) by_stage: OnceLock<StageRows>,
    /// The vectors as pixels of joined maps are compared with them, packed when they are first needed.
    pub(super) panels: OnceLock<Panels>,
}

impl Rows {
    /// These and one more row for each of some new classes, `[classes, d]`.
    pub fn with_one_each(&self, more: Tensor<2>) -> Self {
        let first = self.n_classes() as u16;
        let owners = self.owners.iter().copied().chain(first..first + more.dims()[0] as u16).collect();
        Self::new(Tensor::cat(vec![self.vectors.clone(), more], 0), owners)
    }

    /// One row per class.
    pub fn one_each(vectors: Tensor<2>) -> Self {
        let owners = (0..vectors.dims()[0] as u16).collect();
        Self::new(vectors, owners)
    }

    /// Rows of classes, without a head.
    pub fn new(vectors: Tensor<2>, owners: Vec<u16>) -> Self {
        Self { vectors, owners, head: None, by_stage: OnceLock::new(), panels: OnceLock::new() }
    }

    /// Where the rows of each class end.
    pub(crate) fn ends(&self) -> Vec<usize> {
        let mut ends = vec![0; self.n_classes()];
        self.owners.iter().enumerate().for_each(|(row, &owner)| ends[usize::from(owner)] = row + 1);
        // A class may have no row: all of the background's may have stepped back.
        (1..ends.len()).for_each(|class| ends[class] = ends[class].max(ends[class - 1]));
        ends
    }

    /// Number of classes.
    pub fn n_classes(&self) -> usize {
        self.owners.last().map_or(0, |&last| usize::from(last) + 1)
    }

    /// One vector per class: the mean of its rows, `[classes, d]`; zeros where it has none.
    pub fn means(&self) -> Tensor<2> {
        let [_, dim] = self.vectors.dims();
        let mean = |class: usize| {
            let start = self.owners.partition_point(|&owner| usize::from(owner) < class);
            let end = self.owners.partition_point(|&owner| usize::from(owner) <= class);
            match start < end {
                true => self.vectors.clone().slice_dim(0, start..end).mean_dim(0),
                false => Tensor::zeros([1, dim], &self.vectors.device()),
            }
        };
        Tensor::cat((0..self.n_classes()).map(mean).collect(), 0)
    }
}

impl Usage {
    /// What is kept of one support: features `[1, d, h, w]`, and labels of any size: rows of base classes, and `own`
    /// where the class is.
    pub fn remember(
        &self,
        network: &Network,
        features: Tensor<4>,
        labels: &RowMap,
        own: u16,
        n_base: usize,
    ) -> SupportSums {
        match self {
            Self::Capl(usage) => usage.remember(features, labels, own, n_base),
            Self::Prototypes(usage) => {
                usage.remember(network.method.prototypes(), features, labels, own, n_base)
            }
        }
    }

    /// The rows that supports of `n_novel` classes make. The error is the index of a class without a pixel.
    pub fn register(
        &self,
        network: &Network,
        n_base: usize,
        n_novel: usize,
        supports: &[SupportSums],
    ) -> Result<Rows, usize> {
        match self {
            Self::Capl(usage) => {
                usage.register(network.method.capl(), n_base, n_novel, supports).map(Rows::one_each)
            }
            Self::Prototypes(usage) => usage.register(network.method.prototypes(), n_base, n_novel, supports),
        }
    }

    /// What of features `[batch, d, h, w]` every classifier of this usage needs: computed once, scored by many.
    pub fn look(&self, network: &Network, features: Tensor<4>) -> Seen {
        match self {
            Self::Capl(_) => Seen::Features(features),
            Self::Prototypes(usage) => Seen::Prototypes(usage.look(network.method.prototypes(), features)),
        }
    }

    /// Whether [`Seen::Stages`] is all that it needs.
    pub(crate) fn compares_stages(&self) -> bool {
        matches!(self, Self::Prototypes(usage) if usage.compares_stages())
    }

    /// Scores of [`Seen::Stages`].
    ///
    /// # Panics
    /// If the usage needs more ([`Self::compares_stages`]).
    pub(crate) fn score_stages(
        &self,
        network: &Network,
        rows: &Rows,
        maps: &StageMaps,
        precision: Precision,
    ) -> ScoreGrid {
        match self {
            Self::Prototypes(usage) => usage.score_stages(network.method.prototypes(), rows, maps, precision),
            Self::Capl(_) => panic!("CAPL compares features"),
        }
    }

    /// Scores `[batch, classes, h, w]` of what this usage has seen.
    ///
    /// # Panics
    /// If it was seen by a usage of another method, or by stages.
    pub fn score(&self, network: &Network, n_base: usize, rows: &Rows, seen: &Seen) -> Tensor<4> {
        match (self, seen) {
            (Self::Capl(usage), Seen::Features(features)) => {
                usage.score(network.method.capl(), n_base, rows.vectors.clone(), features.clone())
            }
            (Self::Prototypes(usage), Seen::Prototypes(looked)) => {
                usage.score(network.method.prototypes(), n_base, rows, looked)
            }
            _ => panic!("seen by a usage of another method"),
        }
    }

    /// The last step, after the scores of an image's grid or of all its tiles are there.
    pub(crate) fn finish(&self, grids: &mut [ScoreGrid]) {
        if let Self::Prototypes(usage) = self {
            usage.finish(grids);
        }
    }

    /// With the base classes as they were learned, whatever supports say of them.
    pub fn without_context(self) -> Self {
        match self {
            Self::Capl(usage) => Self::Capl(usage.without_sce()),
            prototypes => prototypes,
        }
    }

    /// With the options of a preset, if it is CAPL.
    pub fn with_preset(self, preset: capl::Preset) -> Self {
        match self {
            Self::Capl(usage) => Self::Capl(usage.with_preset(preset)),
            prototypes => prototypes,
        }
    }

    /// CAPL's parts, if it is CAPL.
    pub fn capl(&self) -> Option<&capl::Usage> {
        match self {
            Self::Capl(usage) => Some(usage),
            Self::Prototypes(_) => None,
        }
    }

    /// What tables call it: the parts of CAPL that act, or how prototypes answer.
    pub fn variant(&self) -> &'static str {
        match self {
            Self::Capl(usage) => usage.parts().name(),
            Self::Prototypes(usage) => usage.name(),
        }
    }

    /// The name of CAPL's preset; `-` for a method without presets.
    pub fn preset(&self) -> &'static str {
        self.capl().map_or("-", capl::Usage::preset)
    }

    /// Whether both give the same classifier and scores.
    pub fn is_same_use(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Capl(own), Self::Capl(other)) => own.is_same_use(other),
            _ => self == other,
        }
    }
}
