//! Masks of supports as people make them: ids, one painted colour, soft edges, cut-outs and boxes.
//!
//! Soft edges are cut at half. What makes a mask soft is that most of its painted pixels are painted in full: ids are
//! never taken for shades of gray.

use std::{collections::HashMap, path::Path};

use image::{DynamicImage, RgbaImage};
use protoseg_core::{IdMap, Image};

use crate::mask::decode_index_mask;
use crate::picture::decode_dynamic;
use crate::{DataError, files};

/// What 8-bit masks write for "no label", and the id of a painted class.
pub(crate) const PAINTED: u16 = 255;
/// From this coverage on, a pixel belongs to the class.
const HALF: u8 = 128;
/// A single gray between black and white is a shade if it is in here, and otherwise more likely an id.
const SHADES: std::ops::RangeInclusive<u16> = 32..=223;
/// How far from the line between black and the painted colour a channel of a soft edge may lie.
const ROUNDING: f32 = 12.0;

/// A mask with what should be said about it.
pub(crate) struct Painted {
    pub map: IdMap,
    pub note: Option<String>,
}

impl From<IdMap> for Painted {
    fn from(map: IdMap) -> Self {
        Self { map, note: None }
    }
}

/// Reads a mask. Where nothing is known about its ids (`has_ids`), gray values may be shades of white. A painted class
/// becomes the id [`PAINTED`].
pub(crate) fn read_painted(path: &Path, has_ids: bool) -> Result<Painted, DataError> {
    let bytes = files::read_bytes(path)?;
    let name = path.display();
    match decode_index_mask(&bytes, path) {
        Ok(map) if has_ids || is_palette(&bytes) => Ok(map.into()),
        Ok(map) => match decode_dynamic(&bytes, path)? {
            picture if picture.color().has_alpha() => Ok(from_colours(&picture, path).unwrap_or(map.into())),
            _ => Ok(from_shades(&map).map_or(map.into(), |(map, is_soft)| {
                let note = || {
                    format!(
                        "mask `{name}` has soft edges: gray is cut at half (if its grays are ids, say which \
                         is the class with `value`)"
                    )
                };
                Painted { map, note: is_soft.then(note) }
            })),
        },
        Err(DataError::NotAMask { reason, hint, .. }) if !is_jpeg(&bytes) => {
            let picture = decode_dynamic(&bytes, path)?;
            from_colours(&picture, path).ok_or_else(|| DataError::NotAMask {
                path: path.to_path_buf(),
                reason,
                hint,
            })
        }
        Err(error) => Err(error),
    }
}

/// Reads a cut-out: an image whose opaque part is the class. Nothing if no pixel of it is transparent, or all are.
pub(crate) fn read_cut_out(path: &Path) -> Result<(Image, Option<Painted>), DataError> {
    let picture = decode_dynamic(&files::read_bytes(path)?, path)?;
    let mask = from_alpha(&picture.to_rgba8(), path);
    let rgb = picture.into_rgb8();
    Ok((Image::new(rgb.width() as usize, rgb.height() as usize, rgb.into_raw()), mask))
}

/// The mask of a box: left, top, width and height in pixels. What lies outside the image is cut off.
pub(crate) fn draw_box(width: usize, height: usize, [left, top, wide, high]: [u32; 4]) -> IdMap {
    let inside = |at: usize, start: u32, length: u32| {
        (u64::from(start)..u64::from(start) + u64::from(length)).contains(&(at as u64))
    };
    let label = |at: usize| match inside(at % width, left, wide) && inside(at / width, top, high) {
        true => PAINTED,
        false => 0,
    };
    IdMap::new(width, height, (0..width * height).map(label).collect())
}

