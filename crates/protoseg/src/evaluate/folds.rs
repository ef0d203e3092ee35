//! The mean over folds: one model per fold of a data set, all evaluated under the same protocol, as papers report it.

use std::fmt::Write;

use protoseg_core::{Protocol, Spread, count};
use serde::Serialize;

use super::{
    ResultRow, Results,
    results::{BASE_BEFORE, PAPER_TITLES, variant_name},
};
use crate::tables::{latex, markdown};

/// The mean of the results of several folds. Serialise it to get `folds.json` (`protoseg.folds/1`).
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FoldMean {
    schema: &'static str,
    /// Name of the data set.
    pub data: String,
    /// How pixels were counted.
    pub protocol: Protocol,
    folds: Vec<EvaluatedFold>,
    /// One per variant and number of shots that all folds have.
    pub rows: Vec<FoldRow>,
    /// What makes the numbers say less than they seem to.
    pub notes: Vec<String>,
}

/// What was evaluated on one fold.
#[derive(Clone, Debug, Serialize)]
struct EvaluatedFold {
    fold: usize,
    model: String,
    fingerprint: String,
    architecture: String,
    trained_method: String,
    training_seed: Option<u64>,
    images: usize,
    images_in_split: usize,
    seeds: Vec<u64>,
    #[serde(skip)]
    about: String,
}

/// The scores of a variant at a number of shots in percent: mean and population standard deviation over the folds. The
/// score of a fold is its mean over the draws of supports.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FoldRow {
    /// Which parts of the method act.
    pub variant: &'static str,
    /// Which options they act by.
    pub preset: String,
    /// Number of supports per class.
    pub shots: usize,
    /// mIoU of the base classes before any class was registered; none for a system for episodes.
    pub base_before: Option<Spread>,
    /// mIoU of the base classes.
    pub base: Spread,
    /// mIoU of the novel classes.
    pub novel: Spread,
    /// mIoU of all classes.
    pub total: Spread,
    /// Mean of base and novel mIoU.
    pub mean: Spread,
    /// Harmonic mean of base and novel mIoU, computed in each fold.
    pub harmonic_mean: Spread,
}

impl FoldMean {
    /// Titles of the columns of [`Self::table`].
    pub const TITLES: [&'static str; 9] =
        ["variant", "preset", "shots", "before", "base", "novel", "total", "mean", "harmonic"];

    /// How the mean is made, and what `±` is.
    pub const ABOUT: &'static str = "The score of a fold is its mean over the draws, and every fold counts the same; \
                                     ± is the population standard deviation over the folds";

    /// The mean of these results. There is none unless they are of two or more folds of one data set, each fold once,
    /// under one protocol, and share a variant and a number of shots.
    pub fn of(results: &[Results]) -> Option<Self> {
        let first = results.first()?;
        let mut folds: Vec<usize> = results.iter().map(|own| own.fold).collect();
        folds.sort_unstable();
        folds.dedup();
        let is_comparable = |own: &Results| own.data == first.data && own.protocol == first.protocol;
        if results.len() < 2 || folds.len() < results.len() || !results.iter().all(is_comparable) {
            return None;
        }
        let rows: Vec<FoldRow> = first.rows.iter().filter_map(|row| FoldRow::of(row, results)).collect();
        if rows.is_empty() {
            return None;
        }
        Some(Self {
            schema: "protoseg.folds/1",
            data: first.data.clone(),
            protocol: first.protocol,
            folds: results.iter().map(EvaluatedFold::of).collect(),
            rows,
            notes: notes(results),
        })
    }

    /// The folds, in the order of the results.
    pub fn folds(&self) -> Vec<usize> {
        self.folds.iter().map(|own| own.fold).collect()
    }

    /// What a reader has to know before the numbers.
    pub fn headline(&self) -> String {
        let draws: Vec<usize> = self.folds.iter().map(|own| own.seeds.len()).collect();
        let draws = match &draws[..] {
            [first, others @ ..] if others.iter().all(|other| other == first) => count(first, "draw"),
            _ => "several draws".to_string(),
        };
        format!(
            "{}, mean over folds {}, protocol {}: {draws} of supports per fold; mIoU in %, `before` is base before \
             teaching",
            self.data,
            joined(&self.folds()),
            self.protocol
        )
    }

    /// The networks and their training in words: one sentence if it holds for all folds, otherwise one per fold.
    pub fn about_models(&self) -> Vec<String> {
        let is_same = self.folds.windows(2).all(|pair| pair[0].about == pair[1].about);
        match &self.folds[..] {
            [first, ..] if is_same => vec![format!("Model: {}", first.about)],
            folds => folds.iter().map(|own| format!("Model of fold {}: {}", own.fold, own.about)).collect(),
        }
    }

    /// The numbers as text, one line per row, under [`Self::TITLES`].
    pub fn table(&self) -> Vec<Vec<String>> {
        let line = |row: &FoldRow| {
            let names = [row.variant.to_string(), row.preset.clone(), row.shots.to_string(), row.before()];
            let numbers = [row.base, row.novel, row.total, row.mean, row.harmonic_mean];
            names.into_iter().chain(numbers.map(number)).collect()
        };
        self.rows.iter().map(line).collect()
    }

    /// Headline, models, table and notes as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}.\n\n", self.headline());
        for sentence in self.about_models() {
            let _ = writeln!(text, "- {sentence}.");
        }
        let _ = writeln!(text, "\n{}.\n", Self::ABOUT);
        text += &markdown::table(&Self::TITLES, &self.table());
        for note in &self.notes {
            let _ = writeln!(text, "\nNote: {note}.");
        }
        text
    }

