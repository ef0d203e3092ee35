//! A data set described by a short TOML file. Paths are relative to the file.
//!
//! ```toml
//! name = "farm"
//! format = "folder"                 # list folder voc coco yolo labelme cvat msrc
//! root = "."                        # where the data is
//! classes = ["background", "cow", "duck"]   # or { 1 = "cow", 255 = "duck" }
//! background = "background"         # or false; a class of this name is the background by default
//! ignore = [255]                    # ids that mean "no label"
//! novel = ["duck"]                  # one fold; or folds = [["duck"], ["cow"]], or folds = "pascal-5i"
//! novel_pixels = "ignore"           # in base training: drop, ignore or background
//! min_support_pixels = 2000
//! train = "train"                   # names of splits
//! val = "val"
//!
//! [splits]                          # list files; JSON files for coco
//! train = "lists/train.txt"
//! val = "lists/val.txt"
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use protoseg_core::{ClassId, ClassTable, Fold, FoldError, FoldScheme, NovelPixels, check_name, find_ids};
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::benchmark::Benchmark;
use crate::dataset::MaskKind;
use crate::reader::coco::CocoSplit;
use crate::reader::cvat::read_colored_names;
use crate::reader::folder::{self, FolderOptions, FoundNames};
use crate::reader::list::{self, ListOptions};
use crate::reader::{DEFAULT_IGNORE, coco, cvat, labelme, msrc, number, voc, yolo};
use crate::{DataError, Dataset, files};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    name: Spanned<String>,
    format: Spanned<Format>,
    root: Option<PathBuf>,
    images: Option<Spanned<PathBuf>>,
    masks: Option<Spanned<PathBuf>>,
    image_root: Option<Spanned<PathBuf>>,
    label_root: Option<Spanned<PathBuf>>,
    label_map: Option<Spanned<PathBuf>>,
    classes: Option<Spanned<Value>>,
    background: Option<Spanned<Value>>,
    ignore: Option<Spanned<Vec<u16>>>,
    novel: Option<Spanned<Vec<String>>>,
    folds: Option<Spanned<Value>>,
    #[serde(default)]
    novel_pixels: NovelPixels,
    min_support_pixels: Option<u64>,
    train: Option<String>,
    val: Option<String>,
    splits: Option<Spanned<BTreeMap<String, PathBuf>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    List,
    Folder,
    Voc,
    Coco,
    Yolo,
    Labelme,
    Cvat,
    Msrc,
}

/// Opens the data set that a TOML file describes.
pub fn open(path: &Path) -> Result<Benchmark, DataError> {
    let text = files::read_text(path)?;
    let source = Source { path, text: &text };
    let spec: Spec = toml::from_str(&text).map_err(|error| {
        let hint = "see docs/formats.md for the fields".to_string();
        source.error(error.span().unwrap_or(0..0), error.message().to_string(), hint)
    })?;
    source.check_fields(&spec)?;
    let here = path.parent().unwrap_or(Path::new(""));
    let root = spec.root.as_ref().map_or_else(|| here.to_path_buf(), |root| here.join(root));
    let dataset = source.open_dataset(&spec, here, &root)?;
    let folds = source.read_folds(&spec, &root, dataset.as_ref())?;
    if spec.novel_pixels == NovelPixels::Background && dataset.classes().background().is_none() {
        let source = FoldError::NoBackground;
        return Err(DataError::Folds { path: path.to_path_buf(), source });
    }
    let mut benchmark = Benchmark::assemble(dataset, folds, spec.train, spec.val)?;
    benchmark.novel_pixels = spec.novel_pixels;
    benchmark.min_support_pixels = spec.min_support_pixels.unwrap_or(benchmark.min_support_pixels);
    Ok(benchmark)
}

