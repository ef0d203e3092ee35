//! `protoseg eval`.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Result, bail};
use protoseg::{
    evaluate::{
        Evaluated, Evaluation, LabelledResults, Results, SupportSource, evaluate, evaluate_labelled,
        evaluate_taught,
    },
    method::{
        Usage,
        capl::{self, usage::ActiveParts},
        prototypes::Answer,
    },
    model::Model,
    report::HtmlReport,
};
use protoseg_data::{Benchmark, create_dir, read_supports};
use serde::Serialize;

use super::usage::{load_model, load_pack, model_name, preset};
use crate::{
    cli::Eval,
    output::{
        self,
        progress::Bar,
        results::{class_table, main_table},
        table,
    },
};

/// What the report is called.
pub const REPORT_FILE: &str = "report.html";

pub fn run(args: &Eval) -> Result<()> {
    let benchmark = Benchmark::open(&args.data, args.root.as_deref())?;
    if args.shots.is_empty() || args.shots.contains(&0) {
        bail!("`--shots` must be at least 1, got 0");
    }
    if args.seeds.is_empty() {
        bail!("no seed is given\nhint: the published ones are 123,321,456,654,999");
    }
    let supports = match &args.supports {
        Some(path) => SupportSource::Listed(read_supports(path)?),
        None => SupportSource::Drawn { seeds: each_once(&args.seeds), min_pixels: args.min_pixels },
    };
    let models: Vec<Option<&Path>> = match &args.model[..] {
        [] => vec![None],
        paths => paths.iter().map(|path| Some(path.as_path())).collect(),
    };
    // Everything impossible is refused before the first model is evaluated.
    let mut jobs: Vec<Job> = Vec::new();
    for path in models {
        let training = match path {
            Some(path) => Model::read_manifest(path)?.training.fold,
            None => None,
        };
        let fold = args.fold.or(training).unwrap_or(0);
        let name = format!("{}-fold{fold}", benchmark.dataset.name());
        let folder = args.output.clone().unwrap_or_else(|| Path::new("results").join(name));
        let folder = match path {
            Some(path) if args.model.len() > 1 => folder.join(short_name(path)),
            _ => folder,
        };
        output::refuse_overwrite(&folder.join("results.json"), args.force)?;
        if jobs.iter().any(|other| other.folder == folder) {
            bail!("two models are called `{}`\nhint: evaluate them one by one", model_name(path));
        }
        jobs.push(Job { path, fold, folder });
    }
    let mut all = Vec::new();
    for job in &jobs {
        if args.model.len() > 1 && !args.json {
            output::line(model_name(job.path))?;
        }
        let model = load_model(job.path, &args.device)?;
        all.push(job.run(args, &model, &benchmark, &supports)?);
    }
    match (&all[..], args.json) {
        (_, false) => Ok(()),
        ([one], true) => output::json(one),
        (all, true) => output::json(&all),
    }
}

/// One model to evaluate.
struct Job<'a> {
    path: Option<&'a Path>,
    fold: usize,
    folder: PathBuf,
}

impl Job<'_> {
    /// Evaluates the model as it can be, and returns the results as JSON.
    fn run(
        &self,
        args: &Eval,
        model: &Model,
        benchmark: &Benchmark,
        supports: &SupportSource,
    ) -> Result<serde_json::Value> {
        let has_base = model.classes().n_base() > 1 || model.usage().is_err();
        let has_novel = benchmark.fold(self.fold).is_ok_and(|fold| !fold.novel().is_empty());
        if args.pack.is_some() || (has_base && !has_novel) {
            return self.labelled(args, model, benchmark);
        }
        let plan = Evaluation {
            fold: self.fold,
            protocol: args.protocol.parse()?,
            shots: each_once(&args.shots),
            supports: supports.clone(),
            usages: usages(&args.variants, &args.preset, model)?,
            size: args.size.map(|size| size as usize),
            limit: args.limit,
        };
        if !has_base {
            return self.taught(args, model, benchmark, &plan);
        }
        if !args.classes.is_empty() {
            bail!(
                "--classes is for a model without base classes\nhint: the fold says which classes are novel"
            );
        }
        let results = judge(model, &model_name(self.path), benchmark, &plan, &self.folder)?;
        if !args.json {
            print(&results)?;
            output::line(format_args!("report -> {}", self.folder.join(REPORT_FILE).display()))?;
        }
        Ok(serde_json::to_value(&results)?)
    }

    /// Every class of the data set taught by itself.
    fn taught(
        &self,
        args: &Eval,
        model: &Model,
        benchmark: &Benchmark,
        plan: &Evaluation,
    ) -> Result<serde_json::Value> {
        let bar = Bar::new("lessons and images");
        let name = model_name(self.path);
        let results = evaluate_taught(&name, model, benchmark, plan, &args.classes, &|done, total| {
            bar.show(done, total)
        })?;
        drop(bar);
        self.write(&results, &results.markdown())?;
        if !args.json {
            output::line(results.headline())?;
            let titles = results.titles();
            let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
            table::lines(&titles, &results.table()).into_iter().try_for_each(output::line)?;
        }
        Ok(serde_json::to_value(&results)?)
    }

    /// What the model knows, and what a pack adds, on labelled photos.
    fn labelled(&self, args: &Eval, model: &Model, benchmark: &Benchmark) -> Result<serde_json::Value> {
        let pack = args.pack.as_ref().map(|path| load_pack(path, model)).transpose()?;
        let usage = model.usage()?;
        let bar = Bar::new("images");
        let name = model_name(self.path);
        let progress = |done: usize, total: usize| bar.show(done, total);
        let results =
            evaluate_labelled(&name, model, pack.as_ref(), &usage, benchmark, args.limit, &progress, |_| ())?;
        drop(bar);
        self.write(&results, &results.markdown())?;
        if !args.json {
            output::line(results.headline())?;
            table::lines(&LabelledResults::TITLES, &results.table())
                .into_iter()
                .try_for_each(output::line)?;
            results.summary().into_iter().try_for_each(output::line)?;
        }
        Ok(serde_json::to_value(&results)?)
    }

    fn write<R: Serialize>(&self, results: &R, markdown: &str) -> Result<()> {
        create_dir(&self.folder)?;
        protoseg_data::write_atomic(&self.folder.join("results.md"), markdown.as_bytes())?;
        let json = serde_json::to_string_pretty(results)?;
        Ok(protoseg_data::write_atomic(&self.folder.join("results.json"), json.as_bytes())?)
    }
}

