//! What a training run is to do: one TOML file, every value of which has a default that is the reference's.
//!
//! A plan is read, changed by flags, checked, and saved with the run as it was run.

mod augment;
mod check;
mod file;
mod task;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use protoseg_core::{Augment, Classes, CropFit, Cropper, Fit, NovelPixels, Preprocess};
use protoseg_data::OnError;
use serde::{Deserialize, Serialize};

pub use augment::AugmentPlan;
pub use file::PlanError;
pub use task::{MethodName, Task, UnknownMethod};

use super::OptimizerSettings;
use crate::{
    config::{ConfigError, NetworkConfig},
    decoder::DecoderKind,
    encoder::{EncoderConfig, Settings, Stem, StrideOn},
    method::{
        Method,
        capl::{Ablation, Capl, Options, Preset},
        few_shot,
        prototypes::head::HeadSettings,
    },
};

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// What the model is for: `gfs-seg` or `fs-seg`.
    #[serde(skip_serializing_if = "Task::is_default")]
    pub task: Task,
    /// A row of the ablation table, or for `fs-seg` a system's name.
    pub method: MethodName,
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
    /// Changes to single options of the preset, or for `fs-seg` to single settings of the system.
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
    /// Only this many of the encoder's last layers are trained, the others stay as `init` has them; by default all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_last: Option<usize>,
    /// The whole encoder stays as `init` has it, or as it is in the box: base classes come from one pass over its
    /// features, and a head on them is trained.
    #[serde(skip_serializing_if = "is_false")]
    pub freeze_encoder: bool,
}

/// How long, and in what pieces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingPlan {
    /// Passes over the training images.
    pub epochs: usize,
    /// Images, or episodes, that one step learns from.
    pub batch: usize,
    /// Supports of an episode.
    #[serde(skip_serializing_if = "is_one")]
    pub shots: usize,
    /// Episodes of an epoch; by default one for each training image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episodes: Option<usize>,
    /// The fewest pixels of its class that an image of an episode holds; by default the data set's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_pixels: Option<u64>,
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
    /// The most images to validate on; for `fs-seg` the most episodes too.
    pub images: usize,
    /// Whose episodes choose the best model, for `fs-seg`: `base`, or `novel` as published code has it, which makes the
    /// choice by what is tested.
    #[serde(skip_serializing_if = "ValidationClasses::is_default")]
    pub classes: ValidationClasses,
}

/// Classes of validation episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidationClasses {
    /// Those that are trained.
    #[default]
    Base,
    /// Those of the fold that the model is tested with.
    Novel,
}

impl ValidationClasses {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_one(value: &usize) -> bool {
    *value == 1
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
            task: Task::GfsSeg,
            method: Ablation::Capl.into(),
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
            train_last: None,
            freeze_encoder: false,
        }
    }
}

impl Default for TrainingPlan {
    fn default() -> Self {
        Self {
            epochs: 50,
            batch: 6,
            shots: 1,
            episodes: None,
            min_pixels: None,
            accumulate: 1,
            crop: 473,
            size: None,
            gradient_checkpointing: false,
        }
    }
}

impl Default for ValidationPlan {
    fn default() -> Self {
        Self { on: HOLDOUT.to_string(), share: 0.1, every: 1, images: 100, classes: ValidationClasses::Base }
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
        let row = match self.method {
            MethodName::Generalized(row) => row,
            MethodName::FewShot(name) => return self.resolve_few_shot(name, classes.n_base()),
        };
        let options = self.resolve_options()?;
        let rows = if options.novel_rows { classes.rows().len() } else { classes.n_base() };
        let aux_head = self.network.aux_head && options.loss.aux != 0.0;
        Ok(Method::Capl(Capl::new(row, options, rows, aux_head)))
    }

    /// The head that the plan trains on a frozen encoder.
    pub(crate) fn resolve_head(&self, n_base: usize) -> Result<HeadSettings, ConfigError> {
        let MethodName::Generalized(row) = self.method else {
            let expected = "a row of CAPL's ablation table for a head on a frozen encoder";
            return Err(ConfigError::new("method", self.method, expected));
        };
        let options = Options { novel_rows: false, ..self.resolve_options()? };
        Ok(HeadSettings { capl: Capl::new(row, options, n_base, false), ..HeadSettings::new(n_base) })
    }

    /// The system's published settings with this plan's changes. One that learns base classes too has a row for each.
    fn resolve_few_shot(&self, name: &str, n_base: usize) -> Result<Method, ConfigError> {
        let published = few_shot(name).expect("the plan holds names of systems only");
        let mut table = toml::Table::try_from(&published).expect("settings are plain data");
        if let Some(rows) = table.get_mut("rows") {
            *rows = toml::Value::Integer(n_base as i64);
        }
        merge(&mut table, &self.options);
        let refuse = |got: String| {
            ConfigError::new("options", got, format!("settings of `{name}`, as docs/few-shot.md lists them"))
        };
        let method: Method =
            table.try_into().map_err(|error: toml::de::Error| refuse(error.message().to_string()))?;
        if method.name() != published.name() {
            return Err(refuse(format!("settings of `{}`", method.name())));
        }
        method.validate()?;
        Ok(method)
    }

