//! `protoseg export`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use protoseg::{
    Model, Segmenter,
    core::count,
    export::{
        ClassesAs, Export as Exporter, OPSET, OnnxFile, Port, export_few_shot,
        sample::{Agreement, Sample},
    },
};
use serde::Serialize;

use super::usage::{load_model, load_pack, usage};
use crate::{
    cli::Export,
    output::{self, table, units},
};

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    #[serde(serialize_with = "output::lossy_path")]
    file: &'a Path,
    bytes: usize,
    opset: i64,
    nodes: usize,
    architecture: String,
    variant: String,
    classes: Vec<String>,
    classes_as: &'static str,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prototypes: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Agreement>,
}

pub fn run(args: &Export) -> Result<()> {
    let classes = classes_as(&args.classes)?;
    let prototypes =
        (classes == ClassesAs::Input).then(|| args.output.with_extension("prototypes.safetensors"));
    for path in std::iter::once(&args.output).chain(&prototypes).chain(&args.sample) {
        output::refuse_overwrite(path, args.force)?;
    }
    if args.check && !cfg!(feature = "onnx-check") {
        bail!(
            "this program was built without a runtime to check files with\n\
             hint: build it with `cargo build --release --features onnx-check`"
        );
    }
    let model = load_model(args.model.as_deref(), "cpu")?;
    let wants_sample = args.sample.is_some() || args.check;
    let exported = match model.manifest().method.episodic() {
        None => segmenter_file(args, &model, classes, wants_sample)?,
        Some(_) => few_shot_file(args, &model, wants_sample)?,
    };
    let Exported { file, sample, names, variant } = exported;
    let bytes = file.bytes();
    let check = match &sample {
        Some(sample) if args.check => Some(checked(&bytes, sample)?),
        _ => None,
    };
    file.save(&args.output)?;
    let prototypes = prototypes.filter(|_| !file.rows().is_empty());
    if let Some(path) = &prototypes {
        file.save_rows(path)?;
    }
    if let (Some(path), Some(sample)) = (&args.sample, &sample) {
        sample.save(path)?;
    }
    let report = Report {
        schema: "protoseg.export/1",
        file: &args.output,
        bytes: bytes.len(),
        opset: OPSET,
        nodes: file.n_nodes(),
        architecture: model.config().describe(),
        variant,
        classes: names,
        classes_as: classes.name(),
        inputs: file.inputs(),
        outputs: file.outputs(),
        prototypes,
        check,
    };
    match args.json {
        true => output::json(&report),
        false => print(&report),
    }
}

struct Exported {
    file: OnnxFile,
    sample: Option<Sample>,
    names: Vec<String>,
    variant: String,
}

/// Of a model that predicts its classes and those of a pack.
fn segmenter_file(args: &Export, model: &Model, classes: ClassesAs, wants_sample: bool) -> Result<Exported> {
    let usage = usage(&args.method, model)?;
    let pack = args.pack.as_ref().map(|path| load_pack(path, model)).transpose()?;
    let builder = Segmenter::builder(model).usage(usage);
    let segmenter = match &pack {
        Some(pack) => builder.pack(pack),
        None => builder,
    }
    .build()?;
    let file = Exporter::new(&segmenter).classes(classes).features(args.features).build()?;
    let sample = wants_sample.then(|| Sample::new(&segmenter)).transpose()?;
    let sample = sample.map(|sample| sample.with_inputs(file.rows()));
    let names = segmenter.classes().rows().iter().map(|class| class.name.clone()).collect();
    Ok(Exported { file, sample, names, variant: segmenter.usage().variant().to_string() })
}

/// Of a few-shot model: the class is whatever supports show.
fn few_shot_file(args: &Export, model: &Model, wants_sample: bool) -> Result<Exported> {
    let flags = [
        (args.pack.is_some(), "--pack"),
        (args.features, "--features"),
        (args.classes != "baked", "--classes"),
    ];
    if let Some((_, flag)) = flags.iter().find(|(is_given, _)| *is_given) {
        bail!("a few-shot model has no classes of its own, so {flag} says nothing\nhint: leave {flag} out");
    }
    let file = export_few_shot(model)?;
    let sample = wants_sample.then(|| Sample::of_episode(model)).transpose()?;
    let names = vec!["background".to_string(), "class".to_string()];
    Ok(Exported { file, sample, names, variant: model.manifest().method.name() })
}

fn classes_as(name: &str) -> Result<ClassesAs> {
    match ClassesAs::ALL.into_iter().find(|known| known.name() == name) {
        Some(known) => Ok(known),
        None => bail!("--classes must be `baked` or `input`, got `{name}`"),
    }
}

/// What another runtime makes of the file; an error if that is not our answer.
#[cfg(feature = "onnx-check")]
fn checked(bytes: &[u8], sample: &Sample) -> Result<Agreement> {
    let agreement = protoseg::export::check::check(bytes, sample)?;
    if !agreement.is_same() {
        bail!(
            "the file does not give our answer: {} of {} pixels have another class, {} of them ties, and scores differ \
             by up to {:e}; nothing was written",
            agreement.different,
            agreement.pixels,
            agreement.ties,
            agreement.largest_difference
        );
    }
    Ok(agreement)
}

#[cfg(not(feature = "onnx-check"))]
fn checked(_: &[u8], _: &Sample) -> Result<Agreement> {
    unreachable!("refused before")
}

fn print(report: &Report<'_>) -> Result<()> {
    let Report { architecture, variant, classes, bytes, nodes, opset, .. } = report;
    output::line(format_args!(
        "{architecture}, {variant}: {}, opset {opset}, {} nodes, {} -> {}",
        count(classes.len(), "class"),
        nodes,
        units::bytes(*bytes as u64),
        report.file.display()
    ))?;
    let row = |kind: &str, port: &Port| {
        vec![kind.to_string(), port.name.clone(), port.element.to_string(), port.shape.join(" x ")]
    };
    let rows: Vec<Vec<String>> = report
        .inputs
        .iter()
        .map(|port| row("input", port))
        .chain(report.outputs.iter().map(|port| row("output", port)))
        .collect();
    for line in table::lines(&["", "name", "type", "shape"], &rows) {
        output::line(line)?;
    }
    if let Some(path) = &report.prototypes {
        output::line(format_args!("rows of these classes -> {}", path.display()))?;
    }
    if let Some(check) = &report.check {
        output::line(format_args!(
            "checked: {} of {} pixels have another class than ours, {} of them ties; scores differ by up to {:.1e}",
            check.different, check.pixels, check.ties, check.largest_difference
        ))?;
    }
    Ok(())
}
