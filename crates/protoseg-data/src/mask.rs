//! Reads and writes label maps as mask files.
//!
//! In an index mask, the number stored at a pixel is the class id. It is a palette PNG (its indices, not its
//! colours), a gray PNG of 1 to 16 bits, or another lossless gray format. In a colour mask, a [`ColorMap`] says which
//! colour means which id. JPEG is refused for both, because it changes values at edges.

use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageFormat};
use png::Compression;
use protoseg_core::{ClassId, IGNORE, IdMap, Image, LabelMap};

use crate::palette::{ColorMap, voc_color};
use crate::picture::{MAX_PIXELS, decode_dynamic, most_bytes};
use crate::{DataError, Rgb, files};

const WANTS_MAP: &str =
    "save it as a palette or gray PNG, or give a label map that says which colour is which class";

/// Reads an index mask. The values are those in the file: ignored ids are not yet marked.
pub fn read_index_mask(path: &Path) -> Result<IdMap, DataError> {
    decode_index_mask(&files::read_bytes(path)?, path)
}

/// Decodes an index mask in memory; `path` is for errors.
pub(crate) fn decode_index_mask(bytes: &[u8], path: &Path) -> Result<IdMap, DataError> {
    match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => decode_index_png(bytes, path),
        Ok(ImageFormat::Jpeg) => Err(refuse_jpeg(path)),
        _ => match decode_dynamic(bytes, path)? {
            DynamicImage::ImageLuma8(gray) => Ok(gray_map(gray.width(), gray.height(), gray.into_raw())),
            DynamicImage::ImageLuma16(gray) => Ok(gray_map(gray.width(), gray.height(), gray.into_raw())),
            other => Err(not_index(path, format!("its pixels are {:?}", other.color()))),
        },
    }
}

/// Reads a colour mask.
pub fn read_color_mask(path: &Path, colors: &ColorMap) -> Result<IdMap, DataError> {
    let bytes = files::read_bytes(path)?;
    if matches!(image::guess_format(&bytes), Ok(ImageFormat::Jpeg)) {
        return Err(refuse_jpeg(path));
    }
    let rgb = decode_dynamic(&bytes, path)?.into_rgb8();
    let (width, height) = (rgb.width() as usize, rgb.height() as usize);
    let mut data = Vec::with_capacity(width * height);
    let mut last: Option<([u8; 3], u16)> = None;
    for pixel in rgb.pixels() {
        let label = match last {
            Some((color, label)) if color == pixel.0 => label,
            _ => colors.get(pixel.0).ok_or_else(|| DataError::UnknownColor {
                path: path.to_path_buf(),
                color: Rgb(pixel.0),
                x: data.len() % width,
                y: data.len() / width,
            })?,
        };
        last = Some((pixel.0, label));
        data.push(label);
    }
    Ok(IdMap::new(width, height, data))
}

/// Encodes an index mask as PNG: 8 bits with the Pascal VOC palette and 255 for "no label". If an id does not fit
/// into 8 bits, it is 16-bit gray, and 65535 means "no label".
pub fn encode_index_png<L>(labels: &LabelMap<L>) -> Vec<u8> {
    let voc: Vec<[u8; 3]> = (0..=255).map(|id| voc_color(ClassId(id))).collect();
    encode_palette_png(labels, &voc).unwrap_or_else(|| encode_gray_png(labels))
}

/// The same with these colours by id; `None` if an id does not fit into 8 bits.
pub fn encode_palette_png<L>(labels: &LabelMap<L>, colors: &[[u8; 3]]) -> Option<Vec<u8>> {
    if is_wide(labels) {
        return None;
    }
    let mut palette: Vec<u8> = colors.iter().take(256).flatten().copied().collect();
    palette.resize(3 * 255, 0);
    // "No label" is light gray, as in VOC.
    palette.extend(voc_color(ClassId(255)));
    let data: Vec<u8> = labels.data.iter().map(|&label| label.min(255) as u8).collect();
    let color = png::ColorType::Indexed;
    Some(encode_png(labels.width, labels.height, color, false, Some(palette), Compression::Balanced, &data))
}

/// Encodes the ids as gray values: 8 bits and 255 for "no label", or 16 bits and 65535 if an id does not fit.
pub fn encode_gray_png<L>(labels: &LabelMap<L>) -> Vec<u8> {
    let wide = is_wide(labels);
    let data: Vec<u8> = match wide {
        true => labels.data.iter().flat_map(|label| label.to_be_bytes()).collect(),
        false => labels.data.iter().map(|&label| label.min(255) as u8).collect(),
    };
    let color = png::ColorType::Grayscale;
    encode_png(labels.width, labels.height, color, wide, None, Compression::Balanced, &data)
}

/// Encodes 8-bit gray values as PNG.
pub fn encode_values_png(width: usize, height: usize, values: &[u8]) -> Vec<u8> {
    encode_png(width, height, png::ColorType::Grayscale, false, None, Compression::Balanced, values)
}

/// The same in a fraction of the time. The file is larger.
pub fn encode_values_png_fast(width: usize, height: usize, values: &[u8]) -> Vec<u8> {
    encode_png(width, height, png::ColorType::Grayscale, false, None, Compression::Fast, values)
}

/// Encodes a picture as PNG, as fast as can be.
pub fn encode_picture_png(picture: &Image) -> Vec<u8> {
    let color = png::ColorType::Rgb;
    encode_png(picture.width, picture.height, color, false, None, Compression::Fastest, &picture.data)
}

fn is_wide<L>(labels: &LabelMap<L>) -> bool {
    labels.data.iter().any(|&label| label >= 255 && label != IGNORE)
}

