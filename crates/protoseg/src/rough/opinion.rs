//! What the model itself would say: taught with the stroke alone, how likely is each position of its grid the thing?

use burn::tensor::Tensor;
use protoseg_core::{IGNORE, RowMap, SUPPORT_ROW};

use super::Hint;
use crate::{class_pack::Shot, model::Model, segmenter::Segmenter};

/// The likelihood of the thing at each position of the features, from 0 to 1, row by row; none if the model cannot be
/// taught with these hints.
pub fn opinion(
    model: &Model,
    features: Tensor<4>,
    hints: &[Hint],
    (width, height): (usize, usize),
) -> Option<Vec<f64>> {
    let usage = model.usage().ok()?;
    let rest = if model.classes().has_background() { 0 } else { IGNORE };
    let label = |hint: &Hint| match hint {
        Hint::Thing | Hint::Painted => SUPPORT_ROW,
        Hint::Rest => rest,
        Hint::Unknown => IGNORE,
    };
    let labels = RowMap::new(width, height, hints.iter().map(label).collect());
    let own = model.classes().n_base() as u16;
    let sums = model.remember_strokes(features.clone(), &labels, SUPPORT_ROW, &usage);
    let sums = Shot::new("", 0, sums)?.sums(own);
    let classifier = model.classifier(&["thing under a stroke"], &[sums], &usage).ok()?;
    let grid = Segmenter::with_classifier(model, classifier, usage).grid(features);
    let likelihood = |scores: &[f32]| {
        let others = scores.iter().enumerate().filter(|(row, _)| *row != usize::from(own));
        let best = others.map(|(_, score)| f64::from(*score)).fold(f64::NEG_INFINITY, f64::max);
        1.0 / (1.0 + (best - f64::from(scores[usize::from(own)])).exp())
    };
    Some(grid.positions().map(likelihood).collect())
}
