//! The gallery of the output folder.

use std::path::{Component, Path, PathBuf};

use protoseg::{
    picture::Palette,
    report::{Gallery, GalleryImage},
};
use protoseg_data::{DataError, write_whole};

use super::ledger::{GALLERY_FILE, Record};
use crate::output::masks::{FOLDERS, GALLERY_INPUT, GALLERY_OVERLAY};

/// Writes the page of these images into their folder. `lead` says what made them; notes stand above them.
pub fn write(
    folder: &Path,
    palette: &Palette,
    lead: &str,
    records: &[&Record],
    notes: Vec<String>,
) -> Result<(), DataError> {
    let root = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let title = root.file_name().map_or("predictions".into(), |name| name.to_string_lossy());
    let mut gallery = Gallery::new(&title, lead, palette);
    notes.into_iter().for_each(|note| gallery.note(note));
    for record in records {
        gallery.push(card(record, &root));
    }
    write_whole(&folder.join(GALLERY_FILE), gallery.html().as_bytes())
}

fn card<'a>(record: &'a Record, root: &Path) -> GalleryImage<'a> {
    let input = relative(root, Path::new(&record.source.path));
    let size = (record.width, record.height);
    let mut card = GalleryImage::new(&record.name, size, &record.classes, record.abstained, input);
    for file in &record.files {
        let is_in = |folder: &str| file.starts_with(folder);
        match FOLDERS.into_iter().find(|folder| is_in(folder)) {
            Some("gallery") if is_in(GALLERY_INPUT) => card = card.thumbnail("input", file.clone()),
            Some("gallery") if is_in(GALLERY_OVERLAY) => card = card.thumbnail("overlay", file.clone()),
            // One link to the folder of all classes.
            Some("gallery" | "probability") | None => {}
            Some(kind) => card = card.file(kind, file.clone()),
        }
    }
    let probability = record.files.iter().find(|file| file.starts_with("probability"));
    match probability.and_then(|file| file.parent()) {
        Some(folder) => card.file("probability", folder.to_path_buf()),
        None => card,
    }
}

/// A path as seen from a folder; both are absolute.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return to.to_path_buf();
    }
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_the_folder() {
        let seen = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(seen("/a/out", "/a/photos/x.jpg"), Path::new("../photos/x.jpg"));
        assert_eq!(seen("/a/photos/out", "/a/photos/x.jpg"), Path::new("../x.jpg"));
        assert_eq!(seen("/a", "/a/x.jpg"), Path::new("x.jpg"));
    }
}
