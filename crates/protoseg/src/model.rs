//! A model: a network, what its rows mean, how images reach it, how it was trained. One safetensors file holds it all
//! and is enough to predict.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use burn::tensor::{Device, Tensor, TensorData};
use protoseg_core::{Classes, Image, NovelPixels, Preprocess};
use serde::{Deserialize, Serialize};

use crate::{
    bridge::is_cpu,
    config::NetworkConfig,
    inference::Extractor,
    method::capl::{
        gate::Gate,
        method::{Method, Parts},
        options::{Options, Preset},
    },
    network::Network,
    weights::{
        Rename, TensorFile, WeightsError, assign, collect, for_each, import_gfsseg, shapes, write_safetensors,
    },
};

/// What the file says beside its tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this layout.
    pub format: u32,
    pub network: NetworkConfig,
    /// The rows of the classifier, base classes first.
    pub classes: Classes,
    pub method: Method,
    pub options: Options,
    pub preprocess: Preprocess,
    pub training: Training,
}

/// How a model came to be, as far as is known: results without it cannot be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Where the weights are from.
    pub origin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// What happened to pixels of novel classes in base training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub novel_pixels: Option<NovelPixels>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How these weights were chosen among those of the run; results on data they were chosen by say less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
}

/// A model in memory.
#[derive(Debug)]
pub struct Model {
    pub manifest: Manifest,
    network: Network,
    pub device: Device,
    /// The extractor as it is used on the CPU, made when it is first needed.
    fixed: OnceLock<Option<Extractor>>,
}

/// The manifest's key in the file's metadata.
const KEY: &str = "protoseg";
/// The layout this version writes, and the only one it reads.
pub(crate) const FORMAT: u32 = 1;

/// A model file that cannot be used, or an import that does not fit.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(
        "`{}` holds weights but is no protoseg model\nhint: make one with `protoseg import` or by training",
        path.display()
    )]
    NoManifest { path: PathBuf },
    #[error("`{}`: its description cannot be used: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    #[error(
        "`{}` has {rows} classifier rows, but {base} base and {novel} novel classes were named\n\
         hint: name every row in order; the background, if there is one, is the first base class",
        path.display()
    )]
    Rows { path: PathBuf, rows: usize, base: usize, novel: usize },
}

impl Manifest {
    /// The parts of the method that act at registration and on an image. A gate whose trained network the model lacks
    /// (CAPL at test on a plain model) becomes the constant 0.5.
    pub fn inference(&self) -> Parts {
        let mut parts = self.method.inference();
        if parts.sce == Some(Gate::Mlp) && !self.network.support_mlp {
            parts.sce = Some(Gate::Constant(0.5));
        }
        parts
    }

    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("format {} is not the {FORMAT} this version reads", self.format));
        }
        self.network.validate().map_err(|error| error.to_string())?;
        let (rows, classes) = (self.network.rows, &self.classes);
        let named = classes.rows().len();
        if rows != named && rows != classes.n_base() {
            return Err(format!("{named} classes are named for {rows} classifier rows"));
        }
        let size = self.preprocess.size;
        if !(8..=8192).contains(&size) {
            return Err(format!("a canvas of {size} pixels is not between 8 and 8192"));
        }
        let scale = self.preprocess.mean.iter().chain(&self.preprocess.std);
        if scale.into_iter().any(|value| !value.is_finite()) || self.preprocess.std.contains(&0.0) {
            return Err("the mean and deviation of its preprocessing are not usable numbers".to_string());
        }
        Ok(())
    }
}

