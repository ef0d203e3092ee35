//! The results of an evaluation as tables for a terminal.

use anyhow::Result;
use protoseg::evaluate::{FoldMean, Results};

use super::{line, note, table};

/// Prints the main numbers, the IoU of every class, and notes.
pub fn print(results: &Results) -> Result<()> {
    line(results.headline())?;
    table::lines(&Results::TITLES, &results.table()).into_iter().try_for_each(line)?;
    line("")?;
    let titles = results.class_titles();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    table::lines(&titles, &results.class_table()).into_iter().try_for_each(line)?;
    results.about_confidence().into_iter().try_for_each(line)?;
    results.notes().iter().for_each(|text| note(format_args!("note: {text}")));
    Ok(())
}

/// Prints the mean over folds and its notes.
pub fn print_folds(mean: &FoldMean) -> Result<()> {
    line("")?;
    line(mean.headline())?;
    table::lines(&FoldMean::TITLES, &mean.table()).into_iter().try_for_each(line)?;
    line(FoldMean::ABOUT)?;
    mean.notes.iter().for_each(|text| note(format_args!("note: {text}")));
    Ok(())
}
