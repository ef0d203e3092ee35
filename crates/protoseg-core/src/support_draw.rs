//! Which images teach the novel classes: drawn by seed, or given by hand, and kept as a list that replays exactly.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{ClassId, ClassTable, Fold, ImageStats, SupportUse, seed};

/// The support seeds of the protocol; results are means over them.
pub const SUPPORT_SEEDS: [u64; 5] = [123, 321, 456, 654, 999];

/// The fewest pixels of its class a support holds in the reference's protocol, for images of about 500 x 375.
pub const MIN_SUPPORT_PIXELS: u64 = 16_384;

/// The supports of every novel class of a fold. Samples are named as the data set names them, so that the list can be
/// saved, read, edited and replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupportList {
    /// The data set's name; empty in a list made by hand.
    #[serde(default)]
    pub dataset: String,
    #[serde(default)]
    pub fold: usize,
    /// The seed it was drawn with; none in a list made by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pixels: Option<u64>,
    /// In rising id of the class.
    pub classes: Vec<ClassSupports>,
}

/// The supports of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSupports {
    pub class: String,
    /// One name a shot. A name comes twice only when the class has fewer usable images than shots.
    pub samples: Vec<String>,
}

/// What is to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportDraw {
    pub n_shots: usize,
    pub seed: u64,
    /// The fewest pixels of the class a support may hold ([`MIN_SUPPORT_PIXELS`] in the reference).
    pub min_pixels: u64,
}

/// Supports that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SupportError {
    #[error(
        "class `{class}` has no usable support in fold `{fold}`: of {pool} images in its pool, {other_novel} hold another novel class and {too_small} hold fewer than {min_pixels} of its pixels\nhint: lower the least number of support pixels, or give supports by hand"
    )]
    None { class: String, fold: usize, pool: usize, other_novel: usize, too_small: usize, min_pixels: u64 },
    #[error("support `{sample}` of class `{class}` is not an image of the data set\nhint: {suggestion}")]
    UnknownSample { class: String, sample: String, suggestion: String },
    #[error(
        "the support list has class `{class}`, which is not novel in fold `{fold}`\nhint: the novel classes are: {novel}"
    )]
    NotNovel { class: String, fold: usize, novel: String },
    #[error(
        "the support list gives no support for class `{class}`\nhint: add at least one image of `{class}`"
    )]
    Missing { class: String },
    #[error("the support list has class `{class}` twice\nhint: put all its samples in one entry")]
    Twice { class: String },
    #[error(
        "support `{sample}` of class `{class}` holds no pixel of that class\nhint: choose an image in which `{class}` is labelled"
    )]
    Empty { class: String, sample: String },
    #[error("0 shots were asked for\nhint: ask for at least 1 support a class")]
    NoShots,
}

/// Draws the supports of a fold from the training images, given by their counts: for each novel class the images
/// whose lowest novel id is that class, without those that hold another novel class or too few of its pixels,
/// shuffled by (seed, class id) and taken in order; once all are taken, from the start again. Returns indices into
/// `stats`, one list a novel class in rising id. The draw of a class does not depend on the other classes, and more
/// shots extend fewer: the first support of 5 is the one of 1.
pub fn draw_supports(
    table: &ClassTable,
    fold: &Fold,
    stats: &[ImageStats],
    draw: SupportDraw,
) -> Result<Vec<Vec<usize>>, SupportError> {
    if draw.n_shots == 0 {
        return Err(SupportError::NoShots);
    }
    fold.novel().iter().map(|&class| draw_class(table, fold, stats, draw, class)).collect()
}

