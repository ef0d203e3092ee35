//! HSNet: cosines of all pairs of cells of query and support, squeezed by convolutions over pairs. Every query is paired
//! with every shot; several shots vote.

use protoseg_core::GridPlacement;

use super::{
    ExportError,
    builder::{Builder, Value},
    few_shot::{Conv, Episode, Map},
    ops::Size,
    proto::data_type,
};
use crate::{
    method::hsnet::{
        HsnetWeights,
        centre_pivot::{EPSILON, GROUPS, PivotBlock},
        hypercorrelation::TINY_NORM,
        learner::{STAGES, nearest_cells},
    },
    model::Model,
    network::{Section, Tap},
};

/// Values for pairs of cells: `[n * support cells, channels, query height, query width]`, where n counts the pairs of images.
struct Pairs {
    maps: Value,
    channels: usize,
    query: [usize; 2],
    support: [usize; 2],
}

/// `[batch, 2, height, width]` on the canvas.
pub(super) fn scores(builder: &mut Builder, model: &Model, episode: &Episode) -> Result<Value, ExportError> {
    let weights = model.network().method.hsnet();
    let maps = episode.maps(builder, model, &Section::Maps(STAGES.map(Tap::Blocks).to_vec()))?;
    let [stage4, stage3, stage2] =
        [4, 3, 2].map(|stage| squeeze(builder, weights, episode, stage, weights.of_stage(&maps, stage)));
    let mixed = mix(builder, "mix43", &weights.mix43, stage4, stage3);
    let mixed = mix(builder, "mix32", &weights.mix32, mixed, stage2);
    let decoded = decode(builder, weights, mixed);
    let [height, width] = episode.size;
    let scores =
        builder.resize("shots.canvas", &decoded, &Size::Fixed([height, width]), GridPlacement::Corners);
    // [batch, shots, 2, height, width]
    let shots = builder.shape("shots", &episode.masks, 0, Some(1));
    let (open, rest) = (builder.ints(&[-1]), builder.ints(&[2, height as i64, width as i64]));
    let shape = builder.concat("shots.shape", &[&open, &shots, &rest], 0);
    let scores = builder.binary("Reshape", "shots.scores", &scores, &shape);
    Ok(answer(builder, &scores, &shots, [height, width]))
}

/// One shot answers by itself. Of several, each finds foreground or not, and half of the most votes of an image are enough.
fn answer(builder: &mut Builder, scores: &Value, shots: &Value, [height, width]: [usize; 2]) -> Value {
    let size = [-1, 2, height as i64, width as i64];
    let alone = builder.reduce("ReduceMean", "alone.mean", scores, &[1]);
    let alone = builder.reshape("alone", &alone, &size);
    let background = builder.slice("votes.background", scores, 2, 0, Some(1));
    let foreground = builder.slice("votes.foreground", scores, 2, 1, Some(2));
    let found = builder.binary("Greater", "votes.found", &foreground, &background);
    let found = builder.cast("votes.each", &found, data_type::FLOAT);
    let votes = builder.sum("votes", &found, 1);
    let most = builder.reduce("ReduceMax", "votes.most", &votes, &[3, 4]);
    let one = builder.scalar(1.0);
    let most = builder.binary("Max", "votes.most.some", &most, &one);
    let against = builder.binary("Sub", "votes.against", &most, &votes);
    let quarter = builder.scalar(0.25);
    let raised = builder.binary("Add", "votes.raised", &votes, &quarter);
    let both = builder.concat("votes.both", &[&against, &raised], 2);
    let shares = builder.binary("Div", "votes.shares", &both, &most);
    let voted = builder.reshape("voted", &shares, &size);
    let only = builder.ints(&[1]);
    let is_alone = builder.binary("Equal", "is_alone", shots, &only);
    builder.node("Where", "answer", &[&is_alone, &alone, &voted], Vec::new())
}

/// The squeezed correlations of one stage, from the maps of its blocks.
fn squeeze(
    builder: &mut Builder,
    weights: &HsnetWeights,
    episode: &Episode,
    stage: usize,
    maps: &[Map],
) -> Pairs {
    let name = format!("stage{stage}");
    let size = maps[0].size();
    let mask = episode.mask_on(builder, size);
    let blocks: Vec<Value> = (maps.iter().enumerate())
        .map(|(i, map)| correlate(builder, &format!("{name}.block{i}"), episode, map, &mask))
        .collect();
    let turned = builder.concat(&name, &blocks.iter().collect::<Vec<_>>(), 1);
    let (first, rest) = weights.squeeze_of(stage).split_first().expect("there are three");
    let squeezed =
        block_turned(builder, &format!("{name}.squeeze0"), first, &turned, maps.len(), (size, size));
    rest.iter().enumerate().fold(squeezed, |pairs, (i, block)| {
        self::block(builder, &format!("{name}.squeeze{}", i + 1), block, pairs)
    })
}

