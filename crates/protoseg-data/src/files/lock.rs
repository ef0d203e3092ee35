//! Locks: two processes never change the same file, or work in the same folder, at the same time.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use super::write::{folder_of, follow_links};

/// What a holder says of itself is not longer than this.
const MAX_HOLDER: u64 = 500;

/// The right to change a file, or to work in a folder, while this lives. The system ends it with its process, however
/// that ends. It is advisory: only programs that ask are kept out.
#[derive(Debug)]
pub struct Lock {
    /// None where the system has no locks.
    file: Option<File>,
    path: PathBuf,
}

impl Lock {
    /// The lock of `path`, or who has it. `path` itself need not exist, only its folder. A link has the lock of the file
    /// that it leads to.
    pub fn try_take(path: &Path) -> io::Result<Result<Self, String>> {
        let path = lock_path(&follow_links(path)?);
        loop {
            let mut file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Err(holder(&mut file))),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Ok(Self { file: None, path }));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if let Some(file) = claim(file, &path)? {
                return Ok(Ok(Self { file: Some(file), path }));
            }
        }
    }

    /// The lock of `path`, as soon as nobody else has it. `waiting` is told who has it.
    pub fn wait(path: &Path, waiting: impl FnOnce(&str)) -> io::Result<Self> {
        match Self::try_take(path)? {
            Ok(lock) => return Ok(lock),
            Err(holder) => waiting(&holder),
        }
        let path = lock_path(&follow_links(path)?);
        loop {
            let file = open(&path)?;
            file.lock()?;
            if let Some(file) = claim(file, &path)? {
                return Ok(Self { file: Some(file), path });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Deleted before it is let go: who waits for it sees that it is gone, and begins again.
        if self.file.is_some() && cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// `.NAME.lock` beside the file.
fn lock_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    folder_of(path).join(format!(".{name}.lock"))
}

/// Says who holds the locked file; nothing if it is not the one at `path` any more.
fn claim(mut file: File, path: &Path) -> io::Result<Option<File>> {
    if !is_same(&file, path)? {
        return Ok(None);
    }
    let command = std::env::args_os().nth(1).unwrap_or_default();
    let holder = format!("process {} (protoseg {})", std::process::id(), command.to_string_lossy());
    // For others to read; a full disk is no reason to do without the lock.
    let _ = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
    Ok(Some(file))
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_same(_: &File, _: &Path) -> io::Result<bool> {
    // Locked files are never deleted there.
    Ok(true)
}

/// Who has locked a file, as far as it says.
fn holder(file: &mut File) -> String {
    let mut text = Vec::new();
    let read = file.rewind().and_then(|()| file.take(MAX_HOLDER).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    if read.is_err() || text.is_empty() { "another process".to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn a_lock_is_held_by_one_and_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.pack");
        let first = Lock::try_take(&path).unwrap().unwrap();
        let holder = Lock::try_take(&path).unwrap().unwrap_err();
        assert!(holder.contains(&format!("process {} (protoseg", std::process::id())), "{holder}");
        assert!(Lock::try_take(&folder.path().join("other.pack")).unwrap().is_ok());
        #[cfg(unix)]
        {
            let link = folder.path().join("link.pack");
            std::os::unix::fs::symlink("my.pack", &link).unwrap();
            assert!(Lock::try_take(&link).unwrap().is_err(), "a link is the file it leads to");
            fs::remove_file(link).unwrap();
        }
        drop(first);
        drop(Lock::try_take(&path).unwrap().unwrap());
        #[cfg(unix)]
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no lock is left");
    }

    #[test]
    fn who_waits_gets_it_and_never_two_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.pack");
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let _lock = Lock::wait(&path, |_| ()).unwrap();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_micros(50));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }
}
