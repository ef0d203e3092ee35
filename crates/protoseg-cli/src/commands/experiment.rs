//! `protoseg experiment`.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use protoseg::{
    core::count,
    experiment::{
        self, Experiment, ExperimentFolder, ExperimentResults, Inputs, Job, ModelPlan, Options, Schedule,
    },
    recipes,
};
use serde_json::json;

use super::shard::parse_shard;
use crate::{
    cli,
    output::{self, Interrupted, experiment_watch::ExperimentWatch, quoted, table},
    weights::{self, Downloads},
};

pub fn run(args: &cli::Experiment) -> Result<()> {
    let Some(name) = &args.name else { return list() };
    if args.print {
        return print_file(name);
    }
    let mut experiment = Experiment::open(name)?;
    change(&mut experiment, args)?;
    find_encoders(&mut experiment, Downloads::unless_dry(args.offline, args.dry_run))?;
    let inputs = inputs(args)?;
    let schedule = Schedule::new(&experiment, &inputs)?;
    let options = options(args, &schedule)?;
    if args.dry_run {
        return dry_run(args, &experiment, &schedule, &options);
    }
    if let Some(folders) = &args.merge {
        for folder in folders {
            let copied = options.folder.merge(folder)?;
            output::note(format_args!("{copied} cells <- {}", folder.display()));
        }
        let results = ExperimentResults::collect(&experiment, &schedule, &options);
        results.write(&options)?;
        return print(args, &results, &options);
    }
    let watch = ExperimentWatch::new()?;
    let outcome = experiment::run(&experiment, &inputs, &schedule, &options, &watch)?;
    drop(watch);
    if outcome.is_stopped {
        bail!(Interrupted(format!(
            "stopped; everything is saved, {}\nhint: the same command goes on",
            outcome.left.describe()
        )));
    }
    print(args, &outcome.results, &options)?;
    if outcome.diverged > 0 {
        let models = count(outcome.diverged, "model");
        bail!(
            "the training of {models} diverged, so the tables lack {} cells\nhint: lower the rate in the recipe, or with `set`",
            outcome.left.cells
        );
    }
    Ok(())
}

/// The names of all experiments.
fn list() -> Result<()> {
    let row = |name: &str| -> Result<Vec<String>> {
        Ok(vec![name.to_string(), Experiment::open(name)?.declaration.title])
    };
    let rows = recipes::experiment_names().map(row).collect::<Result<Vec<_>>>()?;
    table::lines(&["name", "table"], &rows).into_iter().try_for_each(output::line)?;
    output::line("next: protoseg experiment NAME --data DIR --dry-run")
}

fn print_file(name: &str) -> Result<()> {
    match recipes::experiment(name) {
        Some(text) => output::line(text.trim_end()),
        None => {
            Experiment::open(name)?;
            bail!("`{name}` is a file of yours already")
        }
    }
}

/// Flags before the file.
fn change(experiment: &mut Experiment, args: &cli::Experiment) -> Result<()> {
    if !args.only.is_empty() {
        experiment.keep(&args.only)?;
    }
    if args.shots.contains(&0) {
        bail!("`--shots` must be at least 1, got 0");
    }
    let declaration = &mut experiment.declaration;
    if !args.folds.is_empty() {
        declaration.folds = Some(each_once(&args.folds));
    }
    for (value, flag) in [
        (&mut declaration.support_seeds, &args.seeds),
        (&mut declaration.training_seeds, &args.training_seeds),
    ] {
        if !flag.is_empty() {
            *value = each_once(flag);
        }
    }
    if !args.training_seeds.is_empty() {
        declaration.models.values_mut().for_each(|model| model.training_seeds = None);
    }
    if !args.shots.is_empty() {
        declaration.shots = each_once(&args.shots);
    }
    if let Some(protocol) = &args.protocol {
        declaration.protocol = protocol.parse()?;
    }
    declaration.limit = args.limit.or(declaration.limit);
    Ok(experiment.check()?)
}

/// The files of the encoders that the experiment calls by name, where none of this name is beside it.
fn find_encoders(experiment: &mut Experiment, downloads: Downloads) -> Result<()> {
    let beside = experiment.path.parent().unwrap_or(Path::new(""));
    let models = experiment.declaration.models.values_mut();
    for encoder in models.filter_map(|model| model.new.as_mut()?.encoder.as_mut()) {
        if !beside.join(&*encoder).is_file() {
            *encoder = weights::file("new.encoder", encoder, downloads)?;
        }
    }
    Ok(())
}

fn each_once<T: PartialEq + Copy>(values: &[T]) -> Vec<T> {
    let mut once = Vec::new();
    values.iter().for_each(|value| {
        if !once.contains(value) {
            once.push(*value);
        }
    });
    once
}

