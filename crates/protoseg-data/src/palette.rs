//! Colours of classes: the Pascal VOC palette, and label maps that say which colour in a mask means which class.

use std::collections::HashMap;
use std::path::Path;

use protoseg_core::ClassId;

use crate::{DataError, Rgb, files};

/// Maps colours to ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColorMap(HashMap<[u8; 3], u16>);

impl ColorMap {
    /// Makes a map from (colour, label) pairs; a label is an id or [`protoseg_core::IGNORE`].
    pub fn new(colors: impl IntoIterator<Item = ([u8; 3], u16)>) -> Self {
        Self(colors.into_iter().collect())
    }

    pub fn get(&self, color: [u8; 3]) -> Option<u16> {
        self.0.get(&color).copied()
    }
}

/// The colour of an id in the Pascal VOC palette: the bits of the id, three at a time, spread over red, green and
/// blue from the highest bit down. Id 0 is black.
pub fn voc_color(id: ClassId) -> [u8; 3] {
    let mut color = [0u8; 3];
    let mut rest = id.0;
    for bit in (0..8).rev() {
        for (channel, value) in color.iter_mut().enumerate() {
            *value |= (((rest >> channel) & 1) as u8) << bit;
        }
        rest >>= 3;
    }
    color
}

/// Reads a label map file: class names with their colours, in the order of the file. A line has one of three forms:
/// CVAT's `name:r,g,b:parts:actions`, `name,r,g,b`, or CamVid's `r g b name`. A header line and lines that start with
/// `#` are skipped.
pub fn read_label_map(path: &Path) -> Result<Vec<(String, [u8; 3])>, DataError> {
    let mut entries: Vec<(String, [u8; 3])> = Vec::new();
    for (place, (line, text)) in files::read_lines(path)?.into_iter().enumerate() {
        match parse_entry(&text) {
            Some(entry) => {
                if let Some((_, color)) =
                    entries.iter().find(|(name, color)| *name == entry.0 || *color == entry.1)
                {
                    let what = if *color == entry.1 { "colour" } else { "class" };
                    let got = if *color == entry.1 { Rgb(entry.1).to_string() } else { entry.0 };
                    return Err(DataError::Duplicate { path: path.to_path_buf(), what, got });
                }
                entries.push(entry);
            }
            None if place == 0 && text.split([',', ' ', '\t']).all(|word| word.parse::<u8>().is_err()) => {}
            None => {
                let expected = "`name:r,g,b::`, `name,r,g,b` or `r g b name` with numbers from 0 to 255";
                return Err(DataError::Line { path: path.to_path_buf(), line, got: text, expected });
            }
        }
    }
    if entries.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), hint: "write one `name:r,g,b::` per line" });
    }
    Ok(entries)
}

fn parse_entry(line: &str) -> Option<(String, [u8; 3])> {
    let color = |parts: &[&str]| -> Option<[u8; 3]> {
        let numbers: Vec<u8> = parts.iter().map(|part| part.trim().parse().ok()).collect::<Option<_>>()?;
        numbers.try_into().ok()
    };
    if let Some((name, rest)) = line.split_once(':') {
        let parts: Vec<&str> = rest.split(':').next()?.split(',').collect();
        return Some((name.trim().to_string(), color(&parts)?));
    }
    let commas: Vec<&str> = line.split(',').collect();
    if let [name, rest @ ..] = &commas[..]
        && rest.len() == 3
    {
        return Some((name.trim().to_string(), color(rest)?));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let (numbers, name) = words.split_at_checked(3).filter(|(_, name)| !name.is_empty())?;
    Some((name.join(" "), color(numbers)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_voc_palette_begins_as_everyone_knows_it() {
        let first: Vec<_> = [0, 1, 2, 3, 15, 20, 255].map(|id| voc_color(ClassId(id))).to_vec();
        let known = [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [192, 128, 128], [0, 64, 128]];
        assert_eq!(first[..6], known);
        assert_eq!(first[6], [224, 224, 192]);
    }

    #[test]
    fn three_forms_of_label_map_line_are_read() {
        let cat = Some(("sea cat".to_string(), [1, 22, 255]));
        assert_eq!(parse_entry("sea cat:1,22,255::"), cat);
        assert_eq!(parse_entry("sea cat:1,22,255:head,tail:run"), cat);
        assert_eq!(parse_entry("sea cat, 1, 22,255"), cat);
        assert_eq!(parse_entry("1 22 255\tsea cat"), cat);
        assert_eq!(parse_entry("cat:1,22,256::"), None);
        assert_eq!(parse_entry("cat"), None);
        assert_eq!(parse_entry("1 2 3"), None);
    }
}
