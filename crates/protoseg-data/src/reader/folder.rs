//! Plain folders: `images/` and `masks/` (or `labels/`). A mask has the name of its image, with any extension.
//!
//! Classes come from `classes.txt` (index masks; one name per line, the id is the line's position from 0) or from a
//! label map `labelmap.txt` (colour masks; `name:r,g,b::`). Splits come from `train.txt`, `val.txt` and `test.txt`
//! (one image name per line, with or without extension), or from folders: `images/train` and `masks/train`, or
//! `train/images` and `train/masks`. Without any of these, one split called `all` holds everything.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use protoseg_core::{ClassId, ClassTable};

use super::cvat::{LABEL_MAP, read_colored_names};
use super::{ALL, DEFAULT_IGNORE, folder_name, named_classes, number};
use crate::dataset::{Contents, MaskDataset, MaskKind, Sample, Split};
use crate::{DataError, files};

/// What a folder data set consists of. Everything except the root may be left to the layout.
#[derive(Clone, Debug)]
pub struct FolderOptions {
    pub name: String,
    pub root: PathBuf,
    /// The folders of images and masks.
    pub images: Option<PathBuf>,
    pub masks: Option<PathBuf>,
    /// The classes, and what their masks hold.
    pub classes: Option<(ClassTable, MaskKind)>,
    /// Names of splits with their lists of image names.
    pub lists: Vec<(String, PathBuf)>,
}

impl FolderOptions {
    /// Leaves everything to the layout.
    pub fn new(root: &Path) -> Self {
        Self {
            name: folder_name(root, "folder"),
            root: root.to_path_buf(),
            images: None,
            masks: None,
            classes: None,
            lists: Vec::new(),
        }
    }
}

/// Opens the folders.
pub fn open(options: FolderOptions) -> Result<MaskDataset, DataError> {
    let FolderOptions { name, root, images, masks, classes, lists } = options;
    let (classes, mask_kind) = match classes {
        Some(classes) => classes,
        None => {
            let FoundNames { path, names, masks } = find_names(&root)?;
            let ignore = if masks == MaskKind::Index { &DEFAULT_IGNORE[..] } else { &[] };
            (named_classes(&path, names, ignore)?, masks)
        }
    };
    let split_folders = ["train", "val", "valid", "test"].map(|split| (split, root.join(split)));
    let nested = images.is_none() && split_folders.iter().any(|(_, folder)| folder.join("images").is_dir());
    let mut samples = Vec::new();
    let mut splits = Vec::new();
    if nested {
        for (split, folder) in split_folders.into_iter().filter(|(_, folder)| folder.join("images").is_dir())
        {
            let masks = find_masks(&folder)?;
            let found = pair_up(&folder.join("images"), &masks, &format!("{split}/"))?;
            splits.push(Split {
                name: split.into(),
                samples: (samples.len()..samples.len() + found.len()).collect(),
            });
            samples.extend(found);
        }
    } else {
        let images = images.unwrap_or_else(|| root.join("images"));
        let masks = masks.map_or_else(|| find_masks(&root), Ok)?;
        samples = pair_up(&images, &masks, "")?;
        splits = match find_lists(&root, lists) {
            lists if lists.is_empty() => splits_by_folder(&samples),
            lists => lists
                .into_iter()
                .map(|(split, path)| Ok(Split { name: split, samples: read_split(&path, &samples)? }))
                .collect::<Result<_, DataError>>()?,
        };
    }
    Ok(MaskDataset { contents: Contents { name, classes, samples, splits }, masks: mask_kind })
}

/// The class names of a folder, and what its masks hold: `labelmap.txt` with its colours, or `classes.txt`.
pub(crate) fn find_names(root: &Path) -> Result<FoundNames, DataError> {
    let path = root.join(LABEL_MAP);
    if path.is_file() {
        let (names, colors) = read_colored_names(&path)?;
        return Ok(FoundNames { path, names, masks: MaskKind::Color(colors) });
    }
    let path = root.join("classes.txt");
    if !path.is_file() {
        let hint = "write one class name per line, the first for id 0 (`background` if that is what 0 means); \
                    for colour masks write `labelmap.txt` instead";
        return Err(DataError::Missing { path, hint: hint.to_string() });
    }
    let names = number(files::read_names(&path)?);
    Ok(FoundNames { path, names, masks: MaskKind::Index })
}

