//! A data set with its folds and rules: by name, from a folder, or from a short TOML file.

use std::path::Path;

use protoseg_core::{
    Fold, FoldError, FoldScheme, IdMap, Image, MIN_SUPPORT_PIXELS, NovelPixels, Remap, RemapError, RowMap,
    SupportDraw,
};

use crate::reader::folder::{self, FolderOptions};
use crate::reader::{coco, cvat, labelme, msrc, scenes, voc, yolo};
use crate::scan::unknown_id;
use crate::{DataError, Dataset, files, spec};

/// The benchmarks that are known by name.
pub const BENCHMARKS: [&str; 5] = [scenes::NAME, "pascal-5i", "coco-20i", "coco-20i-contiguous", "msrc"];

/// The file that describes a data set, in its folder.
pub const SPEC_FILE: &str = "protoseg.toml";

/// The fewest pixels of its class that a support must hold in data sets with MSRC's layout (MSRC images: 320 x 213).
const MSRC_MIN_SUPPORT_PIXELS: u64 = 2_000;

const LAYOUTS: &str = "`protoseg.toml`; `classes.txt` with `train.txt` of pairs; `labelmap.txt` with `SegmentationClass` (CVAT); \
`JPEGImages` (VOC); `annotations/instances_*.json` (COCO); `data.yaml` (YOLO); `images` with `masks`; JSON of LabelMe";

/// A data set with its folds and the rules that results state.
pub struct Benchmark {
    pub dataset: Box<dyn Dataset>,
    /// At least one fold. If nothing says which classes are novel, one fold without novel classes.
    pub folds: Vec<Fold>,
    /// What happens to novel pixels while the base classes are trained.
    pub novel_pixels: NovelPixels,
    /// The fewest pixels of its class that a drawn support must hold.
    pub min_support_pixels: u64,
    /// The split used to train the base classes and to draw supports.
    pub train: String,
    /// The split used for evaluation; `None` if the data set has a single split.
    pub val: Option<String>,
}

impl Benchmark {
    /// Opens a benchmark by name, a folder, or a `.toml` file. `root` is the folder of a benchmark; by default a
    /// folder of its name in the working directory.
    pub fn open(source: &str, root: Option<&Path>) -> Result<Self, DataError> {
        if source == scenes::NAME {
            return open_scenes();
        }
        if BENCHMARKS.contains(&source) {
            let here = Some(Path::new(source)).filter(|here| here.is_dir());
            let root = root.or(here).ok_or_else(|| DataError::NeedsRoot { name: source.to_string() })?;
            return Self::named(source, root);
        }
        let path = Path::new(source);
        if path.is_dir() {
            Self::folder(path)
        } else if files::has_ending(path, "toml") {
            spec::open(path)
        } else if files::has_ending(path, "yaml") || files::has_ending(path, "yml") {
            Self::without_folds(Box::new(yolo::open_yaml(path, true)?))
        } else {
            let known = BENCHMARKS.map(|name| format!("`{name}`")).join(", ");
            Err(DataError::UnknownSource { got: source.to_string(), known })
        }
    }

    /// Opens a benchmark by name in its folder, either prepared or as its archives unpack.
    pub fn named(name: &str, root: &Path) -> Result<Self, DataError> {
        let described = root.join(SPEC_FILE);
        match name {
            "pascal-5i" if described.is_file() => spec::open(&described),
            "pascal-5i" => open_pascal(root),
            "coco-20i" => open_coco(root, FoldScheme::Coco20i, "coco-20i"),
            "coco-20i-contiguous" => open_coco(root, FoldScheme::Coco20iContiguous, "coco-20i-contiguous"),
            "msrc" => open_msrc(root),
            scenes::NAME => open_scenes(),
            _ => {
                let known = BENCHMARKS.map(|name| format!("`{name}`")).join(", ");
                Err(DataError::UnknownSource { got: name.to_string(), known })
            }
        }
    }

    /// Opens a folder according to what it contains.
    pub fn folder(root: &Path) -> Result<Self, DataError> {
        let holds = |name: &str| root.join(name).exists();
        let boxed: Box<dyn Dataset> = if holds(SPEC_FILE) {
            return spec::open(&root.join(SPEC_FILE));
        } else if msrc::is_layout(root) {
            return open_msrc(root);
        } else if holds(cvat::LABEL_MAP) && holds("SegmentationClass") {
            Box::new(cvat::open(root)?)
        } else if voc::find_tree(root).is_ok() {
            match voc::find_tree(root)?.join("SegmentationClassAug").is_dir() {
                true => return open_pascal(root),
                false => Box::new(voc::open(root)?),
            }
        } else if yolo::find_yaml(root).is_some() {
            Box::new(yolo::open(root, true)?)
        } else if coco::find_splits(root).is_ok() {
            Box::new(coco::open("coco", &coco::find_splits(root)?, true)?)
        } else if holds("images") || holds("train/images") {
            Box::new(folder::open(FolderOptions::new(root))?)
        } else if labelme::is_layout(root) {
            Box::new(labelme::open(root, None, true)?)
        } else {
            return Err(DataError::UnknownLayout { path: root.to_path_buf(), layouts: LAYOUTS });
        };
        Self::without_folds(boxed)
    }

