//! Episodes by name: a list that is saved, replayed exactly, and read by others.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Episode, EpisodeDraw, EpisodeError, EpisodeStyle};
use crate::{
    ClassId, ClassTable, Fold,
    suggest::{SAMPLES, suggest},
};

/// Every episode of every run. Samples are named as the data set names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeList {
    /// [`EpisodeList::SCHEMA`].
    pub schema: String,
    /// Name of the data set; empty in a list made by hand.
    #[serde(default)]
    pub dataset: String,
    /// The split that all images come from; empty in a list made by hand.
    #[serde(default)]
    pub split: String,
    #[serde(default)]
    pub fold: usize,
    /// How the episodes were drawn, which is also how they are scored.
    #[serde(default)]
    pub style: EpisodeStyle,
    /// Supports per episode.
    pub shots: usize,
    /// The fewest pixels of its class that an image holds; absent in a list made by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pixels: Option<u64>,
    pub runs: Vec<EpisodeRun>,
}

/// The episodes of one run. Scores are summed over a run; mean and deviation are those over the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeRun {
    /// The seed of the draw; absent in a list made by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    pub episodes: Vec<NamedEpisode>,
}

/// An [`Episode`] by names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedEpisode {
    pub class: String,
    pub query: String,
    pub supports: Vec<String>,
}

impl EpisodeList {
    /// What a list says it is.
    pub const SCHEMA: &str = "protoseg.episodes/1";

    /// A list without runs of a data set's split.
    pub fn new(dataset: &str, split: &str, fold: &Fold, draw: &EpisodeDraw) -> Self {
        Self {
            schema: Self::SCHEMA.to_string(),
            dataset: dataset.to_string(),
            split: split.to_string(),
            fold: fold.index,
            style: draw.style,
            shots: draw.n_shots,
            min_pixels: Some(draw.min_pixels),
            runs: Vec::new(),
        }
    }

    /// Adds a drawn run: `names[i]` is the name of the image that the episodes call `i`.
    pub fn push<S: AsRef<str>>(&mut self, table: &ClassTable, seed: u64, episodes: &[Episode], names: &[S]) {
        let name = |image: &usize| names[*image].as_ref().to_string();
        let named = episodes.iter().map(|episode| NamedEpisode {
            class: class_name(table, episode.class),
            query: name(&episode.query),
            supports: episode.supports.iter().map(name).collect(),
        });
        self.runs.push(EpisodeRun { seed: Some(seed), episodes: named.collect() });
    }

    /// The episodes of each run as places in `names`, checked against the fold. Every episode must have `n_shots`
    /// supports or more, of which the first are taken.
    pub fn resolve<S: AsRef<str>>(
        &self,
        table: &ClassTable,
        fold: &Fold,
        names: &[S],
        n_shots: usize,
    ) -> Result<Vec<Vec<Episode>>, EpisodeError> {
        if self.schema != Self::SCHEMA {
            return Err(EpisodeError::Schema { got: self.schema.clone(), expected: Self::SCHEMA });
        }
        if n_shots == 0 {
            return Err(EpisodeError::Shots { got: 0 });
        }
        if self.runs.is_empty() {
            return Err(EpisodeError::Empty { run: 0 });
        }
        let classes: HashMap<String, ClassId> =
            fold.novel().iter().map(|&id| (class_name(table, id), id)).collect();
        let places: HashMap<&str, usize> =
            names.iter().enumerate().map(|(place, name)| (name.as_ref(), place)).collect();
        let resolve = |run: usize, episode: usize, named: &NamedEpisode| -> Result<Episode, EpisodeError> {
            let NamedEpisode { class, query, supports } = named;
            let id = classes.get(class).copied().ok_or_else(|| {
                let novel: Vec<String> = fold.novel().iter().map(|&id| class_name(table, id)).collect();
                let suggestion = suggest(class, &novel, "the novel classes");
                EpisodeError::NotNovel { run, episode, class: class.clone(), fold: fold.index, suggestion }
            })?;
            let find = |sample: &String, role: &'static str| {
                places.get(sample.as_str()).copied().ok_or_else(|| EpisodeError::UnknownSample {
                    run,
                    episode,
                    role,
                    sample: sample.clone(),
                    suggestion: suggest(sample, names, SAMPLES),
                })
            };
            if supports.len() < n_shots {
                return Err(EpisodeError::TooFewSupports {
                    run,
                    episode,
                    got: supports.len(),
                    needed: n_shots,
                });
            }
            let supports = &supports[..n_shots];
            if supports.contains(query) {
                return Err(EpisodeError::QueryIsSupport { run, episode, sample: query.clone() });
            }
            let query = find(query, "query")?;
            let supports = supports.iter().map(|sample| find(sample, "support")).collect::<Result<_, _>>()?;
            Ok(Episode { class: id, query, supports })
        };
        let each_run = self.runs.iter().enumerate().map(|(run, EpisodeRun { episodes, .. })| {
            if episodes.is_empty() {
                return Err(EpisodeError::Empty { run });
            }
            episodes.iter().enumerate().map(|(episode, named)| resolve(run, episode, named)).collect()
        });
        each_run.collect()
    }
}