/// Black and white with shades between them, cut at half, and whether there are any; nothing if these are ids.
fn from_shades(map: &IdMap) -> Option<(IdMap, bool)> {
    let highest = map.data.iter().copied().max()?;
    let full = if highest > PAINTED { u16::MAX } else { PAINTED };
    let count = |wanted: &dyn Fn(u16) -> bool| map.data.iter().filter(|&&value| wanted(value)).count();
    let is_between = |value: u16| value > 0 && value < full;
    let (whole, between) = (count(&|value| value == full), count(&is_between));
    let mut shades = map.data.iter().copied().filter(|&value| is_between(value));
    let is_soft = match shades.next() {
        None => false,
        Some(first) => {
            let is_one = shades.all(|other| other == first);
            if whole <= between || (is_one && full == PAINTED && !SHADES.contains(&first)) {
                return None;
            }
            true
        }
    };
    if !is_soft && full == PAINTED {
        return None;
    }
    let data = map.data.iter().map(|&value| if value > full / 2 { PAINTED } else { 0 }).collect();
    Some((IdMap::new(map.width, map.height, data), is_soft))
}

/// What painting programs save: one colour on black or on nothing, or a cut-out.
fn from_colours(picture: &DynamicImage, path: &Path) -> Option<Painted> {
    let rgba = picture.to_rgba8();
    let one = one_colour(&rgba).map(|(map, is_soft)| {
        let note = || format!("mask `{}` has soft edges: they are cut at half", path.display());
        Painted { map, note: is_soft.then(note) }
    });
    one.or_else(|| from_alpha(&rgba, path))
}

/// One colour on black or on nothing, and whether its edges are soft.
fn one_colour(rgba: &RgbaImage) -> Option<(IdMap, bool)> {
    let opaque = || rgba.pixels().filter(|pixel| pixel[3] >= HALF);
    let rgb = |pixel: &image::Rgba<u8>| [pixel[0], pixel[1], pixel[2]];
    let mut counts: HashMap<[u8; 3], u64> = HashMap::new();
    for pixel in opaque().filter(|pixel| rgb(pixel) != [0; 3]) {
        *counts.entry(rgb(pixel)).or_default() += 1;
    }
    let (&colour, &whole) = counts.iter().max_by_key(|&(colour, count)| (*count, *colour))?;
    if counts.values().sum::<u64>() >= 2 * whole && counts.len() > 1 {
        return None;
    }
    let colour = colour.map(f32::from);
    let length: f32 = colour.iter().map(|value| value * value).sum();
    let coverage = |pixel: &image::Rgba<u8>| -> Option<f32> {
        let value = rgb(pixel).map(f32::from);
        let share = value.iter().zip(&colour).map(|(value, colour)| value * colour).sum::<f32>() / length;
        let share = share.min(1.0);
        let fits = value.iter().zip(&colour).all(|(value, full)| (value - share * full).abs() <= ROUNDING);
        fits.then_some(share)
    };
    let mut is_soft = counts.len() > 1;
    let mut labels = Vec::with_capacity(rgba.pixels().len());
    for pixel in rgba.pixels() {
        is_soft |= pixel[3] > 0 && pixel[3] < u8::MAX;
        let is_painted = pixel[3] >= HALF && coverage(pixel)? >= 0.5;
        labels.push(if is_painted { PAINTED } else { 0 });
    }
    Some((IdMap::new(rgba.width() as usize, rgba.height() as usize, labels), is_soft))
}

/// The opaque part of a picture; nothing if it is all or none of it.
fn from_alpha(rgba: &RgbaImage, path: &Path) -> Option<Painted> {
    let is_opaque = |pixel: &image::Rgba<u8>| pixel[3] >= HALF;
    if rgba.pixels().all(is_opaque) || !rgba.pixels().any(is_opaque) {
        return None;
    }
    let labels = rgba.pixels().map(|pixel| if is_opaque(pixel) { PAINTED } else { 0 }).collect();
    let map = IdMap::new(rgba.width() as usize, rgba.height() as usize, labels);
    let note = format!("`{}` is a cut-out: its opaque part is the class", path.display());
    Some(Painted { map, note: Some(note) })
}

/// Whether the file is a PNG with a palette: the colour type stands in byte 25, and 3 is a palette.
fn is_palette(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG") && bytes.get(25) == Some(&3)
}

