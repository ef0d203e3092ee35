//! The results of an evaluation: one set of numbers as JSON (`protoseg.eval/1`), CSV, Markdown and LaTeX.

mod files;

use std::time::Duration;

use protoseg_core::{
    Class, Classes, NovelPixels, Protocol, ReliabilityGroup, Scores, Spread, SupportList, count,
};
use protoseg_data::{Benchmark, peak_memory};
use serde::Serialize;

use super::{Cell, Evaluated, Evaluation, Trust};
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
    pub(super) trained_method: String,
    /// The variant that the model was trained for, if it is a generalized one.
    #[serde(skip)]
    pub trained_variant: Option<&'static str>,
    pub(super) architecture: String,
    /// The seed of the run that trained the model, where it is known.
    pub training_seed: Option<u64>,
    novel_pixels_in_training: Option<NovelPixels>,
    model_chosen_by: Option<String>,
    split: String,
    support_split: String,
    pub(super) images: usize,
    pub(super) images_in_split: usize,
    /// Whether images were looked at a second time.
    pub second_look: bool,
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
    /// How far confidences can be trusted; none for a system for episodes.
    pub confidence: Option<ConfidenceRow>,
    /// IoU of every class; none for a class that never occurs.
    pub iou: Vec<Option<Spread>>,
    /// Pixels by true class (outer) and predicted class (inner), summed over the seeds.
    pub confusion: Vec<Vec<u64>>,
    runs: Vec<Run>,
}

/// How far the confidences of a variant can be trusted, over all seeds: pixels by confidence, and how often they are
/// right.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ConfidenceRow {
    /// Expected calibration error of the confidences that `predict` writes, in percent.
    pub ece: f64,
    /// The same without a temperature.
    pub ece_plain: f64,
    /// Pixels by the confidences that `predict` writes.
    pub groups: Vec<ReliabilityGroup>,
    /// Pixels by the confidences without a temperature.
    pub groups_plain: Vec<ReliabilityGroup>,
}