/// Class names as read from a file.
pub(crate) struct FoundNames {
    pub path: PathBuf,
    pub names: Vec<(ClassId, String)>,
    pub masks: MaskKind,
}

fn find_masks(root: &Path) -> Result<PathBuf, DataError> {
    let places = ["masks", "labels", "annotations"].map(|place| root.join(place));
    let missing = || DataError::Missing {
        path: root.join("masks"),
        hint: "put the masks into this folder, each named like its image".to_string(),
    };
    places.into_iter().find(|place| place.is_dir()).ok_or_else(missing)
}

/// Every image with the mask of the same name. A missing mask keeps the name it should have.
fn pair_up(images: &Path, masks: &Path, prefix: &str) -> Result<Vec<Sample>, DataError> {
    let mut by_stem: HashMap<String, PathBuf> = HashMap::new();
    for mask in files::walk(masks, files::is_picture)? {
        let stem = files::stem_under(masks, &mask);
        if let Some(other) = by_stem.insert(stem, mask) {
            let got = files::name_under(masks, &other);
            return Err(DataError::Duplicate { path: masks.to_path_buf(), what: "mask", got });
        }
    }
    let found = files::walk(images, files::is_picture)?;
    if found.is_empty() {
        return Err(DataError::Empty { path: images.to_path_buf(), hint: "put the images into this folder" });
    }
    let samples = found.into_iter().map(|image| {
        let stem = files::stem_under(images, &image);
        let mask = by_stem.get(&stem).cloned().unwrap_or_else(|| masks.join(format!("{stem}.png")));
        Sample { name: format!("{prefix}{}", files::name_under(images, &image)), image, label: Some(mask) }
    });
    Ok(samples.collect())
}

fn find_lists(root: &Path, lists: Vec<(String, PathBuf)>) -> Vec<(String, PathBuf)> {
    if !lists.is_empty() {
        return lists;
    }
    let usual = ["train", "val", "test"].map(|split| (split.to_string(), root.join(format!("{split}.txt"))));
    usual.into_iter().filter(|(_, path)| path.is_file()).collect()
}

fn read_split(path: &Path, samples: &[Sample]) -> Result<Vec<usize>, DataError> {
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (place, sample) in samples.iter().enumerate() {
        let without = Path::new(&sample.name).with_extension("");
        by_name.entry(without.to_string_lossy().into_owned()).or_insert(place);
    }
    by_name.extend(samples.iter().enumerate().map(|(place, sample)| (sample.name.clone(), place)));
    let lines = files::read_lines(path)?;
    if lines.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), hint: "write one image name per line" });
    }
    let find = |(line, text): (usize, String)| {
        by_name.get(&text).copied().ok_or_else(|| DataError::Line {
            path: path.to_path_buf(),
            line,
            got: text,
            expected: "the name of an image in the images folder",
        })
    };
    lines.into_iter().map(find).collect()
}

/// One split per top-level folder if all images are in folders; otherwise one split for everything.
fn splits_by_folder(samples: &[Sample]) -> Vec<Split> {
    let folders: Option<Vec<&str>> =
        samples.iter().map(|sample| sample.name.split_once('/').map(|(folder, _)| folder)).collect();
    let Some(folders) = folders else {
        return vec![Split { name: ALL.to_string(), samples: (0..samples.len()).collect() }];
    };
    let mut splits: Vec<Split> = Vec::new();
    for (place, folder) in folders.into_iter().enumerate() {
        match splits.iter_mut().find(|split| split.name == folder) {
            Some(split) => split.samples.push(place),
            None => splits.push(Split { name: folder.to_string(), samples: vec![place] }),
        }
    }
    splits
}
