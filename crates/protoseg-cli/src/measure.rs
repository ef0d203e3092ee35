//! How long things take, on images and weights of noise.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use protoseg::{
    ClassPack, Support,
    config::{ConfigError, NetworkConfig},
    core::{Classes, Image, RowMap, SUPPORT_ROW, ScoreMap},
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig, Stem},
    inference::StepProfile,
    method::{BaseClasses, Encoded, FEW_SHOT_NAMES, Images, Method, TrainingBatch, capl::Capl, few_shot},
    model::{Manifest, Model, ModelError, Training},
    register::{Classifier, RegisterError, RegisterStage, Registration, SupportSet},
    segmenter::Segmenter,
    tensor::{Distribution, Tensor},
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
    let config = plan.config(plan.encoder_config(None)?);
    config.validate()?;
    Ok(config)
}

/// A model with random weights and the reference's settings.
pub fn model(network: NetworkConfig, size: usize) -> Result<Model, ModelError> {
    let device = cpu();
    device.seed(7);
    let names: Vec<String> = (0..N_BASE).map(|row| format!("base {row}")).collect();
    let manifest = Manifest {
        format: Manifest::FORMAT,
        classes: Classes::new(&names, &[]).expect("the names are all different"),
        method: Method::Capl(Capl::reference(N_BASE)),
        preprocess: network.encoder.preprocess(size),
        training: Training { origin: "random weights".to_string(), ..Training::default() },
        network,
    };
    Model::random(manifest, &device)
}

