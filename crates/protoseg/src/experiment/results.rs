//! The tables of an experiment, made of its cells. Nothing in them depends on when, where or in how many parts it ran.

use std::collections::{BTreeMap, HashMap};

use protoseg_core::{Spread, count};
use serde::Serialize;

use super::{Cell, Experiment, Options, RowDeclaration, Schedule, Score};
use crate::train::Task;

const SCHEMA: &str = "protoseg.experiment-results/1";
/// The data set whose published numbers are shown where there are none for this one.
const PAPER_DATA: &str = "pascal-5i";

/// Everything that is known of an experiment. Serialise it to get `results.json`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ExperimentResults {
    schema: &'static str,
    /// The experiment's name.
    pub name: String,
    /// What the table is called.
    pub title: String,
    /// The data set's name.
    pub data: String,
    /// What was tested: protocol, or style of episodes.
    pub test: String,
    /// The setting.
    pub task: Task,
    /// Folds that the mean is over.
    pub folds: Vec<usize>,
    /// Numbers of supports per class.
    pub shots: Vec<usize>,
    /// Seeds of the draws of supports.
    pub support_seeds: Vec<u64>,
    /// The command that makes the tables.
    pub command: String,
    /// One per row of the experiment.
    pub rows: Vec<RowResult>,
    /// What makes the numbers say less than they seem to.
    pub notes: Vec<String>,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RowResult {
    /// What the table calls it.
    pub name: String,
    /// The model's name in the experiment.
    pub model: String,
    /// How the model was used, in words; none before the first cell is there.
    pub usage: Option<String>,
    /// Published numbers, which are not ours.
    pub paper: Option<Paper>,
    /// Each fold of which there is anything.
    pub folds: Vec<FoldResult>,
    /// Means over the folds, by number of shots; empty until all folds are complete.
    pub mean: Vec<ShotResult>,
    /// Minutes of making one of its models, on the machine that did.
    #[serde(skip)]
    pub minutes: Option<f64>,
}

/// Published numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Paper {
    /// The data set that they are of.
    pub data: String,
    /// By number of shots: base, novel and total mIoU, or class mIoU.
    pub shots: BTreeMap<String, Vec<f64>>,
}

/// A row in one fold.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FoldResult {
    /// The fold.
    pub fold: usize,
    /// Seeds of the models that were trained for it.
    pub training_seeds: Vec<u64>,
    /// The names of the cells.
    pub cells: Vec<String>,
    /// One per number of shots.
    pub shots: Vec<ShotResult>,
    /// Scores of every draw, as they are, each with the training seed of its model.
    #[serde(skip)]
    pub(super) scores: Vec<(Option<u64>, Score)>,
}

/// Scores at a number of shots, in percent, by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShotResult {
    /// Supports per class.
    pub shots: usize,
    /// Scores by name.
    pub scores: BTreeMap<String, Number>,
}

/// A mean with its population standard deviations. What is not varied was averaged first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Number {
    /// The mean.
    pub mean: f64,
    /// Over the draws of supports, or the runs of episodes.
    pub over_draws: Option<f64>,
    /// Over the training seeds.
    pub over_training: Option<f64>,
    /// Over the folds.
    pub over_folds: Option<f64>,
}