/// The name of the class; its id if it has no name.
fn class_name(table: &ClassTable, id: ClassId) -> String {
    table.name(id).map_or_else(|| id.to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (ClassTable, Fold) {
        let table = ClassTable::from_names(&["background", "cow", "duck", "boat"], &[255]).unwrap();
        let fold = Fold::new(&table, 1, &[ClassId(2), ClassId(3)]).unwrap();
        (table, fold)
    }

    const NAMES: [&str; 3] = ["images/a.jpg", "images/b.jpg", "images/c.jpg"];

    fn by_hand(class: &str, query: &str, supports: &[&str]) -> EpisodeList {
        let episode = NamedEpisode {
            class: class.to_string(),
            query: query.to_string(),
            supports: supports.iter().map(|name| name.to_string()).collect(),
        };
        EpisodeList {
            schema: EpisodeList::SCHEMA.to_string(),
            dataset: String::new(),
            split: String::new(),
            fold: 1,
            style: EpisodeStyle::Panet,
            shots: supports.len(),
            min_pixels: None,
            runs: vec![EpisodeRun { seed: None, episodes: vec![episode] }],
        }
    }

    #[test]
    fn a_drawn_list_replays_and_fewer_shots_are_its_beginning() {
        let (table, fold) = world();
        let draw = EpisodeDraw {
            style: EpisodeStyle::Panet,
            n_shots: 2,
            n_episodes: 1,
            seed: 1234,
            min_pixels: 9,
            draws_queries: true,
        };
        let episodes = [
            Episode { class: ClassId(3), query: 2, supports: vec![0, 1] },
            Episode { class: ClassId(2), query: 0, supports: vec![1, 2] },
        ];
        let mut list = EpisodeList::new("ponds", "val", &fold, &draw);
        list.push(&table, 1234, &episodes, &NAMES);
        assert_eq!(list.runs[0].episodes[0].class, "boat");
        assert_eq!(list.resolve(&table, &fold, &NAMES, 2), Ok(vec![episodes.to_vec()]));
        let one = list.resolve(&table, &fold, &NAMES, 1).unwrap();
        assert_eq!(one[0][1].supports, [1]);
        let more = list.resolve(&table, &fold, &NAMES, 3).unwrap_err();
        assert_eq!(more, EpisodeError::TooFewSupports { run: 0, episode: 0, got: 2, needed: 3 });
    }

    #[test]
    fn what_a_list_names_must_be_there() {
        let (table, fold) = world();
        let refuse = |list: EpisodeList| list.resolve(&table, &fold, &NAMES, 1).unwrap_err().to_string();
        let error = refuse(by_hand("ducks", NAMES[0], &[NAMES[1]]));
        assert_eq!(
            error,
            "episode 0 of run 0: class `ducks` is not novel in fold `1`\nhint: did you mean `duck`?"
        );
        let error = refuse(by_hand("cow", NAMES[0], &[NAMES[1]]));
        assert!(error.ends_with("hint: the novel classes are `duck`, `boat`"), "{error}");
        let error = refuse(by_hand("duck", "image/b.jpg", &[NAMES[0]]));
        assert!(error.contains("query `image/b.jpg` is not an image"), "{error}");
        assert!(error.ends_with("hint: did you mean `images/b.jpg`?"), "{error}");
        let error = refuse(by_hand("duck", NAMES[0], &["photo.png"]));
        assert!(error.contains("support `photo.png`"), "{error}");
        assert!(error.ends_with("hint: samples are named like `images/a.jpg`"), "{error}");
        assert!(refuse(by_hand("duck", NAMES[0], &[NAMES[0]])).contains("both the query and a support"));
        let other =
            EpisodeList { schema: "protoseg.eval/1".into(), ..by_hand("duck", NAMES[0], &[NAMES[1]]) };
        assert!(refuse(other).contains("schema `protoseg.eval/1`"));
        let mut empty = by_hand("duck", NAMES[0], &[NAMES[1]]);
        empty.runs[0].episodes.clear();
        assert_eq!(empty.resolve(&table, &fold, &NAMES, 1), Err(EpisodeError::Empty { run: 0 }));
    }
}