/// From an image to its label map, and the parts of that.
#[derive(Clone, Debug, Default)]
pub struct InferenceTimes {
    pub total: Times,
    /// From the picture to the normalised canvas.
    pub preprocess: Times,
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
) -> Result<InferenceTimes, RegisterError> {
    let size = model.preprocess().size;
    let image = noise_image(size);
    let n_base = model.classes().n_base();
    let novel: Vec<String> = (n_base..classes).map(|row| format!("novel {row}")).collect();
    let classes = model.classes().with_novel(&novel)?;
    let usage = model.usage()?;
    let mut rows = model.base_classifier(&usage).rows;
    if !novel.is_empty() {
        let shape = [novel.len(), rows.vectors.dims()[1]];
        rows = rows.with_one_each(Tensor::random(shape, Distribution::Normal(0.0, 1.0), model.device()));
    }
    let segmenter = Segmenter::with_classifier(model, Classifier { rows, classes }, usage);
    let mut times = InferenceTimes::default();
    for run in 0..=runs {
        let mut now = InferenceTimes::default();
        let started = Instant::now();
        let canvas = now.preprocess.of(|| model.canvas(&image));
        let seen = now.features.of(|| segmenter.see(canvas));
        let grid = now.scores.of(|| segmenter.grid_of(&seen));
        now.labels.of(|| ScoreMap::on_canvas(grid, model.preprocess(), size, size).labels());
        now.total.push(started.elapsed());
        // The first run packs weights and asks for memory.
        if run > 0 {
            for (all, now) in [
                (&mut times.total, now.total),
                (&mut times.preprocess, now.preprocess),
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

/// A support's features and sums; the classifier of `novel` classes with `shots` supports each; and registering them all,
/// with the check.
#[derive(Clone, Debug, Default)]
pub struct RegisterTimes {
    pub support: Times,
    pub bank: Times,
    pub whole: Times,
}

/// Supports of `side` x `side` pixels, of which the left half is the class. `tell` hears how many are registered.
pub fn register(
    model: &Model,
    novel: usize,
    shots: usize,
    side: usize,
    tell: &dyn Fn(usize, usize),
) -> Result<RegisterTimes> {
    let image = noise_image(side);
    let usage = model.usage()?;
    let mut times = RegisterTimes::default();
    let mask: Vec<bool> = (0..side * side).map(|at| at % side < side / 2).collect();
    let support = Support::from_mask("noise", image.clone(), &mask)?;
    // The first support packs weights and asks for memory.
    model.features(&image);
    for _ in 0..10 {
        times.support.of(|| model.remember(model.features(&image), support.labels(), SUPPORT_ROW, &usage));
    }
    let mut set = SupportSet::new();
    for class in 0..novel {
        set.add(&format!("novel {class}"), vec![support.clone(); shots])?;
    }
    let mut pack = ClassPack::new(model);
    times.whole.of(|| {
        Registration::new(model)?.run(model, &mut pack, &set, &|stage, done, total| match stage {
            RegisterStage::Looking => tell(done, total),
            RegisterStage::Checking => (),
        })
    })?;
    for _ in 0..5 {
        times.bank.of(|| pack.classifier(model, &usage))?;
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
    let method = Method::Capl(Capl::reference(N_BASE));
    let base = BaseClasses { count: N_BASE, has_background: true };
    let network = network.init(&method, &device)?;
    let config = TrainerConfig::new(method, base, OptimizerSettings::reference(), 1000, 7);
    let mut trainer = Trainer::new(network, config);
    let images = Tensor::<4>::random([batch, 3, crop, crop], Distribution::Normal(0.0, 1.0), &device);
    // Bands of six columns, shifted from image to image: five of the classes in each.
    let label = |image: usize, pixel: usize| ((pixel % crop / 6 + image) % 5) as u16;
    let labels: Vec<RowMap> = (0..batch)
        .map(|image| RowMap::new(crop, crop, (0..crop * crop).map(|pixel| label(image, pixel)).collect()))
        .collect();
    let mut times = Times::default();
    let batch = TrainingBatch::Images(Images { images, labels: &labels });
    trainer.step(&batch);
    for step in 1..=steps {
        times.of(|| trainer.step(&batch));
        tell(step);
    }
    Ok(times)
}

/// A few-shot system with random weights and its published settings.
pub fn few_shot_model(name: &str, backbone: &str, size: usize) -> Result<Model> {
    let Some(method) = few_shot(name) else {
        bail!("`{name}` is not a few-shot system\nhint: the systems are {}", FEW_SHOT_NAMES.join(", "));
    };
    let encoder = match EncoderConfig::parse(backbone)? {
        EncoderConfig::ResNet(resnet) if matches!(method, Method::Hsnet(_)) => {
            EncoderConfig::ResNet(ResNetConfig { stem: Stem::Classic, ..resnet })
        }
        other => other,
    };
    let network = method.published_network(encoder);
    let device = cpu();
    device.seed(7);
    let names: Vec<String> = (0..N_BASE).map(|row| format!("base {row}")).collect();
    let manifest = Manifest {
        format: Manifest::FORMAT,
        classes: Classes::new(&names, &[]).expect("the names are all different"),
        preprocess: network.encoder.preprocess(size),
        training: Training { origin: "random weights".to_string(), ..Training::default() },
        method,
        network,
    };
    Ok(Model::random(manifest, &device)?)
}

/// From the images of an episode to the scores of its query, and the parts of that.
#[derive(Clone, Debug, Default)]
pub struct EpisodeTimes {
    pub total: Times,
    /// All supports and the query.
    pub encode: Times,
    pub answer: Times,
}

/// Episodes of a model from [`few_shot_model`].
pub fn episodes(model: &Model, shots: usize, runs: usize, mut tell: impl FnMut(usize)) -> EpisodeTimes {
    let method = model.manifest().method.episodic().expect("the model is of a few-shot system");
    let size = model.preprocess().size;
    let images =
        |count| Tensor::<4>::random([count, 3, size, size], Distribution::Normal(0.0, 1.0), model.device());
    let (query, supports) = (images(1), images(shots));
    let inside = |at: usize, share: usize| (size / share..(share - 1) * size / share).contains(&at);
    let mask = (0..size * size).map(|at| u16::from(inside(at / size, 4) && inside(at % size, 3)));
    let labels = vec![RowMap::new(size, size, mask.collect()); shots];
    let vision = model.vision();
    let mut times = EpisodeTimes::default();
    for run in 0..=runs {
        let started = Instant::now();
        let encoded = Encoded {
            queries: method.encode(&vision, query.clone()),
            query_labels: &[],
            supports: method.encode_supports(&vision, supports.clone(), &labels),
            support_labels: &labels,
            shots,
            size: [size; 2],
        };
        let encode = started.elapsed();
        let scores = method.answer(model.network(), &encoded);
        assert_eq!(scores.dims(), [1, 2, size, size], "scores of the query");
        let total = started.elapsed();
        // The first run packs weights and asks for memory.
        if run > 0 {
            times.total.push(total);
            times.encode.push(encode);
            times.answer.push(total - encode);
            tell(run);
        }
    }
    times
}

/// Every step of the extractor, with the median of its times; none on devices other than the CPU.
pub fn layers(model: &Model, runs: usize, mut tell: impl FnMut(usize)) -> Option<Vec<StepProfile>> {
    let canvas = model.canvas(&noise_image(model.preprocess().size));
    let [.., height, width] = canvas.dims();
    let extractor = model.extractor([height, width])?;
    let mut steps = extractor.profile(canvas.clone());
    let mut times = vec![Times::default(); steps.len()];
    for run in 1..=runs {
        for (times, step) in times.iter_mut().zip(extractor.profile(canvas.clone())) {
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
