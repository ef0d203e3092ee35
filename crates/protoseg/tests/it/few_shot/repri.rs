//! RePRI: the network, and every term of every step.

use burn::tensor::{Tensor, activation::softmax};
use protoseg::{
    core::IGNORE,
    method::{
        Method,
        cells::Cells,
        repri::fit::{self, Fit, Terms},
    },
    nn::upsample,
};

use super::GoldenCase;

pub fn check(case: &GoldenCase) {
    let Method::Repri(repri) = &case.method else { panic!("{} is of RePRI", case.name) };
    let mut repri = repri.clone();
    repri.steps = case.golden.shape("trace_ce")[1];
    let (episodes, vision) = (case.episodes(), case.vision());
    let encoded = case.episodic().encode_all(&vision, &episodes);
    let query = encoded.queries[0].clone();
    case.assert_channels("query_feature_raw", query.clone(), 1e-4);
    case.assert_channels("support0_feature_raw", encoded.shot(0).0.remove(0), 1e-4);
    case.assert_every("query_feature", query.clone(), 2e-4);
    // Of the scores as base training judges them, at the image's size.
    let base = upsample(repri.base_scores(&case.network, query.clone()), encoded.size);
    case.assert_channels("base_logits", base, 1e-4);

    let fits = repri.fits(&encoded);
    let all = |value: &dyn Fn(&Fit) -> Vec<f64>| -> Vec<f32> {
        fits.iter().flat_map(value).map(|value| value as f32).collect()
    };
    let floats = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
    case.assert_values("prototype_init", &all(&|fit| floats(&fit.start.prototype)), 1e-5);
    case.assert_values("bias_init", &all(&|fit| vec![fit.start.bias]), 1e-4);
    case.assert_values("fb_init", &all(&|fit| fit.start.proportion.to_vec()), 1e-5);
    let trace = |name: &str, term: fn(&Terms) -> f64, tolerance: f32| {
        case.assert_values(name, &all(&|fit| fit.trace.iter().map(term).collect()), tolerance);
    };
    trace("trace_ce", |terms| terms.cross_entropy, 1e-4);
    trace("trace_kl", |terms| terms.divergence, 1e-5);
    trace("trace_ent", |terms| terms.entropy, 1e-5);
    let marginals = all(&|fit| fit.trace.iter().flat_map(|terms| terms.marginal).collect());
    case.assert_values("trace_marg", &marginals, 1e-5);
    let updated = |fit: &Fit| fit.updated.expect("there were as many steps");
    case.assert_values("fb_updated", &all(&|fit| updated(fit).to_vec()), 1e-5);
    case.assert_values("prototype", &all(&|fit| floats(&fit.prototype)), 1e-5);
    case.assert_values("bias", &all(&|fit| vec![fit.bias]), 1e-4);

    // How far the proportions are from the true one.
    let [_, _, height, width] = query.dims();
    let truth: Vec<f64> = (case.query_labels().iter())
        .map(|label| {
            let cells = label.resize_nearest(width, height).data;
            let count = |wanted: fn(&&u16) -> bool| cells.iter().filter(wanted).count() as f64;
            count(|label| **label == 1) / count(|label| **label != IGNORE)
        })
        .collect();
    let delta = |foreground: &dyn Fn(&Fit) -> f64| -> Vec<f32> {
        fits.iter().zip(&truth).map(|(fit, truth)| (foreground(fit) / truth - 1.0) as f32).collect()
    };
    case.assert_values("delta_init", &delta(&|fit| fit.start.proportion[1]), 1e-4);
    case.assert_values("delta_final", &delta(&|fit| updated(fit)[1]), 1e-4);

    let cells = |episode: usize| Cells::new(query.clone().slice_dim(0, episode..episode + 1)).unit();
    let scores = fits.iter().enumerate();
    let scores: Vec<f32> =
        scores.flat_map(|(episode, fit)| fit::scores(&repri, &cells(episode), &fit.prototype)).collect();
    case.assert_values("cosine_logits_small", &scores, 2e-4);
    let answer = Method::Repri(repri).episodic().unwrap().answer(&case.network, &encoded);
    let foreground: Tensor<3> = softmax(answer, 1).slice_dim(1, 1..2).squeeze_dim(1);
    case.assert("probability", foreground, 1e-4);
}
