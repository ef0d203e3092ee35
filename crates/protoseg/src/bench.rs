//! How long things take, on images and weights of noise.

use std::time::{Duration, Instant};

use burn::tensor::{Distribution, Tensor};
use protoseg_core::{ClassError, Classes, Image, NovelPixels, Preprocess, RowMap, ScoreMap};

pub use protoseg_kernels::peak_flops;

use crate::{
    config::{ConfigError, NetworkConfig},
    device::cpu,
    inference::StepProfile,
    method::capl::{method::Method, options::Preset},
    model::{FORMAT, Manifest, Model, Training},
    predict::Predictor,
    register::PrototypeBank,
    train::{NetworkPlan, OptimizerSettings, Trainer, TrainerConfig},
};

/// Base classes of the networks that are measured.
const N_BASE: usize = 16;

/// The times of something that was done several times.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Runs `work` and keeps how long it took.
    fn of<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.push(started.elapsed());
        result
    }

    pub fn runs(&self) -> usize {
        self.0.len()
    }

    pub fn median(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => Duration::ZERO,
            len if len % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2,
        }
    }

    pub fn min(&self) -> Duration {
        self.0.iter().min().copied().unwrap_or_default()
    }
}

/// What a name such as `pspnet50` stands for, as `protoseg train` builds it with CAPL.
pub fn network(arch: &str) -> Result<NetworkConfig, ConfigError> {
    let mut plan = NetworkPlan::default();
    plan.set_arch(arch)?;
    let config = plan.config(plan.encoder_config(None)?, N_BASE);
    let config = NetworkConfig { support_mlp: true, ..config };
    config.validate()?;
    Ok(config)
}

/// A model with random weights.
pub fn model(network: NetworkConfig, size: usize) -> Result<Model, ConfigError> {
    let device = cpu();
    device.seed(7);
    let names: Vec<String> = (0..network.rows).map(|row| format!("base {row}")).collect();
    let manifest = Manifest {
        format: FORMAT,
        classes: Classes::new(&names, &[]).expect("the names are all different"),
        method: Method::Capl,
        options: Preset::Reference.options(),
        preprocess: Preprocess::imagenet(size),
        training: Training {
            origin: "random weights".to_string(),
            data: None,
            fold: None,
            novel_pixels: Some(NovelPixels::Drop),
            seed: Some(7),
            selected: None,
        },
        network,
    };
    let built = manifest.network.init(&device)?;
    Ok(Model::new(manifest, built, &device))
}

/// From an image to its label map, and the parts of that.
#[derive(Clone, Debug, Default)]
pub struct InferenceTimes {
    pub total: Times,
    pub features: Times,
    /// DQCE and the scores on the features' grid.
    pub scores: Times,
    /// Bilinear upsampling and the best class of every pixel.
    pub labels: Times,
}

/// Prediction with `classes` classes in all. `tell` is called with the number of runs done.
pub fn inference(
    model: &Model,
    classes: usize,
    runs: usize,
    mut tell: impl FnMut(usize),
) -> Result<InferenceTimes, ClassError> {
    let size = model.manifest.preprocess.size;
    let image = noise_image(size);
    let n_base = model.manifest.classes.n_base();
    let novel: Vec<String> = (n_base..classes).map(|row| format!("novel {row}")).collect();
    let classes = model.manifest.classes.with_novel(&novel)?;
    let dim = model.manifest.network.dim;
    let normal = Distribution::Normal(0.0, 1.0);
    let bank =
        PrototypeBank { rows: Tensor::random([classes.rows().len(), dim], normal, &model.device), classes };
    let parts = model.manifest.inference();
    let predictor = Predictor { model, bank, dqce: parts.dqce, options: model.manifest.options.clone() };
    let mut times = InferenceTimes::default();
    for run in 0..=runs {
        let mut now = InferenceTimes::default();
        let started = Instant::now();
        let features = now.features.of(|| model.features(&image));
        let grid = now.scores.of(|| predictor.grid(features));
        now.labels.of(|| ScoreMap::on_canvas(grid, &model.manifest.preprocess, size, size).labels());
        now.total.push(started.elapsed());
        // The first run packs weights and asks for memory.
        if run > 0 {
            for (all, now) in [
                (&mut times.total, now.total),
                (&mut times.features, now.features),
                (&mut times.scores, now.scores),
                (&mut times.labels, now.labels),
            ] {
                all.0.extend(now.0);
            }
            tell(run);
        }
    }
    Ok(times)
}

