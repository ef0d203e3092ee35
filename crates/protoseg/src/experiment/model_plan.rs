//! How a model is made, with every value in its place, and what it depends on.

use std::path::{Path, PathBuf};

use protoseg_core::NovelPixels;
use protoseg_data::read_text;
use serde_json::{Value, json};

use super::{
    Experiment, ExperimentError, Inputs,
    declaration::{ModelDeclaration, NewDeclaration},
    identity::Files,
};
use crate::{
    recipes,
    train::{HeadPlan, Plan, PlanError, merge},
};

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

/// How a model of an experiment is made for a fold and a seed.
pub(super) fn resolve(
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
        None => match read_text(&file) {
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
    pub(super) fn identity(&self, files: &mut Files) -> Result<Value, ExperimentError> {
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