impl ExperimentResults {
    /// What the cells in the folder come to.
    pub fn collect(experiment: &Experiment, schedule: &Schedule, options: &Options) -> Self {
        let declaration = &experiment.declaration;
        let names = schedule.rows.iter().flatten().map(|(.., id)| id.clone());
        // Rows may share cells; each is read once.
        let cells: HashMap<String, Cell> =
            names.filter_map(|id| options.folder.read_cell(&id).map(|cell| (id, cell))).collect();
        let rows: Vec<RowResult> = declaration
            .rows
            .iter()
            .zip(&schedule.rows)
            .map(|(row, planned)| RowResult::new(row, &schedule.data, planned, &cells))
            .collect();
        let test = match declaration.task {
            Task::GfsSeg => format!("protocol {}", declaration.protocol),
            Task::FsSeg => format!("episodes in the style `{}`", declaration.episodes.style),
        };
        Self {
            schema: SCHEMA,
            name: experiment.name.clone(),
            title: declaration.title.clone(),
            data: schedule.data.clone(),
            test,
            task: declaration.task,
            folds: schedule.folds.clone(),
            shots: declaration.shots.clone(),
            support_seeds: match declaration.task {
                Task::GfsSeg => declaration.support_seeds.clone(),
                Task::FsSeg => Vec::new(),
            },
            command: options.command.clone(),
            rows,
            notes: notes(schedule, &cells),
        }
    }

    /// The scores that a cell of the table shows, in their order. The deviation is that of the last.
    pub fn shown(&self) -> &'static [&'static str] {
        match self.task {
            Task::GfsSeg => &["base", "novel", "total"],
            Task::FsSeg => &["class_miou"],
        }
    }
}

impl RowResult {
    fn new(
        row: &RowDeclaration,
        data: &str,
        planned: &[(usize, Option<u64>, String)],
        cells: &HashMap<String, Cell>,
    ) -> Self {
        let mut folds: Vec<usize> = planned.iter().map(|(fold, ..)| *fold).collect();
        folds.dedup();
        let own: Vec<&Cell> = planned.iter().filter_map(|(.., id)| cells.get(id)).collect();
        let of_fold = |fold: usize| -> Vec<(Option<u64>, &Cell)> {
            let of = planned.iter().filter(|(own, ..)| *own == fold);
            of.filter_map(|(_, seed, id)| Some((*seed, cells.get(id)?))).collect()
        };
        let all: Vec<Vec<(Option<u64>, &Cell)>> = folds.iter().map(|&fold| of_fold(fold)).collect();
        let is_complete = own.len() == planned.len() && !own.is_empty();
        let making: Vec<f64> = own.iter().map(|cell| cell.seconds.making).collect();
        Self {
            name: row.name.clone(),
            model: row.model.clone(),
            usage: own.first().map(|cell| cell.usage.clone()),
            paper: paper(row, data),
            mean: if is_complete { shot_results(&all) } else { Vec::new() },
            folds: folds
                .into_iter()
                .zip(all)
                .filter(|(_, own)| !own.is_empty())
                .map(|(fold, own)| FoldResult::new(fold, own))
                .collect(),
            minutes: (!making.is_empty()).then(|| Spread::of(making).mean / 60.0),
        }
    }
}

impl FoldResult {
    fn new(fold: usize, own: Vec<(Option<u64>, &Cell)>) -> Self {
        let scores =
            own.iter().flat_map(|(seed, cell)| cell.scores.iter().map(|score| (*seed, score.clone())));
        Self {
            fold,
            training_seeds: own.iter().filter_map(|(seed, _)| *seed).collect(),
            cells: own.iter().map(|(_, cell)| cell.id.clone()).collect(),
            scores: scores.collect(),
            shots: shot_results(&[own]),
        }
    }
}

/// Means over cells by fold and training seed.
fn shot_results(folds: &[Vec<(Option<u64>, &Cell)>]) -> Vec<ShotResult> {
    let Some((_, first)) = folds.iter().flatten().next() else { return Vec::new() };
    let mut shots: Vec<usize> = first.scores.iter().map(|score| score.shots).collect();
    shots.dedup();
    let at = |shots: usize, name: &String| -> Option<Number> {
        let of_cell = |(_, cell): &(Option<u64>, &Cell)| -> Option<Vec<f64>> {
            let own = cell.scores.iter().filter(|score| score.shots == shots);
            own.map(|score| score.values.get(name).copied()).collect()
        };
        let of_fold = |cells: &Vec<(Option<u64>, &Cell)>| cells.iter().map(of_cell).collect();
        let cube: Option<Vec<Vec<Vec<f64>>>> = folds.iter().map(of_fold).collect();
        cube.map(|cube| Number::of(&cube))
    };
    let names = || first.scores.iter().flat_map(|score| score.values.keys());
    let scores = |shots: usize| names().filter_map(|name| Some((name.clone(), at(shots, name)?))).collect();
    shots.into_iter().map(|shots| ShotResult { shots, scores: scores(shots) }).collect()
}

