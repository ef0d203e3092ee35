//! Comparing every tensor of a golden file, and telling which ones were forgotten.

use std::{cell::RefCell, collections::BTreeSet};

use burn::tensor::Tensor;
use protoseg::{
    core::{IGNORE, RowMap},
    method::{Encoded, Episodes},
    tensor::activation::log_softmax,
};
use protoseg_testing::assert_close;

use super::GoldenCase;
use crate::fixture::values;

/// Logits and the maps before them.
pub const LOGITS: f32 = 2e-4;
/// Functions by themselves.
pub const UNIT: f32 = 1e-5;
/// Losses.
pub const LOSS: f32 = 1e-4;

/// What every system's file holds and nobody computes.
const INPUTS: [&str; 4] = ["query_image", "query_mask", "support_image", "support_mask"];

/// A golden file of which some tensors have been compared.
pub struct Comparison<'a> {
    pub case: &'a GoldenCase,
    compared: RefCell<BTreeSet<String>>,
}

impl<'a> Comparison<'a> {
    /// `inputs` are those besides images and masks.
    pub fn new(case: &'a GoldenCase, inputs: &[&str]) -> Self {
        let known = INPUTS.iter().chain(inputs).map(|name| name.to_string());
        Self { case, compared: RefCell::new(known.collect()) }
    }

    pub fn has(&self, name: &str) -> bool {
        self.case.golden.names().any(|own| own == name)
    }

    /// Compares a tensor, if the file has it.
    #[track_caller]
    pub fn check<const D: usize>(&self, name: &str, tolerance: f32, got: impl FnOnce() -> Tensor<D>) {
        if self.has(name) {
            self.case.assert(name, got(), tolerance);
            self.compared.borrow_mut().insert(name.to_string());
        }
    }

    /// Compares values with a part of a tensor: that at `index` of its first axes.
    #[track_caller]
    pub fn check_part(&self, name: &str, index: &[usize], tolerance: f32, got: &[f32]) {
        if self.has(name) {
            let (shape, expected) = (self.case.golden.shape(name), self.case.golden.values(name));
            let start = shape.iter().zip(index).fold(0, |start, (side, at)| start * side + at);
            let size: usize = shape[index.len()..].iter().product();
            let what = format!("{}: {name}{index:?}", self.case.name);
            assert_close(&what, got, &expected[start * size..][..size], tolerance);
            self.compared.borrow_mut().insert(name.to_string());
        }
    }

    /// Compares mean and deviation over positions of a map `[n, c, h, w]`.
    #[track_caller]
    pub fn check_stats(&self, name: &str, map: &Tensor<4>) {
        let [n, channels, height, width] = map.dims();
        let map = map.clone().reshape([n, channels, height * width]);
        let mean = map.clone().mean_dim(2);
        let std = (map - mean.clone()).square().mean_dim(2).sqrt();
        self.check(&format!("{name}_mean"), LOGITS, || mean.reshape([n, channels]));
        self.check(&format!("{name}_std"), LOGITS, || std.reshape([n, channels]));
    }

    /// Fails if the file has a tensor that nothing was compared with.
    pub fn finish(self) {
        let compared = self.compared.into_inner();
        let mut forgotten: Vec<&str> =
            self.case.golden.names().filter(|name| !compared.contains(*name)).collect();
        forgotten.sort_unstable();
        assert!(forgotten.is_empty(), "{}: nobody computed {forgotten:?}", self.case.name);
    }
}

impl GoldenCase {
    /// All episodes with one of their shots as the only one. `labels` are its [`support_labels_of`].
    ///
    /// [`support_labels_of`]: Self::support_labels_of
    pub fn one_shot<'a>(&'a self, shot: usize, labels: &'a [RowMap]) -> Episodes<'a> {
        Episodes {
            queries: self.tensor("query_image"),
            query_labels: self.query_labels(),
            supports: self.supports_of(shot),
            support_labels: labels,
            classes: None,
        }
    }

    pub fn encode<'a>(&self, episodes: &Episodes<'a>) -> Encoded<'a> {
        self.episodic().encode_all(&self.vision(), episodes)
    }
}

/// Mean cross-entropy of scores `[n, 2, height, width]`, unknown pixels left out.
pub fn cross_entropy(scores: Tensor<4>, labels: &[RowMap]) -> f32 {
    let [_, _, height, width] = scores.dims();
    let logs = values(log_softmax(scores, 1));
    let (mut sum, mut count) = (0f64, 0f64);
    for (logs, label) in logs.chunks_exact(2 * height * width).zip(labels) {
        for (at, &label) in label.data.iter().enumerate().filter(|(_, label)| **label != IGNORE) {
            sum -= f64::from(logs[usize::from(label) * height * width + at]);
            count += 1.0;
        }
    }
    (sum / count) as f32
}
