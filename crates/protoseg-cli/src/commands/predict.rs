//! `protoseg predict`.

mod inputs;
mod ledger;
mod merge;
mod page;
mod stages;
mod summary;

use std::{
    collections::{HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Result, anyhow, bail};
use protoseg::{
    Precision, class_pack::ClassPack, core::Image, method::Usage, model::Model, picture::CocoDocument,
    prediction::Prediction, segmenter::Segmenter,
};
use protoseg_data::{Lock, create_dir, picture::read_image, read_bytes, write_whole};

use self::{
    inputs::{Inputs, NamedImage, find_images},
    ledger::{Earlier, Ledger, Record, Settings, Source},
    stages::{Failure, lock, panic_message},
    summary::{Outcome, Summary},
};
use super::{
    shard::parse_shard,
    usage::{load_model, load_pack, model_name, usage},
};
use crate::{
    cli::Predict,
    output::{
        self,
        masks::{Kinds, MaskWriter},
        progress::Bar,
        stop::Stop,
        timings::{Part, Timings},
    },
};

pub fn run(args: &Predict) -> Result<()> {
    let start = Instant::now();
    let kinds = Kinds::parse(&args.write)?;
    if args.abstain.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
        bail!("`--abstain {}` is not between 0 and 1", args.abstain.unwrap_or_default());
    }
    if let Some(precision) = args.precision.filter(|share| !(0.0..=1.0).contains(share)) {
        bail!("`--precision {precision}` is not between 0 and 1");
    }
    if !(0.0..=0.5).contains(&args.overlap) {
        bail!("`--overlap {}` is not between 0 and 0.5", args.overlap);
    }
    let images = images(args)?;
    refuse_overlap(&images, &args.output, kinds, args.logits.as_deref())?;
    let earlier = Earlier::read(&args.output)?;
    let goes_on = args.resume && earlier.is_some();
    if args.resume && earlier.is_none() && ledger::has_results(&args.output) {
        bail!(
            "the list of what is done in `{}` is missing, so nothing can go on there\n\
             hint: replace its results with --force, or choose another folder with -o",
            args.output.display()
        );
    }
    if !args.force && !goes_on {
        refuse_overwrite(&images, &args.output, kinds)?;
    }

    let model = load_model(args.model.as_deref(), &args.usage.device)?;
    let pack = args.pack.as_ref().map(|path| load_pack(path, &model)).transpose()?;
    let usage = usage(&args.usage.method, &model)?;
    let model = if args.fast { model.with_precision(Precision::Fast) } else { model };
    let mut builder = Segmenter::builder(&model).usage(usage.clone()).second_look(args.second_look);
    if let Some(pack) = &pack {
        builder = builder.pack(pack);
    }
    if args.tile {
        builder = builder.tiles(args.overlap);
    }
    let segmenter = builder.build()?;
    let abstain = match args.precision {
        Some(precision) => Some(threshold(&model, &usage, model_name(args.model.as_deref()), precision)?),
        None => args.abstain,
    };
    if let Some(path) = &args.logits {
        write_logits(&segmenter, &images, path, args.force)?;
    }

    let settings = settings(args, kinds, &model, pack.as_ref(), (&usage, abstain))?;
    let parts = merge::collect(&args.merge, &args.output, &settings)?;
    let (replaced, records) = match (earlier, args.resume) {
        (Some(earlier), true) => (None, earlier.resume(&args.output, &settings)?),
        (earlier, _) => (earlier, parts.iter().map(|part| part.record().clone()).collect()),
    };
    let (todo, kept) = split(images.clone(), records, &args.output)?;
    let job = Job {
        folder: &args.output,
        images: &todo,
        writer_kinds: kinds,
        ledger: Ledger::new(&args.output, settings, kept),
        replaced,
        goes_on,
        is_part: args.shard.is_some(),
        force: args.force,
        abstain,
        timings: Timings::default(),
        n_done: AtomicUsize::new(0),
        folder_lock: Mutex::new(None),
    };
    let bar = Bar::new("images");
    let stop = listen(&bar)?;
    if !parts.is_empty() {
        job.open()?;
        for (place, part) in parts.iter().enumerate() {
            bar.show(place, parts.len());
            part.copy(&args.output)?;
        }
    }
    let outcome = job.run(&segmenter, &bar, &stop);
    drop(bar);
    let outcome = outcome?;

    let summary = Summary::new(args, &segmenter, &images, &job, outcome, start.elapsed());
    summary.refuse_lost(&args.output)?;
    if summary.has_results() || job.is_part {
        write_folder_files(args, kinds, &segmenter, &summary)?;
    }
    if args.json {
        output::json(&summary.json(args))?;
    } else {
        summary.print(args, kinds.gallery)?;
    }
    summary.finish(stop.asked())
}

