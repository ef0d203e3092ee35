//! CANet: the query is compared with the mean vector of the supports, and the answer is refined pass by pass. All passes
//! are in the file and share their weights.

use super::{
    ExportError,
    builder::{Builder, Value},
    few_shot::{Conv, Episode, masked_means, tiled},
};
use crate::{
    method::{
        canet::{Canet, Comparison, Residual, TINY_AREA},
        fem::CHANNELS,
    },
    model::Model,
    network::{Section, Tap},
};

/// `[batch, 2, h, w]` on the grid of the map.
pub(super) fn scores(
    builder: &mut Builder,
    model: &Model,
    settings: &Canet,
    episode: &Episode,
) -> Result<Value, ExportError> {
    let weights = model.network().method.canet();
    let maps = episode.maps(builder, model, &Section::Maps(vec![Tap::Stage(2), Tap::Stage(3)]))?;
    let joined = builder.concat("maps", &[&maps[0].value, &maps[1].value], 1);
    let features = Conv::new(builder, "feature", &weights.feature.conv).relu(builder, &joined);
    let [query, support] = episode.split(builder, "feature", &features);
    let mask = episode.mask_on(builder, maps[1].size());
    let vectors = masked_means(builder, &support, &mask, TINY_AREA);
    let vector = builder.reduce("ReduceMean", "vector", &vectors, &[0]);

    let comparison = &weights.comparison;
    let vector = tiled(builder, "vector.tiled", &vector, &query);
    let both = builder.concat("comparison", &[&query, &vector], 1);
    let compared = Conv::new(builder, "compare", &comparison.compare).relu(builder, &both);
    let refinement = Refinement::new(builder, comparison);
    let begun = refinement.begin(builder, &compared);
    let mut scores = refinement.pass(builder, &compared, &begun);
    for _ in 1..settings.iterations {
        let history = builder.softmax("history", &scores, 1);
        let begun = refinement.remembered(builder, &begun, &history);
        scores = refinement.pass(builder, &compared, &begun);
    }
    Ok(scores)
}

/// Everything after the comparison.
pub(super) struct Refinement {
    /// The first convolution of the first residual block, of the map and of the history.
    begin: Conv,
    remember: Conv,
    finish: Conv,
    later: [[Conv; 2]; 2],
    aspp: Vec<Conv>,
    fuse: Conv,
    out: Conv,
}

impl Refinement {
    pub fn new(builder: &mut Builder, comparison: &Comparison) -> Self {
        let Residual { first, second } = &comparison.residual1;
        let history = CHANNELS..CHANNELS + 2;
        let mut later = |name: &str, residual: &Residual| {
            let first = Conv::new(builder, &format!("{name}.first"), &residual.first);
            [first, Conv::new(builder, &format!("{name}.second"), &residual.second)]
        };
        let later = [later("residual2", &comparison.residual2), later("residual3", &comparison.residual3)];
        Self {
            begin: Conv::of_channels(builder, "residual1.first", first, 0..CHANNELS, true),
            remember: Conv::of_channels(builder, "residual1.history", first, history, false),
            finish: Conv::new(builder, "residual1.second", second),
            later,
            aspp: (0..)
                .zip(&comparison.aspp)
                .map(|(i, conv)| Conv::new(builder, &format!("aspp.{i}"), conv))
                .collect(),
            fuse: Conv::new(builder, "fuse", &comparison.fuse),
            out: Conv::new(builder, "out", &comparison.out),
        }
    }

    /// What all passes begin with. Only the history changes from pass to pass.
    pub fn begin(&self, builder: &mut Builder, compared: &Value) -> Value {
        let seen = builder.unary("Relu", "residual1.seen", compared);
        self.begin.of(builder, &seen)
    }

    /// The same with a history, `[n, 2, h, w]`.
    pub fn remembered(&self, builder: &mut Builder, begun: &Value, history: &Value) -> Value {
        let remembered = self.remember.of(builder, history);
        builder.binary("Add", "residual1.remembered", begun, &remembered)
    }

    /// Scores of one pass, `[n, 2, h, w]`.
    pub fn pass(&self, builder: &mut Builder, compared: &Value, begun: &Value) -> Value {
        self.pass_from(builder, &self.finish, compared, begun)
    }

    /// The same with another second convolution of the first block.
    pub fn pass_from(&self, builder: &mut Builder, finish: &Conv, compared: &Value, begun: &Value) -> Value {
        let begun = builder.unary("Relu", "residual1.relu", begun);
        let residual = finish.of(builder, &begun);
        let mut x = builder.binary("Add", "residual1", compared, &residual);
        for [first, second] in &self.later {
            let seen = builder.unary("Relu", "residual.seen", &x);
            let inner = first.relu(builder, &seen);
            let residual = second.of(builder, &inner);
            x = builder.binary("Add", "residual", &x, &residual);
        }
        let mean = builder.unary("GlobalAveragePool", "aspp.mean", &x);
        let mean = self.aspp[0].relu(builder, &mean);
        let mut branches = vec![tiled(builder, "aspp.tiled", &mean, &x)];
        branches.extend(self.aspp[1..].iter().map(|conv| conv.relu(builder, &x)));
        let joined = builder.concat("aspp", &branches.iter().collect::<Vec<_>>(), 1);
        let fused = self.fuse.relu(builder, &joined);
        self.out.of(builder, &fused)
    }
}
