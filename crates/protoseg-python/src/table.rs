//! Tables as text and as HTML.

/// Lines under a title row: columns as wide as their widest cell.
pub fn text(titles: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().chain([&titles.to_vec()]).map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let line = |cells: &[String]| -> String {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    std::iter::once(line(titles)).chain(rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
}

pub fn html(titles: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| -> String {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let body: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table><thead>{}</thead><tbody>{body}</tbody></table>", row(titles, "th"))
}

/// Text that is no markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
