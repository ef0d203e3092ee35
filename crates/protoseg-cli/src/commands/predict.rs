//! `protoseg predict`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use protoseg::{core::Image, core::ScoreMap, predict::Predictor};
use protoseg_data::{DataError, create_dir, find_pictures, picture::read_image};
use serde::Serialize;

use super::usage::{load_model, load_pack, parts, preset};
use crate::{
    cli::Predict,
    output::{
        self,
        masks::{Annotation, Area, ClassEntry, CocoImage, Kinds, MaskWriter},
        palette::{Palette, hex},
        progress::Bar,
    },
};

/// Images that are read, and images that are written, at a time, besides the one that the network looks at.
const READERS: usize = 2;
const WRITERS: usize = 2;

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

    let model = load_model(&args.model, &args.usage.device)?;
    let pack = args.pack.as_ref().map(|path| load_pack(path, &model)).transpose()?;
    let (parts, options) = parts(&args.usage, &model)?;
    let bank = match &pack {
        Some(pack) => pack.bank(&model, parts, &options)?,
        None => model.base_bank(&options),
    };
    let mut palette = Palette::new(&bank.classes);
    if let Some(pack) = &pack {
        palette = palette.with_pack(pack);
    }
    let classes: Vec<ClassEntry> = (0u16..)
        .zip(bank.classes.rows())
        .map(|(id, class)| {
            let color = hex(palette.color(id));
            ClassEntry { id, name: class.name.clone(), role: class.role, color }
        })
        .collect();
    let predictor = Predictor { model: &model, bank, dqce: parts.dqce, options };
    create_dir(&args.output)?;
    if let Some(path) = &args.logits {
        write_logits(&predictor, &images, path, args.force)?;
    }

    let writer = MaskWriter::new(&args.output, kinds, palette, args.abstain);
    let done = predict_all(&predictor, &images, &writer, args.tile.then_some(args.overlap))?;
    let failed = done.iter().filter(|image| image.error.is_some()).count();
    if kinds.coco {
        let read = done.iter().filter(|image| image.error.is_none());
        let images: Vec<CocoImage<'_>> = read
            .map(|image| CocoImage {
                path: &image.image,
                width: image.width,
                height: image.height,
                annotations: &image.annotations,
            })
            .collect();
        writer.write_coco(&classes, &images)?;
    }
    let summary = Summary {
        schema: "protoseg.predict/1",
        model: &args.model,
        pack: args.pack.as_deref(),
        preset: &preset(args.usage.preset.as_deref(), &model)?.0,
        sce: parts.sce.is_some() && pack.is_some(),
        dqce: parts.dqce.is_some(),
        classes: &classes,
        images: &done,
        failed,
        seconds: start.elapsed().as_secs_f64(),
        peak_memory: protoseg::memory::peak(),
    };
    protoseg_data::write_atomic(&summary_path, serde_json::to_string_pretty(&summary)?.as_bytes())?;
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

/// An image and the name that its outputs get.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    path: PathBuf,
    name: String,
}

/// Folders are walked and keep their layout; lists name an image a line.
fn find_images(inputs: &[PathBuf]) -> Result<Vec<Named>> {
    let mut images: Vec<Named> = Vec::new();
    let file_name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for input in inputs {
        if input.is_dir() {
            for path in find_pictures(input)? {
                let name = path.strip_prefix(input).unwrap_or(&path).to_string_lossy().into_owned();
                images.push(Named { path, name });
            }
        } else if input.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("txt")) {
            let text =
                fs::read_to_string(input).with_context(|| format!("cannot read `{}`", input.display()))?;
            let folder = input.parent().unwrap_or(Path::new(""));
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
            {
                let path = folder.join(line);
                images.push(Named { name: file_name(&path), path });
            }
        } else {
            images.push(Named { name: file_name(input), path: input.clone() });
        }
    }
    if images.is_empty() {
        bail!("no image is given\nhint: give images, a folder with images, or a .txt list");
    }
    // a.jpg and a.png may not end up in one a.png: then both keep their endings.
    let stem = |name: &str| Path::new(name).with_extension("").to_string_lossy().into_owned();
    let mut count: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    images.iter().for_each(|image| *count.entry(stem(&image.name)).or_default() += 1);
    let mut seen = std::collections::HashMap::new();
    for image in &mut images {
        if count[&stem(&image.name)] == 1 {
            image.name = stem(&image.name);
        }
        if let Some(other) = seen.insert(image.name.clone(), image.path.clone()) {
            bail!(
                "`{}` and `{}` would be written to the same files\nhint: give their folder, or predict them one after the other",
                other.display(),
                image.path.display()
            );
        }
    }
    Ok(images)
}

fn write_logits(predictor: &Predictor<'_>, images: &[Named], path: &Path, force: bool) -> Result<()> {
    let [image] = images else {
        bail!("--logits is for a single image, but {} are given", images.len());
    };
    output::refuse_overwrite(path, force)?;
    let scores = predictor.canvas_scores(&read_image(&image.path)?);
    let names: Vec<&str> = predictor.bank.classes.rows().iter().map(|class| class.name.as_str()).collect();
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
    annotations: Vec<Annotation>,
}

