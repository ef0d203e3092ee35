//! Pixel counts of truth against prediction, and the scores that follow from them.

use serde::{Deserialize, Serialize};

use crate::{IGNORE, RowMap};

/// How often each class was predicted as each other class, summed over any number of images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    classes: usize,
    /// `counts[truth * classes + predicted]`
    counts: Vec<u64>,
}

impl Confusion {
    pub fn new(classes: usize) -> Self {
        Self { classes, counts: vec![0; classes * classes] }
    }

    /// Counts the pixels of one image. Pixels whose truth is [`IGNORE`] are not counted, whatever was predicted
    /// there.
    pub fn add(&mut self, truth: &RowMap, predicted: &RowMap) {
        let sizes = [truth, predicted].map(|map| (map.width, map.height));
        assert_eq!(sizes[0], sizes[1], "truth and prediction differ in size");
        for (&truth, &predicted) in
            truth.data.iter().zip(&predicted.data).filter(|(truth, _)| **truth != IGNORE)
        {
            self.counts[usize::from(truth) * self.classes + usize::from(predicted)] += 1;
        }
    }

    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The counts, `classes * classes`: one row per true class, one column per predicted class.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Whether both count the same number of classes, and so can be added. Check counts that were read from a file.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        self.classes == other.classes && self.counts.len() == other.counts.len()
    }

    /// Adds other counts, such as those of another thread.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.classes, other.classes, "counts of different classifiers");
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// Intersection over union of a class; `None` if the class neither occurs nor is predicted.
    pub fn iou(&self, class: usize) -> Option<f64> {
        let row: u64 = self.counts[class * self.classes..][..self.classes].iter().sum();
        let column: u64 = self.counts.iter().skip(class).step_by(self.classes).sum();
        let hit = self.counts[class * self.classes + class];
        let union = row + column - hit;
        (union > 0).then(|| hit as f64 / union as f64)
    }

    /// Mean IoU over those of these classes that have one; `None` if none has.
    pub fn mean_iou(&self, classes: impl IntoIterator<Item = usize>) -> Option<f64> {
        let ious: Vec<f64> = classes.into_iter().filter_map(|class| self.iou(class)).collect();
        (!ious.is_empty()).then(|| ious.iter().sum::<f64>() / ious.len() as f64)
    }

    /// Share of the counted pixels that are right; `None` if no pixel was counted.
    pub fn pixel_accuracy(&self) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        let right: u64 = self.counts.iter().step_by(self.classes + 1).sum();
        (all > 0).then(|| right as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(labels: &[u16]) -> RowMap {
        RowMap::new(labels.len(), 1, labels.to_vec())
    }

    #[test]
    fn six_pixels_by_hand() {
        let mut counts = Confusion::new(4);
        counts.add(&map(&[0, 0, 1, 1, IGNORE, 2]), &map(&[0, 1, 1, 1, 0, 0]));
        // Class 0: hit 1, truth 2, predicted 2 -> 1/3. Class 1: hit 2, truth 2, predicted 3 -> 2/3. Class 2 is
        // missed.
        assert_eq!(counts.iou(0), Some(1.0 / 3.0));
        assert_eq!(counts.iou(1), Some(2.0 / 3.0));
        assert_eq!(counts.iou(2), Some(0.0));
        assert_eq!(counts.iou(3), None);
        assert_eq!(counts.mean_iou(0..4), Some((1.0 / 3.0 + 2.0 / 3.0) / 3.0));
        assert_eq!(counts.mean_iou(3..4), None);
        assert_eq!(counts.pixel_accuracy(), Some(3.0 / 5.0));
    }

    proptest! {
        #[test]
        fn a_perfect_prediction_scores_one_and_order_does_not_matter(
            a in proptest::collection::vec(0u16..5, 1..40),
            b in proptest::collection::vec(0u16..5, 1..40),
        ) {
            let mut counts = Confusion::new(5);
            counts.add(&map(&a), &map(&a));
            counts.add(&map(&b), &map(&b));
            prop_assert_eq!(counts.mean_iou(0..5), Some(1.0));
            let mut other = Confusion::new(5);
            other.add(&map(&b), &map(&b));
            let mut first = Confusion::new(5);
            first.add(&map(&a), &map(&a));
            other.merge(&first);
            prop_assert_eq!(other, counts);
        }
    }
}
