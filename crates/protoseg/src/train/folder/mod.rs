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

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use protoseg_data::Lock;

pub use recorder::Recorder;

use super::TrainError;

/// The plan that a run follows.
pub const PLAN_FILE: &str = "plan.toml";
/// The model after the last step.
pub const LAST_FILE: &str = "last.safetensors";
/// The best model by validation.
pub const BEST_FILE: &str = "best.safetensors";
/// The folder of the checkpoints that a run can be resumed from.
pub(super) const CHECKPOINT_FOLDER: &str = "checkpoints";

/// A run's folder that no other process works in while this lives.
#[derive(Debug)]
pub struct Claim {
    lock: Option<Lock>,
    /// Whether it was made for the run.
    is_new: bool,
    folder: PathBuf,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.lock = None;
        if self.is_new {
            // Fails, as it should, unless nothing was written.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Deletes a file if it is there.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

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

    /// Takes the folder for one process, before anything is written in it; it is made if need be. Another process that
    /// trains there is named in the error.
    pub fn claim(&self) -> Result<Claim, TrainError> {
        let failed = |source| TrainError::Write { path: self.0.clone(), source };
        let is_new = !self.0.exists();
        fs::create_dir_all(&self.0).map_err(failed)?;
        match Lock::try_take(&self.plan()).map_err(failed)? {
            Ok(lock) => Ok(Claim { lock: Some(lock), is_new, folder: self.0.clone() }),
            Err(holder) => Err(TrainError::InUse { path: self.0.clone(), holder }),
        }
    }

    /// Deletes what a run has written here, and nothing else: folders stay if they hold other files.
    pub fn clear(&self) -> io::Result<()> {
        let ours = [self.plan(), self.description(), self.metrics(), self.curves_svg(), self.curves_png()];
        for file in ours.into_iter().chain([self.last(), self.best()]) {
            remove(&file)?;
        }
        let inner = [
            (self.tensorboard(), "events.out.tfevents.", ""),
            (self.samples(), "epoch-", ".png"),
            (self.checkpoints(), "step-", ".safetensors"),
        ];
        for (folder, first, last) in inner {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with(first) && name.ends_with(last) {
                    remove(&path)?;
                }
            }
            // Fails, as it should, if something is left.
            let _ = fs::remove_dir(&folder);
        }
        Ok(())
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
