//! Episodes of a split: drawn from its counts, saved as a list, and replayed.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use protoseg_core::{Episode, EpisodeDraw, EpisodeError, EpisodeList, Fold, ImageStats, draw_episodes};
use rayon::prelude::*;

use crate::{DataError, Dataset, SplitStats, files};

/// Draws one run per seed from the images of a split. Returns the list to save, and the episodes of every run, whose
/// images are indices into [`Dataset::samples`]. The seed of `draw` is not used.
pub fn draw_runs(
    dataset: &dyn Dataset,
    fold: &Fold,
    stats: &SplitStats,
    draw: EpisodeDraw,
    seeds: &[u64],
) -> Result<(EpisodeList, Vec<Vec<Episode>>), DataError> {
    let names: Vec<&str> =
        stats.indices.iter().map(|&index| dataset.samples()[index].name.as_str()).collect();
    let mut list = EpisodeList::new(dataset.name(), &stats.split, fold, &draw);
    let mut runs = Vec::new();
    for &seed in seeds {
        let episodes = draw_episodes(dataset.classes(), fold, &stats.stats, EpisodeDraw { seed, ..draw })?;
        list.push(dataset.classes(), seed, &episodes, &names);
        runs.push(episodes.into_iter().map(|episode| on_samples(episode, &stats.indices)).collect());
    }
    Ok((list, runs))
}

/// The episode with samples of the data set in place of places in a split.
fn on_samples(episode: Episode, indices: &[usize]) -> Episode {
    let supports = episode.supports.iter().map(|&place| indices[place]).collect();
    Episode { query: indices[episode.query], supports, ..episode }
}

/// Saves a list of episodes as JSON, completely or not at all.
pub fn save_episodes(path: &Path, list: &EpisodeList) -> Result<(), DataError> {
    let mut json = serde_json::to_vec_pretty(list)
        .map_err(|source| DataError::Json { path: path.to_path_buf(), source })?;
    json.push(b'\n');
    files::write_atomic(path, &json)
}

/// Reads a list of episodes in JSON: one that was saved, or one of others.
pub fn read_episodes(path: &Path) -> Result<EpisodeList, DataError> {
    let list: EpisodeList = serde_json::from_slice(&files::read_bytes(path)?)
        .map_err(|source| DataError::Json { path: path.to_path_buf(), source })?;
    match list.schema == EpisodeList::SCHEMA {
        true => Ok(list),
        false => Err(EpisodeError::Schema { got: list.schema, expected: EpisodeList::SCHEMA }.into()),
    }
}

/// The episodes that a list names, with the first `n_shots` supports of each. Every support must hold its class; how
/// many pixels of it is up to the list.
pub fn resolve_episodes(
    dataset: &dyn Dataset,
    fold: &Fold,
    list: &EpisodeList,
    n_shots: usize,
) -> Result<Vec<Vec<Episode>>, DataError> {
    let names: Vec<&str> = dataset.samples().iter().map(|sample| sample.name.as_str()).collect();
    let runs = list.resolve(dataset.classes(), fold, &names, n_shots)?;
    check_supports(dataset, &runs)?;
    Ok(runs)
}

/// Refuses the first support that does not show its class. Labels of an image are read once.
fn check_supports(dataset: &dyn Dataset, runs: &[Vec<Episode>]) -> Result<(), DataError> {
    let used: BTreeSet<usize> =
        runs.iter().flatten().flat_map(|episode| &episode.supports).copied().collect();
    let used: Vec<usize> = used.into_iter().collect();
    let stats = used.par_iter().map(|&sample| {
        let stats = ImageStats::of(&dataset.labels(sample)?.map);
        Ok((sample, stats))
    });
    let stats: HashMap<usize, ImageStats> = stats.collect::<Result<_, DataError>>()?;
    for (run, episodes) in runs.iter().enumerate() {
        for (episode, Episode { class, supports, .. }) in episodes.iter().enumerate() {
            if let Some(&sample) = supports.iter().find(|sample| stats[sample].pixels(*class) == 0) {
                let class = dataset.classes().name(*class).unwrap_or_default().to_string();
                let sample = dataset.samples()[sample].name.clone();
                return Err(EpisodeError::EmptySupport { run, episode, sample, class }.into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protoseg_core::EpisodeStyle;

    use super::*;
    use crate::{Benchmark, scan};

    #[test]
    fn a_saved_draw_replays_exactly() {
        let scenes = Benchmark::open("scenes", None).unwrap();
        let dataset = scenes.dataset.as_ref();
        let fold = scenes.fold(1).unwrap();
        let stats = scan(dataset, "val").unwrap();
        let style = EpisodeStyle::Pfenet;
        let draw = EpisodeDraw {
            style,
            n_shots: 5,
            n_episodes: 20,
            seed: 0,
            min_pixels: style.min_pixels(scenes.min_support_pixels),
            draws_queries: false,
        };
        let (list, runs) = draw_runs(dataset, fold, &stats, draw, &[321, 322]).unwrap();
        assert_eq!((runs.len(), runs[0].len(), list.runs[1].seed), (2, 20, Some(322)));
        assert_ne!(runs[0], runs[1]);
        let val = &dataset.split("val").unwrap().samples;
        assert!(runs[0].iter().all(|e| val.contains(&e.query) && e.supports.iter().all(|s| val.contains(s))));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("episodes.json");
        save_episodes(&path, &list).unwrap();
        let read = read_episodes(&path).unwrap();
        assert_eq!(read, list);
        assert_eq!(resolve_episodes(dataset, fold, &read, 5).unwrap(), runs);

        let mut other = list.clone();
        let empty = stats.stats.iter().position(|stats| fold.novel().iter().all(|&id| stats.pixels(id) == 0));
        other.runs[1].episodes[3].supports[0] = dataset.samples()[stats.indices[empty.unwrap()]].name.clone();
        let error = resolve_episodes(dataset, fold, &other, 1).unwrap_err().to_string();
        assert!(error.starts_with("episode 3 of run 1: support `scenes/val/"), "{error}");

        std::fs::write(&path, r#"{"schema": "other/1", "shots": 1, "runs": []}"#).unwrap();
        let error = read_episodes(&path).unwrap_err().to_string();
        assert!(error.contains("schema `other/1`, expected `protoseg.episodes/1`"), "{error}");
    }
}
