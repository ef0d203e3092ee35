//! Evaluation of a model that has no base classes: every class of a data set is taught by itself, from a few supports,
//! and looked for in all images, whether they show it or not.

use protoseg_core::{ClassId, Fold, Image, Remap, SUPPORT_ROW, ScoreGrid, Spread, count};
use protoseg_data::{Benchmark, DataError, Progress, SplitStats, scan};
use rayon::prelude::*;
use serde::Serialize;

use super::{EvaluateError, Evaluation, SupportSource, draw, evenly};
use crate::{method::Usage, model::Model, segmenter::Segmenter, tables::markdown};

/// Results of teaching classes one at a time. Serialise it to get `results.json`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TaughtResults {
    schema: &'static str,
    /// What the caller calls the model.
    pub model: String,
    /// [`Model::fingerprint`].
    pub fingerprint: String,
    /// Name of the data set.
    pub data: String,
    split: String,
    support_split: String,
    images: usize,
    images_in_split: usize,
    second_look: bool,
    min_support_pixels: u64,
    seeds: Vec<u64>,
    /// The classes that were taught.
    pub classes: Vec<String>,
    /// One per number of shots.
    pub rows: Vec<TaughtRow>,
}

/// IoU at one number of shots, in percent.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TaughtRow {
    /// Number of supports per class.
    pub shots: usize,
    /// Mean over the classes; the deviation is that of the draws.
    pub mean_iou: Spread,
    /// Of each class.
    pub iou: Vec<Spread>,
}

/// One class, taught once.
struct Lesson {
    class: ClassId,
    shots: usize,
    seed: u64,
    segmenter: Segmenter,
    taught_by: Vec<usize>,
    both: u64,
    either: u64,
}

/// Teaches `names` (all foreground classes, if empty) one at a time by the supports, shots and limit of `plan`.
pub fn evaluate_taught(
    name: &str,
    model: &Model,
    benchmark: &Benchmark,
    plan: &Evaluation,
    names: &[String],
    progress: Progress<'_>,
) -> Result<TaughtResults, EvaluateError> {
    let dataset = benchmark.dataset.as_ref();
    let classes = wanted(benchmark, names)?;
    let SupportSource::Drawn { seeds, .. } = &plan.supports else {
        return Err(EvaluateError::NeedsDraws);
    };
    let pool = scan(dataset, &benchmark.train)?;
    let split = benchmark.val.as_deref().unwrap_or(&benchmark.train);
    let all = scan(dataset, split)?.for_evaluation(dataset.classes());
    let queries = evenly(&all, plan.limit.unwrap_or(all.len()));
    if queries.is_empty() {
        return Err(EvaluateError::NoImages { split: split.to_string() });
    }
    let usage = model.usage()?;
    let second = plan.second(model)?;
    let total = seeds.len() * classes.len() + queries.len();
    let mut lessons = Vec::new();
    for (index, &seed) in seeds.iter().enumerate() {
        for (place, &class) in classes.iter().enumerate() {
            progress(index * classes.len() + place, total);
            lessons.extend(teach((model, &second), benchmark, plan, &pool, (class, seed), &usage)?);
        }
    }
    for (done, &query) in queries.iter().enumerate() {
        progress(total - queries.len() + done, total);
        let (image, truth) = dataset.load(query)?;
        look(model, &image, &truth, query, &mut lessons, dataset.classes().ignore());
    }
    progress(total, total);
    let row = |&shots: &usize| {
        let iou_of = |class: ClassId, seed: u64| {
            let found = lessons.iter().find(|l| (l.class, l.shots, l.seed) == (class, shots, seed));
            found.map_or(0.0, |lesson| 100.0 * lesson.both as f64 / lesson.either.max(1) as f64)
        };
        let mean =
            |seed: u64| classes.iter().map(|&class| iou_of(class, seed)).sum::<f64>() / classes.len() as f64;
        TaughtRow {
            shots,
            mean_iou: Spread::of(seeds.iter().map(|&seed| mean(seed))),
            iou: classes.iter().map(|&class| Spread::of(seeds.iter().map(|&s| iou_of(class, s)))).collect(),
        }
    };
    let class_name = |&class: &ClassId| dataset.classes().name(class).unwrap_or_default().to_string();
    Ok(TaughtResults {
        schema: "protoseg.taught/1",
        model: name.to_string(),
        fingerprint: model.fingerprint(),
        data: dataset.name().to_string(),
        split: split.to_string(),
        support_split: benchmark.train.clone(),
        images: queries.len(),
        images_in_split: all.len(),
        second_look: plan.second_look,
        min_support_pixels: draw::min_pixels(plan, benchmark),
        seeds: seeds.clone(),
        classes: classes.iter().map(class_name).collect(),
        rows: plan.shots.iter().map(row).collect(),
    })
}