impl Number {
    /// Of values by fold, training seed and draw. Every fold counts the same.
    fn of(cube: &[Vec<Vec<f64>>]) -> Self {
        let mean = |values: &[f64]| Spread::of(values.iter().copied()).mean;
        let fold_means: Vec<f64> =
            cube.iter().map(|fold| mean(&fold.iter().map(|draws| mean(draws)).collect::<Vec<_>>())).collect();
        // The deviation of the means at each place, where all have the same number of places.
        let over = |places: Vec<Vec<f64>>| {
            let count = places.first().map_or(0, Vec::len);
            let is_even = count > 1 && places.iter().all(|of| of.len() == count);
            let at = |place: usize| mean(&places.iter().map(|of| of[place]).collect::<Vec<_>>());
            is_even.then(|| Spread::of((0..count).map(at)).std)
        };
        let by_training = cube.iter().map(|fold| fold.iter().map(|draws| mean(draws)).collect()).collect();
        Self {
            mean: mean(&fold_means),
            over_draws: over(cube.iter().flatten().cloned().collect()),
            over_training: over(by_training),
            over_folds: over(vec![fold_means]),
        }
    }
}

/// The published numbers for a data set, or else those for Pascal-5i, which are said to be that.
fn paper(row: &RowDeclaration, data: &str) -> Option<Paper> {
    let data = if row.paper.contains_key(data) { data } else { PAPER_DATA };
    row.paper.get(data).map(|shots| Paper { data: data.to_string(), shots: shots.clone() })
}

fn notes(schedule: &Schedule, cells: &HashMap<String, Cell>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut all: Vec<&String> = schedule.rows.iter().flatten().map(|(.., id)| id).collect();
    all.sort();
    all.dedup();
    let missing = all.iter().filter(|id| !cells.contains_key(**id)).count();
    if missing > 0 {
        notes.push(format!("{missing} of {} are missing", count(all.len(), "cell")));
    }
    // By name, so that the order does not depend on the map's.
    let limited = all.iter().filter_map(|id| cells.get(*id)).find(|cell| cell.tested < cell.of);
    if let Some(cell) = limited {
        notes.push(format!(
            "only {} of {} images or episodes were evaluated: this is not a result of the benchmark",
            cell.tested, cell.of
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_count_the_same_and_each_deviation_is_of_means() {
        // Two folds, two training seeds, two draws.
        let cube = vec![vec![vec![10.0, 14.0], vec![12.0, 16.0]], vec![vec![30.0, 34.0], vec![32.0, 36.0]]];
        let number = Number::of(&cube);
        assert_eq!(number.mean, 23.0);
        assert_eq!(number.over_draws, Some(2.0), "21 and 25");
        assert_eq!(number.over_training, Some(1.0), "22 and 24");
        assert_eq!(number.over_folds, Some(10.0), "13 and 33");
    }

    #[test]
    fn what_is_there_once_has_no_deviation() {
        let number = Number::of(&[vec![vec![10.0, 14.0]]]);
        assert_eq!((number.over_training, number.over_folds), (None, None));
        assert_eq!(number.over_draws, Some(2.0));
        assert_eq!(Number::of(&[vec![vec![7.0]]]).over_draws, None);
        // A fold with fewer models: no deviation over training seeds, and its mean still counts once.
        let number = Number::of(&[vec![vec![10.0], vec![20.0]], vec![vec![35.0]]]);
        assert_eq!((number.mean, number.over_training), (25.0, None));
    }
}
