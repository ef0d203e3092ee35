//! The published ways to draw and score episodes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Fit, MIN_SUPPORT_PIXELS};

/// The fewest pixels of its class that queries and supports of style `pfenet` hold (images of about 500 x 375).
pub const MIN_EPISODE_PIXELS: u64 = 2_048;

/// How episodes are drawn and scored. Numbers of different styles do not compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EpisodeStyle {
    /// PFENet's: queries are the images of the list in order, the class is drawn among those that the query shows
    /// enough of, supports are distinct. Scored at the image's own size.
    #[default]
    Pfenet,
    /// HSNet's: queries are the pairs of an image and a class in order, supports may repeat. Images are squashed to a
    /// square and scored there.
    Hsnet,
    /// PANet's: the class is drawn, then the query and distinct supports. Images are squashed to a square and scored
    /// there. Five runs.
    Panet,
}

impl EpisodeStyle {
    pub const ALL: [Self; 3] = [Self::Pfenet, Self::Hsnet, Self::Panet];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pfenet => "pfenet",
            Self::Hsnet => "hsnet",
            Self::Panet => "panet",
        }
    }

    /// Number of episodes per run that results on a benchmark are reported with.
    pub fn n_episodes(self, benchmark: &str) -> usize {
        match (self, benchmark) {
            (Self::Pfenet, "pascal-5i") => 5_000,
            (Self::Pfenet, "coco-20i" | "coco-20i-contiguous") => 20_000,
            _ => 1_000,
        }
    }

    /// Number of runs that results are means over.
    pub fn n_runs(self) -> usize {
        match self {
            Self::Pfenet | Self::Hsnet => 1,
            Self::Panet => 5,
        }
    }

    /// The seed of the first run. Run r takes this seed plus r.
    pub fn seed(self) -> u64 {
        match self {
            Self::Pfenet => 321,
            Self::Hsnet => 0,
            Self::Panet => 1234,
        }
    }

    /// The fewest pixels of its class that an image of an episode holds, in a data set whose registered supports hold
    /// at least `min_support_pixels`. Small images have small thresholds: [`MIN_EPISODE_PIXELS`] is an eighth of
    /// [`MIN_SUPPORT_PIXELS`].
    pub fn min_pixels(self, min_support_pixels: u64) -> u64 {
        match self {
            Self::Pfenet => (min_support_pixels / (MIN_SUPPORT_PIXELS / MIN_EPISODE_PIXELS)).max(1),
            Self::Hsnet | Self::Panet => 1,
        }
    }

    /// Whether class and query are drawn instead of taken from the list in order.
    pub fn draws_queries(self, benchmark: &str) -> bool {
        match self {
            Self::Pfenet => false,
            Self::Hsnet => benchmark.starts_with("coco-20i"),
            Self::Panet => true,
        }
    }

    /// Whether the supports of an episode are distinct.
    pub fn has_distinct_supports(self) -> bool {
        self != Self::Hsnet
    }

    /// How images reach the network's square.
    pub fn fit(self) -> Fit {
        match self {
            Self::Pfenet => Fit::Letterbox,
            Self::Hsnet | Self::Panet => Fit::Squash,
        }
    }
}

impl fmt::Display for EpisodeStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is not a style's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a style of episodes\nhint: choose `pfenet`, `hsnet` or `panet`")]
pub struct UnknownEpisodeStyle(String);

impl FromStr for EpisodeStyle {
    type Err = UnknownEpisodeStyle;

    fn from_str(name: &str) -> Result<Self, UnknownEpisodeStyle> {
        let known = Self::ALL.into_iter().find(|style| style.name() == name.to_lowercase());
        known.ok_or_else(|| UnknownEpisodeStyle(name.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for style in EpisodeStyle::ALL {
            assert_eq!(style.to_string().parse(), Ok(style));
        }
        let error = "hsnett".parse::<EpisodeStyle>().unwrap_err().to_string();
        assert!(error.starts_with("`hsnett` is not a style"), "{error}");
    }

    #[test]
    fn published_numbers_are_the_defaults() {
        use EpisodeStyle::{Hsnet, Panet, Pfenet};
        assert_eq!((Pfenet.n_episodes("pascal-5i"), Pfenet.n_runs(), Pfenet.seed()), (5_000, 1, 321));
        assert_eq!((Pfenet.n_episodes("coco-20i"), Pfenet.n_episodes("msrc")), (20_000, 1_000));
        assert_eq!((Hsnet.n_episodes("coco-20i"), Hsnet.n_runs(), Hsnet.seed()), (1_000, 1, 0));
        assert_eq!((Panet.n_episodes("pascal-5i"), Panet.n_runs(), Panet.seed()), (1_000, 5, 1234));
        assert_eq!(Pfenet.min_pixels(MIN_SUPPORT_PIXELS), MIN_EPISODE_PIXELS);
        assert_eq!((Pfenet.min_pixels(2_000), Pfenet.min_pixels(0), Hsnet.min_pixels(2_000)), (250, 1, 1));
    }
}
