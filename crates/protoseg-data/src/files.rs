//! The few file operations we need, with errors that name the file.

mod lock;
mod read;
mod write;

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use lock::Lock;
pub use read::{open_regular, read_bytes, read_text};
pub(crate) use read::{read_lines, read_names};
pub use write::{NewFile, clean_up, write_atomic, write_whole};

use crate::DataError;

/// The file extensions of pictures that we look for in folders, in lower case. The last three are not read: they are
/// found, so that nobody's photos are silently passed over, and refused when they are opened.
const PICTURE_ENDINGS: [&str; 17] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "bmp", "tif", "tiff", "webp", "gif", "ppm", "pgm", "pbm", "pnm",
    "heic", "heif", "avif",
];

/// Creates a folder and its parents.
pub fn create_dir(path: &Path) -> Result<(), DataError> {
    fs::create_dir_all(path).map_err(|source| DataError::writing(path, source))
}

/// The entries of a folder, sorted by name, without hidden ones.
pub(crate) fn list_dir(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let reading = |source| DataError::reading(path, source);
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(reading)? {
        let entry = entry.map_err(reading)?.path();
        let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden {
            entries.push(entry);
        }
    }
    entries.sort();
    Ok(entries)
}

/// All files in a folder and its subfolders that satisfy `wanted`, sorted. A folder that links lead to as well is
/// entered once.
pub(crate) fn walk(path: &Path, wanted: fn(&Path) -> bool) -> Result<Vec<PathBuf>, DataError> {
    walk_where(path, wanted, |_| true)
}

/// The same, but only subfolders that satisfy `is_entered` are searched.
fn walk_where(
    path: &Path,
    wanted: fn(&Path) -> bool,
    is_entered: fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, DataError> {
    /// Folders deeper than this are no data set.
    const MAX_DEPTH: usize = 64;
    fn walk_into(
        path: &Path,
        [wanted, is_entered]: [fn(&Path) -> bool; 2],
        depth: usize,
        entered: &mut HashSet<PathBuf>,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), DataError> {
        let own = path.canonicalize().map_err(|source| DataError::reading(path, source))?;
        if depth > MAX_DEPTH || !entered.insert(own) {
            return Ok(());
        }
        // Real folders first: their files keep their own names if a link leads there too.
        let (links, others): (Vec<_>, Vec<_>) =
            list_dir(path)?.into_iter().partition(|entry| entry.is_symlink());
        for entry in others.into_iter().chain(links) {
            if entry.is_dir() {
                if is_entered(&entry) {
                    walk_into(&entry, [wanted, is_entered], depth + 1, entered, found)?;
                }
            } else if wanted(&entry) {
                found.push(entry);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk_into(path, [wanted, is_entered], 0, &mut HashSet::new(), &mut found)?;
    found.sort();
    Ok(found)
}

pub(crate) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending))
}

/// Whether a file is called like a picture.
pub fn is_picture(path: &Path) -> bool {
    PICTURE_ENDINGS.iter().any(|ending| has_ending(path, ending))
}

/// All pictures in a folder and its subfolders, sorted. Projects of the studio among the subfolders are passed over: what
/// they hold are strokes, and copies of photos.
pub fn find_pictures(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    walk_where(folder, is_picture, |folder| !is_project(folder))
}

/// Whether a folder is a project of the studio: its settings begin with what they are.
fn is_project(folder: &Path) -> bool {
    let mut start = Vec::new();
    let read =
        open_regular(&folder.join("project.json")).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok() && String::from_utf8_lossy(&start).contains("\"protoseg.studio-project/")
}

/// The picture called `stem` in a folder: `stem` itself if it has an extension, otherwise the first known extension.
pub(crate) fn find_picture(folder: &Path, stem: &str) -> Option<PathBuf> {
    let whole = folder.join(stem);
    if is_picture(&whole) && whole.is_file() {
        return Some(whole);
    }
    let with_ending = PICTURE_ENDINGS.iter().flat_map(|ending| {
        [ending.to_string(), ending.to_ascii_uppercase()]
            .map(|ending| folder.join(format!("{stem}.{ending}")))
    });
    with_ending.into_iter().find(|path| path.is_file())
}

/// A path relative to a root, with forward slashes. Samples are named like this.
pub(crate) fn name_under(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// The same without the extension.
pub(crate) fn stem_under(root: &Path, path: &Path) -> String {
    name_under(root, &path.with_extension(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_among_photos_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let names = ["a.png", "studio/photos/b.png", "studio/strokes/1.png", "web/logo.png"];
        names.iter().for_each(|name| make(name, ""));
        make("studio/project.json", "{\n  \"schema\": \"protoseg.studio-project/1\",\n  \"classes\": []\n}");
        make("web/project.json", "{\"schema\": \"of another program\"}");
        let found = |root: &Path| -> Vec<String> {
            find_pictures(root).unwrap().iter().map(|path| name_under(folder.path(), path)).collect()
        };
        assert_eq!(found(folder.path()), ["a.png", "web/logo.png"]);
        // Whoever names a folder of the project means it.
        assert_eq!(found(&folder.path().join("studio/photos")), ["studio/photos/b.png"]);
    }
}
