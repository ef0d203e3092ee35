//! A model: a network, what its rows mean, how images reach it, how it was trained. One safetensors file holds it all
//! and is enough to predict.

mod builtin;
mod manifest;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use burn::tensor::{Device, Tensor, TensorData};
use protoseg_core::{ClassError, Classes, Fit, Image, NovelPixels, Preprocess};

pub use manifest::{Calibration, Manifest, Training};

use crate::{
    bridge::is_cpu,
    config::{ConfigError, NetworkConfig},
    device::cpu,
    from_encoder::FeatureStore,
    inference::{Extractor, Precision, Programs},
    method::{Method, Usage, Vision, capl::Capl},
    network::{Network, Section},
    nn::ConvWeights,
    weights::{
        Checkpoint, Rename, TensorFile, WeightsError, assign, for_each, import_few_shot, import_gfsseg,
        serialize, shapes, write_safetensors,
    },
};

/// A model in memory. A clone shares weights with its origin and costs nothing.
#[derive(Clone, Debug)]
pub struct Model {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    manifest: Manifest,
    /// Of a file, weights come here when they are first used: most are used by programs alone, which pack them.
    network: Arc<Network>,
    /// The file that weights are from.
    checkpoint: Option<Checkpoint>,
    device: Device,
    /// Parts of the network as they are used on the CPU.
    programs: Programs,
    /// Where features of a data set's images are kept, if they are.
    store: Option<Arc<FeatureStore>>,
}

/// What the names of the encoder's tensors begin with.
const ENCODER: &str = "encoder.";

/// The manifest's key in the file's metadata.
const KEY: &str = "protoseg";

/// A model file that cannot be used, or an import that does not fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Its tensors cannot be read, written or used.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// Its settings are impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file of weights only.
    #[error("`{}` holds weights but is not a protoseg model", path.display())]
    NoManifest {
        /// The file.
        path: PathBuf,
    },
    /// Its description is damaged, or newer than this version.
    #[error("`{}`: its description cannot be used: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An import whose rows were not all named.
    #[error(
        "`{}` has {rows} classifier rows, but {base} base and {novel} novel classes were named\n\
         hint: name every row in order; the background, if there is one, is the first base class",
        path.display()
    )]
    Rows {
        /// The file.
        path: PathBuf,
        /// Its classifier's rows.
        rows: usize,
        /// Names of base classes that were given.
        base: usize,
        /// Names of novel classes that were given.
        novel: usize,
    },
    /// A name cannot be that of a class.
    #[error(transparent)]
    Classes(#[from] ClassError),
    /// A generalized method was asked to answer an episode.
    #[error("`{method}` does not answer episodes\nhint: register the class, then predict")]
    Generalized {
        /// The method.
        method: String,
    },
    /// A support does not show its class.
    #[error(
        "support `{support}` of class `{class}` has no foreground at the network's size: got `{pixels}` pixels in the mask\n\
         hint: mark the class in the mask, or cut the image closer around it"
    )]
    NoForeground {
        /// The class.
        class: String,
        /// The support's name.
        support: String,
        /// Pixels of the class in the mask as it was given.
        pixels: u64,
    },
    /// There is nothing to find a class by.
    #[error("class `{class}` has no support\nhint: give at least one image with its mask")]
    NoSupport {
        /// The class.
        class: String,
    },
    /// A method that answers episodes was asked for what only generalized ones do.
    #[error("`{method}` answers one query from its supports; it keeps no classes to predict with")]
    Episodic {
        /// The method.
        method: String,
    },
}

impl Model {
    /// A model of these parts.
    pub fn new(manifest: Manifest, network: Network, device: &Device) -> Self {
        Self::of_parts(manifest, Arc::new(network), None, device)
    }

    fn of_parts(
        manifest: Manifest,
        network: Arc<Network>,
        checkpoint: Option<Checkpoint>,
        device: &Device,
    ) -> Self {
        let (device, programs) = (device.clone(), Programs::default());
        Self { shared: Arc::new(Shared { manifest, network, checkpoint, device, programs, store: None }) }
    }

