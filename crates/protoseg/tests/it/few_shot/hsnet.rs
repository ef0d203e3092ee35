//! HSNet: every shot alone, its steps, and the vote. Answers come from kernels, losses and steps from operations with
//! gradients, so both are compared.

use burn::tensor::Tensor;
use protoseg::{
    core::RowMap,
    method::{
        BaseClasses, Encoded, Episodes, Maps, TrainingBatch,
        hsnet::{
            HsnetWeights,
            centre_pivot::Pairs,
            hypercorrelation::{correlate, hypercorrelation, masked},
            learner::mix,
        },
    },
};
use rand::SeedableRng;

use super::GoldenCase;
use crate::fixture::values;

/// Logits.
const SCORES: f32 = 2e-4;
/// Means and deviations of what lies between.
const STEPS: f32 = 1e-4;

pub fn check(case: &GoldenCase) {
    check_cosines(case);
    check_shots(case);
    check_vote(case);
    check_odd_size(case);
    check_steps(case);
}

/// `unit_*`: signed features of grids that differ, one of them of no length.
fn check_cosines(case: &GoldenCase) {
    for index in 0.. {
        let name = format!("unit_corr{index}");
        if !case.golden.names().any(|known| known == name) {
            assert!(index > 0, "{} has no unit_corr0", case.name);
            break;
        }
        let [query, support] = ["query", "support"].map(|of| case.tensor::<4>(&format!("unit_{of}{index}")));
        case.assert_values(&name, &values(correlate(query, support)), 1e-5);
    }
}

/// The logits of each shot alone, and its loss over all episodes.
fn check_shots(case: &GoldenCase) {
    let mut logits = Vec::new();
    let mut losses = Vec::new();
    for shot in 0..case.shots() {
        let labels = case.support_labels_of(shot);
        let episodes =
            Episodes { supports: case.supports_of(shot), support_labels: &labels, ..case.episodes() };
        logits.push(case.episodic().score(&case.vision(), &episodes));
        let base = BaseClasses { count: 1, has_background: true };
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        losses.push(
            case.method.losses(&case.vision(), base, &TrainingBatch::Episodes(episodes), &mut rng).main,
        );
    }
    case.assert("logits", Tensor::stack::<5>(logits, 1), SCORES);
    case.assert("loss", Tensor::cat(losses, 0), 1e-4);
}

/// All shots together. A pixel of which one shot's two scores are closer than the bar may go either way.
fn check_vote(case: &GoldenCase) {
    let scores = case.episodic().score(&case.vision(), &case.episodes());
    let [episodes, _, height, width] = scores.dims();
    let pixels = height * width;
    let scores = values(scores);
    let (mask, logits) = (case.golden.values("mask"), case.golden.values("logits"));
    for episode in 0..episodes {
        for pixel in 0..pixels {
            let close = (0..case.shots()).any(|shot| {
                let first = (episode * case.shots() + shot) * 2 * pixels + pixel;
                (logits[first + pixels] - logits[first]).abs() < 2.0 * SCORES
            });
            let first = episode * 2 * pixels + pixel;
            let found = scores[first + pixels] > scores[first];
            let expected = mask[episode * pixels + pixel] == 1.0;
            assert!(found == expected || close, "{}: pixel {pixel} of episode {episode}", case.name);
        }
    }
}

/// The first shot with everything cut to a size at which masks become soft.
fn check_odd_size(case: &GoldenCase) {
    let &[.., height, width] = case.golden.shape("odd_logits") else { unreachable!() };
    let cut = |label: &RowMap| {
        let rows = label.data.chunks(label.width).take(height).flat_map(|row| &row[..width]);
        RowMap::new(width, height, rows.copied().collect())
    };
    let labels: Vec<RowMap> = case.support_labels_of(0).iter().map(cut).collect();
    let episodes = Episodes {
        queries: case.episodes().queries.slice_dim(2, 0..height).slice_dim(3, 0..width),
        query_labels: &[],
        supports: case.supports_of(0).slice_dim(3, 0..height).slice_dim(4, 0..width),
        support_labels: &labels,
        classes: None,
    };
    case.assert("odd_logits", case.episodic().score(&case.vision(), &episodes), SCORES);
}

