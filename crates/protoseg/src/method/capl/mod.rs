//! CAPL, Context-Aware Prototype Learning (CVPR 2022): the paper, one idea per file.
//!
//! | equation | what | where |
//! |---|---|---|
//! | (1), (3) | prototypes by masked pooling | [`pooling`](super::pooling) |
//! | (2) | cosine scores | [`cosine`](super::cosine) |
//! | (4) | SCE: base prototypes enriched by the supports' context | [`register`] |
//! | (5), (6) | DQCE: base prototypes that follow the query image | [`dqce`] |
//! | (7) | the sum of both: the classifier of one image | [`fusion`] |
//! | (8) | fake novel and fake context classes while training | [`fake`] |
//! | G | the gates that weigh old against new | [`gate`] |
//! | loss | cross-entropies of the final, the SCE-only and the auxiliary prediction | [`loss`] |
//!
//! [`options`] names every point in which the paper and its reference implementation differ, [`ablation`] the rows of
//! the paper's ablation table, and [`usage`] says which parts act on a trained model.

pub mod ablation;
pub mod dqce;
pub mod fake;
pub mod fusion;
pub mod gate;
pub mod loss;
pub mod options;
pub mod register;
pub mod usage;

use burn::{
    module::{Initializer, Module, Param},
    tensor::{Device, Tensor},
};
use protoseg_core::RowMap;
use rand::Rng;
use serde::{Deserialize, Serialize};

pub use ablation::{Ablation, Parts};
pub use options::{Options, Preset};
pub use usage::Usage;

use self::{
    dqce::Dqce,
    fake::{FakeRoles, fake_support_start, present_classes},
    gate::{GammaMlp, Gate},
    register::Sce,
};
use super::{BaseClasses, FeatureShape, Images, Losses};
use crate::{config::ConfigError, decoder::Projector, network::Network};

/// CAPL with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capl {
    /// The row of the ablation table that the model was trained as.
    #[serde(rename = "row")]
    pub ablation: Ablation,
    /// Where the paper and its reference implementation differ.
    pub options: Options,
    /// Rows of the classifier.
    pub rows: usize,
    /// A second, shallower head on the encoder's last map but one, for training only.
    pub aux_head: bool,
    /// G_sup has a trained network of its own (the paper's best SCE).
    pub support_mlp: bool,
    /// G_qry has one (an ablation; the paper's best DQCE has none).
    pub query_mlp: bool,
}

/// What CAPL adds to encoder and decoder.
#[derive(Module, Debug)]
pub struct CaplWeights {
    /// The auxiliary head.
    pub aux_head: Option<Projector>,
    /// P_cls, `[rows, d]`
    pub classifier: Param<Tensor<2>>,
    /// `[rows, d / 2]`
    pub aux_classifier: Option<Param<Tensor<2>>>,
    /// G_sup.
    pub gamma_support: Option<GammaMlp>,
    /// G_qry.
    pub gamma_query: Option<GammaMlp>,
}

impl Capl {
    /// The reference's settings: CAPL with an auxiliary head.
    pub fn reference(rows: usize) -> Self {
        Self::new(Ablation::Capl, Preset::Reference.options(), rows, true)
    }

    /// With the gates that this row of the table trains.
    pub fn new(ablation: Ablation, options: Options, rows: usize, aux_head: bool) -> Self {
        let [support_mlp, query_mlp] = ablation.has_mlp();
        Self { ablation, options, rows, aux_head, support_mlp, query_mlp }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.rows == 0 || self.rows >= usize::from(u16::MAX) {
            return Err(ConfigError::new("rows", self.rows, "1 to 65534 classifier rows"));
        }
        Ok(())
    }

    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> CaplWeights {
        let &FeatureShape { dim, before_last, dropout, .. } = shape;
        let prototypes = |dim| Initializer::Normal { mean: 0.0, std: 1.0 }.init([self.rows, dim], device);
        CaplWeights {
            aux_head: self.aux_head.then(|| Projector::new(before_last, dim / 2, dropout, device)),
            classifier: prototypes(dim),
            aux_classifier: self.aux_head.then(|| prototypes(dim / 2)),
            gamma_support: self.support_mlp.then(|| GammaMlp::new(dim, device)),
            gamma_query: self.query_mlp.then(|| GammaMlp::new(dim, device)),
        }
    }

    /// The parts that act at registration and on an image: those the model was trained for. This is the only place that
    /// says so.
    pub fn usage(&self) -> Usage {
        let Parts { sce, dqce, .. } = self.ablation.inference();
        let gates = self.gates();
        let sce = sce.map(|gate| if gate == Gate::Mlp { gates.sce } else { gate });
        Usage { sce, dqce, options: self.options.clone(), gates }
    }

    /// The gates to use for parts that the model was not trained with.
    fn gates(&self) -> usage::Gates {
        let own = self.ablation.inference();
        let sce = match own.sce {
            Some(gate) if gate != Gate::Mlp => gate,
            _ if self.support_mlp => Gate::Mlp,
            _ => Gate::UNTRAINED,
        };
        usage::Gates { sce, dqce: own.dqce.unwrap_or(Gate::Cosine) }
    }

    /// Draws the roles of (8) for a batch with these labels, on a grid of `[height, width]`.
    pub(super) fn draw_roles(
        &self,
        labels: &[RowMap],
        map: [usize; 2],
        base: BaseClasses,
        rng: &mut impl Rng,
    ) -> FakeRoles {
        let support = &labels[fake_support_start(labels.len(), self.options.fake_support)..];
        let present = present_classes(support, map);
        let apart = self.options.background.row_apart(base.has_background);
        FakeRoles::draw(&present, apart, rng)
    }

    /// Draws the roles of (8) and gives the losses of a batch.
    pub(super) fn losses(
        &self,
        network: &Network,
        base: BaseClasses,
        batch: &Images<'_>,
        rng: &mut impl Rng,
    ) -> Losses {
        let [_, _, height, width] = batch.images.dims();
        let map = network.encoder.map_size([height, width]);
        let roles = self.draw_roles(batch.labels, map, base, rng);
        loss::batch_losses(network, batch, base.count, &roles, self.ablation.training(), &self.options)
    }
}

impl CaplWeights {
    /// The learned rows of the base classes, `[base, d]`.
    pub fn learned_base(&self, n_base: usize) -> Tensor<2> {
        self.classifier.val().slice_dim(0, 0..n_base)
    }

    /// SCE with this gate.
    pub fn sce(&self, gate: Gate) -> Sce<'_> {
        Sce { gate, mlp: self.gamma_support.as_ref() }
    }

    /// DQCE with this gate.
    pub fn dqce(&self, gate: Gate) -> Dqce<'_> {
        Dqce { gate, mlp: self.gamma_query.as_ref() }
    }
}