fn encode_png(
    width: usize,
    height: usize,
    color: png::ColorType,
    wide: bool,
    palette: Option<Vec<u8>>,
    compression: Compression,
    data: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(color);
    encoder.set_compression(compression);
    encoder.set_depth(if wide { png::BitDepth::Sixteen } else { png::BitDepth::Eight });
    if let Some(palette) = palette {
        encoder.set_palette(palette);
    }
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(data));
    // Writing to memory fails only for size zero, which a decoded image cannot have.
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}

/// Writes an index mask, completely or not at all.
pub fn write_index_mask<L>(path: &Path, labels: &LabelMap<L>) -> Result<(), DataError> {
    files::write_atomic(path, &encode_index_png(labels))
}

/// Decodes an index PNG in memory; `path` is for errors.
pub(crate) fn decode_index_png(bytes: &[u8], path: &Path) -> Result<IdMap, DataError> {
    let decoding = |error: png::DecodingError| DataError::Decode {
        path: path.to_path_buf(),
        reason: error.to_string(),
        hint: "the file is damaged or cut short: copy or export it again",
    };
    let limits = png::Limits { bytes: most_bytes(bytes) };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(decoding)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width.saturating_mul(height) > MAX_PIXELS {
        return Err(DataError::TooLarge { path: path.to_path_buf(), width, height, max: MAX_PIXELS });
    }
    let (color, depth) = reader.output_color_type();
    let channels = match color {
        png::ColorType::Grayscale | png::ColorType::Indexed => 1,
        png::ColorType::GrayscaleAlpha => 2,
        png::ColorType::Rgb | png::ColorType::Rgba => {
            return Err(not_index(path, format!("its pixels are {color:?}")));
        }
    };
    let row_bytes = reader.output_line_size(reader.info().width).unwrap_or(0);
    let mut buffer = vec![0; row_bytes * height];
    reader.next_frame(&mut buffer).map_err(decoding)?;
    let mut data = Vec::with_capacity(width * height);
    for row in buffer.chunks_exact(row_bytes.max(1)) {
        match depth {
            png::BitDepth::Sixteen => {
                let pixels = row.chunks_exact(2 * channels).take(width);
                data.extend(pixels.map(|pixel| u16::from_be_bytes([pixel[0], pixel[1]])));
            }
            png::BitDepth::Eight => {
                data.extend(row.chunks_exact(channels).take(width).map(|p| u16::from(p[0])))
            }
            small => {
                let bits = small as usize;
                data.extend((0..width).map(|x| {
                    let shift = 8 - bits - (x * bits) % 8;
                    u16::from(row[x * bits / 8] >> shift) & ((1 << bits) - 1)
                }));
            }
        }
    }
    Ok(IdMap::new(width, height, data))
}

fn gray_map<T: Into<u16>>(width: u32, height: u32, values: Vec<T>) -> IdMap {
    IdMap::new(width as usize, height as usize, values.into_iter().map(Into::into).collect())
}

fn not_index(path: &Path, reason: String) -> DataError {
    DataError::NotAMask { path: path.to_path_buf(), reason, hint: WANTS_MAP }
}

fn refuse_jpeg(path: &Path) -> DataError {
    DataError::NotAMask {
        path: path.to_path_buf(),
        reason: "it is a JPEG, which changes values at edges".to_string(),
        hint: "export the masks as PNG",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, color: png::ColorType, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == png::ColorType::Indexed {
            encoder.set_palette(vec![200u8; 48]);
        }
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        bytes
    }

    #[test]
    fn the_index_is_read_and_not_the_colour() {
        use png::{BitDepth, ColorType};
        let read = |bytes: &[u8]| decode_index_png(bytes, Path::new("m.png")).unwrap().data;
        assert_eq!(read(&png(3, 1, ColorType::Indexed, BitDepth::Eight, &[1, 15, 0])), [1, 15, 0]);
        assert_eq!(read(&png(3, 1, ColorType::Indexed, BitDepth::Four, &[0x1F, 0x20])), [1, 15, 2]);
        assert_eq!(
            read(&png(5, 1, ColorType::Grayscale, BitDepth::Two, &[0b00011011, 0b01000000])),
            [0, 1, 2, 3, 1]
        );
        assert_eq!(
            read(&png(9, 1, ColorType::Grayscale, BitDepth::One, &[0x81, 0x80])),
            [1, 0, 0, 0, 0, 0, 0, 1, 1]
        );
        assert_eq!(read(&png(2, 1, ColorType::Grayscale, BitDepth::Sixteen, &[1, 4, 0, 9])), [260, 9]);
        assert_eq!(read(&png(2, 1, ColorType::GrayscaleAlpha, BitDepth::Eight, &[7, 0, 8, 255])), [7, 8]);
    }

    #[test]
    fn a_written_mask_reads_back() {
        for data in [vec![0, 20, 254, IGNORE], vec![0, 255, 300, IGNORE]] {
            let wide = data.contains(&300);
            let bytes = encode_index_png(&IdMap::new(2, 2, data.clone()));
            let mut back = decode_index_png(&bytes, Path::new("m.png")).unwrap().data;
            if !wide {
                back.iter_mut().filter(|label| **label == 255).for_each(|label| *label = IGNORE);
            }
            assert_eq!(back, data);
        }
    }

    #[test]
    fn a_colour_picture_is_not_an_index_mask() {
        let bytes = png(1, 1, png::ColorType::Rgb, png::BitDepth::Eight, &[1, 2, 3]);
        let error = decode_index_png(&bytes, Path::new("m.png")).unwrap_err().to_string();
        assert!(error.starts_with("labels `m.png` are not an index mask"), "{error}");
        assert!(error.contains("hint: save it as"), "{error}");
    }
}
