//! What the commands that use a model share: how it is opened, and which parts of the method act.

use std::path::Path;

use anyhow::{Result, bail};
use protoseg::{
    class_pack::ClassPack,
    device,
    evaluate::UseOf,
    method::capl::{
        method::Parts,
        options::{Options, Preset},
    },
    model::Model,
};

use crate::cli::Usage;

pub fn load_model(path: &Path, device: &str) -> Result<Model> {
    Ok(Model::load(path, &device::open(device)?)?)
}

/// A pack, which must be the model's.
pub fn load_pack(path: &Path, model: &Model) -> Result<ClassPack> {
    let pack = ClassPack::load(path)?;
    match pack.check(model) {
        Ok(()) => Ok(pack),
        Err(error) => bail!("cannot use pack `{}`: {error}", path.display()),
    }
}

/// The parts that act, and the options they act by.
pub fn parts(usage: &Usage, model: &Model) -> Result<(Parts, Options)> {
    let whole = UseOf::Capl.parts(model);
    let parts = Parts {
        sce: whole.sce.filter(|_| !usage.no_sce),
        dqce: whole.dqce.filter(|_| !usage.no_dqce),
        ..whole
    };
    Ok((parts, preset(usage.preset.as_deref(), model)?.1))
}

/// The options of that name, and the name; without one, the model's own.
pub fn preset(name: Option<&str>, model: &Model) -> Result<(String, Options)> {
    let Some(name) = name else {
        let own = &model.manifest.options;
        let name = Preset::of_use(own).map_or("own", Preset::name);
        return Ok((name.to_string(), own.clone()));
    };
    match Preset::ALL.into_iter().find(|preset| preset.name() == name) {
        Some(preset) => Ok((name.to_string(), preset.options())),
        None => bail!("`{name}` is no preset\nhint: choose balanced, reference or paper"),
    }
}
