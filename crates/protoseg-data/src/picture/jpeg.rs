//! Decodes JPEGs with libjpeg-turbo's own code (mozjpeg is a fork of it), for exactly the pixels that OpenCV and PIL read.
//! Encodes them with `jpeg-encoder`: 0.58 ms for 320 x 240 pixels, against 1.15 with mozjpeg, whose vector code needs an
//! assembler.
//!
//! The standard does not fix the inverse transform and the upsampling of colour. The decoder of the `image` crate
//! made other choices: one pixel in five differs, by up to 5 levels, which changes a network's scores. A network that
//! was trained on libjpeg-turbo's pixels should see its pixels.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jpeg_encoder::{ColorType, Encoder};
use mozjpeg::{ColorSpace, Decompress};
use mozjpeg_sys::{jpeg_common_struct, jpeg_error_mgr};
use protoseg_core::Image;

use crate::Size;

/// A picture in RGB as its file has it, before the EXIF orientation turns it.
pub struct Decoded {
    pub data: Vec<u8>,
    pub state: State,
}

/// What the library's warnings say about a file. Oddities in the header do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No damage that the library can see. Stray bytes before the end mark are common and do no harm.
    Sound,
    /// It warned before the first pixel. It does so while it reads all of a progressive file, where it does not tell
    /// a damaged scan from stray bytes.
    Doubtful,
    /// It warned while it made pixels: some of them are made up.
    Damaged,
}

/// Encodes a picture, fast rather than small.
pub fn encode(image: &Image, quality: u8) -> io::Result<Vec<u8>> {
    let side =
        |side: usize| u16::try_from(side).map_err(|_| io::Error::other("a side has over 65,535 pixels"));
    let (width, height) = (side(image.width)?, side(image.height)?);
    let mut bytes = Vec::new();
    let encoder = Encoder::new(&mut bytes, quality);
    encoder.encode(&image.data, width, height, ColorType::Rgb).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Decodes a JPEG of the size given in its header; `None` if the library refuses it. Nothing is printed, and no panic
/// escapes.
pub fn decode(bytes: &[u8], size: Size) -> Option<Decoded> {
    // The library reports failures by unwinding (without the panic hook); nothing outside the closure is shared.
    catch_unwind(AssertUnwindSafe(|| {
        let decoder = Decompress::with_err(quiet_errors()).from_mem(bytes).ok()?;
        WARNED.set(false);
        // Gray becomes RGB automatically; CMYK is left to us.
        let is_cmyk = matches!(decoder.color_space(), ColorSpace::JCS_CMYK | ColorSpace::JCS_YCCK);
        let target = if is_cmyk { ColorSpace::JCS_CMYK } else { ColorSpace::JCS_RGB };
        let mut decoder = decoder.to_colorspace(target).ok()?;
        if Size(decoder.width(), decoder.height()) != size {
            return None;
        }
        let doubtful = WARNED.replace(false);
        let data: Vec<u8> = decoder.read_scanlines().ok()?;
        let state = match (WARNED.get(), doubtful) {
            (true, _) => State::Damaged,
            (false, true) => State::Doubtful,
            (false, false) => State::Sound,
        };
        Some(Decoded { data: if is_cmyk { rgb_of_cmyk(&data) } else { data }, state })
    }))
    .ok()
    .flatten()
}

thread_local! {
    /// Whether the library warned; its handler has no other way to report it.
    static WARNED: Cell<bool> = const { Cell::new(false) };
}

/// Handlers that record warnings and leave by unwinding on errors. The reason for an error is not kept: the caller
/// then asks another decoder, which reports it.
fn quiet_errors() -> jpeg_error_mgr {
    extern "C-unwind" fn leave(_: &mut jpeg_common_struct) {
        resume_unwind(Box::new(()));
    }
    extern "C-unwind" fn note(_: &mut jpeg_common_struct, level: i32) {
        // Values below zero are warnings, the others are traces.
        if level < 0 {
            WARNED.set(true);
        }
    }
    extern "C-unwind" fn nothing(_: &mut jpeg_common_struct) {}
    jpeg_error_mgr {
        error_exit: Some(leave),
        emit_message: Some(note),
        output_message: Some(nothing),
        format_message: None,
        reset_error_mgr: Some(nothing),
        msg_code: 0,
        msg_parm: Default::default(),
        trace_level: 0,
        num_warnings: 0,
        jpeg_message_table: std::ptr::null(),
        last_jpeg_message: 0,
        addon_message_table: std::ptr::null(),
        first_addon_message: 0,
        last_addon_message: 0,
    }
}

/// The inks are stored inverted, as Adobe writes them. The arithmetic is OpenCV's.
fn rgb_of_cmyk(data: &[u8]) -> Vec<u8> {
    let colour = |ink: u8, black: u8| {
        let (ink, black) = (u32::from(ink), u32::from(black));
        (black - (((255 - ink) * black) >> 8)) as u8
    };
    let pixels = data.chunks_exact(4);
    pixels.flat_map(|pixel| [0, 1, 2].map(|ink| colour(pixel[ink], pixel[3]))).collect()
}

/// Number of scans of a JPEG; none if it does not reach its end mark. Decoders fill missing parts with gray, so we walk
/// over the segments ourselves. Anything odd counts as whole: the decoder decides.
pub fn scans(bytes: &[u8]) -> Option<usize> {
    const START_OF_SCAN: u8 = 0xDA;
    const END: u8 = 0xD9;
    let (mut at, mut scans) = (2, 0);
    loop {
        // The next marker: 0xFF, then a byte that is neither stuffing, fill, nor a restart mark.
        let marker = loop {
            match bytes.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == 0xFF)) {
                None => return None,
                Some(skip) => at += skip + 1,
            }
            match bytes.get(at) {
                None => return None,
                Some(0x00 | 0x01 | 0xD0..=0xD7) => at += 1,
                Some(0xFF) => {}
                Some(&marker) => break marker,
            }
        };
        at += 1;
        if marker == END {
            return Some(scans);
        }
        scans += usize::from(marker == START_OF_SCAN);
        // A segment gives its own length; after a scan's header, the next marker is searched for above.
        let length = bytes.get(at..at + 2)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        if length < 2 && marker != START_OF_SCAN {
            return Some(scans);
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jpeg_ends_with_its_mark() {
        let whole = [
            0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 0xFF, 0xD9, 0xFF, 0xDA, 0, 3, 1, 7, 0xFF, 0, 8, 0xFF, 0xD0, 9,
            0xFF, 0xD9,
        ];
        assert_eq!(scans(&whole), Some(1));
        for end in 8..whole.len() {
            assert_eq!(scans(&whole[..end]), None, "cut at {end}");
        }
    }
}
