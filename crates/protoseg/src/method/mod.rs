//! Methods: one published method per file or folder.
//!
//! A method says what it adds to the network ([`MethodWeights`]), how a training batch becomes a loss
//! ([`Method::losses`]), what is remembered of a support, and how a query is scored. There are two kinds.
//!
//! - [`Generalized`]: supports become rows of a classifier, once. After that an image alone goes in.
//! - [`Episodic`]: a query and the supports of one class go in, a binary mask comes out.
//!
//! Trainer, run, checkpoints, model file and evaluation know no more of a method than this.
//!
//! [`cosine`] and [`pooling`] are what most methods share.

mod batch;
pub mod capl;
pub mod cosine;
pub mod panet;
pub mod pooling;

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use protoseg_core::RowMap;
use rand::Rng;
use serde::{Deserialize, Serialize};

pub use batch::{Episodes, Images, TrainingBatch};

use self::{
    capl::{Capl, CaplWeights, Usage, register::SupportSums},
    panet::{Panet, PanetWeights},
};
use crate::{config::ConfigError, decoder::Projector, network::Network};

/// A method with its settings, as a model file names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Method {
    /// Context-Aware Prototype Learning, its baselines and its ablations.
    Capl(Capl),
    /// Prototype alignment (Wang et al. 2019).
    Panet(Panet),
}

/// What a method adds to encoder and decoder.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one per network; an indirection would serve nobody
pub enum MethodWeights {
    /// Of [`Method::Capl`].
    Capl(CaplWeights),
    /// Of [`Method::Panet`].
    Panet(PanetWeights),
}

/// Sizes that a method's own layers follow from.
#[derive(Clone, Copy, Debug)]
pub struct FeatureShape {
    /// Channels of the features.
    pub dim: usize,
    /// Channels of the encoder's last map but one.
    pub before_last: usize,
    /// Channel dropout in heads.
    pub dropout: f64,
}

/// The losses of one batch, each a tensor of one value.
pub struct Losses {
    /// The method's main term.
    pub main: Tensor<1>,
    /// A second term, unweighted: the auxiliary head of CAPL, the alignment of PANet.
    pub aux: Option<Tensor<1>>,
    /// What is minimised.
    pub total: Tensor<1>,
}

/// What the losses of a batch depend on besides the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseClasses {
    /// Number of base rows, the background included.
    pub count: usize,
    /// Whether row 0 is a background.
    pub has_background: bool,
}

/// Supports become rows of a classifier, once; then every image is scored alone.
pub trait Generalized {
    /// What is kept of one support. `labels` are of any size: rows of base classes, and `own` where the class is.
    fn remember(&self, features: Tensor<4>, labels: &RowMap, own: u16, n_base: usize) -> SupportSums;

    /// The classifier `[base + novel, d]` that supports of `n_novel` classes make. The error is the index of a class
    /// without a pixel.
    fn register(
        &self,
        network: &Network,
        n_base: usize,
        n_novel: usize,
        supports: &[SupportSums],
    ) -> Result<Tensor<2>, usize>;

    /// Scores `[batch, rows, h, w]` of features `[batch, d, h, w]` for every row of a registered classifier.
    fn score(&self, network: &Network, n_base: usize, rows: Tensor<2>, features: Tensor<4>) -> Tensor<4>;
}

/// A query and the supports of one class go in, two scores per pixel come out.
pub trait Episodic {
    /// Scores `[episodes, 2, height, width]` of the queries, background first, at the queries' size.
    fn score(&self, network: &Network, episodes: &Episodes) -> Tensor<4>;
}

impl Method {
    /// What the command line and reports call it: a row of CAPL's ablation table, or the method's name.
    pub fn name(&self) -> String {
        match self {
            Self::Capl(capl) => capl.ablation.to_string(),
            Self::Panet(_) => "panet".to_string(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Capl(capl) => capl.validate(),
            Self::Panet(_) => Ok(()),
        }
    }

    /// What the method adds to the network, with fresh weights.
    pub(crate) fn init(&self, shape: FeatureShape, device: &Device) -> MethodWeights {
        match self {
            Self::Capl(capl) => MethodWeights::Capl(capl.init(shape, device)),
            Self::Panet(panet) => MethodWeights::Panet(panet.init()),
        }
    }

    /// How a model of this method registers classes and scores images: with the parts that it was trained for. None if
    /// the method is episodic.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Capl(capl) => Some(capl.usage()),
            Self::Panet(_) => None,
        }
    }

    /// How a model of this method answers an episode; none if the method is generalized.
    pub fn episodic(&self) -> Option<&dyn Episodic> {
        match self {
            Self::Capl(_) => None,
            Self::Panet(panet) => Some(panet),
        }
    }

    /// The losses of one batch. Everything random in it but dropout comes from `rng`.
    ///
    /// # Panics
    /// If the batch is not of the kind that the method learns from.
    pub fn losses(
        &self,
        network: &Network,
        base: BaseClasses,
        batch: &TrainingBatch<'_>,
        rng: &mut impl Rng,
    ) -> Losses {
        match (self, batch) {
            (Self::Capl(capl), TrainingBatch::Images(images)) => capl.losses(network, base, images, rng),
            (Self::Panet(panet), TrainingBatch::Episodes(episodes)) => panet.losses(network, episodes),
            (Self::Capl(_), TrainingBatch::Episodes(_)) => panic!("CAPL learns from images, not episodes"),
            (Self::Panet(_), TrainingBatch::Images(_)) => panic!("PANet learns from episodes, not images"),
        }
    }
}

impl MethodWeights {
    /// The auxiliary head, on the encoder's last map but one.
    pub(crate) fn aux_head(&self) -> Option<&Projector> {
        match self {
            Self::Capl(weights) => weights.aux_head.as_ref(),
            Self::Panet(_) => None,
        }
    }

    /// CAPL's.
    ///
    /// # Panics
    /// If the network is of another method.
    pub fn capl(&self) -> &CaplWeights {
        match self {
            Self::Capl(weights) => weights,
            Self::Panet(_) => panic!("the network has no weights of CAPL"),
        }
    }

    /// CAPL's, to change.
    ///
    /// # Panics
    /// If the network is of another method.
    pub fn capl_mut(&mut self) -> &mut CaplWeights {
        match self {
            Self::Capl(weights) => weights,
            Self::Panet(_) => panic!("the network has no weights of CAPL"),
        }
    }
}
