//! Pascal-5^i: our rules on the counts of all 12,031 real label maps.

use std::path::Path;

use protoseg_core::{
    BaseUse, ClassId, ClassTable, FoldScheme, ImageStats, MIN_SUPPORT_PIXELS, NovelPixels, SupportUse,
};
use protoseg_data::reader::voc::VOC_CLASSES;
use protoseg_testing::shared;

/// Pool and usable supports of each novel class.
type Supports = [(usize, usize); 5];

/// Of the 10,582 training images: kept under `drop`, kept under `ignore` and `background`, and for each novel class
/// its pool and its usable supports. From a separate script.
const FIGURES: [(usize, usize, Supports); 4] = [
    (7746, 8829, [(586, 385), (486, 237), (696, 319), (448, 227), (620, 154)]),
    (6978, 8713, [(385, 227), (952, 535), (994, 829), (1014, 430), (259, 169)]),
    (5040, 7679, [(528, 157), (1173, 775), (440, 178), (478, 184), (2923, 1902)]),
    (8437, 9568, [(487, 149), (299, 182), (427, 308), (491, 414), (441, 232)]),
];

fn read_counts(path: &Path, split: &str) -> Vec<ImageStats> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let parse = |row: Vec<&str>| {
        let (width, height) = row[2].split_once('x').unwrap();
        let mut stats = ImageStats {
            width: width.parse().unwrap(),
            height: height.parse().unwrap(),
            ..ImageStats::default()
        };
        for entry in row[3].split(' ') {
            let (id, pixels) = entry.split_once(':').unwrap();
            match id.parse().unwrap() {
                255 => stats.ignored = pixels.parse().unwrap(),
                id => stats.counts.push((ClassId(id), pixels.parse().unwrap())),
            }
        }
        let labelled: u64 = stats.counts.iter().map(|(_, pixels)| pixels).sum();
        assert_eq!(labelled + stats.ignored, (stats.width * stats.height) as u64);
        stats
    };
    rows.filter(|row| row[0] == split).map(parse).collect()
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn images_kept_and_usable_supports_of_every_fold() {
    let path = shared("data/pascal-5i/classes.tsv");
    let (train, val) = (read_counts(&path, "train_aug"), read_counts(&path, "val"));
    assert_eq!((train.len(), val.len()), (10_582, 1_449));
    let table = ClassTable::from_names(&VOC_CLASSES, &[255]).unwrap();
    assert!(train.iter().chain(&val).all(|stats| stats.has_foreground(&table)));
    for (fold, (drop, ignore, supports)) in FoldScheme::Pascal5i.folds(&table).unwrap().iter().zip(FIGURES) {
        let kept =
            |novel| train.iter().filter(|stats| stats.base_use(&table, fold, novel) == BaseUse::Keep).count();
        let all = [NovelPixels::Drop, NovelPixels::Ignore, NovelPixels::Background].map(kept);
        assert_eq!(all, [drop, ignore, ignore], "fold {}", fold.index);
        let figures = fold.novel().iter().map(|&class| {
            let pool = train.iter().filter(|stats| stats.support_pool(fold) == Some(class)).count();
            let usable = train
                .iter()
                .filter(|stats| stats.support_use(fold, class, MIN_SUPPORT_PIXELS) == SupportUse::Usable);
            (pool, usable.count())
        });
        assert_eq!(figures.collect::<Vec<_>>(), supports, "fold {}", fold.index);
    }
}
