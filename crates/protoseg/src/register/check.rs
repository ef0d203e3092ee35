//! How good supports are, as far as the supports alone can tell: whether each is found with what the others taught,
//! which classes are near, and which take pixels away.

use std::collections::HashMap;

use burn::tensor::Tensor;
use protoseg_core::{Image, RowMap, SUPPORT_ROW, ScoreMap};

use super::{Classifier, RegisterError};
use crate::{
    class_pack::{ClassPack, PackClass, PackError, Shot},
    method::{Usage, cosine::unit},
    model::Model,
    segmenter::Segmenter,
};

/// What the check finds out about a class.
#[derive(Clone, Debug, PartialEq)]
pub struct SupportCheck {
    /// The classes whose prototypes are nearest, with their cosines, nearest first.
    pub nearest: Vec<(String, f32)>,
    /// IoU of the class in each support, in percent, when predicted from the others; empty for a single one. Weak supports
    /// have none.
    pub leave_one_out: Vec<f64>,
    /// The class that takes most of its pixels in its own supports, and their share in percent.
    pub taken: Option<(String, f64)>,
    /// The first supports, to look at.
    pub pictures: Vec<SupportPicture>,
}

/// A support to look at: the picture, its mask, and where the class is found with what the other supports taught.
#[derive(Clone, Debug, PartialEq)]
pub struct SupportPicture {
    /// The support's name.
    pub name: String,
    /// The picture, small.
    pub image: Image,
    /// Row 1 where the class is.
    pub mask: RowMap,
    /// Row 1 where the class is found, and the IoU in percent; none for a single support or a weak mask.
    pub found: Option<(RowMap, f64)>,
}

impl SupportCheck {
    /// From this share on, a class is likely to be taken for another.
    pub const CONFUSED: f64 = 25.0;
    /// Below this IoU, supports do not agree on what the class is.
    pub const UNSURE: f64 = 25.0;
    const NEAREST: usize = 3;
    /// Supports per class that are kept to look at.
    const SHOWN: usize = 10;
}

/// Supports are predicted if their number times the number of rows that a pixel is compared with is at most this. Small
/// pictures of 2,000 classes, with all rows of the model in the box, took 75 s of CPU time; photos have more pixels.
const MOST_PREDICTED: usize = 2_000_000;
/// Up to this many are predicted from the others of their class. That takes a classifier for each, so their number times
/// the square of the number of rows is limited too: 210 supports of 21 classes took 24 s of CPU time in all.
const MOST_SUPPORTS: usize = 1000;
const MOST_LEFT_OUT: usize = 20_000_000_000;

/// A support that registration has seen and looks at again.
pub struct SeenSupport {
    /// `[1, d, h, w]`
    pub features: Tensor<4>,
    /// On the canvas.
    pub labels: RowMap,
    /// Width and height of the picture on the canvas.
    pub content: (usize, usize),
    /// The picture, small, if it is to be looked at.
    pub picture: Option<Image>,
    /// What the pack keeps of it.
    pub shot: Shot,
    /// Whether its labels say only roughly where the class is, so that predictions cannot be compared with them.
    pub is_weak: bool,
}

/// Looks at the supports of a pack's classes, as they are used with these parts.
pub struct Checker<'a> {
    model: &'a Model,
    pack: &'a ClassPack,
    usage: &'a Usage,
    predicts: bool,
    leaves_one_out: bool,
    /// Of all classes.
    whole: Segmenter,
    /// One unit row per class.
    means: Tensor<2>,
    /// The row of each class.
    rows: HashMap<String, usize>,
}

impl<'a> Checker<'a> {
    /// For `supports` in all, of `classes`.
    pub fn new(
        model: &'a Model,
        pack: &'a ClassPack,
        usage: &'a Usage,
        supports: usize,
        classes: usize,
    ) -> Result<Self, RegisterError> {
        let whole = segmenter(model, pack, usage)?;
        let rows = whole.classifier().rows.owners.len();
        let leaves_one_out =
            supports <= MOST_SUPPORTS && rows.saturating_mul(rows).saturating_mul(supports) <= MOST_LEFT_OUT;
        let looked_at = if leaves_one_out { supports } else { classes };
        let predicts = looked_at.saturating_mul(rows) <= MOST_PREDICTED;
        let means = unit(whole.classifier().rows.means());
        let names = whole.classes().rows().iter().map(|class| class.name.clone());
        let rows = names.zip(0..).collect();
        Ok(Self { model, pack, usage, predicts, leaves_one_out, whole, means, rows })
    }

    /// Whether supports are predicted.
    pub fn predicts(&self) -> bool {
        self.predicts
    }

    /// Whether supports are predicted from the others of their class. Otherwise the first of each class is enough.
    pub fn leaves_one_out(&self) -> bool {
        self.predicts && self.leaves_one_out
    }

