//! What no plan can ask for.

use super::{MethodName, NetworkPlan, Plan, Task};
use crate::{config::ConfigError, encoder::EncoderConfig};

impl Plan {
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
        if training.epochs == 0 {
            return refuse("training.epochs", &0, "at least 1");
        }
        if training.epochs > 100_000 {
            return refuse("training.epochs", &training.epochs, "at most 100000");
        }
        if !(1..=64).contains(&training.accumulate) {
            return refuse("training.accumulate", &training.accumulate, "1 to 64 parts");
        }
        let shares = training.accumulate * self.devices.len();
        let (least, expected) = match self.task {
            Task::GfsSeg => (
                2 * shares,
                "at most 4096, with at least 2 images for each device and part, the same number for each",
            ),
            Task::FsSeg => (
                shares,
                "at most 4096, with at least 1 episode for each device and part, the same number for each",
            ),
        };
        if !training.batch.is_multiple_of(shares) || training.batch < least || training.batch > 4096 {
            return refuse("training.batch", &training.batch, expected);
        }
        if !(17..=4096).contains(&training.crop) {
            return refuse("training.crop", &training.crop, "a side from 17 to 4096 pixels");
        }
        if !(17..=8192).contains(&self.size()) {
            return refuse("training.size", &self.size(), "a side from 17 to 8192 pixels");
        }
        augment.check("augment")?;
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
        if self.network.train_last == Some(0) {
            return refuse("network.train_last", &0, "1 or more layers; `freeze_encoder` trains none");
        }
        self.optimizer.validate()?;
        match self.method {
            MethodName::Generalized(_) => self.check_generalized(),
            MethodName::FewShot(name) => self.check_few_shot(name),
        }
    }

    fn check_generalized(&self) -> Result<(), ConfigError> {
        self.check_task()?;
        self.resolve_options()?;
        if self.network.freeze_encoder {
            return self.check_frozen();
        }
        let config = self.network.config(self.network.encoder_config(None)?);
        config.validate().map_err(of_network)?;
        match &config.encoder {
            EncoderConfig::Vit(vit) => self.check_patches(vit.patch),
            _ => Ok(()),
        }
    }

    /// Crops and canvases must be whole patches: what lies beside them would not be seen.
    fn check_patches(&self, patch: usize) -> Result<(), ConfigError> {
        for (key, side) in [("training.crop", self.training.crop), ("training.size", self.size())] {
            if !side.is_multiple_of(patch) {
                let near = side.next_multiple_of(patch);
                let expected = format!("a multiple of {patch}, the side of a patch, such as {near}");
                return Err(ConfigError::new(key, side, expected));
            }
        }
        Ok(())
    }

    /// A frozen encoder is that of the weights to start from, and has no decoder.
    fn check_frozen(&self) -> Result<(), ConfigError> {
        let NetworkPlan { encoder, decoder, stem, stride_on, .. } = NetworkPlan::default();
        let network = &self.network;
        let own = (&network.encoder, network.decoder, network.stem, network.stride_on);
        if let Some(last) = network.train_last {
            return Err(ConfigError::new("network.train_last", last, "left out if the encoder is frozen"));
        }
        if own != (&encoder, decoder, stem, stride_on) {
            let expected = "left out if the encoder is frozen: it comes from `network.init`, or from the box";
            return Err(ConfigError::new("network.encoder", network.arch_with("..."), expected));
        }
        Ok(())
    }

    fn check_few_shot(&self, name: &str) -> Result<(), ConfigError> {
        self.check_task()?;
        let (training, network) = (&self.training, &self.network);
        if !(1..=100).contains(&training.shots) {
            return Err(ConfigError::new("training.shots", training.shots, "1 to 100 supports"));
        }
        if training.episodes == Some(0) {
            return Err(ConfigError::new("training.episodes", 0, "1 or more episodes"));
        }
        let own = "left out: the method brings its own";
        if network.freeze_encoder {
            return Err(ConfigError::new("network.freeze_encoder", true, own));
        }
        if network.decoder != NetworkPlan::default().decoder {
            let got =
                toml::Value::try_from(network.decoder).map_or_else(|_| String::new(), |it| it.to_string());
            return Err(ConfigError::new("network.decoder", got.trim_matches('"'), own));
        }
        if let Some(stride) = network.output_stride {
            return Err(ConfigError::new("network.output_stride", stride, own));
        }
        // Placeholders: how many rows there are does not decide whether they are possible.
        let method = self.resolve_few_shot(name, 2)?;
        if network.encoder.is_none() && network.init.is_some() {
            return Ok(());
        }
        self.resolve_network(&method, None).and_then(|config| config.validate()).map_err(of_network)
    }

    fn check_task(&self) -> Result<(), ConfigError> {
        if self.method.task() == self.task {
            return Ok(());
        }
        let (task, other) = match self.task {
            Task::GfsSeg => ("gfs-seg", "fs-seg"),
            Task::FsSeg => ("fs-seg", "gfs-seg"),
        };
        let methods = self.task.methods().join(", ");
        let expected = format!("one of {methods} for task `{task}` (or let `task` be `{other}`)");
        Err(ConfigError::new("method", self.method, expected))
    }
}

/// The same error with the key that a plan has for it.
fn of_network(error: ConfigError) -> ConfigError {
    let key = error.key.strip_prefix("encoder.").unwrap_or(&error.key);
    if key.starts_with("network.") || key.starts_with("options") {
        return error;
    }
    ConfigError { key: format!("network.{key}"), ..error }
}
