//! Evaluation on labelled photos without folds: what a model knows by itself, and what a pack adds to it.

use std::fmt::Write;

use protoseg_core::{ClassRole, Classes, Confusion, IGNORE, Protocol, Remap, RowMap, Scores};
use protoseg_data::{Benchmark, Progress, scan};
use serde::Serialize;

use super::{EvaluateError, EvaluatedImage, evenly};
use crate::{
    class_pack::ClassPack,
    method::Usage,
    model::Model,
    segmenter::Segmenter,
    tables::{csv, markdown},
};

/// Scores before and after teaching, in percent. Serialise it to get `results.json`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LabelledResults {
    schema: &'static str,
    /// What the caller calls the model.
    pub model: String,
    /// [`Model::fingerprint`].
    pub fingerprint: String,
    /// The network in words.
    pub architecture: String,
    variant: &'static str,
    /// Name of the data set.
    pub data: String,
    split: String,
    images: usize,
    images_in_split: usize,
    second_look: bool,
    /// Of the classifier after teaching.
    pub classes: Classes,
    /// mIoU of the base classes before anything was taught; none for a model without base classes.
    pub base_before: Option<f64>,
    /// mIoU of the base classes after teaching, the background included.
    pub base: Option<f64>,
    /// mIoU of the pack's classes; none without a pack.
    pub taught: Option<f64>,
    /// mIoU of all classes.
    pub total: f64,
    /// Share of pixels that are labelled right.
    pub pixel_accuracy: f64,
    /// IoU of every class before and after; none where a class neither occurs nor is predicted.
    pub iou: Vec<[Option<f64>; 2]>,
}

/// Evaluates a model, with the classes of a pack if one is given, on the labelled images of a data set: its evaluation
/// split, or all if it has only one. Classes are matched by name. Classes that neither model nor pack has count as
/// background, or are left out if the model has none.
#[allow(clippy::too_many_arguments)] // each is a thing of its own, and the caller has them all
pub fn evaluate_labelled(
    name: &str,
    model: &Model,
    pack: Option<&ClassPack>,
    (usage, second_look): (&Usage, bool),
    benchmark: &Benchmark,
    limit: Option<usize>,
    progress: Progress<'_>,
    mut each: impl FnMut(&EvaluatedImage<'_>),
) -> Result<LabelledResults, EvaluateError> {
    let dataset = benchmark.dataset.as_ref();
    let builder = || Segmenter::builder(model).usage(usage.clone()).second_look(second_look);
    let before = builder().build()?;
    let after = match pack {
        Some(pack) => builder().pack(pack).build()?,
        None => before.clone(),
    };
    let classes = after.classes().clone();
    let n_base = classes.n_base();
    let rest = classes.has_background().then_some(0);
    let remap = Remap::by_name(dataset.classes(), &classes, rest);
    let split = benchmark.val.as_deref().unwrap_or(&benchmark.train);
    let all = scan(dataset, split)?.for_evaluation(dataset.classes());
    let queries = evenly(&all, limit.unwrap_or(all.len()));
    if queries.is_empty() {
        return Err(EvaluateError::NoImages { split: split.to_string() });
    }
    let mut counts = [Confusion::new(n_base), Confusion::new(classes.rows().len())];
    for (done, &query) in queries.iter().enumerate() {
        progress(done, queries.len());
        let (image, truth) = benchmark.load_rows(query, &remap)?;
        let looks = before.looks(&image);
        let predicted = [&before, &after]
            .map(|segmenter| segmenter.join(segmenter.grids(&looks), image.width, image.height).labels());
        counts[0].add(&base_only(&truth, n_base), &predicted[0]);
        counts[1].add(&truth, &predicted[1]);
        let name = &dataset.samples()[query].name;
        let (before, predicted) = predicted.split_at(1);
        // Without a pack both are the same.
        let before = if pack.is_some() { before } else { &[] };
        each(&EvaluatedImage { name, image: &image, truth: &truth, predicted, before });
    }
    progress(queries.len(), queries.len());
    let base_classes = before.classes();
    let scores = [
        Scores::of(&counts[0], base_classes, Protocol::Exact),
        Scores::of(&counts[1], &classes, Protocol::Exact),
    ];
    let knows_more_than_background = classes.names(ClassRole::Base).next().is_some();
    let iou =
        (0..classes.rows().len()).map(|row| [scores[0].iou.get(row).copied().flatten(), scores[1].iou[row]]);
    Ok(LabelledResults {
        schema: "protoseg.labelled/1",
        model: name.to_string(),
        fingerprint: model.fingerprint(),
        architecture: model.config().describe(),
        variant: usage.variant(),
        data: dataset.name().to_string(),
        split: split.to_string(),
        images: queries.len(),
        images_in_split: all.len(),
        second_look,
        base_before: knows_more_than_background.then_some(scores[0].base),
        base: knows_more_than_background.then_some(scores[1].base),
        taught: (classes.n_novel() > 0).then_some(scores[1].novel),
        total: scores[1].total,
        pixel_accuracy: scores[1].pixel_accuracy,
        iou: iou.collect(),
        classes,
    })
}

/// The truth for a classifier of base classes alone.
pub(super) fn base_only(truth: &RowMap, n_base: usize) -> RowMap {
    let base = |&row: &u16| if usize::from(row) < n_base { row } else { IGNORE };
    RowMap::new(truth.width, truth.height, truth.data.iter().map(base).collect())
}

impl LabelledResults {
    /// What a reader has to know before the numbers.
    pub fn headline(&self) -> String {
        let Self { data, images, images_in_split, split, variant, .. } = self;
        let looks = if self.second_look { ", looked at twice" } else { "" };
        format!(
            "{data}: {images} of {images_in_split} images of `{split}`{looks}, variant {variant}; IoU in %"
        )
    }

    /// The summary in words, one line each.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((before, after)) = self.base_before.zip(self.base) {
            match self.taught {
                Some(_) => lines.push(format!("base classes: {before:.2} before teaching, {after:.2} after")),
                None => lines.push(format!("base classes: {before:.2}")),
            }
        }
        if let Some(taught) = self.taught {
            lines.push(format!("taught classes: {taught:.2}"));
        }
        lines.push(format!("all classes: {:.2}, pixels: {:.2}", self.total, self.pixel_accuracy));
        lines
    }

    /// Titles of [`Self::table`].
    pub const TITLES: [&'static str; 4] = ["class", "role", "before", "after"];

    /// One line per class.
    pub fn table(&self) -> Vec<Vec<String>> {
        let cell = |iou: Option<f64>| iou.map_or("-".to_string(), |iou| format!("{iou:.1}"));
        let line = |(class, [before, after]): (&protoseg_core::Class, &[Option<f64>; 2])| {
            vec![class.name.clone(), class.role.name().to_string(), cell(*before), cell(*after)]
        };
        self.classes.rows().iter().zip(&self.iou).map(line).collect()
    }

    /// Headline, summary and table as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        self.summary().iter().for_each(|line| {
            let _ = writeln!(text, "- {line}");
        });
        text.push('\n');
        text + &markdown::table(&Self::TITLES, &self.table())
    }

    /// One line per class.
    pub fn csv(&self) -> String {
        let mut text = String::from("data,split,variant,class,role,iou_before,iou_after\n");
        let start = format!("{},{},{}", csv::field(&self.data), csv::field(&self.split), self.variant);
        for (class, [before, after]) in self.classes.rows().iter().zip(&self.iou) {
            let _ = write!(text, "{start},{},{}", csv::field(&class.name), class.role.name());
            text += &(csv::number(*before) + &csv::number(*after) + "\n");
        }
        text
    }
}
