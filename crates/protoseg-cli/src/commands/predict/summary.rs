//! What a run did, for people and for machines.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    time::Duration,
};

use anyhow::{Result, bail};
use protoseg::{
    core::ClassRole,
    picture::{Palette, hex},
    prediction::Area,
    segmenter::Segmenter,
};
use serde::Serialize;

use super::{
    Job,
    inputs::NamedImage,
    ledger::{self, GALLERY_FILE, Record},
    plural,
};
use crate::{
    cli::Predict,
    commands::usage::model_name,
    output::{self, Interrupted, table, timings::PartTime},
};

/// Above this, a table of images is not read but searched: it is in the file.
const LISTED: usize = 20;

/// What became of the images of a run, by their places.
pub struct Outcome {
    pub done: Vec<(usize, Record)>,
    pub unread: Vec<(usize, String)>,
}

/// What a run did.
pub struct Summary<'a> {
    /// In the order in which they were given; then those that only earlier runs were given.
    entries: Vec<Entry<'a>>,
    classes: Vec<ClassEntry<'a>>,
    variant: &'static str,
    preset: String,
    n_given: usize,
    /// Images that this run finished, that were done before, and that are left.
    n_done: usize,
    n_skipped: usize,
    n_left: usize,
    seconds: f64,
    network_seconds: f64,
    parts: Vec<PartTime>,
}

enum Entry<'a> {
    Done(Record),
    Kept(&'a Record),
    Unread(&'a NamedImage, String),
}

/// A class as summaries name it.
#[derive(Serialize)]
struct ClassEntry<'a> {
    id: u16,
    name: &'a str,
    role: ClassRole,
    color: String,
}

impl<'a> Summary<'a> {
    pub fn new(
        args: &Predict,
        segmenter: &'a Segmenter,
        images: &'a [NamedImage],
        job: &'a Job<'_>,
        outcome: Outcome,
        time: Duration,
    ) -> Self {
        let name = |place: usize| job.images[place].name.as_str();
        let mut done: HashMap<&str, Record> =
            outcome.done.into_iter().map(|(place, record)| (name(place), record)).collect();
        let mut unread: HashMap<&str, String> =
            outcome.unread.into_iter().map(|(place, error)| (name(place), error)).collect();
        let mut kept: HashMap<&str, &Record> =
            job.ledger.kept().iter().map(|record| (record.name.as_str(), record)).collect();
        let n_done = done.len();
        let network_seconds = done.values().map(|record| record.seconds).sum();
        let mut entries = Vec::new();
        for image in images {
            let name = image.name.as_str();
            let new = done.remove(name).map(Entry::Done);
            let old = || kept.remove(name).map(Entry::Kept);
            let error = || unread.remove(name).map(|error| Entry::Unread(image, error));
            entries.extend(new.or_else(old).or_else(error));
        }
        let n_skipped = entries.iter().filter(|entry| matches!(entry, Entry::Kept(_))).count();
        let n_left = images.len() - entries.len();
        let others: HashSet<&str> = kept.into_keys().collect();
        let others = job.ledger.kept().iter().filter(|record| others.contains(record.name.as_str()));
        entries.extend(others.map(Entry::Kept));
        let usage = segmenter.usage();
        Self {
            entries,
            classes: list_classes(segmenter.palette()),
            variant: usage.variant(),
            preset: usage.preset().to_string(),
            n_given: images.len(),
            n_done,
            n_skipped,
            n_left,
            seconds: time.as_secs_f64(),
            network_seconds,
            parts: if args.timings || args.json { job.timings.parts() } else { Vec::new() },
        }
    }

    /// Fails if files that were written are not there any more.
    pub fn refuse_lost(&self, folder: &Path) -> Result<()> {
        let mut lost = self.records().into_iter().filter(|record| !record.has_files(folder));
        match lost.next() {
            Some(record) => bail!(
                "results of {} are not in `{}` any more, those of `{}` for one: something deleted them meanwhile\n\
                 hint: predict into another folder with -o, or once more with --force",
                plural(1 + lost.count(), "image"),
                folder.display(),
                record.name
            ),
            None => Ok(()),
        }
    }

    /// Whether the folder has anything to show.
    pub fn has_results(&self) -> bool {
        !self.records().is_empty()
    }

    /// All images that are done, now or earlier.
    pub fn records(&self) -> Vec<&Record> {
        let records = self.entries.iter().filter_map(|entry| match entry {
            Entry::Done(record) => Some(record),
            Entry::Kept(record) => Some(*record),
            Entry::Unread(..) => None,
        });
        records.collect()
    }

    fn errors(&self) -> Vec<(&NamedImage, &str)> {
        let errors = self.entries.iter().filter_map(|entry| match entry {
            Entry::Unread(image, error) => Some((*image, error.as_str())),
            _ => None,
        });
        errors.collect()
    }

    /// What the page should say above the images.
    pub fn notes(&self) -> Vec<String> {
        let errors = self.errors();
        let names: Vec<String> = errors.iter().map(|(image, _)| image.path.display().to_string()).collect();
        let unread = (!errors.is_empty())
            .then(|| format!("{} could not be read: {}", plural(names.len(), "image"), names.join(", ")));
        let left = (self.n_left > 0).then(|| format!("{} left to do", plural(self.n_left, "image")));
        unread.into_iter().chain(left).collect()
    }

