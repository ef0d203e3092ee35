//! Reads pictures: any format of the `image` crate, turned by the EXIF orientation, as 8-bit RGB.
//!
//! Gray becomes RGB, 16 bits per channel become 8 (the upper ones), and an alpha channel is dropped. Pictures larger
//! than [`MAX_PIXELS`] are not decoded, whatever a small file claims. JPEGs are decoded by libjpeg-turbo's code, so
//! that a network sees exactly the pixels that OpenCV and PIL give: see `picture/jpeg.rs`.

mod jpeg;

use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage};
use protoseg_core::Image;

use self::jpeg::{Decoded, State};
use crate::{DataError, Size, files};

/// The largest number of pixels in a picture: 128 Mi, which is 384 MiB in RGB.
pub const MAX_PIXELS: usize = 1 << 27;
/// Most pixels along a side. Longer ones are lines, not pictures.
pub const MAX_SIDE: usize = 1 << 18;

/// Most scans of a JPEG. Each takes a pass over all pixels, however short it is in the file; cameras and programs write up
/// to about 20.
const MAX_SCANS: usize = 100;
/// What a PNG may unpack besides its pixels: colour profiles and texts.
const MAX_BESIDE: usize = 64 << 20;

/// Most bytes that decoding may ask for. A PNG begins with its size, so a small one cannot ask for much.
pub(crate) fn most_bytes(bytes: &[u8]) -> usize {
    let most = 8 * MAX_PIXELS;
    let is_png = matches!(image::guess_format(bytes), Ok(ImageFormat::Png));
    let Some(&[a, b, c, d, e, f, g, h]) = bytes.get(16..24).filter(|_| is_png) else { return most };
    let (width, height) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let pixels = (width as usize).saturating_mul(height as usize);
    pixels.saturating_mul(8).saturating_add(MAX_BESIDE).min(most)
}

/// Whether a picture of this size is refused.
pub(crate) fn is_too_large(width: usize, height: usize) -> bool {
    width.max(height) > MAX_SIDE || width.saturating_mul(height) > MAX_PIXELS
}

/// Reads a picture.
pub fn read_image(path: impl AsRef<Path>) -> Result<Image, DataError> {
    let path = path.as_ref();
    decode_image(&files::read_bytes(path)?, path)
}

/// Decodes a picture that is already in memory; `path` is for errors.
pub fn decode_image(bytes: &[u8], path: &Path) -> Result<Image, DataError> {
    let rgb = decode_dynamic(bytes, path)?.into_rgb8();
    let (width, height) = (rgb.width() as usize, rgb.height() as usize);
    Ok(Image::new(width, height, rgb.into_raw()))
}

/// Writes a picture as PNG, completely or not at all.
pub fn write_image(path: impl AsRef<Path>, image: &Image) -> Result<(), DataError> {
    let path = path.as_ref();
    let mut bytes = Cursor::new(Vec::new());
    let (width, height) = (image.width as u32, image.height as u32);
    let color = image::ColorType::Rgb8;
    image::write_buffer_with_format(&mut bytes, &image.data, width, height, color, ImageFormat::Png)
        .map_err(|error| DataError::writing(path, std::io::Error::other(error)))?;
    files::write_atomic(path, bytes.get_ref())
}

/// Encodes a picture as JPEG, for pages that people look at.
pub fn encode_jpeg(image: &Image) -> Result<Vec<u8>, DataError> {
    jpeg::encode(image, 88).map_err(|error| DataError::writing(Path::new("a JPEG"), error))
}

/// The size of a picture as [`read_image`] would return it, from its header.
pub fn image_size(path: &Path) -> Result<Size, DataError> {
    size_in(&files::read_bytes(path)?, path)
}

/// The same for a picture that is already in memory; `path` is for errors.
pub fn size_in(bytes: &[u8], path: &Path) -> Result<Size, DataError> {
    let (mut decoder, _) = open(bytes, path)?;
    let (width, height) = decoder.dimensions();
    let orientation = decoder.orientation().map_err(|error| decoding(path, error))?;
    Ok(oriented(Size(width as usize, height as usize), orientation))
}

/// Whether a picture can have transparent parts, from its header. One that cannot be read has none.
pub fn has_alpha(path: &Path) -> bool {
    let Ok(bytes) = files::read_bytes(path) else { return false };
    open(&bytes, path).is_ok_and(|(decoder, _)| decoder.color_type().has_alpha())
}

/// Whether each pixel of a picture in memory is rather opaque than transparent; nothing if all are. `path` is for errors.
pub fn opaque(bytes: &[u8], path: &Path) -> Result<Option<Vec<bool>>, DataError> {
    let picture = decode_dynamic(bytes, path)?;
    let is_opaque = |pixel: &image::Rgba<u8>| pixel[3] >= 128;
    Ok(picture.color().has_alpha().then(|| picture.to_rgba8().pixels().map(is_opaque).collect()))
}

/// The size of a picture in its file, before the EXIF orientation turns it.
pub(crate) fn raw_size(path: &Path) -> Result<Size, DataError> {
    let bytes = files::read_bytes(path)?;
    let (width, height) = open(&bytes, path)?.0.dimensions();
    Ok(Size(width as usize, height as usize))
}

