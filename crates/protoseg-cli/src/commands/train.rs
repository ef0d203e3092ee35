//! `protoseg train`.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use protoseg::{
    recipes,
    train::{DataPlan, Outcome, PLAN_FILE, Plan, PlanError, Recorder, Run, RunFolder, Task, TrainError},
};
use protoseg_data::Progress;
use serde::de::{DeserializeOwned, IntoDeserializer, value::StrDeserializer};

use crate::{
    cli::{Train, TrainFlags},
    output::{
        self, Interrupted,
        progress::Bar,
        train_watch::{Display, TrainWatch},
    },
    weights::{self, Downloads},
};

/// Trains. A folder in the place of a recipe is a data set.
pub fn run(args: &mut Train) -> Result<()> {
    if let Some(folder) = args.config.take_if(|path| path.is_dir()) {
        if RunFolder::new(&folder).holds_run() {
            let folder = output::quoted(&folder);
            bail!(
                "`{folder}` is the folder of a run\nhint: continue it with `protoseg train --resume {folder}`"
            );
        }
        if let Some(data) = &args.set.data {
            bail!("two data sets are given: `{}` and `{data}`\nhint: give one of them", folder.display());
        }
        args.set.data = Some(folder.to_string_lossy().into_owned());
    }
    if let Some(init) = &mut args.set.init {
        // A run that goes on has its weights already, and whether they are these is looked at below.
        let is_dry = args.dry_run || args.resume.is_some();
        match weights::file("--init", init, Downloads::unless_dry(args.offline, is_dry)) {
            Ok(file) => *init = file,
            Err(_) if args.resume.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    let bar = Bar::new("images");
    let look: Progress<'_> = &|done, total| bar.show(done, total);
    let run = match &args.resume {
        Some(folder) => {
            // Before anything is written. What is wrong with the plan is said below.
            if let Ok(mut plan) = Plan::read(&folder.join(PLAN_FILE)) {
                set(&mut plan.training.epochs, &args.set.epochs);
                refuse_changes(&plan, &args.set)?;
            }
            match args.set.epochs {
                Some(epochs) => Run::extend(folder, epochs, look).map_err(|error| match error {
                    TrainError::Config(error) if error.key == "training.epochs" => {
                        anyhow!("`--epochs` must be {}, got {}", error.expected, error.got)
                    }
                    error => error.into(),
                })?,
                None => Run::resume(folder, look)?,
            }
        }
        None => {
            let plan = make_plan(args)?;
            if args.dry_run {
                return output::line(plan.to_toml().trim_end());
            }
            let out = args.out.clone().unwrap_or_else(|| default_folder(args.config.as_deref(), &plan));
            let folder = RunFolder::new(out);
            let start = if args.force { Run::restart } else { Run::start };
            start(plan, folder.path(), look)?
        }
    };
    drop(bar);
    let folder = RunFolder::new(run.folder());
    let recorder = Recorder::start(&run, env!("PROTOSEG_REVISION"))?;
    let next = next_command(&run, &output::quoted(&folder.best()));
    let mut watch = TrainWatch::new(recorder, Display::choose(args.plain, args.json), Some(next))?;
    match run.train(&mut watch)? {
        Outcome::Finished(_) => Ok(()),
        Outcome::Stopped { step } => {
            let resume = format!("protoseg train --resume {}", output::quoted(folder.path()));
            bail!(Interrupted(format!(
                "stopped after step {step}; everything is saved\nhint: go on with `{resume}`"
            )))
        }
    }
}

/// The novel classes of the data set come next; without any, the user brings them.
fn next_command(run: &Run, model: &str) -> String {
    let data = &run.plan().data;
    let root =
        data.root.as_ref().map_or_else(String::new, |root| format!(" --root {}", output::quoted(root)));
    if run.plan().task == Task::FsSeg {
        return match run.manifest().classes.n_novel() {
            0 => format!("protoseg segment --model {model} --query IMAGE --support IMAGE:MASK -o OUT"),
            _ => {
                let source = output::quoted(data.source.as_ref());
                format!("protoseg episodes --model {model} --data {source}{root} --fold {}", data.fold)
            }
        };
    }
    match run.manifest().classes.n_novel() {
        0 => format!("protoseg register --model {model} --class NAME=IMAGE:MASK -o my.pack"),
        _ => format!("protoseg eval --model {model} --data {}{root}", output::quoted(data.source.as_ref())),
    }
}

/// A run goes on as it began, or its result would be nobody's.
fn refuse_changes(plan: &Plan, flags: &TrainFlags) -> Result<()> {
    let mut changed = plan.clone();
    set_flags(&mut changed, flags)?;
    if changed != *plan {
        bail!(
            "a run goes on as it was planned, but flags or PROTOSEG_ variables ask for something else\n\
             hint: leave them out, or start another run with `protoseg train DIR/{PLAN_FILE} --out ANOTHER`"
        );
    }
    Ok(())
}

/// Flags before the recipe, the recipe before the reference. Without a recipe, a system for episodes is trained by the
/// published one, and a head on a frozen encoder by ours.
fn make_plan(args: &Train) -> Result<Plan> {
    let mut plan = match (&args.config, &args.set.task, &args.set.method) {
        (Some(path), ..) => {
            let mut plan = Plan::read(path)?;
            if args.set.init.is_none() {
                let downloads = Downloads::unless_dry(args.offline, args.dry_run);
                find_init(&mut plan, path, downloads)?;
            }
            plan
        }
        (None, Some(task), Some(method)) if task == "fs-seg" => published_plan(method, &args.set)?,
        _ if args.set.freeze.is_some() => {
            let text = recipes::training("head").expect("the recipe is there");
            let plan = Plan::parse(text, Path::new("recipes/head.toml"))?;
            Plan { data: DataPlan::default(), ..plan }
        }
        _ => Plan::default(),
    };
    set_flags(&mut plan, &args.set)?;
    match plan.check_file(args.config.as_deref()) {
        Ok(()) => Ok(plan),
        Err(PlanError::Given(error) | PlanError::Value { source: error, .. })
            if let Some(flag) = flag_of(&error.key, &args.set) =>
        {
            bail!("`{flag}` must be {}, got {}", error.expected, error.got)
        }
        Err(error) => Err(error.into()),
    }
}

/// The file of the weights that a recipe calls by name. Other files are looked at when they are read.
fn find_init(plan: &mut Plan, recipe: &Path, downloads: Downloads) -> Result<()> {
    let Some(init) = plan.network.init.as_mut().filter(|init| !init.is_file()) else { return Ok(()) };
    // Paths in a recipe are beside it.
    let given = recipe.parent().and_then(|folder| init.strip_prefix(folder).ok()).unwrap_or(init);
    if given.to_str().is_some_and(|name| weights::by_name(name).is_ok()) {
        *init = weights::file("network.init", given, downloads)?;
    }
    Ok(())
}

/// The flag that set this value of a plan, if one did.
fn flag_of(key: &str, flags: &TrainFlags) -> Option<&'static str> {
    let given = [
        ("data.source", "--data", flags.data.is_some()),
        ("training.crop", "--crop", flags.crop.is_some()),
        ("training.size", "--size", flags.size.is_some()),
        ("training.epochs", "--epochs", flags.epochs.is_some()),
        ("training.batch", "--batch", flags.batch.is_some()),
        ("training.shots", "--shots", flags.shots.is_some()),
        ("training.episodes", "--episodes", flags.episodes.is_some()),
        ("training.accumulate", "--accumulate", flags.accumulate.is_some()),
        ("optimizer.lr", "--lr", flags.lr.is_some()),
        ("optimizer.layer_decay", "--layer-decay", flags.layer_decay.is_some()),
        ("network.train_last", "--train-last", flags.train_last.is_some()),
        ("devices", "--device", flags.device.is_some()),
        ("method", "--method", flags.method.is_some()),
        ("network.encoder", "--arch", flags.arch.is_some()),
        ("network.freeze_encoder", "--freeze", flags.freeze.is_some()),
    ];
    given.into_iter().find(|(own, _, is_given)| *own == key && *is_given).map(|(_, flag, _)| flag)
}

/// The published recipe of a system for episodes. What it says of its data set is not said of another.
fn published_plan(method: &str, flags: &TrainFlags) -> Result<Plan> {
    let Some(text) = recipes::training(&format!("fs-{method}")) else {
        return Ok(Plan::default());
    };
    let mut plan = Plan::parse(text, Path::new(&format!("recipes/fs-{method}.toml")))?;
    if flags.data.as_ref().is_some_and(|data| *data != plan.data.source) {
        plan.data = DataPlan::default();
    }
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
    if let Some(task) = &flags.task {
        plan.task = word("--task", task)?;
    }
    set(&mut plan.training.crop, &flags.crop);
    set_some(&mut plan.training.size, &flags.size);
    if let Some(arch) = &flags.arch {
        match plan.task {
            Task::GfsSeg => plan.network.set_arch(arch)?,
            Task::FsSeg => plan.network.set_encoder(arch)?,
        }
    }
    set_some(&mut plan.network.init, &flags.init);
    plan.network.freeze_batch_norm |= flags.freeze_batch_norm;
    set_some(&mut plan.network.train_last, &flags.train_last);
    match flags.freeze.as_deref() {
        None => {}
        Some("encoder") => plan.network.freeze_encoder = true,
        Some(other) => bail!("`--freeze` must be `encoder`, got `{other}`"),
    }
    if let Some(method) = &flags.method {
        plan.method = method.parse()?;
    }
    if let Some(preset) = &flags.preset {
        plan.preset = word("--preset", preset)?;
    }
    set(&mut plan.training.epochs, &flags.epochs);
    set(&mut plan.training.batch, &flags.batch);
    set(&mut plan.training.shots, &flags.shots);
    set_some(&mut plan.training.episodes, &flags.episodes);
    set(&mut plan.training.accumulate, &flags.accumulate);
    set(&mut plan.optimizer.lr, &flags.lr);
    set(&mut plan.optimizer.layer_decay, &flags.layer_decay);
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
    T::deserialize(word).or_else(|error| bail!("`{flag} {text}` is not possible: {error}"))
}

/// `runs/msrc-capl-fold0`, `runs/fs-pfenet-fold0`.
fn default_folder(config: Option<&Path>, plan: &Plan) -> PathBuf {
    let name = match config.and_then(Path::file_stem) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => Path::new(&plan.data.source).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let (method, fold) = (plan.method, plan.data.fold);
    // A recipe may be named after its method.
    let name = if name == format!("fs-{method}") { name } else { format!("{name}-{method}") };
    Path::new("runs").join(format!("{name}-fold{fold}"))
}
