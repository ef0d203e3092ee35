//! The results of an evaluation: one set of numbers as JSON (`protoseg.eval/1`), CSV and Markdown.

use std::{fmt::Write, time::Duration};

use protoseg_core::{Classes, NovelPixels, Protocol, Scores, Spread, SupportList, count};
use protoseg_data::Benchmark;
use serde::Serialize;

use super::{Cell, Evaluated, Evaluation};
use protoseg_data::peak_memory;

use crate::model::Model;

/// All that is known after an evaluation. Serialise it to get `results.json`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Results {
    schema: &'static str,
    /// What the caller calls the model, such as its path.
    pub model: String,
    /// [`Model::fingerprint`].
    pub fingerprint: String,
    /// Name of the data set.
    pub data: String,
    /// The fold whose novel classes were registered.
    pub fold: usize,
    /// How pixels were counted.
    pub protocol: Protocol,
    /// Side of the network's canvas.
    pub size: usize,
    /// How long the evaluation took.
    pub seconds: f64,
    /// Of this process, in bytes, where the system tells.
    pub peak_memory: Option<u64>,
    trained_method: String,
    /// The variant that the model was trained for, if it is a generalized one.
    #[serde(skip)]
    pub trained_variant: Option<&'static str>,
    architecture: String,
    novel_pixels_in_training: Option<NovelPixels>,
    model_chosen_by: Option<String>,
    split: String,
    support_split: String,
    images: usize,
    images_in_split: usize,
    min_support_pixels: u64,
    /// One draw of supports per seed.
    pub seeds: Vec<u64>,
    /// The classes that scores and confusions are about, in their order.
    pub classes: Classes,
    /// One per variant and number of shots.
    pub rows: Vec<ResultRow>,
    supports: Vec<SupportList>,
}

/// The scores of a variant at a number of shots, over all seeds, in percent.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ResultRow {
    /// Which parts of the method act.
    pub variant: &'static str,
    /// Which options they act by.
    pub preset: String,
    /// Number of supports per class.
    pub shots: usize,
    /// mIoU of the base classes before any class was registered; none for a system for episodes.
    pub base_before: Option<f64>,
    /// mIoU of the base classes, the background included.
    pub base: Spread,
    /// mIoU of the base classes alone.
    pub base_without_background: Spread,
    /// mIoU of the novel classes.
    pub novel: Spread,
    /// mIoU of all classes.
    pub total: Spread,
    /// Mean of base and novel mIoU.
    pub mean: Spread,
    /// Harmonic mean of base and novel mIoU.
    pub harmonic_mean: Spread,
    /// Share of pixels that are labelled right.
    pub pixel_accuracy: Spread,
    /// IoU of every class; none for a class that never occurs.
    pub iou: Vec<Option<Spread>>,
    /// Pixels by true class (outer) and predicted class (inner), summed over the seeds.
    pub confusion: Vec<Vec<u64>>,
    runs: Vec<Run>,
}

/// The scores of one draw.
#[derive(Clone, Debug, Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    scores: Scores,
}

