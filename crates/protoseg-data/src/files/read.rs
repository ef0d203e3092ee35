//! Reading, so that no path can hang the program or fill its memory.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use crate::DataError;

/// Larger files are refused before they fill the memory.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// Opens a regular file. Devices and pipes are refused: they may never end, or never begin.
pub fn open_regular(path: &Path) -> io::Result<File> {
    refuse_irregular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    refuse_irregular(&file.metadata()?)?;
    Ok(file)
}

/// Refuses everything that is not a regular file.
pub(crate) fn refuse_irregular(metadata: &fs::Metadata) -> io::Result<()> {
    match metadata {
        _ if metadata.is_file() => Ok(()),
        _ if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file but a device or a pipe",
        )),
    }
}

/// The bytes of a regular file, which must not be more than `most`.
fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, DataError> {
    let reading = |source| DataError::reading(path, source);
    let too_large = |got| DataError::FileTooLarge { path: path.to_path_buf(), got, max: most };
    let file = open_regular(path).map_err(reading)?;
    let length = file.metadata().map_err(reading)?.len();
    if length > most {
        return Err(too_large(length));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    // A file may grow while it is read, or not tell its length.
    file.take(most + 1).read_to_end(&mut bytes).map_err(reading)?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes)
}

/// The bytes of a regular file.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    read_at_most(path, MAX_FILE_BYTES)
}

/// Reads a text file, without its byte order mark.
pub fn read_text(path: &Path) -> Result<String, DataError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read_at_most(&path, 5).unwrap(), b"12345");
        assert!(matches!(read_at_most(&path, 4), Err(DataError::FileTooLarge { got: 5, max: 4, .. })));
        assert!(read_at_most(folder.path(), 4).unwrap_err().to_string().contains("directory"));
    }

    #[test]
    #[cfg(unix)]
    fn devices_are_refused_and_links_to_files_are_not() {
        let error = open_regular(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("a device or a pipe"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, b"x").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read_at_most(&link, 9).unwrap(), b"x");
    }
}
