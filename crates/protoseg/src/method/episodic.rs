//! What a method for episodes is asked for.

use burn::tensor::Tensor;
use protoseg_core::RowMap;
use rand::RngCore;

use super::{BaseClasses, Episodes, Losses, Vision};
use crate::{config::ConfigError, encoder::EncoderConfig, network::Network};

/// The maps of a batch of images that a method works on, in an order of its own. Every map has the batch in front.
pub type Maps = Vec<Tensor<4>>;

/// Episodes whose images have been through the encoder.
#[derive(Clone, Debug)]
pub struct Encoded<'a> {
    /// Of the queries, `[episodes, ..]` each.
    pub queries: Maps,
    /// One map per query; empty where nobody knows them. A method may learn from them, and read which pixels are no part
    /// of the picture; it must not read the answer.
    pub query_labels: &'a [RowMap],
    /// Of the supports, `[episodes * shots, ..]` each, shots of an episode together.
    pub supports: Maps,
    /// One map per support: 1 is the class, 0 is everything else.
    pub support_labels: &'a [RowMap],
    /// Supports per query.
    pub shots: usize,
    /// `[height, width]` of the queries' images.
    pub size: [usize; 2],
}

impl Encoded<'_> {
    /// Number of episodes.
    pub fn len(&self) -> usize {
        self.support_labels.len() / self.shots
    }

    /// Whether there is no episode.
    pub fn is_empty(&self) -> bool {
        self.support_labels.is_empty()
    }

    /// One episode.
    pub fn episode(&self, index: usize) -> Self {
        let own = index * self.shots..(index + 1) * self.shots;
        let labels = if self.query_labels.is_empty() { &[] } else { &self.query_labels[index..=index] };
        let slice = |maps: &Maps, range: std::ops::Range<usize>| -> Maps {
            maps.iter().map(|map| map.clone().slice_dim(0, range.clone())).collect()
        };
        Self {
            queries: slice(&self.queries, index..index + 1),
            query_labels: labels,
            supports: slice(&self.supports, own.clone()),
            support_labels: &self.support_labels[own],
            ..*self
        }
    }

    /// The `shot`-th support of every episode as the only one: maps and labels.
    pub fn shot(&self, shot: usize) -> (Maps, Vec<RowMap>) {
        let (episodes, shots) = (self.len(), self.shots);
        let pick = |map: &Tensor<4>| {
            let own = (0..episodes).map(|episode| {
                let at = episode * shots + shot;
                map.clone().slice_dim(0, at..at + 1)
            });
            Tensor::cat(own.collect(), 0)
        };
        let labels = self.support_labels.iter().skip(shot).step_by(shots).cloned().collect();
        (self.supports.iter().map(pick).collect(), labels)
    }
}

/// What training leaves as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// Everything is trained.
    Nothing,
    /// The encoder, its running statistics included.
    Encoder,
    /// Encoder and decoder.
    Extractor,
}

/// A query and the supports of one class go in, two scores per pixel come out.
///
/// A method encodes images one by one ([`encode`](Self::encode), [`encode_supports`](Self::encode_supports)), which is
/// most of the work and can be kept for other episodes, and answers from what it encoded ([`answer`](Self::answer)).
pub trait Episodic: Sync {
    /// What the command line calls it.
    fn name(&self) -> &'static str;

    /// Refuses impossible settings.
    fn validate(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Refuses an encoder that lacks what the method works on.
    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        let _ = encoder;
        Ok(())
    }

    /// What training leaves as it is.
    fn frozen(&self) -> Frozen {
        Frozen::Nothing
    }

    /// The maps of queries `[images, 3, height, width]`.
    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps;

    /// The maps of supports; by default those of queries. `labels` are at the images' size.
    fn encode_supports(&self, vision: &Vision<'_>, images: Tensor<4>, labels: &[RowMap]) -> Maps {
        let _ = labels;
        self.encode(vision, images)
    }

    /// Whether [`encode_supports`](Self::encode_supports) looks at nothing but the image, so that what was encoded of an
    /// image serves as a query and as a support of any class. A method that says so must not override it.
    fn supports_as_queries(&self) -> bool {
        false
    }

    /// Scores `[episodes, 2, height, width]` of the queries, background first, at the queries' size.
    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4>;

    /// The losses of one batch of episodes, for training. Everything random in it but dropout comes from `rng`.
    fn losses(
        &self,
        vision: &Vision<'_>,
        base: BaseClasses,
        episodes: &Episodes<'_>,
        rng: &mut dyn RngCore,
    ) -> Losses;
}

impl<'a> dyn Episodic + '_ {
    /// Episodes with all their images through the encoder.
    pub fn encode_all(&self, vision: &Vision<'_>, episodes: &Episodes<'a>) -> Encoded<'a> {
        encode_all(self, vision, episodes)
    }

    /// Scores of the queries: encodes everything, then answers.
    pub fn score(&self, vision: &Vision<'_>, episodes: &Episodes<'_>) -> Tensor<4> {
        self.answer(vision.network(), &encode_all(self, vision, episodes))
    }
}

/// Episodes with all their images through the encoder.
pub(super) fn encode_all<'a, M: Episodic + ?Sized>(
    method: &M,
    vision: &Vision<'_>,
    episodes: &Episodes<'a>,
) -> Encoded<'a> {
    let [.., height, width] = episodes.queries.dims();
    let supports = episodes.supports.clone().flatten(0, 1);
    Encoded {
        queries: method.encode(vision, episodes.queries.clone()),
        query_labels: episodes.query_labels,
        supports: method.encode_supports(vision, supports, episodes.support_labels),
        support_labels: episodes.support_labels,
        shots: episodes.shots(),
        size: [height, width],
    }
}
