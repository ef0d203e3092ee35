//! How hard is Scenes? Trains a small network on fold 0 for some steps, then says how well it segments scenes it has not
//! seen: base classes, and novel classes from one and from five supports each, for several draws of the supports.
//!
//! `cargo run --release -p protoseg --example scenes_difficulty -- [STEPS]`

#![allow(clippy::print_stdout)]

use std::{error::Error, time::Instant};

use burn::tensor::{Tensor, TensorData};
use protoseg::{
    config::NetworkConfig,
    core::{Augment, Confusion, LabelMap, Preprocess, Remap, SUPPORT_SEEDS},
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    model::{Manifest, Model, Training},
    prototype::{
        method::Method,
        options::{Options, Preset},
    },
    register::{PrototypeBank, Support},
    train::{OptimizerKind, Recipe, Schedule, Trainer, TrainerConfig},
};
use protoseg_data::{Benchmark, DataError, Loader, LoaderOptions, OnError, SplitStats, scan};

const CROP: usize = 121;
const BATCH: usize = 8;
const SEED: u64 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let steps: usize = std::env::args().nth(1).map_or(Ok(1500), |steps| steps.parse())?;
    let benchmark = Benchmark::open("scenes", None)?;
    let stats = scan(benchmark.dataset.as_ref(), &benchmark.train)?;
    let started = Instant::now();
    let model = train(&benchmark, &stats, steps)?;
    println!("trained {steps} steps of {BATCH} crops of {CROP} x {CROP} in {:.0?}", started.elapsed());

    let remap = Remap::for_all_classes(benchmark.dataset.classes(), benchmark.fold(0)?);
    let validation = &benchmark.dataset.split("val")?.samples;
    let (n_base, rows) = (model.manifest.classes.n_base(), model.manifest.classes.rows().len());
    for preset in [Preset::Reference, Preset::Balanced] {
        let options = preset.options();
        for shots in [1, 5] {
            for seed in SUPPORT_SEEDS {
                let bank = register(&model, &benchmark, &stats, &remap, (shots, seed), &options)?;
                let counts = evaluate(&model, &benchmark, &remap, validation, &bank, &options)?;
                let [base, novel, total] = [0..n_base, n_base..rows, 0..rows]
                    .map(|rows| 100.0 * counts.mean_iou(rows).unwrap_or(0.0));
                println!(
                    "{preset:?}, {shots} shot, support seed {seed}: base {base:.1}, novel {novel:.1}, total {total:.1} mIoU"
                );
            }
        }
    }
    Ok(())
}

fn train(benchmark: &Benchmark, stats: &SplitStats, steps: usize) -> Result<Model, Box<dyn Error>> {
    let device = cpu();
    device.seed(SEED);
    let (table, fold) = (benchmark.dataset.classes(), benchmark.fold(0)?);
    let classes = fold.classes(table)?;
    let options = Preset::Reference.options();
    let config = NetworkConfig {
        encoder: EncoderConfig::ResNet(ResNetConfig { width: 0.25, ..ResNetConfig::new(10) }),
        decoder: DecoderKind::Fcn,
        dim: 128,
        aux_head: false,
        ..NetworkConfig::pspnet(10, classes.rows().len())
    };
    let recipe = Recipe {
        lr: 3e-3,
        head_factor: 1.0,
        weight_decay: 0.01,
        optimizer: OptimizerKind::AdamW,
        schedule: Schedule::Cosine,
        warmup_steps: 100,
        ..Recipe::reference()
    };
    let parts = Method::Capl.training();
    let network = config.init(&device)?;
    let config_of_trainer =
        TrainerConfig::new(classes.n_base(), Some(0), parts, options.clone(), recipe, steps, SEED);
    let mut trainer = Trainer::new(network, config_of_trainer);

    let kept = stats.for_base_training(table, fold, benchmark.novel_pixels);
    println!("{} of {} training scenes hold no novel class", kept.len(), stats.indices.len());
    let scenes = Benchmark::open("scenes", None)?;
    let remap = Remap::for_base_training(table, fold, benchmark.novel_pixels)?;
    // The world has scenes enough: what makes pictures harder only costs steps.
    let augment = Augment { scale: [0.9, 1.2], rotate_p: 0.0, blur_p: 0.0, ..Augment::reference(CROP) };
    let loader_options = LoaderOptions {
        batch_size: BATCH,
        seed: SEED,
        shuffle: true,
        drop_last: true,
        workers: 1,
        prefetch: 4,
        on_error: OnError::Stop,
    };
    let loader = Loader::new(kept, loader_options, move |&index: &usize, rng| -> Result<_, DataError> {
        let (image, label) = scenes.load_rows(index, &remap)?;
        let plan = augment.sample(rng, image.width, image.height);
        Ok(augment.apply(&plan, &image, &label))
    })?;
    for (batch, step) in (0..).flat_map(|epoch| loader.epoch(epoch, 0)).zip(1..=steps) {
        let batch = batch.map_err(|error| error.to_string())?;
        let (images, labels): (Vec<Vec<f32>>, Vec<LabelMap>) = batch.items.into_iter().unzip();
        let images = TensorData::new(images.concat(), [BATCH, 3, CROP, CROP]);
        let report = trainer.step(Tensor::from_data(images, &device), &labels);
        if step % 50 == 0 {
            println!("step {step}: loss {:.3}", report.loss);
        }
    }
    let training = Training {
        origin: "scenes_difficulty".to_string(),
        data: Some("scenes".to_string()),
        fold: Some(0),
        novel_pixels: Some(benchmark.novel_pixels),
        seed: Some(SEED),
        selected: None,
    };
    let manifest = Manifest {
        format: 1,
        network: config,
        classes,
        method: Method::Capl,
        options,
        preprocess: Preprocess::imagenet(161),
        training,
    };
    Ok(Model { manifest, network: trainer.network(), device })
}

fn register(
    model: &Model,
    benchmark: &Benchmark,
    stats: &SplitStats,
    remap: &Remap,
    (shots, seed): (usize, u64),
    options: &Options,
) -> Result<PrototypeBank, Box<dyn Error>> {
    let fold = benchmark.fold(0)?;
    let (_, samples) =
        stats.draw_supports(benchmark.dataset.as_ref(), fold, benchmark.support_draw(shots, seed))?;
    let mut sums = Vec::new();
    for (novel, samples) in (model.manifest.classes.n_base() as u16..).zip(samples) {
        for index in samples {
            let (image, label) = benchmark.load_rows(index, remap)?;
            sums.push(model.support_sums(&Support { novel, image, label })?);
        }
    }
    Ok(model.bank(&sums, model.manifest.inference(), options)?)
}

/// Counts on the network's canvas.
fn evaluate(
    model: &Model,
    benchmark: &Benchmark,
    remap: &Remap,
    samples: &[usize],
    bank: &PrototypeBank,
    options: &Options,
) -> Result<Confusion, Box<dyn Error>> {
    let size = model.manifest.preprocess.size;
    let mut counts = Confusion::new(model.manifest.classes.rows().len());
    for &index in samples {
        let (image, label) = benchmark.load_rows(index, remap)?;
        let scores = model.scores(&image, bank, model.manifest.inference().dqce, options);
        let predicted: Vec<i64> = scores.argmax(1).try_into_vec_as()?;
        let predicted = LabelMap::new(size, size, predicted.iter().map(|&row| row as u16).collect());
        counts.add(&model.manifest.preprocess.label(&label), &predicted);
    }
    Ok(counts)
}