/// Cosines of all pairs of cells, at least 0: `[n * query cells, 1, support height, support width]`.
fn correlate(builder: &mut Builder, name: &str, episode: &Episode, map: &Map, mask: &Value) -> Value {
    let [query, support] = episode.split(builder, name, &map.value);
    let support = builder.binary("Mul", &format!("{name}.masked"), &support, mask);
    let [height, width, dim] = map.shape.map(|side| side as i64);
    let mut unit = |part: &str, value: &Value, shape: [i64; 4]| {
        let cells = builder.reshape(&format!("{name}.{part}.cells"), value, &shape);
        let norms = builder.reduce("ReduceL2", &format!("{name}.{part}.norms"), &cells, &[2]);
        let tiny = builder.scalar(TINY_NORM as f32);
        let norms = builder.binary("Add", &format!("{name}.{part}.norms.some"), &norms, &tiny);
        builder.binary("Div", &format!("{name}.{part}.unit"), &cells, &norms)
    };
    let query = unit("query", &query, [-1, 1, dim, height * width]);
    let support = unit("support", &support, [1, -1, dim, height * width]);
    let query = builder.transpose(&format!("{name}.query.turned"), &query, &[0, 1, 3, 2]);
    let cosines = builder.binary("MatMul", &format!("{name}.cosines"), &query, &support);
    let cosines = builder.unary("Relu", &format!("{name}.relu"), &cosines);
    builder.reshape(&format!("{name}.pairs"), &cosines, &[-1, 1, height, width])
}

/// A convolution over pairs, group normalisation, ReLU.
fn block(builder: &mut Builder, name: &str, block: &PivotBlock, pairs: Pairs) -> Pairs {
    let Pairs { maps, channels, query, support } = pairs;
    let turned = turn(builder, &format!("{name}.turned"), &maps, channels, (support, query));
    block_turned(builder, name, block, &turned, channels, (query, support))
}

/// The same of pairs as maps over the support's cells: `[n * query cells, channels, height, width]`.
fn block_turned(
    builder: &mut Builder,
    name: &str,
    block: &PivotBlock,
    pairs: &Value,
    from: usize,
    (query, support): ([usize; 2], [usize; 2]),
) -> Pairs {
    let [to, ..]: [usize; 4] = block.conv1.weight.lazy_shape().dims();
    let kept = block.support_after(support);
    let over_support = Conv::new(builder, &format!("{name}.conv2"), &block.conv2).of(builder, pairs);
    let over_support = turn(builder, &format!("{name}.over_support"), &over_support, to, (query, kept));
    let stride = block.conv2.stride[0] as i64;
    let pruned = match stride {
        1 => pairs.clone(),
        _ => {
            let (zeros, ends) = (builder.ints(&[0, 0]), builder.ints(&[i64::from(i32::MAX); 2]));
            let (axes, steps) = (builder.ints(&[2, 3]), builder.ints(&[stride; 2]));
            let inputs = [pairs, &zeros, &ends, &axes, &steps];
            builder.node("Slice", &format!("{name}.pruned"), &inputs, Vec::new())
        }
    };
    let pruned = turn(builder, &format!("{name}.pruned.turned"), &pruned, from, (query, kept));
    let over_query = Conv::new(builder, &format!("{name}.conv1"), &block.conv1).of(builder, &pruned);
    let sum = builder.binary("Add", &format!("{name}.sum"), &over_query, &over_support);

    let [height, width] = query.map(|side| side as i64);
    let (channels, cells) = (to as i64, (kept[0] * kept[1]) as i64);
    let groups = [-1, cells, GROUPS as i64, channels / GROUPS as i64 * height * width];
    let groups = builder.reshape(&format!("{name}.groups"), &sum, &groups);
    let mean = builder.reduce("ReduceMean", &format!("{name}.mean"), &groups, &[1, 3]);
    let centred = builder.binary("Sub", &format!("{name}.centred"), &groups, &mean);
    let squares = builder.binary("Mul", &format!("{name}.squares"), &centred, &centred);
    let variance = builder.reduce("ReduceMean", &format!("{name}.variance"), &squares, &[1, 3]);
    let epsilon = builder.scalar(EPSILON as f32);
    let variance = builder.binary("Add", &format!("{name}.variance.some"), &variance, &epsilon);
    let deviation = builder.unary("Sqrt", &format!("{name}.deviation"), &variance);
    let normal = builder.binary("Div", &format!("{name}.normal"), &centred, &deviation);
    let normal = builder.reshape(&format!("{name}.maps"), &normal, &[-1, channels, height, width]);
    let [weight, bias] =
        [("weight", &block.norm.weight), ("bias", &block.norm.bias)].map(|(part, values)| {
            let values: Vec<f32> = values.val().try_into_vec_as().expect("weights are f32");
            builder.floats(&format!("{name}.norm.{part}"), &[1, to, 1, 1], &values)
        });
    let scaled = builder.binary("Mul", &format!("{name}.scaled"), &normal, &weight);
    let shifted = builder.binary("Add", &format!("{name}.shifted"), &scaled, &bias);
    Pairs { maps: builder.unary("Relu", name, &shifted), channels: to, query, support: kept }
}