    /// The same weights, nothing of them computed yet, with some parts changed.
    fn changed(&self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared { manifest, network, checkpoint, device, programs, store } = self.shared.as_ref();
        let mut shared = Shared {
            manifest: manifest.clone(),
            network: Arc::clone(network),
            checkpoint: checkpoint.clone(),
            device: device.clone(),
            programs: Programs::new(programs.precision()),
            store: store.clone(),
        };
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }

    /// The same model with this place for features.
    pub(crate) fn with_store(&self, store: Option<Arc<FeatureStore>>) -> Self {
        self.changed(|shared| shared.store = store)
    }

    /// The same model, which multiplies with this precision on the CPU. Use [`Precision::Fast`] to predict; classes are
    /// best registered, and models evaluated, in single precision. The fingerprint stays the same.
    pub fn with_precision(&self, precision: Precision) -> Self {
        self.changed(|shared| shared.programs = Programs::new(precision))
    }

    /// How numbers are rounded before they are multiplied on the CPU.
    pub fn precision(&self) -> Precision {
        self.shared.programs.precision()
    }

    /// Where features of a data set's images are kept, if they are.
    pub(crate) fn store(&self) -> Option<&Arc<FeatureStore>> {
        self.shared.store.as_ref()
    }

    /// A model with random weights.
    pub fn random(manifest: Manifest, device: &Device) -> Result<Self, ModelError> {
        let network = manifest.network.init(&manifest.method, device)?;
        Ok(Self::new(manifest, network, device))
    }

