//! What the targets share: a folder in memory with one hostile file in it.

use std::{cell::RefCell, fs, path::Path};

use protoseg_data::{Benchmark, CheckOptions, check, quiet};

thread_local! {
    static FOLDER: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

/// Writes `bytes` to `file` in a folder that `fill` has filled once, and calls `read` with it.
pub fn with_file(file: &str, bytes: &[u8], fill: fn(&Path), read: fn(&Path)) {
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| {
            let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
            let folder = folder.expect("a temporary folder");
            fill(folder.path());
            folder
        });
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        read(folder.path());
    });
}

/// Opens a folder as a data set and reads all of it.
pub fn read_data_set(folder: &Path) {
    if let Ok(benchmark) = Benchmark::folder(folder) {
        check(&benchmark, CheckOptions::default(), &quiet);
    }
}

/// A picture of 20 x 12 at a path in the folder.
pub fn picture(folder: &Path, file: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
    let image = protoseg_core::Image::new(20, 12, vec![90; 20 * 12 * 3]);
    protoseg_data::picture::write_image(path, &image).expect("a picture");
}

/// Text at a path in the folder.
pub fn text(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}
