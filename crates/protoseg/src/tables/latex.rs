//! Tables in LaTeX, to be pasted into a paper.

/// What a file of tables starts with.
pub(crate) const HEAD: &str = "% Needs \\usepackage{booktabs} in the preamble.\n";

/// A `table` environment with the rules of booktabs. Words between backticks in the caption are set as code. The first
/// `n_words` columns hold words and are aligned to the left, the others to the right.
pub(crate) fn table<T: AsRef<str>>(
    caption: &str,
    label: &str,
    n_words: usize,
    titles: &[T],
    rows: &[Vec<String>],
) -> String {
    let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
    let columns = "l".repeat(n_words) + &"r".repeat(titles.len().saturating_sub(n_words));
    let mut text = format!(
        "\\begin{{table}}\n\\centering\n\\caption{{{}}}\n\\label{{tab:{}}}\n\
         \\begin{{tabular}}{{{columns}}}\n\\toprule\n",
        prose(caption),
        key(label)
    );
    text += &line(titles.iter().map(|title| escaped(title.as_ref())).collect());
    text += "\\midrule\n";
    for row in rows {
        text += &line(row.iter().map(|value| cell(value)).collect());
    }
    text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
}

/// A dash for a number that is not there is longer in print.
fn cell(text: &str) -> String {
    if text == "-" { "--".to_string() } else { escaped(text) }
}

/// Sentences in which words between backticks are set as code.
fn prose(text: &str) -> String {
    let part = |(place, part): (usize, &str)| match place % 2 {
        0 => escaped(part),
        _ => format!("\\texttt{{{}}}", escaped(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

/// The text of a label: letters, digits and hyphens.
fn key(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Text that LaTeX shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '_' | '%' | '&' | '#' | '$' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out += r"\textbackslash{}",
            '~' => out += r"\textasciitilde{}",
            '^' => out += r"\textasciicircum{}",
            '<' => out += r"\textless{}",
            '>' => out += r"\textgreater{}",
            '|' => out += r"\textbar{}",
            '`' => out += r"\textasciigrave{}",
            '±' => out += r"$\pm$",
            // At the start of a row they would be read as an option of the line before it.
            '[' | ']' | '*' => out.extend(['{', c, '}']),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_character_is_escaped() {
        assert_eq!(escaped("a_b 5% x&y #1 $2 {z}"), r"a\_b 5\% x\&y \#1 \$2 \{z\}");
        assert_eq!(escaped(r"~^\"), r"\textasciitilde{}\textasciicircum{}\textbackslash{}");
        assert_eq!(escaped("<b>|`\n"), r"\textless{}b\textgreater{}\textbar{}\textasciigrave{} ");
        assert_eq!(escaped("1.5 ±0.2"), r"1.5 $\pm$0.2");
    }

    #[test]
    fn a_table_has_its_caption_label_and_rules() {
        let rows = [vec!["[cow]*".to_string(), "-".to_string()]];
        let lines = [
            r"\begin{table}",
            r"\centering",
            r"\caption{100\% of \texttt{my\_val}}",
            r"\label{tab:my-farm-0}",
            r"\begin{tabular}{lr}",
            r"\toprule",
            r"class & IoU \\",
            r"\midrule",
            r"{[}cow{]}{*} & -- \\",
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ];
        let text = table("100% of `my_val`", "my_farm 0", 1, &["class", "IoU"], &rows);
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
