//! `protoseg train`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use protoseg::train::{Outcome, PLAN_FILE, Plan, Run};
use serde::de::{DeserializeOwned, IntoDeserializer, value::StrDeserializer};

use crate::{
    cli::{Train, TrainFlags},
    output,
};

pub fn run(args: &Train) -> Result<()> {
    let run = match &args.resume {
        Some(folder) => Run::resume(folder)?,
        None => {
            let plan = make_plan(args)?;
            if args.dry_run {
                return output::line(plan.to_toml().trim_end());
            }
            let folder = args.out.clone().unwrap_or_else(|| default_folder(args.config.as_deref(), &plan));
            if args.force && folder.join(PLAN_FILE).exists() {
                fs::remove_dir_all(&folder)
                    .with_context(|| format!("cannot delete `{}`", folder.display()))?;
            }
            Run::start(plan, &folder)?
        }
    };
    let mut watch = Plain;
    match run.train(&mut watch)? {
        Outcome::Finished(end) => output::line(format!("{end:?}")),
        Outcome::Stopped { step } => output::line(format!("stopped after step {step}")),
    }
}

struct Plain;

impl protoseg::train::Watch for Plain {
    fn event(&mut self, event: &protoseg::train::Event) -> std::io::Result<()> {
        output::line(serde_json::to_string(event)?).map_err(std::io::Error::other)
    }
    fn shown(&mut self, _: usize, _: &[protoseg::train::Shown]) -> std::io::Result<()> {
        Ok(())
    }
    fn stop(&self) -> bool {
        false
    }
}

/// Flags before the recipe, the recipe before the reference.
fn make_plan(args: &Train) -> Result<Plan> {
    let mut plan = match &args.config {
        Some(path) => Plan::read(path)?,
        None => Plan::default(),
    };
    set_flags(&mut plan, &args.set)?;
    plan.check_file(args.config.as_deref())?;
    Ok(plan)
}

fn set_flags(plan: &mut Plan, flags: &TrainFlags) -> Result<()> {
    set(&mut plan.data.source, &flags.data);
    set_some(&mut plan.data.root, &flags.root);
    set(&mut plan.data.fold, &flags.fold);
    if let Some(rule) = &flags.novel_pixels {
        plan.data.novel_pixels = Some(word("--novel-pixels", rule)?);
    }
    if let Some(rule) = &flags.on_error {
        plan.data.on_error = word("--on-error", rule)?;
    }
    set(&mut plan.training.crop, &flags.crop);
    set_some(&mut plan.training.size, &flags.size);
    if let Some(arch) = &flags.arch {
        plan.network.set_arch(arch)?;
    }
    set_some(&mut plan.network.init, &flags.init);
    plan.network.freeze_batch_norm |= flags.freeze_batch_norm;
    if let Some(method) = &flags.method {
        plan.method = method.parse()?;
    }
    if let Some(preset) = &flags.preset {
        plan.preset = word("--preset", preset)?;
    }
    set(&mut plan.training.epochs, &flags.epochs);
    set(&mut plan.training.batch, &flags.batch);
    set(&mut plan.training.accumulate, &flags.accumulate);
    set(&mut plan.optimizer.lr, &flags.lr);
    plan.training.gradient_checkpointing |= flags.gradient_checkpointing;
    set(&mut plan.seed, &flags.seed);
    set(&mut plan.devices, &flags.device);
    set(&mut plan.validation.on, &flags.validation);
    set(&mut plan.checkpoint.every, &flags.checkpoint_every);
    Ok(())
}

fn set<T: Clone>(value: &mut T, flag: &Option<T>) {
    if let Some(flag) = flag {
        value.clone_from(flag);
    }
}

fn set_some<T: Clone>(value: &mut Option<T>, flag: &Option<T>) {
    if flag.is_some() {
        value.clone_from(flag);
    }
}

/// A value that a recipe would spell the same way.
fn word<T: DeserializeOwned>(flag: &str, text: &str) -> Result<T> {
    let word: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    T::deserialize(word).or_else(|error| bail!("`{flag} {text}` cannot be: {error}"))
}

/// `runs/scenes-small`, `runs/msrc-capl-fold0`.
fn default_folder(config: Option<&Path>, plan: &Plan) -> PathBuf {
    let name = match config.and_then(Path::file_stem) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => Path::new(&plan.data.source).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    Path::new("runs").join(format!("{name}-{}-fold{}", plan.method, plan.data.fold))
}
