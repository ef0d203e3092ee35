//! Readers, one module per format. Each `open` returns a [`crate::Dataset`].

use std::path::Path;

use protoseg_core::{ClassId, ClassTable, ClassTableError, IGNORE};

use crate::DataError;

pub mod coco;
mod coco_json;
pub mod cvat;
pub mod folder;
pub mod labelme;
pub mod list;
pub mod msrc;
pub mod scenes;
pub mod voc;
pub mod yolo;

/// The value that means "no label" in 8-bit masks, unless a data set says otherwise.
pub const DEFAULT_IGNORE: [u16; 1] = [255];

/// The name of the only split of a data set that defines no splits.
pub const ALL: &str = "all";

/// The classes of a format that draws shapes: ids from 1 in the order of the names. Pixels outside all shapes are
/// background (id 0) or "no label".
pub(crate) fn drawn_classes<S: AsRef<str>>(
    names: &[S],
    background: bool,
) -> Result<ClassTable, ClassTableError> {
    if names.len() > usize::from(ClassTable::MAX_ID) {
        return Err(ClassTableError::TooLarge { got: names.len() });
    }
    let rest = background.then(|| (ClassId(0), ClassTable::BACKGROUND.to_string()));
    let drawn = (1u16..).map(ClassId).zip(names.iter().map(|name| name.as_ref().to_string()));
    let ignore = if names.len() < 255 { &DEFAULT_IGNORE[..] } else { &[] };
    ClassTable::new(rest.into_iter().chain(drawn), background.then_some(ClassTable::BACKGROUND), ignore)
}

/// Classes by id; a class called `background` is the background. `path` is for errors.
pub(crate) fn named_classes(
    path: &Path,
    names: Vec<(ClassId, String)>,
    ignore: &[u16],
) -> Result<ClassTable, DataError> {
    let background = names.iter().any(|(_, name)| name == ClassTable::BACKGROUND);
    ClassTable::new(names, background.then_some(ClassTable::BACKGROUND), ignore)
        .map_err(|source| DataError::Classes { path: path.to_path_buf(), source })
}

/// Names with their positions as ids. Positions too large for an id become one that [`ClassTable`] refuses.
pub(crate) fn number(names: Vec<String>) -> Vec<(ClassId, String)> {
    let id = |place| ClassId(u16::try_from(place).unwrap_or(u16::MAX));
    names.into_iter().enumerate().map(|(place, name)| (id(place), name)).collect()
}

/// The name of a folder, for a data set without a name.
pub(crate) fn folder_name(root: &Path, otherwise: &str) -> String {
    root.file_name().map_or_else(|| otherwise.to_string(), |name| name.to_string_lossy().into_owned())
}

/// The label of a pixel that no shape holds.
pub(crate) fn rest_label(classes: &ClassTable) -> u16 {
    classes.background().map_or(IGNORE, |ClassId(id)| id)
}
