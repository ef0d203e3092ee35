//! `protoseg predict`.

mod inputs;
mod stages;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Result, bail};
use protoseg::{
    core::{ClassRole, Image},
    picture::{ClassRegion, CocoDocument, Palette, hex},
    prediction::{Area, Prediction},
    segmenter::Segmenter,
};
use protoseg_data::{DataError, create_dir, picture::read_image, write_atomic};
use serde::Serialize;

use self::inputs::{NamedImage, find_images};
use super::usage::{load_model, load_pack, model_name, usage};
use crate::{
    cli::Predict,
    output::{
        self,
        masks::{Kinds, MaskWriter},
        progress::Bar,
    },
};

pub fn run(args: &Predict) -> Result<()> {
    let start = Instant::now();
    let kinds = Kinds::parse(&args.write)?;
    if args.abstain.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
        bail!("`--abstain {}` is not between 0 and 1", args.abstain.unwrap_or_default());
    }
    if !(0.0..=0.5).contains(&args.overlap) {
        bail!("`--overlap {}` is not between 0 and 0.5", args.overlap);
    }
    let images = find_images(&args.inputs)?;
    let summary_path = args.output.join("predictions.json");
    output::refuse_overwrite(&summary_path, args.force)?;

    let model = load_model(args.model.as_deref(), &args.usage.device)?;
    let pack = args.pack.as_ref().map(|path| load_pack(path, &model)).transpose()?;
    let usage = usage(&args.usage, &model)?;
    let mut builder = Segmenter::builder(&model).usage(usage.clone());
    if let Some(pack) = &pack {
        builder = builder.pack(pack);
    }
    if args.tile {
        builder = builder.tiles(args.overlap);
    }
    let segmenter = builder.build()?;
    create_dir(&args.output)?;
    if let Some(path) = &args.logits {
        write_logits(&segmenter, &images, path, args.force)?;
    }

    let predict = |image: &Image| {
        let prediction = segmenter.predict(image);
        match args.abstain {
            Some(least) => prediction.abstain_below(least),
            None => prediction,
        }
    };
    let done = predict_all(&images, predict, &MaskWriter::new(&args.output, kinds), kinds.coco)?;
    let failed = done.iter().filter(|image| image.error.is_some()).count();
    if kinds.coco {
        let mut coco = CocoDocument::new(segmenter.classes());
        for image in done.iter().filter(|image| image.error.is_none()) {
            coco.push(&image.image.display().to_string(), image.width, image.height, &image.regions);
        }
        write_atomic(&args.output.join("coco.json"), serde_json::to_string(&coco)?.as_bytes())?;
    }
    let summary = Summary {
        schema: "protoseg.predict/1",
        model: model_name(args.model.as_deref()),
        pack: args.pack.as_deref(),
        variant: usage.variant(),
        preset: usage.preset(),
        classes: &list_classes(segmenter.palette()),
        images: &done,
        failed,
        seconds: start.elapsed().as_secs_f64(),
        peak_memory: protoseg_data::peak_memory(),
    };
    write_atomic(&summary_path, serde_json::to_string_pretty(&summary)?.as_bytes())?;
    if args.json {
        output::json(&summary)?;
    } else {
        print(&summary, args)?;
    }
    match failed {
        0 => Ok(()),
        _ => {
            let list = done.iter().filter_map(|image| image.error.as_ref()).map(|error| format!("  {error}"));
            let list: Vec<String> = list.collect();
            bail!("{failed} of {} images could not be read:\n{}", done.len(), list.join("\n"))
        }
    }
}

fn write_logits(segmenter: &Segmenter, images: &[NamedImage], path: &Path, force: bool) -> Result<()> {
    let [image] = images else {
        bail!("--logits is for a single image, but {} are given", images.len());
    };
    output::refuse_overwrite(path, force)?;
    let scores = segmenter.canvas_scores(&read_image(&image.path)?);
    let names: Vec<&str> = segmenter.classes().rows().iter().map(|class| class.name.as_str()).collect();
    protoseg::weights::write_tensor(
        path,
        "logits",
        scores.into_data(),
        &[("classes", serde_json::to_string(&names)?)],
    )?;
    Ok(())
}

