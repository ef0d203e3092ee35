//! What a run learns from and is validated on.

use std::{collections::HashSet, sync::Arc};

use protoseg_core::{ClassId, EpisodeStyle, Fold, IGNORE, NovelPixels, Preprocess, Remap, seed};
use protoseg_data::{Benchmark, DataError, EpisodePool, SplitStats, scan};

use super::batches::{self, Batches, Source};
use crate::{
    method::Method,
    model::{Manifest, Model},
    train::{
        HOLDOUT, NO_VALIDATION, Plan, Task, TrainError, ValidationClasses,
        folder::BEST_FILE,
        validate::{ValidationEpisode, ValidationImage, ValidationPicture},
    },
};

/// Images, or episodes, that are drawn with their predictions.
const SHOWN: usize = 4;
/// Which random stream holds images out.
const HOLDOUT_STREAM: u64 = 0x686F_6C64;
/// Which random stream draws the supports of validation.
const SUPPORT_STREAM: u64 = 0x7375_7070;

/// What a run learns from and is validated on.
pub struct Data {
    pub benchmark: Arc<Benchmark>,
    pub batches: Batches,
    /// Images that are learned from; of episodes those that can be queries.
    pub images: usize,
    pub validation: Validated,
}

/// What the network is validated on, and what is shown of it.
pub enum Validated {
    Images { all: Vec<ValidationImage>, shown: Vec<ValidationImage> },
    Episodes { all: Vec<ValidationEpisode>, shown: Vec<ValidationEpisode> },
}

impl Validated {
    /// Images or episodes.
    pub fn len(&self) -> usize {
        match self {
            Self::Images { all, .. } => all.len(),
            Self::Episodes { all, .. } => all.len(),
        }
    }
}

/// What is needed to read the data of a plan.
struct Opened<'a> {
    plan: &'a Plan,
    benchmark: Arc<Benchmark>,
    fold: &'a Fold,
    novel_pixels: NovelPixels,
    preprocess: &'a Preprocess,
    /// Counts of the training split.
    stats: SplitStats,
    /// Training images that the rules keep.
    kept: Vec<usize>,
    /// Images to validate on, before they are thinned out.
    looked: Vec<usize>,
    /// What computes features, if it is frozen and they are learned from.
    frozen: Option<&'a Model>,
}

/// The training images of a plan: counts of their split, those that are learned from, and those that are held out.
pub struct TrainingImages {
    stats: SplitStats,
    pub kept: Vec<usize>,
    held: Vec<usize>,
}

impl TrainingImages {
    pub fn of(plan: &Plan, benchmark: &Benchmark, novel_pixels: NovelPixels) -> Result<Self, TrainError> {
        let fold = benchmark.fold(plan.data.fold)?;
        let stats = scan(benchmark.dataset.as_ref(), &benchmark.train)?;
        let mut kept = stats.for_base_training(benchmark.dataset.classes(), fold, novel_pixels);
        let held = if plan.validation.on == HOLDOUT { hold_out(&mut kept, plan) } else { Vec::new() };
        Ok(Self { stats, kept, held })
    }
}

impl Data {
    /// `frozen` computes the features that are learned from, if the encoder is frozen.
    pub fn open(
        plan: &Plan,
        benchmark: Arc<Benchmark>,
        images: TrainingImages,
        manifest: &Manifest,
        frozen: Option<&Model>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, TrainError> {
        let shared = Arc::clone(&benchmark);
        let (table, fold) = (shared.dataset.classes(), shared.fold(plan.data.fold)?);
        let novel_pixels = manifest.training.novel_pixels.unwrap_or(benchmark.novel_pixels);
        let TrainingImages { stats, kept, held } = images;
        let looked: Vec<usize> = match plan.validation.on.as_str() {
            NO_VALIDATION => Vec::new(),
            HOLDOUT => held,
            split => {
                warnings.extend(chosen_by_test(plan, &benchmark, split));
                scan(benchmark.dataset.as_ref(), split)?.for_evaluation(table)
            }
        };
        let (method, preprocess) = (&manifest.method, &manifest.preprocess);
        let opened = Opened { plan, benchmark, fold, novel_pixels, preprocess, stats, kept, looked, frozen };
        match plan.task {
            Task::GfsSeg => opened.images(),
            Task::FsSeg => opened.episodes(method),
        }
    }
}

impl Opened<'_> {
    fn images(self) -> Result<Data, TrainError> {
        let validated =
            Remap::for_base_training(self.benchmark.dataset.classes(), self.fold, NovelPixels::Ignore)?;
        let look = |&index: &usize| -> Result<ValidationImage, DataError> {
            let (image, label) = self.benchmark.load_rows(index, &validated)?;
            Ok(ValidationImage { name: self.benchmark.dataset.samples()[index].name.clone(), image, label })
        };
        let looked = spread(&self.looked, self.plan.validation.images);
        let all = looked.iter().map(look).collect::<Result<Vec<_>, _>>()?;
        let shown = if looked.is_empty() { spread(&self.kept, SHOWN) } else { spread(&looked, SHOWN) };
        let shown = shown.iter().map(look).collect::<Result<Vec<_>, _>>()?;
        let (images, source) = (self.kept.len(), self.source()?);
        let batches = match self.frozen {
            Some(model) => batches::of_features(self.plan, self.kept, source, model.clone())?,
            None => batches::of_images(self.plan, self.kept, source, self.preprocess)?,
        };
        Ok(Data { benchmark: self.benchmark, batches, images, validation: Validated::Images { all, shown } })
    }