/// The classes of these names, or every one but the background.
fn wanted(benchmark: &Benchmark, names: &[String]) -> Result<Vec<ClassId>, EvaluateError> {
    let table = benchmark.dataset.classes();
    if names.is_empty() {
        return Ok(table.foreground().map(|class| class.id).collect());
    }
    let find = |name: &String| {
        let found = table.foreground().find(|class| class.name == *name);
        found.map(|class| class.id).ok_or_else(|| EvaluateError::NoClass {
            class: name.clone(),
            data: benchmark.dataset.name().to_string(),
            known: table.foreground().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    };
    names.iter().map(find).collect()
}

/// One class from one draw of supports, at every number of shots.
fn teach(
    (model, second): (&Model, &Option<Model>),
    benchmark: &Benchmark,
    plan: &Evaluation,
    pool: &SplitStats,
    (class, seed): (ClassId, u64),
    usage: &Usage,
) -> Result<Vec<Lesson>, EvaluateError> {
    let dataset = benchmark.dataset.as_ref();
    let most = plan.shots.iter().copied().max().unwrap_or(1);
    let fold = Fold::new(dataset.classes(), 0, &[class]).map_err(DataError::from)?;
    let min_pixels = draw::min_pixels(plan, benchmark);
    let drawn = protoseg_core::SupportDraw { n_shots: most, seed, min_pixels };
    let samples = pool.draw_supports(dataset, &fold, drawn)?.1.remove(0);
    let remap = Remap::for_support(dataset.classes(), model.classes(), class, Some(0));
    let n_base = model.classes().n_base() as u16;
    let name = dataset.classes().name(class).unwrap_or("class").to_string();
    let mut sums = Vec::new();
    for &sample in &samples {
        let (image, mut labels) = benchmark.load_rows(sample, &remap)?;
        labels.data.iter_mut().filter(|label| **label == SUPPORT_ROW).for_each(|label| *label = n_base);
        sums.push(model.remember(model.features(&image), &labels, n_base, usage));
    }
    let lesson = |&shots: &usize| {
        let classifier = model.classifier(&[&name], &sums[..shots.min(sums.len())], usage)?;
        let segmenter =
            Segmenter::with_classifier(model, classifier, usage.clone()).with_second(second.clone());
        let taught_by = samples.iter().take(shots).copied().collect();
        Ok(Lesson { class, shots, seed, segmenter, taught_by, both: 0, either: 0 })
    };
    plan.shots.iter().map(lesson).collect()
}

/// Counts the pixels of one image for every lesson.
fn look(
    model: &Model,
    image: &Image,
    truth: &protoseg_core::IdMap,
    query: usize,
    lessons: &mut [Lesson],
    ignore: &[u16],
) {
    let Some(looks) = lessons.first().map(|lesson| lesson.segmenter.looks(image)) else { return };
    let grids: Vec<Vec<ScoreGrid>> = lessons.iter().map(|lesson| lesson.segmenter.grids(&looks)).collect();
    lessons.par_iter_mut().zip(grids).filter(|(lesson, _)| !lesson.taught_by.contains(&query)).for_each(
        |(lesson, grids)| {
            let labels = lesson.segmenter.join(grids, image.width, image.height).labels();
            let row = model.classes().n_base() as u16;
            for (&label, &id) in labels.data.iter().zip(&truth.data) {
                if id == protoseg_core::IGNORE || ignore.contains(&id) {
                    continue;
                }
                let (found, is_there) = (label == row, id == lesson.class.0);
                lesson.both += u64::from(found && is_there);
                lesson.either += u64::from(found || is_there);
            }
        },
    );
}

impl TaughtResults {
    /// What a reader has to know before the numbers.
    pub fn headline(&self) -> String {
        format!(
            "{}: every class taught by itself, {} of {} images of `{}`{}, supports from `{}` with at least {} pixels, \
             {}; IoU in %",
            self.data,
            self.images,
            self.images_in_split,
            self.split,
            if self.second_look { ", looked at twice" } else { "" },
            self.support_split,
            self.min_support_pixels,
            count(self.seeds.len(), "draw")
        )
    }

    /// Titles of the table: the class, then one column per number of shots.
    pub fn titles(&self) -> Vec<String> {
        let shots = self.rows.iter().map(|row| format!("{}-shot", row.shots));
        std::iter::once("class".to_string()).chain(shots).collect()
    }

    /// One line per class, the mean last.
    pub fn table(&self) -> Vec<Vec<String>> {
        let cell = |spread: Spread| format!("{:.1} ±{:.1}", spread.mean, spread.std);
        let line = |(place, class): (usize, &String)| {
            std::iter::once(class.clone()).chain(self.rows.iter().map(|row| cell(row.iou[place]))).collect()
        };
        let mean = std::iter::once("mean".to_string()).chain(self.rows.iter().map(|row| cell(row.mean_iou)));
        self.classes.iter().enumerate().map(line).chain([mean.collect()]).collect()
    }

    /// Headline and table as Markdown.
    pub fn markdown(&self) -> String {
        format!("{}\n\n{}", self.headline(), markdown::table(&self.titles(), &self.table()))
    }
}
