//! Counts the labels of a split once, and applies the rules to the counts.

use protoseg_core::{
    BaseUse, ClassId, ClassTable, Fold, IdMap, ImageStats, NovelPixels, SupportDraw, SupportList,
    draw_supports,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{DataError, Dataset, Sample};

/// How many pixels of each class every image of a split holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitStats {
    pub split: String,
    /// Indices into [`Dataset::samples`].
    pub indices: Vec<usize>,
    /// In the order of `indices`.
    pub stats: Vec<ImageStats>,
}

/// Counts the labels of a split in parallel. Fails with the first sample (in the split's order) that cannot be read
/// or that holds an unknown id.
pub fn scan(dataset: &dyn Dataset, split: &str) -> Result<SplitStats, DataError> {
    let indices = dataset.split(split)?.samples.clone();
    let results: Vec<Result<ImageStats, DataError>> = indices
        .par_iter()
        .map(|&index| {
            let labels = dataset.labels(index)?;
            let stats = ImageStats::of(&labels.map);
            let unknown = unknown_ids(&stats, dataset.classes()).next();
            match unknown {
                Some(id) => Err(unknown_id(&dataset.samples()[index], dataset.classes(), &labels.map, id)),
                None => Ok(stats),
            }
        })
        .collect();
    let stats = results.into_iter().collect::<Result<_, _>>()?;
    Ok(SplitStats { split: split.to_string(), indices, stats })
}

impl SplitStats {
    /// The samples that base training keeps.
    pub fn for_base_training(&self, table: &ClassTable, fold: &Fold, novel: NovelPixels) -> Vec<usize> {
        self.filter(|stats| stats.base_use(table, fold, novel) == BaseUse::Keep)
    }

    /// The samples that evaluation keeps: those with foreground.
    pub fn for_evaluation(&self, table: &ClassTable) -> Vec<usize> {
        self.filter(|stats| stats.has_foreground(table))
    }

    /// Draws supports. Returns the list to save, and the samples of each novel class in ascending order of id.
    pub fn draw_supports(
        &self,
        dataset: &dyn Dataset,
        fold: &Fold,
        draw: SupportDraw,
    ) -> Result<(SupportList, Vec<Vec<usize>>), DataError> {
        let table = dataset.classes();
        let drawn = draw_supports(table, fold, &self.stats, draw)?;
        let names: Vec<&str> =
            self.indices.iter().map(|&index| dataset.samples()[index].name.as_str()).collect();
        let list = SupportList::named(dataset.name(), table, fold, draw, &drawn, &names);
        let samples = drawn.iter().map(|class| class.iter().map(|&place| self.indices[place]).collect());
        Ok((list, samples.collect()))
    }

    fn filter(&self, keep: impl Fn(&ImageStats) -> bool) -> Vec<usize> {
        let pairs = self.indices.iter().zip(&self.stats);
        pairs.filter(|(_, stats)| keep(stats)).map(|(&index, _)| index).collect()
    }
}

/// Ids in an image that do not belong to any class.
pub(crate) fn unknown_ids(stats: &ImageStats, table: &ClassTable) -> impl Iterator<Item = ClassId> {
    stats.present().filter(|&id| !table.contains(id))
}

/// The error for an unknown id, with the first pixel that has it.
pub(crate) fn unknown_id(sample: &Sample, table: &ClassTable, map: &IdMap, id: ClassId) -> DataError {
    let at = map.data.iter().position(|&label| label == id.0).unwrap_or(0);
    DataError::UnknownId {
        path: sample.label.clone().unwrap_or_else(|| sample.image.clone()),
        id,
        x: at % map.width.max(1),
        y: at / map.width.max(1),
        known: known_ids(table),
    }
}

/// The ids of a table as `0 to 20`, or one by one if there are gaps.
fn known_ids(table: &ClassTable) -> String {
    let ids: Vec<u16> = table.classes().iter().map(|class| class.id.0).collect();
    match (ids.first(), ids.last()) {
        (Some(first), Some(last)) if usize::from(last - first) + 1 == ids.len() => {
            format!("{first} to {last}")
        }
        _ => ids.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    }
}
