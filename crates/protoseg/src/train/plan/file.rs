//! Plans in files. What is wrong with one is said with its line.

use std::path::{Path, PathBuf};

use protoseg_data::{DataError, read_text};
use toml::de::{DeTable, DeValue};

use super::{Plan, Task};
use crate::config::ConfigError;

/// A plan that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] DataError),
    /// The file is not a plan.
    #[error("`{}` is not a plan for training\n{reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A value in the file is impossible.
    #[error("`{}`, line {line}: {source}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What the system says.
        source: ConfigError,
    },
    /// Not in the file: from a flag or a default.
    #[error(transparent)]
    Given(#[from] ConfigError),
}

impl Plan {
    /// Reads a plan. Paths in it are relative to the file, or to the working directory if they exist only there: the
    /// plan in a run's folder names them as the run was started.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let text = read_text(path)?;
        let mut plan = Self::parse(&text, path)?;
        let beside = |file: &Path| path.parent().unwrap_or(Path::new("")).join(file);
        if Path::new(&plan.data.source).components().count() > 0 && beside(plan.data.source.as_ref()).exists()
        {
            plan.data.source = beside(plan.data.source.as_ref()).to_string_lossy().into_owned();
        }
        let find = |file: PathBuf| match beside(&file) {
            beside if !beside.exists() && file.exists() => file,
            beside => beside,
        };
        plan.data.root = plan.data.root.map(find);
        plan.network.init = plan.network.init.map(find);
        Ok(plan)
    }

    /// A plan from the text of a file; `path` is for errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, PlanError> {
        toml::from_str(text).map_err(|error| PlanError::Format {
            path: path.to_path_buf(),
            reason: error.to_string().trim_end().to_string(),
        })
    }

    /// Checks a plan; `file` is where it was read from, to name the line of an impossible value.
    pub fn check_file(&self, file: Option<&Path>) -> Result<(), PlanError> {
        let Err(source) = self.check() else { return Ok(()) };
        let line = file.and_then(|file| line_of(&read_text(file).ok()?, &source.key));
        Err(match (file, line) {
            (Some(path), Some(line)) => PlanError::Value { path: path.to_path_buf(), line, source },
            _ => PlanError::Given(source),
        })
    }

    /// The plan as a file.
    pub fn to_toml(&self) -> String {
        let text = toml::to_string(self).expect("a plan is plain data");
        if self.task == Task::GfsSeg {
            return text;
        }
        // What a system for episodes brings itself, or has no use for, is not said. Its own settings come last.
        let (plan, options) = text.split_at(text.find("\n[options").unwrap_or(text.len()));
        let is_said =
            |line: &&str| !["preset = ", "decoder = ", "aux_head = "].iter().any(|it| line.starts_with(it));
        plan.split_inclusive('\n').filter(is_said).chain([options]).collect()
    }
}

/// The line in which a dotted key stands, counted from 1; of the innermost table that is there.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut found = None;
    for part in key.split('.') {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else { break };
        found = Some(name.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    let before = &text.as_bytes()[..found?];
    Some(before.iter().filter(|&&byte| byte == b'\n').count() + 1)
}
