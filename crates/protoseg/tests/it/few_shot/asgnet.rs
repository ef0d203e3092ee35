//! ASGNet: seeds, clustering, allocation, scores, losses.

use burn::tensor::{Tensor, activation::relu};
use protoseg::{
    core::RowMap,
    method::{
        BaseClasses, Encoded, Episodic, Method, TrainingBatch,
        asgnet::{Asgnet, clustering::cluster},
        fem::{self, Part},
        mask::{FOREGROUND, masks},
    },
    network::Tap,
    nn::upsample,
};
use rand::SeedableRng;

use super::{
    GoldenCase,
    compare::{Comparison, LOGITS, LOSS, UNIT},
};
use crate::fixture::{label_maps, values};

pub fn check(case: &GoldenCase) {
    let Method::Asgnet(published) = &case.method else { panic!("{} is no ASGNet", case.name) };
    let asgnet = Asgnet { seed_area: small_area(&case.golden.metadata["fields"]), ..published.clone() };
    let compare = Comparison::new(case, &["seed_mask", "unit_feature"]);
    let encoded = case.encode(&case.episodes());
    let [.., height, width] = encoded.supports[0].dims();
    check_seeds(&compare, &asgnet, [height, width]);
    check_published_seeds(&compare, published);
    check_centres(&compare, &asgnet, &encoded);
    check_unit_centres(&compare, &asgnet);
    check_scores(&compare, &asgnet, &encoded);
    check_maps(&compare, &asgnet, &encoded);

    let base = BaseClasses { count: 1, has_background: true };
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let batch = TrainingBatch::Episodes(case.episodes());
    let losses = Method::Asgnet(asgnet).losses(&case.vision(), base, &batch, &mut rng);
    compare.check("main_loss", LOSS, || losses.main);
    compare.check("aux_loss", LOSS, || losses.aux.unwrap());
    assert!(compare.has("logits"));
    compare.finish();
}

/// The cells per seed, which the file's description names: its maps are smaller than published ones.
fn small_area(fields: &str) -> f64 {
    let after = fields.split("superpixel area of ").nth(1).expect("the area is described");
    after.split(' ').next().unwrap().parse().unwrap()
}

/// Seeds as golden files keep them: padded with zeros.
fn padded(seeds: &[[usize; 2]], most: usize) -> Vec<f32> {
    let mut table: Vec<f32> = seeds.concat().into_iter().map(|at| at as f32).collect();
    table.resize(2 * most, 0.0);
    table
}

fn check_seeds(compare: &Comparison<'_>, asgnet: &Asgnet, size: [usize; 2]) {
    let case = compare.case;
    for shot in 0..case.shots() {
        for (episode, label) in case.support_labels_of(shot).iter().enumerate() {
            let seeds = padded(&asgnet.seeds(label, size), asgnet.max_seeds);
            compare.check_part("seed", &[episode, shot], 0.0, &seeds);
        }
    }
}

/// On real masks at the real size.
fn check_published_seeds(compare: &Comparison<'_>, asgnet: &Asgnet) {
    if !compare.has("seed_points") {
        return;
    }
    for (index, label) in label_maps(&compare.case.golden, "seed_mask").iter().enumerate() {
        let size = [label.height, label.width].map(|side| (side - 1) / 8 + 1);
        let seeds = padded(&asgnet.seeds(label, size), asgnet.max_seeds);
        compare.check_part("seed_points", &[index], 0.0, &seeds);
    }
}

fn check_centres(compare: &Comparison<'_>, asgnet: &Asgnet, encoded: &Encoded<'_>) {
    let [.., height, width] = encoded.supports[0].dims();
    for (index, label) in encoded.support_labels.iter().enumerate() {
        let (episode, shot) = (index / encoded.shots, index % encoded.shots);
        let map = encoded.supports[0].clone().slice_dim(0, index..index + 1);
        let seeds = asgnet.seeds(label, [height, width]);
        for (name, iterations) in [("", asgnet.iterations), ("train_", asgnet.training_iterations)] {
            compare.check(&format!("center_{name}e{episode}_s{shot}"), LOGITS, || {
                asgnet.centres(map.clone(), label, &seeds, iterations).transpose()
            });
        }
    }
}

/// Clustering of features so small that places count.
fn check_unit_centres(compare: &Comparison<'_>, asgnet: &Asgnet) {
    let case = compare.case;
    for (name, iterations) in [("unit_center5", 5), ("unit_center10", 10)] {
        compare.check(name, UNIT, || {
            let features = case.tensor::<3>("unit_feature");
            let [channels, height, width] = features.dims();
            let label: &RowMap = &case.support_labels_of(0)[0];
            let mask = masks(std::slice::from_ref(label), FOREGROUND, [height, width], &features.device());
            let inside = values(mask);
            let cells: Vec<usize> = (0..inside.len()).filter(|&at| inside[at] > 1.0 - 1e-4).collect();
            let seeds = asgnet.seeds(label, [height, width]);
            let centres = cluster(&values(features.clone()), [height, width], &cells, &seeds, iterations);
            let flat: Vec<f32> = centres.concat();
            let device = features.device();
            Tensor::<1>::from_floats(flat.as_slice(), &device).reshape([seeds.len(), channels]).transpose()
        });
    }
}

fn check_scores(compare: &Comparison<'_>, asgnet: &Asgnet, encoded: &Encoded<'_>) {
    let case = compare.case;
    let guide = asgnet.guide(encoded, asgnet.iterations);
    let [n, _, height, width] = guide.probability.dims();
    compare.check("prob_map", LOGITS, || guide.probability.reshape([n, height, width]));
    compare.check("guide", LOGITS, || {
        let channels = (0..guide.centres.dims()[1]).step_by(8);
        let some = channels.map(|channel| guide.centres.clone().slice_dim(1, channel..channel + 1));
        Tensor::cat(some.collect(), 1)
    });
    compare.check("logits", LOGITS, || asgnet.answer(&case.network, encoded));
    let labels = case.support_labels_of(0);
    let one = case.encode(&case.one_shot(0, &labels));
    compare.check("logits_1shot_seed", LOGITS, || asgnet.answer(&case.network, &one));
    // One centre where every mask is too small for two.
    let whole = Asgnet { seed_area: 1e6, ..asgnet.clone() };
    compare.check("logits_1shot_noseed", LOGITS, || whole.answer(&case.network, &one));
}

/// Maps inside the network, of the queries and of shot 0.
fn check_maps(compare: &Comparison<'_>, asgnet: &Asgnet, encoded: &Encoded<'_>) {
    let case = compare.case;
    let layer3 = case.vision().maps(case.tensor("query_image"), &[Tap::Stage(3)]).remove(0);
    compare.check_stats("query_layer3", &layer3);
    compare.check_stats("query_down", &encoded.queries[0]);
    compare.check_stats("support0_down", &encoded.shot(0).0[0]);
    let guide = asgnet.guide(encoded, asgnet.iterations);
    let enriched = asgnet.enrich(&case.network, &encoded.queries[0], &guide, false);
    let [.., height, width] = enriched.scores.dims();
    let whole = enriched.grids.into_iter().map(|grid| Part::Map(upsample(grid, [height, width]))).collect();
    compare.check_stats("res1", &relu(fem::merge(&case.network.method.asgnet().fem.res1, whole)));
}
