//! What can be wrong with a file of weights.

use std::{fmt, io, path::PathBuf};

/// A file of weights that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}\nhint: check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`: {source}\nhint: check the folder's permissions and the free space", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not of a format that is read.
    #[error("`{}` is not a file of weights: {reason}\nhint: expected a .pth or .safetensors file", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Names or shapes do not fit the network.
    #[error("`{}` does not fit the network{wrong}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Everything that does not fit.
        wrong: Box<Mismatch>,
    },
    /// A value is not a finite number, or absurdly large.
    #[error("`{}`: tensor `{tensor}` holds {value}\nhint: the file is damaged or its training diverged", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The value.
        value: f32,
    },
    /// The tensors are not those of a known network.
    #[error("`{}`: {reason}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Everything that keeps a file from fitting a network.
#[derive(Debug, Default)]
pub struct Mismatch {
    /// Tensors the network needs and the file lacks.
    pub missing: Vec<String>,
    /// Tensors of the file that the network has no place for.
    pub unexpected: Vec<String>,
    /// Tensors of another shape or type than the network's: name, what the file has, what is needed.
    pub misshaped: Vec<(String, String, String)>,
}

impl Mismatch {
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshaped.is_empty()
    }
}

/// Names shown of each kind; a wrong architecture has hundreds.
const SHOWN: usize = 20;

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let misshaped: Vec<String> = self
            .misshaped
            .iter()
            .map(|(name, got, expected)| format!("{name}: {got}, expected {expected}"))
            .collect();
        let kinds =
            [("missing", &self.missing), ("unexpected", &self.unexpected), ("mis-shaped", &misshaped)];
        for (kind, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "\n{} {kind}:", names.len())?;
            for name in names.iter().take(SHOWN) {
                write!(f, "\n  {name}")?;
            }
            if names.len() > SHOWN {
                write!(f, "\n  and {} more", names.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}
