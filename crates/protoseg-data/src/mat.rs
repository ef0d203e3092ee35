//! Reads the labels in a `.mat` file of the Semantic Boundaries Dataset: `GTcls.Segmentation`, 8 bits per pixel.
//!
//! Of MATLAB's format 5, this reads what those files use: numbers in either byte order, compressed elements, and the
//! named field of a structure. Sizes in the file are checked against the available bytes before anything is
//! stored.

use std::io::Read;
use std::path::Path;

use protoseg_core::IdMap;

use crate::{DataError, files};

/// Reads the class labels of an SBD file.
pub fn read_sbd_labels(path: &Path) -> Result<IdMap, DataError> {
    let bytes = files::read_bytes(path)?;
    decode_field(&bytes, "GTcls", "Segmentation")
        .map_err(|reason| DataError::Mat { path: path.to_path_buf(), reason })
}

/// A compressed element may not grow beyond this.
const MAX_INFLATED: u64 = 1 << 28;
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;
const STRUCT_CLASS: u32 = 2;

/// The 8-bit matrix `variable.field` as a label map. Values are stored down the columns.
fn decode_field(bytes: &[u8], variable: &str, field: &str) -> Result<IdMap, &'static str> {
    let header = bytes.get(..128).ok_or("it is shorter than a header")?;
    let big = match &header[126..] {
        b"MI" => true,
        b"IM" => false,
        _ => return Err("it has no byte order mark (only format 5 is read)"),
    };
    let mut cursor = Cursor { bytes: &bytes[128..], big };
    while !cursor.bytes.is_empty() {
        let element = cursor.element()?;
        let inflated;
        let matrix = match element.kind {
            COMPRESSED => {
                inflated = inflate(element.data)?;
                Cursor { bytes: &inflated, big }.element()?.matrix(big)?
            }
            MATRIX => element.matrix(big)?,
            _ => continue,
        };
        if matrix.name == variable.as_bytes() {
            return labels_in(matrix, field);
        }
    }
    Err("it has no variable `GTcls`")
}

fn inflate(data: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut inflated = Vec::new();
    let mut decoder = flate2::read::ZlibDecoder::new(data).take(MAX_INFLATED + 1);
    decoder.read_to_end(&mut inflated).map_err(|_| "its compressed data is damaged")?;
    if inflated.len() as u64 > MAX_INFLATED {
        return Err("its compressed data is larger than any label map");
    }
    Ok(inflated)
}

fn labels_in(matrix: Matrix<'_>, field: &str) -> Result<IdMap, &'static str> {
    if matrix.class != STRUCT_CLASS || matrix.dims.iter().any(|&dim| dim != 1) {
        return Err("`GTcls` is not one structure");
    }
    let mut rest = matrix.rest;
    let name_length = rest.element()?.number(rest.big)? as usize;
    let names = rest.element()?.data;
    if name_length == 0 {
        return Err("its field names have no length");
    }
    for name in names.chunks(name_length) {
        let value = rest.element()?;
        if name.split(|&byte| byte == 0).next() != Some(field.as_bytes()) {
            continue;
        }
        let mut value = value.matrix(rest.big)?;
        let &[height, width] = &value.dims[..] else { return Err("its labels are not a matrix") };
        let data = value.rest.element()?;
        if !matches!(data.kind, 1 | 2) {
            return Err("its labels are not 8-bit numbers");
        }
        if width == 0 || height == 0 || width.checked_mul(height) != Some(data.data.len()) {
            return Err("its labels do not fill their size");
        }
        let labels = (0..width * height).map(|at| u16::from(data.data[at % width * height + at / width]));
        return Ok(IdMap::new(width, height, labels.collect()));
    }
    Err("`GTcls` has no field `Segmentation`")
}

/// Reads elements one after another.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    big: bool,
}

/// A tagged piece of data.
struct Element<'a> {
    kind: u32,
    data: &'a [u8],
}

struct Matrix<'a> {
    class: u32,
    dims: Vec<usize>,
    name: &'a [u8],
    rest: Cursor<'a>,
}