#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    model: &'a Path,
    pack: Option<&'a Path>,
    preset: &'a str,
    sce: bool,
    dqce: bool,
    classes: &'a [ClassEntry],
    images: &'a [Done],
    failed: usize,
    seconds: f64,
    peak_memory: Option<u64>,
}

/// An image on its way from the network to the disk.
struct Predicted {
    place: usize,
    image: Image,
    map: ScoreMap,
    seconds: f64,
}

/// Reads, predicts and writes, all at once. An image that cannot be read is passed over; one that cannot be written ends it.
fn predict_all(
    predictor: &Predictor<'_>,
    images: &[Named],
    writer: &MaskWriter,
    tile: Option<f64>,
) -> Result<Vec<Done>> {
    let next = AtomicUsize::new(0);
    let (read, ready) = sync_channel::<(usize, Result<Image, DataError>)>(READERS);
    let (predicted, to_write) = sync_channel::<Predicted>(WRITERS);
    let to_write = Mutex::new(to_write);
    let mut done: Vec<Option<Done>> = images.iter().map(|_| None).collect();
    let bar = Bar::new("images");
    let written: Mutex<Vec<(usize, Done)>> = Mutex::new(Vec::new());
    let failure = thread::scope(|scope| {
        for _ in 0..READERS {
            let (read, next) = (read.clone(), &next);
            scope.spawn(move || read_images(images, next, &read));
        }
        drop(read);
        let writers: Vec<_> =
            (0..WRITERS).map(|_| scope.spawn(|| write_images(images, writer, &to_write, &written))).collect();
        for (count, (place, image)) in ready.iter().enumerate() {
            bar.show(count, images.len());
            match image {
                Ok(image) => {
                    let start = Instant::now();
                    let map = match tile {
                        Some(overlap) => predictor.predict_tiled(&image, overlap),
                        None => predictor.predict(&image),
                    };
                    let seconds = start.elapsed().as_secs_f64();
                    if predicted.send(Predicted { place, image, map, seconds }).is_err() {
                        break;
                    }
                }
                Err(error) => done[place] = Some(unread(&images[place], &error)),
            }
        }
        // Readers that wait for room see that nobody takes more.
        drop(ready);
        drop(predicted);
        writers.into_iter().find_map(|writer| writer.join().ok().and_then(Result::err))
    });
    if let Some(error) = failure {
        return Err(error.into());
    }
    for (place, image) in written.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        done[place] = Some(image);
    }
    Ok(done.into_iter().flatten().collect())
}

fn read_images(images: &[Named], next: &AtomicUsize, read: &SyncSender<(usize, Result<Image, DataError>)>) {
    loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        let Some(image) = images.get(place) else { return };
        if read.send((place, read_image(&image.path))).is_err() {
            return;
        }
    }
}

fn write_images(
    images: &[Named],
    writer: &MaskWriter,
    to_write: &Mutex<Receiver<Predicted>>,
    written: &Mutex<Vec<(usize, Done)>>,
) -> Result<(), DataError> {
    loop {
        let received = to_write.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
        let Ok(Predicted { place, image, map, seconds }) = received else { return Ok(()) };
        let Named { path, name } = &images[place];
        let outputs = writer.write(name, &image, &map)?;
        let done = Done {
            image: path.clone(),
            name: name.clone(),
            error: None,
            width: image.width,
            height: image.height,
            seconds,
            classes: outputs.areas,
            abstained: outputs.abstained,
            files: outputs.files,
            annotations: outputs.annotations,
        };
        written.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((place, done));
    }
}

fn unread(image: &Named, error: &DataError) -> Done {
    Done {
        image: image.path.clone(),
        name: image.name.clone(),
        error: Some(error.to_string()),
        width: 0,
        height: 0,
        seconds: 0.0,
        classes: Vec::new(),
        abstained: 0,
        files: Vec::new(),
        annotations: Vec::new(),
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
    output::line(format_args!(
        "{} images in {:.1} s ({:.2} s each in the network) -> {}",
        read().count(),
        summary.seconds,
        network / read().count().max(1) as f64,
        args.output.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_outputs_do_not_collide() {
        let names = |inputs: &[&str]| -> Result<Vec<String>> {
            let inputs: Vec<PathBuf> = inputs.iter().map(PathBuf::from).collect();
            Ok(find_images(&inputs)?.into_iter().map(|image| image.name).collect())
        };
        assert_eq!(names(&["x/a.jpg", "y/b.png"]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["a.jpg", "a.png"]).unwrap(), ["a.jpg", "a.png"]);
        assert!(names(&["x/a.jpg", "y/a.jpg"]).unwrap_err().to_string().contains("same files"));
        assert!(names(&[]).is_err());
    }
}
