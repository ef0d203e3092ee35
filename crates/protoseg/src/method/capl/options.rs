//! Where the paper and its reference implementation differ, and our own preset.
//!
//! Each field is one row, a to j, of the table in `docs/method.md`. `reference` is what produced the released models
//! and what our golden tests check; `paper` is the equations as printed; `balanced` is ours.

use serde::{Deserialize, Serialize};

/// Row a: which prototype the gate of (6) weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateWeighs {
    /// `g p_qry + (1 - g) p_cls`: the reference, and the paper's prose.
    Query,
    /// `g p_cls + (1 - g) p_qry`: equation (6) as printed.
    Class,
}

/// Row c: the scale of `p_dyn` in the sum (7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fusion {
    /// As it comes. Trained rows have a norm near 22, so `p_dyn` outweighs the unit-norm `p`.
    Raw,
    /// Scaled to unit norm, so that both terms count alike.
    Unit,
}

/// Row d: how K supports make one prototype (1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShotMean {
    /// One mean over the pixels of all K images.
    Pooled,
    /// The mean of the K images' means.
    PerImage,
}

/// Row e: over what the support base prototypes (3) are pooled at registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextPool {
    /// A mean for each novel class over its own supports (the raw row where the base class does not occur), then the
    /// mean of those.
    PerClass,
    /// One mean over all supports in which the base class occurs.
    AllSupports,
}

/// Row f: what is L2-normalised on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalise {
    /// Training: features per pixel before pooling, and classifier rows. Registration: both inputs of the gate and of
    /// the mix, and every row at the end.
    Reference,
    /// Nothing, as the paper prints it.
    Nothing,
}

/// Row g: the background in training (8). At registration and in DQCE it is always enriched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackgroundRule {
    /// Never drawn as fake novel or fake context; enriched half of the time when it is present. Where a data set has no
    /// background, no row stands apart.
    Apart,
    /// The same for row 0 of the base classes, whatever it is: the reference on a data set without a background.
    FirstRow,
    /// A class like any other.
    Ordinary,
}

impl BackgroundRule {
    /// The row that stands apart when roles are drawn, if any.
    pub fn row_apart(self, has_background: bool) -> Option<u16> {
        match self {
            Self::Apart => has_background.then_some(0),
            Self::FirstRow => Some(0),
            Self::Ordinary => None,
        }
    }
}

/// Row h: how many images of a batch are the fake support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FakeSupport {
    /// The last ceil(B / 2).
    Ceil,
    /// The last floor(B / 2).
    Floor,
}

/// Row i: weights of the cross-entropies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossWeights {
    /// On the final prediction.
    pub full: f64,
    /// On the prediction from SCE's prototypes alone, without DQCE.
    pub sce_only: f64,
    /// On the auxiliary head's prediction.
    pub aux: f64,
}

/// Rows a to j.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// a
    pub query_gate_weighs: GateWeighs,
    /// b: negative cosines of the query gate count as zero.
    pub query_gate_clamp: bool,
    /// c
    pub fusion: Fusion,
    /// d
    pub shot_mean: ShotMean,
    /// e
    pub context_pool: ContextPool,
    /// f
    pub normalise: Normalise,
    /// g
    pub background: BackgroundRule,
    /// h
    pub fake_support: FakeSupport,
    /// i
    pub loss: LossWeights,
    /// j: the classifier has rows for the novel classes while it trains (random, never targets, so negatives).
    pub novel_rows: bool,
}

/// A named set of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// What produced the released models.
    Reference,
    /// The equations as printed.
    Paper,
    /// Ours: both terms of (7) count alike.
    Balanced,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 3] = [Self::Reference, Self::Paper, Self::Balanced];

    /// Its options.
    pub fn options(self) -> Options {
        match self {
            Self::Reference => Options {
                query_gate_weighs: GateWeighs::Query,
                query_gate_clamp: true,
                fusion: Fusion::Raw,
                shot_mean: ShotMean::Pooled,
                context_pool: ContextPool::PerClass,
                normalise: Normalise::Reference,
                background: BackgroundRule::Apart,
                fake_support: FakeSupport::Ceil,
                loss: LossWeights { full: 0.5, sce_only: 0.5, aux: 0.4 },
                novel_rows: true,
            },
            Self::Paper => Options {
                query_gate_weighs: GateWeighs::Class,
                query_gate_clamp: false,
                fusion: Fusion::Raw,
                shot_mean: ShotMean::PerImage,
                context_pool: ContextPool::AllSupports,
                normalise: Normalise::Nothing,
                background: BackgroundRule::Ordinary,
                fake_support: FakeSupport::Floor,
                loss: LossWeights { full: 1.0, sce_only: 0.0, aux: 0.0 },
                novel_rows: false,
            },
            Self::Balanced => Options {
                fusion: Fusion::Unit,
                context_pool: ContextPool::AllSupports,
                ..Self::Reference.options()
            },
        }
    }

    /// The preset that has exactly these options.
    pub fn of(options: &Options) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.options() == *options)
    }

    /// The preset that uses a trained model as these options do: rows a to f.
    pub fn of_use(options: &Options) -> Option<Self> {
        let same_use = |preset: &Self| {
            let Options { background, fake_support, loss, novel_rows, .. } = options.clone();
            Options { background, fake_support, loss, novel_rows, ..preset.options() } == *options
        };
        Self::ALL.into_iter().find(same_use)
    }

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Paper => "paper",
            Self::Balanced => "balanced",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_differs_from_reference_in_every_row_but_fusion_which_it_leaves_unsaid() {
        let (a, b) = (Preset::Reference.options(), Preset::Paper.options());
        assert_ne!(a.query_gate_weighs, b.query_gate_weighs);
        assert_ne!(a.query_gate_clamp, b.query_gate_clamp);
        assert_eq!(a.fusion, b.fusion);
        assert_ne!(a.shot_mean, b.shot_mean);
        assert_ne!(a.context_pool, b.context_pool);
        assert_ne!(a.normalise, b.normalise);
        assert_ne!(a.background, b.background);
        assert_ne!(a.fake_support, b.fake_support);
        assert_ne!(a.loss, b.loss);
        assert_ne!(a.novel_rows, b.novel_rows);
    }

    #[test]
    fn balanced_is_the_reference_but_for_rows_c_and_e() {
        let mut balanced = Preset::Balanced.options();
        assert_eq!(Preset::of(&balanced), Some(Preset::Balanced));
        balanced.fusion = Fusion::Raw;
        assert_eq!(Preset::of(&balanced), None);
        balanced.context_pool = ContextPool::PerClass;
        assert_eq!(Preset::of(&balanced), Some(Preset::Reference));
        balanced.background = BackgroundRule::FirstRow;
        assert_eq!((Preset::of(&balanced), Preset::of_use(&balanced)), (None, Some(Preset::Reference)));
    }
}