    /// A data set of which nothing says which classes are novel.
    fn without_folds(dataset: Box<dyn Dataset>) -> Result<Self, DataError> {
        let folds = vec![Fold::new(dataset.classes(), 0, &[])?];
        Self::assemble(dataset, folds, None, None)
    }

    /// A benchmark with the usual rules. Splits that are not given are found by their usual names.
    pub(crate) fn assemble(
        dataset: Box<dyn Dataset>,
        folds: Vec<Fold>,
        train: Option<String>,
        val: Option<String>,
    ) -> Result<Self, DataError> {
        let names: Vec<String> = dataset.splits().iter().map(|split| split.name.clone()).collect();
        let find =
            |usual: &[&str]| usual.iter().find_map(|usual| names.iter().find(|name| name == usual)).cloned();
        let usual_train = ["train_aug", "train", "train2014", "train2017"];
        let train =
            train.or_else(|| find(&usual_train)).or_else(|| names.first().cloned()).unwrap_or_default();
        let val = val.or_else(|| find(&["val", "test", "valid", "val2014", "val2017"]));
        let val = val.or_else(|| names.iter().find(|name| **name != train).cloned());
        dataset.split(&train)?;
        if let Some(val) = &val {
            dataset.split(val)?;
        }
        let val = val.filter(|val| *val != train);
        Ok(Self {
            dataset,
            folds,
            novel_pixels: NovelPixels::default(),
            min_support_pixels: MIN_SUPPORT_PIXELS,
            train,
            val,
        })
    }

    /// The fold with this number.
    pub fn fold(&self, index: usize) -> Result<&Fold, DataError> {
        let n_folds = self.folds.len();
        Ok(self.folds.get(index).ok_or(FoldError::NoSuchFold { got: index, n_folds })?)
    }

    /// Image and labels of a sample, with the labels as classifier rows.
    pub fn load_rows(&self, index: usize, remap: &Remap) -> Result<(Image, RowMap), DataError> {
        let (image, labels) = self.dataset.load(index)?;
        Ok((image, self.rows(index, &labels, remap)?))
    }

    /// The labels of a sample as classifier rows, without its image.
    pub fn load_label_rows(&self, index: usize, remap: &Remap) -> Result<RowMap, DataError> {
        self.rows(index, &self.dataset.labels(index)?.map, remap)
    }

    fn rows(&self, index: usize, labels: &IdMap, remap: &Remap) -> Result<RowMap, DataError> {
        match remap.apply(labels) {
            Ok(rows) => Ok(rows),
            Err(RemapError::Unknown { id, .. }) => {
                Err(unknown_id(&self.dataset.samples()[index], self.dataset.classes(), labels, id))
            }
            Err(RemapError::Novel { id, x, y }) => {
                let sample = &self.dataset.samples()[index];
                let path = sample.label.clone().unwrap_or_else(|| sample.image.clone());
                let class = self.dataset.classes().name(id).map_or_else(|| id.to_string(), str::to_string);
                Err(DataError::NovelPixel { path, class, x, y })
            }
        }
    }

    /// A draw of supports with this benchmark's minimum number of pixels.
    pub fn support_draw(&self, n_shots: usize, seed: u64) -> SupportDraw {
        SupportDraw { n_shots, seed, min_pixels: self.min_support_pixels }
    }
}

fn open_scenes() -> Result<Benchmark, DataError> {
    let dataset = scenes::open();
    let folds = scenes::folds(dataset.classes())?;
    let mut benchmark = Benchmark::assemble(Box::new(dataset), folds, None, None)?;
    benchmark.min_support_pixels = scenes::MIN_SUPPORT_PIXELS;
    Ok(benchmark)
}

fn open_pascal(root: &Path) -> Result<Benchmark, DataError> {
    let tree = voc::find_tree(root)?;
    let augmented = tree.join("SegmentationClassAug");
    if !augmented.is_dir() {
        let hint = "prepare Pascal-5i from VOC 2012 and SBD first".to_string();
        return Err(DataError::Missing { path: augmented, hint });
    }
    let dataset = voc::open(&tree)?.named("pascal-5i");
    let folds = FoldScheme::Pascal5i.folds(dataset.classes())?;
    Benchmark::assemble(Box::new(dataset), folds, Some(voc::TRAIN_AUG.to_string()), Some("val".to_string()))
}

fn open_coco(root: &Path, scheme: FoldScheme, name: &'static str) -> Result<Benchmark, DataError> {
    let described = root.join(SPEC_FILE);
    let mut benchmark = match described.is_file() {
        true => spec::open(&described)?,
        false => {
            Benchmark::without_folds(Box::new(coco::open("coco-20i", &coco::find_splits(root)?, true)?))?
        }
    };
    let table = benchmark.dataset.classes();
    let (got, expected) = (table.foreground().count(), 80);
    if got != expected {
        return Err(DataError::ClassCount { name, path: root.to_path_buf(), got, expected });
    }
    benchmark.folds = scheme.folds(table)?;
    Ok(benchmark)
}

fn open_msrc(root: &Path) -> Result<Benchmark, DataError> {
    let dataset = msrc::open(root)?;
    let folds = msrc::read_folds(root, dataset.classes())?;
    let mut benchmark = Benchmark::assemble(Box::new(dataset), folds, Some("train".to_string()), None)?;
    benchmark.min_support_pixels = MSRC_MIN_SUPPORT_PIXELS;
    Ok(benchmark)
}
