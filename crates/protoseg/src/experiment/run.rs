//! Carries an experiment out: makes what is missing, reuses what is there, and can be killed at any moment.

use std::{path::PathBuf, time::Instant};

use protoseg_core::count;

use super::{
    Cell, CellPlan, Experiment, ExperimentError, ExperimentFolder, ExperimentResults, Inputs, Job, Schedule,
    make::{self, Maker},
    usage,
};
use crate::{
    device,
    episodes::{EpisodePlan, EpisodeSource, EpisodeTest},
    evaluate::{Evaluation, SupportSource, evaluate},
    method::Usage,
    model::Model,
    train::{self, Task, TrainError},
};

/// Where and how an experiment is carried out. Nothing of it changes a result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where models, cells and tables are.
    pub folder: ExperimentFolder,
    /// Where features of frozen encoders are kept; nowhere without it.
    pub features: Option<PathBuf>,
    /// Part `.0` of `.1`, counted from 1; all without it.
    pub shard: Option<(usize, usize)>,
    /// The program's, for the records of runs.
    pub revision: String,
    /// The command that makes the tables, to be printed under them.
    pub command: String,
}

/// Something that happens while an experiment goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// Work on a model begins.
    Started {
        /// The model.
        job: &'a Job,
        /// Its place among all models of this process, counted from 1.
        place: usize,
        /// What is left, this model included.
        left: Left,
    },
    /// Another process works on it.
    Elsewhere(&'a Job),
    /// In training.
    Training(&'a train::Event),
    /// Images that a frozen encoder has looked at, of how many.
    Features(usize, usize),
    /// Training steps of a head, of how many.
    Steps(usize, usize),
    /// Images that are evaluated, of how many; or episodes.
    Tested(usize, usize),
    /// The training of a model diverged. The others go on.
    Diverged {
        /// The model.
        job: &'a Job,
        /// What happened.
        error: &'a TrainError,
    },
    /// A model's cells are written.
    Finished {
        /// The model.
        job: &'a Job,
        /// Seconds of making it, now or before.
        making: f64,
        /// Seconds of evaluating it.
        testing: f64,
    },
}

/// Follows an experiment, from any thread.
pub trait Watch: Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);

    /// True saves and stops, after a training step or an evaluation.
    fn stop(&self) -> bool;
}

/// How an experiment ended.
#[derive(Debug)]
pub struct Outcome {
    /// The tables of everything that is there.
    pub results: ExperimentResults,
    /// Cells of this process that are still missing: it was told to stop, or others work on them.
    pub left: Left,
    /// Models whose training diverged; their cells are missing.
    pub diverged: usize,
    /// Whether it was told to stop.
    pub is_stopped: bool,
}

/// What is left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Left {
    /// Cells without a result.
    pub cells: usize,
    /// All cells.
    pub of: usize,
    /// Models that have such cells.
    pub models: usize,
    /// By what similar models took; none before the first.
    pub seconds: Option<f64>,
}

impl Options {
    /// Everything in one folder, by one process.
    pub fn new(folder: ExperimentFolder) -> Self {
        let features = Some(folder.features());
        Self { folder, features, shard: None, revision: "unknown".to_string(), command: String::new() }
    }

    /// The jobs of this process.
    pub fn jobs<'a>(&self, schedule: &'a Schedule) -> Vec<&'a Job> {
        let (part, of) = self.shard.unwrap_or((1, 1));
        schedule
            .jobs
            .iter()
            .enumerate()
            .filter(|(place, _)| place % of == part - 1)
            .map(|(_, job)| job)
            .collect()
    }

    /// The cells of a job that are not there yet.
    pub fn missing<'a>(&self, job: &'a Job) -> Vec<&'a CellPlan> {
        job.cells.iter().filter(|cell| self.folder.read_cell(&cell.id).is_none()).collect()
    }

    /// Whether the model of a job is made.
    pub fn is_made(&self, job: &Job) -> bool {
        make::is_made(self, job)
    }

    /// What is left of some jobs, and about how long it takes.
    pub fn left(&self, jobs: &[&Job]) -> Left {
        let mut left = Left::default();
        // Model name, seconds of making, seconds of testing.
        let mut known: Vec<(&str, f64, f64)> = Vec::new();
        let mut open: Vec<&Job> = Vec::new();
        for job in jobs {
            let cells: Vec<Option<Cell>> =
                job.cells.iter().map(|cell| self.folder.read_cell(&cell.id)).collect();
            left.of += cells.len();
            let missing = cells.iter().filter(|cell| cell.is_none()).count();
            left.cells += missing;
            if missing > 0 {
                open.push(job);
            }
            if let Some(cell) = cells.into_iter().flatten().next() {
                known.push((&job.model, cell.seconds.making, cell.seconds.testing));
            }
        }
        left.models = open.len();
        let mean = |model: Option<&str>| {
            let like = known.iter().filter(|(name, ..)| model.is_none_or(|model| model == *name));
            let like: Vec<[f64; 2]> = like.map(|&(_, making, testing)| [making, testing]).collect();
            let sum = |place: usize| like.iter().map(|of| of[place]).sum::<f64>() / like.len() as f64;
            (!like.is_empty()).then(|| [sum(0), sum(1)])
        };
        let seconds = |job: &&Job| {
            let [making, testing] = mean(Some(&job.model)).or_else(|| mean(None))?;
            Some(testing + if self.is_made(job) { 0.0 } else { making })
        };
        left.seconds = open.iter().map(seconds).sum();
        left
    }
}

