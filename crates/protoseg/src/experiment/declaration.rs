//! An experiment as a file: which models, used how, on which folds, with which seeds. Data, not code.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use protoseg_core::{EpisodeStyle, NovelPixels, Protocol};
use protoseg_data::read_text;
use serde::Deserialize;

use super::ExperimentError;
use crate::{from_encoder::BACKGROUND_ROWS, recipes, train::Task};

/// The published seeds of supports.
pub const SUPPORT_SEEDS: [u64; 5] = [123, 321, 456, 654, 999];
/// The key of a choice by data set for all that are not named.
const OTHER: &str = "other";

/// An experiment by name or from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name: that of the file, without the ending.
    pub name: String,
    /// The file it is from; for errors, and to find what it names.
    pub path: PathBuf,
    /// What the file says.
    pub declaration: Declaration,
}

/// What the file of an experiment says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// What the table is called.
    pub title: String,
    /// The setting that models are tested in.
    pub task: Task,
    /// Folds; by default all of the data set.
    pub folds: Option<Vec<usize>>,
    /// Numbers of supports per class.
    #[serde(default = "shots")]
    pub shots: Vec<usize>,
    /// One draw of supports for each.
    #[serde(default = "support_seeds")]
    pub support_seeds: Vec<u64>,
    /// Every model that is trained is trained once for each.
    #[serde(default = "training_seeds")]
    pub training_seeds: Vec<u64>,
    /// How pixels are counted, for `gfs-seg`.
    #[serde(default)]
    pub protocol: Protocol,
    /// Which episodes are asked, for `fs-seg`.
    #[serde(default)]
    pub episodes: EpisodesDeclaration,
    /// The fewest pixels of its class that a support holds; by default the data set's rule.
    pub min_support_pixels: Option<u64>,
    /// The most images to evaluate; with a limit it is not a result of the benchmark.
    pub limit: Option<usize>,
    /// What models are trained by, unless they say otherwise.
    pub recipe: Option<ByData>,
    /// Models by name.
    pub models: BTreeMap<String, ModelDeclaration>,
    /// Rows of the table.
    pub rows: Vec<RowDeclaration>,
}

/// Which episodes are asked. What is not given is as the style's paper has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EpisodesDeclaration {
    /// How episodes are drawn and scored.
    pub style: EpisodeStyle,
    /// Number of episodes per run.
    pub episodes: Option<usize>,
    /// Number of runs.
    pub runs: Option<usize>,
    /// Seed of the first run.
    pub seed: Option<u64>,
}

/// How a model is made: trained by a recipe, made of a frozen encoder, or read from a file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelDeclaration {
    /// The recipe that trains it.
    pub recipe: Option<ByData>,
    /// Changes to the recipe.
    pub set: toml::Table,
    /// Made of a frozen encoder.
    pub new: Option<NewDeclaration>,
    /// A file; `{fold}` and `{seed}` in its name stand for the fold and the training seed.
    pub file: Option<String>,
    /// Its own training seeds.
    pub training_seeds: Option<Vec<u64>>,
}

/// A model of a frozen encoder.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NewDeclaration {
    /// A file of encoder weights; by default what the user gives, else the encoder in the box.
    pub encoder: Option<PathBuf>,
    /// What happens to pixels of novel classes; by default what the data set says.
    pub novel_pixels: Option<NovelPixels>,
    /// Prototypes of the background.
    pub background_rows: usize,
    /// Longer side of the canvas.
    pub size: Option<usize>,
    /// A head that is trained on the features.
    pub head: Option<HeadDeclaration>,
}

/// How a head is trained. What is not given is as usual.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeadDeclaration {
    /// Training steps.
    pub steps: Option<usize>,
    /// Images per step.
    pub batch: Option<usize>,
    /// The highest rate.
    pub lr: Option<f64>,
}

/// A row of the table: a model, and how it is used.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowDeclaration {
    /// What the table calls it.
    pub name: String,
    /// A name of [`Declaration::models`].
    pub model: String,
    /// A variant of the method; by default as the model was made to be used.
    #[serde(rename = "use")]
    pub variant: Option<String>,
    /// The options it acts by; by default as trained.
    pub preset: Option<String>,
    /// Look at every image a second time, mirrored and larger.
    #[serde(default)]
    pub second_look: bool,
    /// Published numbers, by data set and number of shots: base, novel and total mIoU, or class mIoU.
    #[serde(default)]
    pub paper: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
}

/// One value for all data sets, or one for each. `other` is for those that are not named.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum ByData {
    /// For all.
    One(String),
    /// By the data set's name.
    Each(BTreeMap<String, String>),
}

impl Default for NewDeclaration {
    fn default() -> Self {
        Self { encoder: None, novel_pixels: None, background_rows: BACKGROUND_ROWS, size: None, head: None }
    }
}

