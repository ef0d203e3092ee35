//! Results as files: Markdown for people, LaTeX for papers, CSV for programs.

use std::fmt::Write;

use protoseg_core::count;

use super::{BASE_BEFORE, PAPER_TITLES, ResultRow, Results, Run};
use crate::tables::{csv, latex, markdown};

impl Results {
    /// Headline, model, tables and notes as Markdown.
    pub fn markdown(&self) -> String {
        let mut text =
            format!("{}.\n\nModel: {}. {}.\n\n", self.headline(), self.about_model(), self.about_draws());
        text += &markdown::table(&Self::TITLES, &self.table());
        text += "\nIoU of every class in %:\n\n";
        text += &markdown::table(&self.class_titles(), &self.class_table());
        for note in self.notes() {
            let _ = writeln!(text, "\nNote: {note}.");
        }
        text
    }

    /// Two tables for a paper: the main numbers, and the IoU of every class in the
    /// [shown rows](Self::shown_rows). They need the package `booktabs`.
    pub fn latex(&self) -> String {
        let Self { data, fold, protocol, size, images, split, support_split, .. } = self;
        let mut setting = format!(
            "{data}, fold {fold}, protocol {protocol}: {} of `{split}` at {size} x {size}, supports from \
             `{support_split}`. Model: {}. {}.",
            count(images, "image"),
            self.about_model(),
            self.about_draws()
        );
        for note in self.notes() {
            let _ = write!(setting, " Note: {note}.");
        }
        let line = |row: &ResultRow| {
            let scores = [row.base, row.novel, row.total].map(|spread| self.number(spread));
            [row.name(), row.shots.to_string(), row.before()].into_iter().chain(scores).collect()
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(line).collect();
        let caption = format!("Mean IoU in % on {setting} {BASE_BEFORE}.");
        let label = format!("{data}-fold{fold}");
        let main = latex::table(&caption, &label, 1, &PAPER_TITLES, &rows);
        let classes = latex::table(
            &format!("IoU of every class in % on {setting}"),
            &format!("{label}-classes"),
            2,
            &self.class_titles(),
            &self.class_table(),
        );
        format!("{}{main}\n{classes}", latex::HEAD)
    }

    /// One line per draw, with the IoU of every class.
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "variant,preset,shots,seed,protocol,base,base_without_background,novel,total,mean,harmonic_mean,pixel_accuracy",
        );
        for class in self.classes.rows() {
            let _ = write!(text, ",{}", csv::field(&class.name));
        }
        text.push('\n');
        for row in &self.rows {
            for Run { seed, scores } in &row.runs {
                let ResultRow { variant, preset, shots, .. } = row;
                let _ = write!(text, "{variant},{preset},{shots},{seed},{}", self.protocol);
                let numbers = [
                    scores.base,
                    scores.base_without_background,
                    scores.novel,
                    scores.total,
                    scores.mean,
                    scores.harmonic_mean,
                    scores.pixel_accuracy,
                ];
                numbers.into_iter().for_each(|number| text += &csv::number(Some(number)));
                scores.iou.iter().for_each(|iou| text += &csv::number(*iou));
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_hand::{results, row};

    #[test]
    fn markdown_has_the_model_the_draws_and_every_class() {
        let results = results(0, vec![row("capl", 5, &[[60.0, 20.0], [62.0, 24.0]])]);
        let text = results.markdown();
        for line in [
            "Model: PSPNet, ResNet-10, method `capl`, training seed 3. Scores are means over 2 draws of supports \
             (seeds 0, 1); ± is the population standard deviation over the draws.",
            "| capl | balanced | 5 | 70.00 | 61.00 ±1.00 | 22.00 ±2.00 | 41.50 ±1.50 | 41.50 ±1.50 | \
             32.30 ±2.30 | 90.00 ±0.00 |",
            "| class | role | capl (balanced), 5-shot |",
            "| cow_1 | base | 61.00 ±1.00 |",
            "| duck | novel | - |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn latex_has_both_tables_and_no_bare_special_character() {
        let results = results(0, vec![row("capl", 5, &[[60.0, 20.0], [62.0, 24.0]])]);
        let text = results.latex();
        assert!(text.starts_with("% Needs \\usepackage{booktabs}"), "{text}");
        for line in [
            r"\label{tab:my-farm-fold0}",
            r"\label{tab:my-farm-fold0-classes}",
            r"variant & shots & base before & base & novel & total \\",
            r"capl (balanced) & 5 & 70.00 & 61.00 $\pm$1.00 & 22.00 $\pm$2.00 & 41.50 $\pm$1.50 \\",
            r"cow\_1 & base & 61.00 $\pm$1.00 \\",
            r"duck & novel & -- \\",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        assert!(text.contains(
            r"\caption{Mean IoU in \% on my\_farm, fold 0, protocol exact: 9 images of \texttt{val}"
        ));
        assert!(
            text.contains("training seed 3") && text.contains("2 draws of supports (seeds 0, 1)"),
            "{text}"
        );
        assert_eq!(text.matches("\\begin{table}").count(), 2);
    }

    #[test]
    fn one_draw_has_no_deviation() {
        let results = results(0, vec![row("capl", 1, &[[60.0, 20.0]])]);
        let text = results.markdown() + &results.latex();
        assert!(text.contains("one draw of supports (seed 0)"), "{text}");
        assert!(!text.contains('±') && !text.contains("\\pm"), "{text}");
    }
}