/// What the first shot goes through.
fn check_steps(case: &GoldenCase) {
    let weights = case.network.method.hsnet();
    let labels = case.support_labels_of(0);
    let episodes = Episodes { supports: case.supports_of(0), support_labels: &labels, ..case.episodes() };
    let Encoded { queries, supports, .. } = case.episodic().encode_all(&case.vision(), &episodes);
    let supports = masked(&supports, &labels);
    check_features(case, "query_feat", &queries);
    check_features(case, "support0_masked_feat", &supports);
    let squeezed = [4, 3, 2].map(|stage| {
        let maps = [&queries, &supports].map(|maps| weights.of_stage(maps, stage));
        check_correlations(case, stage, maps);
        let pairs = weights.squeeze(stage, maps[0], maps[1]);
        check_shape(case, stage, &pairs);
        check_pairs(case, &format!("squeeze{stage}"), &pairs);
        pairs
    });
    check_first_convolution(case, weights, [&queries, &supports]);
    let [stage4, stage3, stage2] = squeezed;
    let mixed = mix(&weights.mix43, stage4, stage3);
    check_pairs(case, "mix43", &mixed);
    let mixed = mix(&weights.mix32, mixed, stage2);
    check_pairs(case, "mix432", &mixed);
    let encoded = mixed.mean();
    check_moments(case, "encoded", encoded.clone());
    let channels = (0..encoded.dims()[1]).step_by(8);
    let some = channels.map(|channel| encoded.clone().slice_dim(1, channel..channel + 1));
    case.assert("encoded", Tensor::cat(some.collect(), 1), STEPS);
    check_moments(case, "decoder1", weights.decode_first(encoded.clone()));
    case.assert("logits_small", weights.decode(encoded), SCORES);
}

/// Every block's map that the file has numbers of.
fn check_features(case: &GoldenCase, what: &str, maps: &Maps) {
    let mut found = 0;
    for (index, map) in maps.iter().enumerate() {
        let name = format!("{what}{index}");
        if case.golden.names().any(|known| known == format!("{name}_mean")) {
            check_moments(case, &name, map.clone());
            found += 1;
        }
    }
    assert!(found > 0, "{} has no {what}", case.name);
}

fn check_correlations(case: &GoldenCase, stage: usize, [queries, supports]: [&[Tensor<4>]; 2]) {
    let [n, _, height, width] = queries[0].dims();
    let [.., support_height, support_width] = supports[0].dims();
    let (query, support) = (height * width, support_height * support_width);
    let blocks = queries.len();
    let pairs = hypercorrelation(queries, supports).reshape([n, query, blocks, support]);
    let best: Tensor<3> = pairs.clone().max_dim(3).squeeze_dim(3);
    let best = best.swap_dims(1, 2).reshape([n, blocks, height, width]);
    case.assert(&format!("corr{stage}_max_support"), best, STEPS);
    let mean = pairs.clone().mean_dim(1).reshape([n, blocks, support_height, support_width]);
    case.assert(&format!("corr{stage}_mean_query"), mean, STEPS);
    let layers = pairs.swap_dims(1, 2).reshape([n, blocks, query * support, 1]);
    check_moments(case, &format!("corr{stage}"), layers);
}

fn check_first_convolution(case: &GoldenCase, weights: &HsnetWeights, maps: [&Maps; 2]) {
    let [queries, supports] = maps.map(|maps| weights.of_stage(maps, 3));
    let [.., height, width] = queries[0].dims();
    let turned = hypercorrelation(queries, supports);
    let pairs = weights.squeeze_of(3)[0].convolve_turned(turned, [height, width]);
    check_pairs(case, "squeeze3_conv0", &pairs);
}

/// `[n, channels, query h, w, support h, w]`
fn check_shape(case: &GoldenCase, stage: usize, pairs: &Pairs) {
    let [all, channels, height, width] = pairs.maps.dims();
    let [support_height, support_width] = pairs.support;
    let n = all / (support_height * support_width);
    let shape = [n, channels, height, width, support_height, support_width].map(|side| side as f32);
    case.assert_values(&format!("squeeze{stage}_shape"), &shape, 0.0);
}

fn check_pairs(case: &GoldenCase, name: &str, Pairs { maps, support }: &Pairs) {
    let [all, channels, height, width] = maps.dims();
    let cells = support[0] * support[1];
    let maps = maps.clone().reshape([all / cells, cells, channels, height * width]);
    check_moments(case, name, maps.swap_dims(1, 2));
}

/// Mean and deviation of every channel: `[n, channels, ..]`.
fn check_moments(case: &GoldenCase, name: &str, maps: Tensor<4>) {
    let [n, channels, ..] = maps.dims();
    let maps = maps.reshape([n as i32, channels as i32, -1]);
    let mean = maps.clone().mean_dim(2);
    let deviation = (maps - mean.clone()).square().mean_dim(2).sqrt();
    case.assert(&format!("{name}_mean"), mean.reshape([n, channels]), STEPS);
    case.assert(&format!("{name}_std"), deviation.reshape([n, channels]), STEPS);
}
