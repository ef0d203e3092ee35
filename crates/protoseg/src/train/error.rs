//! Why a run could not begin, or ended early.

use std::{io, path::PathBuf};

use protoseg_core::FoldError;
use protoseg_data::{DataError, LoaderOptionsError};

use super::PlanError;
use crate::{
    config::ConfigError, device::DeviceError, model::ModelError, register::RegisterError,
    weights::WeightsError,
};

#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Loader(#[from] LoaderOptionsError),
    #[error("{0}")]
    Load(String),
    #[error("cannot write `{}`: {source}\nhint: check the folder's permissions and the free space", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "line {line} of `{}` is no event\nhint: remove the line, or the file to go on without what was before", path.display()
    )]
    Metrics { path: PathBuf, line: usize },
    #[error(
        "`{}` holds a run already\nhint: go on with it by --resume {0}, or choose another --out", path.display()
    )]
    Exists { path: PathBuf },
    #[error("`{}` holds no run: {source}\nhint: --resume takes the folder that --out named", path.display())]
    NoRun { path: PathBuf, source: io::Error },
    #[error(
        "step {step} (epoch {epoch}) has a loss of {loss}: the run diverged\n\
         its batch: {}\n{}\nhint: start again with a smaller --lr, or look at these images with `protoseg data check`",
        files.join(", "),
        last_good(checkpoint)
    )]
    Diverged { step: usize, epoch: usize, loss: f32, files: Vec<String>, checkpoint: Option<PathBuf> },
}

fn last_good(checkpoint: &Option<PathBuf>) -> String {
    match checkpoint {
        Some(path) => format!("last good checkpoint: `{}`", path.display()),
        None => "no checkpoint was made before it".to_string(),
    }
}
