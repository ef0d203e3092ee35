//! Supports as people provide them: an image and a mask, a folder of pairs, a list, or a JSON file.

use std::path::{Path, PathBuf};

use image::DynamicImage;
use protoseg_core::{IdMap, Remap, RemapError};
use serde::Deserialize;

use crate::dataset::check_sizes;
use crate::mask::read_index_mask;
use crate::picture::{decode_dynamic, read_image};
use crate::{DataError, Sample, Support, files};

/// A labelled image of a class.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupportFiles {
    pub class: String,
    pub image: PathBuf,
    pub mask: PathBuf,
    /// The id of the class in the mask; by default the only id besides 0.
    #[serde(default)]
    pub value: Option<u16>,
    /// Whether the other ids in the mask are rows of the model's base classes. Otherwise they are "no label".
    #[serde(default)]
    pub base_labels: bool,
}

/// What 8-bit masks write for "no label".
const NO_LABEL: u16 = 255;

impl SupportFiles {
    /// A support whose mask holds only the class.
    pub fn new(class: &str, image: &Path, mask: &Path) -> Self {
        let (image, mask) = (image.to_path_buf(), mask.to_path_buf());
        Self { class: class.to_string(), image, mask, value: None, base_labels: false }
    }

    /// Reads the supports in a JSON file: an array of `{"class", "image", "mask", "value", "base_labels"}`, the last
    /// two optional. Paths are relative to the file's folder.
    pub fn read_json(path: &Path) -> Result<Vec<Self>, DataError> {
        let mut examples: Vec<Self> = serde_json::from_slice(&files::read_bytes(path)?)
            .map_err(|source| DataError::Json { path: path.to_path_buf(), source })?;
        if examples.is_empty() {
            return Err(DataError::Empty { path: path.to_path_buf(), hint: "list at least one support" });
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        for example in &mut examples {
            example.image = folder.join(&example.image);
            example.mask = folder.join(&example.mask);
        }
        Ok(examples)
    }

    /// Reads the supports in a text file: one image and its mask per line. Paths are relative to the file's folder.
    pub fn read_list(class: &str, path: &Path) -> Result<Vec<Self>, DataError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut examples = Vec::new();
        for (line, text) in files::read_lines(path)? {
            let words: Vec<&str> = match text.contains('\t') {
                true => text.split('\t').map(str::trim).collect(),
                false => text.split_whitespace().collect(),
            };
            let &[image, mask] = &words[..] else {
                let expected = "an image and its mask, separated by a space or a tab";
                return Err(DataError::Line { path: path.to_path_buf(), line, got: text, expected });
            };
            examples.push(Self::new(class, &folder.join(image), &folder.join(mask)));
        }
        match examples.is_empty() {
            true => Err(DataError::Empty {
                path: path.to_path_buf(),
                hint: "write one image and its mask per line",
            }),
            false => Ok(examples),
        }
    }

    /// Finds the supports in a folder: `images` and `masks` with the same names, or masks beside their images. A mask
    /// beside its image is called NAME_mask, or is a PNG beside a JPEG of the same name.
    pub fn read_folder(class: &str, folder: &Path) -> Result<Vec<Self>, DataError> {
        let (images, masks) = (folder.join("images"), folder.join("masks"));
        let is_apart = images.is_dir() && masks.is_dir();
        let pictures = |folder: &Path| -> Result<Vec<PathBuf>, DataError> {
            Ok(files::list_dir(folder)?.into_iter().filter(|path| files::is_picture(path)).collect())
        };
        let (images, masks) = if is_apart {
            (pictures(&images)?, pictures(&masks)?)
        } else {
            let all = pictures(folder)?;
            let jpegs: Vec<String> = all.iter().filter(|path| !is_png(path)).map(|path| stem(path)).collect();
            let is_mask =
                |path: &PathBuf| bare_stem(path).is_some() || (is_png(path) && jpegs.contains(&stem(path)));
            all.into_iter().partition(|path| !is_mask(path))
        };
        let mut examples = Vec::new();
        for image in &images {
            let name = stem(image);
            let fits = |mask: &&PathBuf| stem(mask) == name || bare_stem(mask).as_ref() == Some(&name);
            let mask = masks.iter().find(fits).ok_or_else(|| DataError::Missing {
                path: image.with_file_name(format!("{name}_mask.png")),
                hint: format!("every image of class `{class}` needs a mask: NAME_mask.png beside it, or NAME.png in masks/"),
            })?;
            examples.push(Self::new(class, image, mask));
        }
        match examples.is_empty() {
            true => Err(DataError::Empty {
                path: folder.to_path_buf(),
                hint: "add images with masks: a.jpg and a_mask.png, or images/a.jpg and masks/a.png",
            }),
            false => Ok(examples),
        }
    }

