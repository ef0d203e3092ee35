//! Plain tables: columns as wide as their widest cell, numbers to the right.

use unicode_width::UnicodeWidthStr;

/// Lines of a table under a title row.
pub fn lines(title: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].width());
        cells.chain([title[column].width()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..title.len()).map(width).collect();
    // A dash stands for a number that is not there.
    let is_number = |column: usize| {
        let cells: Vec<&String> = rows.iter().map(|row| &row[column]).filter(|cell| *cell != "-").collect();
        !cells.is_empty() && cells.iter().all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
    };
    let to_the_right: Vec<bool> = (0..title.len()).map(is_number).collect();
    let line = |cells: Vec<&str>| -> String {
        let padded = cells.iter().enumerate().map(|(column, cell)| {
            // Formatting pads by the number of characters, and not every character is one column wide.
            let space = " ".repeat(widths[column] - cell.width());
            if to_the_right[column] { space + cell } else { cell.to_string() + &space }
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

    #[test]
    fn a_dash_among_numbers_leaves_them_to_the_right() {
        let rows = ["12.5", "-", "7.0"].map(|iou| vec![iou.to_string(), "-".to_string()]);
        assert_eq!(
            lines(&["before", "preset"], &rows),
            ["before  preset", "  12.5  -", "     -  -", "   7.0  -"]
        );
    }

    #[test]
    fn wide_and_combining_characters_are_counted_as_a_terminal_shows_them() {
        let rows = ["\u{725b}", "cafe\u{301}", "dog"].map(|name| vec![name.to_string(), "7".to_string()]);
        assert_eq!(
            lines(&["class", "n"], &rows),
            ["class  n", "\u{725b}     7", "cafe\u{301}   7", "dog    7"]
        );
    }
}
