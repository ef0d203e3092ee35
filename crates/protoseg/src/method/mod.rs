//! Methods: one published method per file or folder.
//!
//! A method says what it adds to the network ([`MethodWeights`]), how a training batch becomes a loss
//! ([`Method::losses`]), what is remembered of a support, and how a query is scored. There are two kinds.
//!
//! - Generalized ([`Usage`]): supports become rows of a classifier, once. After that an image alone goes in.
//! - [`Episodic`]: a query and the supports of one class go in, a binary mask comes out.
//!
//! Trainer, run, checkpoints, model file and evaluation know no more of a method than this. Methods look at images
//! through a [`Vision`], which hands them the encoder's maps.
//!
//! [`cosine`], [`pooling`], [`mask`], [`prior`], [`fem`] and [`cells`] are what several methods share.

pub mod asgnet;
mod batch;
pub mod canet;
pub mod capl;
pub mod capl_few_shot;
pub mod cells;
pub mod cosine;
pub mod cost;
pub mod cwt;
mod episodic;
mod fed;
pub mod fem;
pub mod hsnet;
pub mod mask;
pub mod mining;
pub mod panet;
pub mod pfenet;
pub mod pooling;
pub mod prior;
pub mod prototypes;
pub mod repri;
pub mod scl;
pub mod support_sums;
mod systems;
#[cfg(test)]
mod tests;
mod usage;
mod vision;

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use rand::RngCore;
use serde::{Deserialize, Serialize};

pub use batch::{ClassLabels, Episodes, Images, TrainingBatch};
pub use episodic::{Encoded, Episodic, Frozen, Maps};
pub use fed::Fed;
pub use systems::{FEW_SHOT_NAMES, few_shot};
pub use usage::{Rows, Seen, Usage};
pub use vision::Vision;

use self::{
    asgnet::{Asgnet, AsgnetWeights},
    canet::{Canet, CanetWeights},
    capl::{Capl, CaplWeights},
    capl_few_shot::{CaplFewShot, CaplFewShotWeights},
    cwt::{Cwt, CwtWeights},
    hsnet::{Hsnet, HsnetWeights},
    mining::{Mining, MiningWeights},
    panet::{Panet, PanetWeights},
    pfenet::{Pfenet, PfenetWeights},
    prototypes::{Prototypes, PrototypesWeights},
    repri::{Repri, RepriWeights},
    scl::{Scl, SclWeights},
};
use crate::{config::ConfigError, decoder::Projector};

/// A method with its settings, as a model file names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Method {
    /// Context-Aware Prototype Learning, its baselines and its ablations.
    Capl(Capl),
    /// Class means on frozen features, in a whitened space.
    Prototypes(Prototypes),
    /// Prototype alignment (Wang et al. 2019).
    Panet(Panet),
    /// A training-free prior and feature enrichment (Tian et al. 2020).
    Pfenet(Pfenet),
    /// Dense comparison and iterative refinement (Zhang et al. 2019).
    Canet(Canet),
    /// Self-guided and cross-guided learning (Zhang et al. 2021).
    Scl(Scl),
    /// CAPL in the classic few-shot setting, on PANet or PFENet.
    #[serde(rename = "capl-few-shot")]
    CaplFewShot(CaplFewShot),
    /// Hypercorrelation squeeze (Min et al. 2021).
    Hsnet(Hsnet),
    /// Superpixel-guided clustering (Li et al. 2021).
    Asgnet(Asgnet),
    /// Region proportion regularised inference (Boudiaf et al. 2021).
    Repri(Repri),
    /// Classifier weight transformer (Lu et al. 2021).
    Cwt(Cwt),
    /// The baseline of mining latent classes (Yang et al. 2021).
    Mining(Mining),
}

/// What a method adds to encoder and decoder.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one per network; an indirection would serve nobody
#[allow(missing_docs)] // one for each variant of `Method`
pub enum MethodWeights {
    Capl(CaplWeights),
    Prototypes(PrototypesWeights),
    Panet(PanetWeights),
    Pfenet(PfenetWeights),
    Canet(CanetWeights),
    Scl(SclWeights),
    CaplFewShot(CaplFewShotWeights),
    Hsnet(HsnetWeights),
    Asgnet(AsgnetWeights),
    Repri(RepriWeights),
    Cwt(CwtWeights),
    Mining(MiningWeights),
}

