//! `protoseg register`.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use protoseg::{
    class_pack::{ClassPack, PackClass, Shot},
    core::{ClassId, Fold, IGNORE, RowMap, Support, SupportDraw},
    model::Model,
    support_check::{CheckedSupport, SupportCheck, check_supports},
};
use protoseg_data::{
    Benchmark, Dataset, SupportFiles,
    reader::coco::{self, CocoSplit},
    scan,
};
use serde::Serialize;

use super::usage::{load_model, load_pack, parts};
use crate::{
    cli::Register,
    output::{self, progress::Bar, table},
};

/// Features of so many supports are kept in memory for the check; of more, they are computed again.
const KEPT: usize = 64;

pub fn run(args: &Register) -> Result<()> {
    let model = load_model(&args.model, &args.usage.device)?;
    let (parts, options) = parts(&args.usage, &model)?;
    let mut pack = match args.output.exists() {
        true => load_pack(&args.output, &model)?,
        false => ClassPack::new(&model),
    };
    let source = Supports::gather(args, &model)?;
    refuse_names(&source, &model, &mut pack, args)?;

    let shots: usize = source.classes.iter().map(|(_, shots)| shots.len()).sum();
    let bar = Bar::new("supports");
    let mut done = 0;
    let mut looked: Vec<Vec<CheckedSupport>> = Vec::new();
    for (name, supports) in &source.classes {
        let (mut shots_of, mut looked_of) = (Vec::new(), Vec::new());
        for support in supports {
            bar.show(done, shots);
            let (looked, shot) = look(&model, &source, support)?;
            if done < KEPT {
                looked_of.push(looked);
            }
            shots_of.push(shot);
            done += 1;
        }
        pack.add(PackClass { name: name.clone(), color: None, shots: shots_of })?;
        looked.push(looked_of);
    }
    drop(bar);

    let bar = Bar::new("check");
    let mut reports = Vec::new();
    for (place, ((name, supports), mut seen)) in source.classes.iter().zip(looked).enumerate() {
        bar.show(place, source.classes.len());
        for support in &supports[seen.len()..] {
            seen.push(look(&model, &source, support)?.0);
        }
        let check = check_supports(&model, &pack, name, &seen, parts, &options)?;
        reports.push(Report::new(pack.class(name)?, check));
    }
    drop(bar);
    pack.save(&args.output)?;
    let answer = Answer {
        schema: "protoseg.register/1",
        pack: &args.output,
        model: pack.model().to_string(),
        classes_in_pack: pack.classes().len(),
        registered: reports,
    };
    if args.json { output::json(&answer) } else { print(&answer, args) }
}

/// Names that the model has already, or the pack.
fn refuse_names(source: &Supports, model: &Model, pack: &mut ClassPack, args: &Register) -> Result<()> {
    let classes = &model.manifest.classes;
    for (name, _) in &source.classes {
        if classes.rows()[..classes.n_base()].iter().any(|class| class.name == *name) {
            bail!("class `{name}` is one of the model's own\nhint: choose another name");
        }
        if pack.class(name).is_ok() {
            if !args.force {
                bail!(
                    "class `{name}` is in `{}` already\nhint: replace it with --force, or choose another name",
                    args.output.display()
                );
            }
            pack.remove(name)?;
        }
    }
    Ok(())
}

/// Features and sums of a support.
fn look(model: &Model, source: &Supports, support: &Source) -> Result<(CheckedSupport, Shot)> {
    let loaded = source.load(support)?;
    let (image, pixels) = (loaded.image(), loaded.pixels());
    let preprocess = &model.manifest.preprocess;
    let content = preprocess.content(image.width, image.height);
    let label = preprocess.label(loaded.labels());
    let features = model.features(image);
    let sums = model.pool_support(Support::ROW, features.clone(), &label);
    let Some(shot) = Shot::new(&support.name(source), pixels, sums) else {
        bail!(
            "support `{}` shows too little of its class: none of its {pixels} pixels is left at the model's input size of {}\n\
             hint: choose an image that shows more of it",
            support.name(source),
            preprocess.size
        );
    };
    Ok((CheckedSupport { features, label, own: Support::ROW, content, shot: shot.clone() }, shot))
}

