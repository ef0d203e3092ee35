//! A sheet of episodes: supports with their masks, query, truth and prediction in one strip each.

use std::fmt::Write;

use protoseg_core::{Classes, Image, RowMap};
use protoseg_data::fit_image;

use crate::{
    picture::{
        Palette, paste,
        svg::{escape, rasterise},
    },
    train::{Shown, ShownEpisode},
};

/// Side of the square that each picture is fitted into.
const CELL: usize = 240;
const GAP: usize = 12;
const MARGIN: usize = 24;
const HEAD: usize = 84;
const CAPTION: usize = 24;
/// Supports that have a column; those beyond it are only counted.
const COLUMNS: usize = 3;

/// Draws the sheet of an epoch.
pub fn draw(epoch: usize, samples: &[(&Shown, &ShownEpisode)]) -> Result<Image, resvg::usvg::Error> {
    let shots = samples.iter().map(|(_, episode)| episode.supports.len()).max().unwrap_or(0);
    let columns = shots.min(COLUMNS);
    let width = 2 * MARGIN + (columns + 3) * (CELL + GAP) - GAP;
    let left_of = |column: usize| MARGIN + column * (CELL + GAP);

    // The class is painted in one colour, whatever it is.
    let classes = Classes::new(&["background", "class"], &[]).expect("two different names");
    let palette = Palette::new(&classes);
    let strips: Vec<Vec<Image>> =
        samples.iter().map(|(shown, episode)| strip(shown, episode, columns, &palette)).collect();

    let mut texts = heading(epoch, shots, columns, left_of);
    let (mut tops, mut top) = (Vec::new(), HEAD);
    for ((shown, episode), strip) in samples.iter().zip(&strips) {
        tops.push(top);
        top += strip.iter().map(|picture| picture.height).max().unwrap_or(0);
        let (class, name, y) = (escape(&episode.class), escape(&shown.name), top + 17);
        let _ = writeln!(
            texts,
            r##"<text x="{MARGIN}" y="{y}"><tspan font-weight="bold">{class}</tspan></text>"##
        );
        let _ = writeln!(texts, r##"<text x="{}" y="{y}">{name}</text>"##, left_of(columns));
        top += CAPTION + GAP;
    }
    let height = top + MARGIN - GAP;
    let svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">
<rect width="{width}" height="{height}" fill="#ffffff"/>
<g font-family="sans-serif" font-size="13" fill="#4a5159">{texts}</g></svg>"##
    );
    let mut sheet = rasterise(&svg, 1.0)?;
    for (strip, top) in strips.iter().zip(tops) {
        for (column, picture) in strip.iter().enumerate() {
            paste(&mut sheet, picture, left_of(column) + (CELL - picture.width) / 2, top);
        }
    }
    Ok(sheet)
}

/// Supports, query, truth, prediction.
fn strip(shown: &Shown, episode: &ShownEpisode, columns: usize, palette: &Palette) -> Vec<Image> {
    let painted = |image: &Image, labels: &RowMap| palette.paint(&fit_image(image.clone(), CELL), labels);
    let supports = episode.supports.iter().take(columns).map(|(image, mask)| painted(image, mask));
    let query = fit_image(shown.image.clone(), CELL);
    let answers = [&shown.truth, &shown.predicted].map(|labels| palette.paint(&query, labels));
    supports.chain([query.clone()]).chain(answers).collect()
}

fn heading(epoch: usize, shots: usize, columns: usize, left_of: impl Fn(usize) -> usize) -> String {
    let more =
        if shots > columns { format!(", the first {columns} of {shots} supports") } else { String::new() };
    let mut texts = format!(
        r##"<text x="{MARGIN}" y="36" font-size="19" font-weight="bold" fill="#1c2127">epoch {epoch}{more}</text>"##
    );
    let names = std::iter::repeat_n("support", columns).chain(["query", "truth", "prediction"]);
    for (column, name) in names.enumerate() {
        let (x, y) = (left_of(column) + CELL / 2, HEAD - 12);
        let _ = writeln!(
            texts,
            r##"<text x="{x}" y="{y}" text-anchor="middle" font-weight="bold">{name}</text>"##
        );
    }
    texts
}

#[cfg(test)]
mod tests {
    use protoseg_core::ClassId;
    use protoseg_data::palette::voc_color;

    use super::{super::samples::fake::shown, *};

    #[test]
    fn a_strip_shows_supports_query_truth_and_prediction() {
        let query = shown("lake-2", 60, 40);
        let support = shown("meadow <1>", 40, 60);
        let only_first = |map: &RowMap| {
            let label = |&label: &u16| if label > 1 { 0 } else { label };
            RowMap::new(map.width, map.height, map.data.iter().map(label).collect())
        };
        let shown =
            Shown { truth: only_first(&query.truth), predicted: only_first(&query.predicted), ..query };
        for (shots, columns) in [(1, 4), (2, 5), (5, 6)] {
            let mask = only_first(&support.truth);
            let supports = vec![(support.image.clone(), mask); shots];
            let episode = ShownEpisode { class: "duck & drake".into(), supports };
            let sheet = draw(3, &[(&shown, &episode), (&shown, &episode)]).unwrap();
            assert_eq!(sheet.width, 2 * MARGIN + columns * (CELL + GAP) - GAP);
            assert_eq!(sheet.height, HEAD + 2 * (CELL + CAPTION + GAP) + MARGIN - GAP);
            let painted =
                sheet.data.chunks_exact(3).filter(|pixel| pixel[0] > pixel[1].saturating_add(40)).count();
            assert!(painted > 1000, "{painted} pixels of {:?}", voc_color(ClassId(1)));
        }
    }
}
