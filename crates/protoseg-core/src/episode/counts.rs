//! Pixel counts of episodes, and the two scores that follow from them.

use serde::{Deserialize, Serialize};

use crate::{Confusion, RowMap};

/// Rows of an answer: everything else, and the class.
const BACKGROUND: usize = 0;
const FOREGROUND: usize = 1;

/// Pixels by truth and answer, summed over the episodes of one run, for each novel class of a fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeCounts {
    classes: Vec<Confusion>,
    episodes: Vec<u64>,
}

/// What the counts of a run come to, in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpisodeScores {
    /// Mean over the classes of the IoU of the class, each summed over its episodes. Classes without an episode are
    /// left out.
    pub class_miou: f64,
    /// Mean of the IoU of foreground and of background, both summed over all episodes.
    pub fb_iou: f64,
    /// IoU of every class; `None` if no episode asked for it.
    pub iou: Vec<Option<f64>>,
    /// Number of episodes of every class.
    pub episodes: Vec<u64>,
}

impl EpisodeCounts {
    /// Counts of a fold with this many novel classes.
    pub fn new(n_classes: usize) -> Self {
        Self { classes: vec![Confusion::new(2); n_classes], episodes: vec![0; n_classes] }
    }

    /// Counts the answer of an episode of the class at place `class`. In both maps 1 is the class and 0 everything
    /// else. Pixels whose truth is [`IGNORE`](crate::IGNORE) are not counted.
    pub fn add(&mut self, class: usize, truth: &RowMap, answer: &RowMap) {
        let mut counts = Confusion::new(2);
        counts.add(truth, answer);
        self.add_counts(class, &counts);
    }

    /// The same with the pixels of the episode already counted.
    pub fn add_counts(&mut self, class: usize, episode: &Confusion) {
        self.classes[class].merge(episode);
        self.episodes[class] += 1;
    }

    /// Adds the counts of other episodes of the same run.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.classes.len(), other.classes.len(), "counts of different folds");
        self.classes.iter_mut().zip(&other.classes).for_each(|(own, more)| own.merge(more));
        self.episodes.iter_mut().zip(&other.episodes).for_each(|(own, more)| *own += more);
    }

    /// The scores.
    pub fn scores(&self) -> EpisodeScores {
        let percent = |share: f64| 100.0 * share;
        let iou: Vec<Option<f64>> =
            self.classes.iter().map(|counts| counts.iou(FOREGROUND).map(percent)).collect();
        let known: Vec<f64> = iou.iter().copied().flatten().collect();
        let mut all = Confusion::new(2);
        self.classes.iter().for_each(|counts| all.merge(counts));
        EpisodeScores {
            class_miou: known.iter().sum::<f64>() / known.len().max(1) as f64,
            fb_iou: percent(all.mean_iou([BACKGROUND, FOREGROUND]).unwrap_or(0.0)),
            iou,
            episodes: self.episodes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::IGNORE;

    fn map(labels: &[u16]) -> RowMap {
        RowMap::new(labels.len(), 1, labels.to_vec())
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn three_episodes_by_hand() {
        let mut counts = EpisodeCounts::new(3);
        // Class 0, twice: intersection 2 + 0, union 3 + 1.
        counts.add(0, &map(&[1, 1, 0, 0, IGNORE]), &map(&[1, 1, 1, 0, 1]));
        counts.add(0, &map(&[1, 0, 0]), &map(&[0, 0, 0]));
        // Class 2: intersection 1, union 2.
        counts.add(2, &map(&[1, 1, 0, 0]), &map(&[1, 0, 0, 0]));
        let scores = counts.scores();
        assert_eq!(scores.iou, [Some(50.0), None, Some(50.0)]);
        assert_eq!(scores.episodes, [2, 0, 1]);
        close(scores.class_miou, 50.0);
        // Foreground: 3 of 6. Background: 1 + 2 + 2 hits; union 2 + 3 + 3.
        close(scores.fb_iou, 100.0 * (3.0 / 6.0 + 5.0 / 8.0) / 2.0);
    }

    #[test]
    fn a_large_class_does_not_outweigh_a_small_one_in_class_miou() {
        let mut counts = EpisodeCounts::new(2);
        counts.add(0, &map(&[1; 90]), &map(&[1; 90]));
        counts.add(1, &map(&[1, 0]), &map(&[0, 0]));
        let scores = counts.scores();
        close(scores.class_miou, 50.0);
        close(scores.fb_iou, 100.0 * (90.0 / 91.0 + 1.0 / 2.0) / 2.0);
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_matter_and_the_truth_scores_100(
            episodes in proptest::collection::vec(
                (0usize..3, proptest::collection::vec((0u16..2, 0u16..2), 1..30)), 1..12),
            cut in 0usize..12,
        ) {
            let maps: Vec<(usize, RowMap, RowMap)> = episodes
                .iter()
                .map(|(class, pixels)| {
                    let (truth, answer): (Vec<u16>, Vec<u16>) = pixels.iter().copied().unzip();
                    (*class, map(&truth), map(&answer))
                })
                .collect();
            let count = |part: &mut dyn Iterator<Item = &(usize, RowMap, RowMap)>| {
                let mut counts = EpisodeCounts::new(3);
                part.for_each(|(class, truth, answer)| counts.add(*class, truth, answer));
                counts
            };
            let whole = count(&mut maps.iter());
            let cut = cut.min(maps.len());
            let mut parts = count(&mut maps[cut..].iter().rev());
            parts.merge(&count(&mut maps[..cut].iter()));
            prop_assert_eq!(&parts, &whole);

            let mut perfect = EpisodeCounts::new(3);
            maps.iter().for_each(|(class, truth, _)| perfect.add(*class, truth, truth));
            let scores = perfect.scores();
            prop_assert!(scores.iou.iter().flatten().all(|iou| *iou == 100.0));
            prop_assert_eq!(scores.fb_iou, 100.0);
            let scores = whole.scores();
            prop_assert!((0.0..=100.0).contains(&scores.class_miou) && (0.0..=100.0).contains(&scores.fb_iou));
        }
    }
}
