//! The few file operations we need, with errors that name the file.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::DataError;

/// Larger files are refused before they fill the memory.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// The file extensions of pictures that we look for in folders, in lower case. The last three are not read: they are
/// found, so that nobody's photos are silently passed over, and refused when they are opened.
const PICTURE_ENDINGS: [&str; 17] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "bmp", "tif", "tiff", "webp", "gif", "ppm", "pgm", "pbm", "pnm",
    "heic", "heif", "avif",
];

pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    let reading = |source| DataError::reading(path, source);
    let mut file = fs::File::open(path).map_err(reading)?;
    let got = file.metadata().map_err(reading)?.len();
    if got > MAX_FILE_BYTES {
        return Err(DataError::FileTooLarge { path: path.to_path_buf(), got, max: MAX_FILE_BYTES });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(got).unwrap_or(0) + 1);
    file.read_to_end(&mut bytes).map_err(reading)?;
    Ok(bytes)
}

/// Reads a text file, without its byte order mark.
pub(crate) fn read_text(path: &Path) -> Result<String, DataError> {
    let bytes = read_bytes(path)?;
    let text = String::from_utf8(bytes).map_err(|_| DataError::NotText { path: path.to_path_buf() })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    })
}

/// The non-empty lines of a text file that are not comments, trimmed, with their numbers from 1.
pub(crate) fn read_lines(path: &Path) -> Result<Vec<(usize, String)>, DataError> {
    let text = read_text(path)?;
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim().to_string()));
    Ok(lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect())
}

/// Class names, one per line; the id is the line's position.
pub(crate) fn read_names(path: &Path) -> Result<Vec<String>, DataError> {
    Ok(read_lines(path)?.into_iter().map(|(_, name)| name).collect())
}

/// Writes a file completely or not at all: first to a temporary file beside it, which is then renamed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let writing = |source| DataError::writing(path, source);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".protoseg-").tempfile_in(parent).map_err(writing)?;
    file.write_all(bytes).map_err(writing)?;
    widen_permissions(file.as_file()).map_err(writing)?;
    file.persist(path).map_err(|error| writing(error.error))?;
    Ok(())
}

/// Temporary files are readable only by their owner; a data set is for everyone who may read its folder.
#[cfg(unix)]
fn widen_permissions(file: &fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn widen_permissions(_: &fs::File) -> std::io::Result<()> {
    Ok(())
}

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

/// All files in a folder and its subfolders that satisfy `wanted`, sorted.
pub(crate) fn walk(path: &Path, wanted: fn(&Path) -> bool) -> Result<Vec<PathBuf>, DataError> {
    /// Folders deeper than this are a loop of links, not a data set.
    const MAX_DEPTH: usize = 16;
    fn walk_into(
        path: &Path,
        wanted: fn(&Path) -> bool,
        depth: usize,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), DataError> {
        for entry in list_dir(path)? {
            if entry.is_dir() {
                if depth < MAX_DEPTH {
                    walk_into(&entry, wanted, depth + 1, found)?;
                }
            } else if wanted(&entry) {
                found.push(entry);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk_into(path, wanted, 0, &mut found)?;
    Ok(found)
}

pub(crate) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending))
}

/// Whether a file is called like a picture.
pub fn is_picture(path: &Path) -> bool {
    PICTURE_ENDINGS.iter().any(|ending| has_ending(path, ending))
}

/// All pictures in a folder and its subfolders, sorted.
pub fn find_pictures(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    walk(folder, is_picture)
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
