//! What one training step learns from.

use std::ops::Range;

use burn::tensor::{Device, Tensor};
use protoseg_core::RowMap;

/// The batch of one step: labelled images for generalized methods, episodes for episodic ones.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // one per step
pub enum TrainingBatch<'a> {
    /// Labelled images.
    Images(Images<'a>),
    /// Queries with supports.
    Episodes(Episodes<'a>),
}

/// Labelled images; for a head on a frozen extractor, their features.
#[derive(Clone, Debug)]
pub struct Images<'a> {
    /// `[batch, 3, height, width]`, or `[batch, d, height, width]` of features.
    pub images: Tensor<4>,
    /// Rows of the classifier, one map per image, at the images' size.
    pub labels: &'a [RowMap],
}

/// Queries, each with the supports of one class. In all labels 1 is the class and 0 is everything else.
#[derive(Clone, Debug)]
pub struct Episodes<'a> {
    /// `[episodes, 3, height, width]`
    pub queries: Tensor<4>,
    /// One map per query, at its size; empty where nobody knows them.
    pub query_labels: &'a [RowMap],
    /// `[episodes, shots, 3, height, width]`
    pub supports: Tensor<5>,
    /// One map per support, shots of an episode together.
    pub support_labels: &'a [RowMap],
    /// The same maps with the rows of all base classes in place of 1 and 0, for methods that learn those too.
    pub classes: Option<ClassLabels<'a>>,
}

/// Labels of an episode's images with the rows of all base classes.
#[derive(Clone, Copy, Debug)]
pub struct ClassLabels<'a> {
    /// One map per query.
    pub queries: &'a [RowMap],
    /// One map per support.
    pub supports: &'a [RowMap],
}

impl TrainingBatch<'_> {
    /// Images or episodes.
    pub fn len(&self) -> usize {
        match self {
            Self::Images(images) => images.labels.len(),
            Self::Episodes(episodes) => episodes.len(),
        }
    }

    /// Whether there is nothing to learn from.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that the images are on.
    pub(crate) fn device(&self) -> Device {
        match self {
            Self::Images(images) => images.images.device(),
            Self::Episodes(episodes) => episodes.queries.device(),
        }
    }

    /// A part of the batch.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::Images(Images { images, labels }) => Self::Images(Images {
                images: images.clone().slice_dim(0, range.clone()),
                labels: &labels[range],
            }),
            Self::Episodes(episodes) => Self::Episodes(episodes.slice(range)),
        }
    }

    pub(crate) fn to_device(&self, device: &Device) -> Self {
        match self.clone() {
            Self::Images(batch) => {
                Self::Images(Images { images: batch.images.to_device(device), labels: batch.labels })
            }
            Self::Episodes(batch) => Self::Episodes(Episodes {
                queries: batch.queries.to_device(device),
                supports: batch.supports.to_device(device),
                ..batch
            }),
        }
    }
}

impl Episodes<'_> {
    /// Number of episodes.
    pub fn len(&self) -> usize {
        self.queries.dims()[0]
    }

    /// Whether there is no episode.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Supports per query.
    pub fn shots(&self) -> usize {
        self.supports.dims()[1]
    }

    /// Some of the episodes.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let shots = self.shots();
        let labels = if self.query_labels.is_empty() { &[] } else { &self.query_labels[range.clone()] };
        let own = range.start * shots..range.end * shots;
        Self {
            queries: self.queries.clone().slice_dim(0, range.clone()),
            query_labels: labels,
            supports: self.supports.clone().slice_dim(0, range.clone()),
            support_labels: &self.support_labels[own.clone()],
            classes: self.classes.map(|classes| ClassLabels {
                queries: &classes.queries[range.clone()],
                supports: &classes.supports[own],
            }),
        }
    }
}
