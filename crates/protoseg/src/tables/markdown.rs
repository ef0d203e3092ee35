//! Tables in Markdown.

/// A table under its titles. Whatever a cell holds, it stays one cell.
pub(crate) fn table<T: AsRef<str>>(titles: &[T], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(titles.iter().map(|title| escaped(title.as_ref())).collect());
    text += &line(vec!["---".to_string(); titles.len()]);
    for row in rows {
        text += &line(row.iter().map(|cell| escaped(cell)).collect());
    }
    text
}

fn escaped(cell: &str) -> String {
    cell.replace('|', r"\|").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_in_a_name_starts_no_cell() {
        let rows = [vec!["cow|calf".to_string(), "7".to_string()]];
        assert_eq!(
            table(&["class", "images"], &rows),
            "| class | images |\n| --- | --- |\n| cow\\|calf | 7 |\n"
        );
    }
}
