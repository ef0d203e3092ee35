//! What can go wrong with an experiment.

use std::{io, path::PathBuf};

use protoseg_data::DataError;

use crate::{
    config::ConfigError, device::DeviceError, episodes::EpisodesError, evaluate::EvaluateError,
    from_encoder::FromEncoderError, model::ModelError, train::PlanError, train::TrainError,
};

/// Why an experiment cannot be planned, run or summed up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// Nothing has this name.
    #[error(
        "there is no experiment `{name}`\nhint: choose one of {known}, or a file whose name ends in .toml"
    )]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// Names that are there.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not an experiment.
    #[error("`{}` is not an experiment: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// No row has the name that was asked for.
    #[error("experiment `{experiment}` has no row or model `{name}`\nhint: choose among {known}")]
    NoRow {
        /// The experiment.
        experiment: String,
        /// The name that was asked for.
        name: String,
        /// Names that are there.
        known: String,
    },
    /// No recipe is for this data set.
    #[error(
        "model `{model}` has no recipe for data set `{data}`\nhint: add `recipe.{data}` or `recipe.other` to it"
    )]
    NoRecipe {
        /// The model.
        model: String,
        /// The data set.
        data: String,
    },
    /// The recipe is neither one of ours nor a file.
    #[error(
        "model `{model}` names recipe `{recipe}`, which is not there\nhint: name a file beside the experiment, or one of {known}"
    )]
    UnknownRecipe {
        /// The model.
        model: String,
        /// The recipe's name.
        recipe: String,
        /// Names that are there.
        known: String,
    },
    /// Changes that the recipe cannot take.
    #[error("model `{model}` of `{}` changes its recipe in an impossible way: {reason}", path.display())]
    Set {
        /// The experiment's file.
        path: PathBuf,
        /// The model.
        model: String,
        /// What is wrong.
        reason: String,
    },
    /// A model cannot be used as a row says.
    #[error("row `{row}` uses its model as `{wanted}`, which it cannot be\nhint: choose among {known}")]
    Use {
        /// The row.
        row: String,
        /// What was asked for.
        wanted: String,
        /// What it can be used as.
        known: String,
    },
    /// A cell's file is damaged.
    #[error("`{}` is not the result of a cell: {reason}\nhint: delete the file; it is then computed again", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file or folder cannot be written.
    #[error("cannot write `{}`: {source}\nhint: check the folder's permissions and the free space", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A recipe cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A setting is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The device is not there.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A model cannot be trained.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A model cannot be made of an encoder.
    #[error(transparent)]
    FromEncoder(#[from] FromEncoderError),
    /// A model cannot be read or used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model cannot be evaluated.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A model cannot be asked episodes.
    #[error(transparent)]
    Episodes(#[from] EpisodesError),
}
