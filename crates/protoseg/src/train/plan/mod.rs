//! What a training run is to do: one TOML file, every value of which has a default that is the reference's.
//!
//! A plan is read, changed by flags, checked, and saved with the run as it was run.

mod file;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use protoseg_core::{Augment, Classes, NovelPixels, Preprocess};
use protoseg_data::OnError;
use serde::{Deserialize, Serialize};

pub use file::PlanError;

use super::OptimizerSettings;
use crate::{
    config::{ConfigError, NetworkConfig},
    decoder::DecoderKind,
    encoder::{EncoderConfig, Settings, Stem, StrideOn},
    method::{
        Method,
        capl::{Ablation, Capl, Options, Preset},
    },
};

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// A row of the ablation table.
    pub method: Ablation,
    /// Which variant of the method to use where the paper and its reference differ.
    pub preset: Preset,
    /// Everything random follows from it.
    pub seed: u64,
    /// One device, or several that share each batch.
    pub devices: Vec<String>,
    /// Which images.
    pub data: DataPlan,
    /// Which network.
    pub network: NetworkPlan,
    /// How long, and in what pieces.
    pub training: TrainingPlan,
    /// How weights are moved.
    pub optimizer: OptimizerSettings,
    /// How crops are varied.
    pub augment: AugmentPlan,
    /// How the run is checked while it goes on.
    pub validation: ValidationPlan,
    /// When the run is saved.
    pub checkpoint: CheckpointPlan,
    /// Changes to single options of the preset.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub options: toml::Table,
}

/// Which images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataPlan {
    /// A folder, a .toml file, or a benchmark's name.
    pub source: String,
    /// The folder of a benchmark that is given by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Whose novel classes are kept out of training.
    pub fold: usize,
    /// What happens to pixels of novel classes; by default what the data set says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub novel_pixels: Option<NovelPixels>,
    /// What an unreadable image does: `stop` the run, or `skip` it and warn.
    pub on_error: OnError,
    /// Threads that read and augment.
    pub workers: usize,
}

/// Which network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPlan {
    /// A name of the table of encoders (`resnet50`, `vgg16`); by default what `init` holds, else `resnet50`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<String>,
    /// From maps to features.
    pub decoder: DecoderKind,
    /// Of a ResNet; by default what `init` holds, else `deep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem: Option<Stem>,
    /// Of a ResNet with bottlenecks; by default what `init` holds, else `3x3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride_on: Option<StrideOn>,
    /// 8, 16 or, except for VGG-16, 32; by default the encoder's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_stride: Option<usize>,
    /// Of a ResNet: all channel counts are multiplied by this.
    pub width: f64,
    /// Dimension of features and prototypes.
    pub dim: usize,
    /// Channel dropout in the heads.
    pub dropout: f64,
    /// Whether there is an auxiliary head.
    pub aux_head: bool,
    /// Weights that the encoder starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<PathBuf>,
    /// The encoder's batch-norm stays as `init` has it.
    pub freeze_batch_norm: bool,
}

/// How long, and in what pieces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingPlan {
    /// Passes over the training images.
    pub epochs: usize,
    /// Images that one step learns from.
    pub batch: usize,
    /// In how many parts a device takes its share of the batch, one after the other.
    pub accumulate: usize,
    /// Side of the training crops.
    pub crop: usize,
    /// Side of the canvas that the trained model predicts on; by default the crop's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// Recompute cheap layers in the backward pass instead of keeping them.
    pub gradient_checkpointing: bool,
}

/// How crops are varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentPlan {
    /// Smallest and largest scale.
    pub scale: [f64; 2],
    /// Largest rotation to either side in degrees, and how often.
    pub rotate: f64,
    /// How often a crop is rotated.
    pub rotate_p: f64,
    /// How often it is blurred.
    pub blur_p: f64,
    /// How often it is flipped left to right.
    pub flip_p: f64,
}

/// How the network is validated while the run goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValidationPlan {
    /// `none`, `holdout` (a share of the training images, which are then not trained on), or a split of the data set.
    pub on: String,
    /// Of the training images, for `holdout`.
    pub share: f64,
    /// Epochs from one to the next.
    pub every: usize,
    /// The most images to validate on.
    pub images: usize,
}

/// When the run is saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointPlan {
    /// Steps from one to the next; 0 is once an epoch.
    pub every: usize,
    /// How many are kept. With one there is nothing to fall back on when it is damaged.
    pub keep: usize,
}

/// `validation.on` without any.
pub const NO_VALIDATION: &str = "none";
/// `validation.on` for a part of the training images.
pub const HOLDOUT: &str = "holdout";

