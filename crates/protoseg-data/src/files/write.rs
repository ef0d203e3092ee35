//! Writing: a file is there whole or not at all, whatever happens meanwhile.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::NamedTempFile;

use super::read::refuse_irregular;
use crate::DataError;

/// What the name of a file begins with until it is whole. It has no ending.
const TEMPORARY: &str = ".protoseg-";
/// A temporary file of this age was left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Links to links beyond this are a loop.
const MAX_LINKS: usize = 40;

/// A file that takes its place when it is whole. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    place: PathBuf,
}

impl NewFile {
    /// A file that is to be at `path`: beside it for now. What is there already must be a regular file that may be written;
    /// a link stays, and the file it leads to is replaced. The mode of a file that is replaced is kept.
    pub fn create(path: &Path) -> io::Result<Self> {
        let place = follow_links(path)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let replaced = match fs::metadata(&place) {
            Ok(metadata) => {
                refuse_irregular(&metadata)?;
                if metadata.permissions().readonly() {
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
                }
                Some(metadata.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let folder = folder_of(&place);
        let file = builder.tempfile_in(folder).map_err(|error| missing_folder(folder, error))?;
        if let Some(permissions) = replaced {
            file.as_file().set_permissions(permissions)?;
        }
        Ok(Self { file, place })
    }

    /// Adds to what is written.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Where it is for now.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Takes its place for good: bytes and name are on the disk before this returns.
    pub fn finish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        let folder = folder_of(&self.place).to_path_buf();
        self.take_place()?;
        // Not every system lets a folder be opened.
        if let Ok(folder) = File::open(&folder) {
            let _ = folder.sync_all();
        }
        clean_up(&folder, ABANDONED);
        Ok(())
    }

    /// Takes its place. After a power failure it may be empty.
    fn take_place(self) -> io::Result<()> {
        self.file.persist(&self.place).map(drop).map_err(|error| error.error)
    }
}

/// Writes a file that matters: whole or not at all, and on the disk when this returns.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    write(path, bytes, NewFile::finish)
}

/// Writes a file that can be made again, one of many: whole or not at all as long as the machine runs. Waiting for the
/// disk would take longer than making it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    write(path, bytes, NewFile::take_place)
}

fn write(path: &Path, bytes: &[u8], end: fn(NewFile) -> io::Result<()>) -> Result<(), DataError> {
    let written = NewFile::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        end(file)
    });
    written.map_err(|source| DataError::writing(path, source))
}

/// Deletes files of at least this age that killed processes have left in a folder before they were whole.
pub fn clean_up(folder: &Path, age: Duration) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_temporary = name.strip_prefix(TEMPORARY).is_some_and(|rest| !rest.contains('.'));
        let own_age = || {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some(metadata.modified().ok()?.elapsed().unwrap_or_default())
        };
        if is_temporary && own_age().is_some_and(|own| own >= age) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Where a link leads to in the end, whether a file is there or not.
pub(super) fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&place) {
            Ok(target) => place = folder_of(&place).join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// The error of a file that cannot be made: if its folder is missing, the words say so.
fn missing_folder(folder: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let words = format!("the folder `{}` does not exist\nhint: create it first", folder.display());
            io::Error::new(io::ErrorKind::NotFound, words)
        }
        _ => error,
    }
}

/// The folder that a file is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        time::SystemTime,
    };

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        for write in [write_atomic, write_whole] {
            write(&path, b"1").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let _ = fs::remove_file(&link);
            symlink("a", &link).unwrap();
            write(&link, b"2").unwrap();
            assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"2".to_vec(), 0o600));
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside it");
        symlink("nowhere", folder.path().join("c")).unwrap();
        write_atomic(&folder.path().join("c"), b"3").unwrap();
        assert_eq!(fs::read(folder.path().join("nowhere")).unwrap(), b"3");
    }

    #[test]
    fn only_regular_files_that_may_be_written_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"mine").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let refused = |path: &Path| write_atomic(path, b"x").unwrap_err().to_string();
        assert!(refused(&path).contains("the file is read-only"));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert!(refused(Path::new("/dev/null")).contains("a device or a pipe"));
        assert!(refused(folder.path()).contains("directory"));
        let (a, b) = (folder.path().join("x"), folder.path().join("y"));
        symlink(&a, &b).unwrap();
        symlink(&b, &a).unwrap();
        assert!(refused(&a).contains("circle"));
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = write_atomic(&missing.join("a"), b"x").unwrap_err().to_string();
        let words = format!("the folder `{}` does not exist\nhint: create it first\n", missing.display());
        assert!(error.contains(&words) && !error.contains(TEMPORARY), "{error}");
    }

    #[test]
    fn what_killed_processes_left_is_deleted_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, age: u64| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        make(".protoseg-Ab12Cd", 4000);
        make(".protoseg-new", 10);
        make(".protoseg-predict.jsonl", 4000);
        make("photo.png", 4000);
        write_atomic(&folder.path().join("a"), b"1").unwrap();
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".protoseg-new", ".protoseg-predict.jsonl", "a", "photo.png"]);
    }
}
