//! How long is a training step, and how much memory does it take? Random images through the trainer.
//!
//! `cargo run --release -p protoseg --example train_step -- pspnet-50 161 6 5`: decoder and depth, crop, batch, steps. One
//! step more is run first and not counted.

#![allow(clippy::print_stdout)]

use std::{error::Error, fs, time::Instant};

use burn::tensor::{Distribution, Tensor};
use protoseg::{
    config::NetworkConfig,
    core::LabelMap,
    decoder::DecoderKind,
    device::cpu,
    prototype::{method::Method, options::Preset},
    train::{Recipe, Trainer, TrainerConfig},
};

const N_BASE: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [network, crop, batch, steps] = &arguments[..] else {
        return Err("usage: train_step ARCH-DEPTH CROP BATCH STEPS".into());
    };
    let (decoder, depth) = network.split_once('-').ok_or("a network is written as pspnet-50")?;
    let (crop, batch, steps): (usize, usize, usize) = (crop.parse()?, batch.parse()?, steps.parse()?);
    let decoder = match decoder {
        "pspnet" => DecoderKind::PspNet,
        "deeplabv3" => DecoderKind::DeepLabV3,
        "fcn" => DecoderKind::Fcn,
        _ => return Err(format!("decoder `{decoder}` is not one of pspnet, deeplabv3, fcn").into()),
    };

    let device = cpu();
    device.seed(7);
    let config = NetworkConfig { decoder, ..NetworkConfig::pspnet(depth.parse()?, N_BASE) };
    let (parts, options) = (Method::Capl.training(), Preset::Reference.options());
    let recipe = Recipe::reference();
    let mut trainer = Trainer::new(
        config.init(&device)?,
        TrainerConfig::new(N_BASE, Some(0), parts, options, recipe, 1000, 7),
    );
    let images = Tensor::<4>::random([batch, 3, crop, crop], Distribution::Normal(0.0, 1.0), &device);
    // Bands of six columns, shifted from image to image: five of the classes in each.
    let label = |image: usize, pixel: usize| ((pixel % crop / 6 + image) % 5) as u16;
    let labels: Vec<LabelMap> = (0..batch)
        .map(|image| LabelMap::new(crop, crop, (0..crop * crop).map(|pixel| label(image, pixel)).collect()))
        .collect();

    trainer.step(images.clone(), &labels);
    let cpu_before = cpu_seconds()?;
    let mut seconds: Vec<f64> = (0..steps)
        .map(|_| {
            let started = Instant::now();
            trainer.step(images.clone(), &labels);
            started.elapsed().as_secs_f64()
        })
        .collect();
    let cpu = (cpu_seconds()? - cpu_before) / steps as f64;
    seconds.sort_by(f64::total_cmp);
    let median = seconds[steps / 2];
    println!(
        "protoseg {network} crop {crop} batch {batch}: {median:.3} s a step (median of {steps}), {cpu:.2} CPU s, {:.2} images/s, peak {} MiB",
        batch as f64 / median,
        peak_memory()?
    );
    Ok(())
}

/// What this process has spent on all CPUs, in user and in system mode.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |field: usize| -> Result<f64, Box<dyn Error>> { Ok(fields.get(field).ok_or("short stat")?.parse()?) };
    // Fields 14 and 15 of proc(5), in hundredths of a second.
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

/// The most memory this process held, in MiB.
fn peak_memory() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().next().ok_or("no number")?.parse::<u64>()? / 1024)
}