/// The images of this run: none if it merges others, or if its part is empty.
fn images(args: &Predict) -> Result<Vec<NamedImage>> {
    if !args.merge.is_empty() {
        return Ok(Vec::new());
    }
    let shard = args.shard.as_deref().map(parse_shard).transpose()?;
    let Inputs { mut images, n_results } = find_images(&args.inputs)?;
    if n_results > 0 {
        output::note(format_args!("{} of earlier runs left out", plural(n_results, "result")));
    }
    let Some((part, of)) = shard else { return Ok(images) };
    // By name, so that machines that list files in another order agree.
    images.sort_by(|a, b| a.name.cmp(&b.name));
    let all = images.len();
    let images: Vec<NamedImage> = images.into_iter().skip(part - 1).step_by(of).collect();
    if images.is_empty() {
        output::note(format_args!("part {part} of {of} is empty: there are only {}", plural(all, "image")));
    }
    Ok(images)
}

/// The confidence from which on labels are right with this share, by the model's calibration.
fn threshold(model: &Model, usage: &Usage, name: String, precision: f64) -> Result<f64> {
    let Some(calibration) = model.calibration(usage) else {
        bail!(
            "`{name}` is not calibrated for this use, so it is unknown which confidence gives a precision of {precision}\n\
             hint: protoseg calibrate {name} --data DIR -o calibrated.safetensors, or choose a confidence with --abstain"
        );
    };
    let Some(least) = calibration.reliability.threshold(precision) else {
        bail!(
            "not even the surest pixels of `{name}` were right with a share of {precision} when it was calibrated\n\
             hint: ask for a lower precision"
        );
    };
    output::note(format_args!(
        "a precision of {precision} needs a confidence of {least:.2}, by {} images of {}",
        calibration.images, calibration.data
    ));
    Ok(least)
}

/// Listens for Ctrl-C.
fn listen(bar: &Bar) -> Result<Stop> {
    let note = bar.note();
    Stop::on_ctrl_c(move |_| note("finishing the images in work; press Ctrl-C again to quit at once"))
}

/// What a run is made of, for the list in its folder.
fn settings(
    args: &Predict,
    kinds: Kinds,
    model: &Model,
    pack: Option<&ClassPack>,
    (usage, abstain): (&Usage, Option<f64>),
) -> Result<Settings> {
    let pack_hash = match &args.pack {
        Some(path) => {
            let bytes = read_bytes(path)?;
            Some(blake3::hash(&bytes).to_hex()[..16].to_string())
        }
        None => None,
    };
    Ok(Settings {
        schema: Settings::SCHEMA.to_string(),
        model: pack.map_or_else(|| model.fingerprint(), |pack| pack.model().to_string()),
        pack: pack_hash,
        usage: format!("{} {}", usage.variant(), usage.preset()),
        tiles: args.tile.then_some(args.overlap),
        fast: args.fast,
        second_look: args.second_look,
        abstain,
        write: kinds.names().into_iter().map(str::to_string).collect(),
        shard: args.shard.as_deref().map(parse_shard).transpose()?,
    })
}

/// An input must not be overwritten by an output.
fn refuse_overlap(images: &[NamedImage], folder: &Path, kinds: Kinds, logits: Option<&Path>) -> Result<()> {
    let inputs: HashSet<PathBuf> = images.iter().filter_map(|image| image.path.canonicalize().ok()).collect();
    let root = folder.canonicalize().ok();
    let in_folder = images.iter().flat_map(|image| kinds.files(&image.name));
    let in_folder = in_folder.filter_map(|file| root.as_ref().map(|root| root.join(file)));
    let mut written = in_folder.chain(logits.and_then(|path| path.canonicalize().ok()));
    match written.find(|file| inputs.contains(file)) {
        Some(file) => {
            bail!(
                "`{}` is an input and would be overwritten\nhint: choose another place for the results",
                file.display()
            )
        }
        None => Ok(()),
    }
}

/// A first run overwrites nothing.
fn refuse_overwrite(images: &[NamedImage], folder: &Path, kinds: Kinds) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    ledger::refuse_overwrite(folder)?;
    let written = images.iter().flat_map(|image| kinds.files(&image.name));
    match written.map(|file| folder.join(file)).find(|file| file.exists()) {
        Some(file) => bail!(
            "`{}` is there already\nhint: choose another folder with -o, or overwrite it with --force",
            file.display()
        ),
        None => Ok(()),
    }
}

