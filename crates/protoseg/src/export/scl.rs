//! SCL on PFENet and on CANet: supports predict themselves first, and what that covers and misses of their masks are the two
//! vectors of the class. Every query is answered with every shot; several shots weigh in by how well they find each other.

use protoseg_core::GridPlacement;

use super::{
    ExportError,
    builder::{Builder, Value},
    canet::Refinement,
    few_shot::{Conv, Episode, masked_means, tiled},
    ops::Size,
    pfenet::{Enrichment, mid_maps, prior_maps},
    proto::data_type,
};
use crate::{
    method::{
        fem::{self, CHANNELS},
        scl::{ROUNDING, SHOTS, Scl, SclCanetWeights, SclPfenetWeights, SclWeights, TINY_AREA},
    },
    model::Model,
    network::{Section, Tap},
};

/// `[batch, 2, h, w]`, and how that lies on the canvas.
pub(super) fn scores(
    builder: &mut Builder,
    model: &Model,
    settings: &Scl,
    episode: &Episode,
) -> Result<(Value, GridPlacement), ExportError> {
    match model.network().method.scl() {
        SclWeights::Pfenet(weights) => {
            Ok((on_pfenet(builder, model, settings, weights, episode)?, GridPlacement::Corners))
        }
        SclWeights::Canet(_) if settings.scales != [1.0] => Err(ExportError::Scales),
        SclWeights::Canet(weights) => {
            Ok((on_canet(builder, model, settings, weights, episode)?, GridPlacement::Centres))
        }
    }
}

fn on_pfenet(
    builder: &mut Builder,
    model: &Model,
    settings: &Scl,
    weights: &SclPfenetWeights,
    episode: &Episode,
) -> Result<Value, ExportError> {
    let (layer3, query, support) =
        mid_maps(builder, model, episode, [&weights.down_query, &weights.down_supp])?;
    let size = layer3.size();
    let mask = episode.mask_on(builder, size);
    let prior = match settings.prior {
        true => {
            let priors = prior_maps(builder, model, episode, &layer3, &mask)?;
            Some(builder.reshape("priors", &priors, &[-1, 1, size[0] as i64, size[1] as i64]))
        }
        false => None,
    };
    let grids = fem::grids(&settings.bins, size);
    let enrichment = Enrichment::new(builder, &weights.fem, size);
    let merge = enrichment.merge(builder, "merge", &weights.init_merge, &grids);
    let supp_merge = enrichment.merge(builder, "supp_merge", &weights.supp_init_merge, &grids);

    // Pass 1: a support with its own vector, twice.
    let own = masked_means(builder, &support, &mask, TINY_AREA);
    let twice = builder.concat("own.twice", &[&own, &own], 1);
    let merged = supp_merge.of(builder, &support, &twice, None);
    let first = enrichment.of(builder, merged, None);
    let found = foreground(builder, &first.scores, 1);
    let is_own = above(builder, "mask.own", &mask, 1.0 - ROUNDING);
    let covered = builder.binary("Mul", "covered", &is_own, &found);
    let missed = builder.binary("Sub", "missed", &is_own, &covered);
    let vectors = two_means(builder, &support, [&covered, &missed]);

    let pairs = AllPairs::new(builder, episode);
    let [height, width] = size;
    let query = pairs.queries(builder, "pairs.query", &query, [CHANNELS, height, width]);
    let class = pairs.shots(builder, "pairs.vectors", &vectors, [2 * CHANNELS, 1, 1]);
    let merged = merge.of(builder, &query, &class, prior.as_ref());
    let scores = enrichment.of(builder, merged, None).scores;

    // Pass 2: every support with the vectors of every shot; grids flow from pass 1.
    let others = pairs.second(builder, "agree.support", &support, [CHANNELS, height, width]);
    let class = pairs.first(builder, "agree.vectors", &vectors, [2 * CHANNELS, 1, 1]);
    let before: Vec<Value> = (first.grids.iter().zip(&grids))
        .map(|(grid, &[height, width])| pairs.second(builder, "agree.grid", grid, [CHANNELS, height, width]))
        .collect();
    let merged = supp_merge.of(builder, &others, &class, None);
    let second = enrichment.of(builder, merged, Some(&before)).scores;
    let second = builder.resize("agree.canvas", &second, &Size::Fixed(episode.size), GridPlacement::Corners);
    let [background, class] = pairs.ious(builder, &second, episode, true);
    let both = builder.binary("Add", "agree.both", &background, &class);
    // Half of the sum; the sum over shots is divided by a constant.
    let scale = builder.scalar((0.5 / SHOTS) as f32);
    let weights = builder.binary("Mul", "agree.scaled", &both, &scale);
    let weights = builder.reduce("ReduceMean", "agree.weights", &weights, &[1]);
    let weights = pairs.unless_alone(builder, &weights);
    let scores = pairs.of_shots(builder, "scores.shots", &scores, size);
    let weighted = builder.binary("Mul", "scores.weighted", &scores, &weights);
    let sum = builder.sum("scores.sum", &weighted, 1);
    Ok(builder.reshape("grid", &sum, &[-1, 2, height as i64, width as i64]))
}

