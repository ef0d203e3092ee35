//! A sheet of supports: each with its mask, and with what the other supports find in it.

use std::fmt::Write;

use protoseg_core::{Classes, Image};

use super::{
    Palette, paste,
    svg::{escape, rasterise},
};
use crate::register::ClassReport;

/// Side of the square that each picture is fitted into; registration makes them so.
const CELL: usize = 240;
const GAP: usize = 12;
const MARGIN: usize = 24;
const HEAD: usize = 40;
const CAPTION: usize = 26;

/// The supports of these classes, or nothing if there is none to show.
pub fn support_sheet(reports: &[ClassReport]) -> Option<Image> {
    let classes = Classes::new(&["background", "class"], &[]).ok()?;
    let palette = Palette::new(&classes);
    let left_of = |column: usize| MARGIN + column * (CELL + GAP);
    let width = left_of(3) - GAP + MARGIN;
    let (mut texts, mut pasted) = (String::new(), Vec::new());
    let titles = ["support", "its mask", "found with what the others taught"];
    for (column, title) in titles.into_iter().enumerate() {
        let _ =
            writeln!(texts, r##"<text x="{}" y="26" font-weight="bold">{title}</text>"##, left_of(column));
    }
    let mut top = HEAD;
    for (report, picture) in reports.iter().flat_map(|r| r.pictures.iter().map(move |picture| (r, picture))) {
        let mut columns = vec![picture.image.clone(), palette.paint(&picture.image, &picture.mask)];
        columns.extend(picture.found.iter().map(|(found, _)| palette.paint(&picture.image, found)));
        let height = picture.image.height;
        for (column, image) in columns.into_iter().enumerate() {
            pasted.push((left_of(column) + (CELL - image.width.min(CELL)) / 2, top, image));
        }
        let (class, name, y) = (escape(&report.class), escape(&picture.name), top + height + 17);
        let _ = writeln!(
            texts,
            r##"<text x="{MARGIN}" y="{y}"><tspan font-weight="bold">{class}</tspan>  {name}</text>"##
        );
        let found = match &picture.found {
            Some((_, iou)) => format!("IoU {iou:.0} %"),
            None => "not checked: there is no other support, or the mask is weak".to_string(),
        };
        let _ = writeln!(texts, r##"<text x="{}" y="{y}">{found}</text>"##, left_of(2));
        top += height + CAPTION + GAP;
    }
    let svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}">
<rect width="{width}" height="{top}" fill="#ffffff"/>
<g font-family="sans-serif" font-size="13" fill="#4a5159">{texts}</g></svg>"##
    );
    let mut sheet = rasterise(&svg, 1.0).ok().filter(|_| !pasted.is_empty())?;
    pasted.iter().for_each(|(left, top, image)| paste(&mut sheet, image, *left, *top));
    Some(sheet)
}
