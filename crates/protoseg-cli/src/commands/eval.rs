//! `protoseg eval`.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Result, bail};
use protoseg::{
    evaluate::{Evaluated, Evaluation, Results, SupportSource, evaluate},
    method::{
        Usage,
        capl::{self, usage::ActiveParts},
        prototypes::Answer,
    },
    model::Model,
    report::HtmlReport,
};
use protoseg_data::{Benchmark, create_dir, read_supports};

use super::usage::{load_model, preset};
use crate::{
    cli::Eval,
    output::{
        self,
        progress::Bar,
        results::{class_table, main_table},
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
    // Everything impossible is refused before the first model is evaluated.
    let mut jobs = Vec::new();
    for path in &args.model {
        let manifest = Model::read_manifest(path)?;
        let fold = args.fold.or(manifest.training.fold).unwrap_or(0);
        let name = format!("{}-fold{fold}", benchmark.dataset.name());
        let folder = args.output.clone().unwrap_or_else(|| Path::new("results").join(name));
        let folder = if args.model.len() > 1 { folder.join(short_name(path)) } else { folder };
        output::refuse_overwrite(&folder.join("results.json"), args.force)?;
        if jobs.iter().any(|(_, _, other)| *other == folder) {
            bail!("two models are called `{}`\nhint: evaluate them one by one", short_name(path));
        }
        jobs.push((path, fold, folder));
    }
    let mut all = Vec::new();
    for (path, fold, folder) in jobs {
        let model = load_model(Some(path), &args.device)?;
        let plan = Evaluation {
            fold,
            protocol: args.protocol.parse()?,
            shots: each_once(&args.shots),
            supports: supports.clone(),
            usages: usages(&args.variants, &args.preset, &model)?,
            size: args.size.map(|size| size as usize),
            limit: args.limit,
        };
        let results = judge(&model, path, &benchmark, &plan, &folder)?;
        if !args.json {
            if args.model.len() > 1 {
                output::line(format_args!("{}", path.display()))?;
            }
            print(&results)?;
            output::line(format_args!("report -> {}", folder.join(REPORT_FILE).display()))?;
        }
        all.push(results);
    }
    match (&all[..], args.json) {
        (_, false) => Ok(()),
        ([one], true) => output::json(one),
        (all, true) => output::json(&all),
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
    path: &Path,
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
    let name = path.display().to_string();
    let results = Results::new(&name, model, benchmark, plan, &evaluated, start.elapsed());
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
