//! Turns counts into scores under a published protocol. Every score carries the name of its protocol.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ClassRole, Classes, Confusion};

/// How a data set is scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Ours: every pixel of the original image is evaluated at its own place. Base includes the background; supports
    /// come from the training split.
    #[default]
    Exact,
    /// A, from CAPL and its reference: as in the reference, scores are stretched to a square with the image's longer
    /// side, and a class that never occurs counts as 0.
    Reference,
    /// B, from DIaM and BCM: the means leave out the background, and supports come from the split that is evaluated.
    B,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Exact, Self::Reference, Self::B];

    /// Whether supports come from the split that is evaluated instead of the training split.
    pub fn takes_supports_from_val(self) -> bool {
        self == Self::B
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Reference => "reference",
            Self::B => "b",
        })
    }
}

/// The name is not a protocol's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a protocol\nhint: choose `exact`, `reference` (also called `a`) or `b`")]
pub struct UnknownProtocol(String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Self, UnknownProtocol> {
        match name.to_lowercase().as_str() {
            "exact" => Ok(Self::Exact),
            "reference" | "a" => Ok(Self::Reference),
            "b" => Ok(Self::B),
            _ => Err(UnknownProtocol(name.to_string())),
        }
    }
}

/// The scores that are always reported, in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Mean IoU of the base classes; includes the background except under [`Protocol::B`].
    pub base: f64,
    pub base_with_background: f64,
    pub base_without_background: f64,
    pub novel: f64,
    /// Mean IoU of all classes in `base` and `novel`.
    pub total: f64,
    /// The mean of `base` and `novel`.
    pub mean: f64,
    pub harmonic_mean: f64,
    pub pixel_accuracy: f64,
    /// IoU of every row; `None` if a class neither occurs nor is predicted.
    pub iou: Vec<Option<f64>>,
}

impl Scores {
    /// The scores of a classifier with these classes.
    pub fn of(counts: &Confusion, classes: &Classes, protocol: Protocol) -> Self {
        let percent = |share: f64| 100.0 * share;
        let iou: Vec<Option<f64>> =
            (0..classes.rows().len()).map(|row| counts.iou(row).map(percent)).collect();
        let mean = |wanted: &dyn Fn(ClassRole) -> bool| {
            let rows = classes.rows().iter().zip(&iou).filter(|(class, _)| wanted(class.role));
            let absent = (protocol == Protocol::Reference).then_some(0.0);
            let values: Vec<f64> = rows.filter_map(|(_, iou)| iou.or(absent)).collect();
            if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
        };
        let with_background = mean(&|role| role != ClassRole::Novel);
        let without_background = mean(&|role| role == ClassRole::Base);
        let novel = mean(&|role| role == ClassRole::Novel);
        let (base, total) = match protocol {
            Protocol::B => (without_background, mean(&|role| role != ClassRole::Background)),
            _ => (with_background, mean(&|_| true)),
        };
        Self {
            base,
            base_with_background: with_background,
            base_without_background: without_background,
            novel,
            total,
            mean: (base + novel) / 2.0,
            harmonic_mean: if base + novel > 0.0 { 2.0 * base * novel / (base + novel) } else { 0.0 },
            pixel_accuracy: percent(counts.pixel_accuracy().unwrap_or(0.0)),
            iou,
        }
    }
}

/// Mean and standard deviation of a value over the support seeds, or over the runs of episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub mean: f64,
    /// Population standard deviation, as numpy's `std` ([`Spread::of`]), or that of a sample ([`Spread::of_sample`]);
    /// 0 for a single value.
    pub std: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self { mean, std: variance.sqrt() }
    }

    /// With the standard deviation of a sample: the sum of squares is divided by one less than the number of values.
    pub fn of_sample(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let spread = Self::of(values.iter().copied());
        let count = values.len() as f64;
        let std = if values.len() > 1 { spread.std * (count / (count - 1.0)).sqrt() } else { 0.0 };
        Self { std, ..spread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowMap;

    /// Rows: background, cow, duck (novel), boat (novel, never seen). 4 of 6 background pixels, 1 of 2 cows, 2 of 2
    /// ducks.
    fn scores(protocol: Protocol) -> Scores {
        let classes = Classes::new(&["background", "cow"], &["duck", "boat"]).unwrap();
        let mut counts = Confusion::new(4);
        let map = |labels: [u16; 10]| RowMap::new(10, 1, labels.to_vec());
        counts.add(&map([0, 0, 0, 0, 0, 0, 1, 1, 2, 2]), &map([0, 0, 0, 0, 2, 2, 1, 0, 2, 2]));
        Scores::of(&counts, &classes, protocol)
    }

    #[test]
    fn ten_pixels_by_hand() {
        // IoU: background 4 / 7, cow 1 / 2, duck 2 / 4, boat none.
        let (background, cow, duck) = (400.0 / 7.0, 50.0, 50.0);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        let exact = scores(Protocol::Exact);
        close(exact.base, (background + cow) / 2.0);
        close(exact.base_without_background, cow);
        close(exact.novel, duck);
        close(exact.total, (background + cow + duck) / 3.0);
        close(exact.mean, (exact.base + duck) / 2.0);
        close(exact.harmonic_mean, 2.0 * exact.base * duck / (exact.base + duck));
        close(exact.pixel_accuracy, 70.0);
        assert_eq!(exact.iou[3], None);
    }

    #[test]
    fn protocols_differ_in_background_and_absent_classes() {
        let reference = scores(Protocol::Reference);
        assert_eq!(reference.novel, 25.0);
        let b = scores(Protocol::B);
        assert_eq!((b.base, b.novel, b.total, b.mean), (50.0, 50.0, 50.0, 50.0));
        assert_eq!("A".parse(), Ok(Protocol::Reference));
        assert!(Protocol::ALL.iter().all(|protocol| protocol.to_string().parse() == Ok(*protocol)));
    }

    #[test]
    fn spread_of_three_by_hand() {
        let spread = Spread::of([1.0, 2.0, 6.0]);
        assert_eq!(spread.mean, 3.0);
        assert!((spread.std - (14f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of([5.0]).std, 0.0);
        let sample = Spread::of_sample([1.0, 2.0, 6.0]);
        assert_eq!(sample.mean, 3.0);
        assert!((sample.std - 7f64.sqrt()).abs() < 1e-12);
        assert_eq!((Spread::of_sample([5.0]).std, Spread::of_sample([])), (0.0, Spread::default()));
    }
}
