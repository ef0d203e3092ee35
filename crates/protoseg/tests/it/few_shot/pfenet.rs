//! PFENet.

use protoseg::method::{BaseClasses, TrainingBatch};
use rand::SeedableRng;

use super::GoldenCase;

pub fn check(case: &GoldenCase) {
    let episodes = case.episodes();
    case.assert("logits", case.episodic().score(&case.vision(), &episodes), 1e-3);
    let base = BaseClasses { count: 1, has_background: true };
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let losses = case.method.losses(&case.vision(), base, &TrainingBatch::Episodes(episodes), &mut rng);
    case.assert("main_loss", losses.main, 1e-4);
    case.assert("aux_loss", losses.aux.unwrap(), 1e-4);
}