/// The images that are left to do, and the records that stay.
fn split(
    images: Vec<NamedImage>,
    records: Vec<Record>,
    folder: &Path,
) -> Result<(Vec<NamedImage>, Vec<Record>)> {
    let mut by_name: HashMap<String, Record> =
        records.iter().map(|record| (record.name.clone(), record.clone())).collect();
    let mut todo = Vec::new();
    let mut redone = HashSet::new();
    for image in images {
        match by_name.remove(&image.name) {
            None => todo.push(image),
            Some(record) if record.source.path != Source::of(&image.path).path => bail!(
                "`{}` and `{}` would be written to the same files\n\
                 hint: choose another folder with -o, or replace all results with --force",
                record.image.display(),
                image.path.display()
            ),
            Some(record) if record.is_complete(folder, &image.path) => {}
            Some(record) => {
                redone.insert(record.name);
                todo.push(image);
            }
        }
    }
    let kept = records.into_iter().filter(|record| !redone.contains(&record.name)).collect();
    Ok((todo, kept))
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

/// The images of a run and where their results go.
struct Job<'a> {
    folder: &'a Path,
    images: &'a [NamedImage],
    writer_kinds: Kinds,
    ledger: Ledger,
    /// An earlier run whose files are deleted before the first is written.
    replaced: Option<Earlier>,
    /// Whether it goes on with an earlier run.
    goes_on: bool,
    /// Whether it is one of several parts. Its folder says so even if it has no image, so that `--merge` finds all parts.
    is_part: bool,
    force: bool,
    abstain: Option<f64>,
    timings: Timings,
    n_done: AtomicUsize,
    /// Held from the first image that was read.
    folder_lock: Mutex<Option<Lock>>,
}

/// Whether an image shows so much that a model's answer cannot be the same everywhere in it.
fn has_contrast(image: &Image) -> bool {
    const LEAST_SIDE: usize = 32;
    const LEAST_RANGE: u8 = 32;
    let is_varied = |channel: usize| {
        let values = image.data.iter().skip(channel).step_by(3);
        let (low, high) =
            values.fold((u8::MAX, u8::MIN), |(low, high), &value| (low.min(value), high.max(value)));
        high.saturating_sub(low) >= LEAST_RANGE
    };
    image.width.min(image.height) >= LEAST_SIDE && (0..3).any(is_varied)
}

