//! Support lists as files: saved, replayed exactly, or written by hand.

use std::path::Path;

use protoseg_core::{Fold, ImageStats, SupportError, SupportList};

use crate::{DataError, Dataset, SupportFiles, files};

/// Saves a support list as JSON, completely or not at all.
pub fn save_supports(path: &Path, list: &SupportList) -> Result<(), DataError> {
    let mut json = serde_json::to_vec_pretty(list)
        .map_err(|source| DataError::Json { path: path.to_path_buf(), source })?;
    json.push(b'\n');
    files::write_atomic(path, &json)
}

/// Reads a support list in JSON: one that was saved, or one written by hand such as
/// `{"classes": [{"class": "duck", "samples": ["images/7.jpg"]}]}`.
pub fn read_supports(path: &Path) -> Result<SupportList, DataError> {
    serde_json::from_slice(&files::read_bytes(path)?)
        .map_err(|source| DataError::Json { path: path.to_path_buf(), source })
}

/// What a file of supports holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupportFile {
    /// Pairs of an image and a mask, each with its class.
    Pairs(Vec<SupportFiles>),
    /// Names of samples in a data set.
    List(SupportList),
}

/// Reads a JSON file of supports of either kind: an array holds pairs, an object names samples.
pub fn read_support_file(path: &Path) -> Result<SupportFile, DataError> {
    let is_array = files::read_bytes(path)?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    match is_array {
        true => SupportFiles::read_json(path).map(SupportFile::Pairs),
        false => read_supports(path).map(SupportFile::List),
    }
}

/// The samples that a list names, for each novel class in ascending order of id. Every support must hold its class;
/// how many pixels of it is up to the list.
pub fn resolve_supports(
    dataset: &dyn Dataset,
    fold: &Fold,
    list: &SupportList,
) -> Result<Vec<Vec<usize>>, DataError> {
    let names: Vec<&str> = dataset.samples().iter().map(|sample| sample.name.as_str()).collect();
    let resolved = list.resolve(dataset.classes(), fold, &names)?;
    for (&class, samples) in fold.novel().iter().zip(&resolved) {
        for &sample in samples {
            if ImageStats::of(&dataset.labels(sample)?.map).pixels(class) == 0 {
                let class = dataset.classes().name(class).unwrap_or_default().to_string();
                return Err(SupportError::Empty { class, sample: names[sample].to_string() }.into());
            }
        }
    }
    Ok(resolved)
}
