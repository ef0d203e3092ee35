//! `protoseg register`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use protoseg::{
    class_pack::ClassPack,
    core::SupportDraw,
    model::Model,
    register::{ClassReport, RegisterStage, Registration, Rest, SupportSet},
};
use protoseg_data::{Benchmark, SupportFile, SupportFiles, read_support_file};
use serde::Serialize;

use super::usage::{load_model, load_pack, model_flag, usage};
use crate::{
    cli::Register,
    output::{self, progress::Bar, table},
};

pub fn run(args: &Register) -> Result<()> {
    let model = load_model(args.model.as_deref(), &args.usage.device)?;
    let usage = usage(&args.usage, &model)?;
    let mut pack = match args.output.exists() {
        true => load_pack(&args.output, &model)?,
        false => ClassPack::new(&model),
    };
    let set = gather(args, &model)?;
    let (supports, check) = (Bar::new("supports"), Bar::new("check"));
    let registered = registration(args, &model)?.usage(usage).replace(args.force).run(
        &model,
        &mut pack,
        &set,
        &|stage, done, total| match stage {
            RegisterStage::Looking => supports.show(done, total),
            RegisterStage::Checking => check.show(done, total),
        },
    )?;
    drop((supports, check));
    pack.save(&args.output)?;
    let answer = Answer {
        schema: "protoseg.register/1",
        pack: &args.output,
        model: pack.model().to_string(),
        classes_in_pack: pack.classes().len(),
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

/// The supports that the flags name.
fn gather(args: &Register, model: &Model) -> Result<SupportSet> {
    if args.shots == Some(0) {
        bail!("`--shots` must be at least 1, got 0");
    }
    let mut set = SupportSet::new();
    for (name, paths) in split_classes(&args.class)? {
        let files = paths.iter().map(|path| read_path(&name, path)).collect::<Result<Vec<_>>>()?;
        set.add_files(&name, files.concat())?;
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
        let draw = SupportDraw {
            n_shots: args.shots.unwrap_or(1),
            seed: args.seed,
            min_pixels: args.min_pixels.unwrap_or(benchmark.min_support_pixels),
        };
        set.add_drawn(benchmark, args.fold, draw, model)?;
    }
    if set.names().next().is_none() {
        bail!(
            "no class is given\nhint: give at least one with --class NAME=IMAGE:MASK, --supports, --coco or --data"
        );
    }
    Ok(set)
}

/// `NAME=PATH[,PATH...] [PATH...]`, several of them, as names with paths.
fn split_classes(words: &[String]) -> Result<Vec<(String, Vec<String>)>> {
    let mut classes: Vec<(String, Vec<String>)> = Vec::new();
    for word in words {
        let named = word.split_once('=').filter(|(name, _)| !name.contains(['/', '\\', '.']));
        let paths = match named {
            Some((name, paths)) => {
                if name.trim().is_empty() {
                    bail!("`--class {word}` names no class\nhint: write --class NAME=IMAGE:MASK");
                }
                classes.push((name.trim().to_string(), Vec::new()));
                paths
            }
            None => word,
        };
        let Some((_, given)) = classes.last_mut() else {
            bail!("`--class {word}` names no class\nhint: write --class NAME=IMAGE:MASK");
        };
        given.extend(paths.split(',').filter(|path| !path.is_empty()).map(str::to_string));
    }
    for (name, paths) in &mut classes {
        if paths.is_empty() {
            bail!("class `{name}` has no support\nhint: write --class {name}=IMAGE:MASK");
        }
        // An image and its mask as two words are a pair too.
        let is_picture =
            |path: &String| !path.contains(':') && !Path::new(path).is_dir() && !has_ending(path, "txt");
        if paths.len() % 2 == 0 && paths.iter().all(is_picture) {
            *paths = paths.chunks(2).map(|pair| pair.join(":")).collect();
        }
    }
    Ok(classes)
}

fn has_ending(path: &str, ending: &str) -> bool {
    Path::new(path).extension().is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

fn read_path(name: &str, path: &str) -> Result<Vec<SupportFiles>> {
    if Path::new(path).is_dir() {
        return Ok(SupportFiles::read_folder(name, Path::new(path))?);
    }
    if has_ending(path, "txt") {
        return Ok(SupportFiles::read_list(name, Path::new(path))?);
    }
    // The last colon that leaves two names: a drive of Windows has one too.
    match path.rsplit_once(':') {
        Some((image, mask)) if !image.is_empty() && !mask.is_empty() => {
            Ok(vec![SupportFiles::new(name, Path::new(image), Path::new(mask))])
        }
        _ => bail!(
            "`{path}` is not a support of class `{name}`\n\
             hint: give IMAGE:MASK, a folder of images with masks, or a .txt list with one pair per line"
        ),
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    pack: &'a PathBuf,
    model: String,
    classes_in_pack: usize,
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
    for warning in answer.registered.iter().flat_map(|report| &report.warnings) {
        output::note(format_args!("warning: {warning}"));
    }
    let classes = if answer.classes_in_pack == 1 { "class" } else { "classes" };
    output::line(format_args!(
        "{} {classes} in {} for model {}",
        answer.classes_in_pack,
        args.output.display(),
        answer.model
    ))?;
    output::line(format_args!(
        "protoseg predict {}--pack {} IMAGES -o OUT",
        model_flag(args.model.as_deref()),
        output::quoted(&args.output)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(words: &[&str]) -> Vec<(String, Vec<String>)> {
        split_classes(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn supports_of_a_class_come_in_several_forms() {
        let pairs = |name: &str, pairs: &[&str]| {
            (name.to_string(), pairs.iter().map(|pair| pair.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(
            split(&["duck=a.jpg:a.png,b.jpg:b.png"]),
            [pairs("duck", &["a.jpg:a.png", "b.jpg:b.png"])]
        );
        assert_eq!(
            split(&["duck=a.jpg", "a.png", "wild swan=c/d.jpg:e=1.png"]),
            [pairs("duck", &["a.jpg:a.png"]), pairs("wild swan", &["c/d.jpg:e=1.png"])]
        );
        assert!(split_classes(&["a.jpg:a.png".to_string()]).is_err());
        assert!(split_classes(&["duck=".to_string()]).is_err());
    }
}
