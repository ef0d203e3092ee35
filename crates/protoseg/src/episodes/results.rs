//! The results of episodes: one set of numbers as JSON (`protoseg.episode-results/1`), CSV and Markdown.

use std::{fmt::Write, time::Duration};

use protoseg_core::{
    Confusion, Episode, EpisodeCounts, EpisodeScores, EpisodeStyle, Fit, NamedEpisode, Spread, count,
};
use protoseg_data::peak_memory;
use serde::Serialize;

use super::EpisodeTest;
use crate::tables::{
    csv::{field, number},
    markdown,
};

/// All that is known after episodes were answered. Serialise it to get `results.json`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct EpisodeResults {
    schema: &'static str,
    /// What the caller calls the model, such as its path.
    pub model: String,
    /// [`Model::fingerprint`](crate::Model::fingerprint), with the size and fit of the test.
    pub fingerprint: String,
    /// The method that answered.
    pub method: String,
    architecture: String,
    /// Name of the data set.
    pub data: String,
    /// The split that queries and supports came from; empty if a list does not say.
    pub split: String,
    /// The fold whose novel classes were asked for.
    pub fold: usize,
    /// How episodes were drawn and scored.
    pub style: EpisodeStyle,
    /// Side of the network's canvas.
    pub size: usize,
    fit: Fit,
    /// The fewest pixels of its class that an image of an episode holds, where it is known.
    pub min_pixels: Option<u64>,
    /// Number of episodes per run.
    pub episodes: usize,
    /// One run per seed; none for a run of a list that does not say.
    pub seeds: Vec<Option<u64>>,
    /// The fold's novel classes, in the order of `iou`.
    pub classes: Vec<String>,
    /// One per number of shots.
    pub rows: Vec<EpisodeRow>,
    /// What makes the numbers say less than they seem to.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// Of this process, in bytes, where the system tells.
    pub peak_memory: Option<u64>,
    #[serde(skip)]
    answered: Vec<AnsweredEpisode>,
}

/// The scores at a number of shots over all runs, in percent.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct EpisodeRow {
    /// Supports per episode.
    pub shots: usize,
    /// Mean over the classes of their IoU.
    pub class_miou: Spread,
    /// Mean of the IoU of foreground and background.
    pub fb_iou: Spread,
    /// IoU of every class; none for a class without an episode.
    pub iou: Vec<Option<Spread>>,
    runs: Vec<RunScores>,
}

#[derive(Clone, Debug, Serialize)]
struct RunScores {
    seed: Option<u64>,
    #[serde(flatten)]
    scores: EpisodeScores,
}

/// What became of one episode.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AnsweredEpisode {
    /// The run.
    pub run: usize,
    /// Its number in the run.
    pub episode: usize,
    /// IoU of the class at every number of shots, in percent; none if it is neither there nor found.
    pub iou: Vec<Option<f64>>,
    named: NamedEpisode,
}

/// The results of a test. `counts` are those of all episodes of all runs, in order, at every number of shots.
pub(super) fn collect(
    test: &EpisodeTest<'_>,
    name: &str,
    counts: &[Vec<Confusion>],
    elapsed: Duration,
) -> EpisodeResults {
    let (manifest, list) = (test.model().manifest(), test.list());
    let dataset = test.benchmark().dataset.as_ref();
    let novel = test.fold().novel();
    let seeds: Vec<Option<u64>> = list.runs.iter().map(|run| run.seed).collect();
    let mut of_runs = Vec::new();
    let mut rest = counts;
    for run in test.runs() {
        let (own, after) = rest.split_at(run.len());
        of_runs.push(own);
        rest = after;
    }
    let score = |run: usize, at: usize| -> EpisodeScores {
        let mut sum = EpisodeCounts::new(novel.len());
        for (episode, counts) in test.runs()[run].iter().zip(of_runs[run]) {
            let class = novel.binary_search(&episode.class).expect("episodes are of novel classes");
            sum.add_counts(class, &counts[at]);
        }
        sum.scores()
    };
    let rows = test.shots().iter().enumerate().map(|(at, &shots)| {
        let runs = (0..seeds.len()).map(|run| RunScores { seed: seeds[run], scores: score(run, at) });
        EpisodeRow::new(shots, runs.collect(), novel.len())
    });
    let rows: Vec<EpisodeRow> = rows.collect();
    let answered = of_runs.iter().enumerate().flat_map(|(run, counts)| {
        let named = list.runs[run].episodes.iter().cloned();
        named.zip(*counts).enumerate().map(move |(episode, (named, counts))| AnsweredEpisode {
            run,
            episode,
            iou: counts.iter().map(|counts| counts.iou(1).map(|iou| 100.0 * iou)).collect(),
            named,
        })
    });
    let class_name = |&id: &_| dataset.classes().name(id).unwrap_or_default().to_string();
    let mut results = EpisodeResults {
        schema: "protoseg.episode-results/1",
        model: name.to_string(),
        fingerprint: test.model().fingerprint(),
        method: manifest.method.name(),
        architecture: manifest.network.describe(),
        data: dataset.name().to_string(),
        split: list.split.clone(),
        fold: test.fold().index,
        style: test.style(),
        size: manifest.preprocess.size,
        fit: manifest.preprocess.fit,
        min_pixels: list.min_pixels,
        episodes: test.runs().iter().map(Vec::len).max().unwrap_or(0),
        seeds,
        classes: novel.iter().map(class_name).collect(),
        rows,
        notes: Vec::new(),
        seconds: elapsed.as_secs_f64(),
        peak_memory: peak_memory(),
        answered: answered.collect(),
    };
    results.notes = notes(test, &results);
    results
}