/// The file, for errors that give a line.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, span: Range<usize>, reason: String, hint: String) -> DataError {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        DataError::Spec { path: self.path.to_path_buf(), line, reason, hint }
    }

    /// Refuses fields that the format does not use, instead of ignoring them.
    fn check_fields(&self, spec: &Spec) -> Result<(), DataError> {
        use Format::{Coco, Folder, Labelme, List, Voc, Yolo};
        fn span<T>(field: &Option<Spanned<T>>) -> Option<Range<usize>> {
            field.as_ref().map(Spanned::span)
        }
        /// A field's name, its position if it is present, and the formats that use it.
        type Field<'a> = (&'a str, Option<Range<usize>>, &'a [Format]);
        let fields: [Field<'_>; 9] = [
            ("images", span(&spec.images), &[Folder, Coco]),
            ("masks", span(&spec.masks), &[Folder]),
            ("image_root", span(&spec.image_root), &[List]),
            ("label_root", span(&spec.label_root), &[List]),
            ("label_map", span(&spec.label_map), &[List, Folder, Voc]),
            ("classes", span(&spec.classes), &[List, Folder, Voc, Labelme]),
            ("background", span(&spec.background), &[List, Folder, Voc, Coco, Yolo, Labelme]),
            ("ignore", span(&spec.ignore), &[List, Folder, Voc]),
            ("splits", span(&spec.splits), &[List, Folder, Coco]),
        ];
        // Results go to a folder of this name.
        let name = spec.name.get_ref();
        if check_name(name).is_err() || name.contains(['/', '\\']) || name.starts_with('.') {
            let reason = format!("`name` is {name:?}, which cannot be the name of a folder");
            return Err(self.error(spec.name.span(), reason, "choose a short word".to_string()));
        }
        let format = *spec.format.get_ref();
        for (field, span, formats) in fields {
            if let Some(span) = span.filter(|_| !formats.contains(&format)) {
                let reason = format!("field `{field}` has no meaning for this format");
                let hint = format!("remove it; it is for {formats:?}").to_lowercase();
                return Err(self.error(span, reason, hint));
            }
        }
        if let (Some(novel), Some(_)) = (&spec.novel, &spec.folds) {
            let reason = "both `novel` and `folds` are given".to_string();
            return Err(self.error(novel.span(), reason, "keep one of them".to_string()));
        }
        let own_classes = format == Voc && spec.classes.is_none() && spec.label_map.is_none();
        if let Some(span) = span(&spec.background).or(span(&spec.ignore)).filter(|_| own_classes) {
            let reason = "the classes are VOC's own, including the background and 255".to_string();
            return Err(self.error(span, reason, "remove this field, or give `classes` too".to_string()));
        }
        let drawn = matches!(format, Coco | Yolo | Labelme);
        match &spec.background {
            Some(value) if drawn && *value.get_ref() != Value::Boolean(false) => {
                let reason = "pixels outside all shapes are background by default".to_string();
                Err(self.error(
                    value.span(),
                    reason,
                    "remove this field, or write false for \"no label\"".to_string(),
                ))
            }
            _ => Ok(()),
        }
    }

    fn open_dataset(&self, spec: &Spec, here: &Path, root: &Path) -> Result<Box<dyn Dataset>, DataError> {
        let path_of = |field: &Option<Spanned<PathBuf>>| field.as_ref().map(|path| root.join(path.get_ref()));
        let lists = spec.splits.as_ref().map_or_else(Vec::new, |splits| {
            splits.get_ref().iter().map(|(name, path)| (name.clone(), here.join(path))).collect()
        });
        let name = spec.name.get_ref().clone();
        let rest_is_background = self.rest_is_background(spec)?;
        Ok(match spec.format.get_ref() {
            Format::List => {
                if lists.is_empty() {
                    let reason = "format `list` needs its list files".to_string();
                    let hint = "add `[splits]` with a line such as `train = \"train.txt\"`".to_string();
                    return Err(self.error(spec.format.span(), reason, hint));
                }
                let Some((classes, masks)) = self.read_classes(spec, root)? else {
                    return Err(DataError::missing(&root.join("classes.txt")));
                };
                let image_root = path_of(&spec.image_root).unwrap_or_else(|| root.to_path_buf());
                let label_root = path_of(&spec.label_root).unwrap_or_else(|| root.to_path_buf());
                Box::new(list::open(ListOptions { name, image_root, label_root, lists, classes, masks })?)
            }
            Format::Folder => Box::new(folder::open(FolderOptions {
                name,
                root: root.to_path_buf(),
                images: path_of(&spec.images),
                masks: path_of(&spec.masks),
                classes: self.read_classes(spec, root)?,
                lists,
            })?),
            Format::Voc => {
                let tree = voc::find_tree(root)?;
                match self.read_classes(spec, root)? {
                    Some((classes, masks)) => Box::new(voc::open_tree(&tree, &name, classes, masks)?),
                    None => Box::new(voc::open(&tree)?.named(name)),
                }
            }
            Format::Coco => {
                let images = path_of(&spec.images);
                let given = lists.into_iter().map(|(name, annotations)| {
                    let images = images.clone().unwrap_or_else(|| root.join(&name));
                    CocoSplit { name, annotations, images }
                });
                let given: Vec<CocoSplit> = given.collect();
                let splits = if given.is_empty() { coco::find_splits(root)? } else { given };
                Box::new(coco::open(&name, &splits, rest_is_background)?)
            }
            Format::Yolo => Box::new(yolo::open(root, rest_is_background)?.with_name(name)),
            Format::Labelme => {
                let names =
                    self.class_pairs(spec)?.map(|pairs| pairs.into_iter().map(|(_, name)| name).collect());
                Box::new(labelme::open(root, names, rest_is_background)?.with_name(name))
            }
            Format::Cvat => Box::new(cvat::open(root)?.named(name)),
            Format::Msrc => Box::new(msrc::open(root)?.named(name)),
        })
    }

    /// Whether pixels outside all shapes are background; they are, unless `background = false`.
    fn rest_is_background(&self, spec: &Spec) -> Result<bool, DataError> {
        Ok(self.background(spec)? != Some(None))
    }

    /// `None`: not given; `Some(None)`: there is no background; otherwise its name.
    fn background<'s>(&self, spec: &'s Spec) -> Result<Option<Option<&'s str>>, DataError> {
        match spec.background.as_ref().map(|value| (value.get_ref(), value.span())) {
            None => Ok(None),
            Some((Value::Boolean(false), _)) => Ok(Some(None)),
            Some((Value::String(name), _)) => Ok(Some(Some(name))),
            Some((other, span)) => {
                let reason = format!("background is `{other}`");
                Err(self.error(span, reason, "write the name of a class in quotes, or false".to_string()))
            }
        }
    }

    /// The classes, and what the masks hold: as given, from a label map, or from the root; `None` for VOC's own
    /// classes.
    fn read_classes(&self, spec: &Spec, root: &Path) -> Result<Option<(ClassTable, MaskKind)>, DataError> {
        let (names, masks, span) = match (&spec.label_map, self.class_pairs(spec)?) {
            (Some(label_map), Some(_)) => {
                let reason = "both `classes` and `label_map` are given".to_string();
                let hint = "the label map names the classes; keep it alone".to_string();
                return Err(self.error(label_map.span(), reason, hint));
            }
            (Some(label_map), None) => {
                let (names, colors) = read_colored_names(&root.join(label_map.get_ref()))?;
                (names, MaskKind::Color(colors), label_map.span())
            }
            (None, Some(names)) => {
                (names, MaskKind::Index, spec.classes.as_ref().map_or(0..0, Spanned::span))
            }
            (None, None) if *spec.format.get_ref() == Format::Voc => return Ok(None),
            (None, None) => {
                let FoundNames { names, masks, .. } = folder::find_names(root)?;
                (names, masks, spec.format.span())
            }
        };
        let default = if masks == MaskKind::Index { &DEFAULT_IGNORE[..] } else { &[] };
        let ignore = spec.ignore.as_ref().map_or(default, |ignore| ignore.get_ref());
        // In a label map the ids are positions, so an ignored one is a colour that means "no label", not a class.
        let names: Vec<(ClassId, String)> = match masks {
            MaskKind::Color(_) => names.into_iter().filter(|(id, _)| !ignore.contains(&id.0)).collect(),
            MaskKind::Index => names,
        };
        let usual =
            names.iter().any(|(_, name)| name == ClassTable::BACKGROUND).then_some(ClassTable::BACKGROUND);
        let background = self.background(spec)?.unwrap_or(usual);
        let table = ClassTable::new(names, background, ignore)
            .map_err(|error| self.relate(span, &error.to_string()))?;
        Ok(Some((table, masks)))
    }

    /// An error from the core, with its position in the file.
    fn relate(&self, span: Range<usize>, text: &str) -> DataError {
        let (reason, hint) = text.split_once("\nhint: ").unwrap_or((text, "see docs/formats.md"));
        self.error(span, reason.to_string(), hint.to_string())
    }

    /// The classes as given: a list (ids are positions from 0), or a table from ids to names.
    fn class_pairs(&self, spec: &Spec) -> Result<Option<Vec<(ClassId, String)>>, DataError> {
        let Some(classes) = &spec.classes else { return Ok(None) };
        let pairs: Option<Vec<(ClassId, String)>> = match classes.get_ref() {
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_string))
                .collect::<Option<Vec<_>>>()
                .map(number),
            Value::Table(names) => names
                .iter()
                .map(|(id, name)| Some((ClassId(id.parse().ok()?), name.as_str()?.to_string())))
                .collect(),
            _ => None,
        };
        let bad = || {
            let hint = "write `classes = [\"background\", \"cow\"]`, or `classes = { 0 = \"background\", 7 = \"cow\" }`";
            self.error(classes.span(), "these are not class names".to_string(), hint.to_string())
        };
        pairs.map(Some).ok_or_else(bad)
    }

    fn read_folds(&self, spec: &Spec, root: &Path, dataset: &dyn Dataset) -> Result<Vec<Fold>, DataError> {
        let table = dataset.classes();
        let span = spec.folds.as_ref().map(Spanned::span).or_else(|| spec.novel.as_ref().map(Spanned::span));
        let refuse = |error: FoldError| self.relate(span.clone().unwrap_or(0..0), &error.to_string());
        if let Some(novel) = &spec.novel {
            let ids = find_ids(table, 0, novel.get_ref()).map_err(refuse)?;
            return Ok(vec![Fold::new(table, 0, &ids).map_err(refuse)?]);
        }
        let Some(folds) = &spec.folds else {
            return match spec.format.get_ref() {
                Format::Msrc => msrc::read_folds(root, table),
                _ => Ok(vec![Fold::new(table, 0, &[]).map_err(refuse)?]),
            };
        };
        let bad = || {
            let hint = "write `folds = [[\"duck\"], [\"cow\"]]`, or one of `pascal-5i`, `coco-20i`, `coco-20i-contiguous`";
            self.error(folds.span(), "these are not folds".to_string(), hint.to_string())
        };
        let scheme = match folds.get_ref() {
            Value::String(name) => match name.as_str() {
                "pascal-5i" => FoldScheme::Pascal5i,
                "coco-20i" => FoldScheme::Coco20i,
                "coco-20i-contiguous" => FoldScheme::Coco20iContiguous,
                _ => return Err(bad()),
            },
            other => {
                let folds: Vec<Vec<String>> = other.clone().try_into().map_err(|_| bad())?;
                let ids = folds.iter().enumerate().map(|(fold, names)| find_ids(table, fold, names));
                FoldScheme::Explicit(ids.collect::<Result<_, _>>().map_err(refuse)?)
            }
        };
        let folds = scheme.folds(table).map_err(refuse)?;
        if folds.is_empty() { Err(bad()) } else { Ok(folds) }
    }
}
