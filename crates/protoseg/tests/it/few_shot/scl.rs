//! SCL on PFENet: both passes over the supports, the parts of their masks, the query, the weights of shots, the prior.

use burn::{
    nn::conv::Conv2d,
    tensor::{Tensor, activation::relu},
};
use protoseg::{
    method::{
        BaseClasses, Encoded, Episodes, Method, TrainingBatch,
        fem::{self, Part},
        mask::{FOREGROUND, for_every_shot, masked_average, masks, mean_over_shots},
        prior::mean_prior,
        scl::{Scl, SclPfenet, SclPfenetWeights, SclWeights},
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

/// One of the two networks with what its numbers are of.
#[derive(Clone, Copy)]
struct Subject<'a> {
    scl: &'a Scl,
    weights: &'a SclPfenetWeights,
    built: SclPfenet<'a>,
}

pub fn check(case: &GoldenCase) {
    let Method::Scl(scl) = &case.method else { panic!("{} is no SCL", case.name) };
    let SclWeights::Pfenet(weights) = case.network.method.scl() else { panic!("it is not on PFENet") };
    let subject = Subject { scl, weights, built: SclPfenet::new(scl, weights) };
    let compare = Comparison::new(case, &["unit_query4", "unit_support4", "unit_mask"]);
    for shot in 0..case.shots() {
        check_shot(&compare, subject, shot);
    }
    check_shots(&compare, subject);
    check_prior(&compare);
    assert!(compare.has("logits") && compare.has("logits_1shot"));
    compare.finish();
}

fn check_shot(compare: &Comparison<'_>, subject: Subject<'_>, shot: usize) {
    let (case, built) = (compare.case, subject.built);
    let labels = case.support_labels_of(shot);
    let episodes = case.one_shot(shot, &labels);
    let encoded = case.encode(&episodes);
    let map = encoded.supports[0].clone();
    let [.., height, width] = map.dims();
    let mask = masks(&labels, FOREGROUND, [height, width], &map.device());
    let z = masked_average(map.clone(), mask, 5e-4);
    let guided = built.guide(&map, &labels, false);
    let second = built.second_pass(&guided, &guided.vectors, false).scores;
    let priors = built.priors(&encoded).expect("the network has a prior");
    let logits = case.episodic().answer(&case.network, &encoded);
    let [z1, z2] = [0, 1].map(|part| guided.vectors.clone().slice_dim(1, part * 256..(part + 1) * 256));
    for episode in 0..episodes.len() {
        let of = |map: &Tensor<4>| values(map.clone().slice_dim(0, episode..episode + 1));
        let row = |vectors: &Tensor<2>| values(vectors.clone().slice_dim(0, episode..episode + 1));
        let maps = [
            ("prior", &priors),
            ("support_small", &guided.first.scores),
            ("support2_small", &second),
            ("logits_1shot", &logits),
        ];
        for (name, map) in maps {
            compare.check_part(name, &[episode, shot], LOGITS, &of(map));
        }
        for (name, vectors) in [("z", &z), ("z1", &z1), ("z2", &z2)] {
            compare.check_part(name, &[episode, shot], LOGITS, &row(vectors));
        }
    }
    if shot == 0 {
        check_maps(compare, subject, &episodes, &encoded, &z, &guided.vectors);
    }
    let base = BaseClasses { count: 1, has_background: true };
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let losses = case.method.losses(&case.vision(), base, &TrainingBatch::Episodes(episodes), &mut rng);
    compare.check_part("main_loss_1shot", &[shot], LOSS, &values(losses.main));
    compare.check_part("aux_loss_1shot", &[shot], LOSS, &values(losses.aux.unwrap()));
}

/// Maps inside the network, of the queries and of shot 0.
fn check_maps(
    compare: &Comparison<'_>,
    Subject { scl, weights, built }: Subject<'_>,
    episodes: &Episodes<'_>,
    encoded: &Encoded<'_>,
    z: &Tensor<2>,
    vectors: &Tensor<2>,
) {
    let vision = compare.case.vision();
    let layers = [1, 2, 3, 4].map(Tap::Stage);
    for (layer, map) in (1..).zip(vision.maps(episodes.queries.clone(), &layers)) {
        compare.check_stats(&format!("query_layer{layer}"), &map);
    }
    let supports = vision.maps(episodes.supports.clone().flatten(0, 1), &layers[..3]);
    for (layer, map) in (1..).zip(&supports) {
        compare.check_stats(&format!("support0_layer{layer}"), map);
    }
    let [.., height, width] = supports[2].dims();
    let mask = masks(encoded.support_labels, FOREGROUND, [height, width], &supports[2].device());
    compare.check_stats("support0_layer4", &vision.last_layer(supports[2].clone() * mask));
    let (query, support) = (&encoded.queries[0], &encoded.supports[0]);
    compare.check_stats("query_mid", query);
    compare.check_stats("support0_mid", support);

    let size = [height, width];
    let priors = built.priors(encoded).unwrap();
    for (index, grid) in fem::grids(&scl.bins, size).into_iter().enumerate() {
        let merged = |conv: &Conv2d, map: &Tensor<4>, vectors: [Tensor<2>; 2], prior: Option<Tensor<4>>| {
            let mut parts = vec![Part::Map(fem::pooled(map.clone(), grid))];
            parts.extend(vectors.map(Part::Vector));
            parts.extend(prior.map(Part::Map));
            relu(fem::merge(conv, parts))
        };
        let first = merged(&weights.supp_init_merge[index], support, [z.clone(), z.clone()], None);
        compare.check_stats(&format!("supp_init_merge{index}"), &first);
        let halves = [0, 1].map(|part| vectors.clone().slice_dim(1, part * 256..(part + 1) * 256));
        let prior = upsample(priors.clone(), grid);
        compare.check_stats(
            &format!("init_merge{index}"),
            &merged(&weights.init_merge[index], query, halves, Some(prior)),
        );
    }
    let enriched = built.enrich_query(query, vectors, Some(&priors), true);
    for (index, inner) in enriched.inner.into_iter().enumerate() {
        compare.check(&format!("query_inner{index}"), LOGITS, || inner);
    }
    let whole = enriched.grids.into_iter().map(|grid| Part::Map(upsample(grid, size))).collect();
    let res1 = relu(fem::merge(&weights.fem.res1, whole));
    compare.check_stats("query_res1", &res1);
    let res2 = &weights.fem.res2;
    let refined = relu(res2.second.forward(relu(res2.first.forward(res1))));
    compare.check_stats("query_res2", &refined);
}

/// All shots together, and all episodes' classes against every query.
fn check_shots(compare: &Comparison<'_>, Subject { scl, built, .. }: Subject<'_>) {
    let (case, shots) = (compare.case, compare.case.shots());
    let encoded = case.encode(&case.episodes());
    let guided = built.guide(&encoded.supports[0], encoded.support_labels, false);
    let priors = built.priors(&encoded);
    let scores = built.enrich_query(&encoded.queries[0], &guided.vectors, priors.as_ref(), false).scores;
    let classes = scl.class_vectors(&case.network, &encoded.supports, encoded.support_labels);
    let classes = mean_over_shots(classes, shots);
    for (episode, labels) in encoded.support_labels.chunks_exact(shots).enumerate() {
        let own = guided.slice(episode * shots..(episode + 1) * shots);
        let agreement = built.agreement(&own, labels).concat();
        compare.check_part("shot_iou", &[episode], UNIT, &agreement);
        for shot in 0..shots {
            let vectors = own.vectors.clone().slice_dim(0, shot..shot + 1).repeat_dim(0, shots);
            let cross = built.second_pass(&own, &vectors, false).scores;
            compare.check_part("cross_logits_small", &[episode, shot], LOGITS, &values(cross));
        }
        let own = scores.clone().slice_dim(0, episode * shots..(episode + 1) * shots);
        compare.check_part("shot_logits_small", &[episode], LOGITS, &values(own));
        let all = scl.class_scores(&case.network, &encoded.episode(episode).queries, &classes);
        let own = all.slice_dim(0, episode..episode + 1);
        compare.check_part("gfs_logits_small", &[episode], LOGITS, &values(own));
    }
    compare.check("logits", LOGITS, || case.episodic().answer(&case.network, &encoded));
}

/// The prior of features that the network never has: with signs, and not zero beside the mask.
fn check_prior(compare: &Comparison<'_>) {
    let case = compare.case;
    compare.check("unit_prior", UNIT, || {
        let queries = case.tensor::<4>("unit_query4");
        let supports = case.tensor::<5>("unit_support4");
        let shots = supports.dims()[1];
        let [n, _, height, width] = queries.dims();
        let mask =
            masks(&label_maps(&case.golden, "unit_mask"), FOREGROUND, [height, width], &queries.device());
        assert_eq!(for_every_shot(queries.clone(), shots).dims()[0], mask.dims()[0]);
        mean_prior(queries, supports.flatten::<4>(0, 1) * mask, shots).reshape([n, height, width])
    });
}
