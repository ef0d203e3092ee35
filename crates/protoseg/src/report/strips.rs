//! Which images a report compares the variants on: for each novel class one that shows enough of it, and a few others.

use protoseg_core::{Image, RowMap};

use crate::{
    evaluate::{EvaluatedImage, Evaluation},
    method::{Usage, capl::usage::ActiveParts},
};

/// Number of images that are shown besides those of the novel classes.
const OTHERS: usize = 3;

/// The images that were chosen so far.
pub struct Strips {
    /// For each column, the place of its cell among the cells, and its caption.
    columns: Vec<(usize, &'static str)>,
    /// For each class that occurred, how well it is shown, and where.
    best: Vec<(u16, f64, Strip)>,
    others: Vec<Strip>,
}

/// An image with its truth and what each column predicts.
pub struct Strip {
    pub name: String,
    pub image: Image,
    pub truth: RowMap,
    /// Before teaching, if the model knew anything then; after it, one per column.
    pub predicted: Vec<RowMap>,
}

/// What a column is called.
fn caption(variant: &'static str) -> &'static str {
    match variant {
        "sce" => "SCE",
        "dqce" => "DQCE",
        "capl" => "SCE + DQCE",
        other => other,
    }
}

impl Strips {
    /// The columns are the variants of the first preset with the most shots, drawn with the first seed, after what was
    /// seen before teaching.
    pub fn new(plan: &Evaluation) -> Self {
        let per_variant = plan.shots.len() * plan.supports.count();
        let most = plan.shots.iter().max().and_then(|most| plan.shots.iter().position(|shots| shots == most));
        let within = most.unwrap_or(0) * plan.supports.count();
        let preset = plan.usages.first().map(Usage::preset);
        let baseline = ActiveParts::Baseline.name();
        // The paper's strip has no column of DQCE alone.
        let all = plan.usages.len() > 3;
        let is_shown = |usage: &Usage| {
            let variant = usage.variant();
            (variant == baseline || Some(usage.preset()) == preset)
                && !(all && variant == ActiveParts::Dqce.name())
        };
        let shown = plan.usages.iter().enumerate().filter(|(_, usage)| is_shown(usage));
        let columns = shown.map(|(place, usage)| (place * per_variant + within, caption(usage.variant())));
        Self { columns: columns.collect(), best: Vec::new(), others: Vec::new() }
    }

    /// One column: what a model says, after what it said before it was taught.
    pub fn of_one_use() -> Self {
        Self { columns: vec![(0, "prediction")], best: Vec::new(), others: Vec::new() }
    }

    /// Keeps an image if it shows a class better than those before.
    pub fn look(&mut self, evaluated: &EvaluatedImage<'_>) {
        let size = evaluated.truth.data.len().max(1) as f64;
        for row in evaluated.truth.present() {
            let pixels = evaluated.truth.data.iter().filter(|&&label| label == row).count() as f64;
            // A fifth of the picture is easy to see and leaves room for what is around.
            let quality = 1.0 - (pixels / size - 0.2).abs();
            match self.best.iter_mut().find(|(other, ..)| *other == row) {
                Some((_, best, _)) if *best >= quality => {}
                Some(entry) => *entry = (row, quality, Strip::new(evaluated, &self.columns)),
                None => self.best.push((row, quality, Strip::new(evaluated, &self.columns))),
            }
        }
        if self.others.len() < OTHERS {
            self.others.push(Strip::new(evaluated, &self.columns));
        }
    }

    /// The captions of what is predicted.
    pub fn captions(&self) -> impl Iterator<Item = &'static str> {
        let before = self.others.first().is_some_and(|strip| strip.predicted.len() > self.columns.len());
        let is_single = before && self.columns.len() == 1;
        let after = self.columns.iter().map(move |(_, caption)| if is_single { "after" } else { *caption });
        before.then_some("before teaching").into_iter().chain(after)
    }

    /// The strips of wanted classes, then some others, each once.
    pub fn chosen(&self, is_wanted: impl Fn(u16) -> bool) -> Vec<&Strip> {
        let mut wanted: Vec<&(u16, f64, Strip)> =
            self.best.iter().filter(|(row, ..)| is_wanted(*row)).collect();
        wanted.sort_by_key(|(row, ..)| *row);
        let mut chosen: Vec<&Strip> = Vec::new();
        for strip in wanted.into_iter().map(|(.., strip)| strip).chain(&self.others) {
            if !chosen.iter().any(|other| other.name == strip.name) {
                chosen.push(strip);
            }
        }
        chosen
    }
}

impl Strip {
    fn new(evaluated: &EvaluatedImage<'_>, columns: &[(usize, &'static str)]) -> Self {
        let (width, height) = (evaluated.truth.width, evaluated.truth.height);
        let cut = |map: &RowMap| {
            let rows = map.data.chunks_exact(map.width.max(1)).take(height);
            RowMap::new(width, height, rows.flat_map(|row| &row[..width]).copied().collect())
        };
        Self {
            name: evaluated.name.to_string(),
            image: evaluated.image.clone(),
            truth: evaluated.truth.clone(),
            predicted: evaluated
                .before
                .last()
                .into_iter()
                .chain(columns.iter().map(|(place, _)| &evaluated.predicted[*place]))
                .map(cut)
                .collect(),
        }
    }
}
