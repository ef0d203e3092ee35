//! Why episodes cannot be drawn or replayed.

use crate::support_draw::MAX_SHOTS;

/// Most episodes of a run. More are a slip of the finger.
pub(super) const MAX_EPISODES: usize = 10_000_000;

/// Why episodes cannot be drawn or replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EpisodeError {
    #[error(
        "images of class `{class}` with at least {min_pixels} pixels of it: got `{got}`, expected at least `{needed}` for {n_shots}-shot episodes\nhint: ask for fewer shots, or require fewer pixels"
    )]
    TooFewImages { class: String, got: usize, needed: usize, n_shots: usize, min_pixels: u64 },
    #[error(
        "fold `{fold}` has no novel class, so there is nothing to ask for\nhint: choose a fold with novel classes"
    )]
    NoNovel { fold: usize },
    #[error(
        "expected 1 to {MAX_SHOTS} supports per episode, got `{got}`\nhint: ask for fewer, but at least 1"
    )]
    Shots { got: usize },
    #[error("expected 1 to {MAX_EPISODES} episodes, got `{got}`\nhint: ask for fewer, but at least 1")]
    Episodes { got: usize },
    #[error(
        "the episode list has schema `{got}`, expected `{expected}`\nhint: check that this is a list of episodes"
    )]
    Schema { got: String, expected: &'static str },
    #[error("the episode list has no episode in run {run}\nhint: list at least one")]
    Empty { run: usize },
    #[error(
        "episode {episode} of run {run}: class `{class}` is not novel in fold `{fold}`\nhint: {suggestion}"
    )]
    NotNovel { run: usize, episode: usize, class: String, fold: usize, suggestion: String },
    #[error(
        "episode {episode} of run {run}: {role} `{sample}` is not an image of the data set\nhint: {suggestion}"
    )]
    UnknownSample { run: usize, episode: usize, role: &'static str, sample: String, suggestion: String },
    #[error(
        "episode {episode} of run {run}: `{sample}` is both the query and a support\nhint: choose another support"
    )]
    QueryIsSupport { run: usize, episode: usize, sample: String },
    #[error(
        "episode {episode} of run {run} has `{got}` supports, expected at least `{needed}`\nhint: ask for fewer shots, or list more supports"
    )]
    TooFewSupports { run: usize, episode: usize, got: usize, needed: usize },
    #[error(
        "episode {episode} of run {run}: support `{sample}` holds no pixel of class `{class}`\nhint: choose an image in which `{class}` is labelled"
    )]
    EmptySupport { run: usize, episode: usize, sample: String, class: String },
}
