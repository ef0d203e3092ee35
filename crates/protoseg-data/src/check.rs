//! Goes through a data set in parallel and reports what is wrong with it, what it contains, and what the rules keep.

use std::collections::BTreeSet;

use protoseg_core::{BaseUse, Fold, ImageStats, NovelPixels, SupportUse};
use rayon::prelude::*;

use crate::benchmark::Benchmark;
use crate::dataset::check_sizes;
use crate::progress::{Counter, Progress};
use crate::report::{
    BaseReport, CheckReport, ClassReport, FoldReport, Note, Problem, SCHEMA, SplitReport, SupportReport,
};
use crate::scan::{unknown_id, unknown_ids};
use crate::{DataError, Dataset, Split};

/// Most classes for which the table of pairs is made.
const MAX_TABLE: usize = 1000;

/// What to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Decode every image, to find broken ones and wrong sizes; labels are always read.
    pub images: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { images: true }
    }
}

/// What was found in one sample.
struct Checked {
    /// `None` if the labels cannot be read.
    stats: Option<ImageStats>,
    problems: Vec<DataError>,
    overlapped: u64,
    empty_shapes: u64,
}

/// Checks a data set with its folds and rules. Problems with samples go into the report; checking does not fail.
pub fn check(benchmark: &Benchmark, options: CheckOptions, progress: Progress<'_>) -> CheckReport {
    let dataset = benchmark.dataset.as_ref();
    let used: BTreeSet<usize> =
        dataset.splits().iter().flat_map(|split| split.samples.iter().copied()).collect();
    let counter = Counter::new(used.len(), progress);
    let checked: Vec<Option<Checked>> = (0..dataset.samples().len())
        .into_par_iter()
        .map(|index| {
            used.contains(&index).then(|| {
                let checked = check_sample(dataset, index, options);
                counter.step();
                checked
            })
        })
        .collect();

    let mut problems = Vec::new();
    for (index, sample) in checked.iter().enumerate() {
        let faults = sample.iter().flat_map(|sample| &sample.problems);
        problems.extend(faults.map(|fault| Problem::new(&dataset.samples()[index].name, fault)));
    }
    let splits: Vec<SplitReport> =
        dataset.splits().iter().map(|split| report_split(dataset, split, &checked)).collect();
    let folds = benchmark.folds.iter().map(|fold| report_fold(benchmark, fold, &checked)).collect();
    let notes = find_notes(benchmark, &splits);
    CheckReport {
        schema: SCHEMA,
        dataset: dataset.name().to_string(),
        problems,
        notes,
        novel_pixels: benchmark.novel_pixels,
        min_support_pixels: benchmark.min_support_pixels,
        train: benchmark.train.clone(),
        val: benchmark.val.clone(),
        background: dataset
            .classes()
            .background()
            .and_then(|id| dataset.classes().name(id))
            .map(str::to_string),
        samples: used.len(),
        splits,
        folds,
    }
}

fn check_sample(dataset: &dyn Dataset, index: usize, options: CheckOptions) -> Checked {
    let sample = &dataset.samples()[index];
    let mut checked = Checked { stats: None, problems: Vec::new(), overlapped: 0, empty_shapes: 0 };
    let labels = match dataset.labels(index) {
        Ok(labels) => Some(labels),
        Err(error) => {
            checked.problems.push(error);
            None
        }
    };
    if let Some(labels) = &labels {
        let stats = ImageStats::of(&labels.map);
        let faults = unknown_ids(&stats, dataset.classes());
        checked.problems.extend(faults.map(|id| unknown_id(sample, dataset.classes(), &labels.map, id)));
        (checked.overlapped, checked.empty_shapes) = (labels.overlapped, labels.empty_shapes);
        checked.stats = Some(stats);
    }
    if options.images {
        let result = dataset.image(index).and_then(|image| match &labels {
            Some(labels) => check_sizes(sample, &image, &labels.map),
            None => Ok(()),
        });
        // A file that is both the image and the source of the labels' size (YOLO) may have been reported already.
        if let Err(error) = result
            && checked.problems.iter().all(|known| known.to_string() != error.to_string())
        {
            checked.problems.push(error);
        }
    } else if !dataset.has_image(index) {
        checked.problems.push(DataError::missing(&sample.image));
    }
    checked
}

fn report_split(dataset: &dyn Dataset, split: &Split, checked: &[Option<Checked>]) -> SplitReport {
    let table = dataset.classes();
    let n = table.classes().len();
    let mut classes: Vec<ClassReport> = table
        .classes()
        .iter()
        .map(|class| ClassReport { id: class.id, name: class.name.clone(), images: 0, pixels: 0 })
        .collect();
    let mut report = SplitReport {
        name: split.name.clone(),
        images: split.samples.len(),
        unreadable: 0,
        without_label_file: 0,
        no_foreground: 0,
        pixels: 0,
        ignored_pixels: 0,
        overlapped_pixels: 0,
        empty_shapes: 0,
        classes: Vec::new(),
        co_occurrence: if n <= MAX_TABLE { vec![vec![0; n]; n] } else { Vec::new() },
    };
    for &index in &split.samples {
        report.without_label_file += usize::from(dataset.samples()[index].label.is_none());
        let Some(Checked { stats: Some(stats), overlapped, empty_shapes, .. }) = &checked[index] else {
            report.unreadable += 1;
            continue;
        };
        report.pixels += (stats.width * stats.height) as u64;
        report.ignored_pixels += stats.ignored;
        report.overlapped_pixels += overlapped;
        report.empty_shapes += empty_shapes;
        report.no_foreground += usize::from(!stats.has_foreground(table));
        let present: Vec<(usize, u64)> =
            stats.counts.iter().filter_map(|&(id, pixels)| Some((table.position(id)?, pixels))).collect();
        for &(place, pixels) in &present {
            classes[place].images += 1;
            classes[place].pixels += pixels;
            if let Some(row) = report.co_occurrence.get_mut(place) {
                present.iter().for_each(|&(other, _)| row[other] += 1);
            }
        }
    }
    report.classes = classes;
    report
}