/// A support's features and sums; and the classifier of `novel` classes with `shots` supports each.
#[derive(Clone, Debug, Default)]
pub struct RegisterTimes {
    pub support: Times,
    pub bank: Times,
}

pub fn register(
    model: &Model,
    novel: usize,
    shots: usize,
    mut tell: impl FnMut(usize),
) -> Result<RegisterTimes, crate::register::RegisterError> {
    let size = model.manifest.preprocess.size;
    let image = noise_image(size);
    let n_base = model.manifest.classes.n_base();
    let mut times = RegisterTimes::default();
    let mut sums = Vec::new();
    // The first support packs weights and asks for memory.
    model.features(&image);
    for class in 0..novel {
        let row = (n_base + class) as u16;
        let label = RowMap::new(
            size,
            size,
            (0..size * size).map(|at| if at % size < size / 2 { row } else { 0 }).collect(),
        );
        for _ in 0..shots {
            sums.push(times.support.of(|| model.pool_support(row, model.features(&image), &label)));
            tell(sums.len());
        }
    }
    let names: Vec<String> = (0..novel).map(|class| format!("novel {class}")).collect();
    for _ in 0..5 {
        times.bank.of(|| model.bank(&names, &sums, model.manifest.inference(), &model.manifest.options))?;
    }
    Ok(times)
}

/// Training steps: forward, losses, backward, SGD.
pub fn train(
    network: &NetworkConfig,
    crop: usize,
    batch: usize,
    steps: usize,
    mut tell: impl FnMut(usize),
) -> Result<Times, ConfigError> {
    let device = cpu();
    device.seed(7);
    let (parts, options) = (Method::Capl.training(), Preset::Reference.options());
    let config =
        TrainerConfig::new(network.rows, Some(0), parts, options, OptimizerSettings::reference(), 1000, 7);
    let mut trainer = Trainer::new(network.init(&device)?, config);
    let images = Tensor::<4>::random([batch, 3, crop, crop], Distribution::Normal(0.0, 1.0), &device);
    // Bands of six columns, shifted from image to image: five of the classes in each.
    let label = |image: usize, pixel: usize| ((pixel % crop / 6 + image) % 5) as u16;
    let labels: Vec<RowMap> = (0..batch)
        .map(|image| RowMap::new(crop, crop, (0..crop * crop).map(|pixel| label(image, pixel)).collect()))
        .collect();
    let mut times = Times::default();
    trainer.step(images.clone(), &labels);
    for step in 1..=steps {
        times.of(|| trainer.step(images.clone(), &labels));
        tell(step);
    }
    Ok(times)
}

/// Every step of the extractor, with the median of its times; none on devices other than the CPU.
pub fn layers(model: &Model, runs: usize, mut tell: impl FnMut(usize)) -> Option<Vec<StepProfile>> {
    let fixed = model.fixed()?;
    let canvas = model.canvas(&noise_image(model.manifest.preprocess.size));
    let mut steps = fixed.profile(canvas.clone());
    let mut times = vec![Times::default(); steps.len()];
    for run in 1..=runs {
        for (times, step) in times.iter_mut().zip(fixed.profile(canvas.clone())) {
            times.push(step.time);
        }
        tell(run);
    }
    for (step, times) in steps.iter_mut().zip(times) {
        step.time = times.median();
    }
    Some(steps)
}

/// Threads that work is shared among.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

fn noise_image(side: usize) -> Image {
    let noise = |at: usize| ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8;
    Image::new(side, side, (0..side * side * 3).map(noise).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let times = |ms: &[u64]| Times(ms.iter().map(|&ms| Duration::from_millis(ms)).collect());
        assert_eq!(times(&[9, 1, 4]).median(), Duration::from_millis(4));
        assert_eq!(times(&[9, 1, 4, 2]).median(), Duration::from_millis(3));
        assert_eq!(times(&[9, 1, 4]).min(), Duration::from_millis(1));
        assert_eq!(times(&[]).median(), Duration::ZERO);
    }
}
