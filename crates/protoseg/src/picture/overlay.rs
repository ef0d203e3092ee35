//! Pictures painted with labels, and the legend that says what the colours mean.

use std::fmt::Write;

use protoseg_core::{Image, RowMap};
use protoseg_data::paint_labels;

use super::{
    Palette,
    svg::{escape, rasterise},
};

/// How much of a class's colour covers a picture, of 255.
const OPACITY: u8 = 150;
/// Height of a line of a legend.
const LINE: usize = 24;
/// Space around a legend.
const EDGE: usize = 8;

/// A legend as a piece of SVG.
pub(crate) struct Legend {
    pub svg: String,
    pub height: usize,
}

impl Palette {
    /// A picture with labels painted over it. Labels of another size are stretched to the picture's.
    pub fn paint(&self, picture: &Image, labels: &RowMap) -> Image {
        let mut picture = picture.clone();
        let labels = labels.resize_nearest(picture.width, picture.height);
        paint_labels(&mut picture, &labels, self.background(), OPACITY, |row| self.color(row));
        picture
    }

    /// A painted picture at its own size, with a legend of the classes on it below.
    pub fn overlay(&self, picture: &Image, labels: &RowMap) -> Image {
        let painted = self.paint(picture, labels);
        let present = self.present([labels]);
        let width = painted.width.max(widest_entry(self, &present).unwrap_or(0) + 2 * EDGE);
        let legend = draw_legend(self, &present, EDGE, painted.height, width - 2 * EDGE);
        let height = painted.height + legend.height + if present.is_empty() { 0 } else { 2 * EDGE };
        let svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">
<rect width="{width}" height="{height}" fill="#ffffff"/>
<g font-family="sans-serif" font-size="13" fill="#30363d">{}</g></svg>"##,
            legend.svg
        );
        match rasterise(&svg, 1.0) {
            Ok(mut sheet) => {
                paste(&mut sheet, &painted, 0, 0);
                sheet
            }
            // The sheet is too large for text to be drawn on it; the picture alone still shows the labels.
            Err(_) => painted,
        }
    }
}

/// Width of the widest entry of a legend. Letters of this font are mostly narrower than 9 units.
fn widest_entry(palette: &Palette, rows: &[u16]) -> Option<usize> {
    rows.iter().map(|&row| 9 * palette.name(row).chars().count() + 44).max()
}

/// Colours and names of these rows, in as many columns as the names leave room for.
pub(crate) fn draw_legend(palette: &Palette, rows: &[u16], left: usize, top: usize, width: usize) -> Legend {
    let columns = (width / widest_entry(palette, rows).unwrap_or(1)).clamp(1, 6);
    let column_width = width / columns;
    let mut svg = String::new();
    for (at, &row) in rows.iter().enumerate() {
        let (x, y) = (left + at % columns * column_width, top + LINE + at / columns * LINE);
        let ([r, g, b], name) = (palette.color(row), escape(palette.name(row)));
        let (chip, text) = (y - 12, x + 26);
        let _ = writeln!(
            svg,
            r##"<rect x="{x}" y="{chip}" width="18" height="15" rx="3" fill="rgb({r},{g},{b})"/><text x="{text}" y="{y}">{name}</text>"##
        );
    }
    Legend { svg, height: rows.len().div_ceil(columns) * LINE }
}

/// Copies a picture onto a sheet that has room for it.
pub(crate) fn paste(sheet: &mut Image, picture: &Image, left: usize, top: usize) {
    for (y, row) in picture.data.chunks_exact(3 * picture.width).enumerate() {
        let at = 3 * ((top + y) * sheet.width + left);
        sheet.data[at..at + row.len()].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use protoseg_core::Classes;

    use super::*;

    #[test]
    fn an_overlay_keeps_the_picture_and_names_what_is_on_it() {
        let palette = Palette::new(&Classes::new(&["background", "cow"], &["duck"]).unwrap());
        let picture = Image::new(200, 20, vec![100; 200 * 20 * 3]);
        let labels = RowMap::new(200, 20, (0..4000).map(|at| if at % 200 < 100 { 0 } else { 2 }).collect());
        let overlay = palette.overlay(&picture, &labels);
        assert_eq!((overlay.width, overlay.height), (200, 20 + 24 + 16));
        assert_eq!(overlay.data[..3], [100; 3]);
        let chips = overlay.data.chunks_exact(3).filter(|pixel| **pixel == palette.color(2)).count();
        assert!(chips > 150, "{chips}");
        assert!(overlay.data.chunks_exact(3).all(|pixel| *pixel != palette.color(1)));
    }

    #[test]
    fn a_class_name_that_looks_like_markup_is_drawn_as_text() {
        let legend = |name: &str| {
            let palette = Palette::new(&Classes::new(&["background", name], &[]).unwrap());
            draw_legend(&palette, &[1], 0, 0, 400).svg
        };
        assert!(legend("</text><image href=\"x\"/>").contains(">&lt;/text&gt;&lt;image"));
    }
}
