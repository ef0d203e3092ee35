//! A whole run: from a plan to a model, through steps, validations and checkpoints.

mod batches;
mod data;
mod network;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use burn::tensor::Device;
use protoseg_data::{
    Batch, Benchmark, DataError, LoadError, Progress as DataProgress, peak_memory, reader::scenes,
    write_atomic,
};

use self::{
    batches::Loaded,
    data::{Data, TrainingImages, Validated},
    network::Built,
};
use super::{
    End, EpochEvent, Event, HOLDOUT, NO_VALIDATION, Plan, Start, StepEvent, StepReport, Task, TrainError,
    Trainer, TrainerConfig, ValidationClasses, Watch,
    checkpoint::{Checkpoints, Progress, Resumed, Sums},
    folder::{BEST_FILE, CHECKPOINT_FOLDER, Claim, LAST_FILE, PLAN_FILE, RunFolder},
    validate,
};
use crate::{
    config::ConfigError,
    device,
    method::BaseClasses,
    model::{Manifest, Model},
    weights,
};

const SCHEMA: &str = "protoseg.train/1";
/// Cosine scores keep any healthy loss below 20 + ln(classes).
const EXPLODED: f32 = 1e3;

/// How a run ended.
pub enum Outcome {
    /// All steps are done.
    Finished(End),
    /// On request, after this step, with everything saved.
    Stopped {
        /// The last step that was done.
        step: usize,
    },
}

/// A run that is ready to go on.
pub struct Run {
    _claim: Claim,
    plan: Plan,
    folder: PathBuf,
    data: Data,
    manifest: Manifest,
    device: Device,
    trainer: Trainer,
    progress: Progress,
    checkpoints: Checkpoints,
    warnings: Vec<String>,
}

impl Run {
    /// A new run in a folder that holds none yet. The plan is checked before; nothing is written when it fails.
    /// `progress` hears how many images are looked at before the first step, if the encoder is frozen.
    pub fn start(plan: Plan, folder: &Path, progress: DataProgress<'_>) -> Result<Self, TrainError> {
        Self::start_in(RunFolder::new(folder).claim()?, plan, folder, progress)
    }

    /// A new run in the place of the one that the folder holds, if any. Files of others in the folder stay.
    pub fn restart(plan: Plan, folder: &Path, progress: DataProgress<'_>) -> Result<Self, TrainError> {
        let run_folder = RunFolder::new(folder);
        let claim = run_folder.claim()?;
        if run_folder.holds_run() {
            run_folder.clear().map_err(|source| TrainError::Write { path: folder.to_path_buf(), source })?;
        }
        Self::start_in(claim, plan, folder, progress)
    }

    fn start_in(
        claim: Claim,
        plan: Plan,
        folder: &Path,
        progress: DataProgress<'_>,
    ) -> Result<Self, TrainError> {
        if RunFolder::new(folder).holds_run() {
            return Err(TrainError::Exists { path: folder.to_path_buf() });
        }
        let text = plan.to_toml();
        let run = Self::prepare(claim, plan, folder, None, progress)?;
        write_atomic(&folder.join(PLAN_FILE), text.as_bytes())?;
        Ok(run)
    }

    /// A run that was interrupted, from its newest whole checkpoint; from its start if there is none yet.
    pub fn resume(folder: &Path, progress: DataProgress<'_>) -> Result<Self, TrainError> {
        let plan = Self::read_plan(folder)?;
        Self::prepare(RunFolder::new(folder).claim()?, plan, folder, None, progress)
    }

    /// A run, finished or not, that goes on to more epochs than it was planned for. From here on the learning rate
    /// follows the longer schedule, so its weights are not those of a run that was planned so from the start.
    pub fn extend(folder: &Path, epochs: usize, progress: DataProgress<'_>) -> Result<Self, TrainError> {
        let before = Self::read_plan(folder)?;
        let planned = before.training.epochs;
        if epochs < planned {
            let expected = format!("at least {planned}, for which the run was planned");
            return Err(ConfigError::new("training.epochs", epochs, expected).into());
        }
        let mut plan = before.clone();
        plan.training.epochs = epochs;
        plan.check()?;
        let text = plan.to_toml();
        let claim = RunFolder::new(folder).claim()?;
        let mut run = Self::prepare(claim, plan, folder, Some(&before), progress)?;
        if epochs > planned && run.progress.step > 0 {
            let step = run.progress.step;
            run.warnings.push(format!(
                "the run goes on to {epochs} epochs instead of {planned}; the learning rate follows the longer schedule \
                 only from step {step} on, so the result differs from that of an uninterrupted run of {epochs} epochs"
            ));
            // First the checkpoint, then the plan: whatever comes between, one that fits is found.
            run.checkpoints.save(&run.trainer, &run.progress)?;
        }
        write_atomic(&folder.join(PLAN_FILE), text.as_bytes())?;
        Ok(run)
    }

