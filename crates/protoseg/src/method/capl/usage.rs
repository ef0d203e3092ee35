//! How a trained model is used: which parts of CAPL act when classes are registered and when an image is scored.

use std::fmt;

use burn::tensor::Tensor;
use protoseg_core::RowMap;

use super::{
    CaplWeights,
    fusion::image_prototypes,
    gate::Gate,
    options::{Options, Preset},
    register,
};
use crate::method::{cosine::scores, pooling::class_sums, support_sums::SupportSums};

/// The parts that act and the options they act by. [`Capl::usage`](super::Capl::usage) gives what a model was trained
/// for; the `with_` methods change it.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    pub(super) sce: Option<Gate>,
    pub(super) dqce: Option<Gate>,
    pub(super) options: Options,
    pub(super) gates: Gates,
}

/// The gates that a model has for each part, whether the part acts or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gates {
    pub sce: Gate,
    pub dqce: Gate,
}

/// Which parts act, by the names of the paper's ablation table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveParts {
    /// Novel prototypes beside the learned base rows.
    Baseline,
    /// SCE alone.
    Sce,
    /// DQCE alone.
    Dqce,
    /// SCE and DQCE.
    Capl,
}

impl ActiveParts {
    /// Every combination.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::Sce, Self::Dqce, Self::Capl];

    /// `baseline`, `sce`, `dqce` or `capl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Sce => "sce",
            Self::Dqce => "dqce",
            Self::Capl => "capl",
        }
    }

    /// The combination of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|parts| parts.name() == name)
    }
}

impl fmt::Display for ActiveParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Usage {
    /// Whether SCE refines the base rows when classes are registered.
    pub fn has_sce(&self) -> bool {
        self.sce.is_some()
    }

    /// Whether DQCE lets the base rows follow each image.
    pub fn has_dqce(&self) -> bool {
        self.dqce.is_some()
    }

    /// G_qry, if DQCE acts.
    pub(crate) fn dqce_gate(&self) -> Option<Gate> {
        self.dqce
    }

    /// Where the paper and its reference implementation differ.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Which parts act.
    pub fn parts(&self) -> ActiveParts {
        match (self.has_sce(), self.has_dqce()) {
            (false, false) => ActiveParts::Baseline,
            (true, false) => ActiveParts::Sce,
            (false, true) => ActiveParts::Dqce,
            (true, true) => ActiveParts::Capl,
        }
    }

    /// The name of the preset that uses a model like this; `own` if none does.
    pub fn preset(&self) -> &'static str {
        Preset::of_use(&self.options).map_or("own", Preset::name)
    }

    /// With these parts, whatever the model was trained for. A part that it was not trained with acts by the constant
    /// gate 0.5 (SCE) or by the cosine (DQCE).
    pub fn with_parts(self, parts: ActiveParts) -> Self {
        let (sce, dqce) = match parts {
            ActiveParts::Baseline => (false, false),
            ActiveParts::Sce => (true, false),
            ActiveParts::Dqce => (false, true),
            ActiveParts::Capl => (true, true),
        };
        Self { sce: sce.then_some(self.gates.sce), dqce: dqce.then_some(self.gates.dqce), ..self }
    }

    /// Without SCE.
    pub fn without_sce(self) -> Self {
        Self { sce: None, ..self }
    }

    /// Without DQCE.
    pub fn without_dqce(self) -> Self {
        Self { dqce: None, ..self }
    }

    /// With the options of a preset.
    pub fn with_preset(self, preset: Preset) -> Self {
        self.with_options(preset.options())
    }

    /// With these options.
    pub fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Whether both give the same classifier and scores. Without SCE and DQCE only the mean over shots and the final
    /// norm are left to differ in.
    pub fn is_same_use(&self, other: &Self) -> bool {
        let plain = |usage: &Self| (usage.options.shot_mean, usage.options.normalise);
        self.parts() == other.parts()
            && (self.options == other.options
                || (self.parts() == ActiveParts::Baseline && plain(self) == plain(other)))
    }
}

impl Usage {
    /// What is kept of one support.
    pub(in crate::method) fn remember(
        &self,
        features: Tensor<4>,
        labels: &RowMap,
        own: u16,
        n_base: usize,
    ) -> SupportSums {
        SupportSums::new(own, class_sums(features, labels, own, n_base))
    }

    /// The rows that supports make.
    pub(in crate::method) fn register(
        &self,
        weights: &CaplWeights,
        n_base: usize,
        n_novel: usize,
        supports: &[SupportSums],
    ) -> Result<Tensor<2>, usize> {
        let sce = self.sce.map(|gate| weights.sce(gate));
        register::register(weights.learned_base(n_base), n_novel, supports, sce, &self.options)
    }

    /// Scores of features for registered rows.
    pub(in crate::method) fn score(
        &self,
        weights: &CaplWeights,
        n_base: usize,
        rows: Tensor<2>,
        features: Tensor<4>,
    ) -> Tensor<4> {
        let dqce = self.dqce.map(|gate| weights.dqce(gate));
        let learned = weights.learned_base(n_base);
        let prototypes = image_prototypes(rows, learned, features.clone(), dqce, &self.options);
        scores(features, prototypes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::capl::{Ablation, Capl};

    fn usage(ablation: Ablation) -> Usage {
        Capl::new(ablation, Preset::Reference.options(), 4, false).usage()
    }

    #[test]
    fn a_model_is_used_as_it_was_trained() {
        assert_eq!(usage(Ablation::Baseline).parts(), ActiveParts::Baseline);
        assert_eq!(usage(Ablation::CaplTr).parts(), ActiveParts::Baseline);
        assert_eq!(usage(Ablation::Capl).parts(), ActiveParts::Capl);
        assert_eq!(usage(Ablation::Dqce(Gate::Mlp)).parts(), ActiveParts::Dqce);
        assert_eq!(usage(Ablation::CaplTe).sce, Some(Gate::UNTRAINED));
    }

    #[test]
    fn parts_can_be_asked_for_that_were_not_trained() {
        let whole = usage(Ablation::Baseline).with_parts(ActiveParts::Capl);
        assert_eq!((whole.sce, whole.dqce), (Some(Gate::UNTRAINED), Some(Gate::Cosine)));
        let whole = usage(Ablation::Dqce(Gate::CosineSwapped)).with_parts(ActiveParts::Capl);
        assert_eq!(whole.dqce, Some(Gate::CosineSwapped));
        let trained = usage(Ablation::CaplTr).with_parts(ActiveParts::Sce);
        assert_eq!(trained.sce, Some(Gate::Mlp));
    }

    #[test]
    fn presets_that_do_not_matter_to_the_baseline_are_one_use() {
        let baseline = usage(Ablation::Baseline);
        assert!(baseline.is_same_use(&baseline.clone().with_preset(Preset::Balanced)));
        assert!(!baseline.is_same_use(&baseline.clone().with_preset(Preset::Paper)));
        let whole = usage(Ablation::Capl);
        assert!(!whole.is_same_use(&whole.clone().with_preset(Preset::Balanced)));
    }
}
