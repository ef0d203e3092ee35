//! A head trained on the same features by CAPL, with fake novel classes. It separates base classes and background well;
//! the prototypes beside it keep what ImageNet taught about classes to come. The product of both answers is better than
//! either.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

use crate::{
    config::ConfigError,
    graph::{Graph, Node},
    method::{
        BaseClasses, FeatureShape, Losses,
        capl::{self, Capl, CaplWeights, Options, Preset, loss},
        support_sums::{ClassSum, SupportSums},
    },
    nn::{Conv, ConvNorm, Dropout2d},
};
use protoseg_core::RowMap;
use rand::Rng;

/// The head's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadSettings {
    /// Channels between its two layers.
    pub hidden: usize,
    /// Dimension of its features.
    pub dim: usize,
    /// How it is trained and used.
    pub capl: Capl,
}

impl HeadSettings {
    /// For a classifier of this many base classes.
    pub fn new(n_base: usize) -> Self {
        let options = Options { novel_rows: false, ..Preset::Balanced.options() };
        Self { hidden: 512, dim: 256, capl: Capl::new(capl::Ablation::Capl, options, n_base, false) }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(8..=4096).contains(&self.dim) || !(8..=4096).contains(&self.hidden) {
            let got = format!("{}, {}", self.hidden, self.dim);
            return Err(ConfigError::new("head.hidden, head.dim", got, "numbers from 8 to 4096"));
        }
        self.capl.validate()
    }

    /// With fresh weights, on features of `from` channels.
    pub(crate) fn init(&self, from: usize, device: &Device) -> Head {
        let shape = FeatureShape {
            dim: self.dim,
            before_last: self.dim,
            stages: Vec::new(),
            blocks: Vec::new(),
            dropout: 0.1,
        };
        Head {
            hidden: ConvNorm::new(Conv::new(from, self.hidden, 1), device),
            dropout: Dropout2d::new(shape.dropout),
            out: Conv::new(self.hidden, self.dim, 1).bias().init(device),
            capl: self.capl.init(&shape, device),
        }
    }
}

/// 1x1 convolution, batch-norm, ReLU, channel dropout, 1x1 convolution; then CAPL.
#[derive(Module, Debug)]
pub struct Head {
    hidden: ConvNorm,
    dropout: Dropout2d,
    out: Conv2d,
    /// Base rows and gates.
    pub capl: CaplWeights,
}

impl Head {
    /// `[batch, d, h, w]` -> `[batch, d of the head, h, w]`, signed.
    pub(crate) fn features(&self, features: Tensor<4>) -> Tensor<4> {
        let (mut graph, input) = Graph::new();
        let out = self.describe(&mut graph, input);
        graph.run_to(features, out)
    }

    /// Its layers on the node of the features; returns the node of its own.
    pub(crate) fn describe<'a>(&'a self, graph: &mut Graph<'a>, x: Node) -> Node {
        let x = graph.conv_norm("head.hidden", &self.hidden, x);
        let x = graph.relu(x);
        let x = graph.dropout(&self.dropout, x);
        graph.conv("head.out", &self.out, x)
    }

    /// The losses of a batch of features `[batch, d, h, w]` and their labels, of which the last half plays the supports.
    pub(crate) fn losses(
        &self,
        settings: &Capl,
        features: Tensor<4>,
        labels: &[RowMap],
        base: BaseClasses,
        rng: &mut impl Rng,
    ) -> Losses {
        let features = self.features(features);
        let [_, _, height, width] = features.dims();
        let roles = settings.draw_roles(labels, [height, width], base, rng);
        loss::feature_losses(
            &self.capl,
            (features, None),
            labels,
            base.count,
            &roles,
            settings.ablation.training(),
            &settings.options,
        )
    }
}

/// What supports say in the head's space: the part of their sums after the first `dim` values.
pub(super) fn head_sums(supports: &[SupportSums], dim: usize) -> Vec<SupportSums> {
    let part = |sum: &ClassSum| ClassSum { row: sum.row, sum: sum.sum[dim..].to_vec(), count: sum.count };
    supports
        .iter()
        .map(|support| SupportSums::new(support.novel, support.sums.iter().map(part).collect()))
        .collect()
}
