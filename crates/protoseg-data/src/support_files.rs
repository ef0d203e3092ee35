//! Supports as people provide them: an image and a mask, a folder of pairs, a list, or a JSON file.

use std::path::{Path, PathBuf};

use protoseg_core::{IdMap, Image, Remap, RemapError};
use serde::Deserialize;

use crate::dataset::check_sizes;
use crate::picture::{has_alpha, read_image};
use crate::support_mask::{PAINTED, Painted, draw_box, read_cut_out, read_painted};
use crate::{DataError, Sample, Support, files};

/// A labelled image of a class.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Listed")]
pub struct SupportFiles {
    pub class: String,
    pub image: PathBuf,
    pub mask: MaskSource,
    /// The id of the class in the mask; by default the only id besides 0.
    pub value: Option<u16>,
    /// Whether the other ids in the mask are rows of the model's base classes. Otherwise they are "no label".
    pub base_labels: bool,
}

/// Where the class is in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskSource {
    /// A mask of the image's size.
    File(PathBuf),
    /// The opaque part of the image itself, which is a cut-out.
    Alpha,
    /// Left, top, width and height of a box around it, in pixels. A weak mask: not all in it is the class.
    Box([u32; 4]),
    /// A mask in which only a part of the class is painted. A weak mask: what is not painted may be the class too.
    Scribble(PathBuf),
}

/// A support as a JSON file writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    class: String,
    image: PathBuf,
    mask: Option<PathBuf>,
    #[serde(rename = "box")]
    bounds: Option<[f64; 4]>,
    scribble: Option<PathBuf>,
    value: Option<u16>,
    #[serde(default)]
    base_labels: bool,
}

impl TryFrom<Listed> for SupportFiles {
    type Error = String;

    fn try_from(listed: Listed) -> Result<Self, String> {
        let Listed { class, image, mask, bounds, scribble, value, base_labels } = listed;
        let mask = match (mask, bounds, scribble) {
            (Some(mask), None, None) => MaskSource::File(mask),
            (None, Some(bounds), None) => MaskSource::Box(
                whole_pixels(bounds).ok_or("`box` must be [left, top, width, height] in pixels")?,
            ),
            (None, None, Some(scribble)) => MaskSource::Scribble(scribble),
            (None, None, None) => MaskSource::Alpha,
            _ => return Err(format!("support `{}` has more than one mask", image.display())),
        };
        let is_file = matches!(mask, MaskSource::File(_) | MaskSource::Scribble(_));
        if !is_file && (value.is_some() || base_labels) {
            return Err(format!("`value` and `base_labels` of support `{}` need a mask", image.display()));
        }
        Ok(Self { class, image, mask, value, base_labels })
    }
}

/// The numbers of a box, rounded; nothing if they are not those of a box.
fn whole_pixels([left, top, width, height]: [f64; 4]) -> Option<[u32; 4]> {
    let is_box = left >= 0.0 && top >= 0.0 && width > 0.0 && height > 0.0;
    let numbers = [left, top, width, height];
    let fits = numbers.iter().all(|number| *number <= f64::from(u32::MAX));
    (is_box && fits).then(|| numbers.map(|number| number.round() as u32))
}

impl MaskSource {
    /// The box that `left,top,width,height` describes, in pixels.
    pub fn parse_box(text: &str) -> Option<Self> {
        let numbers: Option<Vec<f64>> = text.split(',').map(|word| word.trim().parse().ok()).collect();
        whole_pixels(numbers?.try_into().ok()?).map(Self::Box)
    }
}

/// How many ids an error names: a soft mask has hundreds.
const NAMED_IDS: usize = 8;

impl SupportFiles {
    /// A support whose mask holds only the class.
    pub fn new(class: &str, image: &Path, mask: &Path) -> Self {
        Self::with(class, image, MaskSource::File(mask.to_path_buf()))
    }

    /// A support with a mask of any kind.
    pub fn with(class: &str, image: &Path, mask: MaskSource) -> Self {
        let (class, image) = (class.to_string(), image.to_path_buf());
        Self { class, image, mask, value: None, base_labels: false }
    }

