//! A whole run: from a plan to a model, through steps, validations and checkpoints.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use burn::tensor::{Device, Tensor, TensorData};
use protoseg_core::{Classes, Confusion, NovelPixels, Preprocess, Remap, RowMap, seed};
use protoseg_data::{Batch, Benchmark, DataError, LoadError, Loader, LoaderOptions, peak_memory, scan};

use super::{
    End, EpochEvent, Event, HOLDOUT, NO_VALIDATION, Plan, Start, StepEvent, StepReport, TrainError, Trainer,
    TrainerConfig, Watch,
    checkpoint::{Checkpoints, Progress, Resumed, Sums},
    folder::{BEST_FILE, CHECKPOINT_FOLDER, LAST_FILE, PLAN_FILE},
    validate::{ValidationImage, Validator},
};
use crate::{
    config::NetworkConfig,
    device,
    method::{BaseClasses, Images, Method, TrainingBatch},
    model::{Manifest, Model, Training},
    network::Network,
    weights::{self, TensorFile},
};

const SCHEMA: &str = "protoseg.train/1";
/// Images that are drawn with their predictions.
const SHOWN: usize = 4;
/// Cosine scores keep any healthy loss below 20 + ln(classes).
const EXPLODED: f32 = 1e3;
/// Which random stream holds images out.
const HOLDOUT_STREAM: u64 = 0x686F_6C64;

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

type Crops = Loader<usize, CropBatch, DataError>;

/// A batch as it is loaded.
struct CropBatch {
    images: Vec<f32>,
    labels: Vec<RowMap>,
    samples: Vec<usize>,
}

/// What a run learns from and is validated on.
struct Data {
    benchmark: Arc<Benchmark>,
    loader: Crops,
    images: usize,
    validation: Vec<ValidationImage>,
    shown: Vec<ValidationImage>,
}

impl Run {
    /// A new run in a folder that holds none yet. The plan is checked before; nothing is written when it fails.
    pub fn start(plan: Plan, folder: &Path) -> Result<Self, TrainError> {
        if folder.join(PLAN_FILE).exists() {
            return Err(TrainError::Exists { path: folder.to_path_buf() });
        }
        let text = plan.to_toml();
        let run = Self::prepare(plan, folder)?;
        let path = folder.join(PLAN_FILE);
        fs::write(&path, text).map_err(|source| TrainError::Write { path, source })?;
        Ok(run)
    }

    /// A run that was interrupted, from its newest whole checkpoint; from its start if there is none yet.
    pub fn resume(folder: &Path) -> Result<Self, TrainError> {
        let file = folder.join(PLAN_FILE);
        if let Err(source) = fs::metadata(&file) {
            return Err(TrainError::NoRun { path: folder.to_path_buf(), source });
        }
        let plan = Plan::read(&file)?;
        plan.check_file(Some(&file))?;
        Self::prepare(plan, folder)
    }

    fn prepare(plan: Plan, folder: &Path) -> Result<Self, TrainError> {
        let devices = plan.devices.iter().map(|name| device::open(name)).collect::<Result<Vec<_>, _>>()?;
        let device = devices[0].clone();
        let benchmark = Arc::new(Benchmark::open(&plan.data.source, plan.data.root.as_deref())?);
        let novel_pixels = plan.data.novel_pixels.unwrap_or(benchmark.novel_pixels);
        let classes = benchmark.fold(plan.data.fold)?.classes(benchmark.dataset.classes())?;
        let (config, method, network) = build_network(&plan, &classes, &device)?;

        let checkpoints =
            Checkpoints::open(&folder.join(CHECKPOINT_FOLDER), plan.checkpoint.keep, &plan.to_toml())?;
        let mut warnings = Vec::new();
        let resumed = checkpoints.load(&network);
        let manifest = manifest(&plan, config, method, classes, &benchmark, novel_pixels);
        let data = Data::open(&plan, benchmark, novel_pixels, &manifest.preprocess, &mut warnings)?;

        let steps = plan.training.epochs * data.loader.batches_per_epoch();
        let trainer_config = TrainerConfig {
            accumulate: plan.training.accumulate,
            more_devices: devices[1..].to_vec(),
            freeze_batch_norm: plan.network.freeze_batch_norm,
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
        Ok(Self { plan, folder, data, manifest, device, trainer, progress, checkpoints, warnings })
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
        self.data.benchmark.val.as_deref() == Some(self.plan.validation.on.as_str())
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
        self.data.loader.batches_per_epoch()
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
            for batch in self.data.loader.epoch(epoch as u64, done) {
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
        batch: Result<Batch<CropBatch, DataError>, LoadError<DataError>>,
        watch: &mut dyn Watch,
    ) -> Result<(), TrainError> {
        let started = Instant::now();
        let batch = batch.map_err(|error| TrainError::Load(error.to_string()))?;
        for (_, why) in &batch.skipped {
            self.tell(watch, &Event::Warning { text: format!("left out: {why}") })?;
        }
        let CropBatch { images, labels, samples } = batch.items;
        let crop = self.plan.training.crop;
        let images = TensorData::new(images, [labels.len(), 3, crop, crop]);
        let images = Tensor::from_data(images, &self.device);
        let report = self.trainer.step(&TrainingBatch::Images(Images { images, labels: &labels }));
        let epoch = (report.step - 1) / self.steps_per_epoch() + 1;
        if !report.loss.is_finite() || report.loss > EXPLODED {
            let all = self.data.benchmark.dataset.samples();
            let files = samples.iter().map(|&index| all[index].image.display().to_string()).collect();
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
                images_per_second: labels.len() as f64 / seconds,
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
                images_per_second: (sums.steps * self.plan.training.batch) as f64 / sums.seconds,
            }),
        )?;
        if epoch.is_multiple_of(self.plan.validation.every) || epoch == self.plan.training.epochs {
            self.validate(epoch, watch)?;
        }
        Ok(())
    }

