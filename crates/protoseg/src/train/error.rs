//! Why a run could not begin, or ended early.

use std::{io, path::PathBuf};

use protoseg_core::FoldError;
use protoseg_data::{DataError, LoaderOptionsError};

use super::PlanError;
use crate::{
    config::ConfigError, device::DeviceError, from_encoder::FromEncoderError, model::ModelError,
    register::RegisterError, weights::WeightsError,
};

/// Why a run could not begin, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The plan cannot be read or carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A setting is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The fold cannot be used.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The device is not there.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Weights cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The weights to start from are of another encoder than the plan names.
    #[error("`{}` holds weights of `{got}`, but the network's encoder is `{expected}`", path.display())]
    OtherEncoder {
        /// The file.
        path: PathBuf,
        /// The encoder in it.
        got: &'static str,
        /// The plan's encoder.
        expected: &'static str,
        /// The architecture that the file fits.
        arch: String,
    },
    /// The model cannot be written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The frozen encoder, or what its features say of the base classes, cannot be had.
    #[error(transparent)]
    FromEncoder(#[from] FromEncoderError),
    /// The model cannot be validated.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The loader cannot work like this.
    #[error(transparent)]
    Loader(#[from] LoaderOptionsError),
    /// An image cannot be read while the run goes on.
    #[error("{0}")]
    Load(String),
    /// The run's folder cannot be written.
    #[error("cannot write `{}`: {source}\nhint: check the folder's permissions and the free space", path.display())]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The folder is taken.
    #[error("`{}` already holds a run", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// Another process works in the folder.
    #[error("`{}` is in use by {holder}\nhint: wait for it, or choose another folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The process.
        holder: String,
    },
    /// There is nothing to resume.
    #[error("`{}` holds no run: {source}", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The record of an earlier part of the run is damaged.
    #[error(
        "line {line} of `{}` is not an event\nhint: remove the line, or the file to go on without what was before",
        path.display()
    )]
    Metrics {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The loss is not a number, or far too large.
    #[error(
        "step {step} (epoch {epoch}) has a loss of {loss}: the run diverged\nits batch: {}\n{}",
        files.join(", "),
        last_good(checkpoint)
    )]
    Diverged {
        /// The step, counted from 1.
        step: usize,
        /// The epoch, counted from 1.
        epoch: usize,
        /// Its loss.
        loss: f32,
        /// Images of its batch.
        files: Vec<String>,
        /// The last good checkpoint.
        checkpoint: Option<PathBuf>,
    },
}

fn last_good(checkpoint: &Option<PathBuf>) -> String {
    match checkpoint {
        Some(path) => format!("last good checkpoint: `{}`", path.display()),
        None => "no checkpoint was made before it".to_string(),
    }
}
