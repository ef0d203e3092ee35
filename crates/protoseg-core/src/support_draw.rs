//! Which images teach the novel classes: drawn by seed or chosen by hand, and kept in a list that replays exactly.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::suggest::{SAMPLES, suggest};
use crate::{ClassId, ClassTable, Fold, ImageStats, SupportUse, seed};

/// The support seeds of the published protocol; results are means over them.
pub const SUPPORT_SEEDS: [u64; 5] = [123, 321, 456, 654, 999];

/// The fewest pixels of its class that a support must hold in the reference's protocol (images of about 500 x 375).
pub const MIN_SUPPORT_PIXELS: u64 = 16_384;

/// Most supports of a class. More are a slip of the finger.
pub const MAX_SHOTS: usize = 100_000;

/// The supports of every novel class in a fold. Samples are named as the data set names them, so that the list can be
/// saved, read, edited and replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupportList {
    /// Name of the data set; empty in a list made by hand.
    #[serde(default)]
    pub dataset: String,
    #[serde(default)]
    pub fold: usize,
    /// The seed of the draw; absent in a list made by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pixels: Option<u64>,
    /// In ascending order of class id.
    pub classes: Vec<ClassSupports>,
}

/// The supports of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSupports {
    pub class: String,
    /// One name per shot. A name is repeated only if the class has fewer usable images than shots.
    pub samples: Vec<String>,
}

/// What to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportDraw {
    pub n_shots: usize,
    pub seed: u64,
    /// The fewest pixels of its class that a support must hold ([`MIN_SUPPORT_PIXELS`] in the reference).
    pub min_pixels: u64,
}

/// Why supports cannot be drawn or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SupportError {
    #[error(
        "class `{class}` has no usable support in fold `{fold}`: images in its pool: {pool}, with another novel class: {other_novel}, with fewer than {min_pixels} pixels of the class: {too_small}\nhint: require fewer pixels per support, or choose the supports by hand"
    )]
    None { class: String, fold: usize, pool: usize, other_novel: usize, too_small: usize, min_pixels: u64 },
    #[error("support `{sample}` of class `{class}` is not an image of the data set\nhint: {suggestion}")]
    UnknownSample { class: String, sample: String, suggestion: String },
    #[error(
        "the support list has class `{class}`, which is not novel in fold `{fold}`\nhint: the novel classes are: {novel}"
    )]
    NotNovel { class: String, fold: usize, novel: String },
    #[error("the support list has no support for class `{class}`\nhint: add at least one image of `{class}`")]
    Missing { class: String },
    #[error("the support list has class `{class}` twice\nhint: put all its samples in one entry")]
    Twice { class: String },
    #[error(
        "support `{sample}` of class `{class}` holds no pixel of that class\nhint: choose an image in which `{class}` is labelled"
    )]
    Empty { class: String, sample: String },
    #[error("expected 1 to {MAX_SHOTS} supports per class, got `{got}`\nhint: ask for fewer, but at least 1")]
    Shots { got: usize },
}

impl SupportDraw {
    /// Refuses what no data set can give, before one is read.
    pub fn check(&self) -> Result<(), SupportError> {
        match self.n_shots {
            1..=MAX_SHOTS => Ok(()),
            got => Err(SupportError::Shots { got }),
        }
    }
}

/// Draws the supports of a fold from the training images, which are given by their counts.
///
/// The pool of a novel class holds the images whose lowest novel id is that class. Images that also hold another
/// novel class, or too few pixels of the class, are left out. The rest is shuffled by (seed, class id) and taken in
/// order. If there are fewer images than shots, the draw starts again from the beginning.
///
/// Returns indices into `stats`: one list per novel class, in ascending order of id. The draw of a class does not
/// depend on the other classes. A draw of more shots extends a draw of fewer: the first of 5 supports is also the
/// single support of a 1-shot draw.
pub fn draw_supports(
    table: &ClassTable,
    fold: &Fold,
    stats: &[ImageStats],
    draw: SupportDraw,
) -> Result<Vec<Vec<usize>>, SupportError> {
    draw.check()?;
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
    /// A drawn list with names: `names[i]` is the name of the sample that `stats[i]` counts.
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

    /// The list as indices into `names`: one list per novel class, in ascending order of id. Accepts what
    /// [`draw_supports`] returned or a list written by hand, and checks it against the fold.
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
                    suggestion: suggest(sample, names, SAMPLES),
                })
            };
            samples.iter().map(find).collect()
        };
        novel.iter().map(resolve_class).collect()
    }
}

/// The name of the class for errors and lists; its id if it has no name.
fn name(table: &ClassTable, id: ClassId) -> String {
    table.name(id).map_or_else(|| id.to_string(), str::to_string)
}

#[cfg(test)]
#[path = "support_draw_tests.rs"]
mod tests;