fn each_once<T: PartialEq + Copy>(values: &[T]) -> Vec<T> {
    let mut once = Vec::new();
    for value in values {
        if !once.contains(value) {
            once.push(*value);
        }
    }
    once
}

/// `capl-best` of `runs/capl/best.safetensors`.
fn short_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.parent().and_then(Path::file_name) {
        Some(folder) => format!("{}-{stem}", folder.to_string_lossy()),
        None => stem.into_owned(),
    }
}

/// Every combination of parts with every preset; one that no preset changes is evaluated once.
pub fn usages(names: &[String], presets: &[String], model: &Model) -> Result<Vec<Usage>> {
    let own = match model.usage() {
        Ok(own) => own,
        // A system for episodes has no parts of CAPL; it is fed all classes.
        Err(_) if presets.is_empty() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let own = match own {
        Usage::Capl(own) => own,
        Usage::Prototypes(own) => {
            if !presets.is_empty() {
                bail!("the model was not trained by CAPL, so it has no presets\nhint: leave --preset out");
            }
            let known = Answer::ALL.map(Answer::name).join(", ");
            let mut answers = Vec::new();
            for name in names {
                match Answer::named(name) {
                    Some(answer) => answers.push(answer),
                    None => bail!("there is no variant `{name}`\nhint: choose among {known}"),
                }
            }
            let answers = if names.is_empty() { Answer::ALL.to_vec() } else { answers };
            let usages = answers.into_iter().filter_map(|answer| own.clone().with_answer(answer));
            return some(usages.map(Usage::Prototypes).collect(), &known);
        }
        _ => return Ok(vec![own]),
    };
    let presets: Vec<capl::Usage> = match presets {
        [] => vec![own],
        names => {
            names.iter().map(|name| Ok(own.clone().with_preset(preset(name)?))).collect::<Result<_>>()?
        }
    };
    let all = ActiveParts::ALL.map(|parts| parts.name().to_string());
    let mut usages: Vec<Usage> = Vec::new();
    for name in if names.is_empty() { &all[..] } else { names } {
        let Some(parts) = ActiveParts::named(name) else {
            bail!("there is no variant `{name}`\nhint: choose among baseline, sce, dqce, capl");
        };
        for usage in presets.iter().map(|usage| Usage::Capl(usage.clone().with_parts(parts))) {
            if !usages.iter().any(|other| other.is_same_use(&usage)) {
                usages.push(usage);
            }
        }
    }
    some(usages, "baseline, sce, dqce, capl")
}

fn some(usages: Vec<Usage>, known: &str) -> Result<Vec<Usage>> {
    match usages.is_empty() {
        true => bail!("no variant of this model is given\nhint: choose among {known}"),
        false => Ok(usages),
    }
}

/// Evaluates, and writes all results and the report into `folder`.
pub fn judge(
    model: &Model,
    name: &str,
    benchmark: &Benchmark,
    plan: &Evaluation,
    folder: &Path,
) -> Result<Results> {
    let start = Instant::now();
    create_dir(folder)?;
    let bar = Bar::new("images");
    let mut report = HtmlReport::new(plan);
    let evaluated: Evaluated =
        evaluate(model, benchmark, plan, &|done, total| bar.show(done, total), |image| report.look(image))?;
    drop(bar);
    let results = Results::new(name, model, benchmark, plan, &evaluated, start.elapsed());
    let write = |name: &str, text: String| -> Result<PathBuf> {
        let path = folder.join(name);
        protoseg_data::write_atomic(&path, text.as_bytes())?;
        Ok(path)
    };
    write("results.csv", results.csv())?;
    write("results.md", results.markdown())?;
    write(REPORT_FILE, report.html(&results, &evaluated, benchmark)?)?;
    write("results.json", serde_json::to_string_pretty(&results)?)?;
    Ok(results)
}

/// The results as tables.
pub fn print(results: &Results) -> Result<()> {
    output::line(results.headline())?;
    for line in main_table(results) {
        output::line(line)?;
    }
    output::line("")?;
    for line in class_table(results) {
        output::line(line)?;
    }
    for note in results.notes() {
        output::note(format_args!("note: {note}"));
    }
    Ok(())
}
