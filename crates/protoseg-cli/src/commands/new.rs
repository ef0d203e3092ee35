//! `protoseg new`.

use anyhow::{Result, bail};
use protoseg::{
    core::NovelPixels,
    device::cpu,
    from_encoder::BACKGROUND_ROWS,
    model::Model,
    train::{HeadPlan, HeadProgress},
};
use protoseg_data::Benchmark;
use serde::Serialize;

use crate::{
    cli::New,
    output::{self, progress::Bar},
    weights::{self, Downloads, IN_BOX, Weights},
};

/// Rows of a bank, unless a flag says otherwise.
const BANK_ROWS: usize = 512;

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    model: &'a std::path::Path,
    fingerprint: String,
    architecture: String,
    base: Vec<&'a str>,
}

pub fn run(args: &New) -> Result<()> {
    output::refuse_overwrite(&args.output, args.force)?;
    let is_in_box = args.encoder.as_ref().is_none_or(|path| path.as_os_str() == IN_BOX && !path.is_file());
    let bare = match &args.encoder {
        Some(given) if !is_in_box => {
            let path = weights::file("--encoder", given, Downloads::new(args.offline))?;
            let model = Model::from_encoder(&path, &cpu())?;
            match weights::named(given) {
                Some(weights) => from_named(&model, weights),
                None => model,
            }
        }
        _ => Model::builtin(),
    };
    let bare = match args.size {
        Some(size) => bare.with_canvas(size as usize)?,
        None => bare,
    };
    let bar = Bar::new("images");
    let model = match &args.data {
        Some(data) => {
            let benchmark = Benchmark::open(data, args.root.as_deref())?;
            let rule = novel_pixels(args, &benchmark)?;
            let rows = args.background_rows.map_or(BACKGROUND_ROWS, |rows| rows as usize);
            let progress = |done, total| bar.show(done, total);
            let model = bare.with_base(&benchmark, args.fold, rule, rows, &progress)?;
            let model = if args.head { with_head(&model, &benchmark, args)? } else { model };
            let bar = Bar::new("images for confidences");
            model.calibrated(&benchmark, &|done, total| bar.show(done, total))?
        }
        // The box has its bank already.
        None if is_in_box && args.background.is_empty() => bare,
        None => {
            let scenes = ["scenes".to_string()];
            let sources = if args.background.is_empty() { &scenes[..] } else { &args.background[..] };
            let sources = sources
                .iter()
                .map(|source| Ok(Benchmark::open(source, args.root.as_deref())?))
                .collect::<Result<Vec<_>>>()?;
            let rows = args.background_rows.map_or(BANK_ROWS, |rows| rows as usize);
            bare.with_bank(&sources, rows, &|done, total| bar.show(done, total))?
        }
    };
    drop(bar);
    match (args.half, args.beside_builtin) {
        (_, true) => model.save_beside_builtin(&args.output)?,
        (true, _) => model.save_half(&args.output)?,
        _ => model.save(&args.output)?,
    }
    print(args, &model)
}

/// The same model, which says by what name and licence its encoder is known. The file may be called like any other.
fn from_named(model: &Model, weights: &Weights) -> Model {
    let mut manifest = model.manifest().clone();
    manifest.training.origin = format!("the encoder `{}` ({})", weights.name, weights.licence);
    Model::new(manifest, model.network().clone(), model.device())
}

fn with_head(model: &Model, benchmark: &Benchmark, args: &New) -> Result<Model> {
    let mut plan = HeadPlan::default();
    (plan.steps, plan.seed) = (args.steps as usize, args.seed);
    let (features, steps) = (Bar::new("features"), Bar::new("steps"));
    Ok(model.with_head(benchmark, &plan, &mut |progress| match progress {
        HeadProgress::Features(done, total) => features.show(done, total),
        HeadProgress::Step(done, total, _) => steps.show(done, total),
    })?)
}

fn novel_pixels(args: &New, benchmark: &Benchmark) -> Result<NovelPixels> {
    Ok(match args.novel_pixels.as_deref() {
        None => benchmark.novel_pixels,
        Some("drop") => NovelPixels::Drop,
        Some("ignore") => NovelPixels::Ignore,
        Some("background") => NovelPixels::Background,
        Some(other) => bail!("`--novel-pixels` must be `drop`, `ignore` or `background`, got `{other}`"),
    })
}

fn print(args: &New, model: &Model) -> Result<()> {
    let classes = model.classes();
    let base: Vec<&str> =
        classes.rows()[..classes.n_base()].iter().map(|class| class.name.as_str()).collect();
    let architecture = model.config().describe();
    if args.json {
        let fingerprint = model.fingerprint();
        return output::json(&Answer {
            schema: "protoseg.new/1",
            model: &args.output,
            fingerprint,
            architecture,
            base,
        });
    }
    let knows = match &args.data {
        Some(_) => format!("{} base classes", base.len()),
        None => "no base class; everything is taught".to_string(),
    };
    output::line(format_args!("{architecture}: {knows} -> {}", args.output.display()))?;
    output::line(format_args!(
        "next: protoseg register --model {} --class NAME=IMAGE:MASK -o my.pack",
        output::quoted(&args.output)
    ))
}
