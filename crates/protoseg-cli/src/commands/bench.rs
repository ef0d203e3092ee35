//! `protoseg bench`.

use std::{fs, time::Duration};

use anyhow::{Result, bail};
use protoseg::{
    Precision, config::NetworkConfig, core::count, inference::StepProfile, method::cost::episode_macs,
    model::Model,
};
use protoseg_data::peak_memory;
use protoseg_kernels::peak_flops;
use serde::Serialize;

use crate::{
    cli::{Bench, BenchWhat},
    measure::{self, Times},
    output::{self, progress::Bar, table, units},
};

/// What every measurement says.
#[derive(Serialize)]
struct Report<T> {
    schema: &'static str,
    bench: &'static str,
    architecture: String,
    size: usize,
    threads: usize,
    cpu: String,
    runs: usize,
    median_ms: f64,
    min_ms: f64,
    #[serde(flatten)]
    details: T,
    peak_memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Inference {
    classes: usize,
    preprocess_ms: f64,
    features_ms: f64,
    scores_ms: f64,
    labels_ms: f64,
}

#[derive(Serialize)]
struct Train {
    batch: usize,
    images_per_second: f64,
}

#[derive(Serialize)]
struct Register {
    novel: usize,
    shots: usize,
    bank_ms: f64,
    whole_s: f64,
}

#[derive(Serialize)]
struct Episodes {
    method: String,
    shots: usize,
    parameters: usize,
    /// Of the whole episode, as the system is published.
    gmac: f64,
    /// Of the whole episode.
    milliseconds: f64,
    encode_milliseconds: f64,
    answer_milliseconds: f64,
}

#[derive(Serialize)]
struct Layers {
    parameters: usize,
    /// Billions of floating-point operations per second, by a loop that touches no memory.
    peak_gflops: f64,
    peak_gflops_one_thread: f64,
    packed_weight_bytes: usize,
    buffer_bytes: usize,
    /// How many times as fast as one thread, as far as that depends on how work is divided.
    speedups: Vec<Speedup>,
    layers: Vec<Layer>,
}

#[derive(Serialize)]
struct Speedup {
    threads: usize,
    times: f64,
}

#[derive(Serialize)]
struct Layer {
    name: String,
    kernel: String,
    median_ms: f64,
    gmac: f64,
    computed_gmac: f64,
    /// Of the operations that are computed, beside the peak.
    efficiency: f64,
}

pub fn run(args: &Bench) -> Result<()> {
    match args {
        Bench::Inference { what, classes, runs } => {
            inference(what, usize::from(*classes), usize::from(*runs))
        }
        Bench::Train { what, batch, runs } => train(what, usize::from(*batch), usize::from(*runs)),
        Bench::Register { what, classes, shots, image } => {
            register(what, usize::from(*classes), usize::from(*shots), image.map(usize::from))
        }
        Bench::Episodes { method, backbone, size, shots, runs, json } => {
            let model = measure::few_shot_model(method, backbone, usize::from(*size))?;
            episodes(&model, method, usize::from(*shots), usize::from(*runs), *json)
        }
        Bench::Model { arch, size, output: path, force } => {
            output::refuse_overwrite(path, *force)?;
            let model = measure::model(measure::network(arch)?, usize::from(*size))?;
            model.save(path)?;
            output::line(format_args!(
                "{} with random weights -> {}",
                model.config().describe(),
                path.display()
            ))
        }
        Bench::Layers { what, runs } => layers(what, usize::from(*runs)),
    }
}

fn inference(what: &BenchWhat, classes: usize, runs: usize) -> Result<()> {
    let model = model(what)?;
    let n_base = model.classes().n_base();
    if classes < n_base {
        bail!(
            "--classes {classes} is less than the {n_base} base classes of the network\nhint: give {n_base} or more"
        );
    }
    let bar = Bar::new("images");
    let times = measure::inference(&model, classes, runs, |done| bar.show(done, runs))?;
    drop(bar);
    let details = Inference {
        classes,
        preprocess_ms: ms(times.preprocess.median()),
        features_ms: ms(times.features.median()),
        scores_ms: ms(times.scores.median()),
        labels_ms: ms(times.labels.median()),
    };
    let report = report("inference", model.config(), size(&model), &times.total, details);
    if what.json {
        return output::json(&report);
    }
    head(&report)?;
    let Inference { preprocess_ms, features_ms, scores_ms, labels_ms, .. } = report.details;
    output::line(format!(
        "an image: {:.1} ms (preprocessing {preprocess_ms:.1}, features {features_ms:.1}, scores of {classes} classes {scores_ms:.1}, upsampling and best class {labels_ms:.1})",
        report.median_ms
    ))?;
    tail(&report)
}

fn train(what: &BenchWhat, batch: usize, runs: usize) -> Result<()> {
    if what.fast {
        bail!("`--fast` is for models in use; training multiplies in single precision");
    }
    let (network, crop) = match &what.model {
        Some(path) => {
            let manifest = Model::read_manifest(path)?;
            (manifest.network, manifest.preprocess.size)
        }
        None => (measure::network(&what.arch)?, usize::from(what.size)),
    };
    let bar = Bar::new("steps");
    let times = measure::train(&network, crop, batch, runs, |done| bar.show(done, runs))?;
    drop(bar);
    let images_per_second = batch as f64 / times.median().as_secs_f64();
    let report = report("train", &network, crop, &times, Train { batch, images_per_second });
    if what.json {
        return output::json(&report);
    }
    head(&report)?;
    output::line(format!(
        "a step of {batch}: {:.1} ms ({images_per_second:.2} images per second)",
        report.median_ms
    ))?;
    tail(&report)
}

fn register(what: &BenchWhat, novel: usize, shots: usize, image: Option<usize>) -> Result<()> {
    let model = model(what)?;
    let bar = Bar::new("supports");
    let side = image.unwrap_or(model.preprocess().size);
    let times = measure::register(&model, novel, shots, side, &|done, total| bar.show(done, total))?;
    drop(bar);
    let whole_s = times.whole.median().as_secs_f64();
    let details = Register { novel, shots, bank_ms: ms(times.bank.median()), whole_s };
    let report = report("register", model.config(), size(&model), &times.support, details);
    if what.json {
        return output::json(&report);
    }
    head(&report)?;
    output::line(format!(
        "a support: {:.1} ms; the classifier of {novel} novel classes with {shots} supports each: {:.1} ms",
        report.median_ms, report.details.bank_ms
    ))?;
    output::line(format!("registering them all, with the check of supports: {whole_s:.1} s"))?;
    tail(&report)
}

fn episodes(model: &Model, method: &str, shots: usize, runs: usize, json: bool) -> Result<()> {
    let bar = Bar::new("episodes");
    let times = measure::episodes(model, shots, runs, |done| bar.show(done, runs));
    drop(bar);
    let macs = episode_macs(model.network(), &model.manifest().method, size(model), shots)
        .expect("the model is of a few-shot system");
    let details = Episodes {
        method: method.to_string(),
        shots,
        parameters: model.parameters(),
        gmac: macs as f64 / 1e9,
        milliseconds: ms(times.total.median()),
        encode_milliseconds: ms(times.encode.median()),
        answer_milliseconds: ms(times.answer.median()),
    };
    let report = report("episodes", model.config(), size(model), &times.total, details);
    if json {
        return output::json(&report);
    }
    head(&report)?;
    let Episodes { parameters, gmac, milliseconds, encode_milliseconds, answer_milliseconds, .. } =
        report.details;
    let supports = count(shots, "support");
    output::line(format!(
        "an episode of {method} with {supports}: {milliseconds:.1} ms (encoding {encode_milliseconds:.1}, answer {answer_milliseconds:.1})"
    ))?;
    output::line(format!("{:.1} M parameters, {gmac:.1} GMAC", parameters as f64 / 1e6))?;
    tail(&report)
}

fn layers(what: &BenchWhat, runs: usize) -> Result<()> {
    let model = model(what)?;
    let bar = Bar::new("runs");
    let steps = measure::layers(&model, runs, |done| bar.show(done, runs)).expect("the model is on the CPU");
    drop(bar);
    let [peak_gflops, peak_gflops_one_thread] =
        [measure::threads(), 1].map(|threads| peak_flops(threads) / 1e9);
    let side = model.preprocess().size;
    let (width, height) = model.preprocess().canvas_size(side, side);
    let extractor = model.extractor([height, width]).expect("the model is on the CPU");
    let [packed_weight_bytes, buffer_bytes] = extractor.bytes();
    let mut times = Times::default();
    times.push(steps.iter().map(|step| step.time).sum());
    let layer = |step: &StepProfile| Layer {
        name: step.name.clone(),
        kernel: step.kernel.clone(),
        median_ms: ms(step.time),
        gmac: step.macs as f64 / 1e9,
        computed_gmac: step.computed_macs as f64 / 1e9,
        efficiency: 2e-9 * step.computed_macs as f64 / step.time.as_secs_f64().max(1e-9) / peak_gflops,
    };
    let details = Layers {
        parameters: model.parameters(),
        peak_gflops,
        peak_gflops_one_thread,
        packed_weight_bytes,
        buffer_bytes,
        speedups: [2, 4, 8, 16, 32, 64]
            .map(|threads| Speedup { threads, times: extractor.speedup(&steps, measure::threads(), threads) })
            .into(),
        layers: steps.iter().map(layer).collect(),
    };
    let report = Report { runs, ..report("layers", model.config(), size(&model), &times, details) };
    if what.json {
        return output::json(&report);
    }
    head(&report)?;
    let Layers { layers, speedups, .. } = &report.details;
    let total = report.median_ms;
    let row = |name: &str, kernel: &str, time: f64, gmac: f64, computed: f64| {
        let rate = |gmac: f64| format!("{:.0}", 2e3 * gmac / time.max(1e-6));
        vec![
            name.to_string(),
            kernel.to_string(),
            format!("{time:.2}"),
            format!("{:.1}", 100.0 * time / total),
            format!("{gmac:.2}"),
            format!("{computed:.2}"),
            rate(gmac),
            rate(computed),
            format!("{:.0}", 2e5 * computed / time.max(1e-6) / peak_gflops),
        ]
    };
    let mut rows: Vec<Vec<String>> = layers
        .iter()
        .map(|layer| row(&layer.name, &layer.kernel, layer.median_ms, layer.gmac, layer.computed_gmac))
        .collect();
    let sum = |value: fn(&Layer) -> f64| layers.iter().map(value).sum::<f64>();
    rows.push(row("all", "", total, sum(|layer| layer.gmac), sum(|layer| layer.computed_gmac)));
    let title =
        ["layer", "kernel", "ms", "% of time", "GMAC", "computed", "GFLOP/s", "computed", "% of peak"];
    for line in table::lines(&title, &rows) {
        output::line(line)?;
    }
    output::line(format!(
        "peak: {peak_gflops:.0} GFLOP/s, one thread {peak_gflops_one_thread:.0}; packed weights {}, buffers {}",
        units::bytes(packed_weight_bytes as u64),
        units::bytes(buffer_bytes as u64)
    ))?;
    let speedups = speedups.iter().map(|Speedup { threads, times }| format!("{times:.1} with {threads}"));
    output::line(format!(
        "times as fast as one thread, as far as that depends on how work is divided: {}",
        speedups.collect::<Vec<_>>().join(", ")
    ))?;
    tail(&report)
}

fn model(what: &BenchWhat) -> Result<Model> {
    let model = match &what.model {
        Some(path) => Model::load(path)?,
        None => measure::model(measure::network(&what.arch)?, usize::from(what.size))?,
    };
    Ok(if what.fast { model.with_precision(Precision::Fast) } else { model })
}

fn size(model: &Model) -> usize {
    model.preprocess().size
}

fn report<T>(
    bench: &'static str,
    network: &NetworkConfig,
    size: usize,
    times: &Times,
    details: T,
) -> Report<T> {
    Report {
        schema: "protoseg.bench/1",
        bench,
        architecture: network.describe(),
        size,
        threads: measure::threads(),
        cpu: cpu_name(),
        runs: times.runs(),
        median_ms: ms(times.median()),
        min_ms: ms(times.min()),
        details,
        peak_memory_bytes: peak_memory(),
    }
}

fn head<T>(report: &Report<T>) -> Result<()> {
    let Report { architecture, size, threads, cpu, .. } = report;
    output::line(format!("{architecture} at {size} x {size}, {threads} threads of {cpu}"))
}

fn tail<T>(report: &Report<T>) -> Result<()> {
    let peak = report
        .peak_memory_bytes
        .map_or_else(String::new, |peak| format!("; peak memory {}", units::bytes(peak)));
    output::line(format!("medians of {}{peak}", count(report.runs, "run")))
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// The processor's name, where the system tells (Linux).
fn cpu_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_string(), |(_, name)| name.to_string())
}
