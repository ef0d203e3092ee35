//! What is to be evaluated, and what cannot be.

use protoseg_core::{Fit, Protocol, SupportList};
use protoseg_data::DataError;

use super::evenly;
use crate::{
    method::Usage,
    model::{Model, ModelError},
    register::RegisterError,
};

/// What is to be evaluated.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The fold whose novel classes are registered.
    pub fold: usize,
    /// How pixels are compared and scores are made.
    pub protocol: Protocol,
    /// Numbers of supports per class.
    pub shots: Vec<usize>,
    /// Where the supports come from.
    pub supports: SupportSource,
    /// Ways to use the model, each evaluated by itself.
    pub usages: Vec<Usage>,
    /// Side of the canvas; the model's own by default.
    pub size: Option<usize>,
    /// The most images to evaluate, evenly taken from the split. With a limit it is not a result of the benchmark.
    pub limit: Option<usize>,
    /// Evaluate only the images of this part, and of how many, from 1 on; [`super::join`] adds parts up.
    pub part: Option<(usize, usize)>,
    /// Look at every image a second time, mirrored and larger.
    pub second_look: bool,
}

impl Evaluation {
    /// The model as it is evaluated.
    pub(super) fn model(&self, model: &Model) -> Result<Model, ModelError> {
        let model = match self.size {
            Some(size) => model.with_canvas(size)?,
            None => model.clone(),
        };
        // The reference's protocol is about a square.
        Ok(match (self.protocol, model.preprocess().fit) {
            (Protocol::Reference, Fit::Tight) => model.with_fit(Fit::Letterbox),
            _ => model,
        })
    }

    /// The model of the second look, if there is one.
    pub(super) fn second(&self, model: &Model) -> Result<Option<Model>, EvaluateError> {
        if !self.second_look {
            return Ok(None);
        }
        if self.protocol == Protocol::Reference {
            return Err(EvaluateError::OneLook {
                reason: "the protocol `reference` has one look".to_string(),
            });
        }
        if let Some(episodic) = model.manifest().method.episodic() {
            let reason = format!("`{}` answers episodes", episodic.name());
            return Err(EvaluateError::OneLook { reason });
        }
        Ok(Some(model.for_second_look()?))
    }

    /// Those of all images that are to be evaluated.
    pub(super) fn queries(&self, all: &[usize]) -> Vec<usize> {
        let chosen = evenly(all, self.limit.unwrap_or(all.len()));
        let (part, of) = self.part.unwrap_or((1, 1));
        chosen.into_iter().skip(part.saturating_sub(1)).step_by(of.max(1)).collect()
    }
}

/// Where the supports of an evaluation come from.
#[derive(Clone, Debug)]
pub enum SupportSource {
    /// Drawn at random, once per seed.
    Drawn {
        /// The seeds.
        seeds: Vec<u64>,
        /// The fewest pixels of its class that a support holds; the benchmark's own rule by default.
        min_pixels: Option<u64>,
    },
    /// Given.
    Listed(SupportList),
}

impl SupportSource {
    /// Number of draws.
    pub fn count(&self) -> usize {
        match self {
            Self::Drawn { seeds, .. } => seeds.len(),
            Self::Listed(_) => 1,
        }
    }
}

/// What cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The supports cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The model cannot be used this way.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model was trained on other classes.
    #[error(
        "the model and fold `{fold}` of `{data}` do not have the same base classes: the model knows {model}; \
         the fold has {got}\nhint: choose the fold that the model was trained on{trained}"
    )]
    OtherClasses {
        /// The fold.
        fold: usize,
        /// The data set.
        data: String,
        /// Base classes of the model.
        model: String,
        /// Base classes of the fold.
        got: String,
        /// What the model says it was trained on.
        trained: String,
    },
    /// There is nothing to register.
    #[error(
        "fold `{fold}` of `{data}` has no novel class\nhint: describe folds in a .toml file, see docs/formats.md"
    )]
    NoNovel {
        /// The fold.
        fold: usize,
        /// The data set.
        data: String,
    },
    /// There is nothing to evaluate on.
    #[error(
        "`{data}` has no split besides `{train}` to evaluate on\nhint: describe a second split in a .toml file"
    )]
    NoSplit {
        /// The data set.
        data: String,
        /// Its only split.
        train: String,
    },
    /// The split holds no image with a class in it.
    #[error("no image of split `{split}` can be evaluated\nhint: check the data set")]
    NoImages {
        /// The split.
        split: String,
    },
    /// A second look at images was asked for where there is none.
    #[error("images cannot be looked at twice: {reason}\nhint: leave out the second look")]
    OneLook {
        /// Why not.
        reason: String,
    },
    /// A system for episodes that cannot be fed all classes.
    #[error("`{method}` cannot take part in the generalized setting: {reason}")]
    NotFed {
        /// The system.
        method: String,
        /// Why not.
        reason: &'static str,
    },
    /// A base class that no training image holds.
    #[error(
        "no image of split `{split}` holds base class `{class}`, which is fed by its mean over them\nhint: check the data set"
    )]
    NoTeacher {
        /// The class.
        class: String,
        /// The split.
        split: String,
    },
    /// Classes that are taught one at a time need supports that are drawn.
    #[error("classes that are taught one at a time take drawn supports, not a list")]
    NeedsDraws,
    /// The data set has no such class.
    #[error("`{data}` has no class `{class}`\nhint: its classes are {known}")]
    NoClass {
        /// The name that was asked for.
        class: String,
        /// The data set.
        data: String,
        /// Names that are there.
        known: String,
    },
    /// Parts that do not belong together.
    #[error("the parts are not of this evaluation\nhint: give every part the same model, data and options")]
    OtherParts,
    /// A list of supports is too short.
    #[error(
        "the support list has {got} supports of class `{class}`, but {wanted} shots were asked for\n\
         hint: ask for fewer shots, or make a longer list"
    )]
    TooFewSupports {
        /// The class.
        class: String,
        /// Supports in the list.
        got: usize,
        /// The most shots that were asked for.
        wanted: usize,
    },
}