    /// The plan in a run's folder.
    fn read_plan(folder: &Path) -> Result<Plan, TrainError> {
        let file = folder.join(PLAN_FILE);
        if let Err(source) = fs::metadata(&file) {
            return Err(TrainError::NoRun { path: folder.to_path_buf(), source });
        }
        let plan = Plan::read(&file)?;
        plan.check_file(Some(&file))?;
        Ok(plan)
    }

    /// `before` is the plan that the run's checkpoints were made by, if it is another.
    fn prepare(
        claim: Claim,
        plan: Plan,
        folder: &Path,
        before: Option<&Plan>,
        progress: DataProgress<'_>,
    ) -> Result<Self, TrainError> {
        let devices = plan.devices.iter().map(|name| device::open(name)).collect::<Result<Vec<_>, _>>()?;
        let device = devices[0].clone();
        let benchmark = Arc::new(Benchmark::open(&plan.data.source, plan.data.root.as_deref())?);
        let novel_pixels = plan.data.novel_pixels.unwrap_or(benchmark.novel_pixels);
        let mut warnings = Vec::new();
        let images = TrainingImages::of(&plan, &benchmark, novel_pixels)?;
        let frozen = match plan.network.freeze_encoder {
            true => {
                let kept = &images.kept;
                Some(network::build_frozen(&plan, &benchmark, novel_pixels, kept, &device, progress)?)
            }
            false => None,
        };
        let (manifest, network) = match &frozen {
            Some(model) => (model.manifest().clone(), model.network().clone()),
            None => {
                let classes = benchmark.fold(plan.data.fold)?.classes(benchmark.dataset.classes())?;
                let Built { config, method, network } =
                    network::build(&plan, &classes, &device, &mut warnings)?;
                let manifest = network::manifest(&plan, (config, method), classes, &benchmark, novel_pixels);
                (manifest, network)
            }
        };

        let open = |by: &Plan| {
            Checkpoints::open(&folder.join(CHECKPOINT_FOLDER), plan.checkpoint.keep, &by.to_toml())
        };
        let resumed = open(before.unwrap_or(&plan))?.load(&network);
        let checkpoints = open(&plan)?;
        let is_random = plan.network.init.is_none() && frozen.is_none();
        if is_random && resumed.is_none() && plan.data.source != scenes::NAME {
            warnings.push(
                "the encoder starts from random weights (no `network.init`): expect poor results on photos"
                    .to_string(),
            );
        }
        let data = Data::open(&plan, benchmark, images, &manifest, frozen.as_ref(), &mut warnings)?;

        let steps = plan.training.epochs * data.batches.batches_per_epoch();
        let trainer_config = TrainerConfig {
            accumulate: plan.training.accumulate,
            more_devices: devices[1..].to_vec(),
            freeze_batch_norm: plan.network.freeze_batch_norm,
            train_last: plan.network.train_last,
            gradient_checkpointing: plan.training.gradient_checkpointing,
            ..TrainerConfig::new(
                manifest.method.clone(),
                BaseClasses {
                    count: manifest.classes.n_base(),
                    has_background: manifest.classes.has_background(),
                },
                plan.optimizer.clone(),
                steps,
                plan.seed,
            )
        };
        let (trainer, progress) = match resumed {
            None => (Trainer::new(network, trainer_config), Progress::default()),
            Some(Resumed { network, optimizer, progress, path, damaged }) => {
                warnings.extend(damaged.iter().map(|why| format!("a checkpoint is not used: {why}")));
                let trainer = Trainer::new(network, trainer_config);
                let trainer = trainer
                    .resume(progress.step, optimizer)
                    .map_err(|error| weights::WeightsError::Layout { path, reason: error.to_string() })?;
                (trainer, progress)
            }
        };
        let folder = folder.to_path_buf();
        Ok(Self {
            _claim: claim,
            plan,
            folder,
            data,
            manifest,
            device,
            trainer,
            progress,
            checkpoints,
            warnings,
        })
    }

