//! SCL on CANet: both passes over the supports, the parts of their masks, the query, the weights of shots.

use burn::tensor::Tensor;
use protoseg::{
    core::{IGNORE, RowMap},
    method::{
        BaseClasses, Method, TrainingBatch,
        scl::{Scl, SclCanet, SclWeights},
    },
    nn::upsample,
};
use protoseg_testing::assert_close;
use rand::SeedableRng;

use super::{
    GoldenCase,
    compare::{Comparison, LOGITS, LOSS, UNIT, cross_entropy},
};
use crate::fixture::values;

pub fn check(case: &GoldenCase) {
    let Method::Scl(scl) = &case.method else { panic!("{} is no SCL", case.name) };
    let SclWeights::Canet(weights) = case.network.method.scl() else { panic!("it is not on CANet") };
    let built = SclCanet::new(scl, weights);
    let compare = Comparison::new(case, &[]);
    for shot in 0..case.shots() {
        check_shot(&compare, scl, built, shot);
    }
    check_shots(&compare, built);
    assert!(compare.has("logits_small") && compare.has("logits_small_kshot"));
    compare.finish();
}

fn check_shot(compare: &Comparison<'_>, scl: &Scl, built: SclCanet<'_>, shot: usize) {
    let case = compare.case;
    let SclWeights::Canet(weights) = case.network.method.scl() else { unreachable!() };
    let labels = case.support_labels_of(shot);
    let episodes = case.one_shot(shot, &labels);
    let encoded = case.encode(&episodes);
    let guided = built.guide(&encoded.supports[0], &labels);
    let second = built.second_pass(&guided, &guided.vectors);
    let passes = if compare.has("logits_small") { case.golden.shape("logits_small")[2] } else { 1 };
    let passes = weights.comparison.refine(&built.compare(&encoded.queries[0], &guided.vectors), passes);
    let [z1, z2] = [0, 1].map(|part| guided.vectors.clone().slice_dim(1, part * 256..(part + 1) * 256));
    for episode in 0..episodes.len() {
        let at = [episode, shot];
        let of = |map: &Tensor<4>| values(map.clone().slice_dim(0, episode..episode + 1));
        let row = |vectors: &Tensor<2>| values(vectors.clone().slice_dim(0, episode..episode + 1));
        compare.check_part("support_small", &at, LOGITS, &of(&guided.first));
        compare.check_part("support2_small", &at, LOGITS, &of(&second));
        compare.check_part("z1", &at, LOGITS, &row(&z1));
        compare.check_part("z2", &at, LOGITS, &row(&z2));
        for (pass, scores) in passes.iter().enumerate() {
            compare.check_part("logits_small", &[episode, shot, pass], LOGITS, &of(scores));
        }
    }
    let large = |scores: &Tensor<4>| upsample(scores.clone(), encoded.size);
    let known = as_background(&labels);
    let losses = [
        cross_entropy(large(&passes[0]), case.query_labels()),
        cross_entropy(large(&guided.first), &known),
        cross_entropy(large(&second), &known),
    ];
    compare.check_part("loss", &[shot], LOSS, &losses);
    let base = BaseClasses { count: 1, has_background: true };
    let method = Method::Scl(Scl { history: 0.0, ..scl.clone() });
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let batch = TrainingBatch::Episodes(episodes);
    let total = method.losses(&case.vision(), base, &batch, &mut rng).total;
    assert_close("total loss", &values(total), &[losses.iter().sum()], LOSS);
}

/// All shots together.
fn check_shots(compare: &Comparison<'_>, built: SclCanet<'_>) {
    let (case, shots) = (compare.case, compare.case.shots());
    let encoded = case.encode(&case.episodes());
    let guided = built.guide(&encoded.supports[0], encoded.support_labels);
    for (episode, labels) in encoded.support_labels.chunks_exact(shots).enumerate() {
        let own = guided.slice(episode * shots..(episode + 1) * shots);
        let agreement = built.agreement(&own, labels).concat();
        compare.check_part("shot_iou", &[episode], UNIT, &agreement);
    }
    let weights = built.shot_weights(&guided, encoded.support_labels, shots);
    let compared = built.compare(&encoded.queries[0], &guided.vectors);
    compare.check("logits_small_kshot", LOGITS, || built.pass(&compared, &weights, shots, None));
}

fn as_background(labels: &[RowMap]) -> Vec<RowMap> {
    let known = |label: &RowMap| {
        let data = label.data.iter().map(|&label| if label == IGNORE { 0 } else { label });
        RowMap::new(label.width, label.height, data.collect())
    };
    labels.iter().map(known).collect()
}