/// Carries an experiment out. Tables are written after every model, and at the end.
pub fn run(
    experiment: &Experiment,
    inputs: &Inputs,
    schedule: &Schedule,
    options: &Options,
    watch: &dyn Watch,
) -> Result<Outcome, ExperimentError> {
    let maker = Maker { inputs, options, device: device::open(&inputs.devices[0])?, watch };
    let jobs = options.jobs(schedule);
    let (mut is_stopped, mut diverged) = (false, 0);
    for (place, job) in jobs.iter().enumerate() {
        if options.missing(job).is_empty() {
            continue;
        }
        if watch.stop() {
            is_stopped = true;
            break;
        }
        let Some(_claim) = options.folder.claim(&job.id)? else {
            watch.event(&Event::Elsewhere(job));
            continue;
        };
        // Whoever had it may have finished it.
        let missing = options.missing(job);
        if missing.is_empty() {
            continue;
        }
        watch.event(&Event::Started { job, place: place + 1, left: options.left(&jobs) });
        let (model, making) = match maker.make(job) {
            Ok(Some(made)) => made,
            Ok(None) => {
                is_stopped = true;
                break;
            }
            // The other models may do better.
            Err(ExperimentError::Train(error @ TrainError::Diverged { .. })) => {
                watch.event(&Event::Diverged { job, error: &error });
                diverged += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        let started = Instant::now();
        let mut cells = Vec::new();
        // One pass over the images for all that look once, another for those that look twice.
        let (twice, once): (Vec<_>, Vec<_>) = missing.into_iter().partition(|cell| cell.usage.second_look);
        for plans in [once, twice].iter().filter(|plans| !plans.is_empty()) {
            cells.extend(test(experiment, inputs, (job, plans), &model, watch)?);
        }
        let testing = started.elapsed().as_secs_f64();
        protoseg_data::create_dir(&options.folder.path().join("cells"))?;
        for cell in &mut cells {
            (cell.seconds.making, cell.seconds.testing) = (making, testing);
            cell.write(&options.folder.cell(&cell.id))?;
        }
        watch.event(&Event::Finished { job, making, testing });
        ExperimentResults::collect(experiment, schedule, options).write(options)?;
    }
    let results = ExperimentResults::collect(experiment, schedule, options);
    results.write(options)?;
    Ok(Outcome { results, left: options.left(&jobs), diverged, is_stopped })
}

/// Evaluates a model for some of its cells, all with the same number of looks, in one pass over the images.
fn test(
    experiment: &Experiment,
    inputs: &Inputs,
    (job, plans): (&Job, &[&CellPlan]),
    model: &Model,
    watch: &dyn Watch,
) -> Result<Vec<Cell>, ExperimentError> {
    let declaration = &experiment.declaration;
    let usages: Vec<Option<Usage>> =
        plans.iter().map(|plan| usage::resolve(model, plan)).collect::<Result<_, _>>()?;
    let fingerprint = model.fingerprint();
    let empty = plans.iter().map(|plan| Cell::new(plan, &job.id, &fingerprint));
    let progress = |done, total| watch.event(&Event::Tested(done, total));
    if declaration.task == Task::FsSeg {
        let episodes = &declaration.episodes;
        let source = EpisodeSource::Drawn {
            episodes: declaration.limit.or(episodes.episodes),
            runs: episodes.runs,
            seed: episodes.seed,
            min_pixels: None,
        };
        let shots = declaration.shots.clone();
        let plan = EpisodePlan { shots, source, ..EpisodePlan::published(job.fold, episodes.style) };
        let results = EpisodeTest::new(model, &inputs.benchmark, &plan)?.run(&job.model, &progress)?;
        return Ok(empty.map(|cell| cell.with_episodes(&results)).collect());
    }
    let plan = Evaluation {
        fold: job.fold,
        protocol: declaration.protocol,
        shots: declaration.shots.clone(),
        supports: SupportSource::Drawn {
            seeds: declaration.support_seeds.clone(),
            min_pixels: declaration.min_support_pixels,
        },
        usages: usages.into_iter().flatten().collect(),
        size: None,
        limit: declaration.limit,
        part: None,
        second_look: plans.iter().any(|plan| plan.usage.second_look),
    };
    let evaluated = evaluate(model, &inputs.benchmark, &plan, &progress, |_| ())?;
    let per_use = plan.shots.len() * declaration.support_seeds.len();
    // A system for episodes has one use, which is that of all its cells.
    let cells =
        |place: usize| evaluated.cells.chunks(per_use).nth(place).unwrap_or(&evaluated.cells[..per_use]);
    Ok(empty.enumerate().map(|(place, cell)| cell.with_evaluated(&evaluated, cells(place))).collect())
}

impl Job {
    /// `capl, fold 0, seed 321`.
    pub fn describe(&self) -> String {
        let seed = self.training_seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        format!("{}, fold {}{seed}", self.model, self.fold)
    }
}

impl Left {
    /// `3 of 12 cells left (2 models), about 5 min`.
    pub fn describe(&self) -> String {
        let time = match self.seconds {
            Some(seconds) if self.cells > 0 => format!(", about {}", duration(seconds)),
            None if self.cells > 0 => ", no estimate before the first is done".to_string(),
            _ => String::new(),
        };
        format!("{} of {} cells left ({}){time}", self.cells, self.of, count(self.models, "model"))
    }
}

/// `40 s`, `12 min`, `3 h 20 min`.
pub fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        0..120 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}
