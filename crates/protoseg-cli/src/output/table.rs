//! Plain tables: columns as wide as their widest cell, numbers to the right.

/// Lines of a table under a title row.
pub fn lines(title: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([title[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..title.len()).map(width).collect();
    let is_number =
        |column: usize| rows.iter().all(|row| row[column].starts_with(|c: char| c.is_ascii_digit()));
    let line = |cells: Vec<&str>| -> String {
        let padded = cells.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if is_number(column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let title = line(title.to_vec());
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(title).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_aligned_and_words_left() {
        let rows =
            [vec!["cow".to_string(), "7".to_string()], vec!["aeroplane".to_string(), "120".to_string()]];
        assert_eq!(
            lines(&["class", "images"], &rows),
            ["class      images", "cow             7", "aeroplane     120"]
        );
    }
}
