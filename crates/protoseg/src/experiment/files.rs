//! The tables of an experiment as files: Markdown for people, LaTeX for papers, CSV and JSON for programs.

use std::fmt::Write;

use protoseg_data::{create_dir, write_atomic};

use super::{ExperimentError, ExperimentResults, FoldResult, Options, RowResult, Score, ShotResult};
use crate::{
    report::experiment_html,
    tables::{csv, latex, markdown},
    train::Task,
};

impl ExperimentResults {
    /// Writes all files into the experiment's folder.
    pub fn write(&self, options: &Options) -> Result<(), ExperimentError> {
        let folder = options.folder.results(&self.name);
        create_dir(&folder)?;
        let json = serde_json::to_string_pretty(self).expect("results are plain data");
        let files = [
            ("results.md", self.markdown()),
            ("results.tex", self.latex()),
            ("results.csv", self.csv()),
            ("results.json", json),
            ("report.html", experiment_html(self)),
        ];
        for (name, text) in files {
            write_atomic(&folder.join(name), text.as_bytes())?;
        }
        Ok(())
    }

    /// What a reader has to know before the numbers.
    pub fn headline(&self) -> String {
        let Self { title, data, test, .. } = self;
        let folds = self.folds.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let folds = if self.folds.len() == 1 { format!("fold {folds}") } else { format!("folds {folds}") };
        format!("{title}: {data}, {folds}, {test}")
    }

    /// What the numbers are, and what `±` is.
    pub fn about(&self) -> String {
        let what = match self.task {
            Task::GfsSeg => {
                let seeds = self.support_seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                format!(
                    "Numbers are base / novel / total mIoU in %, means over draws of supports (seeds {seeds}). ± is the \
                     population standard deviation of total over the draws"
                )
            }
            Task::FsSeg => {
                "Numbers are class mIoU in %. ± is the population standard deviation over the runs"
                    .to_string()
            }
        };
        let is_several = |fold: &FoldResult| fold.training_seeds.len() > 1;
        let training = match self.rows.iter().flat_map(|row| &row.folds).any(is_several) {
            true => {
                "; in brackets that over the training seeds. What a deviation is not over was averaged first"
            }
            false => "",
        };
        let paper = match self.rows.iter().any(|row| row.paper.is_some()) {
            true => ". Columns `paper` are published numbers, not ours",
            false => "",
        };
        format!("{what}{training}{paper}")
    }

    /// Whether a row has base mIoU before teaching.
    fn has_before(&self) -> bool {
        let of_row =
            |row: &RowResult| row.folds.iter().flat_map(|fold| &fold.shots).any(|shot| before(shot) != "-");
        self.rows.iter().any(of_row)
    }

    /// The data set of the published numbers, if there are any.
    fn paper_data(&self) -> Option<&str> {
        self.rows.iter().find_map(|row| row.paper.as_ref()).map(|paper| paper.data.as_str())
    }

    /// Titles of the columns of [`Self::mean_table`].
    pub fn mean_titles(&self) -> Vec<String> {
        let ours = self.shots.iter().map(|shots| format!("{shots}-shot"));
        let before = self.has_before().then(|| "before".to_string());
        let paper = self.paper_data();
        let theirs = self.shots.iter().filter_map(|shots| Some(format!("paper ({}), {shots}-shot", paper?)));
        ["method".to_string()].into_iter().chain(before).chain(ours).chain(theirs).collect()
    }

    /// Means over the folds as text, one line per row.
    pub fn mean_table(&self) -> Vec<Vec<String>> {
        let line = |row: &RowResult| {
            let before = self.has_before().then(|| row.mean.first().map_or("-".to_string(), before));
            let ours = self.shots.iter().map(|&shots| self.number(&row.mean, shots));
            let theirs = self.shots.iter().filter(|_| self.paper_data().is_some()).map(|shots| {
                let numbers = row.paper.as_ref().and_then(|paper| paper.shots.get(&shots.to_string()));
                numbers.map_or("-".to_string(), |numbers| joined(numbers))
            });
            [row.name.clone()].into_iter().chain(before).chain(ours).chain(theirs).collect()
        };
        self.rows.iter().map(line).collect()
    }

    /// Titles of the columns of [`Self::fold_table`].
    pub fn fold_titles(&self) -> Vec<String> {
        let ours = self.shots.iter().map(|shots| format!("{shots}-shot"));
        let before = self.has_before().then(|| "before".to_string());
        ["fold".to_string(), "method".to_string()].into_iter().chain(before).chain(ours).collect()
    }

    /// Every fold as text, one line per fold and row.
    pub fn fold_table(&self) -> Vec<Vec<String>> {
        let mut lines = Vec::new();
        for &fold in &self.folds {
            for row in &self.rows {
                let Some(own) = row.folds.iter().find(|own| own.fold == fold) else { continue };
                let before = self.has_before().then(|| own.shots.first().map_or("-".to_string(), before));
                let ours = self.shots.iter().map(|&shots| self.number(&own.shots, shots));
                let names = [fold.to_string(), row.name.clone()];
                lines.push(names.into_iter().chain(before).chain(ours).collect());
            }
        }
        lines
    }

