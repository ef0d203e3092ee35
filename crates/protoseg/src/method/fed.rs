//! Systems for episodes in the generalized setting (the CAPL paper's first table): the vectors of all classes are fed
//! for every query.
//!
//! A base class is the mean of its vectors over all training images that hold it, a novel class that over its supports.
//! Each class gives one map of the query. Systems that answer "same as this vector, or not" give the probability of the
//! class; how their maps are merged is not published, so ours is: the largest wins, and the background where none exceeds
//! one half. Prototypes that score by cosine compare with the background's own.

use burn::tensor::{Tensor, activation::softmax};
use protoseg_core::RowMap;

use super::{
    Maps, Method, canet::Canet, cosine::scaled_scores, mask::means_at_mask_size, mining, panet,
    pfenet::Pfenet, scl::Scl,
};
use crate::network::Network;

/// Classes that go through a decoder at once: more need more memory and are no faster.
const AT_ONCE: usize = 8;

/// A system that knows a class by vectors, which can be averaged over images.
pub trait Fed: Sync {
    /// What stands for the class in each image, `[images, v]`. Labels are 1 where the class is, 0 in the rest.
    fn class_vectors(&self, network: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2>;

    /// One map of a query for each class of `vectors` (`[classes, v]`): `[1, classes, h, w]`.
    fn class_maps(&self, network: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4>;

    /// The background's map, `[1, 1, h, w]`; `overall` is the mean of the vectors of all images, `[1, v]`.
    fn background_map(&self, network: &Network, query: &Maps, overall: &Tensor<2>) -> Tensor<4>;
}

impl Method {
    /// How the method takes part in the generalized setting if it is one for episodes, or why it cannot.
    pub fn fed(&self) -> Result<&dyn Fed, &'static str> {
        match self {
            Self::Panet(method) => Ok(method),
            Self::Mining(method) => Ok(method),
            Self::Pfenet(method) => Ok(method),
            Self::Canet(method) => Ok(method),
            Self::Scl(method) => Ok(method),
            Self::Capl(_) | Self::Prototypes(_) => Err("it is a method of the generalized setting itself"),
            Self::CaplFewShot(_) => {
                Err("its prototypes are refined for one query and class; the generalized form is CAPL itself")
            }
            Self::Hsnet(_) => Err("it compares images with images and has no prototype to feed"),
            Self::Asgnet(_) => {
                Err("its clusters are found anew in each support and have no mean over images")
            }
            Self::Repri(_) => Err("it fits a prototype to the supports and the query of one episode"),
            Self::Cwt(_) => Err("it fits a classifier of one class to the supports of one episode"),
        }
    }
}

impl Fed for panet::Panet {
    fn class_vectors(&self, _: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        flat(means_at_mask_size(maps[0].clone(), labels, crate::nn::resize_centred_weights))
    }

    fn class_maps(&self, _: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        foreground_cosines(query, vectors, panet::ALPHA)
    }

    fn background_map(&self, _: &Network, query: &Maps, overall: &Tensor<2>) -> Tensor<4> {
        background_cosines(query, overall, panet::ALPHA)
    }
}

impl Fed for mining::Mining {
    fn class_vectors(&self, _: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        flat(means_at_mask_size(maps[0].clone(), labels, crate::nn::upsample_weights))
    }

    fn class_maps(&self, _: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        foreground_cosines(query, vectors, super::cosine::ALPHA)
    }

    fn background_map(&self, _: &Network, query: &Maps, overall: &Tensor<2>) -> Tensor<4> {
        background_cosines(query, overall, super::cosine::ALPHA)
    }
}

impl Fed for Pfenet {
    fn class_vectors(&self, network: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        Pfenet::class_vectors(self, network, maps, labels)
    }

    fn class_maps(&self, network: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        probabilities(vectors, |vectors| self.class_scores(network, query, vectors))
    }

    fn background_map(&self, _: &Network, query: &Maps, _: &Tensor<2>) -> Tensor<4> {
        one_half(query)
    }
}

impl Fed for Canet {
    fn class_vectors(&self, _: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        Canet::class_vectors(self, maps, labels)
    }

    fn class_maps(&self, network: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        probabilities(vectors, |vectors| self.class_scores(network, query, vectors))
    }

    fn background_map(&self, _: &Network, query: &Maps, _: &Tensor<2>) -> Tensor<4> {
        one_half(query)
    }
}

impl Fed for Scl {
    fn class_vectors(&self, network: &Network, maps: &Maps, labels: &[RowMap]) -> Tensor<2> {
        Scl::class_vectors(self, network, maps, labels)
    }

    fn class_maps(&self, network: &Network, query: &Maps, vectors: &Tensor<2>) -> Tensor<4> {
        probabilities(vectors, |vectors| self.class_scores(network, query, vectors))
    }

    fn background_map(&self, _: &Network, query: &Maps, _: &Tensor<2>) -> Tensor<4> {
        one_half(query)
    }
}

/// Background and foreground `[n, 2, d]` one after the other: `[n, 2d]`.
fn flat(means: Tensor<3>) -> Tensor<2> {
    let [images, two, dim] = means.dims();
    means.reshape([images, two * dim])
}

fn foreground_cosines(query: &Maps, vectors: &Tensor<2>, alpha: f64) -> Tensor<4> {
    let dim = vectors.dims()[1] / 2;
    let foreground = vectors.clone().slice_dim(1, dim..2 * dim);
    scaled_scores(query[0].clone(), foreground.unsqueeze(), alpha)
}

fn background_cosines(query: &Maps, overall: &Tensor<2>, alpha: f64) -> Tensor<4> {
    let dim = overall.dims()[1] / 2;
    scaled_scores(query[0].clone(), overall.clone().slice_dim(1, 0..dim).unsqueeze(), alpha)
}

/// The probability of each class, from two scores per pixel and class. A few classes go through the decoder at once.
fn probabilities(vectors: &Tensor<2>, scores: impl Fn(&Tensor<2>) -> Tensor<4>) -> Tensor<4> {
    let [classes, _] = vectors.dims();
    let maps = (0..classes).step_by(AT_ONCE).map(|first| {
        let some = vectors.clone().slice_dim(0, first..classes.min(first + AT_ONCE));
        softmax(scores(&some), 1).slice_dim(1, 1..2)
    });
    Tensor::cat(maps.collect(), 0).swap_dims(0, 1)
}

fn one_half(query: &Maps) -> Tensor<4> {
    let [_, _, height, width] = query[0].dims();
    Tensor::full([1, 1, height, width], 0.5, &query[0].device())
}