impl Results {
    /// Titles of the columns of [`Self::table`].
    pub const TITLES: [&'static str; 10] =
        ["variant", "preset", "shots", "before", "base", "novel", "total", "mean", "harmonic", "pixels"];

    /// The results of evaluating `model`, which the caller calls `name`, on `benchmark`.
    pub fn new(
        name: &str,
        model: &Model,
        benchmark: &Benchmark,
        plan: &Evaluation,
        evaluated: &Evaluated,
        elapsed: Duration,
    ) -> Self {
        let manifest = model.manifest();
        let mut seeds: Vec<u64> = Vec::new();
        for cell in &evaluated.cells {
            if !seeds.contains(&cell.seed) {
                seeds.push(cell.seed);
            }
        }
        let rows = evaluated.cells.chunks(seeds.len().max(1)).map(ResultRow::new).collect();
        Self {
            schema: "protoseg.eval/1",
            model: name.to_string(),
            fingerprint: model.fingerprint(),
            data: benchmark.dataset.name().to_string(),
            fold: plan.fold,
            protocol: plan.protocol,
            size: evaluated.size,
            seconds: elapsed.as_secs_f64(),
            peak_memory: peak_memory(),
            trained_method: manifest.method.name(),
            trained_variant: model.usage().ok().map(|usage| usage.variant()),
            architecture: manifest.network.describe(),
            novel_pixels_in_training: manifest.training.novel_pixels,
            model_chosen_by: manifest.training.selected.clone(),
            split: evaluated.split.clone(),
            support_split: evaluated.support_split.clone(),
            images: evaluated.images,
            images_in_split: evaluated.of,
            min_support_pixels: evaluated.min_pixels,
            seeds,
            classes: evaluated.classes.clone(),
            rows,
            supports: evaluated.supports.clone(),
        }
    }

    /// What a reader has to know before the numbers.
    pub fn headline(&self) -> String {
        let Self { data, fold, protocol, size, images, split, support_split, .. } = self;
        let draws = match self.seeds.len() {
            1 => "1 draw".to_string(),
            seeds => format!("mean and deviation of {seeds} draws"),
        };
        format!(
            "{data} fold {fold}, protocol {protocol}: {} of `{split}` at {size}, \
             supports from `{support_split}`, {draws}; mIoU in %, `before` is base before teaching",
            count(images, "image")
        )
    }

    /// What makes the numbers say less than they seem to.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.images < self.images_in_split {
            notes.push(format!(
                "only {} of {} images were evaluated: this is not a result of the benchmark",
                self.images, self.images_in_split
            ));
        }
        let is_other = |variant: &&str| self.rows.iter().any(|row| row.variant != *variant);
        if let Some(variant) = self.trained_variant.filter(|variant| *variant != "capl").filter(is_other) {
            notes.push(format!(
                "the model was trained as `{}`, and unless told otherwise it is used as variant `{variant}`",
                self.trained_method
            ));
        }
        if let Some(chosen) = &self.model_chosen_by {
            notes.push(format!("the model's weights were chosen by: {chosen}"));
        }
        notes
    }

    /// The main numbers as text, one line per row, under [`Self::TITLES`].
    pub fn table(&self) -> Vec<Vec<String>> {
        let number = |spread: Spread| match self.seeds.len() {
            0 | 1 => format!("{:.2}", spread.mean),
            _ => format!("{:.2} ±{:.2}", spread.mean, spread.std),
        };
        let line = |row: &ResultRow| {
            let before = row.base_before.map_or("-".to_string(), |base| format!("{base:.2}"));
            let names = [row.variant.to_string(), row.preset.clone(), row.shots.to_string(), before];
            names.into_iter().chain(row.numbers().map(number)).collect()
        };
        self.rows.iter().map(line).collect()
    }

    /// The rows whose classes are worth showing one by one: the first and the last variant with the most shots.
    pub fn shown_rows(&self) -> Vec<&ResultRow> {
        let most = self.rows.iter().map(|row| row.shots).max().unwrap_or(0);
        let rows: Vec<&ResultRow> = self.rows.iter().filter(|row| row.shots == most).collect();
        match &rows[..] {
            [first, .., last] => vec![*first, *last],
            _ => rows,
        }
    }

    /// Headline, table and notes as Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}\n\n", self.headline());
        text += &line(&Self::TITLES.map(str::to_string));
        text += &line(&Self::TITLES.map(|_| "---".to_string()));
        self.table().iter().for_each(|cells| text += &line(cells));
        for note in self.notes() {
            let _ = writeln!(text, "\nNote: {note}.");
        }
        text
    }

    /// One line per draw, with the IoU of every class.
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "variant,preset,shots,seed,protocol,base,base_without_background,novel,total,mean,harmonic_mean,pixel_accuracy",
        );
        for class in self.classes.rows() {
            let _ = write!(text, ",\"{}\"", class.name.replace('"', "\"\""));
        }
        text.push('\n');
        for row in &self.rows {
            for Run { seed, scores } in &row.runs {
                let ResultRow { variant, preset, shots, .. } = row;
                let _ = write!(text, "{variant},{preset},{shots},{seed},{}", self.protocol);
                let numbers = [
                    scores.base,
                    scores.base_without_background,
                    scores.novel,
                    scores.total,
                    scores.mean,
                    scores.harmonic_mean,
                    scores.pixel_accuracy,
                ];
                for number in numbers {
                    let _ = write!(text, ",{number:.4}");
                }
                for iou in &scores.iou {
                    let _ = match iou {
                        Some(iou) => write!(text, ",{iou:.4}"),
                        None => write!(text, ","),
                    };
                }
                text.push('\n');
            }
        }
        text
    }
}

impl ResultRow {
    /// From the cells of one variant at one number of shots.
    fn new(cells: &[Cell]) -> Self {
        let over = |value: fn(&Scores) -> f64| Spread::of(cells.iter().map(|cell| value(&cell.scores)));
        let first = &cells[0];
        let classes = first.counts.classes();
        let iou = (0..classes).map(|class| {
            let values: Vec<f64> = cells.iter().filter_map(|cell| cell.scores.iou[class]).collect();
            (!values.is_empty()).then(|| Spread::of(values))
        });
        let mut counts = first.counts.clone();
        cells[1..].iter().for_each(|cell| counts.merge(&cell.counts));
        Self {
            variant: first.variant,
            preset: first.preset.clone(),
            shots: first.shots,
            base_before: first.base_before,
            base: over(|scores| scores.base),
            base_without_background: over(|scores| scores.base_without_background),
            novel: over(|scores| scores.novel),
            total: over(|scores| scores.total),
            mean: over(|scores| scores.mean),
            harmonic_mean: over(|scores| scores.harmonic_mean),
            pixel_accuracy: over(|scores| scores.pixel_accuracy),
            iou: iou.collect(),
            confusion: counts.counts().chunks(classes).map(<[u64]>::to_vec).collect(),
            runs: cells.iter().map(|cell| Run { seed: cell.seed, scores: cell.scores.clone() }).collect(),
        }
    }

    /// The numbers under the titles after `shots`.
    pub(crate) fn numbers(&self) -> [Spread; 6] {
        [self.base, self.novel, self.total, self.mean, self.harmonic_mean, self.pixel_accuracy]
    }
}