    /// Reads image and mask. In a mask with base labels, ids below `n_base` are rows of the model, and ids up to
    /// `known` are ignored.
    pub fn load(&self, n_base: u16, known: u16) -> Result<Support, DataError> {
        let image = read_image(&self.image)?;
        let label = read_mask(&self.mask)?;
        let sample =
            Sample { name: self.class.clone(), image: self.image.clone(), label: Some(self.mask.clone()) };
        check_sizes(&sample, &image, &label)?;
        let value = self.find_value(&label, n_base)?;
        let base_rows = self.base_labels.then_some((n_base, known));
        let rows = match Remap::for_mask(value, base_rows, NO_LABEL).apply(&label) {
            Ok(rows) => rows,
            Err(RemapError::Unknown { id, .. } | RemapError::Novel { id, .. }) => {
                return Err(self.wrong(
                    format!("holds id `{id}`, which is not a class of the model"),
                    "give the id of the class as `value`; the other ids are rows of the model, and 255 is no label",
                ));
            }
        };
        let name = self.image.file_name().unwrap_or_default().to_string_lossy();
        let support = Support::new(name, image, rows)?;
        match support.pixels() {
            0 => Err(self.wrong(
                format!("holds no pixel of the class (id `{value}`)"),
                "paint the class into the mask, or give the id that it has",
            )),
            _ => Ok(support),
        }
    }

    /// The id of the class: as given, or the only one possible.
    fn find_value(&self, label: &IdMap, n_base: u16) -> Result<u16, DataError> {
        if let Some(value) = self.value {
            return Ok(value);
        }
        let present = label.present();
        let least = if self.base_labels { n_base } else { 1 };
        let foreground: Vec<u16> =
            present.iter().copied().filter(|&id| id >= least && id != NO_LABEL).collect();
        match foreground[..] {
            [value] => Ok(value),
            // Black and white: 255 is the class, because there is nothing else.
            [] if !self.base_labels && present.contains(&NO_LABEL) => Ok(NO_LABEL),
            [] => Err(self.wrong("holds no pixel of the class".into(), "paint the class into the mask")),
            _ => {
                let ids: Vec<String> = foreground.iter().map(|id| format!("`{id}`")).collect();
                Err(self.wrong(
                    format!("holds the ids {}", ids.join(", ")),
                    "give the id of the class as `value` in a JSON file of supports",
                ))
            }
        }
    }

    fn wrong(&self, reason: String, hint: &str) -> DataError {
        DataError::SupportMask {
            path: self.mask.clone(),
            class: self.class.clone(),
            reason,
            hint: hint.to_string(),
        }
    }
}

/// Reads an index mask, or a picture with one colour on black, which becomes id 255.
fn read_mask(path: &Path) -> Result<IdMap, DataError> {
    match read_index_mask(path) {
        Err(DataError::NotAMask { reason, hint, .. }) if is_png(path) => {
            let picture = decode_dynamic(&files::read_bytes(path)?, path)?;
            one_colour(&picture).ok_or_else(|| DataError::NotAMask { path: path.to_path_buf(), reason, hint })
        }
        read => read,
    }
}

/// What painting programs save as a mask: black (or transparent) and one other colour.
fn one_colour(picture: &DynamicImage) -> Option<IdMap> {
    let rgba = picture.to_rgba8();
    let mut colour = None;
    let mut labels = Vec::with_capacity(rgba.pixels().len());
    for image::Rgba([r, g, b, alpha]) in rgba.pixels() {
        let rgb = [*r, *g, *b];
        if *alpha == 0 || rgb == [0; 3] {
            labels.push(0);
        } else if *colour.get_or_insert(rgb) == rgb {
            labels.push(NO_LABEL);
        } else {
            return None;
        }
    }
    Some(IdMap::new(rgba.width() as usize, rgba.height() as usize, labels))
}

