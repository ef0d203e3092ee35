//! Pictures painted with labels, and the legend that says what the colours mean.

use std::{borrow::Cow, fmt::Write};

use protoseg_core::{IGNORE, Image, RowMap};
use rayon::prelude::*;

use super::{
    Palette,
    svg::{escape, rasterise},
};

/// How much of a class's colour covers a picture, of 255: inside a region, and along its outline.
const OPACITY: u32 = 140;
const OUTLINE_OPACITY: u32 = 235;
/// A longer side of this many pixels gets an outline one pixel wide and a legend at its own size.
const USUAL_SIDE: f64 = 500.0;
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
    /// A picture with labels painted over it: regions in the colours of their classes, with an outline as wide as the
    /// picture's size asks for. Background and pixels without a label stay as they are. Labels of another size are
    /// stretched to the picture's.
    pub fn paint(&self, picture: &Image, labels: &RowMap) -> Image {
        let (width, height) = (picture.width, picture.height);
        let labels = match (labels.width, labels.height) == (width, height) {
            true => Cow::Borrowed(labels),
            false => Cow::Owned(labels.resize_nearest(width, height)),
        };
        let mut picture = picture.clone();
        if picture.data.is_empty() {
            return picture;
        }
        let reach = (size_factor(width, height).round() as usize).max(1);
        let background = self.background();
        picture.data.par_chunks_exact_mut(3 * width).enumerate().for_each(|(y, row)| {
            let around = [y.saturating_sub(reach), y.saturating_sub(1), y + 1, y + reach];
            let line = |y: usize| &labels.data[y.min(height - 1) * width..][..width];
            let (own, around) = (line(y), around.map(line));
            for (x, (pixel, &label)) in row.chunks_exact_mut(3).zip(own).enumerate() {
                if label == IGNORE || Some(label) == background {
                    continue;
                }
                let beside = [x.saturating_sub(reach), x.saturating_sub(1), x + 1, x + reach];
                let is_edge = around.iter().any(|line| line[x] != label)
                    || beside.iter().any(|&x| own[x.min(width - 1)] != label);
                let share = if is_edge { OUTLINE_OPACITY } else { OPACITY };
                for (value, target) in pixel.iter_mut().zip(self.color(label)) {
                    let mixed = u32::from(*value) * (255 - share) + u32::from(target) * share;
                    *value = ((mixed + 127) / 255) as u8;
                }
            }
        });
        picture
    }

    /// A painted picture at its own size, with a legend of the classes on it below. The legend grows with the picture.
    pub fn overlay(&self, picture: &Image, labels: &RowMap) -> Image {
        let painted = self.paint(picture, labels);
        let present = self.present([labels]);
        let Some(widest) = widest_entry(self, &present) else { return painted };
        let scale = size_factor(painted.width, painted.height).max(1.0);
        let room = ((painted.width as f64 / scale) as usize).max(widest + 2 * EDGE);
        let legend = draw_legend(self, &present, EDGE, 0, room - 2 * EDGE);
        let pixels = |units: usize| (units as f64 * scale).ceil() as usize;
        let width = painted.width.max(pixels(room));
        let height = pixels(legend.height + 2 * EDGE);
        let svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">
<rect width="{width}" height="{height}" fill="#ffffff"/>
<g transform="scale({scale})" font-family="sans-serif" font-size="13" fill="#30363d">{}</g></svg>"##,
            legend.svg
        );
        // A legend that is too large to be drawn is left out: the picture alone still shows the labels.
        let Ok(legend) = rasterise(&svg, 1.0) else { return painted };
        let size = 3 * width * (painted.height + legend.height);
        let mut sheet = Image::new(width, painted.height + legend.height, vec![255; size]);
        paste(&mut sheet, &painted, 0, 0);
        paste(&mut sheet, &legend, 0, painted.height);
        sheet
    }
}

/// How many times larger than usual a picture is.
fn size_factor(width: usize, height: usize) -> f64 {
    width.max(height) as f64 / USUAL_SIDE
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
        let pixel = |x: usize| &overlay.data[3 * x..][..3];
        assert!((0..100).all(|x| pixel(x) == [100; 3]), "the background is never painted");
        assert_ne!(pixel(100), pixel(150), "a region has an outline");
        let chips = overlay.data.chunks_exact(3).filter(|pixel| **pixel == palette.color(2)).count();
        assert!(chips > 150, "{chips}");
        assert!(overlay.data.chunks_exact(3).all(|pixel| *pixel != palette.color(1)));
    }

    #[test]
    fn outline_and_legend_grow_with_the_picture() {
        let palette = Palette::new(&Classes::new(&["background", "cow"], &[]).unwrap());
        let measure = |side: usize| {
            let labels = RowMap::new(
                side,
                side,
                (0..side * side).map(|at| u16::from(at % side * 2 >= side)).collect(),
            );
            let overlay = palette.overlay(&Image::new(side, side, vec![0; 3 * side * side]), &labels);
            let row = &overlay.data[3 * side * (side / 2)..][..3 * side];
            let inside = row[3 * (side - 1)];
            let outline = row.chunks_exact(3).filter(|pixel| pixel[0] > inside).count();
            (overlay.width, overlay.height - side, outline)
        };
        assert_eq!(measure(400), (400, 40, 1));
        assert_eq!(measure(2000), (2000, 160, 4));
    }

    #[test]
    fn a_picture_without_classes_has_no_legend() {
        let palette = Palette::new(&Classes::new(&["background", "cow"], &[]).unwrap());
        let picture = Image::new(4, 4, vec![9; 48]);
        assert_eq!(palette.overlay(&picture, &RowMap::new(4, 4, vec![0; 16])), picture);
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