impl Default for Plan {
    fn default() -> Self {
        Self {
            method: Ablation::Capl,
            preset: Preset::Reference,
            seed: 321,
            devices: vec!["cpu".to_string()],
            data: DataPlan::default(),
            network: NetworkPlan::default(),
            training: TrainingPlan::default(),
            optimizer: OptimizerSettings::reference(),
            augment: AugmentPlan::default(),
            validation: ValidationPlan::default(),
            checkpoint: CheckpointPlan::default(),
            options: toml::Table::new(),
        }
    }
}

impl Default for DataPlan {
    fn default() -> Self {
        Self {
            source: String::new(),
            root: None,
            fold: 0,
            novel_pixels: None,
            on_error: OnError::Stop,
            workers: 1,
        }
    }
}

impl Default for NetworkPlan {
    fn default() -> Self {
        Self {
            encoder: None,
            decoder: DecoderKind::PspNet,
            stem: None,
            stride_on: None,
            output_stride: None,
            width: 1.0,
            dim: 512,
            dropout: 0.1,
            aux_head: true,
            init: None,
            freeze_batch_norm: false,
        }
    }
}

impl Default for TrainingPlan {
    fn default() -> Self {
        Self { epochs: 50, batch: 6, accumulate: 1, crop: 473, size: None, gradient_checkpointing: false }
    }
}

impl Default for AugmentPlan {
    fn default() -> Self {
        let Augment { scale, rotate, rotate_p, blur_p, flip_p, .. } = Augment::reference(1);
        Self { scale, rotate: rotate[1], rotate_p, blur_p, flip_p }
    }
}

impl Default for ValidationPlan {
    fn default() -> Self {
        Self { on: HOLDOUT.to_string(), share: 0.1, every: 1, images: 100 }
    }
}

impl Default for CheckpointPlan {
    fn default() -> Self {
        Self { every: 0, keep: 2 }
    }
}

impl Plan {
    /// The preset's options with this plan's changes.
    pub fn resolve_options(&self) -> Result<Options, ConfigError> {
        let mut table = toml::Table::try_from(self.preset.options()).expect("options are plain data");
        merge(&mut table, &self.options);
        table.try_into().map_err(|error: toml::de::Error| {
            ConfigError::new("options", error.message(), "the names and values that docs/method.md lists")
        })
    }

    /// The method that the plan trains, with a row for each class that needs one.
    pub fn resolve_method(&self, classes: &Classes) -> Result<Method, ConfigError> {
        let options = self.resolve_options()?;
        let rows = if options.novel_rows { classes.rows().len() } else { classes.n_base() };
        let aux_head = self.network.aux_head && options.loss.aux != 0.0;
        Ok(Method::Capl(Capl::new(self.method, options, rows, aux_head)))
    }

    /// The random transforms of training. Pictures are normalised as by `preprocess`.
    pub fn transforms(&self, preprocess: &Preprocess) -> Augment {
        let AugmentPlan { scale, rotate, rotate_p, blur_p, flip_p } = self.augment;
        let rotate = [-rotate, rotate];
        let &Preprocess { mean, std, .. } = preprocess;
        let reference = Augment::reference(self.training.crop);
        Augment { scale, rotate, rotate_p, blur_p, flip_p, mean, std, ..reference }
    }

    /// Side of the canvas that the trained model predicts on.
    pub fn size(&self) -> usize {
        self.training.size.unwrap_or(self.training.crop)
    }

