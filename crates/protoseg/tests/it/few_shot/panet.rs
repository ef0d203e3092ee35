//! PANet: scores, losses, and a training step.

use protoseg::{
    method::{BaseClasses, TrainingBatch},
    train::{OptimizerSettings, Trainer, TrainerConfig},
};
use protoseg_testing::assert_close;
use rand::SeedableRng;

use super::GoldenCase;
use crate::fixture::values;

pub fn check(case: &GoldenCase) {
    let episodes = case.episodes();
    case.assert("logits", case.episodic().score(&case.vision(), &episodes), 1e-3);
    let base = BaseClasses { count: 1, has_background: true };
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let batch = TrainingBatch::Episodes(episodes);
    let losses = case.method.losses(&case.vision(), base, &batch, &mut rng);
    case.assert("align_loss", losses.aux.unwrap(), 1e-4);
    let total = values(losses.main)[0] + case.golden.values("align_loss")[0];
    assert_close("total", &values(losses.total), &[total], 1e-4);

    // The trainer knows nothing of PANet but that it turns episodes into losses.
    let optimizer = OptimizerSettings { lr: 1e-3, head_factor: 1.0, ..OptimizerSettings::reference() };
    let config = TrainerConfig::new(case.method.clone(), base, optimizer, 100, 3);
    let mut trainer = Trainer::new(case.network.clone(), config);
    let losses: Vec<f32> = (0..3).map(|_| trainer.step(&batch).loss).collect();
    assert!(losses.iter().all(|loss| loss.is_finite()) && losses[2] < losses[0], "{losses:?}");
}
