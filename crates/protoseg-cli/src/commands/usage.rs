//! What the commands that use a model share: how it is opened, and which parts of the method act.

use std::path::Path;

use anyhow::{Result, bail};
use protoseg::{
    class_pack::ClassPack,
    device,
    method::capl::{Preset, Usage},
    model::Model,
};

use crate::cli;

pub fn load_model(path: &Path, device: &str) -> Result<Model> {
    Ok(Model::load_on(path, &device::open(device)?)?)
}

/// A pack, which must be the model's.
pub fn load_pack(path: &Path, model: &Model) -> Result<ClassPack> {
    let pack = ClassPack::load(path)?;
    match pack.check(model) {
        Ok(()) => Ok(pack),
        Err(error) => bail!("cannot use pack `{}`: {error}", path.display()),
    }
}

/// As the model was trained, unless flags say otherwise.
pub fn usage(flags: &cli::Usage, model: &Model) -> Result<Usage> {
    let mut usage = model.usage()?;
    if let Some(name) = &flags.preset {
        usage = usage.with_preset(preset(name)?);
    }
    if flags.no_sce {
        usage = usage.without_sce();
    }
    if flags.no_dqce {
        usage = usage.without_dqce();
    }
    Ok(usage)
}

/// The preset of that name.
pub fn preset(name: &str) -> Result<Preset> {
    match Preset::ALL.into_iter().find(|preset| preset.name() == name) {
        Some(preset) => Ok(preset),
        None => bail!("there is no preset `{name}`\nhint: choose balanced, reference or paper"),
    }
}
