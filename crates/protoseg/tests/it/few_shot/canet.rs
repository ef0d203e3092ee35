//! CANet: every (episode, shot) by itself, all passes; the mean vector; sizes that are not 8n + 1.

use burn::tensor::Tensor;
use protoseg::{
    core::RowMap,
    method::{
        BaseClasses, Encoded, Episodes, Episodic, Method, TrainingBatch,
        canet::Canet,
        mask::{FOREGROUND, masks, mean_over_shots},
    },
    network::Tap,
    nn::upsample,
};
use rand::SeedableRng;

use super::{
    GoldenCase,
    compare::{Comparison, LOGITS, LOSS, UNIT, cross_entropy},
};
use crate::fixture::values;

pub fn check(case: &GoldenCase) {
    let Method::Canet(canet) = &case.method else { panic!("{} is no CANet", case.name) };
    let iterations = case.golden.shape("logits_small")[2];
    let canet = Canet { iterations, ..canet.clone() };
    let compare = Comparison::new(case, &[]);
    for shot in 0..case.shots() {
        check_shot(&compare, &canet, shot);
    }
    check_classes(&compare, &canet);
    if compare.has("odd_logits_small") {
        check_odd_sizes(&compare, &canet);
    }
    assert!(compare.has("logits"));
    compare.finish();
}

/// One shot alone: vectors, all passes, losses.
fn check_shot(compare: &Comparison<'_>, canet: &Canet, shot: usize) {
    let case = compare.case;
    let labels = case.support_labels_of(shot);
    let episodes = case.one_shot(shot, &labels);
    let encoded = case.encode(&episodes);
    let vectors = canet.class_vectors(&encoded.supports, &labels);
    let comparison = &case.network.method.canet().comparison;
    let compared = comparison.compare(&comparison.share(encoded.queries[0].clone()), &vectors);
    let compared = comparison.begin(&comparison.residual1, compared);
    let passes = comparison.refine(&compared, canet.iterations);
    let logits = canet.answer(&case.network, &encoded);
    for episode in 0..episodes.len() {
        let of = |map: &Tensor<4>| map.clone().slice_dim(0, episode..episode + 1);
        compare.check_part(
            "z",
            &[episode, shot],
            LOGITS,
            &values(vectors.clone().slice_dim(0, episode..episode + 1)),
        );
        compare.check_part("logits", &[episode, shot], LOGITS, &values(of(&logits)));
        for (pass, scores) in passes.iter().enumerate() {
            compare.check_part("logits_small", &[episode, shot, pass], LOGITS, &values(of(scores)));
            let large = upsample(of(scores), encoded.size);
            let loss = cross_entropy(large, &case.query_labels()[episode..=episode]);
            compare.check_part("loss", &[episode, shot, pass], LOSS, &[loss]);
        }
        check_training(compare, canet, &episodes, shot, episode);
    }
    if shot == 0 {
        check_maps(compare, &episodes, &encoded);
    }
}

/// What training minimises: the first pass without a history, the second with one.
fn check_training(
    compare: &Comparison<'_>,
    canet: &Canet,
    episodes: &Episodes<'_>,
    shot: usize,
    episode: usize,
) {
    let base = BaseClasses { count: 1, has_background: true };
    let batch = TrainingBatch::Episodes(episodes.slice(episode..episode + 1));
    for (pass, history) in [0.0, 1.0].into_iter().enumerate().take(canet.iterations) {
        let method = Method::Canet(Canet { history, ..canet.clone() });
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let losses = method.losses(&compare.case.vision(), base, &batch, &mut rng);
        compare.check_part("loss", &[episode, shot, pass], LOSS, &values(losses.total));
    }
}