fn is_png(path: &Path) -> bool {
    files::has_ending(path, "png")
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of the image that a mask's name refers to, if it does.
fn bare_stem(path: &Path) -> Option<String> {
    let stem = stem(path);
    ["_mask", "-mask", ".mask"].iter().find_map(|ending| stem.strip_suffix(ending).map(str::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::write_index_mask;
    use crate::picture::write_image;
    use protoseg_core::{IGNORE, Image, SUPPORT_ROW};

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn image(&self, name: &str) -> PathBuf {
            let path = self.0.path().join(name);
            write_image(&path, &Image::new(4, 1, vec![9; 12])).unwrap();
            path
        }

        fn mask(&self, name: &str, labels: [u16; 4]) -> PathBuf {
            let path = self.0.path().join(name);
            let map = IdMap::new(4, 1, labels.map(|id| if id == 255 { IGNORE } else { id }).to_vec());
            write_index_mask(&path, &map).unwrap();
            path
        }

        fn example(&self, labels: [u16; 4]) -> SupportFiles {
            SupportFiles::new("duck", &self.image("a.png"), &self.mask("a_mask.png", labels))
        }
    }

    #[test]
    fn a_mask_of_one_class_labels_nothing_else() {
        let folder = Folder::new();
        for labels in [[0, 3, 3, 0], [0, 255, 255, 0], [255, 3, 3, 0]] {
            let loaded = folder.example(labels).load(16, 21).unwrap();
            assert_eq!(loaded.labels().data, [IGNORE, SUPPORT_ROW, SUPPORT_ROW, IGNORE], "{labels:?}");
            assert_eq!(loaded.pixels(), 2);
        }
    }

    #[test]
    fn base_labels_are_kept_by_row() {
        let folder = Folder::new();
        let example = SupportFiles { base_labels: true, ..folder.example([0, 17, 2, 255]) };
        assert_eq!(example.load(16, 21).unwrap().labels().data, [0, SUPPORT_ROW, 2, IGNORE]);
        let example = SupportFiles { base_labels: true, value: Some(2), ..folder.example([1, 17, 2, 2]) };
        assert_eq!(example.load(16, 21).unwrap().labels().data, [1, IGNORE, SUPPORT_ROW, SUPPORT_ROW]);
        let error = SupportFiles { base_labels: true, value: Some(2), ..folder.example([1, 99, 2, 2]) };
        assert!(error.load(16, 21).unwrap_err().to_string().contains("id `99`"));
    }

    #[test]
    fn masks_that_do_not_say_what_is_meant_are_refused() {
        let folder = Folder::new();
        let refuse = |example: SupportFiles| example.load(16, 21).unwrap_err().to_string();
        let two = refuse(folder.example([0, 3, 4, 0]));
        assert!(two.contains("a_mask.png` of class `duck` holds the ids `3`, `4`"), "{two}");
        assert!(refuse(folder.example([0, 0, 0, 0])).contains("no pixel of the class"));
        let other = SupportFiles { value: Some(9), ..folder.example([0, 3, 3, 0]) };
        assert!(refuse(other).contains("no pixel of the class (id `9`)"));
    }

    #[test]
    fn a_painted_mask_is_read() {
        let folder = Folder::new();
        let mut example = folder.example([0, 1, 1, 0]);
        let painted = Image::new(4, 1, vec![0, 0, 0, 255, 0, 0, 255, 0, 0, 0, 0, 0]);
        example.mask = folder.0.path().join("painted.png");
        write_image(&example.mask, &painted).unwrap();
        assert_eq!(example.load(16, 21).unwrap().pixels(), 2);
        write_image(&example.mask, &Image::new(4, 1, vec![0, 0, 0, 255, 0, 0, 9, 0, 0, 0, 0, 0])).unwrap();
        assert!(example.load(16, 21).unwrap_err().to_string().contains("not an index mask"));
    }

    #[test]
    fn folders_and_lists_name_pairs() {
        let folder = Folder::new();
        let example = folder.example([0, 1, 1, 0]);
        assert_eq!(
            SupportFiles::read_folder("duck", folder.0.path()).unwrap(),
            std::slice::from_ref(&example)
        );
        let list = folder.0.path().join("list.txt");
        std::fs::write(&list, "# pairs\na.png a_mask.png\n").unwrap();
        assert_eq!(SupportFiles::read_list("duck", &list).unwrap(), [example]);
        std::fs::write(&list, "a.png\n").unwrap();
        assert!(SupportFiles::read_list("duck", &list).unwrap_err().to_string().contains("line 1"));
        folder.image("b.png");
        let error = SupportFiles::read_folder("duck", folder.0.path()).unwrap_err().to_string();
        assert!(error.contains("b_mask.png"), "{error}");
    }
}
