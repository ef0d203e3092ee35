//! The network that a plan asks for, with the weights it starts from.

use burn::tensor::Device;
use protoseg_core::{Classes, NovelPixels, Preprocess};
use protoseg_data::Benchmark;

use crate::{
    config::NetworkConfig,
    from_encoder::BACKGROUND_ROWS,
    method::Method,
    model::{Manifest, Model, Training},
    network::Network,
    train::{Plan, Task, TrainError},
    weights::{self, TensorFile},
};

/// A model of the frozen encoder that a plan names, or of the one in the box: its base classes come from one pass over
/// these images, its head is fresh.
pub fn build_frozen(
    plan: &Plan,
    benchmark: &Benchmark,
    novel_pixels: NovelPixels,
    images: &[usize],
    device: &Device,
    progress: protoseg_data::Progress<'_>,
) -> Result<Model, TrainError> {
    let bare = match plan.network.init.as_deref() {
        None => Model::builtin_on(device)?,
        Some(path) if Model::is_model(&TensorFile::open(path)?) => Model::load_on(path, device)?,
        Some(path) => Model::from_encoder(path, device)?,
    };
    let bare = match plan.training.size {
        Some(size) => bare.with_canvas(size)?,
        None => bare,
    };
    let fold = plan.data.fold;
    let base = bare.with_base_of(benchmark, fold, novel_pixels, BACKGROUND_ROWS, images, progress)?;
    let head = plan.resolve_head(base.classes().n_base())?;
    let fresh = base.with_fresh_head(head, plan.seed)?;
    let mut manifest = fresh.manifest().clone();
    manifest.training.origin =
        format!("{}; a head trained by protoseg {}", manifest.training.origin, env!("CARGO_PKG_VERSION"));
    manifest.training.seed = Some(plan.seed);
    Ok(Model::new(manifest, fresh.network().clone(), device))
}

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
            calibration: None,
        },
    }
}