impl Model {
    pub fn new(manifest: Manifest, network: Network, device: &Device) -> Self {
        Self { manifest, network, device: device.clone(), fixed: OnceLock::new() }
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The extractor for images on the model's canvas, as it is used on the CPU; none on other devices, and none for a
    /// network with a layer that has no kernel.
    pub fn fixed(&self) -> Option<&Extractor> {
        let size = self.manifest.preprocess.size;
        let extractor = || Extractor::new(&self.network, [size, size]).ok();
        is_cpu(&self.device).then(|| self.fixed.get_or_init(extractor).as_ref()).flatten()
    }

    /// F of images, `[batch, 3, height, width]` -> `[batch, d, h, w]`; faster on the CPU if they are on the model's canvas.
    pub fn canvas_features(&self, canvas: Tensor<4>) -> Tensor<4> {
        let [.., height, width] = canvas.dims();
        match self.fixed() {
            Some(fixed) if fixed.size() == [height, width] => fixed.features(canvas),
            _ => self.network.features(canvas),
        }
    }

    /// Reads a checkpoint of the GFS-Seg reference implementation. `classes` names its rows; `size` is the side of the
    /// canvas that the reference's evaluation preprocessing makes.
    pub fn import(path: &Path, classes: Classes, size: usize, device: &Device) -> Result<Self, ModelError> {
        let checkpoint = TensorFile::open(path)?;
        let (network_config, network) = import_gfsseg(&checkpoint, device)?;
        let rows = network_config.rows;
        if rows != classes.rows().len() {
            let (base, novel) = (classes.n_base(), classes.n_novel());
            return Err(ModelError::Rows { path: path.to_path_buf(), rows, base, novel });
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let manifest = Manifest {
            format: FORMAT,
            network: network_config,
            classes,
            method: Method::Capl,
            options: Preset::Reference.options(),
            preprocess: Preprocess::imagenet(size),
            training: Training {
                origin: format!("imported from `{file}`, a checkpoint of the GFS-Seg reference"),
                data: None,
                fold: None,
                novel_pixels: Some(NovelPixels::Drop),
                seed: None,
                selected: None,
            },
        };
        manifest.check().map_err(|reason| ModelError::Manifest { path: path.to_path_buf(), reason })?;
        Ok(Self::new(manifest, network, device))
    }

    /// Reads what a model file says of itself, without its weights.
    pub fn read_manifest(path: &Path) -> Result<Manifest, ModelError> {
        Self::open(path).map(|(manifest, _)| manifest)
    }

    fn open(path: &Path) -> Result<(Manifest, TensorFile), ModelError> {
        let checkpoint = TensorFile::open(path)?;
        let json = checkpoint
            .metadata
            .get(KEY)
            .ok_or_else(|| ModelError::NoManifest { path: path.to_path_buf() })?;
        let wrong = |reason: String| ModelError::Manifest { path: path.to_path_buf(), reason };
        let manifest: Manifest = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        manifest.check().map_err(wrong)?;
        Ok((manifest, checkpoint))
    }

    /// Reads a model file.
    pub fn load(path: &Path, device: &Device) -> Result<Self, ModelError> {
        let (manifest, checkpoint) = Self::open(path)?;
        let network = manifest.network.init(device).expect("open checked the config");
        let network = assign(network, &checkpoint, |name| Rename::To(name.to_string()))?;
        Ok(Self::new(manifest, network, device))
    }

    /// An image on the network's canvas, `[1, 3, size, size]`.
    pub(crate) fn canvas(&self, image: &Image) -> Tensor<4> {
        let canvas = self.manifest.preprocess.image(image);
        let shape = [1, 3, canvas.size, canvas.size];
        Tensor::from_data(TensorData::new(canvas.data, shape), &self.device)
    }

    /// Number of trained values; running statistics of batch-norm are none.
    pub fn parameters(&self) -> usize {
        let trained = |(name, _): &(String, Vec<usize>)| !name.contains(".running_");
        shapes(&self.network)
            .into_iter()
            .filter(trained)
            .map(|(_, shape)| shape.iter().product::<usize>())
            .sum()
    }

    /// A short name of all that features depend on: weights and preprocessing. Prototypes of one model mean nothing to
    /// another, so class packs carry it.
    pub fn fingerprint(&self) -> String {
        let mut hash = blake3::Hasher::new();
        let preprocess = serde_json::to_vec(&self.manifest.preprocess).expect("preprocessing is plain data");
        hash.update(&preprocess);
        for_each(&self.network, |name, values| {
            hash.update(name.as_bytes());
            hash.update(format!("{:?}", values.shape()).as_bytes());
            hash.update(values.bytes());
        });
        hash.finalize().to_hex()[..16].to_string()
    }

    /// Writes the model file: whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        let manifest = serde_json::to_string(&self.manifest).expect("a manifest is plain data");
        let metadata = HashMap::from([(KEY.to_string(), manifest)]);
        Ok(write_safetensors(path, collect(&self.network), metadata)?)
    }
}
