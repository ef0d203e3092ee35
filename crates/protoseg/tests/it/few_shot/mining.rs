//! The baseline of mining latent classes.

use burn::tensor::Tensor;
use protoseg::{
    method::{BaseClasses, TrainingBatch, mining},
    network::Tap,
};
use rand::SeedableRng;

use super::GoldenCase;

pub fn check(case: &GoldenCase) {
    let (episodes, vision) = (case.episodes(), case.vision());
    let layer3 = vision.maps(episodes.queries.clone(), &[Tap::Signed(3)]).remove(0);
    case.assert_channels("query_layer3", layer3.clone(), 1e-4);
    case.assert_every("query_feature", layer3, 2e-4);

    let encoded = case.episodic().encode_all(&vision, &episodes);
    let prototypes = mining::prototypes(encoded.supports[0].clone(), encoded.support_labels);
    let [_, _, dim] = prototypes.dims();
    // Golden prototypes have the foreground first.
    let prototypes =
        Tensor::cat(vec![prototypes.clone().slice_dim(1, 1..2), prototypes.slice_dim(1, 0..1)], 1);
    case.assert("prototypes", prototypes.reshape([episodes.len(), case.shots(), 2, dim]), 1e-4);

    case.assert("logits", case.episodic().score(&vision, &episodes), 2e-4);
    let base = BaseClasses { count: 1, has_background: true };
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let losses = case.method.losses(&vision, base, &TrainingBatch::Episodes(episodes), &mut rng);
    case.assert("loss", losses.total, 1e-4);
}
