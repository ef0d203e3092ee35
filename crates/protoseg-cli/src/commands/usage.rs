//! What the commands that use a model share: how it is opened, and which parts of the method act.

use std::path::Path;

use anyhow::{Result, bail};
use protoseg::{
    class_pack::{ClassPack, PackError},
    device,
    method::{Usage, capl::Preset},
    model::Model,
};
use protoseg_data::Lock;

use crate::{
    cli,
    output::{note, quoted},
};

/// The model in a file; without one, the model in the box.
pub fn load_model(path: Option<&Path>, device: &str) -> Result<Model> {
    let device = device::open(device)?;
    Ok(match path {
        Some(path) => Model::load_on(path, &device)?,
        None => Model::builtin_on(&device)?,
    })
}

/// `--model PATH ` for a command to type, or nothing for the model in the box.
pub fn model_flag(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!("--model {} ", crate::output::quoted(path)))
}

/// What results and messages call a model.
pub fn model_name(path: Option<&Path>) -> String {
    path.map_or_else(|| Model::BUILTIN.to_string(), |path| path.display().to_string())
}

/// A pack, which must be the model's.
pub fn load_pack(path: &Path, model: &Model) -> Result<ClassPack> {
    let pack = ClassPack::load(path)?;
    match pack.check(model) {
        Ok(()) => Ok(pack),
        Err(PackError::BaseName { class }) => bail!(
            "cannot use pack `{}`: its class `{class}` has the name of one of the model's own classes\n\
             hint: rename it with `protoseg classes rename {} {} NEW-NAME`",
            path.display(),
            quoted(path),
            quoted(class.as_ref())
        ),
        Err(error) => bail!("cannot use pack `{}`: {error}", path.display()),
    }
}

/// The right to change a pack, as soon as no other process has it.
pub fn lock_pack(path: &Path) -> Result<Lock> {
    Ok(ClassPack::lock(path, |holder| {
        note(format_args!("waiting for {holder}, which is changing `{}`", path.display()));
    })?)
}

/// As the model was made, unless flags say otherwise.
pub fn usage(flags: &cli::MethodFlags, model: &Model) -> Result<Usage> {
    let usage = match model.usage()? {
        Usage::Capl(usage) => usage,
        _ if flags.preset.is_some() || flags.no_sce || flags.no_dqce => {
            bail!(
                "the model was not trained by CAPL, so it has no presets, SCE or DQCE\n\
                 hint: leave --preset, --no-sce and --no-dqce out"
            )
        }
        usage => return Ok(usage),
    };
    let mut usage = match &flags.preset {
        Some(name) => usage.with_preset(preset(name)?),
        None => usage,
    };
    if flags.no_sce {
        usage = usage.without_sce();
    }
    if flags.no_dqce {
        usage = usage.without_dqce();
    }
    Ok(Usage::Capl(usage))
}

/// The preset of that name.
pub fn preset(name: &str) -> Result<Preset> {
    match Preset::ALL.into_iter().find(|preset| preset.name() == name) {
        Some(preset) => Ok(preset),
        None => bail!("there is no preset `{name}`\nhint: choose balanced, reference or paper"),
    }
}