    fn episodes(self, method: &Method) -> Result<Data, TrainError> {
        let table = self.benchmark.dataset.classes();
        let base: Vec<ClassId> =
            self.fold.base().iter().copied().filter(|&id| Some(id) != table.background()).collect();
        let min_pixels = self.min_pixels();
        let counted = |indices: &[usize], stats: &SplitStats, classes: &[ClassId]| {
            let wanted: HashSet<usize> = indices.iter().copied().collect();
            let of = stats.indices.iter().copied().zip(&stats.stats);
            let of = of.filter(|(index, _)| wanted.contains(index));
            EpisodePool::new(classes, of, min_pixels)
        };
        let pool = counted(&self.kept, &self.stats, &base);
        pool.check(table, self.plan.training.shots, min_pixels).map_err(DataError::from)?;

        let on = self.plan.validation.on.as_str();
        let all = match on {
            NO_VALIDATION => Vec::new(),
            // Queries were never seen; their supports come from the training images.
            HOLDOUT => {
                let held = counted(&self.looked, &self.stats, &base);
                self.look_at(&held, &pool, self.plan.validation.images)?
            }
            split => {
                let stats = scan(self.benchmark.dataset.as_ref(), split)?;
                let classes = match self.plan.validation.classes {
                    ValidationClasses::Base => &base[..],
                    ValidationClasses::Novel => self.fold.novel(),
                };
                let own = counted(&self.looked, &stats, classes);
                self.look_at(&own, &own, self.plan.validation.images)?
            }
        };
        let shown = if all.is_empty() { self.look_at(&pool, &pool, SHOWN)? } else { spread(&all, SHOWN) };
        let source = self.source()?;
        let (images, batches) = if method.learns_from_images() {
            (self.kept.len(), batches::of_images(self.plan, self.kept, source, self.preprocess)?)
        } else {
            let images = pool.queries().len();
            (images, batches::of_episodes(self.plan, pool, source, self.preprocess)?)
        };
        Ok(Data {
            benchmark: self.benchmark,
            batches,
            images,
            validation: Validated::Episodes { all, shown },
        })
    }

    fn source(&self) -> Result<Source, TrainError> {
        let (benchmark, fold) = (Arc::clone(&self.benchmark), self.plan.data.fold);
        let remap = Remap::for_base_training(benchmark.dataset.classes(), self.fold, self.novel_pixels)?;
        Ok(Source { benchmark, remap, fold })
    }

    /// The fewest pixels of its class that an image of an episode holds.
    fn min_pixels(&self) -> u64 {
        let usual = EpisodeStyle::Pfenet.min_pixels(self.benchmark.min_support_pixels);
        self.plan.training.min_pixels.unwrap_or(usual)
    }

    /// At most `count` episodes: queries from one pool, each with the classes that it shows, supports from another.
    fn look_at(
        &self,
        queries: &EpisodePool,
        supports: &EpisodePool,
        count: usize,
    ) -> Result<Vec<ValidationEpisode>, TrainError> {
        let mut episodes = Vec::new();
        let pairs: Vec<(usize, ClassId)> = queries.pairs().collect();
        for (place, (query, class)) in spread(&pairs, count).into_iter().enumerate() {
            let mut rng = seed::stream(self.plan.seed, &[SUPPORT_STREAM, place as u64]);
            // A class with too few images in the split cannot be asked for.
            let drawn = supports.draw_supports(class, query, self.plan.training.shots, &mut rng);
            let Some(drawn) = drawn else { continue };
            let name = self.benchmark.dataset.classes().name(class).unwrap_or_default().to_string();
            let picture = |&index: &usize| self.picture(index, class);
            episodes.push(ValidationEpisode {
                class: name,
                query: self.picture(query, class)?,
                supports: drawn.iter().map(picture).collect::<Result<_, _>>()?,
            });
        }
        Ok(episodes)
    }

    /// An image with 1 where the class is, 0 elsewhere. Pixels of novel classes say nothing, unless one is asked for.
    fn picture(&self, index: usize, class: ClassId) -> Result<ValidationPicture, DataError> {
        let dataset = self.benchmark.dataset.as_ref();
        let all = Remap::for_all_classes(dataset.classes(), self.fold);
        let asked = self.fold.row(class).expect("pools hold classes of the fold");
        let (image, mut label) = self.benchmark.load_rows(index, &all)?;
        let n_base = self.fold.base().len();
        for row in &mut label.data {
            *row = match usize::from(*row) {
                row if row == asked => 1,
                row if row == usize::from(IGNORE) || (row >= n_base && asked < n_base) => IGNORE,
                _ => 0,
            };
        }
        Ok(ValidationPicture { name: dataset.samples()[index].name.clone(), image, label })
    }
}

/// What to know when the best model is chosen by what results are reported on.
fn chosen_by_test(plan: &Plan, benchmark: &Benchmark, split: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if Some(split) == benchmark.val.as_deref() {
        warnings.push(format!(
            "the best model is chosen by split `{split}`, which results are reported on: \
             results of `{BEST_FILE}` on it are not those of unseen data"
        ));
    }
    if plan.validation.classes == ValidationClasses::Novel {
        warnings.push(format!(
            "the best model is chosen by the novel classes of fold {}, as published code does: \
             results of `{BEST_FILE}` on them are not those of unseen classes",
            plan.data.fold
        ));
    }
    warnings
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
fn spread<T: Clone>(items: &[T], count: usize) -> Vec<T> {
    let count = count.min(items.len());
    (0..count).map(|place| items[place * items.len() / count].clone()).collect()
}