    /// Reads the supports in a JSON file: an array of `{"class", "image", "mask", "value", "base_labels"}`, the last
    /// two optional. Instead of `mask` there may be `box` or `scribble`, or nothing for a cut-out. Paths are relative
    /// to the file's folder.
    pub fn read_json(path: &Path) -> Result<Vec<Self>, DataError> {
        let mut examples: Vec<Self> = serde_json::from_slice(&files::read_bytes(path)?)
            .map_err(|source| DataError::Json { path: path.to_path_buf(), source })?;
        if examples.is_empty() {
            return Err(DataError::Empty { path: path.to_path_buf(), hint: "list at least one support" });
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        for example in &mut examples {
            example.image = folder.join(&example.image);
            if let MaskSource::File(mask) | MaskSource::Scribble(mask) = &mut example.mask {
                *mask = folder.join(&*mask);
            }
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
    /// beside its image is called NAME_mask, or is a PNG beside a JPEG of the same name. An image without a mask may
    /// be a cut-out.
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
            examples.push(match masks.iter().find(fits) {
                Some(mask) => Self::new(class, image, mask),
                None if has_alpha(image) => Self::with(class, image, MaskSource::Alpha),
                None => return Err(DataError::Missing {
                    path: image.with_file_name(format!("{name}_mask.png")),
                    hint: format!("every image of class `{class}` needs a mask: NAME_mask.png beside it, or NAME.png in masks/"),
                }),
            });
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
        let (image, painted) = match self.mask {
            MaskSource::Alpha => self.read_cut_out()?,
            _ => {
                let image = read_image(&self.image)?;
                let painted = self.read_mask(&image)?;
                (image, painted)
            }
        };
        self.label(image, painted, n_base, known)
    }

    /// The same for an image that is in memory; [`Self::image`] is its name. It is no cut-out.
    pub fn load_onto(&self, image: Image, n_base: u16, known: u16) -> Result<Support, DataError> {
        let painted = self.read_mask(&image)?;
        self.label(image, painted, n_base, known)
    }

    fn label(
        &self,
        image: Image,
        Painted { map: label, note }: Painted,
        n_base: u16,
        known: u16,
    ) -> Result<Support, DataError> {
        let value = self.find_value(&label, n_base)?;
        let base_rows = self.base_labels.then_some((n_base, known));
        let rows = match Remap::for_mask(value, base_rows, PAINTED).apply(&label) {
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
            _ => Ok(match self.mask {
                MaskSource::Box(_) => support.noted(note).weak(),
                MaskSource::Scribble(_) => support.noted(note).scribbled(),
                MaskSource::File(_) | MaskSource::Alpha => support.noted(note),
            }),
        }
    }

    /// A cut-out and its opaque part.
    fn read_cut_out(&self) -> Result<(Image, Painted), DataError> {
        let (image, painted) = read_cut_out(&self.image)?;
        let painted = painted.ok_or_else(|| self.no_mask())?;
        Ok((image, Painted { note: None, ..painted }))
    }

    fn no_mask(&self) -> DataError {
        let reason = "has no mask, and is no cut-out: it has no transparent part".to_string();
        self.wrong(reason, "give it a mask, a box or a scribble, or make all but the class transparent")
    }

    /// A mask of the image's size.
    fn read_mask(&self, image: &Image) -> Result<Painted, DataError> {
        match &self.mask {
            MaskSource::File(path) | MaskSource::Scribble(path) => {
                let has_ids = self.value.is_some() || self.base_labels;
                let painted = read_painted(path, has_ids)?;
                let label = Some(path.clone());
                let sample = Sample { name: self.class.clone(), image: self.image.clone(), label };
                check_sizes(&sample, image, &painted.map)?;
                Ok(painted)
            }
            MaskSource::Alpha => Err(self.no_mask()),
            MaskSource::Box(bounds) => {
                let label = draw_box(image.width, image.height, *bounds);
                if !label.data.contains(&PAINTED) {
                    let [left, top, ..] = bounds;
                    let (width, height) = (image.width, image.height);
                    return Err(self.wrong(
                        format!("has a box at ({left}, {top}), outside its {width} x {height} pixels"),
                        "give left, top, width and height in pixels of the image",
                    ));
                }
                Ok(label.into())
            }
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
            present.iter().copied().filter(|&id| id >= least && id != PAINTED).collect();
        match foreground[..] {
            [value] => Ok(value),
            // Black and white: 255 is the class, because there is nothing else.
            [] if !self.base_labels && present.contains(&PAINTED) => Ok(PAINTED),
            [] => Err(self.wrong("holds no pixel of the class".into(), "paint the class into the mask")),
            _ => {
                let ids: Vec<String> =
                    foreground.iter().take(NAMED_IDS).map(|id| format!("`{id}`")).collect();
                let more = if foreground.len() > NAMED_IDS { " and more" } else { "" };
                Err(self.wrong(
                    format!("holds the ids {}{more}", ids.join(", ")),
                    "give the id of the class as `value` in a JSON file of supports",
                ))
            }
        }
    }

    fn wrong(&self, reason: String, hint: &str) -> DataError {
        let path = match &self.mask {
            MaskSource::File(path) | MaskSource::Scribble(path) => path,
            MaskSource::Alpha | MaskSource::Box(_) => {
                return DataError::SupportImage {
                    path: self.image.clone(),
                    class: self.class.clone(),
                    reason,
                    hint: hint.to_string(),
                };
            }
        };
        DataError::SupportMask {
            path: path.clone(),
            class: self.class.clone(),
            reason,
            hint: hint.to_string(),
        }
    }
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
    use protoseg_core::{IGNORE, SUPPORT_ROW};

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
        let mask = folder.0.path().join("painted.png");
        example.mask = MaskSource::File(mask.clone());
        write_image(&mask, &painted).unwrap();
        assert_eq!(example.load(16, 21).unwrap().pixels(), 2);
        write_image(&mask, &Image::new(4, 1, vec![0, 0, 0, 255, 0, 0, 9, 0, 0, 0, 0, 0])).unwrap();
        assert!(example.load(16, 21).unwrap_err().to_string().contains("not an index mask"));
    }

    #[test]
    fn a_json_file_names_masks_of_every_kind() {
        let folder = Folder::new();
        let image = folder.image("a.png");
        folder.mask("m.png", [0, 1, 0, 0]);
        let list = folder.0.path().join("list.json");
        let read = |fields: &str| {
            std::fs::write(&list, format!(r#"[{{"class": "duck", "image": "a.png"{fields}}}]"#)).unwrap();
            SupportFiles::read_json(&list).map(|mut examples| examples.remove(0))
        };
        let boxed = read(r#", "box": [1, 0, 2.4, 7]"#).unwrap();
        assert_eq!(boxed, SupportFiles::with("duck", &image, MaskSource::parse_box("1,0,2,7").unwrap()));
        let boxed = boxed.load(16, 21).unwrap();
        assert_eq!((boxed.pixels(), boxed.is_weak()), (2, true));
        let scribbled = read(r#", "scribble": "m.png""#).unwrap().load(16, 21).unwrap();
        assert_eq!((scribbled.pixels(), scribbled.is_weak()), (1, true));
        assert!(!read(r#", "mask": "m.png""#).unwrap().load(16, 21).unwrap().is_weak());
        // What is not painted is background in a mask, and may be the class beside a scribble.
        let unlabelled = |fields: &str| {
            let files = read(fields).unwrap();
            let in_memory = files.load_onto(read_image(&image).unwrap(), 16, 21).unwrap();
            assert_eq!(in_memory, files.load(16, 21).unwrap());
            in_memory.with_rest(Some(0)).labels().data.iter().filter(|&&row| row == IGNORE).count()
        };
        assert_eq!((unlabelled(r#", "mask": "m.png""#), unlabelled(r#", "scribble": "m.png""#)), (0, 3));

        let opaque = read("").unwrap().load(16, 21).unwrap_err().to_string();
        assert!(opaque.contains("a.png` of class `duck` has no mask"), "{opaque}");
        let outside = read(r#", "box": [9, 9, 1, 1]"#).unwrap().load(16, 21).unwrap_err().to_string();
        assert!(outside.contains("(9, 9), outside its 4 x 1 pixels"), "{outside}");
        for wrong in
            [r#", "box": [1, 0, 0, 7]"#, r#", "mask": "m.png", "box": [0, 0, 1, 1]"#, r#", "value": 3"#]
        {
            assert!(matches!(read(wrong), Err(DataError::Json { .. })), "{wrong}");
        }
        assert!(
            ["1,2,3", "1,2,3,x", "-1,2,3,4", "1,2,NaN,4"]
                .iter()
                .all(|text| MaskSource::parse_box(text).is_none())
        );
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