    /// Validates the network, keeps it if it is the best so far, and shows what it makes of a few images.
    fn validate(&mut self, epoch: usize, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let on = self.plan.validation.on.clone();
        let selected = match on.as_str() {
            NO_VALIDATION => None,
            HOLDOUT => {
                Some(format!("best base mIoU on {} held-out training images", self.data.validation.len()))
            }
            split => {
                Some(format!("best base mIoU on {} images of split `{split}`", self.data.validation.len()))
            }
        };
        let model = self.model(selected);
        let validator = Validator::new(&model)?;
        if !self.data.validation.is_empty() {
            let mut counts = Confusion::new(self.manifest.classes.rows().len());
            self.data.validation.iter().for_each(|looked| validator.count(looked, &mut counts));
            let mut validation =
                validator.scores(&counts, self.data.validation.len(), &on, epoch, self.progress.step);
            validation.best = self.progress.best.is_none_or(|best| validation.base_miou > best);
            if validation.best {
                model.save(self.folder.join(BEST_FILE))?;
                self.progress.best = Some(validation.base_miou);
            }
            self.tell(watch, &Event::Validation(validation))?;
        }
        let shown: Vec<_> = self.data.shown.iter().map(|looked| validator.show(looked)).collect();
        watch.shown(epoch, &shown).map_err(|source| self.cannot_write(source))
    }

    fn save_checkpoint(&self, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let path = self.checkpoints.save(&self.trainer, &self.progress)?;
        self.tell(watch, &Event::Checkpoint { step: self.progress.step, path })
    }

