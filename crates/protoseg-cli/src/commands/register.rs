//! `protoseg register`.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use protoseg::{
    class_pack::ClassPack,
    core::{SupportDraw, count},
    model::Model,
    picture::support_sheet,
    register::{ClassReport, KnownClass, RegisterStage, Registration, Rest, SupportSet},
    write_image,
};
use protoseg_data::{Benchmark, SupportFile, read_support_file};
use serde::Serialize;

use super::{
    support_words::read_classes,
    usage::{load_model, load_pack, lock_pack, model_flag, usage},
};
use crate::{
    cli::Register,
    output::{self, progress::Bar, table},
};

/// Supports per class that are taken from a folder without folds, unless a flag says otherwise.
const MOST_SHOTS: usize = 10;

pub fn run(args: &Register) -> Result<()> {
    let model = load_model(args.model.as_deref(), &args.usage.device)?;
    let usage = usage(&args.usage.method, &model)?;
    let _lock = lock_pack(&args.output)?;
    let sheet = sheet_path(&args.output);
    if sheet.exists() && !args.output.exists() {
        bail!(
            "`{}` is there already, where the picture of the supports goes\n\
             hint: give the pack another name with -o, such as `{}`",
            sheet.display(),
            args.output.with_extension("pack").display()
        );
    }
    let mut pack = match args.output.exists() {
        true => load_pack(&args.output, &model)?,
        false => ClassPack::new(&model),
    };
    let set = gather(args, &model)?;
    let (supports, check) = (Bar::new("supports"), Bar::new("check"));
    let registration = registration(args, &model)?.usage(usage).known(known(args)).refine(args.refine);
    let registration = registration.clean_strokes(args.clean_strokes);
    let registered = registration.run(&model, &mut pack, &set, &|stage, done, total| match stage {
        RegisterStage::Looking => supports.show(done, total),
        RegisterStage::Checking => check.show(done, total),
    })?;
    drop((supports, check));
    pack.save(&args.output)?;
    let picture = picture(sheet, &registered)?;
    let answer = Answer {
        schema: "protoseg.register/1",
        pack: &args.output,
        model: pack.model().to_string(),
        classes_in_pack: pack.classes().len(),
        picture,
        registered,
    };
    if args.json { output::json(&answer) } else { print(&answer, args) }
}

fn registration(args: &Register, model: &Model) -> Result<Registration> {
    let registration = Registration::new(model)?;
    Ok(match args.rest.as_deref() {
        None => registration,
        Some("background") => registration.rest(Rest::Background),
        Some("ignore") => registration.rest(Rest::Ignore),
        Some(other) => bail!("`--rest` must be `background` or `ignore`, got `{other}`"),
    })
}

fn known(args: &Register) -> KnownClass {
    match (args.force, args.add) {
        (true, _) => KnownClass::Replace,
        (_, true) => KnownClass::Extend,
        _ => KnownClass::Refuse,
    }
}

/// The supports that the flags name.
fn gather(args: &Register, model: &Model) -> Result<SupportSet> {
    if args.shots == Some(0) {
        bail!("`--shots` must be at least 1, got 0");
    }
    let mut set = SupportSet::new();
    for (name, files) in read_classes(&args.class)? {
        set.add_files(&name, files)?;
    }
    let benchmark = args.data.as_ref().map(|data| Benchmark::open(data, args.root.as_deref())).transpose()?;
    let drawn = match &args.supports {
        Some(path) => match read_support_file(path)? {
            SupportFile::Pairs(pairs) => {
                set.add_named_files(pairs)?;
                benchmark
            }
            SupportFile::List(list) => {
                let Some(benchmark) = benchmark else {
                    bail!(
                        "`{}` lists samples of data set `{}`\nhint: say where that is with --data",
                        path.display(),
                        list.dataset
                    );
                };
                set.add_listed(benchmark, &list)?;
                None
            }
        },
        None => benchmark,
    };
    if let Some(path) = &args.coco {
        let beside = path.parent().unwrap_or(Path::new(""));
        let images = args.images.as_deref().unwrap_or(beside);
        set.add_coco(path, images, args.shots.unwrap_or(usize::MAX), model)?;
    }
    if let Some(benchmark) = drawn {
        draw(&mut set, benchmark, args, model)?;
    }
    if let Some(shots) = args.shots {
        set.expect(shots);
    }
    if set.names().next().is_none() {
        bail!(
            "no class is given\nhint: give at least one with --class NAME=IMAGE:MASK, --supports, --coco or --data"
        );
    }
    Ok(set)
}