    /// Looks at supports of the class `name`.
    pub fn check(
        &self,
        name: &str,
        supports: impl Iterator<Item = Result<SeenSupport, RegisterError>>,
    ) -> Result<SupportCheck, RegisterError> {
        let Self { model, pack, usage, whole, means, rows, .. } = self;
        let class = pack.class(name)?;
        let row = rows[name];
        let nearest = nearest(means, whole.classifier(), row);

        let mut taken = vec![0u64; whole.classes().rows().len()];
        let mut own = 0u64;
        let mut leave_one_out = Vec::new();
        let mut pictures = Vec::new();
        for support in supports {
            let support = &support?;
            let truth = truth(support);
            let mut found = None;
            let labels = if self.predicts { labels(whole, support) } else { Vec::new() };
            for (&label, _) in labels.iter().zip(&truth).filter(|(_, is_own)| **is_own) {
                taken[usize::from(label)] += 1;
                own += 1;
            }
            if self.leaves_one_out()
                && class.shots.len() > 1
                && !support.is_weak
                && let Some(others) = without(pack, class, &support.shot)
            {
                let others = segmenter(model, &others?, usage)?;
                // The class is still there, with fewer supports, so all rows are those of before.
                let row = row as u16;
                let labels = self::labels(&others, support);
                let iou = iou(&labels, &truth, row);
                leave_one_out.push(iou);
                found = Some((where_true(labels.iter().map(|&label| label == row), support.content), iou));
            }
            if pictures.len() < SupportCheck::SHOWN
                && let Some(image) = support.picture.clone()
            {
                let mask = where_true(truth.iter().copied(), support.content);
                let name = support.shot.image.clone();
                pictures.push(SupportPicture { name, image, mask, found });
            }
        }
        taken[row] = 0;
        let most = (0..taken.len()).max_by_key(|&row| (taken[row], usize::MAX - row));
        let taken = most.filter(|&row| taken[row] > 0).map(|row| {
            (whole.classes().rows()[row].name.clone(), 100.0 * taken[row] as f64 / own.max(1) as f64)
        });
        Ok(SupportCheck { nearest, leave_one_out, taken, pictures })
    }
}

fn segmenter(model: &Model, pack: &ClassPack, usage: &Usage) -> Result<Segmenter, RegisterError> {
    Ok(Segmenter::with_classifier(model, pack.classifier(model, usage)?, usage.clone()))
}

/// A map with row 1 where it is true.
fn where_true(is_true: impl Iterator<Item = bool>, (width, height): (usize, usize)) -> RowMap {
    RowMap::new(width, height, is_true.map(u16::from).collect())
}

/// The pack without one shot of a class.
fn without(pack: &ClassPack, class: &PackClass, shot: &Shot) -> Option<Result<ClassPack, PackError>> {
    let place = class.shots.iter().position(|other| other == shot)?;
    let mut others = class.clone();
    others.shots.remove(place);
    let mut pack = pack.clone();
    Some(pack.remove(&class.name).and_then(|_| pack.add(others)).map(|()| pack))
}

fn nearest(rows: &Tensor<2>, classifier: &Classifier, row: usize) -> Vec<(String, f32)> {
    let own = rows.clone().slice_dim(0, row..row + 1);
    let cosines: Vec<f32> =
        rows.clone().matmul(own.transpose()).try_into_vec_as().expect("prototypes are f32");
    let mut others: Vec<usize> = (0..cosines.len()).filter(|&other| other != row).collect();
    // The lower row first among equals.
    let nearer = |a: &usize, b: &usize| cosines[*b].total_cmp(&cosines[*a]).then(a.cmp(b));
    if others.len() > SupportCheck::NEAREST {
        others.select_nth_unstable_by(SupportCheck::NEAREST, nearer);
        others.truncate(SupportCheck::NEAREST);
    }
    others.sort_by(nearer);
    let named = |other: usize| (classifier.classes.rows()[other].name.clone(), cosines[other]);
    others.into_iter().map(named).collect()
}

/// What is predicted on the picture's part of the canvas.
fn labels(segmenter: &Segmenter, support: &SeenSupport) -> Vec<u16> {
    let grid = segmenter.grid(support.features.clone());
    let placement = segmenter.model().preprocess().grid;
    let RowMap { width, height, .. } = support.labels;
    let labels = ScoreMap::of_canvas(grid, placement, width, height).labels();
    content(&labels, support.content).collect()
}

/// Where the class is, on the picture's part of the canvas.
fn truth(support: &SeenSupport) -> Vec<bool> {
    content(&support.labels, support.content).map(|label| label == SUPPORT_ROW).collect()
}

fn content(map: &RowMap, (width, height): (usize, usize)) -> impl Iterator<Item = u16> + '_ {
    map.data.chunks_exact(map.width.max(1)).take(height).flat_map(move |row| &row[..width]).copied()
}

fn iou(labels: &[u16], truth: &[bool], row: u16) -> f64 {
    let (mut both, mut either) = (0u64, 0u64);
    for (&label, &is_own) in labels.iter().zip(truth) {
        both += u64::from(label == row && is_own);
        either += u64::from(label == row || is_own);
    }
    100.0 * both as f64 / either.max(1) as f64
}