pub(crate) fn decode_dynamic(bytes: &[u8], path: &Path) -> Result<DynamicImage, DataError> {
    let (mut decoder, format) = open(bytes, path)?;
    let orientation = decoder.orientation().map_err(|error| decoding(path, error))?;
    let mut picture = match format {
        Some(ImageFormat::Jpeg) => decode_jpeg(bytes, path, decoder)?,
        _ => DynamicImage::from_decoder(decoder).map_err(|error| decoding(path, error))?,
    };
    picture.apply_orientation(orientation);
    Ok(picture)
}

/// Decodes a JPEG whose header `decoder` has read. `decoder` takes over what libjpeg-turbo's code refuses, and is
/// asked about what that code doubts.
fn decode_jpeg(bytes: &[u8], path: &Path, decoder: impl ImageDecoder) -> Result<DynamicImage, DataError> {
    let (width, height) = decoder.dimensions();
    let decode_otherwise = || DynamicImage::from_decoder(decoder).map_err(|error| decoding(path, error));
    let decoded = jpeg::decode(bytes, Size(width as usize, height as usize));
    let Some((rgb, state)) =
        decoded.and_then(|Decoded { data, state }| Some((RgbImage::from_raw(width, height, data)?, state)))
    else {
        return decode_otherwise();
    };
    match state {
        State::Sound => {}
        State::Doubtful => drop(decode_otherwise()?),
        State::Damaged => {
            let reason = "its coded pixels are damaged".to_string();
            let hint = "copy or download it again; if it looks right in a viewer, save it again from there";
            return Err(DataError::Decode { path: path.to_path_buf(), reason, hint });
        }
    }
    Ok(rgb.into())
}

/// Reads the header and refuses what is too large or cut short.
fn open<'a>(
    bytes: &'a [u8],
    path: &Path,
) -> Result<(impl ImageDecoder + 'a, Option<ImageFormat>), DataError> {
    if let Some(format) = phone_format(bytes) {
        return Err(DataError::PhoneFormat { path: path.to_path_buf(), format });
    }
    let mut reader = ImageReader::new(Cursor::new(bytes));
    if let Ok(format) = ImageFormat::from_path(path) {
        reader.set_format(format);
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(most_bytes(bytes) as u64);
    reader.limits(limits);
    let reader = reader.with_guessed_format().map_err(|source| DataError::reading(path, source))?;
    let format = reader.format();
    if format == Some(ImageFormat::Jpeg) {
        match jpeg::scans(bytes) {
            None => return Err(DataError::Truncated { path: path.to_path_buf() }),
            Some(scans) if scans > MAX_SCANS => {
                let reason = format!("it has {scans} scans, expected at most {MAX_SCANS}");
                let hint = "open it in a viewer and save it again";
                return Err(DataError::Decode { path: path.to_path_buf(), reason, hint });
            }
            Some(_) => {}
        }
    }
    let decoder = reader.into_decoder().map_err(|error| decoding(path, error))?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    if is_too_large(width, height) {
        return Err(DataError::TooLarge { path: path.to_path_buf(), width, height, max: MAX_PIXELS });
    }
    Ok((decoder, format))
}

/// The name of a format that phones save and that we do not read: an ISO media file with one of its brands.
fn phone_format(bytes: &[u8]) -> Option<&'static str> {
    let brand = bytes.get(4..12)?.strip_prefix(b"ftyp")?;
    match brand {
        b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" => Some("HEIC"),
        b"mif1" | b"msf1" => Some("HEIF"),
        b"avif" | b"avis" => Some("AVIF"),
        _ => None,
    }
}

fn oriented(Size(width, height): Size, orientation: image::metadata::Orientation) -> Size {
    use image::metadata::Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    match orientation {
        Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH => Size(height, width),
        _ => Size(width, height),
    }
}

fn decoding(path: &Path, error: ImageError) -> DataError {
    let hint = match &error {
        ImageError::Unsupported(_) => "convert it to PNG or JPEG",
        ImageError::Limits(_) => "scale it down, or cut it into tiles",
        ImageError::IoError(source) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the file is cut short: copy or download it again"
        }
        _ => "open it in a viewer; if that fails too, copy or download it again",
    };
    let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    DataError::Decode { path: path.to_path_buf(), reason, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_png_may_ask_for_little() {
        let mut bytes = Cursor::new(Vec::new());
        image::write_buffer_with_format(&mut bytes, &[9; 12], 4, 1, image::ColorType::Rgb8, ImageFormat::Png)
            .unwrap();
        let mut bytes = bytes.into_inner();
        assert_eq!(most_bytes(&bytes), 8 * 4 + MAX_BESIDE);
        bytes[16..24].fill(0xFF);
        assert_eq!(most_bytes(&bytes), 8 * MAX_PIXELS);
        assert_eq!(most_bytes(&bytes[..20]), 8 * MAX_PIXELS);
        assert_eq!(most_bytes(b"GIF89a"), 8 * MAX_PIXELS);
    }
}
