//! The head: minutes of CAPL's fake-novel training on features that are computed once.

use burn::{
    module::Module,
    optim::GradientsParams,
    tensor::{Tensor, TensorData},
};
use protoseg_core::{NovelPixels, Remap, seed};
use protoseg_data::{Benchmark, DataError, scan};
use rand::Rng;

use super::{
    FromEncoderError,
    feature_cache::{Crop, FeatureCache},
};
use crate::{
    method::{
        BaseClasses, Method, MethodWeights,
        prototypes::{Prototypes, head::HeadSettings},
    },
    model::{Manifest, Model, Training},
    train::{OptimizerKind, OptimizerSettings, Schedule},
    weights::with_ids_by_name,
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

/// Side of the square that is cut out of an image's grid; pictures of 3 to 2 have their shorter side in it.
const CROP: usize = 40;

impl Model {
    /// The same model with a head trained on the images that its base classes were learned from.
    pub fn with_head(
        &self,
        benchmark: &Benchmark,
        plan: &HeadPlan,
        progress: &mut dyn FnMut(HeadProgress),
    ) -> Result<Self, FromEncoderError> {
        let before = self.prototypes()?;
        let (Some(fold), Some(novel_pixels)) =
            (self.manifest().training.fold, self.manifest().training.novel_pixels)
        else {
            return Err(FromEncoderError::OtherMethod { model: "a model without base classes".into() });
        };
        let cache = self.cache(benchmark, fold, novel_pixels, progress)?;
        let n_base = self.classes().n_base();
        let base = BaseClasses { count: n_base, has_background: self.classes().has_background() };
        let settings = HeadSettings::new(n_base);
        let optimizer_settings = OptimizerSettings {
            lr: plan.lr,
            head_factor: 1.0,
            weight_decay: 1e-2,
            optimizer: OptimizerKind::AdamW,
            schedule: Schedule::Cosine,
            warmup_steps: plan.steps / 10,
            ..OptimizerSettings::reference()
        };
        let device = self.device().clone().autodiff();
        device.seed(plan.seed);
        let mut head = with_ids_by_name(settings.init(self.config().dim, &device)).train();
        let mut optimizer = optimizer_settings.optimizer();
        let canvas = self.preprocess().size;
        let side = self.network().map_size([canvas, canvas])[0].min(CROP);
        for step in 1..=plan.steps {
            let mut rng = seed::stream(plan.seed, &[step as u64]);
            device.seed(plan.seed.wrapping_add((step as u64) << 16));
            let mut values = Vec::new();
            let mut labels = Vec::new();
            for _ in 0..plan.batch {
                let image = rng.random_range(0..cache.len());
                let crop = crop(cache.size(image), side, &mut rng);
                labels.push(cache.read(image, crop, &mut values).map_err(FromEncoderError::Cache)?);
            }
            let shape = [plan.batch, self.config().dim, side, side];
            let features = Tensor::<4>::from_data(TensorData::new(values, shape), &device);
            let loss = head.losses(&settings.capl, features, &labels, base, &mut rng).total;
            let value: f32 = loss.clone().into_scalar();
            let grads = GradientsParams::from_grads(loss.backward(), &head);
            head = optimizer.step(optimizer_settings.rate(step, plan.steps), head, grads);
            progress(HeadProgress::Step(step, plan.steps, value));
        }
        let mut network = self.network().clone();
        if let MethodWeights::Prototypes(weights) = &mut network.method {
            weights.head = Some(head.valid());
        }
        let training = &self.manifest().training;
        let manifest = Manifest {
            method: Method::Prototypes(Prototypes { head: Some(settings), ..before.clone() }),
            training: Training {
                origin: format!("{}; a head trained for {} steps", training.origin, plan.steps),
                seed: Some(plan.seed),
                ..training.clone()
            },
            ..self.manifest().clone()
        };
        Ok(Self::new(manifest, network, self.device()))
    }

    /// Features and labels of every training image.
    fn cache(
        &self,
        benchmark: &Benchmark,
        fold: usize,
        novel_pixels: NovelPixels,
        progress: &mut dyn FnMut(HeadProgress),
    ) -> Result<FeatureCache, FromEncoderError> {
        let dataset = benchmark.dataset.as_ref();
        let (table, fold) = (dataset.classes(), benchmark.fold(fold)?);
        let remap = Remap::for_base_training(table, fold, novel_pixels).map_err(DataError::from)?;
        let images = scan(dataset, &benchmark.train)?.for_base_training(table, fold, novel_pixels);
        let mut cache = FeatureCache::new(self.config().dim).map_err(FromEncoderError::Cache)?;
        for (done, &index) in images.iter().enumerate() {
            progress(HeadProgress::Features(done, images.len()));
            let (image, labels) = benchmark.load_rows(index, &remap)?;
            let features = self.features(&image);
            let [.., height, width] = features.dims();
            let labels = self.grid_labels(&labels, &features);
            let preprocess = self.preprocess();
            let (across, down) = preprocess.content(image.width, image.height);
            let canvas = preprocess.canvas_size(image.width, image.height);
            let part = |content: usize, positions: usize, canvas: usize| {
                (content * positions).div_ceil(canvas.max(1)).max(1)
            };
            let content = (part(across, width, canvas.0), part(down, height, canvas.1));
            let features: Vec<f32> = features.try_into_vec_as().expect("features are f32");
            cache.add(&features, &labels, content).map_err(FromEncoderError::Cache)?;
        }
        progress(HeadProgress::Features(images.len(), images.len()));
        Ok(cache)
    }
}

fn crop([width, height]: [usize; 2], side: usize, rng: &mut impl Rng) -> Crop {
    let mut start = |length: usize| rng.random_range(0..=length.saturating_sub(side));
    let (left, top) = (start(width), start(height));
    Crop { left, top, side, flip: rng.random_bool(0.5) }
}