    /// The shown scores at a number of shots with their deviation.
    fn number(&self, shots: &[ShotResult], wanted: usize) -> String {
        let Some(found) = shots.iter().find(|own| own.shots == wanted) else { return "-".to_string() };
        let numbers: Option<Vec<_>> = self.shown().iter().map(|name| found.scores.get(*name)).collect();
        let Some(numbers) = numbers else { return "-".to_string() };
        let mut text = joined(&numbers.iter().map(|number| number.mean).collect::<Vec<_>>());
        if let Some(last) = numbers.last() {
            last.over_draws.iter().for_each(|std| text += &format!(" ±{std:.2}"));
            last.over_training.iter().for_each(|std| text += &format!(" (±{std:.2})"));
        }
        text
    }

    /// Headline, tables, notes and the command as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}.\n\n{}.\n\n", self.headline(), self.about());
        let (mut titles, mut rows) = (self.mean_titles(), self.mean_table());
        titles.push("minutes".to_string());
        for (line, row) in rows.iter_mut().zip(&self.rows) {
            line.push(minutes(row));
        }
        text += &markdown::table(&titles, &rows);
        text += "\nMinutes are those of making one model, on the machine that did.\n";
        if self.folds.len() > 1 {
            text += "\nEvery fold:\n\n";
            text += &markdown::table(&self.fold_titles(), &self.fold_table());
        }
        for note in &self.notes {
            let _ = writeln!(text, "\nNote: {note}.");
        }
        let _ = writeln!(text, "\n`{}`", self.command);
        text
    }

    /// Tables for a paper. They need the package `booktabs`.
    pub fn latex(&self) -> String {
        let mut caption = format!("{}. {}.", self.headline(), self.about());
        for note in &self.notes {
            let _ = write!(caption, " Note: {note}.");
        }
        let label = format!("{}-{}", self.name, self.data);
        let mut text = format!("{}% {}\n", latex::HEAD, self.command.replace('\n', " "));
        text += &latex::table(&caption, &label, 1, &self.mean_titles(), &self.mean_table());
        if self.folds.len() > 1 {
            let caption = format!("{}: every fold.", self.headline());
            let label = format!("{label}-folds");
            text +=
                &format!("\n{}", latex::table(&caption, &label, 2, &self.fold_titles(), &self.fold_table()));
        }
        text
    }

    /// One line per row, fold, training seed, number of shots and draw, with the published means beside it.
    pub fn csv(&self) -> String {
        let names: &[&str] = match self.task {
            Task::GfsSeg => &["before", "base", "novel", "total", "mean", "harmonic_mean", "pixel_accuracy"],
            Task::FsSeg => &["class_miou", "fb_iou"],
        };
        let mut text = String::from("experiment,data,row,use,fold,training_seed,shots,support_seed");
        names.iter().for_each(|name| text += &format!(",{name}"));
        self.shown().iter().for_each(|name| text += &format!(",paper_{name}"));
        text.push_str(",paper_data\n");
        for row in &self.rows {
            let usage = csv::field(row.usage.as_deref().unwrap_or_default());
            for fold in &row.folds {
                for (training, Score { shots, seed, values, .. }) in &fold.scores {
                    let training = training.map_or_else(String::new, |seed| seed.to_string());
                    let (name, data) = (csv::field(&row.name), csv::field(&self.data));
                    let of = fold.fold;
                    let _ =
                        write!(text, "{},{data},{name},{usage},{of},{training},{shots},{seed}", self.name);
                    names.iter().for_each(|name| text += &csv::number(values.get(*name).copied()));
                    let paper = row.paper.as_ref();
                    let published = paper.and_then(|paper| paper.shots.get(&shots.to_string()));
                    let published = |place: usize| published.map(|numbers| numbers[place]);
                    (0..self.shown().len()).for_each(|place| text += &csv::number(published(place)));
                    let _ = writeln!(text, ",{}", paper.map_or("", |paper| paper.data.as_str()));
                }
            }
        }
        text
    }
}

/// Minutes of making one of a row's models.
pub(crate) fn minutes(row: &RowResult) -> String {
    match row.minutes {
        None => "-".to_string(),
        Some(minutes) if minutes < 10.0 => format!("{minutes:.1}"),
        Some(minutes) => format!("{minutes:.0}"),
    }
}

/// Base mIoU before teaching.
fn before(shot: &ShotResult) -> String {
    shot.scores.get("before").map_or("-".to_string(), |number| format!("{:.2}", number.mean))
}

fn joined(numbers: &[f64]) -> String {
    numbers.iter().map(|number| format!("{number:.2}")).collect::<Vec<_>>().join(" / ")
}
