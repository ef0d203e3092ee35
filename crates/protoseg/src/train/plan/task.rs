//! What a run is for, and which methods serve it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::method::{FEW_SHOT_NAMES, capl::Ablation};

/// What a trained model is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Generalized few-shot segmentation: novel classes are registered, then every image is scored alone.
    #[default]
    GfsSeg,
    /// Classic few-shot segmentation: a query and the supports of one class go in, a mask comes out.
    FsSeg,
}

impl Task {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The names of its methods.
    pub fn methods(self) -> Vec<String> {
        match self {
            Self::GfsSeg => Ablation::ALL.map(|row| row.to_string()).to_vec(),
            Self::FsSeg => FEW_SHOT_NAMES.map(str::to_string).to_vec(),
        }
    }
}

/// A method by name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
pub enum MethodName {
    /// A row of CAPL's ablation table.
    Generalized(Ablation),
    /// A system for episodes, one of [`FEW_SHOT_NAMES`].
    FewShot(&'static str),
}

/// A name that no method has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no method `{name}`\nhint: choose one of {}; for task `fs-seg` one of {}",
    Task::GfsSeg.methods().join(", "), Task::FsSeg.methods().join(", ")
)]
pub struct UnknownMethod {
    /// The name that was asked for.
    pub name: String,
}

impl MethodName {
    /// The task that the method serves.
    pub fn task(self) -> Task {
        match self {
            Self::Generalized(_) => Task::GfsSeg,
            Self::FewShot(_) => Task::FsSeg,
        }
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generalized(row) => row.fmt(f),
            Self::FewShot(name) => f.write_str(name),
        }
    }
}

impl FromStr for MethodName {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        if let Ok(row) = name.parse() {
            return Ok(Self::Generalized(row));
        }
        let known = FEW_SHOT_NAMES.into_iter().find(|known| *known == name);
        known.map(Self::FewShot).ok_or_else(|| UnknownMethod { name: name.to_string() })
    }
}

impl<'de> Deserialize<'de> for MethodName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl From<MethodName> for String {
    fn from(method: MethodName) -> Self {
        method.to_string()
    }
}

impl From<Ablation> for MethodName {
    fn from(row: Ablation) -> Self {
        Self::Generalized(row)
    }
}