/// All supports by class, in the order they were given.
struct Supports {
    classes: Vec<(String, Vec<Source>)>,
    dataset: Option<Box<dyn Dataset>>,
    /// The model's row of each class of the data set that it knows.
    rows: HashMap<u16, u16>,
    n_base: u16,
    /// Rows that the model's description names.
    known: u16,
}

enum Source {
    Files(SupportFiles),
    Sample { index: usize, class: ClassId },
}

impl Source {
    fn name(&self, source: &Supports) -> String {
        match self {
            Self::Files(example) => {
                example.image.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Self::Sample { index, .. } => {
                source.dataset.as_ref().map_or_else(String::new, |set| set.samples()[*index].name.clone())
            }
        }
    }
}

impl Supports {
    fn gather(args: &Register, model: &Model) -> Result<Self> {
        let classes = &model.manifest.classes;
        let mut source = Self {
            classes: Vec::new(),
            dataset: None,
            rows: HashMap::new(),
            n_base: classes.n_base() as u16,
            known: classes.rows().len() as u16,
        };
        if args.shots == Some(0) {
            bail!("0 shots were asked for\nhint: ask for at least 1 support a class");
        }
        for (name, paths) in split_classes(&args.class)? {
            if source.classes.iter().any(|(other, _)| *other == name) {
                bail!("class `{name}` is given twice\nhint: give all its supports behind one --class");
            }
            let examples = paths.iter().map(|path| read_path(&name, path)).collect::<Result<Vec<_>>>()?;
            source.classes.push((name, examples.into_iter().flatten().map(Source::Files).collect()));
        }
        if let Some(path) = &args.supports {
            let before = source.classes.len();
            for example in SupportFiles::read_json(path)? {
                match source.classes.iter_mut().position(|(name, _)| *name == example.class) {
                    Some(place) if place < before => {
                        bail!(
                            "class `{}` is given twice: with --class and in `{}`",
                            example.class,
                            path.display()
                        )
                    }
                    Some(place) => source.classes[place].1.push(Source::Files(example)),
                    None => source.classes.push((example.class.clone(), vec![Source::Files(example)])),
                }
            }
        }
        if let Some(path) = &args.coco {
            source.add_coco(args, path, model)?;
        }
        if let Some(data) = &args.data {
            source.add_drawn(args, data, model)?;
        }
        if source.classes.is_empty() {
            bail!(
                "no class is given\nhint: give at least one with --class NAME=IMAGE:MASK, --supports, --coco or --data"
            );
        }
        Ok(source)
    }

    fn add_coco(&mut self, args: &Register, path: &Path, model: &Model) -> Result<()> {
        let beside = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let images = args.images.clone().unwrap_or(beside);
        let split = CocoSplit { name: "all".into(), annotations: path.to_path_buf(), images };
        let dataset = coco::open("coco", &[split], false)?;
        self.know(&dataset, model);
        let most = args.shots.unwrap_or(usize::MAX);
        for class in dataset.classes().foreground().filter(|class| !self.rows.contains_key(&class.id.0)) {
            let mut supports = Vec::new();
            for index in 0..dataset.samples().len() {
                if supports.len() < most && dataset.labels(index)?.map.data.contains(&class.id.0) {
                    supports.push(Source::Sample { index, class: class.id });
                }
            }
            if !supports.is_empty() {
                self.classes.push((class.name.clone(), supports));
            }
        }
        self.dataset = Some(Box::new(dataset));
        Ok(())
    }

