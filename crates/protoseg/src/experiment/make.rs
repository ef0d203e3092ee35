//! Makes the model of a job: by a run that can be interrupted, of a frozen encoder, or from a file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Instant,
};

use burn::tensor::Device;
use protoseg_data::{create_dir, write_atomic};
use serde::{Deserialize, Serialize};

use super::{
    ExperimentError, Inputs, Job, ModelPlan, NewPlan, Options,
    run::{Event, Watch},
};
use crate::{
    model::Model,
    train::{self, HeadProgress, Outcome, Plan, Recorder, Run, RunFolder, Shown},
};

/// The file that says that a model is finished.
const MADE_FILE: &str = "made.json";
/// The model of a frozen encoder.
const MODEL_FILE: &str = "model.safetensors";

/// A finished model says how long it took.
#[derive(Serialize, Deserialize)]
struct Made {
    schema: String,
    seconds: f64,
}

/// Makes models in the folder of experiments.
pub struct Maker<'a> {
    pub inputs: &'a Inputs,
    pub options: &'a Options,
    pub device: Device,
    pub watch: &'a dyn Watch,
}

/// Whether the model of a job is finished.
pub fn is_made(options: &Options, job: &Job) -> bool {
    matches!(job.plan, ModelPlan::File(_)) || read_made(&options.folder.model(&job.id), &job.plan).is_some()
}

impl Maker<'_> {
    /// The model of a job, made if need be, and the seconds that this took, now or before. Nothing if it was told to
    /// stop.
    pub fn make(&self, job: &Job) -> Result<Option<(Model, f64)>, ExperimentError> {
        let folder = self.options.folder.model(&job.id);
        let seconds = match (read_made(&folder, &job.plan), &job.plan) {
            (_, ModelPlan::File(_)) => 0.0,
            (Some(made), _) => made.seconds,
            (None, plan) => {
                create_dir(&folder)?;
                let seconds = match plan {
                    ModelPlan::Train(plan) => match self.train(plan, &folder)? {
                        Some(seconds) => seconds,
                        None => return Ok(None),
                    },
                    ModelPlan::New(plan) => self.new_model(plan, &folder)?,
                    ModelPlan::File(_) => 0.0,
                };
                let made = Made { schema: "protoseg.experiment-model/1".to_string(), seconds };
                let text = serde_json::to_string_pretty(&made).expect("plain data");
                write_atomic(&folder.join(MADE_FILE), text.as_bytes())?;
                seconds
            }
        };
        Ok(Some((self.load(job, &folder)?, seconds)))
    }

    fn load(&self, job: &Job, folder: &Path) -> Result<Model, ExperimentError> {
        let model = Model::load_on(file_of(folder, &job.plan), &self.device)?;
        Ok(match &job.plan {
            ModelPlan::New(_) => model.keep_features(self.options.features.as_deref()),
            _ => model,
        })
    }

    /// Starts a run, or goes on with it. A run by another plan, which only a moved data set can leave, is begun again.
    fn train(&self, plan: &Plan, folder: &Path) -> Result<Option<f64>, ExperimentError> {
        let progress = |done, total| self.watch.event(&Event::Features(done, total));
        let files = RunFolder::new(folder);
        let is_same = Plan::read(&files.plan()).is_ok_and(|before| before == *plan);
        let run = if is_same {
            Run::resume(folder, &progress)?
        } else {
            empty(folder)?;
            Run::start(plan.clone(), folder, &progress)?
        };
        let recorder = Recorder::start(&run, &self.options.revision)?;
        match run.train(&mut Recording { recorder, watch: self.watch })? {
            Outcome::Stopped { .. } => Ok(None),
            Outcome::Finished(_) => {
                let seconds = seconds_of(&files.metrics());
                // A finished run is never resumed.
                let _ = fs::remove_dir_all(files.checkpoints());
                Ok(Some(seconds))
            }
        }
    }

    fn new_model(&self, plan: &NewPlan, folder: &Path) -> Result<f64, ExperimentError> {
        let started = Instant::now();
        let bare = match &plan.encoder {
            Some(path) => Model::from_encoder(path, &self.device)?,
            None => Model::builtin_on(&self.device)?,
        };
        let bare = match plan.size {
            Some(size) => bare.with_canvas(size)?,
            None => bare,
        };
        let bare = bare.keep_features(self.options.features.as_deref());
        let benchmark = &self.inputs.benchmark;
        let progress = |done, total| self.watch.event(&Event::Features(done, total));
        let (rule, rows) = (plan.novel_pixels, plan.background_rows);
        let mut model = bare.with_base(benchmark, plan.fold, rule, rows, &progress)?;
        if let Some(head) = &plan.head {
            model = model.with_head(benchmark, head, &mut |progress| match progress {
                HeadProgress::Features(done, total) => self.watch.event(&Event::Features(done, total)),
                HeadProgress::Step(done, total, _) => self.watch.event(&Event::Steps(done, total)),
            })?;
        }
        model.save(folder.join(MODEL_FILE))?;
        Ok(started.elapsed().as_secs_f64())
    }
}

/// What a finished model says of itself; nothing if it is not finished, or if its file was deleted to save space.
fn read_made(folder: &Path, plan: &ModelPlan) -> Option<Made> {
    let made = serde_json::from_slice(&fs::read(folder.join(MADE_FILE)).ok()?).ok()?;
    file_of(folder, plan).is_file().then_some(made)
}

/// The file of a model.
fn file_of(folder: &Path, plan: &ModelPlan) -> PathBuf {
    match plan {
        ModelPlan::Train(_) => RunFolder::new(folder).best(),
        ModelPlan::New(_) => folder.join(MODEL_FILE),
        ModelPlan::File(path) => path.clone(),
    }
}

/// Seconds of training in all parts of a run, by its own record.
fn seconds_of(metrics: &Path) -> f64 {
    let text = fs::read_to_string(metrics).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let seconds = events.filter_map(|event| match event {
        train::Event::Epoch(epoch) => Some(epoch.seconds),
        _ => None,
    });
    seconds.sum()
}

fn empty(folder: &Path) -> Result<(), ExperimentError> {
    let cannot = |source: io::Error| ExperimentError::Write { path: PathBuf::from(folder), source };
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    Ok(create_dir(folder)?)
}

/// Records a run and lets the experiment's watch see it.
struct Recording<'a> {
    recorder: Recorder,
    watch: &'a dyn Watch,
}

impl train::Watch for Recording<'_> {
    fn event(&mut self, event: &train::Event) -> io::Result<()> {
        self.recorder.event(event)?;
        self.watch.event(&Event::Training(event));
        Ok(())
    }

    fn shown(&mut self, epoch: usize, samples: &[Shown]) -> io::Result<()> {
        self.recorder.shown(epoch, samples)
    }

    fn stop(&self) -> bool {
        self.watch.stop()
    }
}
