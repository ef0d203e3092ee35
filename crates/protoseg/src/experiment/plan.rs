//! From an experiment and a data set to jobs: models to make, each with the cells that it is evaluated for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use protoseg_core::NovelPixels;
use protoseg_data::{BENCHMARKS, Benchmark};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Experiment, ExperimentError,
    declaration::{ModelDeclaration, NewDeclaration, RowDeclaration},
    identity::{self, Files},
};
use crate::{
    recipes,
    train::{HeadPlan, Plan, PlanError, Task, merge},
};

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

/// How a model is made.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelPlan {
    /// By a run.
    Train(Box<Plan>),
    /// Of a frozen encoder.
    New(NewPlan),
    /// It is there.
    File(PathBuf),
}

/// A model of a frozen encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPlan {
    /// A file of weights; without one the encoder in the box.
    pub encoder: Option<PathBuf>,
    /// The fold whose base classes it learns.
    pub fold: usize,
    /// What happens to pixels of novel classes.
    pub novel_pixels: NovelPixels,
    /// Prototypes of the background.
    pub background_rows: usize,
    /// Longer side of the canvas.
    pub size: Option<usize>,
    /// The head to train.
    pub head: Option<HeadPlan>,
}

/// How a model is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// A variant of its method; without one as it was made to be used.
    pub variant: Option<String>,
    /// The options it acts by; without a name as trained.
    pub preset: Option<String>,
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
        let usage = Use { variant: row.variant.clone(), preset: row.preset.clone() };
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

/// How a model of an experiment is made for a fold and a seed.
fn resolve(
    experiment: &Experiment,
    inputs: &Inputs,
    (name, model): (&str, &ModelDeclaration),
    fold: usize,
    seed: Option<u64>,
) -> Result<ModelPlan, ExperimentError> {
    let beside = |path: &Path| experiment.path.parent().unwrap_or(Path::new("")).join(path);
    let own = inputs.init.iter().find(|(of, _)| of.as_deref() == Some(name));
    let init = own.or_else(|| inputs.init.iter().find(|(of, _)| of.is_none())).map(|(_, path)| path.clone());
    if let Some(file) = &model.file {
        let seed = seed.map_or_else(String::new, |seed| seed.to_string());
        let file = file.replace("{fold}", &fold.to_string()).replace("{seed}", &seed);
        return Ok(ModelPlan::File(beside(Path::new(&file))));
    }
    if let Some(new) = &model.new {
        let NewDeclaration { encoder, novel_pixels, background_rows, size, head } = new.clone();
        let head = head.map(|own| {
            let mut head = HeadPlan { seed: seed.unwrap_or_default(), ..HeadPlan::default() };
            head.steps = own.steps.unwrap_or(head.steps);
            head.batch = own.batch.unwrap_or(head.batch);
            head.lr = own.lr.unwrap_or(head.lr);
            head
        });
        let encoder = encoder.map(|path| beside(&path)).or(init);
        let novel_pixels = novel_pixels.unwrap_or(inputs.benchmark.novel_pixels);
        return Ok(ModelPlan::New(NewPlan { encoder, fold, novel_pixels, background_rows, size, head }));
    }
    let mut plan = read_recipe(experiment, inputs, name, model)?;
    plan.data.source.clone_from(&inputs.source);
    plan.data.root.clone_from(&inputs.root);
    plan.data.fold = fold;
    plan.seed = seed.unwrap_or(plan.seed);
    plan.devices.clone_from(&inputs.devices);
    plan.network.init = init.or(plan.network.init);
    plan.training.epochs = inputs.epochs.unwrap_or(plan.training.epochs);
    plan.check()?;
    Ok(ModelPlan::Train(Box::new(plan)))
}

/// The recipe of a model with the model's changes.
fn read_recipe(
    experiment: &Experiment,
    inputs: &Inputs,
    name: &str,
    model: &ModelDeclaration,
) -> Result<Plan, ExperimentError> {
    let data = inputs.benchmark.dataset.name();
    let choice = model.recipe.as_ref().or(experiment.declaration.recipe.as_ref());
    let recipe = choice
        .and_then(|choice| choice.of(data))
        .ok_or_else(|| ExperimentError::NoRecipe { model: name.to_string(), data: data.to_string() })?;
    let file = experiment.path.parent().unwrap_or(Path::new("")).join(recipe);
    let (text, path) = match recipes::training(recipe) {
        Some(text) => (text.to_string(), PathBuf::from(format!("recipes/{recipe}.toml"))),
        None => match fs::read_to_string(&file) {
            Ok(text) => (text, file),
            Err(_) => {
                return Err(ExperimentError::UnknownRecipe {
                    model: name.to_string(),
                    recipe: recipe.to_string(),
                    known: recipes::training_names().collect::<Vec<_>>().join(", "),
                });
            }
        },
    };
    let mut table: toml::Table = toml::from_str(&text).map_err(|error| PlanError::Format {
        path: path.clone(),
        reason: error.to_string().trim_end().to_string(),
    })?;
    // What is wrong with the recipe alone is said with its line.
    Plan::parse(&text, &path)?;
    merge(&mut table, &model.set);
    table.try_into().map_err(|error: toml::de::Error| ExperimentError::Set {
        path: experiment.path.clone(),
        model: name.to_string(),
        reason: error.message().to_string(),
    })
}

impl ModelPlan {
    /// Everything that the model depends on besides data set and fold. Places of files and machines are no part of it.
    fn identity(&self, files: &mut Files) -> Result<Value, ExperimentError> {
        let mut known = |path: &Path| {
            files.name(path).map_err(|source| ExperimentError::Read { path: path.to_path_buf(), source })
        };
        Ok(match self {
            Self::File(path) => json!({ "file": known(path)? }),
            Self::New(plan) => {
                let head = plan.head.as_ref().map(|head| {
                    json!({ "steps": head.steps, "batch": head.batch, "lr": head.lr, "seed": head.seed })
                });
                let encoder = match plan.encoder.as_deref() {
                    Some(path) => known(path)?,
                    None => files.builtin(),
                };
                json!({ "new": {
                    "encoder": encoder,
                    "novel_pixels": plan.novel_pixels,
                    "background_rows": plan.background_rows,
                    "size": plan.size,
                    "head": head,
                }})
            }
            Self::Train(plan) => {
                let init = plan.network.init.as_deref().map(known).transpose()?;
                let mut value = serde_json::to_value(plan.as_ref()).expect("a plan is plain data");
                for (table, keys) in
                    [("data", &["source", "root", "fold", "workers"][..]), ("network", &["init"])]
                {
                    if let Some(table) = value[table].as_object_mut() {
                        keys.iter().for_each(|key| drop(table.remove(*key)));
                    }
                }
                if let Some(plan) = value.as_object_mut() {
                    plan.remove("devices");
                    plan.remove("checkpoint");
                }
                json!({ "train": value, "init": init })
            }
        })
    }
}