    fn add_drawn(&mut self, args: &Register, data: &str, model: &Model) -> Result<()> {
        let benchmark = Benchmark::open(data, args.root.as_deref())?;
        let dataset = benchmark.dataset.as_ref();
        self.know(dataset, model);
        let mut fold = benchmark.fold(args.fold)?.clone();
        if fold.novel().is_empty() {
            let unknown = dataset.classes().foreground().filter(|class| !self.rows.contains_key(&class.id.0));
            fold = Fold::new(dataset.classes(), 0, &unknown.map(|class| class.id).collect::<Vec<_>>())?;
        }
        let draw = SupportDraw {
            n_shots: args.shots.unwrap_or(1),
            seed: args.seed,
            min_pixels: args.min_pixels.unwrap_or(benchmark.min_support_pixels),
        };
        let (list, drawn) = scan(dataset, &benchmark.train)?.draw_supports(dataset, &fold, draw)?;
        for ((class, samples), &id) in list.classes.iter().zip(drawn).zip(fold.novel()) {
            let supports = samples.into_iter().map(|index| Source::Sample { index, class: id }).collect();
            self.classes.push((class.class.clone(), supports));
        }
        self.dataset = Some(benchmark.dataset);
        Ok(())
    }

    /// Finds the classes of a data set that the model has.
    fn know(&mut self, dataset: &dyn Dataset, model: &Model) {
        let classes = &model.manifest.classes;
        let base = (0u16..).zip(&classes.rows()[..classes.n_base()]);
        self.rows =
            base.filter_map(|(row, class)| Some((dataset.classes().id(&class.name)?.0, row))).collect();
    }

    fn load(&self, source: &Source) -> Result<Support> {
        let (index, class) = match source {
            Source::Files(files) => return Ok(files.load(self.n_base, self.known)?),
            Source::Sample { index, class } => (*index, class.0),
        };
        let Some(dataset) = &self.dataset else { bail!("a sample without its data set") };
        let (image, labels) = dataset.load(index)?;
        let row = |&id: &u16| match id {
            id if id == class => Support::ROW,
            id => self.rows.get(&id).copied().unwrap_or(IGNORE),
        };
        let rows = RowMap::new(labels.width, labels.height, labels.data.iter().map(row).collect());
        Ok(Support::new(source.name(self), image, rows).map_err(protoseg_data::DataError::from)?)
    }
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
            "`{path}` is no support of class `{name}`\n\
             hint: give IMAGE:MASK, a folder of images with masks, or a .txt list with a pair a line"
        ),
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    pack: &'a PathBuf,
    model: String,
    classes_in_pack: usize,
    registered: Vec<Report>,
}

#[derive(Serialize)]
struct Report {
    class: String,
    shots: usize,
    pixels: u64,
    /// Positions of the network's grid that the prototype is the mean of.
    positions: f64,
    nearest: Vec<Near>,
    leave_one_out_iou: Vec<f64>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Near {
    class: String,
    cosine: f32,
}

impl Report {
    fn new(class: &PackClass, check: SupportCheck) -> Self {
        let name = &class.name;
        let mut warnings = Vec::new();
        if let Some((other, share)) = check.taken.filter(|(_, share)| *share >= SupportCheck::CONFUSED) {
            warnings.push(format!(
                "`{name}` is likely to be taken for `{other}`: {share:.0} % of its pixels in its own supports are"
            ));
        }
        let ious = &check.leave_one_out;
        let mean = ious.iter().sum::<f64>() / ious.len().max(1) as f64;
        if !ious.is_empty() && mean < SupportCheck::UNSURE {
            warnings.push(format!(
                "the supports of `{name}` say little of each other: predicted from the others, their mean IoU is {mean:.0} %"
            ));
        }
        Self {
            class: name.clone(),
            shots: class.shots.len(),
            pixels: class.shots.iter().map(|shot| shot.pixels).sum(),
            positions: class.shots.iter().map(|shot| f64::from(shot.own.count)).sum(),
            nearest: check.nearest.into_iter().map(|(class, cosine)| Near { class, cosine }).collect(),
            leave_one_out_iou: check.leave_one_out,
            warnings,
        }
    }
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
        "protoseg predict --model {} --pack {} IMAGES -o OUT",
        output::quoted(&args.model),
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