fn inputs(args: &cli::Experiment) -> Result<Inputs> {
    let data =
        args.data.as_deref().ok_or_else(|| anyhow!("no data set is given\nhint: choose one with --data"))?;
    let mut inputs = Inputs::new(data, args.root.as_deref())?;
    let downloads = Downloads::unless_dry(args.offline, args.dry_run);
    for given in &args.init {
        let (model, init) = match given.split_once('=') {
            Some((model, init)) if !Path::new(given).exists() => (Some(model), init),
            _ => (None, given.as_str()),
        };
        inputs = inputs.with_init(model, &weights::file("--init", Path::new(init), downloads)?)?;
    }
    inputs.epochs = args.epochs;
    inputs.devices.clone_from(&args.device);
    Ok(inputs)
}

fn options(args: &cli::Experiment, schedule: &Schedule) -> Result<Options> {
    let default = || Path::new("experiments").join(&schedule.data);
    let folder = ExperimentFolder::new(args.output.clone().unwrap_or_else(default));
    let mut options = Options::new(folder);
    match &args.cache {
        Some(cache) if cache.as_os_str() == "none" => options.features = None,
        Some(cache) => options.features = Some(cache.clone()),
        None => {}
    }
    options.shard = args.shard.as_deref().map(parse_shard).transpose()?;
    options.revision = env!("PROTOSEG_REVISION").to_string();
    options.command = command(args);
    Ok(options)
}

/// The command that makes the same tables, wherever it is run.
fn command(args: &cli::Experiment) -> String {
    let mut words = vec!["protoseg experiment".to_string()];
    words.extend(args.name.as_ref().map(|name| quoted(Path::new(name))));
    let mut flag = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(|value| quoted(Path::new(value))).collect();
            words.push(format!("--{name} {}", values.join(if name == "init" { " " } else { "," })));
        }
    };
    let texts = |values: &[usize]| values.iter().map(usize::to_string).collect::<Vec<_>>();
    let seeds = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>();
    flag("data", args.data.iter().cloned().collect());
    flag("root", args.root.iter().map(|root| root.display().to_string()).collect());
    flag("init", args.init.clone());
    flag("only", args.only.clone());
    flag("folds", texts(&args.folds));
    flag("shots", texts(&args.shots));
    flag("seeds", seeds(&args.seeds));
    flag("training-seeds", seeds(&args.training_seeds));
    flag("epochs", args.epochs.iter().map(usize::to_string).collect());
    flag("protocol", args.protocol.iter().cloned().collect());
    flag("limit", args.limit.iter().map(usize::to_string).collect());
    words.join(" ")
}

/// Every model with what it needs.
fn dry_run(
    args: &cli::Experiment,
    experiment: &Experiment,
    schedule: &Schedule,
    options: &Options,
) -> Result<()> {
    let jobs = options.jobs(schedule);
    let left = options.left(&jobs);
    let state = |job: &Job| match (options.is_made(job), &job.plan) {
        (_, ModelPlan::File(_)) => "a file",
        (true, _) => "there",
        (false, ModelPlan::Train(_)) => "to train",
        (false, ModelPlan::New(plan)) if plan.head.is_some() => "to make, with a head",
        (false, _) => "to make",
    };
    if args.json {
        let job = |job: &&Job| {
            let cells = job.cells.iter().map(|cell| {
                json!({ "id": cell.id, "row": cell.row, "use": cell.usage, "is_there": options.folder.read_cell(&cell.id).is_some() })
            });
            json!({
                "id": job.id, "model": job.model, "fold": job.fold, "training_seed": job.training_seed,
                "state": state(job), "cells": cells.collect::<Vec<_>>(),
            })
        };
        return output::json(&json!({
            "schema": "protoseg.experiment-plan/1",
            "name": experiment.name,
            "data": schedule.data,
            "cells": left.of,
            "cells_left": left.cells,
            "seconds_left": left.seconds,
            "models": jobs.iter().map(job).collect::<Vec<_>>(),
        }));
    }
    let row = |job: &&Job| {
        let missing = options.missing(job).len();
        let seed = job.training_seed.map_or("-".to_string(), |seed| seed.to_string());
        let uses: Vec<&str> = job.cells.iter().map(|cell| cell.row.as_str()).collect();
        let cells = format!("{} of {} left", missing, job.cells.len());
        vec![
            job.model.clone(),
            job.fold.to_string(),
            seed,
            state(job).to_string(),
            cells,
            uses.join("; "),
            job.id.clone(),
        ]
    };
    let titles = ["model", "fold", "seed", "model is", "cells", "rows", "id"];
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    table::lines(&titles, &rows).into_iter().try_for_each(output::line)?;
    output::line(format_args!("{} -> {}", left.describe(), options.folder.path().display()))
}

fn print(args: &cli::Experiment, results: &ExperimentResults, options: &Options) -> Result<()> {
    if args.json {
        return output::json(results);
    }
    output::line(results.headline())?;
    let titles = results.mean_titles();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    table::lines(&titles, &results.mean_table()).into_iter().try_for_each(output::line)?;
    output::line(results.about())?;
    results.notes.iter().for_each(|note| output::note(format_args!("note: {note}")));
    let report = options.folder.results(&results.name).join("report.html");
    output::line(format_args!("report -> {}", report.display()))
}
