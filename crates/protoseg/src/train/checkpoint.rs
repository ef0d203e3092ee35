//! A run as it stands after a step, in one file: weights, running statistics, what the optimiser remembers, and where
//! in the data the run is. Together with the plan it is all that the next step depends on.
//!
//! A file is written whole or not at all, and carries a checksum of every tensor: disks lose bits too.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use burn::tensor::{Bytes, TensorData};
use protoseg_data::clean_up;
use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::{
    network::Network,
    weights::{Rename, TensorFile, WeightsError, assign, collect, write_safetensors},
};

/// What a run remembers besides weights and optimiser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Steps done.
    pub step: usize,
    /// Sums over the steps of the current epoch.
    pub sums: Sums,
    /// The highest base mIoU so far, in percent.
    pub best: Option<f64>,
}

/// Sums over steps; means are made of them when an epoch ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    pub steps: usize,
    pub loss: f64,
    pub main_loss: f64,
    pub aux_loss: Option<f64>,
    pub seconds: f64,
}

/// What the file says beside its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: u32,
    progress: Progress,
    /// Of the plan, as text: a run goes on as it began.
    plan: u32,
    /// All tensors' checksums, combined in a way that does not depend on their order.
    tensors: u32,
}

/// A run taken up again.
pub struct Resumed {
    pub network: Network,
    pub optimizer: Bytes,
    pub progress: Progress,
    pub path: PathBuf,
    /// Newer checkpoints that could not be used, and why.
    pub damaged: Vec<String>,
}

const KEY: &str = "protoseg-training";
const FORMAT: u32 = 1;
/// The tensor that holds the optimiser's record.
const OPTIMIZER: &str = "optimizer";
const ENDING: &str = "safetensors";

/// The checkpoints of a run.
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
    plan: u32,
}

impl Checkpoints {
    /// In `folder`, which is made if need be. What an interrupted writer left there is removed.
    pub fn open(folder: &Path, keep: usize, plan: &str) -> Result<Self, WeightsError> {
        let failed = |source| WeightsError::Write { path: folder.to_path_buf(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        clean_up(folder, Duration::ZERO);
        Ok(Self { folder: folder.to_path_buf(), keep, plan: crc32fast::hash(plan.as_bytes()) })
    }

    fn path(&self, step: usize) -> PathBuf {
        self.folder.join(format!("step-{step:08}.{ENDING}"))
    }

    /// Newest first.
    fn list(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == ENDING))
            .collect();
        files.sort();
        files.reverse();
        files
    }

    /// The newest, if there is any.
    pub fn newest(&self) -> Option<PathBuf> {
        self.list().into_iter().next()
    }

    /// Saves the run after a step and forgets the oldest. Weights that are not finite are refused: the last good
    /// checkpoint stays.
    pub fn save(&self, trainer: &Trainer, progress: &Progress) -> Result<PathBuf, WeightsError> {
        let path = self.path(progress.step);
        let mut tensors = collect(&trainer.network());
        let broken = tensors.iter().find_map(|(name, data)| {
            data.iter::<f32>().find(|value| !value.is_finite()).map(|value| (name.clone(), value))
        });
        if let Some((tensor, value)) = broken {
            return Err(WeightsError::NotFinite { path, tensor, value });
        }
        let optimizer = trainer.optimizer_state().map_err(|error| WeightsError::Write {
            path: path.clone(),
            source: std::io::Error::other(error.to_string()),
        })?;
        let optimizer = optimizer.to_vec();
        let length = optimizer.len();
        tensors.push((OPTIMIZER.to_string(), TensorData::new(optimizer, [length])));
        let sum = tensors.iter().fold(0, |sum, (name, data)| sum ^ checksum(name, data.bytes()));
        let header = Header { format: FORMAT, progress: progress.clone(), plan: self.plan, tensors: sum };
        let header = serde_json::to_string(&header).expect("a header is plain data");
        write_safetensors(&path, tensors, HashMap::from([(KEY.to_string(), header)]))?;
        for old in self.list().into_iter().skip(self.keep) {
            // One that cannot be removed costs space, not the run.
            let _ = fs::remove_file(old);
        }
        Ok(path)
    }

    /// The newest checkpoint that is whole; nothing if there is none. `network` is what the plan makes, whatever its
    /// weights.
    pub fn load(&self, network: &Network) -> Option<Resumed> {
        let mut damaged = Vec::new();
        for path in self.list() {
            match self.read(&path, network.clone()) {
                Ok(resumed) => return Some(Resumed { damaged, ..resumed }),
                Err(error) => damaged.push(error.to_string()),
            }
        }
        None
    }

    fn read(&self, path: &Path, network: Network) -> Result<Resumed, WeightsError> {
        let file = TensorFile::open(path)?;
        let wrong =
            |reason: &str| WeightsError::Layout { path: path.to_path_buf(), reason: reason.to_string() };
        let header =
            file.metadata.get(KEY).ok_or_else(|| wrong("it is not a checkpoint of a training run"))?;
        let header: Header = serde_json::from_str(header).map_err(|error| wrong(&error.to_string()))?;
        if header.format != FORMAT {
            return Err(wrong(&format!("format {} is not the {FORMAT} this version reads", header.format)));
        }
        if header.plan != self.plan {
            return Err(wrong("it was made by another plan than this run's `plan.toml`"));
        }
        let names: Vec<String> = file.names().map(str::to_string).collect();
        let mut sum = 0;
        for name in &names {
            sum ^= checksum(name, &file.bytes(name)?);
        }
        if sum != header.tensors {
            return Err(wrong("it is damaged: its checksum does not fit"));
        }
        if !names.iter().any(|name| name == OPTIMIZER) {
            return Err(wrong("it lacks the optimiser's state"));
        }
        let network = assign(network, &file, |name| match name {
            OPTIMIZER => Rename::Skip,
            name => Rename::To(name.to_string()),
        })?;
        let optimizer = Bytes::from_bytes_vec(file.bytes(OPTIMIZER)?);
        let path = path.to_path_buf();
        Ok(Resumed { network, optimizer, progress: header.progress, path, damaged: Vec::new() })
    }
}

fn checksum(name: &str, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(name.as_bytes());
    hasher.update(bytes);
    hasher.finalize()
}
