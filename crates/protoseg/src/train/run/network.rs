//! The network that a plan asks for, with the weights it starts from.

use burn::tensor::Device;
use protoseg_core::{Classes, NovelPixels, Preprocess};
use protoseg_data::Benchmark;

use crate::{
    config::NetworkConfig,
    method::Method,
    model::{Manifest, Model, Training},
    network::Network,
    train::{Plan, Task, TrainError},
    weights::{self, TensorFile},
};

/// A network before its first step.
pub struct Built {
    pub config: NetworkConfig,
    pub method: Method,
    pub network: Network,
}

/// The network that a plan asks for, its encoder's weights loaded if the plan names some. A model file gives everything
/// of encoder and decoder that fits; what does not is said in `warnings`.
pub fn build(
    plan: &Plan,
    classes: &Classes,
    device: &Device,
    warnings: &mut Vec<String>,
) -> Result<Built, TrainError> {
    let file = plan.network.init.as_deref().map(TensorFile::open).transpose()?;
    let model = match (&file, &plan.network.init) {
        (Some(file), Some(path)) if Model::is_model(file) => Some(Model::read_manifest(path)?),
        _ => None,
    };
    let found = match (&model, &file) {
        (Some(manifest), _) => Some(manifest.network.encoder.clone()),
        (None, Some(file)) => Some(weights::read_encoder_config(file)?),
        (None, None) => None,
    };
    let method = plan.resolve_method(classes)?;
    let config = plan.resolve_network(&method, found.as_ref())?;
    if let (Some(path), Some(found)) = (&plan.network.init, &found) {
        let (got, expected) = (found.name(), config.encoder.name());
        if got != expected {
            let arch = match plan.task {
                Task::GfsSeg => plan.network.arch_with(got),
                Task::FsSeg => got.to_string(),
            };
            return Err(TrainError::OtherEncoder { path: path.clone(), got, expected, arch });
        }
    }
    device.seed(plan.seed);
    let mut network = config.init(&method, device)?;
    match (file, model) {
        (Some(file), Some(_)) => {
            let (loaded, left) = weights::assign_fitting(network, &file, |name| {
                name.starts_with("encoder.") || name.starts_with("decoder.")
            })?;
            network = loaded;
            warnings.extend(left.map(|left| format!("`{}`: {left}", file.path.display())));
        }
        (Some(file), None) => network.encoder = weights::load_encoder(&file, &config.encoder, device)?,
        (None, _) => {}
    }
    Ok(Built { config, method, network })
}

/// What the run's models say of themselves.
pub fn manifest(
    plan: &Plan,
    (network, method): (NetworkConfig, Method),
    classes: Classes,
    benchmark: &Benchmark,
    novel_pixels: NovelPixels,
) -> Manifest {
    let mut preprocess: Preprocess = network.encoder.preprocess(plan.size());
    if plan.task == Task::FsSeg {
        preprocess.fit = plan.fit();
    }
    Manifest {
        format: Manifest::FORMAT,
        preprocess,
        network,
        classes,
        method,
        training: Training {
            origin: format!("trained by protoseg {}", env!("CARGO_PKG_VERSION")),
            data: Some(benchmark.dataset.name().to_string()),
            fold: Some(plan.data.fold),
            novel_pixels: Some(novel_pixels),
            seed: Some(plan.seed),
            selected: None,
        },
    }
}
