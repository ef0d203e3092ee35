//! Which episodes are asked, and what cannot be.

use protoseg_core::{EpisodeList, EpisodeStyle};
use protoseg_data::DataError;

use crate::model::ModelError;

/// The most runs of a test. Papers have five.
pub(super) const MAX_RUNS: usize = 1000;

/// Which episodes a model is asked, and how.
#[derive(Clone, Debug)]
pub struct EpisodePlan {
    /// The fold whose novel classes are asked for.
    pub fold: usize,
    /// How episodes are drawn, and how images are fitted and scored.
    pub style: EpisodeStyle,
    /// Numbers of supports per episode. The supports of fewer are the first of more.
    pub shots: Vec<usize>,
    /// Where the episodes come from.
    pub source: EpisodeSource,
    /// Side of the canvas; the model's own by default.
    pub size: Option<usize>,
    /// The most bytes of encoded images that are kept for later episodes.
    pub cache_bytes: usize,
}

/// Where episodes come from.
#[derive(Clone, Debug)]
pub enum EpisodeSource {
    /// Drawn at random. What is not given is as the style's paper has it.
    Drawn {
        /// Number of episodes per run.
        episodes: Option<usize>,
        /// Number of runs.
        runs: Option<usize>,
        /// Seed of the first run; the next run takes the next seed.
        seed: Option<u64>,
        /// The fewest pixels of its class that an image of an episode holds.
        min_pixels: Option<u64>,
    },
    /// Given.
    Listed(EpisodeList),
}

impl EpisodePlan {
    /// Bytes of encoded images that are kept unless a plan says otherwise.
    pub const CACHE_BYTES: usize = 1 << 30;

    /// As published: the style's episodes, runs and seeds at 1 and 5 shots.
    pub fn published(fold: usize, style: EpisodeStyle) -> Self {
        let source = EpisodeSource::Drawn { episodes: None, runs: None, seed: None, min_pixels: None };
        Self { fold, style, shots: vec![1, 5], source, size: None, cache_bytes: Self::CACHE_BYTES }
    }

    /// The episodes of a list in its own style, with all its supports.
    pub fn listed(list: EpisodeList) -> Self {
        let (fold, style, shots) = (list.fold, list.style, vec![list.shots]);
        Self { shots, source: EpisodeSource::Listed(list), ..Self::published(fold, style) }
    }
}

/// Why a model cannot be asked these episodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EpisodesError {
    /// The data set cannot be read, or has too few images of a class.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model does not answer episodes.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is nothing to evaluate on.
    #[error(
        "`{data}` has no split besides `{train}` to take episodes from\nhint: describe a second split in a .toml file"
    )]
    NoSplit {
        /// The data set.
        data: String,
        /// Its only split.
        train: String,
    },
    /// No number of shots was asked for, or zero.
    #[error("expected numbers of shots from 1, got `{got:?}`\nhint: ask for 1 and 5, as papers do")]
    Shots {
        /// What was asked for.
        got: Vec<usize>,
    },
    /// No run was asked for, or too many.
    #[error("expected 1 to {MAX_RUNS} runs, got `{got}`\nhint: ask for fewer, but at least 1")]
    Runs {
        /// What was asked for.
        got: usize,
    },
}