fn on_canet(
    builder: &mut Builder,
    model: &Model,
    settings: &Scl,
    weights: &SclCanetWeights,
    episode: &Episode,
) -> Result<Value, ExportError> {
    let maps = episode.maps(builder, model, &Section::Maps(vec![Tap::Stage(2), Tap::Stage(3)]))?;
    let size = maps[1].size();
    let [height, width] = size;
    let joined = builder.concat("maps", &[&maps[0].value, &maps[1].value], 1);
    let features = Conv::new(builder, "feature", &weights.feature.conv).relu(builder, &joined);
    let [query, support] = episode.split(builder, "feature", &features);
    let mask = episode.mask_on(builder, size);
    let compare = Conv::new(builder, "compare", &weights.comparison.compare);
    let refinement = Refinement::new(builder, &weights.comparison);
    let supp_first = Conv::new(builder, "supp_residual1.first", &weights.supp_residual1.first);
    let supp_second = Conv::new(builder, "supp_residual1.second", &weights.supp_residual1.second);
    let of_supports = |builder: &mut Builder, map: &Value, vectors: &Value| {
        let compared = compared(builder, &compare, map, vectors);
        let seen = builder.unary("Relu", "supp_residual1.seen", &compared);
        let begun = supp_first.of(builder, &seen);
        refinement.pass_from(builder, &supp_second, &compared, &begun)
    };

    let own = masked_means(builder, &support, &mask, TINY_AREA);
    let twice = builder.concat("own.twice", &[&own, &own], 1);
    let first = of_supports(builder, &support, &twice);
    let found = foreground(builder, &first, 1);
    let is_own = above(builder, "mask.own", &mask, 1.0 - ROUNDING);
    let covered = builder.binary("Mul", "covered", &is_own, &found);
    // Either, not both, and inside the mask.
    let sum = builder.binary("Add", "either.sum", &is_own, &found);
    let rest = builder.binary("Sub", "either.rest", &sum, &covered);
    let either = builder.binary("Sub", "either", &rest, &covered);
    let inside = above(builder, "mask.inside", &mask, ROUNDING);
    let missed = builder.binary("Mul", "missed", &either, &inside);
    let vectors = two_means(builder, &support, [&covered, &missed]);

    let pairs = AllPairs::new(builder, episode);
    let others = pairs.second(builder, "agree.support", &support, [CHANNELS, height, width]);
    let class = pairs.first(builder, "agree.vectors", &vectors, [2 * CHANNELS, 1, 1]);
    let second = of_supports(builder, &others, &class);
    let second = builder.resize("agree.canvas", &second, &Size::Fixed(episode.size), GridPlacement::Centres);
    let [_, class] = pairs.ious(builder, &second, episode, false);
    let weights = builder.reduce("ReduceMean", "agree.weights", &class, &[1]);
    let weights = pairs.unless_alone(builder, &weights);

    let query = pairs.queries(builder, "pairs.query", &query, [CHANNELS, height, width]);
    let class = pairs.shots(builder, "pairs.vectors", &vectors, [2 * CHANNELS, 1, 1]);
    let compared = compared(builder, &compare, &query, &class);
    let begun = refinement.begin(builder, &compared);
    let mut scores: Option<Value> = None;
    for _ in 0..settings.iterations {
        let begun = match &scores {
            None => begun.clone(),
            Some(scores) => {
                let canvas = Size::Fixed(episode.size);
                let scores = builder.resize("history.canvas", scores, &canvas, GridPlacement::Centres);
                let history = builder.softmax("history", &scores, 1);
                let history =
                    builder.resize("history.map", &history, &Size::Fixed(size), GridPlacement::Corners);
                let history = pairs.queries(builder, "history.pairs", &history, [2, height, width]);
                refinement.remembered(builder, &begun, &history)
            }
        };
        let each = refinement.pass(builder, &compared, &begun);
        let each = pairs.of_shots(builder, "scores.shots", &each, size);
        let weighted = builder.binary("Mul", "scores.weighted", &each, &weights);
        let mean = builder.reduce("ReduceMean", "scores.mean", &weighted, &[1]);
        scores = Some(builder.reshape("scores.map", &mean, &[-1, 2, height as i64, width as i64]));
    }
    Ok(scores.expect("there is a pass"))
}