    /// Refuses impossible values before anything is read or written.
    pub fn check(&self) -> Result<(), ConfigError> {
        let refuse =
            |key, got: &dyn ToString, expected| Err(ConfigError::new(key, got.to_string(), expected));
        let (data, training, augment) = (&self.data, &self.training, &self.augment);
        if data.source.is_empty() {
            return refuse("data.source", &"\"\"", "a folder, a .toml file, or a benchmark's name");
        }
        if !(1..=64).contains(&data.workers) {
            return refuse("data.workers", &data.workers, "1 to 64 threads");
        }
        if self.devices.is_empty() {
            return refuse("devices", &"[]", "at least one device");
        }
        if !(1..=100_000).contains(&training.epochs) {
            return refuse("training.epochs", &training.epochs, "1 to 100000");
        }
        if !(1..=64).contains(&training.accumulate) {
            return refuse("training.accumulate", &training.accumulate, "1 to 64 parts");
        }
        let shares = training.accumulate * self.devices.len();
        if !training.batch.is_multiple_of(shares) || training.batch < 2 * shares || training.batch > 4096 {
            let expected =
                "at most 4096, with at least 2 images for each device and part, the same number for each";
            return refuse("training.batch", &training.batch, expected);
        }
        if !(17..=4096).contains(&training.crop) {
            return refuse("training.crop", &training.crop, "a side from 17 to 4096 pixels");
        }
        if !(17..=8192).contains(&self.size()) {
            return refuse("training.size", &self.size(), "a side from 17 to 8192 pixels");
        }
        let [least, most] = augment.scale;
        if !(0.1..=10.0).contains(&least) || !(least..=10.0).contains(&most) {
            let got = format!("[{least}, {most}]");
            return refuse("augment.scale", &got, "two numbers from 0.1 to 10, the smaller first");
        }
        if !(0.0..=180.0).contains(&augment.rotate) {
            return refuse("augment.rotate", &augment.rotate, "0 to 180 degrees");
        }
        let chances = [
            ("augment.rotate_p", augment.rotate_p),
            ("augment.blur_p", augment.blur_p),
            ("augment.flip_p", augment.flip_p),
        ];
        for (key, chance) in chances {
            if !(0.0..=1.0).contains(&chance) {
                return refuse(key, &chance, "a probability from 0 to 1");
            }
        }
        let validation = &self.validation;
        if !(validation.share > 0.0 && validation.share <= 0.5) {
            return refuse("validation.share", &validation.share, "a share above 0 and up to 0.5");
        }
        if validation.every == 0 {
            return refuse("validation.every", &0, "1 or more epochs");
        }
        if validation.images == 0 {
            return refuse("validation.images", &0, "1 or more images");
        }
        if !(1..=100).contains(&self.checkpoint.keep) {
            return refuse("checkpoint.keep", &self.checkpoint.keep, "1 to 100 checkpoints");
        }
        self.optimizer.validate()?;
        self.resolve_options()?;
        self.network.config(self.network.encoder_config(None)?).validate().map_err(|error| {
            let key = error.key.strip_prefix("encoder.").unwrap_or(&error.key);
            ConfigError { key: format!("network.{key}"), ..error }
        })
    }
}

impl NetworkPlan {
    /// Sets encoder and decoder by one name: `pspnet50`, `deeplabv3-resnet101`, `fcn18`, `project-vgg16`.
    pub fn set_arch(&mut self, arch: &str) -> Result<(), ConfigError> {
        let decoders = [
            ("pspnet", DecoderKind::PspNet),
            ("deeplabv3", DecoderKind::DeepLabV3),
            ("fcn", DecoderKind::Fcn),
            ("project", DecoderKind::Project),
            ("none", DecoderKind::Identity),
        ];
        let found = decoders.into_iter().find_map(|(name, kind)| Some((arch.strip_prefix(name)?, kind)));
        let unknown = || {
            ConfigError::new(
                "arch",
                arch,
                "pspnet, deeplabv3, fcn, project or none, then a depth or encoder: pspnet50, fcn-vgg16",
            )
        };
        let (encoder, decoder) = found.ok_or_else(unknown)?;
        let encoder = encoder.trim_start_matches('-');
        let encoder = match encoder.parse::<usize>() {
            Ok(depth) => format!("resnet{depth}"),
            Err(_) => encoder.to_string(),
        };
        EncoderConfig::parse(&encoder).map_err(|_| unknown())?;
        self.encoder = Some(encoder);
        self.decoder = decoder;
        Ok(())
    }

    /// The network around an encoder.
    pub fn config(&self, encoder: EncoderConfig) -> NetworkConfig {
        let [_, channels] = encoder.channels();
        let dim = if self.decoder == DecoderKind::Identity { channels } else { self.dim };
        NetworkConfig { encoder, decoder: self.decoder, dim, dropout: self.dropout }
    }

    /// The encoder: as said here, else as the weights that it starts from have it, else the reference's.
    pub fn encoder_config(&self, init: Option<&EncoderConfig>) -> Result<EncoderConfig, ConfigError> {
        let named = self.encoder.as_deref().map(EncoderConfig::parse).transpose();
        let named = named.map_err(|error| ConfigError { key: "network.encoder".to_string(), ..error })?;
        let settings = Settings {
            stem: self.stem,
            stride_on: self.stride_on,
            output_stride: self.output_stride,
            width: self.width,
        };
        Ok(EncoderConfig::resolve(named, init, &settings))
    }
}

/// `changes` over `table`, table by table.
fn merge(table: &mut toml::Table, changes: &toml::Table) {
    for (key, change) in changes {
        match (table.get_mut(key), change) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(change)) => merge(inner, change),
            _ => {
                table.insert(key.clone(), change.clone());
            }
        }
    }
}