/// The novel classes of a fold by the benchmark's rules; without any, all classes that the model does not know.
fn draw(set: &mut SupportSet, benchmark: Benchmark, args: &Register, model: &Model) -> Result<()> {
    let has_novel = !benchmark.fold(args.fold)?.novel().is_empty();
    let (shots, min_pixels) = if has_novel { (1, benchmark.min_support_pixels) } else { (MOST_SHOTS, 1) };
    let draw = SupportDraw {
        n_shots: args.shots.unwrap_or(shots),
        seed: args.seed,
        min_pixels: args.min_pixels.unwrap_or(min_pixels),
    };
    match has_novel {
        true => set.add_drawn(benchmark, args.fold, draw)?,
        false => set.add_labelled(benchmark, draw, model)?,
    }
    Ok(())
}

/// PACK.png.
fn sheet_path(pack: &Path) -> PathBuf {
    let mut path = pack.as_os_str().to_owned();
    path.push(".png");
    path.into()
}

/// Draws the supports beside the pack.
fn picture(path: PathBuf, registered: &[ClassReport]) -> Result<Option<PathBuf>> {
    match support_sheet(registered) {
        Some(sheet) => {
            write_image(&path, &sheet)?;
            Ok(Some(path))
        }
        None => Ok(None),
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    pack: &'a PathBuf,
    model: String,
    classes_in_pack: usize,
    /// The sheet of supports.
    picture: Option<PathBuf>,
    registered: Vec<ClassReport>,
}

fn print(answer: &Answer<'_>, args: &Register) -> Result<()> {
    let rows: Vec<Vec<String>> = answer
        .registered
        .iter()
        .map(|report| {
            let near: Vec<String> =
                report.nearest.iter().map(|near| format!("{} {:.2}", near.class, near.cosine)).collect();
            let ious: Vec<String> = report.leave_one_out_iou.iter().map(|iou| format!("{iou:.0}")).collect();
            let ious = if ious.is_empty() { "-".to_string() } else { ious.join(" ") };
            vec![
                report.class.clone(),
                report.shots.to_string(),
                report.pixels.to_string(),
                near.join(", "),
                ious,
            ]
        })
        .collect();
    let title =
        ["class", "supports", "pixels", "nearest classes (cosine)", "IoU of each support from the others, %"];
    for line in table::lines(&title, &rows) {
        output::line(line)?;
    }
    // What is said of every class is said once.
    let mut said = HashSet::new();
    for note in answer.registered.iter().flat_map(|report| &report.notes).filter(|note| said.insert(*note)) {
        output::note(format_args!("note: {note}"));
    }
    for warning in answer.registered.iter().flat_map(|report| &report.warnings) {
        output::note(format_args!("warning: {warning}"));
    }
    output::line(format_args!(
        "{} in {} for model {}",
        count(answer.classes_in_pack, "class"),
        args.output.display(),
        answer.model
    ))?;
    if let Some(picture) = &answer.picture {
        output::line(format_args!("supports -> {}", picture.display()))?;
    }
    output::line(format_args!(
        "protoseg predict {}--pack {} IMAGES -o OUT",
        model_flag(args.model.as_deref()),
        output::quoted(&args.output)
    ))
}