    fn finish(&self, watch: &mut dyn Watch, started: Instant) -> Result<Outcome, TrainError> {
        let (last, best) = (self.folder.join(LAST_FILE), self.folder.join(BEST_FILE));
        let model = self.model(Some("the last step's weights".to_string()));
        model.save(&last)?;
        if self.data.validation.is_empty() {
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

impl Data {
    fn open(
        plan: &Plan,
        benchmark: Arc<Benchmark>,
        novel_pixels: NovelPixels,
        preprocess: &Preprocess,
        warnings: &mut Vec<String>,
    ) -> Result<Self, TrainError> {
        let (table, fold) = (benchmark.dataset.classes(), benchmark.fold(plan.data.fold)?);
        let remap = Remap::for_base_training(table, fold, novel_pixels)?;
        let validated = Remap::for_base_training(table, fold, NovelPixels::Ignore)?;
        let look = |&index: &usize| -> Result<ValidationImage, DataError> {
            let (image, label) = benchmark.load_rows(index, &validated)?;
            Ok(ValidationImage { name: benchmark.dataset.samples()[index].name.clone(), image, label })
        };
        let mut kept =
            scan(benchmark.dataset.as_ref(), &benchmark.train)?.for_base_training(table, fold, novel_pixels);
        let on = plan.validation.on.as_str();
        let looked: Vec<usize> = match on {
            NO_VALIDATION => Vec::new(),
            HOLDOUT => hold_out(&mut kept, plan),
            split => {
                if Some(split) == benchmark.val.as_deref() {
                    warnings.push(format!(
                        "the best model is chosen by split `{split}`, which results are reported on: \
                         results of `{BEST_FILE}` on it are not those of unseen data"
                    ));
                }
                scan(benchmark.dataset.as_ref(), split)?.for_evaluation(table)
            }
        };
        let looked = spread(&looked, plan.validation.images);
        let validation = looked.iter().map(look).collect::<Result<Vec<_>, _>>()?;
        let shown = if looked.is_empty() { spread(&kept, SHOWN) } else { spread(&looked, SHOWN) };
        let shown = shown.iter().map(look).collect::<Result<Vec<_>, _>>()?;
        let images = kept.len();
        let loader = open_loader(plan, kept, Arc::clone(&benchmark), remap, preprocess)?;
        Ok(Self { benchmark, loader, images, validation, shown })
    }
}

/// Takes the images that are held out from `kept`, at random by the plan's seed.
fn hold_out(kept: &mut Vec<usize>, plan: &Plan) -> Vec<usize> {
    let wanted = (kept.len() as f64 * plan.validation.share).ceil() as usize;
    let mut order = kept.clone();
    seed::shuffle(&mut order, &mut seed::stream(plan.seed, &[HOLDOUT_STREAM]));
    let mut held: Vec<usize> = order.into_iter().take(wanted.min(plan.validation.images)).collect();
    held.sort_unstable();
    kept.retain(|index| held.binary_search(index).is_err());
    held
}

/// At most `count` of `items`, evenly spread over them.
fn spread(items: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(items.len());
    (0..count).map(|place| items[place * items.len() / count]).collect()
}

fn open_loader(
    plan: &Plan,
    items: Vec<usize>,
    benchmark: Arc<Benchmark>,
    remap: Remap,
    preprocess: &Preprocess,
) -> Result<Crops, TrainError> {
    let options = LoaderOptions {
        batch_size: plan.training.batch,
        seed: plan.seed,
        shuffle: true,
        // As in the reference: a last batch of one image would have no fake support.
        drop_last: true,
        workers: plan.data.workers,
        prefetch: 2 * plan.data.workers,
        on_error: plan.data.on_error,
    };
    let augment = plan.transforms(preprocess);
    let crop = plan.training.crop;
    let start = move |count: usize| CropBatch {
        images: vec![0.0; count * 3 * crop * crop],
        labels: vec![RowMap::new(crop, crop, vec![0; crop * crop]); count],
        samples: vec![0; count],
    };
    let loader = Loader::collating(items, options, start, move |batch, place, &index, rng| {
        let (image, label) = benchmark.load_rows(index, &remap)?;
        let plan = augment.sample(rng, image.width, image.height);
        let values = &mut batch.images[place * 3 * crop * crop..][..3 * crop * crop];
        augment.apply_into(&plan, &image, &label, values, &mut batch.labels[place].data);
        batch.samples[place] = index;
        Ok(())
    })?;
    Ok(loader)
}

/// The network that a plan asks for, its encoder's weights loaded if the plan names some.
fn build_network(
    plan: &Plan,
    classes: &Classes,
    device: &Device,
) -> Result<(NetworkConfig, Method, Network), TrainError> {
    let file = plan.network.init.as_deref().map(TensorFile::open).transpose()?;
    let found = file.as_ref().map(weights::read_encoder_config).transpose()?;
    let encoder = plan.network.encoder_config(found.as_ref())?;
    let config = plan.network.config(encoder.clone());
    let method = plan.resolve_method(classes)?;
    device.seed(plan.seed);
    let mut network = config.init(&method, device)?;
    if let Some(file) = file {
        network.encoder = weights::load_encoder(&file, &encoder, device)?;
    }
    Ok((config, method, network))
}

fn manifest(
    plan: &Plan,
    network: NetworkConfig,
    method: Method,
    classes: Classes,
    benchmark: &Benchmark,
    novel_pixels: NovelPixels,
) -> Manifest {
    Manifest {
        format: Manifest::FORMAT,
        preprocess: network.encoder.preprocess(plan.size()),
        network,
        classes,
        method,
        training: Training {
            origin: format!("trained by protoseg {}", env!("CARGO_PKG_VERSION")),
            data: Some(benchmark.dataset.name().to_string()),
            fold: Some(plan.data.fold),
            novel_pixels: Some(novel_pixels),
            seed: Some(plan.seed),
            selected: None,
        },
    }
}
