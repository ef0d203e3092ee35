//! CVAT's "Segmentation mask 1.1" export: `labelmap.txt` (`name:r,g,b::`), colour masks in `SegmentationClass`,
//! lists in `ImageSets/Segmentation`, and images in `JPEGImages` (export with "save images", or put them there).
//!
//! A class's id is its position in `labelmap.txt`; the class called `background` is the background.

use std::path::Path;

use protoseg_core::ClassId;

use super::{named_classes, number, voc};
use crate::DataError;
use crate::dataset::{MaskDataset, MaskKind};
use crate::palette::{ColorMap, read_label_map};

/// The label map of an export.
pub const LABEL_MAP: &str = "labelmap.txt";

/// Opens the unpacked export.
pub fn open(root: &Path) -> Result<MaskDataset, DataError> {
    let images = root.join("JPEGImages");
    if !images.is_dir() {
        let hint = "export again with \"save images\", or put the images into this folder".to_string();
        return Err(DataError::Missing { path: images, hint });
    }
    let path = root.join(LABEL_MAP);
    let (names, colors) = read_colored_names(&path)?;
    let classes = named_classes(&path, names, &[])?;
    voc::open_tree(root, "cvat", classes, MaskKind::Color(colors))
}

/// The classes in a label map file by position, with their colours.
pub(crate) fn read_colored_names(path: &Path) -> Result<(Vec<(ClassId, String)>, ColorMap), DataError> {
    let entries = read_label_map(path)?;
    let (names, colors): (Vec<String>, Vec<[u8; 3]>) = entries.into_iter().unzip();
    let names = number(names);
    let colors = ColorMap::new(colors.into_iter().zip(names.iter().map(|(id, _)| id.0)));
    Ok((names, colors))
}
