//! The head: minutes of CAPL's fake-novel training on features that are computed once.
//!
//! [`Model::with_head`] trains one in memory. A [`Run`](super::Run) whose plan freezes the encoder does the same with
//! everything that a run has.

use burn::tensor::{Tensor, TensorData};
use protoseg_core::{Remap, RowMap, seed};
use protoseg_data::{Benchmark, DataError, scan};
use rand::Rng;

use super::{OptimizerKind, OptimizerSettings, Schedule, Trainer, TrainerConfig};
use crate::{
    from_encoder::{FeatureCache, FromEncoderError},
    method::{BaseClasses, Images, TrainingBatch, prototypes::head::HeadSettings},
    model::{Manifest, Model, Training},
};

/// How a head is trained.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeadPlan {
    /// Training steps.
    pub steps: usize,
    /// Images per step.
    pub batch: usize,
    /// The highest rate.
    pub lr: f64,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Default for HeadPlan {
    fn default() -> Self {
        Self { steps: 700, batch: 6, lr: 2e-3, seed: 321 }
    }
}

/// What is being done, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeadProgress {
    /// Computing features: images done, of how many.
    Features(usize, usize),
    /// Training: steps done, of how many, and the loss.
    Step(usize, usize, f32),
}

/// Side of the square that is cut out of an image, in pixels of the canvas; pictures of 3 to 2 have their shorter side in
/// it.
const CROP: usize = 320;

impl HeadPlan {
    fn optimizer(&self) -> OptimizerSettings {
        OptimizerSettings {
            lr: self.lr,
            head_factor: 1.0,
            weight_decay: 1e-2,
            optimizer: OptimizerKind::AdamW,
            schedule: Schedule::Cosine,
            warmup_steps: self.steps / 10,
            ..OptimizerSettings::reference()
        }
    }
}

impl Model {
    /// The same model with a head trained on the images that its base classes were learned from.
    pub fn with_head(
        &self,
        benchmark: &Benchmark,
        plan: &HeadPlan,
        progress: &mut dyn FnMut(HeadProgress),
    ) -> Result<Self, FromEncoderError> {
        let training = &self.manifest().training;
        let (Some(fold), Some(novel_pixels)) = (training.fold, training.novel_pixels) else {
            return Err(FromEncoderError::OtherMethod { model: "a model without base classes".into() });
        };
        let dataset = benchmark.dataset.as_ref();
        let (table, fold) = (dataset.classes(), benchmark.fold(fold)?);
        let remap = Remap::for_base_training(table, fold, novel_pixels).map_err(DataError::from)?;
        let images = scan(dataset, &benchmark.train)?.for_base_training(table, fold, novel_pixels);
        let cache = FeatureCache::new(self.clone(), remap)?;
        for (done, &index) in images.iter().enumerate() {
            progress(HeadProgress::Features(done, images.len()));
            cache.keep(benchmark, index)?;
        }
        progress(HeadProgress::Features(images.len(), images.len()));

        let fresh = self.with_fresh_head(HeadSettings::new(self.classes().n_base()), plan.seed)?;
        let base =
            BaseClasses { count: self.classes().n_base(), has_background: self.classes().has_background() };
        let method = fresh.manifest().method.clone();
        let config = TrainerConfig::new(method, base, plan.optimizer(), plan.steps, plan.seed);
        let mut trainer = Trainer::new(fresh.network().clone(), config);
        let canvas = self.preprocess().size.min(CROP);
        let side = self.network().map_size([canvas, canvas])[0];
        let mut labels = vec![RowMap::new(side, side, vec![0; side * side]); plan.batch];
        for step in 1..=plan.steps {
            let mut rng = seed::stream(plan.seed, &[step as u64]);
            let mut values = vec![0.0; plan.batch * cache.dim() * side * side];
            let crops = values.chunks_exact_mut(cache.dim() * side * side);
            for (features, labels) in crops.zip(&mut labels) {
                let image = images[rng.random_range(0..images.len())];
                cache.crop(benchmark, image, &mut rng, features, labels)?;
            }
            let shape = [plan.batch, cache.dim(), side, side];
            let images = Tensor::from_data(TensorData::new(values, shape), self.device());
            let report = trainer.step(&TrainingBatch::Images(Images { images, labels: &labels }));
            progress(HeadProgress::Step(step, plan.steps, report.loss));
        }
        let training = Training {
            origin: format!("{}; a head trained for {} steps", training.origin, plan.steps),
            seed: Some(plan.seed),
            ..training.clone()
        };
        let manifest = Manifest { training, ..fresh.manifest().clone() };
        Ok(Self::new(manifest, trainer.network(), self.device()).with_store(self.store().cloned()))
    }
}