    /// Encoder and decoder: what the plan says, or for `fs-seg` what the system is published with around the plan's
    /// encoder. `init` is the encoder of the weights to start from.
    pub fn resolve_network(
        &self,
        method: &Method,
        init: Option<&EncoderConfig>,
    ) -> Result<NetworkConfig, ConfigError> {
        let encoder = self.network.encoder_config(init)?;
        let Some(episodic) = method.episodic() else { return Ok(self.network.config(encoder)) };
        let published = method.published_network(encoder);
        episodic.validate_encoder(&published.encoder)?;
        let dim = if published.decoder == DecoderKind::Identity { published.dim } else { self.network.dim };
        Ok(NetworkConfig { dim, dropout: self.network.dropout, ..published })
    }

    /// The random transforms of training. Pictures are normalised as by `preprocess`.
    pub fn transforms(&self, preprocess: &Preprocess) -> Augment {
        self.cropper(preprocess).augment
    }

    /// Makes the crops of images, and of queries.
    pub fn cropper(&self, preprocess: &Preprocess) -> Cropper {
        self.augment.cropper(self.training.crop, preprocess)
    }

    /// Makes the crops of supports.
    pub fn support_cropper(&self, preprocess: &Preprocess) -> Cropper {
        let augment = self.augment.supports.as_deref().unwrap_or(&self.augment);
        augment.cropper(self.training.crop, preprocess)
    }

    /// How images reach the canvas outside training: as in it.
    pub fn fit(&self) -> Fit {
        match self.augment.fit {
            CropFit::Squash => Fit::Squash,
            CropFit::Crop | CropFit::Letterbox => Fit::Letterbox,
        }
    }

    /// Side of the canvas that the trained model predicts on.
    pub fn size(&self) -> usize {
        self.training.size.unwrap_or(self.training.crop)
    }
}

/// Decoders by the names that architectures begin with.
const DECODERS: [(&str, DecoderKind); 6] = [
    ("pspnet-bottleneck", DecoderKind::PspBottleneck),
    ("pspnet", DecoderKind::PspNet),
    ("deeplabv3", DecoderKind::DeepLabV3),
    ("fcn", DecoderKind::Fcn),
    ("project", DecoderKind::Project),
    ("none", DecoderKind::Identity),
];

impl NetworkPlan {
    /// The name that [`Self::set_arch`] takes for this plan's decoder on another encoder.
    pub(crate) fn arch_with(&self, encoder: &str) -> String {
        let decoder =
            DECODERS.iter().find(|(_, kind)| *kind == self.decoder).map_or("pspnet", |(name, _)| name);
        format!("{decoder}-{encoder}")
    }

    /// Sets encoder and decoder by one name: `pspnet50`, `deeplabv3-resnet101`, `fcn18`, `project-vgg16`.
    pub fn set_arch(&mut self, arch: &str) -> Result<(), ConfigError> {
        let found = DECODERS.into_iter().find_map(|(name, kind)| Some((arch.strip_prefix(name)?, kind)));
        let unknown = || {
            ConfigError::new(
                "arch",
                arch,
                "pspnet, pspnet-bottleneck, deeplabv3, fcn, project or none, then a depth or encoder: pspnet50, \
                 fcn-vgg16",
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

    /// Sets the encoder alone: `resnet50`, `vgg16`, or a depth.
    pub fn set_encoder(&mut self, name: &str) -> Result<(), ConfigError> {
        let name = match name.parse::<usize>() {
            Ok(depth) => format!("resnet{depth}"),
            Err(_) => name.to_string(),
        };
        EncoderConfig::parse(&name).map_err(|error| ConfigError { key: "arch".to_string(), ..error })?;
        self.encoder = Some(name);
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
        let width = match init {
            Some(EncoderConfig::ResNet(found)) if self.width == 1.0 => found.width,
            _ => self.width,
        };
        let settings =
            Settings { stem: self.stem, stride_on: self.stride_on, output_stride: self.output_stride, width };
        Ok(EncoderConfig::resolve(named, init, &settings))
    }
}

/// `changes` over `table`, table by table.
pub(crate) fn merge(table: &mut toml::Table, changes: &toml::Table) {
    for (key, change) in changes {
        match (table.get_mut(key), change) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(change)) => merge(inner, change),
            _ => {
                table.insert(key.clone(), change.clone());
            }
        }
    }
}
