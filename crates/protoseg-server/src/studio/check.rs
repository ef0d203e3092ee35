//! What the supports say of each other, and where the model is least sure. Both follow from what was seen; they are found
//! out in the background, when strokes rest.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use protoseg::{Prediction, method::Seen, picture::thumbnail_size};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    labels::nearest,
    paint::{Paint, UNPAINTED},
    state::{Studio, Taught},
};

/// A painted photo, labelled by what the other photos taught.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Check {
    /// The class.
    pub class: u8,
    /// The photo.
    pub photo: u32,
    /// IoU on painted pixels, from 0 to 1; none if no other photo teaches the class.
    pub iou: Option<f64>,
    /// Classes that painted pixels of this one are taken for, most first; 0 is everything else.
    pub confused_with: Vec<Confused>,
}

/// A class that pixels are taken for.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Confused {
    /// The class.
    pub class: u8,
    /// Their share, from 0 to 1.
    pub share: f64,
}

/// What was found out.
#[derive(Debug, Default)]
pub struct Checks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    revision: u32,
    checks: Vec<Check>,
    unsure: HashMap<u32, (u32, f64)>,
}

/// Side of the copies that are compared.
const SIDE: usize = 256;
/// Side of the copies on which the model's doubts are counted.
const SMALL: usize = 64;
/// The share of a photo's pixels, the least sure ones, that its doubt is the mean of.
const LEAST_SURE: f64 = 0.25;
/// Smaller shares are no confusion.
const LEAST_SHARE: f64 = 0.02;

impl Checks {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checks and the revision that they are of.
    pub fn get(&self) -> (u32, Vec<Check>) {
        let inner = self.lock();
        (inner.revision, inner.checks.clone())
    }

    /// The revision that the checks are of.
    pub fn revision(&self) -> u32 {
        self.lock().revision
    }

    pub fn put(&self, revision: u32, checks: Vec<Check>) {
        let mut inner = self.lock();
        (inner.revision, inner.checks) = (revision, checks);
    }

    /// How unsure the model is of a photo, from 0 to 1, as far as that is known.
    pub fn unsure(&self, photo: u32) -> Option<f64> {
        self.lock().unsure.get(&photo).map(|(_, doubt)| *doubt)
    }

    /// Whether that is of this revision.
    pub fn is_fresh(&self, photo: u32, revision: u32) -> bool {
        self.lock().unsure.get(&photo).is_some_and(|(of, _)| *of == revision)
    }

    pub fn put_unsure(&self, photo: u32, revision: u32, doubt: f64) {
        self.lock().unsure.insert(photo, (revision, doubt));
    }

    /// The photo that the model is least sure of, but for some.
    pub fn least_sure(&self, but: &[u32]) -> Option<(u32, f64)> {
        let inner = self.lock();
        let others = inner.unsure.iter().filter(|(photo, _)| !but.contains(photo));
        // The lower number wins a tie.
        let least = others.max_by(|a, b| a.1.1.total_cmp(&b.1.1).then(b.0.cmp(a.0)));
        least.map(|(photo, (_, doubt))| (*photo, *doubt))
    }
}

/// How unsure the model is of a photo: the mean doubt of the least sure quarter.
pub fn doubt(taught: &Taught, seen: &Seen, size: (usize, usize)) -> f64 {
    let at = thumbnail_size(size.0, size.1, SMALL);
    let prediction = taught.segmenter.predict_seen(seen, size, at);
    let mut confidence = prediction.confidence().to_vec();
    confidence.sort_unstable_by(f32::total_cmp);
    let count = ((LEAST_SURE * confidence.len() as f64).ceil() as usize).clamp(1, confidence.len().max(1));
    let least: f64 = confidence.iter().take(count).map(|&sure| 1.0 - f64::from(sure)).sum();
    (least / count as f64).clamp(0.0, 1.0)
}

/// Looks at one painted photo with a classifier that did not learn from it, or with all if there is no other.
pub fn check(taught: &Taught, seen: &Seen, paint: &Paint, class: u8, photo: u32, is_only: bool) -> Check {
    let size = (paint.width, paint.height);
    let at = thumbnail_size(size.0, size.1, SIDE);
    let prediction: Prediction = taught.segmenter.predict_seen(seen, size, at);
    let found = taught.ids_of(&prediction.labels().data);
    let painted = nearest(&paint.pixels(), size, at);
    let (mut both, mut either, mut own) = (0u64, 0u64, 0u64);
    let mut taken = [0u64; 256];
    for (&found, &painted) in found.iter().zip(&painted).filter(|(_, painted)| **painted != UNPAINTED) {
        both += u64::from(found == class && painted == class);
        either += u64::from(found == class || painted == class);
        if painted == class {
            own += 1;
            taken[usize::from(found)] += 1;
        }
    }
    let share = |class: usize| taken[class] as f64 / own.max(1) as f64;
    let others = (0..254usize).filter(|other| *other != usize::from(class) && share(*other) >= LEAST_SHARE);
    let mut confused: Vec<Confused> =
        others.map(|class| Confused { class: class as u8, share: share(class) }).collect();
    confused.sort_by(|a, b| b.share.total_cmp(&a.share));
    let iou = (!is_only && either > 0).then(|| both as f64 / either as f64);
    Check { class, photo, iou, confused_with: confused }
}

/// Finds out what the supports of the project say of each other. Nothing if it changes meanwhile, or somebody waits for
/// a photo.
pub fn check_all(studio: &Studio) -> Option<(u32, Vec<Check>)> {
    let (revision, pairs) = studio.left_out();
    let mut checks = Vec::new();
    for (class, photo, is_only) in pairs {
        studio.stand_back();
        if studio.taught().revision != revision || studio.features.is_stopped() {
            return None;
        }
        let taught = match is_only {
            true => studio.taught(),
            false => std::sync::Arc::new(studio.without(class, photo, revision)?),
        };
        let paint = studio.project(|project| project.paints.get(&photo).cloned())?;
        let seen = match studio.features.peek(photo) {
            Some(seen) => seen,
            None => {
                let of = studio.photos.get(photo).ok()?;
                let Ok(image) = studio.photos.read(&of) else { continue };
                std::sync::Arc::new(studio.features.look(&image))
            }
        };
        checks.push(check(&taught, &seen, &paint, class, photo, is_only));
    }
    Some((revision, checks))
}