const CUT: &str = "it is cut short";

impl<'a> Cursor<'a> {
    fn element(&mut self) -> Result<Element<'a>, &'static str> {
        let tag = word(self.bytes, 0, self.big)?;
        // Up to four bytes of data may be in the second half of the tag; the length is then in the upper half.
        if tag >> 16 != 0 {
            let length = (tag >> 16) as usize;
            let data = self.bytes.get(4..4 + length.min(4)).ok_or(CUT)?;
            self.bytes = self.bytes.get(8..).ok_or(CUT)?;
            return Ok(Element { kind: tag & 0xFFFF, data });
        }
        let length = word(self.bytes, 4, self.big)? as usize;
        let rest = self.bytes.get(8..).ok_or(CUT)?;
        let data = rest.get(..length).ok_or(CUT)?;
        // Elements start at multiples of 8, except after compressed ones.
        let padded = if tag == COMPRESSED { length } else { length.next_multiple_of(8).min(rest.len()) };
        self.bytes = &rest[padded..];
        Ok(Element { kind: tag, data })
    }
}

impl<'a> Element<'a> {
    fn matrix(self, big: bool) -> Result<Matrix<'a>, &'static str> {
        if self.kind != MATRIX {
            return Err("an element is not a matrix");
        }
        let mut rest = Cursor { bytes: self.data, big };
        let class = rest.element()?.number(big)? & 0xFF;
        let dims = rest.element()?.data;
        let dims = (0..dims.len() / 4).map(|index| word(dims, 4 * index, big).map(|dim| dim as usize));
        let dims = dims.collect::<Result<Vec<usize>, _>>()?;
        let name = rest.element()?.data;
        Ok(Matrix { class, dims, name, rest })
    }

    fn number(&self, big: bool) -> Result<u32, &'static str> {
        word(self.data, 0, big)
    }
}

fn word(bytes: &[u8], at: usize, big: bool) -> Result<u32, &'static str> {
    let word: [u8; 4] = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).ok_or(CUT)?;
    Ok(if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by scipy 1.17 in the form of SBD's files: a structure with sparse boundaries, an 8-bit matrix of 5
    /// rows and 7 columns with value (7 row + column) mod 4 and 15 in the corner, and a list.
    const PLAIN: &[u8] = include_bytes!("../tests/data/sbd_plain.mat");
    const COMPRESSED_FILE: &[u8] = include_bytes!("../tests/data/sbd_compressed.mat");

    fn decode(bytes: &[u8]) -> Result<IdMap, &'static str> {
        decode_field(bytes, "GTcls", "Segmentation")
    }

    #[test]
    fn plain_and_compressed_files_hold_the_labels() {
        let mut expected: Vec<u16> = (0..35).map(|at| at % 4).collect();
        expected[0] = 15;
        for bytes in [PLAIN, COMPRESSED_FILE] {
            assert_eq!(decode(bytes).unwrap(), IdMap::new(7, 5, expected.clone()));
        }
    }

    #[test]
    fn thousands_of_damaged_files_are_survived() {
        for bytes in [PLAIN, COMPRESSED_FILE] {
            (0..1000).for_each(|seed| drop(decode(&protoseg_testing::mutate(bytes, seed))));
        }
    }

    #[test]
    fn damaged_files_are_refused_without_panic() {
        assert_eq!(decode(&PLAIN[..100]), Err("it is shorter than a header"));
        assert_eq!(decode(&[b' '; 200]), Err("it has no byte order mark (only format 5 is read)"));
        assert_eq!(decode(&COMPRESSED_FILE[..COMPRESSED_FILE.len() - 9]), Err("it is cut short"));
        assert!(decode_field(PLAIN, "GTinst", "Segmentation").is_err());
        assert!(decode_field(PLAIN, "GTcls", "Nothing").is_err());
        for end in 0..PLAIN.len() {
            let _ = decode(&PLAIN[..end]);
        }
        for at in 128..PLAIN.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut bytes = PLAIN.to_vec();
                bytes[at] = value;
                let _ = decode(&bytes);
            }
        }
    }
}