    /// A table for a paper. It needs the package `booktabs`.
    pub fn latex(&self) -> String {
        let mut caption = format!(
            "Mean IoU in % on {}, mean over folds {}, protocol {}.",
            self.data,
            joined(&self.folds()),
            self.protocol
        );
        for sentence in self.about_models() {
            let _ = write!(caption, " {sentence}.");
        }
        let _ = write!(caption, " {}. {BASE_BEFORE}.", Self::ABOUT);
        for note in &self.notes {
            let _ = write!(caption, " Note: {note}.");
        }
        let line = |row: &FoldRow| {
            let scores = [row.base, row.novel, row.total].map(number);
            let name = variant_name(row.variant, &row.preset);
            [name, row.shots.to_string(), row.before()].into_iter().chain(scores).collect()
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(line).collect();
        let label = format!("{}-folds", self.data);
        format!("{}{}", latex::HEAD, latex::table(&caption, &label, 1, &PAPER_TITLES, &rows))
    }
}

impl EvaluatedFold {
    fn of(results: &Results) -> Self {
        Self {
            fold: results.fold,
            model: results.model.clone(),
            fingerprint: results.fingerprint.clone(),
            architecture: results.architecture.clone(),
            trained_method: results.trained_method.clone(),
            training_seed: results.training_seed,
            images: results.images,
            images_in_split: results.images_in_split,
            seeds: results.seeds.clone(),
            about: results.about_model(),
        }
    }
}

impl FoldRow {
    /// The mean of what all results have like `row`; none if one of them has no such row.
    fn of(row: &ResultRow, results: &[Results]) -> Option<Self> {
        let is_same = |other: &ResultRow| {
            other.variant == row.variant && other.preset == row.preset && other.shots == row.shots
        };
        let rows: Option<Vec<&ResultRow>> =
            results.iter().map(|own| own.rows.iter().find(|other| is_same(other))).collect();
        let rows = rows?;
        let over = |score: fn(&ResultRow) -> f64| Spread::of(rows.iter().map(|row| score(row)));
        let before: Option<Vec<f64>> = rows.iter().map(|row| row.base_before).collect();
        Some(Self {
            variant: row.variant,
            preset: row.preset.clone(),
            shots: row.shots,
            base_before: before.map(Spread::of),
            base: over(|row| row.base.mean),
            novel: over(|row| row.novel.mean),
            total: over(|row| row.total.mean),
            mean: over(|row| row.mean.mean),
            harmonic_mean: over(|row| row.harmonic_mean.mean),
        })
    }

