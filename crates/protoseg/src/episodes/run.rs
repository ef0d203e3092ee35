//! The test itself: every episode is answered at every number of shots, several at the same time.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use protoseg_core::{
    ClassId, Confusion, Episode, EpisodeDraw, EpisodeList, EpisodeStyle, Fit, Fold, IGNORE, IdMap, Image,
    RowMap, ScoreGrid, ScoreMap,
};
use protoseg_data::{Benchmark, Dataset, Progress, draw_runs, resolve_episodes, scan};

use super::{
    EpisodePlan, EpisodeResults, EpisodeSource, EpisodesError, cache::Cache, in_flight, plan::MAX_RUNS,
    results,
};
use crate::{
    episode::{EncodedImage, FOREGROUND, answer, inside},
    model::Model,
};

/// A model and the episodes that it is asked, all of them known to be possible.
pub struct EpisodeTest<'a> {
    model: Model,
    benchmark: &'a Benchmark,
    fold: &'a Fold,
    style: EpisodeStyle,
    shots: Vec<usize>,
    list: EpisodeList,
    runs: Vec<Vec<Episode>>,
    cache: Cache,
}

/// What a model answered in one episode.
#[derive(Clone, Debug)]
pub struct EpisodeAnswer {
    /// 1 is the class, 0 everything else, at the size that is scored at.
    pub truth: RowMap,
    /// The same of the answers, one per number of shots.
    pub predicted: Vec<RowMap>,
}

impl<'a> EpisodeTest<'a> {
    /// Draws or reads the episodes of a plan. Everything impossible is refused here.
    pub fn new(model: &Model, benchmark: &'a Benchmark, plan: &EpisodePlan) -> Result<Self, EpisodesError> {
        model.episodic()?;
        let shots = sorted(&plan.shots);
        let most = *shots
            .last()
            .filter(|_| shots[0] > 0)
            .ok_or_else(|| EpisodesError::Shots { got: shots.clone() })?;
        let model = match plan.size {
            Some(size) => model.with_canvas(size)?,
            None => model.clone(),
        };
        let model = model.with_fit(plan.style.fit());
        let dataset = benchmark.dataset.as_ref();
        let fold = benchmark.fold(plan.fold)?;
        let (list, runs) = match &plan.source {
            EpisodeSource::Listed(list) => (list.clone(), resolve_episodes(dataset, fold, list, most)?),
            EpisodeSource::Drawn { .. } => draw(benchmark, fold, plan, most)?,
        };
        let cache = Cache::new(plan.cache_bytes);
        Ok(Self { model, benchmark, fold, style: plan.style, shots, list, runs, cache })
    }

    /// The episodes by name, to save and replay.
    pub fn list(&self) -> &EpisodeList {
        &self.list
    }

    /// The episodes of each run. Images are indices into the data set's samples.
    pub fn runs(&self) -> &[Vec<Episode>] {
        &self.runs
    }

    /// Numbers of supports, in ascending order.
    pub fn shots(&self) -> &[usize] {
        &self.shots
    }

    /// How episodes were drawn and are scored.
    pub fn style(&self) -> EpisodeStyle {
        self.style
    }

    /// The fold whose novel classes are asked for.
    pub fn fold(&self) -> &Fold {
        self.fold
    }

    /// The data set.
    pub fn benchmark(&self) -> &Benchmark {
        self.benchmark
    }

    /// The model as it is asked.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Answers one episode at every number of shots.
    pub fn answer(&self, episode: &Episode) -> Result<EpisodeAnswer, EpisodesError> {
        let method = self.model.episodic()?;
        let dataset = self.dataset();
        let truth = binary(&dataset.labels(episode.query)?.map, episode.class);
        let size = (truth.width, truth.height);
        let truth = match self.style.fit() {
            Fit::Letterbox | Fit::Tight => truth,
            Fit::Squash => self.model.preprocess().label(&truth),
        };
        let query = self.query(episode.query, size)?;
        let support = |&sample: &usize| self.encoded_support(sample, episode.class);
        let supports = episode.supports.iter().map(support).collect::<Result<Vec<_>, _>>()?;
        let supports: Vec<&EncodedImage> = supports.iter().collect();
        let at = |&shots: &usize| {
            let grid = answer(&self.model, method, &query, &supports[..shots]);
            self.labels(grid, &truth)
        };
        Ok(EpisodeAnswer { predicted: self.shots.iter().map(at).collect(), truth })
    }

    /// A support's image and mask, as the model is shown them.
    pub fn support(&self, sample: usize, class: ClassId) -> Result<(Image, RowMap), EpisodesError> {
        let (image, labels) = self.dataset().load(sample)?;
        Ok((image, binary(&labels, class)))
    }

