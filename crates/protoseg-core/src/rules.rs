//! Decides what an image is used for, from the number of pixels of each class in it.

use serde::{Deserialize, Serialize};

use crate::{ClassId, ClassTable, Fold, IGNORE, IdMap, NovelPixels};

/// How many pixels of each id an image holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageStats {
    pub width: usize,
    pub height: usize,
    /// The ids that occur, in ascending order, each with its number of pixels; never [`IGNORE`].
    pub counts: Vec<(ClassId, u64)>,
    /// Pixels without a label.
    pub ignored: u64,
}

/// Whether an image is used to train the base classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseUse {
    Keep,
    /// It holds a novel class, and the rule is [`NovelPixels::Drop`].
    HoldsNovel,
    /// It has no pixel of a base class other than the background.
    NoForeground,
}

/// Whether an image can be a support of a novel class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupportUse {
    Usable,
    /// The class is not its lowest novel id (or does not occur), so the image is not in the pool of that class.
    OtherClass,
    /// It is in the pool, but also holds another novel class.
    HoldsOtherNovel,
    /// It is in the pool, but holds too few pixels of the class.
    TooSmall,
}

impl ImageStats {
    /// Counts the ids of a label map.
    pub fn of(labels: &IdMap) -> Self {
        let highest = labels.data.iter().copied().filter(|&label| label != IGNORE).max();
        let mut histogram = vec![0u64; highest.map_or(0, |highest| usize::from(highest) + 1)];
        let mut ignored = 0;
        for &label in &labels.data {
            match histogram.get_mut(usize::from(label)) {
                Some(count) => *count += 1,
                None => ignored += 1,
            }
        }
        let counts = (0u16..).zip(histogram).filter(|&(_, count)| count > 0);
        let counts = counts.map(|(id, count)| (ClassId(id), count)).collect();
        Self { width: labels.width, height: labels.height, counts, ignored }
    }

    pub fn pixels(&self, id: ClassId) -> u64 {
        self.counts.iter().find(|&&(other, _)| other == id).map_or(0, |&(_, pixels)| pixels)
    }

    /// The ids with at least one pixel, in the order of [`Self::counts`].
    pub fn present(&self) -> impl Iterator<Item = ClassId> {
        self.counts.iter().filter(|&&(_, pixels)| pixels > 0).map(|&(id, _)| id)
    }

    /// Whether any class other than the background occurs. Images without one are skipped in training and evaluation.
    /// In a data set without a background, only images without any label are skipped.
    pub fn has_foreground(&self, table: &ClassTable) -> bool {
        self.present().any(|id| Some(id) != table.background())
    }

    /// Whether the image is used to train the fold's base classes.
    pub fn base_use(&self, table: &ClassTable, fold: &Fold, novel: NovelPixels) -> BaseUse {
        if novel == NovelPixels::Drop && self.present().any(|id| fold.is_novel(id)) {
            BaseUse::HoldsNovel
        } else if !self.present().any(|id| Some(id) != table.background() && !fold.is_novel(id)) {
            BaseUse::NoForeground
        } else {
            BaseUse::Keep
        }
    }

    /// The novel class whose support pool holds the image: its lowest novel id.
    pub fn support_pool(&self, fold: &Fold) -> Option<ClassId> {
        self.present().filter(|&id| fold.is_novel(id)).min()
    }

    /// Whether the image can be a support of the novel class: it is in the class's pool, holds no other novel class
    /// and has at least `min_pixels` pixels of the class.
    pub fn support_use(&self, fold: &Fold, class: ClassId, min_pixels: u64) -> SupportUse {
        if self.support_pool(fold) != Some(class) {
            SupportUse::OtherClass
        } else if self.present().any(|id| id != class && fold.is_novel(id)) {
            SupportUse::HoldsOtherNovel
        } else if self.pixels(class) < min_pixels {
            SupportUse::TooSmall
        } else {
            SupportUse::Usable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(counts: &[(u16, u64)]) -> ImageStats {
        let counts = counts.iter().map(|&(id, pixels)| (ClassId(id), pixels)).collect();
        ImageStats { counts, ..ImageStats::default() }
    }

    fn world() -> (ClassTable, Fold) {
        let table = ClassTable::from_names(&["background", "cow", "duck", "boat", "car"], &[255]).unwrap();
        let fold = Fold::new(&table, 0, &[ClassId(2), ClassId(3)]).unwrap();
        (table, fold)
    }

    #[test]
    fn counts_leave_ignored_pixels_out() {
        let labels = IdMap::new(3, 2, vec![4, 4, 0, IGNORE, 2, 4]);
        let stats = ImageStats::of(&labels);
        assert_eq!(stats.counts, [(ClassId(0), 1), (ClassId(2), 1), (ClassId(4), 3)]);
        assert_eq!((stats.ignored, stats.width, stats.height), (1, 3, 2));
        assert_eq!(ImageStats::of(&IdMap::new(1, 1, vec![IGNORE])).counts, []);
    }

    #[test]
    fn foreground_is_anything_but_background() {
        let (table, _) = world();
        assert!(!stats(&[(0, 9)]).has_foreground(&table));
        assert!(stats(&[(0, 9), (3, 1)]).has_foreground(&table));
        let bare = ClassTable::from_names(&["grass", "cow"], &[255]).unwrap();
        assert!(stats(&[(0, 9)]).has_foreground(&bare));
        assert!(!stats(&[]).has_foreground(&bare));
    }

    #[test]
    fn base_training_keeps_what_the_rule_leaves() {
        let (table, fold) = world();
        let decide = |counts: &[(u16, u64)]| {
            [NovelPixels::Drop, NovelPixels::Ignore].map(|novel| stats(counts).base_use(&table, &fold, novel))
        };
        assert_eq!(decide(&[(0, 5), (1, 5)]), [BaseUse::Keep, BaseUse::Keep]);
        assert_eq!(decide(&[(1, 5), (2, 1)]), [BaseUse::HoldsNovel, BaseUse::Keep]);
        assert_eq!(decide(&[(0, 5), (2, 1)]), [BaseUse::HoldsNovel, BaseUse::NoForeground]);
        assert_eq!(decide(&[(0, 5)]), [BaseUse::NoForeground, BaseUse::NoForeground]);
    }

    #[test]
    fn a_support_holds_its_class_alone_and_enough_of_it() {
        let (_, fold) = world();
        let decide =
            |counts: &[(u16, u64)]| [2, 3].map(|class| stats(counts).support_use(&fold, ClassId(class), 10));
        assert_eq!(decide(&[(0, 1), (1, 7), (2, 10)]), [SupportUse::Usable, SupportUse::OtherClass]);
        assert_eq!(decide(&[(2, 9)]), [SupportUse::TooSmall, SupportUse::OtherClass]);
        assert_eq!(decide(&[(2, 50), (3, 50)]), [SupportUse::HoldsOtherNovel, SupportUse::OtherClass]);
        assert_eq!(decide(&[(3, 10), (4, 1)]), [SupportUse::OtherClass, SupportUse::Usable]);
        assert_eq!(decide(&[(1, 50)]), [SupportUse::OtherClass, SupportUse::OtherClass]);
    }
}
