//! A sheet of samples: input, truth and prediction side by side.

use std::{collections::BTreeSet, fmt::Write};

use protoseg::{
    core::{ClassId, ClassRole, Classes, Image, LabelMap},
    train::Shown,
};
use protoseg_data::{fit_image, paint_labels, palette::voc_color};

use crate::output::svg::{escape, rasterise};

/// Side of the square that each picture is fitted into.
const CELL: usize = 300;
const GAP: usize = 14;
const MARGIN: usize = 24;
const HEAD: usize = 84;
const CAPTION: usize = 24;
/// How much of a class's colour covers the picture, of 255.
const OPACITY: u8 = 150;
/// Of a line of the legend.
const LINE: usize = 24;
const WIDTH: usize = 2 * MARGIN + 3 * CELL + 2 * GAP;

/// Draws the sheet of an epoch. Labels are rows of `classes`.
pub fn draw(epoch: usize, samples: &[Shown], classes: &Classes) -> Result<Image, resvg::usvg::Error> {
    let background = classes.has_background().then_some(0);
    let rows: Vec<[Image; 3]> = samples.iter().map(|sample| draw_row(sample, background)).collect();
    let mut tops = Vec::new();
    let mut top = HEAD;
    for [picture, ..] in &rows {
        tops.push(top);
        top += picture.height + CAPTION + GAP;
    }
    let legend = legend(samples, classes, background, top + LINE);
    let height = top + legend.lines * LINE + MARGIN;
    let mut texts = headings(epoch);
    for ((sample, [picture, ..]), top) in samples.iter().zip(&rows).zip(&tops) {
        let (x, y) = (MARGIN + (CELL - picture.width) / 2, top + picture.height + 17);
        let name = escape(&sample.name);
        let _ = writeln!(texts, r##"<text x="{x}" y="{y}">{name}</text>"##);
    }
    let svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}">
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<g font-family="sans-serif" font-size="13" fill="#4a5159">{texts}{}</g></svg>"##,
        legend.svg
    );
    let mut sheet = rasterise(&svg, 1.0)?;
    for (pictures, top) in rows.iter().zip(tops) {
        for (column, picture) in pictures.iter().enumerate() {
            let left = MARGIN + column * (CELL + GAP) + (CELL - picture.width) / 2;
            paste(&mut sheet, picture, left, top);
        }
    }
    Ok(sheet)
}

/// The colour of a row. Where there is no background, row 0 is a class and may not be black.
fn row_color(row: u16, background: Option<u16>) -> [u8; 3] {
    voc_color(ClassId(row.saturating_add(u16::from(background.is_none()))))
}

fn draw_row(sample: &Shown, background: Option<u16>) -> [Image; 3] {
    let input = fit_image(sample.image.clone(), CELL);
    let painted = |labels: &LabelMap| {
        let mut picture = input.clone();
        let labels = labels.resize_nearest(picture.width, picture.height);
        paint_labels(&mut picture, &labels, background, OPACITY, |row| row_color(row, background));
        picture
    };
    let (truth, predicted) = (painted(&sample.truth), painted(&sample.predicted));
    [input, truth, predicted]
}

fn headings(epoch: usize) -> String {
    let title = format!(
        r##"<text x="{MARGIN}" y="36" font-size="19" font-weight="bold" fill="#1c2127">epoch {epoch}</text>"##
    );
    let columns = ["image", "truth", "prediction"].iter().enumerate().map(|(column, name)| {
        let x = MARGIN + column * (CELL + GAP) + CELL / 2;
        let y = HEAD - 12;
        format!(r##"<text x="{x}" y="{y}" text-anchor="middle" font-weight="bold">{name}</text>"##)
    });
    title + &columns.collect::<String>()
}

struct Legend {
    svg: String,
    lines: usize,
}

/// The classes that occur in truth or prediction, each with its colour, in as many columns as their names allow.
fn legend(samples: &[Shown], classes: &Classes, background: Option<u16>, top: usize) -> Legend {
    let maps = samples.iter().flat_map(|sample| [&sample.truth, &sample.predicted]);
    let mut present: BTreeSet<u16> = maps.flat_map(LabelMap::present).collect();
    present.retain(|&row| Some(row) != background);
    let roles = [ClassRole::Background, ClassRole::Base, ClassRole::Novel];
    let names: Vec<&str> = roles.into_iter().flat_map(|role| classes.names(role)).collect();
    let entries: Vec<(u16, &str)> = present
        .into_iter()
        .map(|row| (row, names.get(usize::from(row)).copied().unwrap_or("unknown")))
        .collect();
    // Letters of this font are mostly narrower than 9 units.
    let widest = entries.iter().map(|(_, name)| 9 * name.chars().count() + 44).max().unwrap_or(1);
    let columns = ((WIDTH - 2 * MARGIN) / widest).clamp(1, 6);
    let place = (WIDTH - 2 * MARGIN) / columns;
    let mut svg = String::new();
    for (at, (row, name)) in entries.iter().enumerate() {
        let (x, y) = (MARGIN + at % columns * place, top + at / columns * LINE);
        let ([r, g, b], name) = (row_color(*row, background), escape(name));
        let (chip, text) = (y - 12, x + 26);
        let _ = writeln!(
            svg,
            r##"<rect x="{x}" y="{chip}" width="18" height="15" rx="3" fill="rgb({r},{g},{b})"/><text x="{text}" y="{y}">{name}</text>"##
        );
    }
    Legend { svg, lines: entries.len().div_ceil(columns) }
}

fn paste(sheet: &mut Image, picture: &Image, left: usize, top: usize) {
    for (y, row) in picture.data.chunks_exact(3 * picture.width).enumerate() {
        let at = 3 * ((top + y) * sheet.width + left);
        sheet.data[at..at + row.len()].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fake_run::shown;

    #[test]
    fn a_sheet_has_a_row_a_sample_and_the_colours_of_what_occurs() {
        let classes = Classes::new(&["background", "cow", "boat", "car"], &[]).unwrap();
        let samples = [shown("meadow <1>", 64, 48), shown("lake-2", 40, 80)];
        let sheet = draw(3, &samples, &classes).unwrap();
        assert_eq!(
            (sheet.width, sheet.height),
            (976, HEAD + 225 + 300 + 2 * (CAPTION + GAP) + LINE + MARGIN)
        );
        let count = |color: [u8; 3]| sheet.data.chunks_exact(3).filter(|pixel| **pixel == color).count();
        assert!(count(voc_color(ClassId(1))) > 200 && count(voc_color(ClassId(2))) > 200);
        assert_eq!(count(voc_color(ClassId(3))), 0, "a class that does not occur is not in the legend");
    }

    #[test]
    fn without_a_background_the_first_class_has_a_colour() {
        let classes = Classes::new(&["grass", "cow", "boat"], &[]).unwrap();
        let sheet = draw(1, &[shown("a", 50, 50)], &classes).unwrap();
        let chips = sheet.data.chunks_exact(3).filter(|pixel| **pixel == voc_color(ClassId(1))).count();
        assert!(chips > 200);
    }
}