/// A map beside its vectors, through the first convolution.
fn compared(builder: &mut Builder, compare: &Conv, map: &Value, vectors: &Value) -> Value {
    let vectors = tiled(builder, "vectors.tiled", vectors, map);
    let both = builder.concat("comparison", &[map, &vectors], 1);
    compare.relu(builder, &both)
}

/// z1 and z2, one after the other: `[n, 512, 1, 1]`.
fn two_means(builder: &mut Builder, map: &Value, parts: [&Value; 2]) -> Value {
    let [first, second] = parts.map(|part| masked_means(builder, map, part, TINY_AREA));
    builder.concat("vectors", &[&first, &second], 1)
}

/// Where the foreground has more than the background, along this axis of rows: 1 or 0.
fn foreground(builder: &mut Builder, scores: &Value, axis: i64) -> Value {
    let background = builder.slice("found.background", scores, axis, 0, Some(1));
    let foreground = builder.slice("found.foreground", scores, axis, 1, Some(2));
    let found = builder.binary("Greater", "found.is", &foreground, &background);
    builder.cast("found", &found, data_type::FLOAT)
}

/// 1 where a value is above this, else 0.
fn above(builder: &mut Builder, name: &str, x: &Value, least: f64) -> Value {
    let least = builder.scalar(least as f32);
    let is_above = builder.binary("Greater", &format!("{name}.is"), x, &least);
    builder.cast(name, &is_above, data_type::FLOAT)
}

/// Pairs of queries and shots, and of shots and shots, each as one batch.
struct AllPairs {
    queries: Value,
    shots: Value,
}

impl AllPairs {
    fn new(builder: &mut Builder, episode: &Episode) -> Self {
        Self { queries: episode.queries.clone(), shots: builder.shape("shots", &episode.masks, 0, Some(1)) }
    }

    /// What belongs to queries, for every pair of a query and a shot.
    fn queries(&self, builder: &mut Builder, name: &str, x: &Value, shape: [usize; 3]) -> Value {
        repeated(builder, name, x, shape, &self.shots, true)
    }

    /// What belongs to shots, for every pair of a query and a shot.
    fn shots(&self, builder: &mut Builder, name: &str, x: &Value, shape: [usize; 3]) -> Value {
        repeated(builder, name, x, shape, &self.queries, false)
    }

    /// What belongs to the first shot of each pair of shots.
    fn first(&self, builder: &mut Builder, name: &str, x: &Value, shape: [usize; 3]) -> Value {
        repeated(builder, name, x, shape, &self.shots, true)
    }

    /// What belongs to the second.
    fn second(&self, builder: &mut Builder, name: &str, x: &Value, shape: [usize; 3]) -> Value {
        repeated(builder, name, x, shape, &self.shots, false)
    }

