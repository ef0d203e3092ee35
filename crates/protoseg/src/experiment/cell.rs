//! Cells: the scores of one model, used in one way, over all shots and draws. One small file each.

use std::{collections::BTreeMap, fs, path::Path};

use protoseg_core::Scores;
use protoseg_data::write_atomic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ExperimentError;
use crate::{
    episodes::{EpisodeResults, EpisodeRow},
    evaluate::{Cell as EvaluatedCell, Evaluated},
};

/// What a file of a cell says it is.
const SCHEMA: &str = "protoseg.experiment-cell/1";

/// The scores of one model, used in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    schema: String,
    /// The short name of everything that the scores depend on.
    pub id: String,
    /// The short name of the model's plan.
    pub model: String,
    /// Everything that the scores depend on.
    pub plan: Value,
    /// The model's own fingerprint.
    pub fingerprint: String,
    /// What the scores are of: images, or episodes per run.
    pub tested: usize,
    /// How many there would be without a limit.
    pub of: usize,
    /// The classes whose IoU are listed, in their order.
    pub classes: Vec<String>,
    /// How the model was used, in words.
    pub usage: String,
    /// One per number of shots and draw.
    pub scores: Vec<Score>,
    /// How long it took. It is no part of any result.
    pub seconds: Seconds,
}

/// Scores of one draw of supports, or of one run of episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Supports per class.
    pub shots: usize,
    /// The seed of the draw.
    pub seed: u64,
    /// In percent, by name.
    pub values: BTreeMap<String, f64>,
    /// IoU of every class; none for a class that never occurs.
    pub iou: Vec<Option<f64>>,
}

/// How long a cell took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seconds {
    /// To make the model; cells of one model share it.
    pub making: f64,
    /// To evaluate it; cells that were evaluated together share it.
    pub testing: f64,
}

impl Cell {
    /// An empty cell of a plan.
    pub(super) fn new(plan: &super::CellPlan, model: &str, fingerprint: &str) -> Self {
        Self {
            schema: SCHEMA.to_string(),
            id: plan.id.clone(),
            model: model.to_string(),
            plan: plan.plan.clone(),
            fingerprint: fingerprint.to_string(),
            tested: 0,
            of: 0,
            classes: Vec::new(),
            usage: String::new(),
            scores: Vec::new(),
            seconds: Seconds::default(),
        }
    }

    /// With the scores of a usage in the generalized setting.
    pub(super) fn with_evaluated(mut self, evaluated: &Evaluated, cells: &[EvaluatedCell]) -> Self {
        (self.tested, self.of) = (evaluated.images, evaluated.of);
        self.classes = evaluated.classes.rows().iter().map(|class| class.name.clone()).collect();
        if let Some(first) = cells.first() {
            self.usage = match first.preset.as_str() {
                "-" => first.variant.to_string(),
                preset => format!("{} ({preset})", first.variant),
            };
        }
        self.scores = cells.iter().map(Score::of_draw).collect();
        self
    }

    /// With the scores of episodes.
    pub(super) fn with_episodes(mut self, results: &EpisodeResults) -> Self {
        (self.tested, self.of) = (results.episodes, results.style.n_episodes(&results.data));
        self.usage.clone_from(&results.method);
        self.classes.clone_from(&results.classes);
        let of_row = |row: &EpisodeRow| -> Vec<Score> {
            let score = |(seed, scores): (Option<u64>, &protoseg_core::EpisodeScores)| Score {
                shots: row.shots,
                seed: seed.unwrap_or_default(),
                values: values([("class_miou", scores.class_miou), ("fb_iou", scores.fb_iou)]),
                iou: scores.iou.clone(),
            };
            row.runs().map(score).collect()
        };
        self.scores = results.rows.iter().flat_map(of_row).collect();
        self
    }

    /// Reads a cell; nothing if the file is not there. A file that is not what it should be is an error.
    pub fn read(path: &Path) -> Result<Option<Self>, ExperimentError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ExperimentError::Read { path: path.to_path_buf(), source }),
        };
        let wrong = |reason: String| ExperimentError::Cell { path: path.to_path_buf(), reason };
        let cell: Self = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        match cell.schema == SCHEMA && cell.id == stem {
            true => Ok(Some(cell)),
            false => Err(wrong(format!("it says `{}` and `{}`", cell.schema, cell.id))),
        }
    }

    /// Writes the cell: whole or not at all.
    pub(super) fn write(&self, path: &Path) -> Result<(), ExperimentError> {
        let text = serde_json::to_string_pretty(self).expect("a cell is plain data");
        Ok(write_atomic(path, text.as_bytes())?)
    }
}

impl Score {
    fn of_draw(cell: &EvaluatedCell) -> Self {
        let scores: &Scores = &cell.scores;
        let mut values = values([
            ("base", scores.base),
            ("base_without_background", scores.base_without_background),
            ("novel", scores.novel),
            ("total", scores.total),
            ("mean", scores.mean),
            ("harmonic_mean", scores.harmonic_mean),
            ("pixel_accuracy", scores.pixel_accuracy),
        ]);
        values.extend(cell.base_before.map(|base| ("before".to_string(), base)));
        Self { shots: cell.shots, seed: cell.seed, values, iou: scores.iou.clone() }
    }
}

fn values<const N: usize>(named: [(&str, f64); N]) -> BTreeMap<String, f64> {
    named.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