fn notes(test: &EpisodeTest<'_>, results: &EpisodeResults) -> Vec<String> {
    let mut notes = Vec::new();
    let published = results.style.n_episodes(&results.data);
    if results.episodes < published {
        notes.push(format!(
            "{} per run; results of style `{}` on `{}` are reported with {published}",
            count(results.episodes, "episode"),
            results.style,
            results.data
        ));
    }
    let quoted = |names: Vec<&String>| {
        let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        quoted.join(", ")
    };
    let is_absent = |place: usize| results.rows.iter().all(|row| row.iou[place].is_none());
    let absent: Vec<&String> =
        (0..).zip(&results.classes).filter(|(place, _)| is_absent(*place)).map(|(_, class)| class).collect();
    if !absent.is_empty() {
        notes.push(format!("no episode asked for {}; the mean leaves them out", quoted(absent)));
    }
    let known = test.model().classes();
    let base = &known.rows()[..known.n_base()];
    let seen: Vec<&String> =
        results.classes.iter().filter(|class| base.iter().any(|known| known.name == **class)).collect();
    if !seen.is_empty() {
        notes.push(format!("the model was trained on {}: they are not novel to it", quoted(seen)));
    }
    if let Some(chosen) = &test.model().manifest().training.selected {
        notes.push(format!("the model's weights were chosen by: {chosen}"));
    }
    notes
}

impl EpisodeRow {
    fn new(shots: usize, runs: Vec<RunScores>, n_classes: usize) -> Self {
        let over =
            |value: fn(&EpisodeScores) -> f64| Spread::of_sample(runs.iter().map(|run| value(&run.scores)));
        let iou = (0..n_classes).map(|class| {
            let values: Vec<f64> = runs.iter().filter_map(|run| run.scores.iou[class]).collect();
            (!values.is_empty()).then(|| Spread::of_sample(values))
        });
        let iou = iou.collect();
        Self { shots, class_miou: over(|s| s.class_miou), fb_iou: over(|s| s.fb_iou), iou, runs }
    }

    /// The scores of each run, with its seed where it is known.
    pub fn runs(&self) -> impl Iterator<Item = (Option<u64>, &EpisodeScores)> {
        self.runs.iter().map(|run| (run.seed, &run.scores))
    }
}