    /// Steps done before.
    pub fn from_step(&self) -> usize {
        self.progress.step
    }

    /// Where everything of the run is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the best model is chosen by the split that results are reported on.
    pub fn is_chosen_by_test_data(&self) -> bool {
        let validation = &self.plan.validation;
        let is_split = ![NO_VALIDATION, HOLDOUT].contains(&validation.on.as_str());
        self.data.benchmark.val.as_deref() == Some(validation.on.as_str())
            || (is_split && self.plan.task == Task::FsSeg && validation.classes == ValidationClasses::Novel)
    }

    /// What the run is to do.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What its models say of themselves.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn steps_per_epoch(&self) -> usize {
        self.data.batches.batches_per_epoch()
    }

    /// Images that go through the network in a step.
    fn images_per_step(&self) -> usize {
        let training = &self.plan.training;
        match self.manifest.method.learns_from_images() {
            true => training.batch,
            false => training.batch * (1 + training.shots),
        }
    }

    fn steps(&self) -> usize {
        self.plan.training.epochs * self.steps_per_epoch()
    }

    /// Goes on to the end, or until it is told to stop.
    pub fn train(mut self, watch: &mut dyn Watch) -> Result<Outcome, TrainError> {
        let started = Instant::now();
        self.tell(watch, &Event::Start(self.start_event()))?;
        for text in std::mem::take(&mut self.warnings) {
            self.tell(watch, &Event::Warning { text })?;
        }
        let per_epoch = self.steps_per_epoch();
        while self.progress.step < self.steps() {
            let (epoch, done) = (self.progress.step / per_epoch, self.progress.step % per_epoch);
            for batch in self.data.batches.epoch(epoch as u64, done) {
                self.step(batch, watch)?;
                let is_last = self.progress.step.is_multiple_of(per_epoch);
                let every = self.plan.checkpoint.every;
                if is_last {
                    self.end_epoch(watch)?;
                }
                let stop = watch.stop();
                if is_last || stop || (every > 0 && self.progress.step.is_multiple_of(every)) {
                    self.save_checkpoint(watch)?;
                }
                if stop && self.progress.step < self.steps() {
                    return Ok(Outcome::Stopped { step: self.progress.step });
                }
            }
        }
        self.finish(watch, started)
    }

    fn step(
        &mut self,
        batch: Result<Batch<Loaded, DataError>, LoadError<DataError>>,
        watch: &mut dyn Watch,
    ) -> Result<(), TrainError> {
        let started = Instant::now();
        let batch = batch.map_err(|error| TrainError::Load(error.to_string()))?;
        for (_, why) in &batch.skipped {
            self.tell(watch, &Event::Warning { text: format!("left out: {why}") })?;
        }
        let mut loaded = batch.items;
        let report = self.trainer.step(&loaded.batch(&self.device));
        let epoch = (report.step - 1) / self.steps_per_epoch() + 1;
        if !report.loss.is_finite() || report.loss > EXPLODED {
            let all = self.data.benchmark.dataset.samples();
            let files =
                loaded.samples().into_iter().map(|index| all[index].image.display().to_string()).collect();
            let checkpoint = self.checkpoints.newest();
            return Err(TrainError::Diverged {
                step: report.step,
                epoch,
                loss: report.loss,
                files,
                checkpoint,
            });
        }
        self.progress.step = report.step;
        let seconds = started.elapsed().as_secs_f64();
        self.progress.sums.add(&report, seconds);
        self.tell(
            watch,
            &Event::Step(StepEvent {
                epoch,
                step: report.step,
                loss: report.loss,
                main_loss: report.main_loss,
                aux_loss: report.aux_loss,
                rate: report.rate,
                images_per_second: loaded.n_images() as f64 / seconds,
            }),
        )
    }

    fn end_epoch(&mut self, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let sums = std::mem::take(&mut self.progress.sums);
        let epoch = self.progress.step / self.steps_per_epoch();
        let mean = |sum: f64| sum / sums.steps as f64;
        self.tell(
            watch,
            &Event::Epoch(EpochEvent {
                epoch,
                step: self.progress.step,
                loss: mean(sums.loss),
                main_loss: mean(sums.main_loss),
                aux_loss: sums.aux_loss.map(mean),
                seconds: sums.seconds,
                images_per_second: (sums.steps * self.images_per_step()) as f64 / sums.seconds,
            }),
        )?;
        if epoch.is_multiple_of(self.plan.validation.every) || epoch == self.plan.training.epochs {
            self.validate(epoch, watch)?;
        }
        Ok(())
    }

    /// Validates the network, keeps it if it is the best so far, and shows what it makes of a few images.
    fn validate(&mut self, epoch: usize, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let model = self.model(self.selected());
        let place = validate::Place { epoch, step: self.progress.step, on: &self.plan.validation.on };
        let (scores, shown) = match &self.data.validation {
            Validated::Images { all, shown } => validate::on_images(&model, place, all, shown)?,
            Validated::Episodes { all, shown } => validate::on_episodes(&model, place, all, shown)?,
        };
        if let Some(mut scores) = scores {
            let miou = scores.miou();
            if self.progress.best.is_none_or(|best| miou > best) {
                scores.set_best();
                model.save(self.folder.join(BEST_FILE))?;
                self.progress.best = Some(miou);
            }
            self.tell(watch, &scores.into_event())?;
        }
        watch.shown(epoch, &shown).map_err(|source| self.cannot_write(source))
    }

    /// How the best model is chosen, in words.
    fn selected(&self) -> Option<String> {
        let validation = &self.plan.validation;
        let count = self.data.validation.len();
        let (what, of) = match (self.plan.task, validation.classes) {
            (Task::GfsSeg, _) => ("best base mIoU on", "images of"),
            (Task::FsSeg, ValidationClasses::Base) => ("best class mIoU of base classes over", "episodes of"),
            (Task::FsSeg, ValidationClasses::Novel) => {
                ("best class mIoU of novel classes over", "episodes of")
            }
        };
        match (validation.on.as_str(), self.plan.task) {
            (NO_VALIDATION, _) => None,
            (HOLDOUT, Task::GfsSeg) => Some(format!("{what} {count} held-out training images")),
            (HOLDOUT, Task::FsSeg) => Some(format!("{what} {count} {of} held-out training images")),
            (split, _) => Some(format!("{what} {count} {of} split `{split}`")),
        }
    }

    fn save_checkpoint(&self, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let path = self.checkpoints.save(&self.trainer, &self.progress)?;
        self.tell(watch, &Event::Checkpoint { step: self.progress.step, path })
    }

    fn finish(&self, watch: &mut dyn Watch, started: Instant) -> Result<Outcome, TrainError> {
        let (last, best) = (self.folder.join(LAST_FILE), self.folder.join(BEST_FILE));
        let model = self.model(Some("the last step's weights".to_string()));
        model.save(&last)?;
        if self.data.validation.len() == 0 {
            model.save(&best)?;
        }
        let end = End {
            step: self.progress.step,
            seconds: started.elapsed().as_secs_f64(),
            peak_memory: peak_memory(),
            last,
            best,
        };
        self.tell(watch, &Event::End(end.clone()))?;
        Ok(Outcome::Finished(end))
    }

    fn model(&self, selected: Option<String>) -> Model {
        let mut manifest = self.manifest.clone();
        manifest.training.selected = selected;
        Model::new(manifest, self.trainer.network(), &self.device)
    }

    fn tell(&self, watch: &mut dyn Watch, event: &Event) -> Result<(), TrainError> {
        watch.event(event).map_err(|source| self.cannot_write(source))
    }

    fn cannot_write(&self, source: std::io::Error) -> TrainError {
        TrainError::Write { path: self.folder.clone(), source }
    }

    fn start_event(&self) -> Start {
        Start {
            schema: SCHEMA.to_string(),
            data: self.plan.data.source.clone(),
            fold: self.plan.data.fold,
            method: self.plan.method.to_string(),
            network: self.manifest.network.describe(),
            device: self.plan.devices.join(", "),
            seed: self.plan.seed,
            images: self.data.images,
            epochs: self.plan.training.epochs,
            steps_per_epoch: self.steps_per_epoch(),
            steps: self.steps(),
            from_step: self.progress.step,
            task: (self.plan.task == Task::FsSeg).then_some(Task::FsSeg),
            shots: (!self.manifest.method.learns_from_images()).then_some(self.plan.training.shots),
        }
    }
}

impl Sums {
    fn add(&mut self, report: &StepReport, seconds: f64) {
        self.steps += 1;
        self.loss += f64::from(report.loss);
        self.main_loss += f64::from(report.main_loss);
        self.aux_loss = report.aux_loss.map(|aux| self.aux_loss.unwrap_or(0.0) + f64::from(aux));
        self.seconds += seconds;
    }
}