fn is_jpeg(bytes: &[u8]) -> bool {
    matches!(image::guess_format(bytes), Ok(image::ImageFormat::Jpeg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::encode_values_png;
    use image::{ImageFormat, Rgba};

    /// The mask of a file, with its note.
    fn read(bytes: &[u8]) -> Result<(Vec<u16>, Option<String>), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.png");
        std::fs::write(&path, bytes).unwrap();
        let painted = read_painted(&path, false).map_err(|error| error.to_string())?;
        Ok((painted.map.data, painted.note))
    }

    fn png(pixels: &[[u8; 4]]) -> Vec<u8> {
        let mut picture = RgbaImage::new(pixels.len() as u32, 1);
        for (to, from) in picture.pixels_mut().zip(pixels) {
            *to = Rgba(*from);
        }
        let mut bytes = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn shades_of_gray_are_cut_at_half_and_ids_are_not() {
        let gray = |values: &[u8]| read(&encode_values_png(values.len(), 1, values)).unwrap();
        let (map, note) = gray(&[0, 60, 127, 128, 255, 255, 255, 255, 255]);
        assert_eq!(map, [0, 0, 0, 255, 255, 255, 255, 255, 255]);
        assert!(note.unwrap().contains("soft edges"));
        let (map, note) = gray(&[0, 128, 255, 255]);
        assert_eq!((map, note.is_some()), (vec![0, 255, 255, 255], true), "one shade");
        for ids in [&[0, 3, 255, 255][..], &[0, 3, 4, 0], &[0, 128, 128, 255], &[0, 255, 255, 0]] {
            let (map, note) = gray(ids);
            assert_eq!((map, note), (ids.iter().map(|&id| u16::from(id)).collect(), None), "{ids:?}");
        }
    }

    #[test]
    fn one_colour_may_have_soft_edges_on_black_or_on_nothing() {
        let black = [0, 0, 0, 255];
        let full = [200, 40, 0, 255];
        let (map, note) =
            read(&png(&[black, [80, 16, 0, 255], [150, 30, 0, 255], full, full, full])).unwrap();
        assert_eq!(map, [0, 0, 255, 255, 255, 255]);
        assert!(note.unwrap().contains("cut at half"));
        let (map, note) = read(&png(&[[0; 4], [200, 40, 0, 90], [200, 40, 0, 200], full])).unwrap();
        assert_eq!((map, note.is_some()), (vec![0, 0, 255, 255], true));
        let (map, note) = read(&png(&[black, full, [0; 4]])).unwrap();
        assert_eq!((map, note), (vec![0, 255, 0], None));
        let error = read(&png(&[black, full, full, [0, 200, 0, 255]])).unwrap_err();
        assert!(error.contains("not an index mask"), "{error}");
    }

    #[test]
    fn what_is_opaque_in_a_cut_out_is_the_class() {
        let photo = [[9, 9, 9, 0], [120, 80, 3, 255], [30, 200, 9, 140], [7, 7, 200, 100]];
        let (map, note) = read(&png(&photo)).unwrap();
        assert_eq!(map, [0, 255, 255, 0]);
        assert!(note.unwrap().contains("cut-out"));
        let (map, _) = read(&png(&[[0; 4], [0, 0, 0, 255]])).unwrap();
        assert_eq!(map, [0, 255], "a black thing on nothing");
        let mut gray = image::GrayAlphaImage::new(3, 1);
        gray.put_pixel(1, 0, image::LumaA([255, 255]));
        let mut bytes = std::io::Cursor::new(Vec::new());
        gray.write_to(&mut bytes, ImageFormat::Png).unwrap();
        assert_eq!(read(bytes.get_ref()).unwrap().0, [0, 255, 0], "white on nothing");
    }

    #[test]
    fn a_box_is_cut_at_the_border() {
        assert_eq!(draw_box(4, 2, [2, 1, 9, 9]).data, [0, 0, 0, 0, 0, 0, 255, 255]);
        assert_eq!(draw_box(2, 1, [5, 0, 1, 1]).data, [0, 0]);
        assert_eq!(draw_box(2, 1, [1, 0, u32::MAX, u32::MAX]).data, [0, 255]);
    }
}