/// Maps inside the network, of the queries and of shot 0.
fn check_maps(compare: &Comparison<'_>, episodes: &Episodes<'_>, encoded: &Encoded<'_>) {
    let case = compare.case;
    let layers = [1, 2, 3].map(Tap::Stage);
    let supports = episodes.supports.clone().flatten(0, 1);
    for (who, images) in [("query", episodes.queries.clone()), ("support0", supports)] {
        for (layer, map) in (1..).zip(case.vision().maps(images, &layers)) {
            compare.check_stats(&format!("{who}_layer{layer}"), &map);
        }
    }
    let query = encoded.queries[0].clone();
    compare.check_stats("query_layer5", &query);
    compare.check_stats("support0_layer5", &encoded.supports[0]);
    compare.check("query_feature", LOGITS, || every_eighth(query.clone()));
    let [n, _, height, width] = encoded.supports[0].dims();
    let mask = masks(encoded.support_labels, FOREGROUND, [height, width], &query.device());
    compare.check("support0_mask_small", UNIT, || mask.reshape([n, height, width]));

    let Method::Canet(canet) = &case.method else { unreachable!() };
    let vectors = canet.class_vectors(&encoded.supports, encoded.support_labels);
    let comparison = &case.network.method.canet().comparison;
    let first = &comparison.residual1;
    let compared = comparison.begin(first, comparison.compare(&comparison.share(query), &vectors));
    compare.check_stats("layer55_shot0_it0", &compared.map);
    let passes = comparison.refine(&compared, 1);
    let history = protoseg::tensor::activation::softmax(passes[0].clone(), 1);
    let again = comparison.first_residual(first, &compared, Some(history));
    compare.check_stats("residule1_shot0_it1", &again);
    let mut x = compared.map.clone();
    let more = comparison.first_residual(first, &compared, None);
    compare.check_stats("residule1_shot0_it0", &more);
    x = x + more;
    for (name, residual) in [("residule2", &comparison.residual2), ("residule3", &comparison.residual3)] {
        let more = residual.forward(x.clone());
        compare.check_stats(&format!("{name}_shot0_it0"), &more);
        x = x + more;
    }
    let branches = comparison.branches(x);
    for (branch, map) in branches.iter().enumerate() {
        compare.check_stats(&format!("layer6_{branch}_shot0_it0"), map);
    }
    compare.check_stats("layer7_shot0_it0", &comparison.fuse(branches));
}

/// Every query against the mean vectors of all episodes at once; its own is compared.
fn check_classes(compare: &Comparison<'_>, canet: &Canet) {
    if !compare.has("gfs_logits_small") {
        return;
    }
    let case = compare.case;
    let encoded = case.encode(&case.episodes());
    let vectors = canet.class_vectors(&encoded.supports, encoded.support_labels);
    let vectors = mean_over_shots(vectors, case.shots());
    for episode in 0..encoded.len() {
        let query = encoded.episode(episode).queries;
        for pass in 0..case.golden.shape("gfs_logits_small")[1] {
            let canet = Canet { iterations: pass + 1, ..canet.clone() };
            let scores = canet.class_scores(&case.network, &query, &vectors);
            let own = scores.slice_dim(0, episode..episode + 1);
            compare.check_part("gfs_logits_small", &[episode, pass], LOGITS, &values(own));
        }
    }
}

/// Query and support of two other sizes, cut from the corners that the file's description names.
fn check_odd_sizes(compare: &Comparison<'_>, canet: &Canet) {
    let case = compare.case;
    let [query_size, support_size] = cuts(&case.golden.metadata["fields"]);
    let labels = [cut_label(&case.support_labels_of(0)[0], support_size)];
    let cut = |images: Tensor<4>, [height, width]: [usize; 2]| {
        images.slice_dim(2, 0..height).slice_dim(3, 0..width)
    };
    let query = case.tensor::<4>("query_image").slice_dim(0, 0..1);
    let support = case.supports_of(0).slice_dim(0, 0..1).flatten::<4>(0, 1);
    let encoded = Encoded {
        queries: canet.encode(&case.vision(), cut(query, query_size)),
        query_labels: &[],
        supports: canet.encode_supports(&case.vision(), cut(support, support_size), &labels),
        support_labels: &labels,
        shots: 1,
        size: query_size,
    };
    let vectors = canet.class_vectors(&encoded.supports, &labels);
    let passes = case.golden.shape("odd_logits_small")[0];
    for pass in 0..passes {
        let canet = Canet { iterations: pass + 1, ..canet.clone() };
        let scores = canet.class_scores(&case.network, &encoded.queries, &vectors);
        compare.check_part("odd_logits_small", &[pass], LOGITS, &values(scores));
    }
}

/// `rows 0..R, columns 0..C` in the description of `odd_logits_small`: of the query, then of the support.
fn cuts(fields: &str) -> [[usize; 2]; 2] {
    let after = fields.split("odd_logits_small").nth(1).expect("it is described");
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        // The last row and column are meant too.
        digits.parse::<usize>().unwrap() + 1
    };
    let rows: Vec<usize> = after.split("rows 0..").skip(1).map(number).collect();
    let columns: Vec<usize> = after.split("columns 0..").skip(1).map(number).collect();
    [[rows[0], columns[0]], [rows[1], columns[1]]]
}

fn cut_label(label: &RowMap, [height, width]: [usize; 2]) -> RowMap {
    let lines = label.data.chunks_exact(label.width).take(height);
    RowMap::new(width, height, lines.flat_map(|line| line[..width].iter().copied()).collect())
}

fn every_eighth(map: Tensor<4>) -> Tensor<4> {
    let [.., channels, _, _] = map.dims();
    let some = (0..channels).step_by(8).map(|channel| map.clone().slice_dim(1, channel..channel + 1));
    Tensor::cat(some.collect(), 1)
}