    fn before(&self) -> String {
        self.base_before.map_or("-".to_string(), number)
    }
}

/// The notes of all folds, each once. A note that is not of all folds says which ones it is of.
fn notes(results: &[Results]) -> Vec<String> {
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for own in results {
        for note in own.notes() {
            match found.iter_mut().find(|(known, _)| *known == note) {
                Some((_, folds)) => folds.push(own.fold),
                None => found.push((note, vec![own.fold])),
            }
        }
    }
    let of_all = |folds: &[usize]| folds.len() == results.len();
    let mut notes: Vec<String> = found
        .into_iter()
        .map(|(note, folds)| if of_all(&folds) { note } else { format!("fold {}: {note}", joined(&folds)) })
        .collect();
    let kind = |own: &Results| (own.architecture.clone(), own.trained_method.clone(), own.size);
    if results.windows(2).any(|pair| kind(&pair[0]) != kind(&pair[1])) {
        notes.push("the models of the folds differ in architecture, method or size".to_string());
    }
    notes
}

fn number(spread: Spread) -> String {
    format!("{:.2} ±{:.2}", spread.mean, spread.std)
}

fn joined(folds: &[usize]) -> String {
    folds.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use protoseg_testing::assert_close;

    use super::*;
    use crate::evaluate::results::by_hand::{results, row};

    /// Two folds: base 60 and 80, novel 20 and 40; the first fold from two draws.
    fn two() -> Vec<Results> {
        let first = row("capl", 5, &[[59.0, 19.0], [61.0, 21.0]]);
        let second = row("capl", 5, &[[80.0, 40.0], [80.0, 40.0]]);
        vec![results(0, vec![row("sce", 1, &[[1.0, 1.0]; 2]), first]), results(1, vec![second])]
    }

    #[test]
    fn folds_count_the_same_and_only_common_rows_remain() {
        let mean = FoldMean::of(&two()).unwrap();
        assert_eq!(mean.folds(), [0, 1]);
        let [row] = &mean.rows[..] else { panic!("{:?}", mean.rows) };
        assert_eq!((row.variant, row.preset.as_str(), row.shots), ("capl", "balanced", 5));
        assert_eq!(row.base, Spread { mean: 70.0, std: 10.0 });
        assert_eq!(row.novel, Spread { mean: 30.0, std: 10.0 });
        assert_eq!(row.total, Spread { mean: 50.0, std: 10.0 });
        assert_eq!(row.base_before, Some(Spread { mean: 70.0, std: 0.0 }));
        // 28.7436 and 31.2439 in the draws of the first fold, 53.3333 in the second.
        assert_close("harmonic mean", &[row.harmonic_mean.mean as f32], &[41.6635], 1e-3);
    }

    #[test]
    fn there_is_no_mean_of_what_cannot_be_compared() {
        let one = |fold: usize| results(fold, vec![row("capl", 5, &[[60.0, 20.0]])]);
        assert!(FoldMean::of(&[]).is_none() && FoldMean::of(&[one(0)]).is_none());
        assert!(FoldMean::of(&[one(0), one(0)]).is_none(), "a fold twice");
        let mut other = one(1);
        other.data = "another".to_string();
        assert!(FoldMean::of(&[one(0), other]).is_none(), "another data set");
        let mut other = one(1);
        other.protocol = Protocol::B;
        assert!(FoldMean::of(&[one(0), other]).is_none(), "another protocol");
        let other = results(1, vec![row("capl", 1, &[[60.0, 20.0]])]);
        assert!(FoldMean::of(&[one(0), other]).is_none(), "no row in common");
        assert!(FoldMean::of(&[one(0), one(1)]).is_some());
    }

    #[test]
    fn a_mean_says_what_it_is_of() {
        let mut two = two();
        let same = FoldMean::of(&two).unwrap();
        assert_eq!(same.about_models(), ["Model: PSPNet, ResNet-10, method `capl`, training seed 3"]);
        assert!(same.notes.is_empty(), "{:?}", same.notes);
        two[1].training_seed = None;
        two[1].architecture = "FCN, ResNet-18".to_string();
        two[1].images = 2;
        let mean = FoldMean::of(&two).unwrap();
        let markdown = mean.markdown();
        for part in [
            "my_farm, mean over folds 0, 1, protocol exact: 2 draws of supports per fold",
            "- Model of fold 1: FCN, ResNet-18, method `capl`, training seed unknown.\n",
            "± is the population standard deviation over the folds",
            "| capl | balanced | 5 | 70.00 ±0.00 | 70.00 ±10.00 | 30.00 ±10.00 | 50.00 ±10.00 |",
            "Note: fold 1: only 2 of 9 images were evaluated",
            "Note: the models of the folds differ",
        ] {
            assert!(markdown.contains(part), "{part}\nis not in\n{markdown}");
        }
        let latex = mean.latex();
        for part in [
            r"\caption{Mean IoU in \% on my\_farm, mean over folds 0, 1, protocol exact.",
            r"capl (balanced) & 5 & 70.00 $\pm$0.00 & 70.00 $\pm$10.00 & 30.00 $\pm$10.00 & 50.00 $\pm$10.00 \\",
            r"\label{tab:my-farm-folds}",
        ] {
            assert!(latex.contains(part), "{part}\nis not in\n{latex}");
        }
        let json = serde_json::to_value(&mean).unwrap();
        assert_eq!(json["schema"], "protoseg.folds/1");
        assert_eq!(json["folds"][0]["training_seed"], 3);
        assert_eq!(json["rows"][0]["novel"]["mean"], 30.0);
    }
}
