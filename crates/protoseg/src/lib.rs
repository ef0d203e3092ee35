//! Teach a semantic-segmentation model a new class from 1 to 10 example masks, in seconds, without retraining and
//! without forgetting what it knew.
//!
//! An extractor turns an image into features. A class is a prototype: a vector that the features of its pixels are
//! compared with. Base classes learn theirs from many labelled images; a new class gets its own from a few, without a
//! gradient step. The method is generalized few-shot segmentation with context-aware prototype learning (CAPL, CVPR
//! 2022).
//!
//! ```no_run
//! use protoseg::{ClassPack, Model, Segmenter, Support, read_image, write_image};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::builtin();
//! let mut pack = ClassPack::new(&model);
//! let report = model.register(&mut pack, "duck", [Support::read("pond.jpg", "pond_mask.png")?])?;
//! println!("{report}");
//!
//! let segmenter = Segmenter::builder(&model).pack(&pack).build()?;
//! let photo = read_image("lake.jpg")?;
//! let prediction = segmenter.predict(&photo);
//! for area in prediction.areas() {
//!     println!("{}: {:.1} %", area.class, 100.0 * area.share);
//! }
//! write_image("lake_overlay.png", &prediction.overlay(&photo))?;
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | use a model | [`Model`], [`ClassPack`], [`Support`], [`Segmenter`], [`Prediction`] |
//! | score a model | [`evaluate`], [`episodes`] |
//! | train one | [`train`] |
//! | rerun a table | [`experiment`] |
//! | take a model to other runtimes | [`export`] |
//! | look into the method | [`method::capl`], equation by equation |
//! | look into the network | [`encoder`], [`decoder`], [`network`] |
//! | read other projects' weights | [`weights`] |
//! | read data sets | [`data`] |
//!
//! Data flows one way: image -> [`encoder`] -> [`decoder`] -> features; supports -> [`method`] -> classifier; features
//! and classifier -> scores -> [`Prediction`].

#![warn(missing_docs)]

mod bridge;
pub mod class_pack;
pub mod config;
pub mod decoder;
pub mod device;
pub mod encoder;
mod episode;
pub mod episodes;
pub mod evaluate;
pub mod experiment;
pub mod export;
pub mod from_encoder;
mod graph;
pub mod inference;
pub mod method;
pub mod model;
pub mod network;
pub mod nn;
mod once;
pub mod picture;
pub mod prediction;
pub mod recipes;
pub mod register;
pub mod report;
pub mod rough;
pub mod segmenter;
mod tables;
pub mod train;
pub mod weights;

// Test data that the cli's tests share names this crate as they do.
#[cfg(test)]
extern crate self as protoseg;

pub use burn::tensor;
pub use protoseg_core as core;
pub use protoseg_data as data;

pub use class_pack::ClassPack;
pub use inference::Precision;
pub use model::Model;
pub use prediction::Prediction;
pub use protoseg_core::Image;
pub use protoseg_data::{
    Support,
    picture::{read_image, write_image},
};
pub use segmenter::Segmenter;
