//! The rows of the paper's ablation table: what happens in training, and what at registration and evaluation.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::gate::Gate;

/// Which parts of the method are on, and with which gate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Training: fake novel rows are replaced by pooled prototypes (8).
    pub fake_novel: bool,
    /// SCE (3)(4). In training it enriches the fake context rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sce: Option<Gate>,
    /// DQCE (5)(6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dqce: Option<Gate>,
}

impl Parts {
    /// A plain cosine classifier.
    pub const PLAIN: Self = Self { fake_novel: false, sce: None, dqce: None };
}

/// A row of the ablation table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Ablation {
    /// A plain cosine classifier.
    Baseline,
    /// Baseline with fake novel rows in training.
    BaselinePlus,
    /// CAPL in training only.
    CaplTr,
    /// CAPL at test only, with a constant support gate.
    CaplTe,
    /// SCE alone, in training and at test.
    Sce(Gate),
    /// DQCE alone, in training and at test.
    Dqce(Gate),
    /// SCE with an MLP gate and DQCE with a cosine gate.
    Capl,
}

impl Ablation {
    /// Every row of the table.
    pub const ALL: [Self; 11] = [
        Self::Baseline,
        Self::BaselinePlus,
        Self::CaplTr,
        Self::CaplTe,
        Self::Sce(Gate::Mlp),
        Self::Sce(Gate::Cosine),
        Self::Sce(Gate::CosineSwapped),
        Self::Dqce(Gate::Mlp),
        Self::Dqce(Gate::Cosine),
        Self::Dqce(Gate::CosineSwapped),
        Self::Capl,
    ];

    /// What acts in training.
    pub fn training(self) -> Parts {
        match self {
            Self::Baseline | Self::CaplTe => Parts::PLAIN,
            Self::BaselinePlus => Parts { fake_novel: true, ..Parts::PLAIN },
            Self::Sce(gate) => Parts { fake_novel: true, sce: Some(gate), dqce: None },
            Self::Dqce(gate) => Parts { fake_novel: false, sce: None, dqce: Some(gate) },
            Self::CaplTr | Self::Capl => {
                Parts { fake_novel: true, sce: Some(Gate::Mlp), dqce: Some(Gate::Cosine) }
            }
        }
    }

    /// What acts at registration and on an image.
    pub fn inference(self) -> Parts {
        let parts = |sce, dqce| Parts { fake_novel: false, sce, dqce };
        match self {
            Self::Baseline | Self::BaselinePlus | Self::CaplTr => Parts::PLAIN,
            Self::CaplTe => parts(Some(Gate::UNTRAINED), Some(Gate::Cosine)),
            Self::Sce(gate) => parts(Some(gate), None),
            Self::Dqce(gate) => parts(None, Some(gate)),
            Self::Capl => parts(Some(Gate::Mlp), Some(Gate::Cosine)),
        }
    }

    /// Whether a network trained this way has an MLP for G_sup and for G_qry.
    pub fn has_mlp(self) -> [bool; 2] {
        let parts = self.training();
        [parts.sce == Some(Gate::Mlp), parts.dqce == Some(Gate::Mlp)]
    }
}

impl fmt::Display for Ablation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline => f.write_str("baseline"),
            Self::BaselinePlus => f.write_str("baseline+"),
            Self::CaplTr => f.write_str("capl-tr"),
            Self::CaplTe => f.write_str("capl-te"),
            Self::Sce(gate) => write!(f, "sce-{gate}"),
            Self::Dqce(gate) => write!(f, "dqce-{gate}"),
            Self::Capl => f.write_str("capl"),
        }
    }
}

/// A name that is not a row of the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no method `{name}`\nhint: choose one of {}", Ablation::ALL.map(|row| row.to_string()).join(", "))]
pub struct UnknownAblation {
    /// The name that was asked for.
    pub name: String,
}

impl FromStr for Ablation {
    type Err = UnknownAblation;

    fn from_str(name: &str) -> Result<Self, UnknownAblation> {
        let named = |method: &Self| method.to_string() == name;
        Self::ALL.into_iter().find(named).ok_or_else(|| UnknownAblation { name: name.to_string() })
    }
}

impl TryFrom<String> for Ablation {
    type Error = UnknownAblation;

    fn try_from(name: String) -> Result<Self, UnknownAblation> {
        name.parse()
    }
}

impl From<Ablation> for String {
    fn from(method: Ablation) -> Self {
        method.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for method in Ablation::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        assert!("capl2".parse::<Ablation>().unwrap_err().to_string().contains("sce-cos-swapped"));
    }

    #[test]
    fn only_rows_that_train_an_mlp_have_one() {
        let with = |which: usize| -> Vec<String> {
            Ablation::ALL.into_iter().filter(|m| m.has_mlp()[which]).map(|m| m.to_string()).collect()
        };
        assert_eq!(with(0), ["capl-tr", "sce-mlp", "capl"]);
        assert_eq!(with(1), ["dqce-mlp"]);
    }
}
