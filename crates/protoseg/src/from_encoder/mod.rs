//! Models from an encoder alone, without a gradient step.
//!
//! Features are the encoder's last maps joined ([`DecoderKind::Stages`](crate::decoder::DecoderKind::Stages)). Such a
//! model knows nothing but a background: a bank of generic rows ([`Model::with_bank`]), made of photos of anything. One
//! pass over a labelled data set gives it base classes and a whitened space instead ([`Model::with_base`]). Training can
//! then give it a head beside them, on features that are computed once ([`Model::with_head`]).

mod bank;
mod base;
mod feature_cache;
mod feature_store;

pub use base::BACKGROUND_ROWS;
pub(crate) use feature_cache::FeatureCache;
pub(crate) use feature_store::FeatureStore;

use std::path::{Path, PathBuf};

use burn::{
    module::Param,
    tensor::{Device, Tensor, TensorData},
};
use protoseg_core::{Classes, Fit, GridPlacement, Preprocess};
use protoseg_data::DataError;

use crate::{
    config::NetworkConfig,
    method::{
        Method, MethodWeights,
        prototypes::{Prototypes, PrototypesWeights, head::HeadSettings, whitening::Whitening},
    },
    model::{Manifest, Model, ModelError, Training},
    weights::{TensorFile, load_encoder, read_encoder_config},
};

/// Longer side of the canvas: photos of 320 pixels are enlarged one and a half times, which small networks like.
pub const SIZE: usize = 480;
/// The stride that ImageNet's encoders were trained with.
const OUTPUT_STRIDE: usize = 32;

/// A model that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FromEncoderError {
    /// The encoder or the model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// No image of the data set can be learned from.
    #[error("no image of `{data}` can be learned from\nhint: check the data set")]
    NoImages {
        /// The data set.
        data: String,
    },
    /// A base class has no pixel.
    #[error(
        "base class `{class}` has no pixel in the images that are learned from\n\
         hint: add images of it, or leave the class out of the data set"
    )]
    NoPixels {
        /// The class.
        class: String,
    },
    /// The model is of another kind.
    #[error("base classes are learned on an encoder alone, but `{model}` was made in another way")]
    OtherMethod {
        /// What it is.
        model: String,
    },
}

impl Model {
    /// A model of the encoder in a file of weights: ours, torchvision's, an EfficientNet-Lite's or a MobileNetV2's. Its
    /// background is one empty row until [`Model::with_bank`] or [`Model::with_base`] gives it more.
    pub fn from_encoder(path: &Path, device: &Device) -> Result<Self, FromEncoderError> {
        let file = TensorFile::open(path).map_err(ModelError::from)?;
        let encoder = read_encoder_config(&file).map_err(ModelError::from)?.at_stride(OUTPUT_STRIDE);
        let network_config = NetworkConfig::stages(encoder);
        let settings = Prototypes::taught(1);
        let mut network =
            network_config.init(&Method::Prototypes(settings.clone()), device).map_err(ModelError::from)?;
        network.encoder = load_encoder(&file, &network_config.encoder, device).map_err(ModelError::from)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let manifest = Manifest {
            format: Manifest::FORMAT,
            preprocess: Preprocess {
                fit: Fit::Tight,
                grid: GridPlacement::Centres,
                ..network_config.encoder.preprocess(SIZE)
            },
            network: network_config,
            classes: Classes::new(&["background"], &[]).map_err(ModelError::from)?,
            method: Method::Prototypes(settings),
            training: Training { origin: format!("the encoder in `{name}`"), ..Training::default() },
        };
        Ok(Self::new(manifest, network, device))
    }

    /// The same encoder with other prototypes.
    fn with_prototypes(
        &self,
        classes: Classes,
        settings: Prototypes,
        (base, whitening): (Vec<f32>, Option<Whitening>),
        training: Training,
    ) -> Self {
        let dim = self.config().dim;
        let rows = TensorData::new(base, [settings.base_rows.iter().sum(), dim]);
        let base = Param::from_tensor(Tensor::from_data(rows, self.device()));
        let method = Method::Prototypes(settings);
        let mut network = self.config().init(&method, self.device()).expect("the settings are ours");
        network.encoder = self.network().encoder.clone();
        if let MethodWeights::Prototypes(weights) = &mut network.method {
            weights.base = base;
            weights.whitening = whitening;
        }
        let manifest = Manifest { classes, method, training, ..self.manifest().clone() };
        Self::new(manifest, network, self.device()).with_store(self.store().cloned())
    }

    /// The same model with a head of fresh weights, about to be trained.
    pub(crate) fn with_fresh_head(&self, head: HeadSettings, seed: u64) -> Result<Self, FromEncoderError> {
        let settings = Prototypes { head: Some(head), ..self.prototypes()?.clone() };
        self.device().seed(seed);
        let method = Method::Prototypes(settings);
        let mut network = self.config().init(&method, self.device()).map_err(ModelError::from)?;
        network.encoder = self.network().encoder.clone();
        if let MethodWeights::Prototypes(weights) = &mut network.method {
            let own = self.network().method.prototypes().clone();
            *weights = PrototypesWeights { head: weights.head.take(), ..own };
        }
        let manifest = Manifest { method, ..self.manifest().clone() };
        Ok(Self::new(manifest, network, self.device()).with_store(self.store().cloned()))
    }

    /// The model's settings, if it is of an encoder alone.
    fn prototypes(&self) -> Result<&Prototypes, FromEncoderError> {
        match &self.manifest().method {
            Method::Prototypes(settings) => Ok(settings),
            other => Err(FromEncoderError::OtherMethod { model: other.name() }),
        }
    }
}

/// Where a model's photos came from, after what it was made of before.
fn origin(before: &str, what: &str, data: &[PathBuf]) -> String {
    let names: Vec<String> = data.iter().map(|path| format!("`{}`", path.display())).collect();
    format!("{before}; {what} {}", names.join(", "))
}
