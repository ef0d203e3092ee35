//! What each row of a classifier is called and looks like, and pictures painted with it.

use std::{collections::BTreeSet, fmt::Write};

use protoseg::{
    class_pack::ClassPack,
    core::{ClassId, Classes, Image, RowMap},
};
use protoseg_data::{paint_labels, palette::voc_color};

use super::svg::{escape, rasterise};

/// Names and colours by row.
#[derive(Clone)]
pub struct Palette {
    pub names: Vec<String>,
    pub colors: Vec<[u8; 3]>,
    pub background: Option<u16>,
}

/// A legend in the making.
pub struct Legend {
    pub svg: String,
    pub height: usize,
}

/// How much of a class's colour covers a picture, of 255.
const OPACITY: u8 = 150;
/// Of a line of a legend.
const LINE: usize = 24;

impl Palette {
    /// The colours of Pascal VOC. Where there is no background, row 0 is a class and may not be black.
    pub fn new(classes: &Classes) -> Self {
        let background = classes.has_background().then_some(0);
        let shift = u16::from(background.is_none());
        let names: Vec<String> = classes.rows().iter().map(|class| class.name.clone()).collect();
        let colors = (0..names.len() as u16).map(|row| voc_color(ClassId(row + shift))).collect();
        Self { names, colors, background }
    }

    /// With the colours that users chose for classes of a pack.
    pub fn with_pack(mut self, pack: &ClassPack) -> Self {
        for class in pack.classes() {
            if let (Some(color), Some(row)) =
                (class.color, self.names.iter().position(|name| *name == class.name))
            {
                self.colors[row] = color;
            }
        }
        self
    }

    pub fn name(&self, row: u16) -> &str {
        self.names.get(usize::from(row)).map_or("unknown", String::as_str)
    }

    pub fn color(&self, row: u16) -> [u8; 3] {
        self.colors.get(usize::from(row)).copied().unwrap_or([255; 3])
    }

    /// A picture with labels over it; the labels may be of another size.
    pub fn painted(&self, picture: &Image, labels: &RowMap) -> Image {
        let mut picture = picture.clone();
        let labels = labels.resize_nearest(picture.width, picture.height);
        paint_labels(&mut picture, &labels, self.background, OPACITY, |row| self.color(row));
        picture
    }

    /// The rows that occur in these maps, without the background.
    pub fn present<'a>(&self, maps: impl IntoIterator<Item = &'a RowMap>) -> Vec<u16> {
        let mut present: BTreeSet<u16> = maps.into_iter().flat_map(RowMap::present).collect();
        present.retain(|&row| Some(row) != self.background);
        present.into_iter().collect()
    }

    /// Chips and names of these rows, in as many columns as the names allow, as a piece of SVG.
    pub fn legend(&self, rows: &[u16], left: usize, top: usize, width: usize) -> Legend {
        // Letters of this font are mostly narrower than 9 units.
        let widest = rows.iter().map(|&row| 9 * self.name(row).chars().count() + 44).max().unwrap_or(1);
        let columns = (width / widest).clamp(1, 6);
        let place = width / columns;
        let mut svg = String::new();
        for (at, &row) in rows.iter().enumerate() {
            let (x, y) = (left + at % columns * place, top + LINE + at / columns * LINE);
            let ([r, g, b], name) = (self.color(row), escape(self.name(row)));
            let (chip, text) = (y - 12, x + 26);
            let _ = writeln!(
                svg,
                r##"<rect x="{x}" y="{chip}" width="18" height="15" rx="3" fill="rgb({r},{g},{b})"/><text x="{text}" y="{y}">{name}</text>"##
            );
        }
        Legend { svg, height: rows.len().div_ceil(columns) * LINE }
    }

    /// A painted picture at its own size with the legend of what is on it below.
    pub fn overlay(&self, picture: &Image, labels: &RowMap) -> Image {
        const EDGE: usize = 8;
        let painted = self.painted(picture, labels);
        let present = self.present([labels]);
        let longest = present.iter().map(|&row| 9 * self.name(row).chars().count() + 44).max().unwrap_or(0);
        let width = painted.width.max(longest + 2 * EDGE);
        let legend = self.legend(&present, EDGE, painted.height, width - 2 * EDGE);
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
            // Too large a sheet for the drawer of text: the picture says most of it.
            Err(_) => painted,
        }
    }
}

/// A colour as `#rrggbb`.
pub fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

pub fn paste(sheet: &mut Image, picture: &Image, left: usize, top: usize) {
    for (y, row) in picture.data.chunks_exact(3 * picture.width).enumerate() {
        let at = 3 * ((top + y) * sheet.width + left);
        sheet.data[at..at + row.len()].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
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
}