impl EpisodeResults {
    /// Titles of the columns of [`Self::table`].
    pub const TITLES: [&'static str; 3] = ["shots", "class mIoU", "FB-IoU"];

    /// What a reader has to know before the numbers.
    pub fn headline(&self) -> String {
        let Self { method, data, fold, style, size, episodes, .. } = self;
        let runs = match self.seeds.len() {
            1 => String::new(),
            runs => format!(", mean and deviation of {runs} runs"),
        };
        let split = if self.split.is_empty() { String::new() } else { format!(" of `{}`", self.split) };
        let scored = match self.fit {
            Fit::Letterbox | Fit::Tight => format!("at {size}, scored at the image's size"),
            Fit::Squash => format!("squashed to {size} x {size} and scored there"),
        };
        format!(
            "{method} on {data} fold {fold}, style {style}: {}{split} {scored}{runs}; IoU in %",
            count(*episodes, "episode")
        )
    }

    /// The two scores as text, one line per number of shots, under [`Self::TITLES`].
    pub fn table(&self) -> Vec<Vec<String>> {
        let line = |row: &EpisodeRow| {
            vec![row.shots.to_string(), self.number(row.class_miou), self.number(row.fb_iou)]
        };
        self.rows.iter().map(line).collect()
    }

    /// Titles of the columns of [`Self::class_table`].
    pub fn class_titles(&self) -> Vec<String> {
        let shots = self.rows.iter().map(|row| format!("{}-shot IoU", row.shots));
        ["class", "episodes"].map(str::to_string).into_iter().chain(shots).collect()
    }

    /// Every class as text: its episodes in all runs, and its IoU at every number of shots.
    pub fn class_table(&self) -> Vec<Vec<String>> {
        let line = |(place, class): (usize, &String)| {
            let runs = self.rows.first().map_or(&[][..], |row| &row.runs);
            let episodes: u64 = runs.iter().map(|run| run.scores.episodes[place]).sum();
            let iou = |row: &EpisodeRow| row.iou[place].map_or("-".to_string(), |iou| self.number(iou));
            let names = [class.clone(), episodes.to_string()];
            names.into_iter().chain(self.rows.iter().map(iou)).collect()
        };
        self.classes.iter().enumerate().map(line).collect()
    }

    /// Headline, tables and notes as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        text += &markdown::table(&Self::TITLES, &self.table());
        text.push('\n');
        text += &markdown::table(&self.class_titles(), &self.class_table());
        for note in &self.notes {
            let _ = writeln!(text, "\nNote: {note}.");
        }
        text
    }

    /// One line per number of shots and run, with the IoU of every class.
    pub fn csv(&self) -> String {
        let mut text = String::from("method,data,fold,style,size,shots,run,seed,episodes,class_miou,fb_iou");
        self.classes.iter().for_each(|class| text += &format!(",{}", field(class)));
        text.push('\n');
        for row in &self.rows {
            for (place, RunScores { seed, scores }) in row.runs.iter().enumerate() {
                let Self { method, data, fold, style, size, .. } = self;
                let seed = seed.map_or(String::new(), |seed| seed.to_string());
                let episodes: u64 = scores.episodes.iter().sum();
                let _ = write!(
                    text,
                    "{method},{},{fold},{style},{size},{},{place},{seed},{episodes},{:.4},{:.4}",
                    field(data),
                    row.shots,
                    scores.class_miou,
                    scores.fb_iou
                );
                scores.iou.iter().for_each(|iou| text += &number(*iou));
                text.push('\n');
            }
        }
        text
    }

    /// One line per episode: what it asked and how well it was answered.
    pub fn episodes_csv(&self) -> String {
        let mut text = String::from("run,episode,class,query,supports");
        self.rows.iter().for_each(|row| text += &format!(",iou_{}_shot", row.shots));
        text.push('\n');
        for AnsweredEpisode { run, episode, iou, named } in &self.answered {
            let NamedEpisode { class, query, supports } = named;
            let supports = field(&supports.join(" "));
            let _ = write!(text, "{run},{episode},{},{},{supports}", field(class), field(query));
            iou.iter().for_each(|iou| text += &number(*iou));
            text.push('\n');
        }
        text
    }

    /// Every episode of every run, in order.
    pub fn answered(&self) -> &[AnsweredEpisode] {
        &self.answered
    }

    /// Mean, and deviation where there are several runs.
    fn number(&self, spread: Spread) -> String {
        match self.seeds.len() {
            0 | 1 => format!("{:.2}", spread.mean),
            _ => format!("{:.2} ±{:.2}", spread.mean, spread.std),
        }
    }
}

impl AnsweredEpisode {
    /// The class that was asked for.
    pub fn class(&self) -> &str {
        &self.named.class
    }

    /// The query's name.
    pub fn query(&self) -> &str {
        &self.named.query
    }

    /// The episode itself.
    pub fn of<'a>(&self, test: &'a EpisodeTest<'_>) -> &'a Episode {
        &test.runs()[self.run][self.episode]
    }
}
