//! The results of an evaluation as tables for a terminal.

use protoseg::evaluate::{ResultRow, Results};

use super::table;

/// The main numbers.
pub fn main_table(results: &Results) -> Vec<String> {
    table::lines(&Results::TITLES, &results.table())
}

/// The IoU of every class.
pub fn class_table(results: &Results) -> Vec<String> {
    let shown = results.shown_rows();
    let name = |row: &&ResultRow| format!("{} {} {}-shot", row.variant, row.preset, row.shots);
    let titles: Vec<String> = shown.iter().map(name).collect();
    let titles: Vec<&str> = ["class", "role"].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let line = |(place, class): (usize, &protoseg::core::Class)| {
        let iou =
            |row: &&ResultRow| row.iou[place].map_or("0 (absent)".into(), |iou| format!("{:.1}", iou.mean));
        let names = [class.name.clone(), class.role.name().to_string()];
        names.into_iter().chain(shown.iter().map(iou)).collect()
    };
    let lines: Vec<Vec<String>> = results.classes.rows().iter().enumerate().map(line).collect();
    table::lines(&titles, &lines)
}
