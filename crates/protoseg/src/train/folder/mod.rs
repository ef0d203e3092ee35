//! The folder of a run: where everything in it is, and what is recorded there while the run goes on.

mod curves;
mod description;
mod episode_samples;
#[cfg(test)]
mod fake_run;
mod history;
mod metrics;
mod recorder;
mod samples;
mod tensorboard;

use std::path::{Path, PathBuf};

pub use recorder::Recorder;

/// The plan that a run follows.
pub const PLAN_FILE: &str = "plan.toml";
/// The model after the last step.
pub const LAST_FILE: &str = "last.safetensors";
/// The best model by validation.
pub const BEST_FILE: &str = "best.safetensors";
/// The folder of the checkpoints that a run can be resumed from.
pub(super) const CHECKPOINT_FOLDER: &str = "checkpoints";

/// The places of a run's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder(PathBuf);

impl RunFolder {
    /// The folder of the run at `path`, whether it exists or not.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a run was started here.
    pub fn holds_run(&self) -> bool {
        self.plan().exists()
    }

    /// The plan, [`PLAN_FILE`].
    pub fn plan(&self) -> PathBuf {
        self.0.join(PLAN_FILE)
    }

    /// What a result of the run has to be reported with: versions, seed, model and data.
    pub fn description(&self) -> PathBuf {
        self.0.join("run.json")
    }

    /// Every event, one JSON object per line.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics.jsonl")
    }

    /// The folder of TensorBoard's event files.
    pub fn tensorboard(&self) -> PathBuf {
        self.0.join("tensorboard")
    }

    /// The curves of loss, mIoU and learning rate as a drawing.
    pub fn curves_svg(&self) -> PathBuf {
        self.0.join("curves.svg")
    }

    /// The curves as a picture.
    pub fn curves_png(&self) -> PathBuf {
        self.0.join("curves.png")
    }

    /// The folder of [`Self::sample_sheet`].
    pub fn samples(&self) -> PathBuf {
        self.0.join("samples")
    }

    /// A few images, or episodes, with their truth and their prediction after an epoch.
    pub fn sample_sheet(&self, epoch: usize) -> PathBuf {
        self.samples().join(format!("epoch-{epoch:03}.png"))
    }

    /// The folder of the checkpoints that the run can be resumed from.
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join(CHECKPOINT_FOLDER)
    }

    /// The model after the last step, [`LAST_FILE`].
    pub fn last(&self) -> PathBuf {
        self.0.join(LAST_FILE)
    }

    /// The best model by validation, [`BEST_FILE`].
    pub fn best(&self) -> PathBuf {
        self.0.join(BEST_FILE)
    }
}
