//! A contact sheet: images with their masks on top, to see at a glance whether the labels fit.

use image::RgbImage;
use image::imageops::{self, FilterType};
use protoseg_core::{ClassId, IGNORE, IdMap, Image, LabelMap};
use rayon::prelude::*;

use crate::palette::voc_color;
use crate::picture::MAX_PIXELS;
use crate::{DataError, Dataset};

/// How the sheet is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetOptions {
    pub columns: usize,
    /// Side of the square that each image is fitted into, in pixels.
    pub cell: usize,
    /// Opacity of the mask's colour over the image, from 0 to 255.
    pub opacity: u8,
}

impl Default for SheetOptions {
    fn default() -> Self {
        Self { columns: 6, cell: 240, opacity: 128 }
    }
}

/// The sheet, and what its colours mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactSheet {
    pub image: Image,
    /// The classes that occur, in ascending order of id.
    pub legend: Vec<LegendEntry>,
    /// Names of the samples, row by row.
    pub samples: Vec<String>,
    /// Where their pictures are on the sheet.
    pub places: Vec<Place>,
    /// Side of the square that each picture was fitted into.
    pub cell: usize,
}

/// A rectangle on a sheet, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub left: usize,
    pub top: usize,
    pub width: usize,
    pub height: usize,
}

/// A class with its colour.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LegendEntry {
    pub id: ClassId,
    pub name: String,
    pub color: [u8; 3],
    pub pixels: u64,
}

const GAP: usize = 4;
/// Room under each picture for its name.
const CAPTION: usize = 16;
const PAPER: u8 = 32;

/// Draws samples, given by index. Background and unlabelled pixels stay as they are. Edges between labels are white;
/// edges of unlabelled regions are black.
pub fn contact_sheet(
    dataset: &dyn Dataset,
    indices: &[usize],
    options: SheetOptions,
) -> Result<ContactSheet, DataError> {
    let mut cell = options.cell.clamp(16, 2048);
    let columns = options.columns.clamp(1, 64).min(indices.len().max(1));
    let rows = indices.len().div_ceil(columns).max(1);
    // Many samples make the cells smaller, because no viewer opens a huge sheet.
    while cell > 16 && columns * rows * (cell + GAP) * (cell + GAP + CAPTION) > MAX_PIXELS {
        cell = (cell / 2).max(16);
    }
    let cells: Vec<(RgbImage, IdMap)> = indices
        .par_iter()
        .map(|&index| draw_cell(dataset, index, cell, options.opacity))
        .collect::<Result<_, _>>()?;
    // A row is as high as its highest picture with its name.
    let heights =
        cells.chunks(columns).map(|row| row.iter().map(|(picture, _)| picture.height() as usize).max());
    let heights: Vec<usize> = heights.map(|height| height.unwrap_or(cell) + CAPTION).collect();
    let width = columns * (cell + GAP) + GAP;
    let height = GAP + heights.iter().map(|height| height + GAP).sum::<usize>().max(1);
    let mut sheet = RgbImage::from_pixel(width as u32, height as u32, image::Rgb([PAPER; 3]));
    let mut pixels: std::collections::BTreeMap<u16, u64> = std::collections::BTreeMap::new();
    let mut places = Vec::new();
    for (at, (picture, labels)) in cells.into_iter().enumerate() {
        let (row, width, height) = (at / columns, picture.width() as usize, picture.height() as usize);
        let left = GAP + at % columns * (cell + GAP) + (cell - width) / 2;
        let above: usize = heights[..row].iter().map(|height| height + GAP).sum();
        let top = GAP + above + (heights[row] - CAPTION - height) / 2;
        imageops::replace(&mut sheet, &picture, left as i64, top as i64);
        places.push(Place { left, top, width, height });
        for &label in labels.data.iter().filter(|&&label| label != IGNORE) {
            *pixels.entry(label).or_default() += 1;
        }
    }
    let legend = pixels.into_iter().map(|(label, pixels)| {
        let id = ClassId(label);
        let name = dataset.classes().name(id).map_or_else(|| format!("unknown id {id}"), str::to_string);
        LegendEntry { id, name, color: class_color(dataset, id), pixels }
    });
    let samples = indices.iter().map(|&index| dataset.samples()[index].name.clone());
    Ok(ContactSheet {
        image: Image::new(width, height, sheet.into_raw()),
        legend: legend.collect(),
        samples: samples.collect(),
        places,
        cell,
    })
}

/// The palette's colour for an id. Without a background, id 0 is a class and must not be black, so all colours are
/// shifted by one.
fn class_color(dataset: &dyn Dataset, id: ClassId) -> [u8; 3] {
    let shift = u16::from(dataset.classes().background().is_none());
    voc_color(ClassId(id.0.saturating_add(shift)))
}

fn draw_cell(
    dataset: &dyn Dataset,
    index: usize,
    cell: usize,
    opacity: u8,
) -> Result<(RgbImage, IdMap), DataError> {
    let (picture, labels) = dataset.load(index)?;
    let mut small = fit_image(picture, cell);
    let map = labels.resize_nearest(small.width, small.height);
    let background = dataset.classes().background().map(|id| id.0);
    paint_labels(&mut small, &map, background, opacity, |label| class_color(dataset, ClassId(label)));
    Ok((raster(small), map))
}

/// The picture scaled to just fit into a square with this side.
pub fn fit_image(picture: Image, cell: usize) -> Image {
    let scale = cell as f64 / picture.width.max(picture.height) as f64;
    let fit = |side: usize| ((side as f64 * scale).round() as usize).clamp(1, cell);
    let (width, height) = (fit(picture.width), fit(picture.height));
    let small = imageops::resize(&raster(picture), width as u32, height as u32, FilterType::Triangle);
    Image::new(width, height, small.into_raw())
}

/// Draws the colours of labels over a picture of the same size. Background and unlabelled pixels stay as they are.
/// Edges between labels become white; edges of unlabelled regions become black.
fn paint_labels<L>(
    picture: &mut Image,
    map: &LabelMap<L>,
    background: Option<u16>,
    opacity: u8,
    color: impl Fn(u16) -> [u8; 3],
) {
    let (width, height) = (picture.width, picture.height);
    assert_eq!((map.width, map.height), (width, height), "labels and picture differ in size");
    let mix = |from: u8, to: u8, share: u8| {
        ((u32::from(from) * (255 - u32::from(share)) + u32::from(to) * u32::from(share) + 127) / 255) as u8
    };
    for (at, &label) in map.data.iter().enumerate() {
        let (x, y) = (at % width, at / width);
        let right = (x + 1 < width).then(|| map.data[at + 1]);
        let below = (y + 1 < height).then(|| map.data[at + width]);
        let edge = [right, below].into_iter().flatten().find(|&other| other != label);
        let (color, share) = match edge {
            Some(other) if label == IGNORE || other == IGNORE => ([0; 3], 200),
            Some(_) => ([255; 3], 200),
            None if label == IGNORE || Some(label) == background => continue,
            None => (color(label), opacity),
        };
        for (value, target) in picture.data[3 * at..][..3].iter_mut().zip(color) {
            *value = mix(*value, target, share);
        }
    }
}

// The buffer holds width * height * 3 bytes, which `Image` asserts.
fn raster(picture: Image) -> RgbImage {
    RgbImage::from_raw(picture.width as u32, picture.height as u32, picture.data).unwrap_or_default()
}
