//! The reference's list files: one `image label` pair per line, each path relative to a root.
//!
//! A space separates the two paths. If paths contain spaces themselves, use a tab; without one, the line is split
//! where both halves are files.

use std::path::{Path, PathBuf};

use protoseg_core::ClassTable;

use crate::dataset::{Contents, MaskDataset, MaskKind, Sample, SampleTable, Split};
use crate::{DataError, files};

/// What a list data set consists of.
#[derive(Clone, Debug)]
pub struct ListOptions {
    pub name: String,
    /// What the first path on a line is relative to.
    pub image_root: PathBuf,
    /// What the second path on a line is relative to.
    pub label_root: PathBuf,
    /// Names of splits with their list files.
    pub lists: Vec<(String, PathBuf)>,
    pub classes: ClassTable,
    pub masks: MaskKind,
}

/// Opens a data set of list files.
pub fn open(options: ListOptions) -> Result<MaskDataset, DataError> {
    let ListOptions { name, image_root, label_root, lists, classes, masks } = options;
    let mut table = SampleTable::default();
    let mut splits = Vec::new();
    for (split, path) in lists {
        let samples = read_list(&path, &image_root, &label_root, &mut table)?;
        splits.push(Split { name: split, samples });
    }
    Ok(MaskDataset { contents: Contents { name, classes, samples: table.samples, splits }, masks })
}

fn read_list(
    path: &Path,
    image_root: &Path,
    label_root: &Path,
    table: &mut SampleTable,
) -> Result<Vec<usize>, DataError> {
    let mut places = Vec::new();
    for (line, text) in files::read_lines(path)? {
        let Some((image, label)) = split_pair(&text, image_root, label_root) else {
            let expected =
                "an image path and a label path, separated by a space (by a tab if paths contain spaces)";
            return Err(DataError::Line { path: path.to_path_buf(), line, got: text, expected });
        };
        let sample = Sample {
            name: image.to_string(),
            image: image_root.join(image),
            label: Some(label_root.join(label)),
        };
        let Some(place) = table.add(sample) else {
            let expected = "the same label as on an earlier line with this image";
            return Err(DataError::Line { path: path.to_path_buf(), line, got: text, expected });
        };
        places.push(place);
    }
    if places.is_empty() {
        return Err(DataError::Empty {
            path: path.to_path_buf(),
            hint: "write one `image label` pair per line",
        });
    }
    Ok(places)
}

pub(super) fn split_pair<'a>(
    line: &'a str,
    image_root: &Path,
    label_root: &Path,
) -> Option<(&'a str, &'a str)> {
    let halves = |at: usize| (line[..at].trim(), line[at..].trim());
    if let Some(tab) = line.find('\t') {
        let (image, label) = halves(tab);
        return (!label.contains('\t')).then_some((image, label));
    }
    let mut words = line.split_whitespace();
    if let (Some(image), Some(label), None) = (words.next(), words.next(), words.next()) {
        return Some((image, label));
    }
    let blanks = line.char_indices().filter(|(_, character)| character.is_whitespace());
    blanks
        .map(|(at, _)| halves(at))
        .find(|(image, label)| image_root.join(image).is_file() && label_root.join(label).is_file())
}
