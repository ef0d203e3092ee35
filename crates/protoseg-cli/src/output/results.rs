//! Results of an evaluation: JSON, CSV, Markdown and tables of one and the same numbers.

use std::fmt::Write;

use protoseg::{
    core::{ClassRole, Classes, NovelPixels, Protocol, Scores, Spread, SupportList},
    evaluate::{Cell, Evaluated},
    model::Model,
};
use serde::Serialize;

use super::table;

/// What the numbers are of.
#[derive(Clone, Serialize)]
pub struct Setting {
    pub model: String,
    pub fingerprint: String,
    pub data: String,
    pub fold: usize,
    pub protocol: Protocol,
    /// Side of the canvas.
    pub size: usize,
    pub seconds: f64,
    pub peak_memory: Option<u64>,
}

/// All that is known after an evaluation.
#[derive(Serialize)]
pub struct Results {
    schema: &'static str,
    #[serde(flatten)]
    pub setting: Setting,
    trained_method: String,
    architecture: String,
    novel_pixels_in_training: Option<NovelPixels>,
    model_chosen_by: Option<String>,
    split: String,
    support_split: String,
    images: usize,
    images_in_split: usize,
    min_support_pixels: u64,
    pub seeds: Vec<u64>,
    pub classes: Classes,
    pub rows: Vec<Row>,
    supports: Vec<SupportList>,
}

/// A variant at a number of shots, over all seeds.
#[derive(Serialize)]
pub struct Row {
    pub variant: &'static str,
    pub preset: String,
    pub shots: usize,
    pub base: Spread,
    pub base_without_background: Spread,
    pub novel: Spread,
    pub total: Spread,
    pub mean: Spread,
    pub harmonic_mean: Spread,
    pub pixel_accuracy: Spread,
    /// IoU of every class; none where it never occurs.
    pub iou: Vec<Option<Spread>>,
    /// Truth by row, prediction by column, pixels summed over the seeds.
    pub confusion: Vec<Vec<u64>>,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    scores: Scores,
}

impl Results {
    pub fn new(setting: Setting, model: &Model, evaluated: &Evaluated) -> Self {
        let manifest = model.manifest();
        let mut seeds: Vec<u64> = Vec::new();
        evaluated.cells.iter().for_each(|cell| {
            if !seeds.contains(&cell.seed) {
                seeds.push(cell.seed);
            }
        });
        let rows = evaluated.cells.chunks(seeds.len().max(1)).map(Row::new).collect();
        Self {
            schema: "protoseg.eval/1",
            setting,
            trained_method: manifest.method.name(),
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
        let Setting { data, fold, protocol, size, .. } = &self.setting;
        let seeds = self.seeds.len();
        let draws =
            if seeds == 1 { "1 draw".to_string() } else { format!("mean and deviation of {seeds} draws") };
        format!(
            "{data} fold {fold}, protocol {protocol}: {} images of `{}` at {size}, supports from `{}`, {draws}; mIoU in %",
            self.images, self.split, self.support_split
        )
    }

    const TITLE: [&'static str; 9] =
        ["variant", "preset", "shots", "base", "novel", "total", "mean", "harmonic", "pixels"];

    fn cells(&self) -> Vec<Vec<String>> {
        let many = self.seeds.len() > 1;
        let spread = |spread: Spread| match many {
            true => format!("{:.2} ±{:.2}", spread.mean, spread.std),
            false => format!("{:.2}", spread.mean),
        };
        let row = |row: &Row| {
            let numbers = [row.base, row.novel, row.total, row.mean, row.harmonic_mean, row.pixel_accuracy];
            let names = [row.variant.to_string(), row.preset.to_string(), row.shots.to_string()];
            names.into_iter().chain(numbers.map(spread)).collect()
        };
        self.rows.iter().map(row).collect()
    }

    /// Lines for a terminal.
    pub fn table(&self) -> Vec<String> {
        table::lines(&Self::TITLE, &self.cells())
    }

    /// The rows whose classes are shown one by one: the first and the last variant with the most shots.
    pub fn shown_rows(&self) -> Vec<&Row> {
        let most = self.rows.iter().map(|row| row.shots).max().unwrap_or(0);
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.shots == most).collect();
        match &rows[..] {
            [first, .., last] => vec![*first, *last],
            _ => rows,
        }
    }

    /// IoU of every class, for a terminal.
    pub fn class_table(&self) -> Vec<String> {
        let shown = self.shown_rows();
        let titles: Vec<String> =
            shown.iter().map(|row| format!("{} {} {}-shot", row.variant, row.preset, row.shots)).collect();
        let title: Vec<&str> =
            ["class", "role"].into_iter().chain(titles.iter().map(String::as_str)).collect();
        let rows: Vec<Vec<String>> = self
            .classes
            .rows()
            .iter()
            .enumerate()
            .map(|(place, class)| {
                let iou =
                    |row: &&Row| row.iou[place].map_or("0 (absent)".into(), |iou| format!("{:.1}", iou.mean));
                let names = [class.name.clone(), role(class.role).to_string()];
                names.into_iter().chain(shown.iter().map(iou)).collect()
            })
            .collect();
        table::lines(&title, &rows)
    }

    /// What makes the numbers say less than they seem to.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.images < self.images_in_split {
            notes.push(format!(
                "only {} of {} images were judged: this is no result of the benchmark",
                self.images, self.images_in_split
            ));
        }
        if let Some(chosen) = &self.model_chosen_by {
            notes.push(format!("the model's weights were chosen by: {chosen}"));
        }
        notes
    }

    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}\n\n", self.headline());
        text += &line(Self::TITLE.iter().map(|title| title.to_string()).collect());
        text += &line(Self::TITLE.iter().map(|_| "---".to_string()).collect());
        self.cells().into_iter().for_each(|cells| text += &line(cells));
        for note in self.notes() {
            let _ = writeln!(text, "\nNote: {note}.");
        }
        text
    }

    /// One line a draw, with the IoU of every class.
    pub fn csv(&self) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let mut text = String::from(
            "variant,preset,shots,seed,protocol,base,base_without_background,novel,total,mean,harmonic_mean,pixel_accuracy",
        );
        self.classes.rows().iter().for_each(|class| text += &format!(",{}", quoted(&class.name)));
        text.push('\n');
        for row in &self.rows {
            for Run { seed, scores } in &row.runs {
                let _ = write!(
                    text,
                    "{},{},{},{seed},{}",
                    row.variant, row.preset, row.shots, self.setting.protocol
                );
                let numbers = [
                    scores.base,
                    scores.base_without_background,
                    scores.novel,
                    scores.total,
                    scores.mean,
                    scores.harmonic_mean,
                    scores.pixel_accuracy,
                ];
                numbers.iter().for_each(|number| text += &format!(",{number:.4}"));
                let iou = |iou: &Option<f64>| iou.map_or(",".to_string(), |iou| format!(",{iou:.4}"));
                scores.iou.iter().for_each(|value| text += &iou(value));
                text.push('\n');
            }
        }
        text
    }
}

pub fn role(role: ClassRole) -> &'static str {
    match role {
        ClassRole::Background => "background",
        ClassRole::Base => "base",
        ClassRole::Novel => "novel",
    }
}

impl Row {
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
            variant: first.usage.parts().name(),
            preset: first.usage.preset().to_string(),
            shots: first.shots,
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
}
