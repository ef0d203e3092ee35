//! An evaluation in parts: what several machines have counted, each on its own images, added up.

use protoseg_core::Confusion;
use protoseg_data::{Benchmark, scan};
use serde::{Deserialize, Serialize};

use super::{Cell, EvaluateError, Evaluated, Evaluation, Setting, Trust, draw, empty_cells};
use crate::model::Model;

/// What an evaluation has counted, to be stored and added up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Images that were evaluated.
    images: usize,
    /// Images that could have been, in all parts together.
    of: usize,
    /// In the order of [`Evaluated::cells`].
    cells: Vec<CellCounts>,
    /// Of each usage, before any class was taught.
    before: Vec<Confusion>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellCounts {
    counts: Confusion,
    confidence: Trust,
}

impl Evaluated {
    /// What was counted, without what the plan says.
    pub fn counts(&self) -> Counts {
        let cell =
            |cell: &Cell| CellCounts { counts: cell.counts.clone(), confidence: cell.confidence.clone() };
        Counts {
            images: self.images,
            of: self.of,
            cells: self.cells.iter().map(cell).collect(),
            before: self.before.clone(),
        }
    }
}

/// The evaluation that these parts come to. `plan` is theirs; no image is looked at.
pub fn join(
    model: &Model,
    benchmark: &Benchmark,
    plan: &Evaluation,
    parts: &[Counts],
) -> Result<Evaluated, EvaluateError> {
    let model = &plan.model(model)?;
    let setting = Setting::new(model, benchmark, plan)?;
    let pool = scan(benchmark.dataset.as_ref(), setting.support_split)?;
    let draws = draw::draws(plan, benchmark, setting.fold, &setting.classes, &pool)?;
    let mut cells = empty_cells(model, plan, &setting.classes, &draws);
    let n_before = if model.manifest().method.episodic().is_some() { 0 } else { plan.usages.len() };
    let mut before = vec![Confusion::new(setting.classes.n_base()); n_before];
    let (mut images, mut of) = (0, None);
    for part in parts {
        let counts = part.cells.iter().map(|cell| &cell.counts);
        let is_alike = part.cells.len() == cells.len()
            && part.before.len() == before.len()
            && counts.zip(&cells).all(|(counts, cell)| counts.has_shape_of(&cell.counts))
            && part.before.iter().zip(&before).all(|(counts, own)| counts.has_shape_of(own))
            && of.is_none_or(|of| of == part.of);
        if !is_alike {
            return Err(EvaluateError::OtherParts);
        }
        of = Some(part.of);
        images += part.images;
        for (cell, own) in cells.iter_mut().zip(&part.cells) {
            cell.counts.merge(&own.counts);
            cell.confidence.merge(&own.confidence);
        }
        before.iter_mut().zip(&part.before).for_each(|(counts, own)| counts.merge(own));
    }
    let images = [images, of.unwrap_or(images)];
    Ok(setting.finish(model, benchmark, plan, draws, (cells, before), images))
}