fn draw_class(
    table: &ClassTable,
    fold: &Fold,
    stats: &[ImageStats],
    draw: SupportDraw,
    class: ClassId,
) -> Result<Vec<usize>, SupportError> {
    let (mut usable, mut other_novel, mut too_small) = (Vec::new(), 0, 0);
    for (index, image) in stats.iter().enumerate() {
        match image.support_use(fold, class, draw.min_pixels) {
            SupportUse::Usable => usable.push(index),
            SupportUse::HoldsOtherNovel => other_novel += 1,
            SupportUse::TooSmall => too_small += 1,
            SupportUse::OtherClass => {}
        }
    }
    if usable.is_empty() {
        return Err(SupportError::None {
            class: name(table, class),
            fold: fold.index,
            pool: other_novel + too_small,
            other_novel,
            too_small,
            min_pixels: draw.min_pixels,
        });
    }
    seed::shuffle(&mut usable, &mut seed::stream(draw.seed, &[u64::from(class.0)]));
    Ok(usable.iter().copied().cycle().take(draw.n_shots).collect())
}

impl SupportList {
    /// A drawn list by name: `names[i]` is the sample behind `stats[i]`.
    pub fn named<S: AsRef<str>>(
        dataset: &str,
        table: &ClassTable,
        fold: &Fold,
        draw: SupportDraw,
        drawn: &[Vec<usize>],
        names: &[S],
    ) -> Self {
        let classes = fold.novel().iter().zip(drawn).map(|(&class, indices)| ClassSupports {
            class: name(table, class),
            samples: indices.iter().map(|&index| names[index].as_ref().to_string()).collect(),
        });
        Self {
            dataset: dataset.to_string(),
            fold: fold.index,
            seed: Some(draw.seed),
            min_pixels: Some(draw.min_pixels),
            classes: classes.collect(),
        }
    }

    /// The list as indices into `names`, one list a novel class in rising id: what [`draw_supports`] returned, or
    /// what somebody wrote by hand, checked against the fold.
    pub fn resolve<S: AsRef<str>>(
        &self,
        table: &ClassTable,
        fold: &Fold,
        names: &[S],
    ) -> Result<Vec<Vec<usize>>, SupportError> {
        let novel: Vec<String> = fold.novel().iter().map(|&id| name(table, id)).collect();
        let mut given: HashMap<&str, &[String]> = HashMap::new();
        for ClassSupports { class, samples } in &self.classes {
            if !novel.contains(class) {
                let novel = novel.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                return Err(SupportError::NotNovel { class: class.clone(), fold: fold.index, novel });
            }
            if given.insert(class, samples).is_some() {
                return Err(SupportError::Twice { class: class.clone() });
            }
        }
        let places: HashMap<&str, usize> =
            names.iter().enumerate().map(|(place, name)| (name.as_ref(), place)).collect();
        let resolve_class = |class: &String| -> Result<Vec<usize>, SupportError> {
            let samples = given.get(class.as_str()).filter(|samples| !samples.is_empty());
            let samples = samples.ok_or_else(|| SupportError::Missing { class: class.clone() })?;
            let find = |sample: &String| {
                places.get(sample.as_str()).copied().ok_or_else(|| SupportError::UnknownSample {
                    class: class.clone(),
                    sample: sample.clone(),
                    suggestion: suggest(sample, names),
                })
            };
            samples.iter().map(find).collect()
        };
        novel.iter().map(resolve_class).collect()
    }
}

/// The class's own name in an error or list; its id where it has none.
fn name(table: &ClassTable, id: ClassId) -> String {
    table.name(id).map_or_else(|| id.to_string(), str::to_string)
}

/// A sample whose name holds what was asked for, or the form that names have.
fn suggest<S: AsRef<str>>(sample: &str, names: &[S]) -> String {
    let close = names.iter().map(AsRef::as_ref).find(|name| name.contains(sample) || sample.contains(name));
    match (close, names.first()) {
        (Some(close), _) => format!("did you mean `{close}`?"),
        (None, Some(first)) => format!("samples are named like `{}`", first.as_ref()),
        (None, None) => "the data set has no training images".to_string(),
    }
}

#[cfg(test)]
#[path = "support_draw_tests.rs"]
mod tests;
