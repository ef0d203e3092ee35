//! A contact sheet with words on it: the name of every picture, and what the colours mean.

use std::fmt::Write;

use protoseg_core::Image;
use protoseg_data::ContactSheet;

use super::svg::{escape, rasterise};

/// Height of a line of the legend.
const LINE: usize = 22;
/// Width of a letter, roughly: names are cut to fit.
const LETTER: usize = 7;

/// The sheet with captions under its pictures and a legend below all of them.
pub fn name_sheet(sheet: &ContactSheet) -> Image {
    let (width, top) = (sheet.image.width, sheet.image.height);
    let widest = sheet.legend.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    let entry_width = (LETTER * widest + 40).clamp(40, width.max(40));
    let columns = (width / entry_width).max(1);
    let height = top + sheet.legend.len().div_ceil(columns) * LINE + LINE / 2;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">
<rect width="{width}" height="{height}" fill="#202020"/><g font-family="sans-serif" font-size="11" fill="#e6e6e6">"##
    );
    for (name, place) in sheet.samples.iter().zip(&sheet.places) {
        let (x, y) = (place.left, place.top + place.height + 12);
        let name = escape(&fit_name(name, sheet.cell / LETTER));
        let _ = writeln!(svg, r##"<text x="{x}" y="{y}">{name}</text>"##);
    }
    for (at, entry) in sheet.legend.iter().enumerate() {
        let (x, y) = (8 + at % columns * entry_width, top + LINE + at / columns * LINE);
        let ([r, g, b], name) = (entry.color, escape(&entry.name));
        let (chip, text) = (y - 11, x + 22);
        let _ = writeln!(
            svg,
            r##"<rect x="{x}" y="{chip}" width="16" height="14" rx="2" fill="rgb({r},{g},{b})"/><text x="{text}" y="{y}">{name}</text>"##
        );
    }
    svg.push_str("</g></svg>");
    // A sheet that is too large for words still shows the labels.
    let Ok(mut named) = rasterise(&svg, 1.0) else { return sheet.image.clone() };
    for place in &sheet.places {
        for y in place.top..place.top + place.height {
            let row = 3 * (y * width + place.left)..3 * (y * width + place.left + place.width);
            named.data[row.clone()].copy_from_slice(&sheet.image.data[row]);
        }
    }
    named
}

/// The end of a name that is too long: folders come first in it, and the file last.
fn fit_name(name: &str, letters: usize) -> String {
    let count = name.chars().count();
    match count > letters {
        true => std::iter::once('…').chain(name.chars().skip(count + 1 - letters.max(1))).collect(),
        false => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use protoseg_data::{Benchmark, SheetOptions, contact_sheet};

    use super::*;

    #[test]
    fn pictures_stay_and_words_are_added() {
        let scenes = Benchmark::open("scenes", None).unwrap();
        let options = SheetOptions { columns: 2, cell: 80, ..SheetOptions::default() };
        let sheet = contact_sheet(scenes.dataset.as_ref(), &[0, 1, 2], options).unwrap();
        let named = name_sheet(&sheet);
        assert!(named.width == sheet.image.width && named.height > sheet.image.height);
        let place = &sheet.places[2];
        let row = 3 * ((place.top + 5) * named.width + place.left)..;
        assert_eq!(named.data[row.clone()][..240], sheet.image.data[row][..240]);
        let last = &sheet.legend.last().unwrap().color;
        assert!(
            named.data[3 * sheet.image.height * named.width..].chunks_exact(3).any(|pixel| pixel == last)
        );
        let caption = 3 * (place.top + place.height) * named.width..;
        assert!(named.data[caption][..3 * 12 * named.width].iter().any(|&value| value > 120), "a name");
    }

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(fit_name("a/b/photo.jpg", 6), "…o.jpg");
        assert_eq!(fit_name("a.jpg", 6), "a.jpg");
    }
}
