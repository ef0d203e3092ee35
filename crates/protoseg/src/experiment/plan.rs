//! From an experiment and a data set to jobs: models to make, each with the cells that it is evaluated for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use protoseg_data::{BENCHMARKS, Benchmark};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Experiment, ExperimentError,
    declaration::{ModelDeclaration, RowDeclaration},
    identity::{self, Files},
    model_plan::{ModelPlan, resolve},
};
use crate::train::Task;

/// What an experiment is run on.
#[non_exhaustive]
pub struct Inputs {
    /// The data set.
    pub benchmark: Benchmark,
    /// What the data set was opened by, from any working directory.
    pub source: String,
    /// The folder of a benchmark that is given by name.
    pub root: Option<PathBuf>,
    /// Encoder weights that models start from: for one model by name, or for all others.
    pub init: Vec<(Option<String>, PathBuf)>,
    /// Passes over the training images, whatever recipes say.
    pub epochs: Option<usize>,
    /// Where models are trained and evaluated.
    pub devices: Vec<String>,
}

impl Inputs {
    /// A data set by name, folder or file, on the CPU. `root` is the folder of a benchmark that is given by name.
    pub fn new(source: &str, root: Option<&Path>) -> Result<Self, ExperimentError> {
        let benchmark = Benchmark::open(source, root)?;
        // Runs are continued from any working directory.
        let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let (source, root) = match BENCHMARKS.contains(&source) {
            true => {
                (source.to_string(), root.or(Some(Path::new(source)).filter(|here| here.is_dir())).map(whole))
            }
            false => (whole(Path::new(source)).to_string_lossy().into_owned(), None),
        };
        let devices = vec!["cpu".to_string()];
        Ok(Self { benchmark, source, root, init: Vec::new(), epochs: None, devices })
    }

    /// With encoder weights for one model of the experiment, or for all that have none of their own.
    pub fn with_init(mut self, model: Option<&str>, path: &Path) -> Result<Self, ExperimentError> {
        let whole = fs::canonicalize(path)
            .map_err(|source| ExperimentError::Read { path: path.to_path_buf(), source })?;
        self.init.push((model.map(str::to_string), whole));
        Ok(self)
    }
}

/// How a model is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// A variant of its method; without one as it was made to be used.
    pub variant: Option<String>,
    /// The options it acts by; without a name as trained.
    pub preset: Option<String>,
    /// Whether images are looked at a second time. Left out where they are not: names of cells stay what they were.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub second_look: bool,
}

/// A model to make and to evaluate: the unit of work.
#[derive(Clone, Debug)]
pub struct Job {
    /// The short name of the model's plan.
    pub id: String,
    /// The model's name in the experiment.
    pub model: String,
    /// The fold.
    pub fold: usize,
    /// The seed of its training, if it is trained.
    pub training_seed: Option<u64>,
    /// How it is made.
    pub plan: ModelPlan,
    /// What it is evaluated for.
    pub cells: Vec<CellPlan>,
}

/// A way to use a model, whose scores are one file.
#[derive(Clone, Debug)]
pub struct CellPlan {
    /// The short name of everything that the scores depend on.
    pub id: String,
    /// How the model is used.
    pub usage: Use,
    /// The row that wants it, for errors.
    pub row: String,
    /// Everything that the scores depend on, for readers.
    pub plan: Value,
}

/// All jobs of an experiment, in the order of work.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The data set's name.
    pub data: String,
    /// The folds.
    pub folds: Vec<usize>,
    /// Models to make and evaluate.
    pub jobs: Vec<Job>,
    /// For each row its cells: fold, training seed, and the cell's name.
    pub rows: Vec<Vec<(usize, Option<u64>, String)>>,
}

impl Schedule {
    /// What an experiment comes to on a data set. Rows that need the same model share it.
    pub fn new(experiment: &Experiment, inputs: &Inputs) -> Result<Self, ExperimentError> {
        let declaration = &experiment.declaration;
        let data = inputs.benchmark.dataset.name().to_string();
        let folds = match &declaration.folds {
            Some(folds) => folds.clone(),
            None => (0..inputs.benchmark.folds.len()).collect(),
        };
        let known = json!({ "name": data, "fingerprint": identity::of_data(&inputs.benchmark) });
        let test = test_of(experiment);
        let mut files = Files::default();
        let mut schedule =
            Self { data, folds, jobs: Vec::new(), rows: vec![Vec::new(); declaration.rows.len()] };
        for fold in schedule.folds.clone() {
            inputs.benchmark.fold(fold)?;
            // Seed by seed, so that every row has a number before any has its last.
            for round in 0..most_seeds(experiment) {
                for (place, row) in declaration.rows.iter().enumerate() {
                    let model = &declaration.models[&row.model];
                    let Some(seed) = seed_of(experiment, model, round) else { continue };
                    let plan = resolve(experiment, inputs, (&row.model, model), fold, seed)?;
                    let mut model = plan.identity(&mut files)?;
                    model["data"] = known.clone();
                    model["fold"] = fold.into();
                    let id = schedule.add(row, &test, (plan, model), fold, seed);
                    schedule.rows[place].push((fold, seed, id));
                }
            }
        }
        Ok(schedule)
    }

