//! MSRC-21 in one folder: `classes.txt` (one name per line, the id is the line's position from 0), `train.txt` and
//! `test.txt` (or `val.txt`) with `image label` pairs, and index masks with 255 for "no label". There is no
//! background. Any data set with this layout can be read. `folds.txt` holds its folds, one per line.

use std::path::Path;

use protoseg_core::{ClassTable, Fold, FoldScheme};

use super::list::{self, ListOptions};
use super::{DEFAULT_IGNORE, folder_name};
use crate::dataset::{MaskDataset, MaskKind};
use crate::{DataError, files};

/// Whether a folder has this layout: `classes.txt`, and pairs in `train.txt`.
pub fn is_layout(root: &Path) -> bool {
    let first = files::read_lines(&root.join("train.txt")).ok().and_then(|lines| lines.into_iter().next());
    let is_pair = |(_, line): (usize, String)| {
        list::split_pair(&line, root, root).is_some_and(|(_, label)| root.join(label).is_file())
    };
    root.join("classes.txt").is_file() && first.is_some_and(is_pair)
}

/// Opens the folder.
pub fn open(root: &Path) -> Result<MaskDataset, DataError> {
    let names_path = root.join("classes.txt");
    let names = files::read_names(&names_path)?;
    let classes = ClassTable::from_names(&names, &DEFAULT_IGNORE)
        .map_err(|source| DataError::Classes { path: names_path, source })?;
    let lists: Vec<_> = ["train", "val", "test"]
        .into_iter()
        .map(|split| (split.to_string(), root.join(format!("{split}.txt"))))
        .filter(|(split, path)| split == "train" || path.is_file())
        .collect();
    list::open(ListOptions {
        name: folder_name(root, "msrc"),
        image_root: root.to_path_buf(),
        label_root: root.to_path_buf(),
        lists,
        classes,
        masks: MaskKind::Index,
    })
}

/// The folds in the folder's `folds.txt`; without the file, a single fold without novel classes.
pub fn read_folds(root: &Path, table: &ClassTable) -> Result<Vec<Fold>, DataError> {
    let path = root.join("folds.txt");
    let scheme = match path.is_file() {
        true => FoldScheme::parse(&files::read_text(&path)?, table),
        false => Ok(FoldScheme::Explicit(vec![Vec::new()])),
    };
    scheme.and_then(|scheme| scheme.folds(table)).map_err(|source| DataError::Folds { path, source })
}
