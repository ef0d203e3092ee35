//! The folder of experiments: models and cells by their short names, so that tables share what they have in common.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use protoseg_data::{create_dir, write_atomic};

use super::{Cell, ExperimentError};

/// The places of all files of experiments on one data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentFolder(PathBuf);

/// A model that nobody else works on while this lives.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

impl ExperimentFolder {
    /// The folder at `path`, whether it exists or not.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of a model: its run, or its file.
    pub fn model(&self, id: &str) -> PathBuf {
        self.0.join("models").join(id)
    }

    /// The file of a cell.
    pub fn cell(&self, id: &str) -> PathBuf {
        self.0.join("cells").join(format!("{id}.json"))
    }

    /// The folder of an experiment's tables.
    pub fn results(&self, experiment: &str) -> PathBuf {
        self.0.join(experiment)
    }

    /// Where features are kept, unless the user has another place for them.
    pub fn features(&self) -> PathBuf {
        self.0.join("features")
    }

    /// A cell, if it is there. A damaged file counts as none: it is computed again.
    pub fn read_cell(&self, id: &str) -> Option<Cell> {
        Cell::read(&self.cell(id)).ok().flatten()
    }

    /// Takes a model to work on; nothing if another process has it. The system ends a claim with its process, however
    /// that ends.
    pub fn claim(&self, id: &str) -> Result<Option<Claim>, ExperimentError> {
        let folder = self.0.join("locks");
        create_dir(&folder)?;
        let path = folder.join(id);
        let cannot = |source| ExperimentError::Write { path: path.clone(), source };
        let file = File::create(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Claim { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(cannot(source)),
        }
    }

    /// Copies cells of another folder that are not here. Returns how many.
    pub fn merge(&self, other: &Path) -> Result<usize, ExperimentError> {
        let from = other.join("cells");
        let cannot = |source| ExperimentError::Read { path: from.clone(), source };
        create_dir(&self.0.join("cells"))?;
        let mut copied = 0;
        for entry in fs::read_dir(&from).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let is_cell = path.extension().is_some_and(|ending| ending == "json");
            let Some(cell) = is_cell.then(|| Cell::read(&path)).transpose()?.flatten() else { continue };
            let to = self.cell(&cell.id);
            if self.read_cell(&cell.id).is_none() {
                write_atomic(&to, &fs::read(&path).map_err(cannot)?)?;
                copied += 1;
            }
        }
        Ok(copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_claimed_once_at_a_time() {
        let desk = tempfile::tempdir().unwrap();
        let folder = ExperimentFolder::new(desk.path());
        let first = folder.claim("m").unwrap();
        assert!(first.is_some() && folder.claim("m").unwrap().is_none());
        assert!(folder.claim("other").unwrap().is_some());
        drop(first);
        assert!(folder.claim("m").unwrap().is_some());
    }

    #[test]
    fn a_damaged_cell_is_none() {
        let desk = tempfile::tempdir().unwrap();
        let folder = ExperimentFolder::new(desk.path());
        fs::create_dir_all(desk.path().join("cells")).unwrap();
        fs::write(folder.cell("a"), b"{\"schema\":").unwrap();
        assert_eq!(folder.read_cell("a"), None);
        assert!(Cell::read(&folder.cell("a")).is_err());
        assert_eq!(folder.read_cell("b"), None);
    }
}
