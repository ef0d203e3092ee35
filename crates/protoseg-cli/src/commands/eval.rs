//! `protoseg eval`.

mod part;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Result, anyhow, bail};
use protoseg::{
    evaluate::{
        Evaluated, Evaluation, FoldMean, LabelledResults, Results, SupportSource, evaluate,
        evaluate_labelled, evaluate_taught, join,
    },
    method::{
        Usage,
        capl::{self, usage::ActiveParts},
        prototypes::PrototypeUsage,
    },
    model::Model,
    report::{HtmlReport, LabelledReport},
};
use protoseg_data::{Benchmark, create_dir, read_supports};
use serde_json::{Value, json};

use self::part::Part;
use super::{
    shard::parse_shard,
    usage::{load_model, load_pack, model_name, preset},
};
use crate::{
    cli::Eval,
    output::{
        self,
        progress::Bar,
        results::{print, print_folds},
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
    let part = args.shard.as_deref().map(parse_shard).transpose()?;
    let supports = match &args.supports {
        Some(path) => SupportSource::Listed(read_supports(path)?),
        None => SupportSource::Drawn { seeds: each_once(&args.seeds), min_pixels: args.min_pixels },
    };
    let models: Vec<Option<&Path>> = match &args.model[..] {
        [] => vec![None],
        paths => paths.iter().map(|path| Some(path.as_path())).collect(),
    };
    // Everything impossible is refused before the first model is evaluated.
    if args.limit == Some(0) {
        bail!("`--limit` must be at least 1, got 0");
    }
    if let Some(fold) = args.fold {
        benchmark.fold(fold)?;
    }
    let mut jobs: Vec<Job> = Vec::new();
    for path in models {
        let training = match path {
            Some(path) => Model::read_manifest(path)?.training.fold,
            None => None,
        };
        let fold = args.fold.or(training).unwrap_or(0);
        let name = format!("{}-fold{fold}", benchmark.dataset.name());
        let folder = args.output.clone().unwrap_or_else(|| Path::new("results").join(name));
        let own = match path {
            Some(path) if args.model.len() > 1 => short_name(path),
            _ => String::new(),
        };
        let folder = folder.join(&own);
        if args.shard.is_none() {
            output::refuse_overwrite(&folder.join("results.json"), args.force)?;
        }
        if jobs.iter().any(|other| other.folder == folder) {
            bail!("two models are called `{}`\nhint: evaluate them one by one", model_name(path));
        }
        let parts = args.merge.iter().map(|part| part.join(&own)).collect();
        jobs.push(Job { path, fold, folder, parts });
    }
    let mean_folder = mean_folder(args, &benchmark);
    if jobs.iter().any(|job| job.fold != jobs[0].fold) {
        output::refuse_overwrite(&mean_folder.join("folds.json"), args.force)?;
    }
    let (mut all, mut results) = (Vec::new(), Vec::new());
    for job in &jobs {
        if args.model.len() > 1 && !args.json {
            output::line(model_name(job.path))?;
        }
        let model = load_model(job.path, &args.device)?;
        let (json, own) = job.run(args, &model, &benchmark, &supports, part)?;
        all.push(json);
        results.extend(own);
    }
    let mean = FoldMean::of(&results);
    if let Some(mean) = &mean {
        let files = [
            ("folds.md", mean.markdown()),
            ("folds.tex", mean.latex()),
            ("folds.json", serde_json::to_string_pretty(mean)?),
        ];
        write_files(&mean_folder, &files)?;
        if !args.json {
            print_folds(mean)?;
            output::line(format_args!("mean over folds -> {}", mean_folder.join("folds.md").display()))?;
        }
    }
    match (mean, &all[..]) {
        _ if !args.json => Ok(()),
        (Some(mean), all) => {
            output::json(&json!({ "schema": "protoseg.eval-folds/1", "results": all, "mean": mean }))
        }
        (None, [one]) => output::json(one),
        (None, all) => output::json(&all),
    }
}

/// Where the mean over folds goes: the folder that holds those of the models, or one beside them.
fn mean_folder(args: &Eval, benchmark: &Benchmark) -> PathBuf {
    let beside = || Path::new("results").join(format!("{}-folds", benchmark.dataset.name()));
    args.output.clone().unwrap_or_else(beside)
}

/// Writes texts as files of these names, one after another.
fn write_files(folder: &Path, files: &[(&str, String)]) -> Result<()> {
    create_dir(folder)?;
    for (name, text) in files {
        protoseg_data::write_atomic(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// One model to evaluate.
struct Job<'a> {
    path: Option<&'a Path>,
    fold: usize,
    folder: PathBuf,
    /// Folders of the parts that are merged.
    parts: Vec<PathBuf>,
}

impl Job<'_> {
    /// Evaluates the model as it can be, and returns the results as JSON; those of a fold also as they are.
    fn run(
        &self,
        args: &Eval,
        model: &Model,
        benchmark: &Benchmark,
        supports: &SupportSource,
        part: Option<(usize, usize)>,
    ) -> Result<(Value, Option<Results>)> {
        let has_base = model.classes().n_base() > 1 || model.usage().is_err();
        let has_novel = benchmark.fold(self.fold).is_ok_and(|fold| !fold.novel().is_empty());
        if (part.is_some() || !self.parts.is_empty()) && !(has_base && has_novel) {
            bail!(
                "--shard and --merge are for models with base classes on data with novel ones\n\
                 hint: give every machine photos of its own, or classes of its own with --classes"
            );
        }
        if args.pack.is_some() || (has_base && !has_novel) {
            return Ok((self.labelled(args, model, benchmark)?, None));
        }
        let plan = Evaluation {
            fold: self.fold,
            protocol: args.protocol.parse()?,
            shots: each_once(&args.shots),
            supports: supports.clone(),
            usages: usages(&args.variants, &args.preset, model)?,
            size: args.size.map(|size| size as usize),
            limit: args.limit,
            part,
            second_look: args.second_look,
        };
        if !has_base {
            return Ok((self.taught(args, model, benchmark, &plan)?, None));
        }
        if !args.classes.is_empty() {
            bail!(
                "--classes is for a model without base classes\nhint: the fold says which classes are novel"
            );
        }
        let name = model_name(self.path);
        if let Some(part) = part {
            return Ok((self.count(args, model, benchmark, &plan, part)?, None));
        }
        let results = match &self.parts[..] {
            [] => judge(model, &name, benchmark, &plan, &self.folder)?,
            parts => self.merge(parts, model, benchmark, &plan)?,
        };
        if !args.json {
            print(&results)?;
            self.name_report()?;
        }
        Ok((serde_json::to_value(&results)?, Some(results)))
    }

    /// Counts the pixels of one part and writes the counts, unless they are there already.
    fn count(
        &self,
        args: &Eval,
        model: &Model,
        benchmark: &Benchmark,
        plan: &Evaluation,
        (part, of): (usize, usize),
    ) -> Result<Value> {
        let path = self.folder.join(part::FILE);
        let key = part::key(model, benchmark, plan);
        let there = if args.force { None } else { part::counted(&path, (part, of), &key) };
        let images = match there {
            Some(images) => {
                output::note(format_args!("part {part} of {of} is there already: nothing was evaluated"));
                images
            }
            None => {
                output::refuse_overwrite(&path, args.force)?;
                create_dir(&self.folder)?;
                let bar = Bar::new("images");
                let evaluated =
                    evaluate(model, benchmark, plan, &|done, total| bar.show(done, total), |_| ())?;
                drop(bar);
                let counted = Part::new(part, of, key, evaluated.counts());
                protoseg_data::write_atomic(&path, &serde_json::to_vec(&counted)?)?;
                evaluated.images
            }
        };
        if !args.json {
            let counted = protoseg::core::count(images, "image");
            output::line(format_args!("part {part} of {of}: {counted} -> {}", path.display()))?;
        }
        Ok(
            json!({ "schema": "protoseg.eval-shard/1", "part": part, "of": of, "images": images, "counts": path }),
        )
    }

    /// The results of all parts together. Their pages show no pictures of the test images: no image is read again.
    fn merge(
        &self,
        parts: &[PathBuf],
        model: &Model,
        benchmark: &Benchmark,
        plan: &Evaluation,
    ) -> Result<Results> {
        let start = Instant::now();
        let counts = part::read_all(parts, &part::key(model, benchmark, plan))?;
        let evaluated = join(model, benchmark, plan, &counts)?;
        let results =
            Results::new(&model_name(self.path), model, benchmark, plan, &evaluated, start.elapsed());
        write_results(&self.folder, &results, &evaluated, benchmark, &HtmlReport::new(plan))?;
        Ok(results)
    }

    /// Every class of the data set taught by itself.
    fn taught(&self, args: &Eval, model: &Model, benchmark: &Benchmark, plan: &Evaluation) -> Result<Value> {
        let bar = Bar::new("lessons and images");
        let name = model_name(self.path);
        let results = evaluate_taught(&name, model, benchmark, plan, &args.classes, &|done, total| {
            bar.show(done, total)
        })?;
        drop(bar);
        let json = serde_json::to_string_pretty(&results)?;
        write_files(&self.folder, &[("results.md", results.markdown()), ("results.json", json)])?;
        if !args.json {
            output::line(results.headline())?;
            let titles = results.titles();
            let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
            table::lines(&titles, &results.table()).into_iter().try_for_each(output::line)?;
        }
        Ok(serde_json::to_value(&results)?)
    }

    /// What the model knows, and what a pack adds, on labelled photos.
    fn labelled(&self, args: &Eval, model: &Model, benchmark: &Benchmark) -> Result<Value> {
        let pack = args.pack.as_ref().map(|path| load_pack(path, model)).transpose()?;
        let usage = model.usage()?;
        let bar = Bar::new("images");
        let name = model_name(self.path);
        let progress = |done: usize, total: usize| bar.show(done, total);
        let mut report = LabelledReport::default();
        let pack = pack.as_ref();
        let used = (&usage, args.second_look);
        let results =
            evaluate_labelled(&name, model, pack, used, benchmark, args.limit, &progress, |image| {
                report.look(image)
            })?;
        drop(bar);
        let files = [
            ("results.csv", results.csv()),
            ("results.md", results.markdown()),
            (REPORT_FILE, report.html(&results, pack)?),
            ("results.json", serde_json::to_string_pretty(&results)?),
        ];
        write_files(&self.folder, &files)?;
        if !args.json {
            output::line(results.headline())?;
            table::lines(&LabelledResults::TITLES, &results.table())
                .into_iter()
                .try_for_each(output::line)?;
            results.summary().into_iter().try_for_each(output::line)?;
            self.name_report()?;
        }
        Ok(serde_json::to_value(&results)?)
    }

    /// Says where the report is.
    fn name_report(&self) -> Result<()> {
        output::line(format_args!("report -> {}", self.folder.join(REPORT_FILE).display()))
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
            let all = own.all();
            let known: Vec<&str> = all.iter().map(PrototypeUsage::name).collect();
            let known = format!("{}, each also with +prior", known.join(", "));
            let named = |name: &String| {
                own.named(name)
                    .ok_or_else(|| anyhow!("the model has no variant `{name}`\nhint: choose among {known}"))
            };
            let usages = match names {
                [] => all,
                names => names.iter().map(named).collect::<Result<_>>()?,
            };
            return Ok(usages.into_iter().map(Usage::Prototypes).collect());
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
    write_results(folder, &results, &evaluated, benchmark, &report)?;
    Ok(results)
}

/// The results in every form, and the report.
fn write_results(
    folder: &Path,
    results: &Results,
    evaluated: &Evaluated,
    benchmark: &Benchmark,
    report: &HtmlReport,
) -> Result<()> {
    let files = [
        ("results.csv", results.csv()),
        ("results.md", results.markdown()),
        ("results.tex", results.latex()),
        (REPORT_FILE, report.html(results, evaluated, benchmark)?),
        ("results.json", serde_json::to_string_pretty(results)?),
    ];
    write_files(folder, &files)
}
