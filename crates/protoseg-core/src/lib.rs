//! The parts of protoseg that need no tensors and no files: classes and rows, folds, rasters, transforms, support
//! draws, counts and scores. Nothing here prints, reads a file or uses a device, so its tests run in milliseconds.

mod augment;
mod class;
mod class_table;
mod confusion;
mod count;
mod episode;
mod fold;
mod image_prior;
mod name;
mod preprocess;
mod raster;
mod reliability;
mod remap;
mod rules;
mod score_map;
mod scores;
pub mod seed;
mod suggest;
mod support_draw;
mod transform;

pub use augment::{Augment, AugmentDraw, CropFit, Cropper};
pub use class::{Class, ClassError, ClassRole, Classes};
pub use class_table::{ClassId, ClassTable, ClassTableError, NamedClass};
pub use confusion::Confusion;
pub use count::count;
pub use episode::{
    Episode, EpisodeCounts, EpisodeDraw, EpisodeError, EpisodeList, EpisodeRun, EpisodeScores, EpisodeStyle,
    MIN_EPISODE_PIXELS, NamedEpisode, UnknownEpisodeStyle, draw_episodes,
};
pub use fold::{Fold, FoldError, FoldScheme, find_ids};
pub use image_prior::{IMAGE_PRIOR_LEAST_SHARE, IMAGE_PRIOR_ROUNDS, add_image_prior};
pub use name::{MAX_NAME, NameError, check_name, is_control};
pub use preprocess::{Canvas, Fit, GridPlacement, Preprocess};
pub use raster::{ClassRows, FileIds, IGNORE, IdMap, Image, LabelMap, RowMap, SUPPORT_ROW};
pub use reliability::{Reliability, ReliabilityGroup, ScoredPixels, decide};
pub use remap::{NovelPixels, Remap, RemapError};
pub use rules::{BaseUse, ImageStats, SupportUse};
pub use score_map::{Look, ScoreGrid, ScoreMap, Tiling, best};
pub use scores::{Protocol, Scores, Spread, UnknownProtocol};
pub use suggest::closest;
pub use support_draw::{
    ClassSupports, MIN_SUPPORT_PIXELS, SUPPORT_SEEDS, SupportDraw, SupportError, SupportList, draw_supports,
};

#[cfg(test)]
mod golden;
