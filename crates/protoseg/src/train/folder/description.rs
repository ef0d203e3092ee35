//! `run.json`: what a result of a run has to be reported with.

use protoseg_core::NovelPixels;
use serde::Serialize;

use crate::{model::Manifest, train::Run};

/// The file's content.
#[derive(Serialize)]
pub struct Description<'a> {
    schema: &'static str,
    version: &'static str,
    revision: &'a str,
    threads: usize,
    seed: u64,
    model: &'a Manifest,
    protocol: Protocol<'a>,
}

#[derive(Serialize)]
struct Protocol<'a> {
    data: &'a str,
    fold: usize,
    novel_pixels: Option<NovelPixels>,
    /// What the best model is chosen by.
    validation: &'a str,
    /// Whether that is the split that results are reported on.
    chosen_by_test_data: bool,
}

impl<'a> Description<'a> {
    /// Of a run by the program of this revision.
    pub fn new(run: &'a Run, revision: &'a str) -> Self {
        let (plan, manifest) = (run.plan(), run.manifest());
        Self {
            schema: "protoseg.run/1",
            version: env!("CARGO_PKG_VERSION"),
            revision,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            seed: plan.seed,
            model: manifest,
            protocol: Protocol {
                data: &plan.data.source,
                fold: plan.data.fold,
                novel_pixels: manifest.training.novel_pixels,
                validation: &plan.validation.on,
                chosen_by_test_data: run.is_chosen_by_test_data(),
            },
        }
    }
}
