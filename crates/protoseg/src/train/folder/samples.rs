//! A sheet of samples: input, truth and prediction side by side.

use std::fmt::Write;

use protoseg_core::{Classes, Image, RowMap};
use protoseg_data::fit_image;

use crate::{
    picture::{
        Palette, draw_legend, paste,
        svg::{escape, rasterise},
    },
    train::Shown,
};

/// Side of the square that each picture is fitted into.
const CELL: usize = 300;
const GAP: usize = 14;
const MARGIN: usize = 24;
const HEAD: usize = 84;
const CAPTION: usize = 24;
const WIDTH: usize = 2 * MARGIN + 3 * CELL + 2 * GAP;

/// Draws the sheet of an epoch. Labels are rows of `classes`.
pub fn draw(epoch: usize, samples: &[Shown], classes: &Classes) -> Result<Image, resvg::usvg::Error> {
    let palette = Palette::new(classes);
    let rows: Vec<[Image; 3]> = samples.iter().map(|sample| draw_row(sample, &palette)).collect();
    let mut tops = Vec::new();
    let mut top = HEAD;
    for [picture, ..] in &rows {
        tops.push(top);
        top += picture.height + CAPTION + GAP;
    }
    let maps = samples.iter().flat_map(|sample| [&sample.truth, &sample.predicted]);
    let legend = draw_legend(&palette, &palette.present(maps), MARGIN, top, WIDTH - 2 * MARGIN);
    let height = top + legend.height + MARGIN;
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

fn draw_row(sample: &Shown, palette: &Palette) -> [Image; 3] {
    let input = fit_image(sample.image.clone(), CELL);
    let painted = |labels: &RowMap| palette.paint(&input, labels);
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

/// A sample that never was.
#[cfg(test)]
pub mod fake {
    use super::{Image, RowMap, Shown};

    /// An image with two things, of which the prediction moves one.
    pub fn shown(name: &str, width: usize, height: usize) -> Shown {
        let pixels = (0..width * height).map(|at| (at % width, at / width));
        let image = pixels
            .clone()
            .flat_map(|(x, y)| [90 + (x * 120 / width) as u8, 140, 70 + (y * 150 / height) as u8]);
        let draw = |shift: usize| -> Vec<u16> {
            let label = |(x, y): (usize, usize)| match (x * 10 / width, y * 10 / height) {
                (1..=3, 4..=7) => 1,
                (column, 2..=6) if (5 + shift..=7 + shift).contains(&column) => 2,
                (_, 9) => protoseg_core::IGNORE,
                _ => 0,
            };
            pixels.clone().map(label).collect()
        };
        Shown {
            name: name.into(),
            image: Image::new(width, height, image.collect()),
            truth: RowMap::new(width, height, draw(0)),
            predicted: RowMap::new(width, height, draw(1)),
            episode: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fake::shown, *};

    #[test]
    fn a_sheet_has_one_row_per_sample_and_the_colours_of_what_occurs() {
        let classes = Classes::new(&["background", "cow", "boat", "car"], &[]).unwrap();
        let samples = [shown("meadow <1>", 64, 48), shown("lake-2", 40, 80)];
        let sheet = draw(3, &samples, &classes).unwrap();
        assert_eq!((sheet.width, sheet.height), (976, HEAD + 225 + 300 + 2 * (CAPTION + GAP) + 24 + MARGIN));
        let count = |color: [u8; 3]| sheet.data.chunks_exact(3).filter(|pixel| **pixel == color).count();
        let color = |row: u16| Palette::new(&classes).color(row);
        assert!(count(color(1)) > 200 && count(color(2)) > 200);
        assert_eq!(count(color(3)), 0, "a class that does not occur is not in the legend");
    }

    #[test]
    fn without_a_background_the_first_class_has_a_colour() {
        let classes = Classes::new(&["grass", "cow", "boat"], &[]).unwrap();
        let sheet = draw(1, &[shown("a", 50, 50)], &classes).unwrap();
        let color = Palette::new(&classes).color(1);
        let chips = sheet.data.chunks_exact(3).filter(|pixel| **pixel == color).count();
        assert!(chips > 200);
    }
}