    /// Scores of all pairs of a query and a shot as `[batch, shots, 2, h, w]`.
    fn of_shots(
        &self,
        builder: &mut Builder,
        name: &str,
        scores: &Value,
        [height, width]: [usize; 2],
    ) -> Value {
        let (open, rest) = (builder.ints(&[-1]), builder.ints(&[2, height as i64, width as i64]));
        let shape = builder.concat(&format!("{name}.shape"), &[&open, &self.shots, &rest], 0);
        builder.binary("Reshape", name, scores, &shape)
    }

    /// Weights `[shots, 1, 1]` as `[1, shots, 1, 1, 1]`; 1 for a shot that is alone.
    fn unless_alone(&self, builder: &mut Builder, weights: &Value) -> Value {
        let weights = builder.reshape("weights", weights, &[1, -1, 1, 1, 1]);
        let one = builder.ints(&[1]);
        let is_alone = builder.binary("Equal", "is_alone", &self.shots, &one);
        let full = builder.scalar(1.0);
        builder.node("Where", "weights.of_shots", &[&is_alone, &full, &weights], Vec::new())
    }

    /// IoU of background and of foreground for pairs of shots, from scores on the canvas: `[shots, shots, 1]` each. Pixels
    /// without a label are left out, or are background.
    fn ious(&self, builder: &mut Builder, scores: &Value, episode: &Episode, leaves_out: bool) -> [Value; 2] {
        let [height, width] = episode.size;
        let pixels = (height * width) as i64;
        let found = foreground(builder, scores, 1);
        let shape = builder.ints(&[-1, pixels]);
        let shape = builder.concat("iou.shape", &[&self.shots, &shape], 0);
        let found = builder.binary("Reshape", "iou.found", &found, &shape);
        let masks = builder.reshape("iou.masks", &episode.masks, &[1, -1, pixels]);
        let class = builder.scalar(1.0);
        let is_class = builder.binary("Equal", "iou.is_class", &masks, &class);
        let truth = builder.cast("iou.truth", &is_class, data_type::FLOAT);
        let one = builder.scalar(1.0);
        let (not_found, not_truth) = (
            builder.binary("Sub", "iou.not_found", &one, &found),
            builder.binary("Sub", "iou.not_truth", &one, &truth),
        );
        let judged = leaves_out.then(|| {
            // 1 for all but 255.
            let none = builder.scalar(254.5);
            let is_judged = builder.binary("Less", "iou.is_judged", &masks, &none);
            builder.cast("iou.judged", &is_judged, data_type::FLOAT)
        });
        let counted = |builder: &mut Builder, x: &Value| {
            let x = match &judged {
                Some(judged) => builder.binary("Mul", "iou.known", x, judged),
                None => x.clone(),
            };
            builder.sum("iou.count", &x, 2)
        };
        [[not_found, not_truth], [found, truth]].map(|[found, truth]| {
            let both = builder.binary("Mul", "iou.both", &found, &truth);
            let either = builder.binary("Max", "iou.either", &found, &truth);
            let (both, either) = (counted(builder, &both), counted(builder, &either));
            let either = builder.binary("Max", "iou.either.some", &either, &one);
            builder.binary("Div", "iou", &both, &either)
        })
    }
}

/// `[n, ..]` repeated `count` times: each by itself, or all of them one after the other.
fn repeated(
    builder: &mut Builder,
    name: &str,
    x: &Value,
    shape: [usize; 3],
    count: &Value,
    each: bool,
) -> Value {
    let [channels, height, width] = shape.map(|side| side as i64);
    let before = if each { [-1, 1] } else { [1, -1] };
    let x = builder.reshape(&format!("{name}.one"), x, &[before[0], before[1], channels, height, width]);
    let one = builder.ints(&[1]);
    let rest = builder.ints(&[1, 1, 1]);
    let counts = if each { [&one, count, &rest] } else { [count, &one, &rest] };
    let counts = builder.concat(&format!("{name}.counts"), &counts, 0);
    let all = builder.binary("Expand", &format!("{name}.all"), &x, &counts);
    builder.reshape(name, &all, &[-1, channels, height, width])
}