impl ConfidenceRow {
    fn new(cells: &[Cell]) -> Option<Self> {
        let mut all = Trust::default();
        cells.iter().for_each(|cell| all.merge(&cell.confidence));
        (all.written.pixels() > 0).then(|| Self {
            ece: 100.0 * all.written.ece(),
            ece_plain: 100.0 * all.plain.ece(),
            groups: all.written.groups(),
            groups_plain: all.plain.groups(),
        })
    }
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
            training_seed: manifest.training.seed,
            novel_pixels_in_training: manifest.training.novel_pixels,
            model_chosen_by: manifest.training.selected.clone(),
            split: evaluated.split.clone(),
            support_split: evaluated.support_split.clone(),
            images: evaluated.images,
            images_in_split: evaluated.of,
            second_look: plan.second_look,
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
        let looks = if self.second_look { ", looked at twice" } else { "" };
        format!(
            "{data} fold {fold}, protocol {protocol}: {} of `{split}` at {size}{looks}, \
             supports from `{support_split}`, {draws}; mIoU in %, `before` is base before teaching",
            count(images, "image")
        )
    }

    /// The network and its training in words.
    pub fn about_model(&self) -> String {
        let seed = self.training_seed.map_or("unknown".to_string(), |seed| seed.to_string());
        format!("{}, method `{}`, training seed {seed}", self.architecture, self.trained_method)
    }

    /// What the numbers are means of, and what `±` is.
    pub fn about_draws(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        match &seeds[..] {
            [] => "Scores are those of one draw of supports".to_string(),
            [seed] => format!("Scores are those of one draw of supports (seed {seed})"),
            seeds => format!(
                "Scores are means over {} draws of supports (seeds {}); ± is the population standard deviation over \
                 the draws",
                seeds.len(),
                seeds.join(", ")
            ),
        }
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

    /// How far the confidences of the model's own use can be trusted, or of the last variant, with the most shots, in words.
    pub fn about_confidence(&self) -> Option<String> {
        let row = self.confidence_row()?;
        let ConfidenceRow { ece, ece_plain, .. } = row.confidence.as_ref()?;
        let plain = match (ece_plain - ece).abs() > 1e-9 {
            true => format!(", {ece_plain:.1} % without its temperature"),
            false => String::new(),
        };
        Some(format!(
            "confidences of {}, {}-shot, are off by {ece:.1} % on average (expected calibration error){plain}",
            row.name(),
            row.shots
        ))
    }

    /// The row whose confidences are worth showing: the variant that the model is used as, else the last, with the most
    /// shots.
    pub(crate) fn confidence_row(&self) -> Option<&ResultRow> {
        let most = self.rows.iter().map(|row| row.shots).max()?;
        let rows = || self.rows.iter().filter(|row| row.shots == most && row.confidence.is_some());
        rows().rfind(|row| Some(row.variant) == self.trained_variant).or_else(|| rows().next_back())
    }

    /// The main numbers as text, one line per row, under [`Self::TITLES`].
    pub fn table(&self) -> Vec<Vec<String>> {
        let line = |row: &ResultRow| {
            let names = [row.variant.to_string(), row.preset.clone(), row.shots.to_string(), row.before()];
            names.into_iter().chain(row.numbers().map(|spread| self.number(spread))).collect()
        };
        self.rows.iter().map(line).collect()
    }

    /// Titles of the columns of [`Self::class_table`].
    pub fn class_titles(&self) -> Vec<String> {
        let shown = self.shown_rows().into_iter().map(|row| format!("{}, {}-shot", row.name(), row.shots));
        ["class", "role"].map(str::to_string).into_iter().chain(shown).collect()
    }

    /// The IoU of every class in the [shown rows](Self::shown_rows) as text; a dash for a class that neither occurs
    /// nor is predicted.
    pub fn class_table(&self) -> Vec<Vec<String>> {
        let shown = self.shown_rows();
        let line = |(place, class): (usize, &Class)| {
            let iou = |row: &&ResultRow| row.iou[place].map_or("-".to_string(), |iou| self.number(iou));
            let names = [class.name.clone(), class.role.name().to_string()];
            names.into_iter().chain(shown.iter().map(iou)).collect()
        };
        self.classes.rows().iter().enumerate().map(line).collect()
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

    /// Mean, and deviation where there are several draws.
    fn number(&self, spread: Spread) -> String {
        match self.seeds.len() {
            0 | 1 => format!("{:.2}", spread.mean),
            _ => format!("{:.2} ±{:.2}", spread.mean, spread.std),
        }
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
            confidence: ConfidenceRow::new(cells),
            iou: iou.collect(),
            confusion: counts.counts().chunks(classes).map(<[u64]>::to_vec).collect(),
            runs: cells.iter().map(|cell| Run { seed: cell.seed, scores: cell.scores.clone() }).collect(),
        }
    }

    fn name(&self) -> String {
        variant_name(self.variant, &self.preset)
    }

    /// Base mIoU before teaching, as text.
    pub(crate) fn before(&self) -> String {
        self.base_before.map_or("-".to_string(), |base| format!("{base:.2}"))
    }

    /// The numbers under the titles after `before`.
    pub(crate) fn numbers(&self) -> [Spread; 6] {
        [self.base, self.novel, self.total, self.mean, self.harmonic_mean, self.pixel_accuracy]
    }
}

/// Titles of the columns of a paper's table.
pub(super) const PAPER_TITLES: [&str; 6] = ["variant", "shots", "base before", "base", "novel", "total"];

/// What the third of them means.
pub(super) const BASE_BEFORE: &str = "Base before: mean IoU of the base classes before teaching";

/// `capl (balanced)`, or the variant alone if its method has no presets.
pub(super) fn variant_name(variant: &str, preset: &str) -> String {
    if preset == "-" { variant.to_string() } else { format!("{variant} ({preset})") }
}

#[cfg(test)]
pub(super) mod by_hand;
