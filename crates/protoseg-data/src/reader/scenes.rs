//! Scenes, the data set that needs no files: samples are drawn on demand.

use std::path::PathBuf;
use std::sync::OnceLock;

use protoseg_core::{ClassId, ClassTable, Fold, FoldError, IdMap, Image};
use protoseg_scenes::{CLASS_NAMES, Scenes, novel_classes};

use crate::shapes::Labels;
use crate::{Contents, DataError, Dataset, Sample, Split};

/// The name of the data set.
pub const NAME: &str = "scenes";

/// Number of scenes to train on, number to evaluate on, and the seeds of their worlds.
const SPLITS: [(&str, usize, u64); 2] = [("train", 2400, 1), ("val", 300, 2)];
const WIDTH: usize = 128;
const HEIGHT: usize = 128;
const N_FOLDS: usize = 4;

/// One pixel in twenty. Things smaller than this are too small or too hidden to be an example.
pub const MIN_SUPPORT_PIXELS: u64 = (WIDTH * HEIGHT / 20) as u64;

/// The embedded world as a data set. A scene is drawn on first use and kept, at 80 KiB each, because a training run
/// needs it again every epoch.
pub struct ScenesDataset {
    contents: Contents,
    drawn: Vec<OnceLock<(Image, IdMap)>>,
}

/// The data set; nothing is drawn yet.
pub fn open() -> ScenesDataset {
    let classes = ClassTable::from_names(&CLASS_NAMES, &[]).expect("the embedded names are a table");
    let mut samples = Vec::new();
    let mut splits = Vec::new();
    for (split, count, _) in SPLITS {
        let start = samples.len();
        samples.extend((0..count).map(|index| {
            let name = format!("{NAME}/{split}/{index:04}");
            Sample { image: PathBuf::from(&name), label: Some(PathBuf::from(&name)), name }
        }));
        splits.push(Split { name: split.to_string(), samples: (start..samples.len()).collect() });
    }
    let drawn = samples.iter().map(|_| OnceLock::new()).collect();
    ScenesDataset { contents: Contents { name: NAME.to_string(), classes, samples, splits }, drawn }
}

/// Four folds of five classes.
pub fn folds(table: &ClassTable) -> Result<Vec<Fold>, FoldError> {
    (0..N_FOLDS).map(|fold| Fold::new(table, fold, &novel_classes(fold).map(ClassId))).collect()
}

/// Scenes of a world of their own, at any size: the picture and its labels, by number.
pub fn draw_scene(seed: u64, width: usize, height: usize, index: u64) -> (Image, IdMap) {
    Scenes { seed, width, height }.draw(index)
}

impl ScenesDataset {
    fn scene(&self, index: usize) -> &(Image, IdMap) {
        self.drawn[index].get_or_init(|| self.draw(index))
    }

    fn draw(&self, index: usize) -> (Image, IdMap) {
        let mut place = index;
        let mut splits = SPLITS.iter();
        let seed = loop {
            match splits.next() {
                Some(&(_, count, _)) if place >= count => place -= count,
                Some(&(_, _, seed)) => break seed,
                None => panic!("scene {index} is not among {}", self.contents.samples.len()),
            }
        };
        Scenes { seed, width: WIDTH, height: HEIGHT }.draw(place as u64)
    }
}

impl Dataset for ScenesDataset {
    fn contents(&self) -> &Contents {
        &self.contents
    }

    fn labels(&self, index: usize) -> Result<Labels, DataError> {
        Ok(self.scene(index).1.clone().into())
    }

    fn image(&self, index: usize) -> Result<Image, DataError> {
        Ok(self.scene(index).0.clone())
    }

    fn has_image(&self, _: usize) -> bool {
        true
    }

    fn load(&self, index: usize) -> Result<(Image, IdMap), DataError> {
        Ok(self.scene(index).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_of_different_worlds() {
        let scenes = open();
        let [train, val] = [&scenes.contents.splits[0], &scenes.contents.splits[1]];
        assert_eq!((train.samples.len(), val.samples.len()), (2400, 300));
        let first = |split: &Split| scenes.load(split.samples[0]).unwrap();
        assert_ne!(first(train).0, first(val).0);
        assert_eq!(first(val), (scenes.image(2400).unwrap(), scenes.labels(2400).unwrap().map));
    }

    #[test]
    fn every_fold_has_five_novel_classes_and_a_background() {
        let scenes = open();
        let folds = folds(&scenes.contents.classes).unwrap();
        assert_eq!(folds.len(), 4);
        assert!(folds.iter().all(|fold| fold.novel().len() == 5));
        assert_eq!(scenes.contents.classes.background(), Some(ClassId(0)));
    }
}