    /// Asks every episode of every run. `name` is what the caller calls the model, such as its path. `progress` hears
    /// how many episodes are done. The results do not depend on the number of threads.
    pub fn run(&self, name: &str, progress: Progress<'_>) -> Result<EpisodeResults, EpisodesError> {
        let start = Instant::now();
        let all: Vec<&Episode> = self.runs.iter().flatten().collect();
        let done = AtomicUsize::new(0);
        progress(0, all.len());
        let counts = in_flight::run(all.len(), |place| {
            let answer = self.answer(all[place])?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, all.len());
            Ok::<_, EpisodesError>(answer.counts())
        })?;
        Ok(results::collect(self, name, &counts, start.elapsed()))
    }

    fn dataset(&self) -> &dyn Dataset {
        self.benchmark.dataset.as_ref()
    }

    /// A sample of this width and height as a query.
    fn query(&self, sample: usize, (width, height): (usize, usize)) -> Result<EncodedImage, EpisodesError> {
        let method = self.model.episodic()?;
        let maps = self.cache.get((sample, None), || {
            let (image, _) = self.dataset().load(sample)?;
            Ok::<_, EpisodesError>(method.encode(&self.model.vision(), self.model.canvas(&image)))
        })?;
        Ok(EncodedImage::new(maps, inside(&self.model, width, height)))
    }

    /// A sample as a support of a class.
    fn encoded_support(&self, sample: usize, class: ClassId) -> Result<EncodedImage, EpisodesError> {
        let method = self.model.episodic()?;
        let mask = binary(&self.dataset().labels(sample)?.map, class);
        let labels = self.model.preprocess().label(&mask);
        let depends_on = (!method.supports_as_queries()).then_some(class);
        let maps = self.cache.get((sample, depends_on), || {
            let (image, _) = self.dataset().load(sample)?;
            let (vision, canvas) = (self.model.vision(), self.model.canvas(&image));
            Ok::<_, EpisodesError>(method.encode_supports(&vision, canvas, std::slice::from_ref(&labels)))
        })?;
        Ok(EncodedImage::new(maps, labels))
    }

    /// The labels of scores on the canvas, at the size of the truth.
    fn labels(&self, grid: ScoreGrid, truth: &RowMap) -> RowMap {
        let (width, height) = (truth.width, truth.height);
        match self.style.fit() {
            Fit::Letterbox | Fit::Tight => {
                ScoreMap::on_canvas(grid, self.model.preprocess(), width, height).labels()
            }
            Fit::Squash => ScoreMap::stretched(grid, width, height).labels(),
        }
    }
}

impl EpisodeAnswer {
    /// Pixels by truth and answer at every number of shots.
    fn counts(&self) -> Vec<Confusion> {
        let count = |predicted: &RowMap| {
            let mut counts = Confusion::new(2);
            counts.add(&self.truth, predicted);
            counts
        };
        self.predicted.iter().map(count).collect()
    }
}

fn draw(
    benchmark: &Benchmark,
    fold: &Fold,
    plan: &EpisodePlan,
    n_shots: usize,
) -> Result<(EpisodeList, Vec<Vec<Episode>>), EpisodesError> {
    let EpisodeSource::Drawn { episodes, runs, seed, min_pixels } = plan.source else {
        unreachable!("a list is not drawn")
    };
    let (style, dataset) = (plan.style, benchmark.dataset.as_ref());
    let split = benchmark.val.as_deref().ok_or_else(|| EpisodesError::NoSplit {
        data: dataset.name().to_string(),
        train: benchmark.train.clone(),
    })?;
    let first = seed.unwrap_or(style.seed());
    let n_runs = runs.unwrap_or(style.n_runs());
    if !(1..=MAX_RUNS).contains(&n_runs) {
        return Err(EpisodesError::Runs { got: n_runs });
    }
    let seeds: Vec<u64> = (0..n_runs as u64).map(|run| first.wrapping_add(run)).collect();
    let draw = EpisodeDraw {
        style,
        n_shots,
        n_episodes: episodes.unwrap_or(style.n_episodes(dataset.name())),
        seed: first,
        min_pixels: min_pixels.unwrap_or(style.min_pixels(benchmark.min_support_pixels)),
        draws_queries: style.draws_queries(dataset.name()),
    };
    let stats = scan(dataset, split)?;
    Ok(draw_runs(dataset, fold, &stats, draw, &seeds)?)
}

/// 1 where the class is, 0 elsewhere, nothing where nothing is labelled.
fn binary(labels: &IdMap, class: ClassId) -> RowMap {
    let label = |&label: &u16| match label {
        IGNORE => IGNORE,
        id if id == class.0 => FOREGROUND,
        _ => 0,
    };
    RowMap::new(labels.width, labels.height, labels.data.iter().map(label).collect())
}

fn sorted(shots: &[usize]) -> Vec<usize> {
    let mut shots = shots.to_vec();
    shots.sort_unstable();
    shots.dedup();
    shots
}
