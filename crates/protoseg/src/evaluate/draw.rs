//! The supports of an evaluation: which images, and what registration keeps of each, once.

use std::collections::{HashMap, hash_map::Entry};

use protoseg_core::{Classes, Fold, Remap, SupportDraw, SupportList};
use protoseg_data::{Benchmark, SplitStats, resolve_supports};

use super::{EvaluateError, Evaluation, SupportSource};
use crate::{
    method::{Usage, support_sums::SupportSums},
    model::Model,
};

/// One choice of supports, with the most shots that are asked for; fewer shots are its beginning.
pub(super) struct Draw {
    /// The seed that it was drawn by; 0 for a list made by hand.
    pub seed: u64,
    /// By name.
    pub list: SupportList,
    /// Samples of each novel class.
    pub samples: Vec<Vec<usize>>,
}

impl Draw {
    /// Samples of all classes at this number of shots, each with the row of its class.
    pub fn shots(&self, shots: usize, n_base: u16) -> impl Iterator<Item = (usize, u16)> + '_ {
        let rows = n_base..;
        self.samples
            .iter()
            .zip(rows)
            .flat_map(move |(samples, row)| samples.iter().take(shots).map(move |&sample| (sample, row)))
    }
}

/// Every draw of a plan.
pub(super) fn draws(
    plan: &Evaluation,
    benchmark: &Benchmark,
    fold: &Fold,
    classes: &Classes,
    pool: &SplitStats,
) -> Result<Vec<Draw>, EvaluateError> {
    let dataset = benchmark.dataset.as_ref();
    let most = plan.shots.iter().copied().max().unwrap_or(1);
    match &plan.supports {
        SupportSource::Drawn { seeds, .. } => {
            let draw = |&seed: &u64| -> Result<Draw, EvaluateError> {
                let draw = SupportDraw { n_shots: most, seed, min_pixels: min_pixels(plan, benchmark) };
                let (list, samples) = pool.draw_supports(dataset, fold, draw)?;
                Ok(Draw { seed, list, samples })
            };
            seeds.iter().map(draw).collect()
        }
        SupportSource::Listed(list) => {
            let samples = resolve_supports(dataset, fold, list)?;
            let names = classes.names(protoseg_core::ClassRole::Novel);
            if let Some((class, own)) = names.zip(&samples).find(|(_, own)| own.len() < most) {
                let class = class.to_string();
                return Err(EvaluateError::TooFewSupports { class, got: own.len(), wanted: most });
            }
            Ok(vec![Draw { seed: list.seed.unwrap_or(0), list: list.clone(), samples }])
        }
    }
}

/// The fewest pixels of its class that a drawn support holds.
pub(super) fn min_pixels(plan: &Evaluation, benchmark: &Benchmark) -> u64 {
    match &plan.supports {
        SupportSource::Drawn { min_pixels, .. } => min_pixels.unwrap_or(benchmark.min_support_pixels),
        SupportSource::Listed(list) => list.min_pixels.unwrap_or(0),
    }
}

/// What registration keeps of every support, by sample and row.
pub(super) type Memory = HashMap<(usize, u16), SupportSums>;

/// Looks at every support of the draws once.
pub(super) fn remember(
    model: &Model,
    benchmark: &Benchmark,
    remap: &Remap,
    draws: &[Draw],
    usage: &Usage,
) -> Result<Memory, EvaluateError> {
    let mut memory = Memory::new();
    let n_base = model.classes().n_base() as u16;
    for (sample, row) in draws.iter().flat_map(|draw| draw.shots(usize::MAX, n_base)) {
        if let Entry::Vacant(entry) = memory.entry((sample, row)) {
            let (image, labels) = benchmark.load_rows(sample, remap)?;
            let features = model.sample_features(benchmark, sample, &image)?;
            entry.insert(model.remember(features, &labels, row, usage));
        }
    }
    Ok(memory)
}
