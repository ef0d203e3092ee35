//! Generalized few-shot semantic segmentation with context-aware prototype learning (CAPL, CVPR 2022).
//!
//! An extractor turns an image into features; a class is a prototype, a vector that the features of its pixels are
//! compared with. Base classes learn theirs from many labelled images. A novel class gets its own from 1 to 10, without
//! a gradient step, and without changing what the model knew.
//!
//! Data flows one way: image -> [`encoder`] -> [`decoder`] -> features; supports -> [`method`] -> classifier;
//! features and classifier -> scores. [`model::Model`] is all of it with names and preprocessing, and one file on disk.

pub mod bench;
mod bridge;
pub mod class_pack;
pub mod config;
pub mod decoder;
pub mod device;
pub mod encoder;
pub mod evaluate;
mod graph;
pub mod inference;
pub mod memory;
pub mod method;
pub mod model;
pub mod network;
pub mod nn;
pub mod picture;
pub mod prediction;
pub mod register;
pub mod report;
pub mod segmenter;
pub mod train;
pub mod weights;

// Test data that the cli's tests share names this crate as they do.
#[cfg(test)]
extern crate self as protoseg;

pub use protoseg_core as core;