impl ByData {
    /// The value for a data set.
    pub fn of(&self, data: &str) -> Option<&str> {
        match self {
            Self::One(value) => Some(value),
            Self::Each(values) => values.get(data).or_else(|| values.get(OTHER)).map(String::as_str),
        }
    }
}

fn shots() -> Vec<usize> {
    vec![1, 5]
}

fn support_seeds() -> Vec<u64> {
    SUPPORT_SEEDS.to_vec()
}

fn training_seeds() -> Vec<u64> {
    vec![321]
}

impl Experiment {
    /// The experiment of that name that comes with the library, or the one in a file whose name ends in `.toml`.
    pub fn open(source: &str) -> Result<Self, ExperimentError> {
        if let Some(text) = recipes::experiment(source) {
            return Self::parse(text, Path::new(&format!("recipes/experiments/{source}.toml")));
        }
        let path = Path::new(source);
        if path.extension().is_none_or(|ending| ending != "toml") {
            let known = recipes::experiment_names().collect::<Vec<_>>().join(", ");
            return Err(ExperimentError::Unknown { name: source.to_string(), known });
        }
        let text = read_text(path)?;
        Self::parse(&text, path)
    }

    /// An experiment from the text of a file.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ExperimentError> {
        let format = |reason: String| ExperimentError::Format { path: path.to_path_buf(), reason };
        let declaration: Declaration =
            toml::from_str(text).map_err(|error| format(error.to_string().trim_end().to_string()))?;
        declaration.check().map_err(format)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, path: path.to_path_buf(), declaration })
    }
}

impl Experiment {
    /// Keeps only these rows, or the rows of these models.
    pub fn keep(&mut self, names: &[String]) -> Result<(), ExperimentError> {
        let rows = &mut self.declaration.rows;
        let is_of = |row: &RowDeclaration, name: &String| row.name == *name || row.model == *name;
        if let Some(name) = names.iter().find(|name| !rows.iter().any(|row| is_of(row, name))) {
            let known = rows.iter().map(|row| format!("`{}` ({})", row.name, row.model)).collect::<Vec<_>>();
            let (experiment, name) = (self.name.clone(), name.clone());
            return Err(ExperimentError::NoRow { experiment, name, known: known.join(", ") });
        }
        rows.retain(|row| names.iter().any(|name| is_of(row, name)));
        Ok(())
    }

    /// Checks the declaration again, after it was changed.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let path = self.path.clone();
        self.declaration.check().map_err(|reason| ExperimentError::Format { path, reason })
    }
}

impl Declaration {
    /// Refuses what no table can be made of.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.rows.is_empty() {
            return Err("it has no row\nhint: add a `[[rows]]` with `name` and `model`".to_string());
        }
        for (place, row) in self.rows.iter().enumerate() {
            if self.rows[..place].iter().any(|other| other.name == row.name) {
                return Err(format!("two rows are called `{}`\nhint: give each its own name", row.name));
            }
            if !self.models.contains_key(&row.model) {
                let known = self.models.keys().cloned().collect::<Vec<_>>().join(", ");
                let (name, model) = (&row.name, &row.model);
                return Err(format!(
                    "row `{name}` names model `{model}`, which is not there\nhint: add `[models.{model}]`, or name one of {known}"
                ));
            }
            self.check_paper(row)?;
        }
        for (name, model) in &self.models {
            let ways = [model.recipe.is_some(), model.new.is_some(), model.file.is_some()];
            if ways.iter().filter(|way| **way).count() > 1 {
                return Err(format!(
                    "model `{name}` is made in several ways\nhint: give it one of `recipe`, `new` and `file`"
                ));
            }
            if ways == [false; 3] && self.recipe.is_none() {
                return Err(format!(
                    "nothing says how model `{name}` is made\nhint: give it a `recipe`, `new` or `file`"
                ));
            }
        }
        let lists = [
            ("shots", self.shots.is_empty() || self.shots.contains(&0)),
            ("support_seeds", self.support_seeds.is_empty()),
            ("training_seeds", self.training_seeds.is_empty()),
            ("folds", self.folds.as_ref().is_some_and(Vec::is_empty)),
        ];
        match lists.iter().find(|(_, is_wrong)| *is_wrong) {
            Some((key, _)) => Err(format!("`{key}` must hold at least one value, shots from 1")),
            None => Ok(()),
        }
    }

    fn check_paper(&self, row: &RowDeclaration) -> Result<(), String> {
        let wanted = match self.task {
            Task::GfsSeg => 3,
            Task::FsSeg => 1,
        };
        for (shots, numbers) in row.paper.values().flatten() {
            if shots.parse::<usize>().is_err() || numbers.len() != wanted {
                let name = &row.name;
                return Err(format!(
                    "the paper's numbers of row `{name}` at `{shots}` shots are not {wanted}: got {numbers:?}\n\
                     hint: write base, novel and total for `gfs-seg`, class mIoU for `fs-seg`"
                ));
            }
        }
        Ok(())
    }
}
