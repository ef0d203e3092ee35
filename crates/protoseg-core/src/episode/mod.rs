//! Episodes of classic few-shot segmentation: a query, the supports of one novel class, and a binary answer.
//!
//! [`draw_episodes`] draws them in one of the published ways ([`EpisodeStyle`]), [`EpisodeList`] keeps them by name so
//! that anyone can replay them, and [`EpisodeCounts`] turns answers into scores.

mod counts;
mod draw;
mod error;
mod list;
mod style;

pub use counts::{EpisodeCounts, EpisodeScores};
pub use draw::{EpisodeDraw, draw_episodes};
pub use error::EpisodeError;
pub use list::{EpisodeList, EpisodeRun, NamedEpisode};
pub use style::{EpisodeStyle, MIN_EPISODE_PIXELS, UnknownEpisodeStyle};

use crate::ClassId;

/// One question: where in the query is the class that the supports show? Images are given by their place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// A novel class of the fold. Every other pixel with a label is background.
    pub class: ClassId,
    pub query: usize,
    /// One image per shot. The query is never among them.
    pub supports: Vec<usize>,
}
