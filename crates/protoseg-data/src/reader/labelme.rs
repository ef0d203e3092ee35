//! LabelMe: one JSON file beside each image, with polygons, rectangles, circles and masks.
//!
//! If the root has no JSON files itself, each folder with JSON files is a split. Classes come from `classes.txt` or
//! `labels.txt` if one exists (LabelMe's `__ignore__` and `_background_` are understood). Otherwise they are the
//! labels in use, sorted. Id 0 is the background. Shapes labelled `__ignore__` become "no label". Points and lines
//! have no area and are counted as empty. Overlaps follow the rule of [`crate::shapes`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use protoseg_core::{ClassId, ClassTable, IGNORE, Image};
use rayon::prelude::*;
use serde::Deserialize;

use super::{ALL, drawn_classes, folder_name, rest_label};
use crate::dataset::{Contents, Dataset, Sample, Split};
use crate::mask::decode_index_png;
use crate::picture::{MAX_PIXELS, decode_image, is_too_large, read_image};
use crate::region::{Region, circle_corners};
use crate::shapes::{Labels, Shape, paint};
use crate::{DataError, files};

const IGNORE_LABEL: &str = "__ignore__";
const BACKGROUND_LABEL: &str = "_background_";

/// An open LabelMe data set.
pub struct LabelmeDataset {
    contents: Contents,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    shapes: Vec<DrawnShape>,
    #[serde(default)]
    image_path: String,
    #[serde(default)]
    image_data: Option<String>,
    image_height: usize,
    image_width: usize,
}

#[derive(Deserialize)]
struct DrawnShape {
    label: String,
    points: Vec<(f64, f64)>,
    #[serde(default)]
    shape_type: Option<String>,
    /// A PNG in base64, placed with its corner at the first point.
    #[serde(default)]
    mask: Option<String>,
}

/// The part of a record that opening needs: not the image that may be embedded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline {
    shapes: Vec<OutlineShape>,
    #[serde(default)]
    image_path: String,
}

#[derive(Deserialize)]
struct OutlineShape {
    label: String,
}

/// Whether there are JSON files in the folder or its subfolders.
pub fn is_layout(root: &Path) -> bool {
    let Ok(entries) = files::list_dir(root) else { return false };
    let holds_json = |folder: &Path| {
        files::list_dir(folder).is_ok_and(|files| files.iter().any(|path| files::has_ending(path, "json")))
    };
    holds_json(root) || entries.iter().any(|entry| entry.is_dir() && holds_json(entry))
}

/// Opens the folder. `names` are the classes by id, starting at 1; if absent, the folder defines them. `background`
/// says whether pixels outside all shapes are background or "no label".
pub fn open(root: &Path, names: Option<Vec<String>>, background: bool) -> Result<LabelmeDataset, DataError> {
    let mut folders = vec![(ALL.to_string(), root.to_path_buf())];
    let is_json = |path: &Path| files::has_ending(path, "json");
    if !files::list_dir(root)?.iter().any(|path| is_json(path)) {
        let inner = files::list_dir(root)?.into_iter().filter(|path| path.is_dir());
        folders = inner.map(|path| (files::name_under(root, &path), path)).collect();
    }
    let (mut samples, mut splits, mut used) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (name, folder) in folders {
        let records = files::walk(&folder, is_json)?;
        let read: Vec<(Sample, Vec<String>)> =
            records.par_iter().map(|record| read_outline(root, record)).collect::<Result<_, _>>()?;
        let start = samples.len();
        for (sample, labels) in read {
            samples.push(sample);
            used.extend(labels);
        }
        if samples.len() > start {
            splits.push(Split { name, samples: (start..samples.len()).collect() });
        }
    }
    if samples.is_empty() {
        return Err(DataError::Empty {
            path: root.to_path_buf(),
            hint: "put LabelMe's JSON files into this folder",
        });
    }
    let (path, names) = match names {
        Some(names) => (root.to_path_buf(), names),
        None => find_names(root, used)?,
    };
    let special = [IGNORE_LABEL, BACKGROUND_LABEL, ClassTable::BACKGROUND];
    let names: Vec<String> = names.into_iter().filter(|name| !special.contains(&name.as_str())).collect();
    let classes = drawn_classes(&names, background).map_err(|source| DataError::Classes { path, source })?;
    let name = folder_name(root, "labelme");
    Ok(LabelmeDataset { contents: Contents { name, classes, samples, splits } })
}

fn read_outline(root: &Path, path: &Path) -> Result<(Sample, Vec<String>), DataError> {
    let bytes = files::read_bytes(path)?;
    let outline: Outline = serde_json::from_slice(&bytes)
        .map_err(|source| DataError::Json { path: path.to_path_buf(), source })?;
    let folder = path.parent().unwrap_or(root);
    let beside = folder.join(outline.image_path.replace('\\', "/"));
    let image = match !outline.image_path.is_empty() && beside.is_file() {
        true => beside,
        // The image may have been moved or renamed together with its JSON, or the JSON may hold the image itself.
        false => files::find_picture(folder, &files::stem_under(folder, path)).unwrap_or(path.to_path_buf()),
    };
    let labels = outline.shapes.into_iter().map(|shape| shape.label).collect();
    Ok((Sample { name: files::stem_under(root, path), image, label: Some(path.to_path_buf()) }, labels))
}