    /// Reads a model file, for use on the CPU.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        Self::load_on(path, &cpu())
    }

    /// Reads a model file, for use on a device.
    pub fn load_on(path: impl AsRef<Path>, device: &Device) -> Result<Self, ModelError> {
        let file = TensorFile::open(path.as_ref())?;
        let manifest = Self::manifest_of(&file)?;
        let network = manifest.network.init(&manifest.method, device)?;
        let checkpoint = Checkpoint::read(file, &network)?;
        let network = Arc::new(checkpoint.assign_later(network));
        Ok(Self::of_parts(manifest, network, Some(checkpoint), device))
    }

    /// A model whose weights stay in memory.
    fn of_file(file: &TensorFile, device: &Device) -> Result<Self, ModelError> {
        let manifest = Self::manifest_of(file)?;
        let network = manifest.network.init(&manifest.method, device)?;
        let network = assign(network, file, |name| Rename::To(name.to_string()))?;
        Ok(Self::new(manifest, network, device))
    }

    /// Whether a file of tensors is a model.
    pub(crate) fn is_model(file: &TensorFile) -> bool {
        file.metadata.contains_key(KEY)
    }

    /// Reads what a model file says of itself, without its weights.
    pub fn read_manifest(path: impl AsRef<Path>) -> Result<Manifest, ModelError> {
        Self::manifest_of(&TensorFile::open(path.as_ref())?)
    }

    fn manifest_of(file: &TensorFile) -> Result<Manifest, ModelError> {
        let json =
            file.metadata.get(KEY).ok_or_else(|| ModelError::NoManifest { path: file.path.clone() })?;
        Manifest::parse(json).map_err(|reason| ModelError::Manifest { path: file.path.clone(), reason })
    }

    /// Reads a checkpoint of the GFS-Seg reference implementation. `classes` names its rows; `size` is the side of the
    /// canvas that the reference's evaluation preprocessing makes.
    pub fn import(path: &Path, classes: Classes, size: usize, device: &Device) -> Result<Self, ModelError> {
        let file = TensorFile::open(path)?;
        let (network_config, capl, network) = import_gfsseg(&file, device)?;
        let rows = capl.rows;
        if rows != classes.rows().len() {
            let (base, novel) = (classes.n_base(), classes.n_novel());
            return Err(ModelError::Rows { path: path.to_path_buf(), rows, base, novel });
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let training = Training {
            origin: format!("imported from `{name}`, a checkpoint of the GFS-Seg reference"),
            novel_pixels: Some(NovelPixels::Drop),
            ..Training::default()
        };
        let manifest = Manifest {
            format: Manifest::FORMAT,
            network: network_config,
            classes,
            method: Method::Capl(capl),
            preprocess: Preprocess::imagenet(size),
            training,
        };
        manifest.check().map_err(|reason| ModelError::Manifest { path: path.to_path_buf(), reason })?;
        Ok(Self::new(manifest, network, device))
    }

    /// Reads a published checkpoint of a system for episodes, which its keys tell; nothing if they tell none. `size` is
    /// the side of the canvas, by default the published one.
    pub fn import_few_shot(
        path: &Path,
        size: Option<usize>,
        device: &Device,
    ) -> Result<Option<Self>, ModelError> {
        let file = TensorFile::open(path)?;
        let Some((network_config, method, network)) = import_few_shot(&file, device)? else {
            return Ok(None);
        };
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let origin = format!("imported from `{file}`, a checkpoint of {}", method.name());
        let size = size.unwrap_or_else(|| method.published_size());
        let manifest = Manifest {
            format: Manifest::FORMAT,
            preprocess: Preprocess { fit: method.published_fit(), ..network_config.encoder.preprocess(size) },
            network: network_config,
            // Such a system knows no class by name.
            classes: Classes::new(&["background"], &[] as &[&str])?,
            method,
            training: Training { origin, ..Training::default() },
        };
        manifest.check().map_err(|reason| ModelError::Manifest { path: path.to_path_buf(), reason })?;
        Ok(Some(Self::new(manifest, network, device)))
    }

    /// Writes the model file: whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        self.write(path.as_ref(), self.tensors())
    }

    /// The same with 16 bits per weight: half the size. What is read again differs in the fourth digit, and so does its
    /// fingerprint.
    pub fn save_half(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        let half = |(name, values): (String, TensorData)| (name, values.convert::<half::f16>());
        self.write(path.as_ref(), self.tensors().into_iter().map(half).collect())
    }

    /// What the model has beside the encoder of the model in the box, with 16 bits per weight: a small file that
    /// [`Model::builtin`]'s encoder completes.
    pub fn save_beside_builtin(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        let own = self.tensors().into_iter().filter(|(name, _)| !name.starts_with(ENCODER));
        let half = |(name, values): (String, TensorData)| (name, values.convert::<half::f16>());
        self.write(path.as_ref(), own.map(half).collect())
    }

    fn write(&self, path: &Path, tensors: Vec<(String, TensorData)>) -> Result<(), ModelError> {
        Ok(write_safetensors(path, tensors, self.metadata())?)
    }

    fn metadata(&self) -> HashMap<String, String> {
        let manifest = serde_json::to_string(self.manifest()).expect("a manifest is plain data");
        HashMap::from([(KEY.to_string(), manifest)])
    }

    /// The bytes of the model file, to send the model elsewhere ([`Self::from_bytes`]).
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let failed = |source| WeightsError::Write { path: "the model".into(), source };
        Ok(serialize(self.tensors(), self.metadata()).map_err(failed)?)
    }

    /// The model of a file that is in memory, for use on a device.
    pub fn from_bytes(bytes: Vec<u8>, device: &Device) -> Result<Self, ModelError> {
        Self::of_file(&TensorFile::in_memory("the model in memory", bytes)?, device)
    }

    /// The same weights with another description.
    pub(crate) fn with_manifest(&self, manifest: Manifest) -> Self {
        self.changed(|shared| shared.manifest = manifest).keep_features_like(self)
    }

    /// The same weights with a canvas of another side. Features change with it, and so does the fingerprint.
    pub fn with_canvas(&self, size: usize) -> Result<Self, ModelError> {
        if !(8..=8192).contains(&size) {
            return Err(ConfigError::new("size", size, "a side from 8 to 8192 pixels").into());
        }
        let mut manifest = self.manifest().clone();
        manifest.preprocess.size = size;
        Ok(self.with_manifest(manifest))
    }

    /// The same weights with a canvas that is a third larger, for a second look at images.
    pub(crate) fn for_second_look(&self) -> Result<Self, ModelError> {
        let size = self.preprocess().size;
        // The network's grid begins and ends at the canvas's edge as before.
        self.with_canvas(size + size / 3 / Preprocess::MULTIPLE * Preprocess::MULTIPLE)
    }

    /// The same weights with images that reach the canvas in another way. The fingerprint changes with it.
    pub fn with_fit(&self, fit: Fit) -> Self {
        if self.preprocess().fit == fit {
            return self.clone();
        }
        let mut manifest = self.manifest().clone();
        manifest.preprocess.fit = fit;
        self.with_manifest(manifest)
    }

    /// What the model is, apart from its weights.
    pub fn manifest(&self) -> &Manifest {
        &self.shared.manifest
    }

    /// The classes that the model has learned, and those that rows were kept for.
    pub fn classes(&self) -> &Classes {
        &self.manifest().classes
    }

    /// How images reach the network.
    pub fn preprocess(&self) -> &Preprocess {
        &self.manifest().preprocess
    }

    /// Encoder and decoder.
    pub fn config(&self) -> &NetworkConfig {
        &self.manifest().network
    }

    /// Everything that has weights.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }

    /// Calls `each` with the name and the values of every weight and running statistic, in the order of the network.
    pub(crate) fn for_each_tensor(&self, each: impl FnMut(String, TensorData)) {
        match &self.shared.checkpoint {
            Some(checkpoint) => checkpoint.for_each(self.network(), each),
            None => for_each(self.network(), each),
        }
    }

    fn tensors(&self) -> Vec<(String, TensorData)> {
        let mut tensors = Vec::new();
        self.for_each_tensor(|name, values| tensors.push((name, values)));
        tensors
    }

    /// The network for a program, which lets go of each weight of a file as soon as it is packed; or keeps all of them if
    /// images keep their shape on the canvas, since every shape takes a program.
    fn network_for_program(&self) -> (&Network, ConvWeights) {
        let checkpoint = self.shared.checkpoint.as_ref().filter(|_| self.preprocess().fit != Fit::Tight);
        (self.network(), checkpoint.map(|from| from.conv_weights(self.network())).unwrap_or_default())
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// How the model registers classes and scores images: as it was trained.
    pub fn usage(&self) -> Result<Usage, ModelError> {
        let method = &self.manifest().method;
        method.usage().ok_or_else(|| ModelError::Episodic { method: method.name() })
    }

    /// How the confidences of the model, used like this, were made true. That is done for the model as it was trained, and
    /// for no other use.
    pub fn calibration(&self, usage: &Usage) -> Option<&Calibration> {
        let is_own = || self.usage().is_ok_and(|own| own.is_same_use(usage));
        self.manifest().training.calibration.as_ref().filter(|_| is_own())
    }

    /// CAPL's settings, if that is the model's method.
    pub fn capl(&self) -> Option<&Capl> {
        match &self.manifest().method {
            Method::Capl(capl) => Some(capl),
            _ => None,
        }
    }

    /// F of an image, `[1, d, h, w]`.
    pub fn features(&self, image: &Image) -> Tensor<4> {
        self.canvas_features(self.canvas(image))
    }

    /// F of images, `[batch, 3, height, width]` -> `[batch, d, h, w]`. It is faster on the CPU if they are on a canvas of
    /// the model's.
    pub fn canvas_features(&self, canvas: Tensor<4>) -> Tensor<4> {
        let [.., height, width] = canvas.dims();
        let Preprocess { size, fit, .. } = *self.preprocess();
        let is_own = fit == Fit::Tight || [height, width] == [size, size];
        match is_own.then(|| self.extractor([height, width])).flatten() {
            Some(extractor) => extractor.features(canvas),
            None => self.network().features(canvas),
        }
    }

    /// The extractor of the maps that F is joined of, for images `[1, channels, height, width]`; none if F is made in
    /// another way.
    pub(crate) fn stage_extractor(&self, image: [usize; 4]) -> Option<Arc<Extractor>> {
        let [1, channels, height, width] = image else { return None };
        let section = self.network().joined_stages().filter(|_| is_cpu(self.device()))?;
        self.program(&section, [height, width, channels])
    }

    /// The extractor for images of `[height, width]`, as it is used on the CPU. There is none on other devices, or if the
    /// network has a layer without a kernel: images then go through Burn's modules.
    pub fn extractor(&self, [height, width]: [usize; 2]) -> Option<Arc<Extractor>> {
        is_cpu(self.device()).then(|| self.program(&Section::Features, [height, width, 3])).flatten()
    }

    fn program(&self, section: &Section, input: [usize; 3]) -> Option<Arc<Extractor>> {
        self.shared.programs.get(|| self.network_for_program(), section, input)
    }

    /// The network as methods look through it, by programs on the CPU.
    pub fn vision(&self) -> Vision<'_> {
        let network = self.network();
        if is_cpu(self.device()) {
            Vision::fixed(network, &self.shared.programs)
        } else {
            Vision::new(network)
        }
    }

    /// An image on the network's canvas, `[1, 3, height, width]`.
    pub fn canvas(&self, image: &Image) -> Tensor<4> {
        let canvas = self.preprocess().image(image);
        let shape = [1, 3, canvas.height, canvas.width];
        Tensor::from_data(TensorData::new(canvas.data, shape), self.device())
    }

    /// Number of trainable parameters, not counting batch-norm's running statistics.
    pub fn parameters(&self) -> usize {
        let trained = |(name, _): &(String, Vec<usize>)| !name.contains(".running_");
        shapes(self.network())
            .into_iter()
            .filter(trained)
            .map(|(_, shape)| shape.iter().product::<usize>())
            .sum()
    }

    /// A short name for everything that features depend on: weights and preprocessing. Prototypes of one model mean
    /// nothing to another, so class packs carry it.
    pub fn fingerprint(&self) -> String {
        let mut hash = blake3::Hasher::new();
        let preprocess = serde_json::to_vec(self.preprocess()).expect("preprocessing is plain data");
        hash.update(&preprocess);
        self.for_each_tensor(|name, values| {
            hash.update(name.as_bytes());
            hash.update(format!("{:?}", values.shape()).as_bytes());
            hash.update(values.bytes());
        });
        hash.finalize().to_hex()[..16].to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_can_be_shared_between_threads() {
        fn is_shared<T: Send + Sync + Clone + 'static>() {}
        is_shared::<Model>();
    }

    #[test]
    fn a_model_and_a_pack_are_the_same_after_a_way_through_memory() {
        let model = Model::builtin();
        let again = Model::from_bytes(model.to_bytes().unwrap(), &cpu()).unwrap();
        assert_eq!((again.fingerprint(), again.manifest()), (model.fingerprint(), model.manifest()));
        let image = Image::new(64, 48, (0..64 * 48 * 3).map(|at| (at * 7 % 251) as u8).collect());
        let mask: Vec<bool> = (0..64 * 48).map(|at| at % 64 > 20).collect();
        let mut pack = crate::ClassPack::new(&model);
        let support = protoseg_data::Support::from_mask("photo", image, &mask).unwrap();
        model.register(&mut pack, "duck", [support]).unwrap();
        assert_eq!(crate::ClassPack::from_bytes(pack.to_bytes().unwrap()).unwrap(), pack);
        let error = Model::from_bytes(vec![255; 99], &cpu()).unwrap_err().to_string();
        assert!(error.starts_with("`the model in memory` is not a file of weights"), "{error}");
    }
}