/// What became of an image.
#[derive(Serialize)]
struct Done {
    image: PathBuf,
    #[serde(skip)]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    width: usize,
    height: usize,
    /// Of the network and the classifier.
    seconds: f64,
    classes: Vec<Area>,
    /// Pixels without a class.
    abstained: u64,
    files: Vec<PathBuf>,
    #[serde(skip)]
    regions: Vec<ClassRegion>,
}

/// A class as summaries name it.
#[derive(Serialize)]
struct ClassEntry<'a> {
    id: u16,
    name: &'a str,
    role: ClassRole,
    color: String,
}

fn list_classes(palette: &Palette) -> Vec<ClassEntry<'_>> {
    let entry = |(id, color): (u16, &[u8; 3])| {
        let class = &palette.classes().rows()[usize::from(id)];
        ClassEntry { id, name: &class.name, role: class.role, color: hex(*color) }
    };
    (0..).zip(palette.colors()).map(entry).collect()
}

#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    model: String,
    pack: Option<&'a Path>,
    variant: &'static str,
    preset: &'a str,
    classes: &'a [ClassEntry<'a>],
    images: &'a [Done],
    failed: usize,
    seconds: f64,
    peak_memory: Option<u64>,
}

/// Reads, predicts and writes, all at once. An image that cannot be read is left out and its error kept; one that
/// cannot be written ends it.
fn predict_all(
    images: &[NamedImage],
    predict: impl Fn(&Image) -> Prediction,
    writer: &MaskWriter,
    regions: bool,
) -> Result<Vec<Done>> {
    let bar = Bar::new("images");
    let (mut count, mut unread) = (0, Vec::new());
    let work = |place: usize, image: Result<Image, DataError>| {
        bar.show(count, images.len());
        count += 1;
        let image = image.map_err(|error| unread.push((place, Done::unread(&images[place], &error)))).ok()?;
        let start = Instant::now();
        let prediction = predict(&image);
        Some((image, prediction, start.elapsed().as_secs_f64()))
    };
    let write = |place: usize, (image, prediction, seconds): (Image, Prediction, f64)| {
        let NamedImage { path, name } = &images[place];
        let files = writer.write(name, &image, &prediction)?;
        Ok::<_, DataError>(Done {
            image: path.clone(),
            name: name.clone(),
            error: None,
            width: image.width,
            height: image.height,
            seconds,
            classes: prediction.areas(),
            abstained: prediction.abstained(),
            files,
            regions: if regions { prediction.regions() } else { Vec::new() },
        })
    };
    let mut done = stages::run(images.len(), |place| read_image(&images[place].path), work, write)?;
    done.extend(unread);
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, image)| image).collect())
}

impl Done {
    fn unread(image: &NamedImage, error: &DataError) -> Self {
        Self {
            image: image.path.clone(),
            name: image.name.clone(),
            error: Some(error.to_string()),
            width: 0,
            height: 0,
            seconds: 0.0,
            classes: Vec::new(),
            abstained: 0,
            files: Vec::new(),
            regions: Vec::new(),
        }
    }
}

/// Above this, a table of images is not read but searched: it is in the file.
const LISTED: usize = 20;

fn print(summary: &Summary<'_>, args: &Predict) -> Result<()> {
    let read = || summary.images.iter().filter(|image| image.error.is_none());
    for image in read().take(LISTED) {
        let areas: Vec<String> =
            image.classes.iter().map(|area| format!("{} {:.1} %", area.class, 100.0 * area.share)).collect();
        output::line(format_args!("{}: {}", image.name, areas.join(", ")))?;
    }
    if read().count() > LISTED {
        output::line(format_args!("... and {} more", read().count() - LISTED))?;
    }
    let network: f64 = read().map(|image| image.seconds).sum();
    let count = read().count();
    output::line(format_args!(
        "{count} {} in {:.1} s ({:.2} s each in the network) -> {}",
        if count == 1 { "image" } else { "images" },
        summary.seconds,
        network / count.max(1) as f64,
        args.output.display()
    ))
}