    pub fn json<'b>(&'b self, args: &'b Predict) -> Json<'b> {
        let images = self.entries.iter().map(|entry| match entry {
            Entry::Done(record) => ImageEntry::done(record, &args.output),
            Entry::Kept(record) => ImageEntry::done(record, &args.output),
            Entry::Unread(image, error) => ImageEntry::unread(&image.path, error),
        });
        Json {
            schema: "protoseg.predict/1",
            model: model_name(args.model.as_deref()),
            pack: args.pack.as_ref().map(|pack| pack.display().to_string()),
            variant: self.variant,
            preset: &self.preset,
            classes: &self.classes,
            images: images.collect(),
            failed: self.errors().len(),
            skipped: self.n_skipped,
            left: self.n_left,
            seconds: self.seconds,
            images_per_second: self.n_done as f64 / self.seconds.max(1e-9),
            timings: &self.parts,
            peak_memory: protoseg_data::peak_memory(),
        }
    }

    pub fn print(&self, args: &Predict, has_gallery: bool) -> Result<()> {
        let new = self.entries.iter().filter_map(|entry| match entry {
            Entry::Done(record) => Some(record),
            _ => None,
        });
        for record in new.take(LISTED) {
            let areas = record.classes.iter();
            let areas: Vec<String> =
                areas.map(|area| format!("{} {:.1} %", area.class, 100.0 * area.share)).collect();
            output::line(format_args!("{}: {}", record.name, areas.join(", ")))?;
        }
        if self.n_done > LISTED {
            output::line(format_args!("... and {} more", self.n_done - LISTED))?;
        }
        if args.timings {
            self.print_timings()?;
        }
        if !self.has_results() {
            return Ok(());
        }
        if !args.merge.is_empty() {
            let (images, parts) = (plural(self.entries.len(), "image"), plural(args.merge.len(), "part"));
            output::line(format_args!("{images} of {parts} -> {}", args.output.display()))?;
        } else {
            self.print_new(args)?;
        }
        if has_gallery {
            output::line(format_args!("gallery -> {}", args.output.join(GALLERY_FILE).display()))?;
        }
        Ok(())
    }

    fn print_new(&self, args: &Predict) -> Result<()> {
        if self.n_skipped > 0 {
            output::line(format_args!("{} done before", plural(self.n_skipped, "image")))?;
        }
        let folder = args.output.display();
        if self.n_done == 0 {
            return output::line(format_args!("no new images -> {folder}"));
        }
        output::line(format_args!(
            "{} in {:.1} s ({:.2} s each in the network) -> {folder}",
            plural(self.n_done, "image"),
            self.seconds,
            self.network_seconds / self.n_done as f64,
        ))
    }

    /// Seconds of each part, over all threads.
    fn print_timings(&self) -> Result<()> {
        let count = self.n_done.max(1) as f64;
        let row = |part: &PartTime| {
            vec![
                part.part.to_string(),
                format!("{:.3}", part.seconds),
                format!("{:.1}", 1e3 * part.seconds / count),
            ]
        };
        let rows: Vec<Vec<String>> = self.parts.iter().map(row).collect();
        for line in table::lines(&["part", "seconds", "ms per image"], &rows) {
            output::line(line)?;
        }
        output::line(format_args!("{:.1} images per second", self.n_done as f64 / self.seconds.max(1e-9)))
    }

    /// The end of the run: an error if images are missing.
    pub fn finish(&self, was_asked_to_stop: bool) -> Result<()> {
        if was_asked_to_stop && self.n_left > 0 {
            bail!(Interrupted(format!(
                "stopped: {} of {} done, {} left\nhint: go on with `{}`",
                self.n_given - self.n_left,
                plural(self.n_given, "image"),
                self.n_left,
                ledger::resume_command()
            )));
        }
        let errors = self.errors();
        if errors.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = errors.iter().map(|(_, error)| format!("  {error}")).collect();
        bail!("{} of {} images could not be read:\n{}", errors.len(), self.n_given, list.join("\n"))
    }
}

fn list_classes(palette: &Palette) -> Vec<ClassEntry<'_>> {
    let entry = |(id, color): (u16, &[u8; 3])| {
        let class = &palette.classes().rows()[usize::from(id)];
        ClassEntry { id, name: &class.name, role: class.role, color: hex(*color) }
    };
    (0..).zip(palette.colors()).map(entry).collect()
}

/// The summary as a file.
#[derive(Serialize)]
pub struct Json<'a> {
    schema: &'static str,
    model: String,
    pack: Option<String>,
    variant: &'static str,
    preset: &'a str,
    classes: &'a [ClassEntry<'a>],
    images: Vec<ImageEntry<'a>>,
    failed: usize,
    skipped: usize,
    left: usize,
    seconds: f64,
    images_per_second: f64,
    timings: &'a [PartTime],
    peak_memory: Option<u64>,
}

/// What became of an image.
#[derive(Serialize)]
struct ImageEntry<'a> {
    #[serde(serialize_with = "output::lossy_path")]
    image: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    width: usize,
    height: usize,
    /// Of the network and the classifier.
    seconds: f64,
    classes: &'a [Area],
    /// Pixels without a class.
    abstained: u64,
    files: Vec<String>,
}

impl<'a> ImageEntry<'a> {
    fn unread(image: &'a Path, error: &'a str) -> Self {
        Self {
            image,
            error: Some(error),
            width: 0,
            height: 0,
            seconds: 0.0,
            classes: &[],
            abstained: 0,
            files: Vec::new(),
        }
    }

    fn done(record: &'a Record, folder: &Path) -> Self {
        Self {
            image: &record.image,
            error: None,
            width: record.width,
            height: record.height,
            seconds: record.seconds,
            classes: &record.classes,
            abstained: record.abstained,
            files: record.files.iter().map(|file| folder.join(file).display().to_string()).collect(),
        }
    }
}