/// Sizes that a method's own layers follow from.
#[derive(Clone, Debug)]
pub struct FeatureShape {
    /// Channels of the features.
    pub dim: usize,
    /// Channels of the encoder's last map but one.
    pub before_last: usize,
    /// Channels of each of the encoder's stages, finest first.
    pub stages: Vec<usize>,
    /// Blocks of each of them.
    pub blocks: Vec<usize>,
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

impl Method {
    /// What the command line and reports call it: a row of CAPL's ablation table, or the method's name.
    pub fn name(&self) -> String {
        match self {
            Self::Capl(capl) => capl.ablation.to_string(),
            Self::Prototypes(_) => "prototypes".to_string(),
            other => other.episodic().expect("all others are").name().to_string(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Capl(capl) => capl.validate(),
            Self::Prototypes(prototypes) => prototypes.validate(),
            other => other.episodic().expect("all others are").validate(),
        }
    }

    /// What the method adds to the network, with fresh weights.
    pub(crate) fn init(&self, shape: &FeatureShape, device: &Device) -> MethodWeights {
        match self {
            Self::Capl(method) => MethodWeights::Capl(method.init(shape, device)),
            Self::Prototypes(method) => MethodWeights::Prototypes(method.init(shape, device)),
            Self::Panet(method) => MethodWeights::Panet(method.init()),
            Self::Pfenet(method) => MethodWeights::Pfenet(method.init(shape, device)),
            Self::Canet(method) => MethodWeights::Canet(method.init(shape, device)),
            Self::Scl(method) => MethodWeights::Scl(method.init(shape, device)),
            Self::CaplFewShot(method) => MethodWeights::CaplFewShot(method.init(shape, device)),
            Self::Hsnet(method) => MethodWeights::Hsnet(method.init(shape, device)),
            Self::Asgnet(method) => MethodWeights::Asgnet(method.init(shape, device)),
            Self::Repri(method) => MethodWeights::Repri(method.init(shape, device)),
            Self::Cwt(method) => MethodWeights::Cwt(method.init(shape, device)),
            Self::Mining(method) => MethodWeights::Mining(method.init()),
        }
    }

    /// How a model of this method registers classes and scores images: with the parts that it was trained for. None if
    /// the method is episodic.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Capl(capl) => Some(Usage::Capl(capl.usage())),
            Self::Prototypes(prototypes) => Some(Usage::Prototypes(prototypes.usage())),
            _ => None,
        }
    }

    /// Length of what is remembered of a pixel with features of `dim` values.
    pub fn remembered(&self, dim: usize) -> usize {
        match self {
            Self::Prototypes(prototypes) => prototypes.remembered(dim),
            _ => dim,
        }
    }

    /// How a model of this method answers an episode; none if the method is generalized.
    pub fn episodic(&self) -> Option<&dyn Episodic> {
        match self {
            Self::Capl(_) | Self::Prototypes(_) => None,
            Self::Panet(method) => Some(method),
            Self::Pfenet(method) => Some(method),
            Self::Canet(method) => Some(method),
            Self::Scl(method) => Some(method),
            Self::CaplFewShot(method) => Some(method),
            Self::Hsnet(method) => Some(method),
            Self::Asgnet(method) => Some(method),
            Self::Repri(method) => Some(method),
            Self::Cwt(method) => Some(method),
            Self::Mining(method) => Some(method),
        }
    }

    /// Whether training takes labelled images rather than episodes.
    pub fn learns_from_images(&self) -> bool {
        matches!(self, Self::Capl(_) | Self::Prototypes(_) | Self::Repri(_))
    }

    /// What training leaves as it is.
    pub fn frozen(&self) -> Frozen {
        match self {
            Self::Prototypes(_) => Frozen::Extractor,
            other => other.episodic().map_or(Frozen::Nothing, Episodic::frozen),
        }
    }

    /// The losses of one batch. Everything random in it but dropout comes from `rng`.
    ///
    /// # Panics
    /// If the batch is not of the kind that the method learns from.
    pub fn losses(
        &self,
        vision: &Vision<'_>,
        base: BaseClasses,
        batch: &TrainingBatch<'_>,
        rng: &mut dyn RngCore,
    ) -> Losses {
        match (self, batch) {
            (Self::Capl(capl), TrainingBatch::Images(images)) => {
                capl.losses(vision.network(), base, images, &mut { rng })
            }
            (Self::Prototypes(prototypes), TrainingBatch::Images(features)) => {
                prototypes.losses(vision.network(), base, features, &mut { rng })
            }
            (Self::Repri(repri), TrainingBatch::Images(images)) => repri.losses(vision.network(), images),
            (method, TrainingBatch::Episodes(episodes)) => {
                let episodic = method.episodic().expect("only systems for episodes learn from them");
                episodic.losses(vision, base, episodes, rng)
            }
            (method, TrainingBatch::Images(_)) => {
                panic!("{} learns from episodes, not images", method.name())
            }
        }
    }
}

/// The weights of one method in a network.
macro_rules! weights_of {
    ($($name:ident: $variant:ident($weights:ty),)*) => {
        impl MethodWeights {
            $(
                #[doc = concat!("Those of `", stringify!($variant), "`. Panics if the network is of another method.")]
                pub fn $name(&self) -> &$weights {
                    match self {
                        Self::$variant(weights) => weights,
                        _ => panic!(concat!("the network has no weights of ", stringify!($variant))),
                    }
                }
            )*
        }
    };
}

weights_of! {
    capl: Capl(CaplWeights),
    prototypes: Prototypes(PrototypesWeights),
    pfenet: Pfenet(PfenetWeights),
    canet: Canet(CanetWeights),
    scl: Scl(SclWeights),
    capl_few_shot: CaplFewShot(CaplFewShotWeights),
    hsnet: Hsnet(HsnetWeights),
    asgnet: Asgnet(AsgnetWeights),
    repri: Repri(RepriWeights),
    cwt: Cwt(CwtWeights),
}

impl MethodWeights {
    /// The auxiliary head, on the encoder's last map but one.
    pub(crate) fn aux_head(&self) -> Option<&Projector> {
        match self {
            Self::Capl(weights) => weights.aux_head.as_ref(),
            _ => None,
        }
    }

    /// CAPL's, to change.
    ///
    /// # Panics
    /// If the network is of another method.
    pub fn capl_mut(&mut self) -> &mut CaplWeights {
        match self {
            Self::Capl(weights) => weights,
            _ => panic!("the network has no weights of CAPL"),
        }
    }
}