impl Job<'_> {
    /// Reads, predicts and writes, an image per thread. An image that cannot be read is left out and its error kept; one that
    /// cannot be written ends the run. Nothing is written before the first image was read, unless this is a part.
    fn run(&self, segmenter: &Segmenter, bar: &Bar, stop: &Stop) -> Result<Outcome> {
        let writer = MaskWriter::new(self.folder, self.writer_kinds, &self.timings);
        let (count, unread) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let flat = AtomicUsize::new(0);
        // Whether the folder could be opened, once that was tried. A run that goes on owns its folder from the start, and so
        // does a part.
        let is_open = Mutex::new(None);
        if self.goes_on || self.is_part {
            self.open()?;
            *lock(&is_open) = Some(true);
        }
        let each = |place: usize| {
            let named = &self.images[place];
            let image = self.timings.time(Part::Read, || read_guarded(&named.path));
            bar.show(count.fetch_add(1, Ordering::Relaxed), self.images.len());
            let image = match image {
                Ok(image) => image,
                Err(error) => {
                    lock(&unread).push((place, error));
                    return Ok(None);
                }
            };
            {
                let mut is_open = lock(&is_open);
                match *is_open {
                    Some(true) => {}
                    // Another thread has said why.
                    Some(false) => return Ok(None),
                    None => {
                        *is_open = Some(false);
                        self.open()?;
                        *is_open = Some(true);
                    }
                }
            }
            let prepared = self.timings.time(Part::Prepare, || segmenter.prepare(&image));
            let start = Instant::now();
            let tile = |done, total| bar.show_part(&named.name, "tile", done, total);
            let prediction =
                self.timings.time(Part::Network, || segmenter.predict_prepared(&image, prepared, &tile));
            if !prediction.is_finite() {
                bail!(
                    "the model's scores for `{}` are not numbers\n\
                     hint: its weights are damaged, or far too large; train or download it again",
                    named.path.display()
                );
            }
            if prediction.is_flat() && has_contrast(&image) {
                flat.fetch_add(1, Ordering::Relaxed);
            }
            let prediction = match self.abstain {
                Some(least) => prediction.abstain_below(least),
                None => prediction,
            };
            let seconds = start.elapsed().as_secs_f64();
            self.write(&writer, named, &image, &prediction, seconds).map(Some)
        };
        match stages::run(self.images.len(), || stop.asked(), each) {
            Ok(done) => {
                let mut unread = unread.into_inner().unwrap_or_else(PoisonError::into_inner);
                unread.sort();
                let flat = flat.into_inner();
                if flat > 0 && flat == done.len() {
                    output::note(format_args!(
                        "warning: the model's answer is the same everywhere, whatever an image shows\n\
                         hint: its weights may be damaged; train or download it again"
                    ));
                }
                Ok(Outcome { done, unread })
            }
            Err(failure) => Err(self.explain(failure)),
        }
    }

    /// Makes the folder and takes it for this process, before anything is written.
    fn open(&self) -> Result<()> {
        create_dir(self.folder)?;
        let lock = ledger::lock(self.folder)?;
        match &self.replaced {
            Some(earlier) => earlier.clear(self.folder)?,
            // Another process may have been faster.
            None if !self.goes_on && !self.force => ledger::refuse_overwrite(self.folder)?,
            None => {}
        }
        MaskWriter::clean_up(self.folder);
        *stages::lock(&self.folder_lock) = Some(lock);
        Ok(self.ledger.open()?)
    }

    fn write(
        &self,
        writer: &MaskWriter<'_>,
        image: &NamedImage,
        pixels: &Image,
        prediction: &Prediction,
        seconds: f64,
    ) -> Result<Record> {
        let files = writer.write(&image.name, pixels, prediction)?;
        let regions = match self.writer_kinds.coco {
            true => self.timings.time(Part::Coco, || prediction.regions()),
            false => Vec::new(),
        };
        let record = Record {
            name: image.name.clone(),
            image: image.path.clone(),
            source: Source::of(&image.path),
            width: pixels.width,
            height: pixels.height,
            seconds,
            classes: prediction.areas(),
            abstained: prediction.abstained(),
            files,
            regions,
        };
        self.ledger.push(&record)?;
        self.n_done.fetch_add(1, Ordering::Relaxed);
        Ok(record)
    }

    /// The error of a run that ended early, with what is done and how to go on.
    fn explain(&self, failure: Failure<anyhow::Error>) -> anyhow::Error {
        let done = self.n_done.load(Ordering::Relaxed);
        let go_on = format!(
            "{done} of {} are done; go on with `{}`",
            plural(self.images.len(), "image"),
            ledger::resume_command()
        );
        match failure {
            Failure::Error(error) if done == 0 => error,
            Failure::Error(error) => anyhow!("{error}\nhint: {go_on}"),
            Failure::Panic { item, message } => anyhow!(
                "`{}` could not be processed because of a bug: {message}\n\
                 hint: please report it, and leave this image out; {go_on}",
                self.images[item].path.display()
            ),
        }
    }
}

/// Reads an image. A decoder that panics counts as one that failed.
fn read_guarded(path: &Path) -> Result<Image, String> {
    match catch_unwind(AssertUnwindSafe(|| read_image(path))) {
        Ok(image) => image.map_err(|error| error.to_string()),
        Err(panic) => Err(format!(
            "cannot decode image `{}`: the decoder failed: {}\nhint: save it again from a viewer",
            path.display(),
            panic_message(&*panic)
        )),
    }
}

/// The files that are about all images.
fn write_folder_files(
    args: &Predict,
    kinds: Kinds,
    segmenter: &Segmenter,
    summary: &Summary<'_>,
) -> Result<()> {
    let folder = &args.output;
    let records = summary.records();
    if kinds.coco {
        let mut coco = CocoDocument::new(segmenter.classes());
        for record in &records {
            coco.push(&record.image.display().to_string(), record.width, record.height, &record.regions);
        }
        write_whole(&folder.join(ledger::COCO_FILE), serde_json::to_string(&coco)?.as_bytes())?;
    }
    if kinds.gallery {
        let pack = args.pack.as_ref().map(|pack| format!(", pack {}", pack.display())).unwrap_or_default();
        let lead =
            format!("{}, model {}{pack}", plural(records.len(), "image"), model_name(args.model.as_deref()));
        page::write(folder, segmenter.palette(), &lead, &records, summary.notes())?;
    }
    let json = serde_json::to_string_pretty(&summary.json(args))?;
    Ok(write_whole(&folder.join(ledger::SUMMARY_FILE), json.as_bytes())?)
}

/// `1 image`, `2 images`.
fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