fn find_names(root: &Path, used: BTreeSet<String>) -> Result<(PathBuf, Vec<String>), DataError> {
    let listed = ["classes.txt", "labels.txt"].iter().map(|name| root.join(name)).find(|path| path.is_file());
    match listed {
        Some(path) => files::read_names(&path).map(|names| (path, names)),
        None => Ok((root.to_path_buf(), used.into_iter().collect())),
    }
}

impl LabelmeDataset {
    /// The same data set under another name.
    pub fn with_name(self, name: String) -> Self {
        Self { contents: Contents { name, ..self.contents } }
    }

    fn record(&self, index: usize) -> Result<(&Path, Record), DataError> {
        let path = self.contents.samples[index].label.as_deref().unwrap_or(Path::new(""));
        let bytes = files::read_bytes(path)?;
        let record = serde_json::from_slice(&bytes)
            .map_err(|source| DataError::Json { path: path.to_path_buf(), source })?;
        Ok((path, record))
    }

    /// The label that a shape paints.
    fn label(&self, name: &str) -> Option<u16> {
        match name {
            IGNORE_LABEL => Some(IGNORE),
            BACKGROUND_LABEL | ClassTable::BACKGROUND => Some(rest_label(&self.contents.classes)),
            _ => self.contents.classes.id(name).map(|ClassId(id)| id),
        }
    }
}

impl Dataset for LabelmeDataset {
    fn contents(&self) -> &Contents {
        &self.contents
    }

    fn image(&self, index: usize) -> Result<Image, DataError> {
        let sample = &self.contents.samples[index];
        if !files::has_ending(&sample.image, "json") {
            return read_image(&sample.image);
        }
        let (path, record) = self.record(index)?;
        let missing = || {
            let folder: PathBuf = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
            DataError::missing(&folder.join(&record.image_path))
        };
        let bytes = record.image_data.as_deref().and_then(decode_base64).ok_or_else(missing)?;
        decode_image(&bytes, path)
    }

    fn labels(&self, index: usize) -> Result<Labels, DataError> {
        let (path, record) = self.record(index)?;
        let (width, height) = (record.image_width, record.image_height);
        if width == 0 || height == 0 || is_too_large(width, height) {
            return Err(DataError::TooLarge { path: path.to_path_buf(), width, height, max: MAX_PIXELS });
        }
        let shapes = record.shapes.iter().enumerate().map(|(number, shape)| {
            let bad = |reason: String, hint| DataError::BadShape {
                path: path.to_path_buf(),
                shape: format!("shape `{}` (`{}`)", number + 1, shape.label),
                reason,
                hint,
            };
            let label = self.label(&shape.label).ok_or_else(|| {
                bad(
                    "its label is not among the classes".to_string(),
                    "add it to the classes, or correct the label",
                )
            })?;
            let region = fill(shape, path, width, height)
                .map_err(|reason| bad(reason, "draw it again in LabelMe, or remove it"))?;
            Ok(Shape { label, region, beneath: false })
        });
        let shapes = shapes.collect::<Result<Vec<Shape>, DataError>>()?;
        Ok(paint(width, height, rest_label(&self.contents.classes), &shapes))
    }
}

fn fill(shape: &DrawnShape, path: &Path, width: usize, height: usize) -> Result<Region, String> {
    let points = &shape.points;
    if points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return Err("a point is not finite".to_string());
    }
    let pair = || match points[..] {
        [first, second] => Ok((first, second)),
        _ => Err(format!("it has `{}` points, expected 2", points.len())),
    };
    let corners = match shape.shape_type.as_deref().unwrap_or("polygon") {
        "polygon" if points.len() < 3 => {
            return Err(format!("it has `{}` points, expected at least 3", points.len()));
        }
        "polygon" => points.clone(),
        "rectangle" => {
            let ((x0, y0), (x1, y1)) = pair()?;
            vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
        }
        "circle" => {
            let (center, on_circle) = pair()?;
            circle_corners(center, on_circle)
        }
        "mask" => return fill_mask(shape, path, width, height),
        "point" | "points" | "line" | "linestrip" => Vec::new(),
        other => return Err(format!("its type `{other}` is not known")),
    };
    Region::from_polygons(&[corners], width, height).map_err(|error| error.to_string())
}

/// Decodes embedded base64. Some tools break its lines or leave out the padding.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    LENIENT.decode(text).ok()
}

fn fill_mask(shape: &DrawnShape, path: &Path, width: usize, height: usize) -> Result<Region, String> {
    let bytes = shape.mask.as_deref().and_then(decode_base64).ok_or("its mask is not base64")?;
    let mask = decode_index_png(&bytes, path).map_err(|_| "its mask is not a gray PNG")?;
    let &(left, top) = shape.points.first().ok_or("it has no corner")?;
    let (left, top) = (left.round() as i64, top.round() as i64);
    let mut whole = vec![false; width * height];
    for (at, _) in mask.data.iter().enumerate().filter(|(_, value)| **value != 0) {
        let (x, y) = (left + (at % mask.width) as i64, top + (at / mask.width) as i64);
        if (0..width as i64).contains(&x) && (0..height as i64).contains(&y) {
            whole[y as usize * width + x as usize] = true;
        }
    }
    Ok(Region::from_mask(&whole, width))
}

#[cfg(test)]
mod tests {
    use super::decode_base64;

    #[test]
    fn base64_is_read_with_line_breaks_and_without_padding() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8", "fo"), ("Zm9v", "foo"), ("Zm9v\r\nYmFy\n", "foobar")]
        {
            assert_eq!(decode_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decode_base64("/+8=").unwrap(), [0xFF, 0xEF]);
        assert_eq!(decode_base64("a*b"), None);
    }
}