/// Maps over `inside` cells, one for each of `outside`, as maps over `outside`, one for each of `inside`.
fn turn(
    builder: &mut Builder,
    name: &str,
    maps: &Value,
    channels: usize,
    (outside, inside): ([usize; 2], [usize; 2]),
) -> Value {
    let cells = |[height, width]: [usize; 2]| (height * width) as i64;
    let shape = [-1, cells(outside), channels as i64, cells(inside)];
    let maps = builder.reshape(&format!("{name}.cells"), maps, &shape);
    let turned = builder.transpose(&format!("{name}.exchanged"), &maps, &[0, 3, 2, 1]);
    builder.reshape(name, &turned, &[-1, channels as i64, outside[0] as i64, outside[1] as i64])
}

/// A coarse stage, enlarged over the query's cells, and a fine one, through blocks that keep the grid.
fn mix(builder: &mut Builder, name: &str, blocks: &[PivotBlock], coarse: Pairs, fine: Pairs) -> Pairs {
    let mut maps = coarse.maps;
    if coarse.support != fine.support {
        let places: Vec<i64> =
            nearest_cells(coarse.support, fine.support).into_iter().map(|place| place as i64).collect();
        let places = builder.ints(&places);
        let [height, width] = coarse.query.map(|side| side as i64);
        let cells = (coarse.support[0] * coarse.support[1]) as i64;
        let channels = coarse.channels as i64;
        let all = builder.reshape(&format!("{name}.cells"), &maps, &[-1, cells, channels * height * width]);
        let axis = vec![("axis", super::builder::Attribute::Int(1))];
        let chosen = builder.node("Gather", &format!("{name}.chosen"), &[&all, &places], axis);
        maps = builder.reshape(&format!("{name}.coarse"), &chosen, &[-1, channels, height, width]);
    }
    let size = Size::Fixed(fine.query);
    let enlarged = builder.resize(&format!("{name}.enlarged"), &maps, &size, GridPlacement::Corners);
    let sum = builder.binary("Add", &format!("{name}.sum"), &enlarged, &fine.maps);
    blocks.iter().enumerate().fold(Pairs { maps: sum, ..fine }, |pairs, (i, block)| {
        self::block(builder, &format!("{name}.{i}"), block, pairs)
    })
}

/// Scores `[n, 2, 2 w, 2 w]` from the mean over the support's cells.
fn decode(builder: &mut Builder, weights: &HsnetWeights, pairs: Pairs) -> Value {
    let [height, width] = pairs.query.map(|side| side as i64);
    let cells = (pairs.support[0] * pairs.support[1]) as i64;
    let channels = pairs.channels as i64;
    let all = builder.reshape("mean.cells", &pairs.maps, &[-1, cells, channels, height * width]);
    let mean = builder.reduce("ReduceMean", "mean.of_cells", &all, &[1]);
    let mut x = builder.reshape("mean", &mean, &[-1, channels, height, width]);
    for (i, conv) in weights.decoder1.iter().enumerate() {
        x = Conv::new(builder, &format!("decoder1.{i}"), conv).relu(builder, &x);
    }
    let side = 2 * pairs.query[1];
    x = builder.resize("decoder.enlarged", &x, &Size::Fixed([side, side]), GridPlacement::Corners);
    x = Conv::new(builder, "decoder2.0", &weights.decoder2[0]).relu(builder, &x);
    Conv::new(builder, "decoder2.1", &weights.decoder2[1]).of(builder, &x)
}