    /// Adds the cell of a row to the job of its model, and returns its name.
    fn add(
        &mut self,
        row: &RowDeclaration,
        test: &Value,
        (plan, model): (ModelPlan, Value),
        fold: usize,
        training_seed: Option<u64>,
    ) -> String {
        let id = identity::name_of(&model);
        let (variant, preset) = (row.variant.clone(), row.preset.clone());
        let usage = Use { variant, preset, second_look: row.second_look };
        let whole = json!({ "model": model, "use": usage, "test": test });
        let cell = CellPlan { id: identity::name_of(&whole), usage, row: row.name.clone(), plan: whole };
        let name = cell.id.clone();
        match self.jobs.iter_mut().find(|job| job.id == id) {
            Some(job) if job.cells.iter().any(|own| own.id == name) => {}
            Some(job) => job.cells.push(cell),
            None => {
                let model = row.model.clone();
                self.jobs.push(Job { id, model, fold, training_seed, plan, cells: vec![cell] });
            }
        }
        name
    }
}

/// What decides a test, besides the model and its use.
fn test_of(experiment: &Experiment) -> Value {
    let declaration = &experiment.declaration;
    match declaration.task {
        Task::GfsSeg => json!({
            "task": "gfs-seg",
            "protocol": declaration.protocol,
            "shots": declaration.shots,
            "support_seeds": declaration.support_seeds,
            "min_support_pixels": declaration.min_support_pixels,
            "limit": declaration.limit,
        }),
        Task::FsSeg => {
            let episodes = &declaration.episodes;
            json!({
                "task": "fs-seg",
                "style": episodes.style,
                "shots": declaration.shots,
                "episodes": declaration.limit.or(episodes.episodes),
                "runs": episodes.runs,
                "seed": episodes.seed,
            })
        }
    }
}

fn most_seeds(experiment: &Experiment) -> usize {
    let declaration = &experiment.declaration;
    let own = declaration.models.values().filter_map(|model| model.training_seeds.as_ref());
    own.chain([&declaration.training_seeds]).map(Vec::len).max().unwrap_or(1)
}

/// The training seed of a round. The inner value is none if nothing of the model is random, the outer one if it has no
/// seed in this round.
fn seed_of(experiment: &Experiment, model: &ModelDeclaration, round: usize) -> Option<Option<u64>> {
    let is_random = match (&model.new, &model.file) {
        (Some(new), _) => new.head.is_some(),
        (_, Some(file)) => file.contains("{seed}"),
        _ => true,
    };
    if !is_random {
        return (round == 0).then_some(None);
    }
    let seeds = model.training_seeds.as_ref().unwrap_or(&experiment.declaration.training_seeds);
    seeds.get(round).map(|&seed| Some(seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes;

    fn schedule(name: &str, change: impl Fn(&mut Experiment, &mut Inputs)) -> Schedule {
        let mut experiment = Experiment::open(name).unwrap();
        let mut inputs = Inputs::new("scenes", None).unwrap();
        change(&mut experiment, &mut inputs);
        Schedule::new(&experiment, &inputs).unwrap()
    }

    fn ids(schedule: &Schedule) -> Vec<&str> {
        schedule.jobs.iter().map(|job| job.id.as_str()).collect()
    }

    #[test]
    fn rows_that_need_the_same_training_share_it() {
        let one_fold =
            |experiment: &mut Experiment, _: &mut Inputs| experiment.declaration.folds = Some(vec![1]);
        let strategies = schedule("strategies", one_fold);
        assert_eq!(strategies.jobs.iter().map(|job| job.cells.len()).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(strategies.rows.len(), 6);
        // Baseline and CAPL are those of the other table.
        let enrichment = schedule("enrichment", one_fold);
        let shared = ids(&enrichment).into_iter().filter(|id| ids(&strategies).contains(id)).count();
        assert_eq!((enrichment.jobs.len(), shared), (8, 2));
    }

    #[test]
    fn every_experiment_can_be_planned_and_folds_come_one_after_the_other() {
        for name in recipes::experiment_names() {
            let planned = schedule(name, |_, _| ());
            let folds: Vec<usize> = planned.jobs.iter().map(|job| job.fold).collect();
            assert!(folds.is_sorted() && planned.folds == [0, 1, 2, 3], "{name}: {folds:?}");
        }
        let heads = schedule("heads", |_, _| ());
        // Two without training and three heads in each fold.
        assert_eq!(heads.jobs.len(), 20);
    }

    #[test]
    fn a_name_changes_with_what_the_model_depends_on_and_with_nothing_else() {
        let plain = schedule("strategies", |_, _| ());
        let same = schedule("strategies", |_, inputs| {
            inputs.devices = vec!["cpu".to_string(), "cpu".to_string()];
            inputs.root = Some(PathBuf::from("elsewhere"));
        });
        assert_eq!(ids(&plain), ids(&same));
        let epochs = schedule("strategies", |_, inputs| inputs.epochs = Some(1));
        assert!(ids(&plain).iter().all(|id| !ids(&epochs).contains(id)));
        let seeds =
            |experiment: &mut Experiment, _: &mut Inputs| experiment.declaration.training_seeds = vec![1];
        assert_ne!(ids(&plain), ids(&schedule("strategies", seeds)));
        // Another test of the same models.
        let tested = schedule("strategies", |experiment, _| experiment.declaration.shots = vec![2]);
        assert_eq!(ids(&plain), ids(&tested));
        assert_ne!(plain.jobs[0].cells[0].id, tested.jobs[0].cells[0].id);
    }
}