fn report_fold(benchmark: &Benchmark, fold: &Fold, checked: &[Option<Checked>]) -> FoldReport {
    let table = benchmark.dataset.classes();
    let stats_of = |split: Option<&str>| -> Vec<&ImageStats> {
        let split = split.and_then(|split| benchmark.dataset.split(split).ok());
        let samples = split.map_or(&[][..], |split| &split.samples);
        samples.iter().filter_map(|&index| checked[index].as_ref()?.stats.as_ref()).collect()
    };
    let (train, val) = (stats_of(Some(&benchmark.train)), stats_of(benchmark.val.as_deref()));
    let base = |novel: NovelPixels| -> BaseReport {
        let count =
            |wanted| train.iter().filter(|stats| stats.base_use(table, fold, novel) == wanted).count();
        BaseReport {
            novel_pixels: novel,
            kept: count(BaseUse::Keep),
            dropped_no_foreground: count(BaseUse::NoForeground),
            dropped_novel: count(BaseUse::HoldsNovel),
        }
    };
    let mut rules = vec![NovelPixels::Drop, NovelPixels::Ignore];
    if table.background().is_some() {
        rules.push(NovelPixels::Background);
    }
    let supports = fold.novel().iter().map(|&class| {
        let min_pixels = benchmark.min_support_pixels;
        let count = |wanted| {
            train.iter().filter(|stats| stats.support_use(fold, class, min_pixels) == wanted).count()
        };
        let [usable, other_novel, too_small] =
            [SupportUse::Usable, SupportUse::HoldsOtherNovel, SupportUse::TooSmall].map(count);
        SupportReport {
            class: table.name(class).unwrap_or_default().to_string(),
            images: train.iter().filter(|stats| stats.pixels(class) > 0).count(),
            pool: usable + other_novel + too_small,
            usable,
            other_novel,
            too_small,
        }
    });
    FoldReport {
        fold: fold.index,
        novel: fold.novel().iter().filter_map(|&id| table.name(id)).map(str::to_string).collect(),
        train_images: train.len(),
        base_training: rules.into_iter().map(base).collect(),
        supports: supports.collect(),
        val_images: val.len(),
        val_kept: val.iter().filter(|stats| stats.has_foreground(table)).count(),
    }
}

/// Observations that are not errors but worth knowing.
fn find_notes(benchmark: &Benchmark, splits: &[SplitReport]) -> Vec<Note> {
    let dataset = benchmark.dataset.as_ref();
    let table = dataset.classes();
    let mut notes = Vec::new();
    let absent = table.foreground().filter(|class| {
        let place = table.position(class.id);
        splits.iter().all(|split| place.is_none_or(|place| split.classes[place].images == 0))
    });
    let absent: Vec<String> = absent.map(|class| format!("`{}`", class.name)).collect();
    if !absent.is_empty() {
        let ignored = splits.iter().any(|split| split.ignored_pixels > 0) && table.ignore() == [255];
        notes.push(Note {
            kind: "absent-class",
            message: format!("no image holds {}", absent.join(", ")),
            hint: match ignored {
                true => "if 255 is the value of a class in your masks, name it: `classes = { 0 = \"background\", 255 = \"name\" }` and `ignore = []`",
                false => "check that the ids in the masks are those of the class list",
            },
        });
    }
    if let Some(val) = benchmark.val.as_deref().and_then(|val| dataset.split(val).ok()) {
        let train: BTreeSet<usize> = dataset
            .split(&benchmark.train)
            .map(|split| split.samples.iter().copied().collect())
            .unwrap_or_default();
        let shared = val.samples.iter().filter(|index| train.contains(index)).count();
        if shared > 0 {
            notes.push(Note {
                kind: "shared-samples",
                message: format!(
                    "images that are in both `{}` and `{}`: {shared}",
                    benchmark.train, val.name
                ),
                hint: "results on images that were used for training say little",
            });
        }
    }
    let sum = |field: fn(&SplitReport) -> u64| splits.iter().map(field).sum::<u64>();
    for (count, kind, what, hint) in [
        (
            sum(|split| split.overlapped_pixels),
            "overlap",
            "pixels that shapes of two or more classes claim",
            "they go to the smaller shape",
        ),
        (
            sum(|split| split.empty_shapes),
            "empty-shape",
            "shapes that hold no pixel",
            "points, lines and shapes thinner than a pixel have no area",
        ),
        (
            sum(|split| split.without_label_file as u64),
            "no-label-file",
            "images without a label file",
            "they count as unlabelled",
        ),
    ] {
        if count > 0 {
            notes.push(Note { kind, message: format!("{what}: {count}"), hint });
        }
    }
    notes
}
