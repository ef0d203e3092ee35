//! Evaluation: base, novel and total scores of a model on a data set, for every draw of supports and every way to use
//! the model, with the features of each image computed once.

mod calibration;
mod draw;
mod fed;
mod folds;
mod labelled;
mod lookup;
mod parts;
mod plan;
mod results;
mod taught;

use protoseg_core::{
    ClassRole, Classes, Confusion, Fold, Image, Remap, RowMap, ScoreGrid, Scores, SupportList,
};
use protoseg_data::{Benchmark, DataError, Progress, SplitStats, scan};
use rayon::prelude::*;

pub use calibration::Trust;
pub use folds::{FoldMean, FoldRow};
pub use labelled::{LabelledResults, evaluate_labelled};
pub use parts::{Counts, join};
pub use plan::{EvaluateError, Evaluation, SupportSource};
pub use results::{ConfidenceRow, ResultRow, Results};
pub use taught::{TaughtResults, TaughtRow, evaluate_taught};

use self::draw::{Draw, Memory};
use crate::{
    model::Model,
    segmenter::{Looks, Segmenter},
};

/// What an evaluation came to.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Base classes, then the fold's novel ones.
    pub classes: Classes,
    /// The split that the scores are of.
    pub split: String,
    /// The split that supports came from.
    pub support_split: String,
    /// Images that were evaluated.
    pub images: usize,
    /// Images that could have been.
    pub of: usize,
    /// The fewest pixels of its class that a support holds.
    pub min_pixels: u64,
    /// Side of the canvas.
    pub size: usize,
    /// One per seed, with the most shots; fewer shots are its beginning.
    pub supports: Vec<SupportList>,
    /// By usage, then shots, then seed.
    pub cells: Vec<Cell>,
    /// Pixels by truth and prediction of each usage before any class was taught; none for a system for episodes.
    before: Vec<Confusion>,
}

/// One usage with one draw of supports.
#[derive(Clone, Debug)]
pub struct Cell {
    /// How the model was used: which parts of CAPL act, or the system for episodes.
    pub variant: &'static str,
    /// Which options they act by.
    pub preset: String,
    /// Supports per class.
    pub shots: usize,
    /// The seed of the draw; 0 for a list made by hand.
    pub seed: u64,
    /// Pixels by truth and prediction.
    pub counts: Confusion,
    /// What the counts come to under the protocol.
    pub scores: Scores,
    /// Base mIoU of the same usage before any class was registered, in percent; none for a system for episodes.
    pub base_before: Option<f64>,
    /// How far its confidences can be trusted; without pixels for a system for episodes.
    pub confidence: Trust,
}

/// An image that was just evaluated.
pub struct EvaluatedImage<'a> {
    /// Its name in the data set.
    pub name: &'a str,
    /// The picture.
    pub image: &'a Image,
    /// Its labels.
    pub truth: &'a RowMap,
    /// What each cell made of it, in the order of [`Evaluated::cells`]. Under
    /// [`protoseg_core::Protocol::Reference`] they are squares, and the image lies at their top
    /// left.
    pub predicted: &'a [RowMap],
    /// What each usage made of it before any class was taught; empty for a system for episodes, and where no class is
    /// taught at all.
    pub before: &'a [RowMap],
}

/// Evaluates `model` on a benchmark. `progress` hears how many images are done, `each` sees every image.
///
/// A model of a system for episodes is fed the vectors of all classes for every query
/// ([`Fed`](crate::method::Fed)), the paper's first table; the plan's usages then say nothing.
pub fn evaluate(
    model: &Model,
    benchmark: &Benchmark,
    plan: &Evaluation,
    progress: Progress<'_>,
    mut each: impl FnMut(&EvaluatedImage<'_>),
) -> Result<Evaluated, EvaluateError> {
    let model = &plan.model(model)?;
    let second = plan.second(model)?;
    if model.manifest().method.episodic().is_some() {
        return fed::evaluate(model, benchmark, plan, progress, &mut each);
    }
    let dataset = benchmark.dataset.as_ref();
    let setting = Setting::new(model, benchmark, plan)?;
    let remap = Remap::for_all_classes(dataset.classes(), setting.fold);
    let pool = scan(dataset, setting.support_split)?;
    let draws = draw::draws(plan, benchmark, setting.fold, &setting.classes, &pool)?;
    let memory = draw::remember(model, benchmark, &remap, &draws, &model.usage()?)?;
    let segmenters = classifiers((model, &second), plan, &setting.classes, &draws, &memory)?;
    let mut cells = empty_cells(model, plan, &setting.classes, &draws);

    let all = images_of(benchmark, &setting, pool)?;
    let queries = plan.queries(&all);
    if all.is_empty() {
        return Err(EvaluateError::NoImages { split: setting.split.to_string() });
    }
    let mut before: Vec<(Segmenter, Confusion)> = plan
        .usages
        .iter()
        .map(|usage| {
            let segmenter = Segmenter::with_classifier(model, model.base_classifier(usage), usage.clone());
            (segmenter.with_second(second.clone()), Confusion::new(setting.classes.n_base()))
        })
        .collect();
    for (done, &query) in queries.iter().enumerate() {
        progress(done, queries.len());
        let (image, truth) = benchmark.load_rows(query, &remap)?;
        let mut features = vec![model.sample_features(benchmark, query, &image)?];
        features.extend(second.as_ref().map(|second| second.features(&image.mirrored())));
        let mut seen_before = Vec::new();
        // Segmenters of one usage share what it sees.
        let looks: Vec<Looks> = before.iter().map(|(segmenter, _)| segmenter.looks_of(&features)).collect();
        for ((segmenter, counts), looks) in before.iter_mut().zip(&looks) {
            let grids = segmenter.grids(looks);
            let target = lookup::target(&labelled::base_only(&truth, counts.classes()), plan.protocol);
            let labels = lookup::scores_of_looks(segmenter, grids, plan.protocol, &target).labels();
            counts.add(&target, &labels);
            seen_before.push(labels);
        }
        let per_usage = segmenters.len() / looks.len().max(1);
        let grids: Vec<Vec<ScoreGrid>> = segmenters
            .par_iter()
            .enumerate()
            .map(|(place, (segmenter, _))| segmenter.grids(&looks[place / per_usage]))
            .collect();
        let target = lookup::target(&truth, plan.protocol);
        let predicted: Vec<RowMap> = grids
            .into_par_iter()
            .zip(&mut cells)
            .zip(&segmenters)
            .map(|((grids, cell), (segmenter, taught_by))| {
                let scores = lookup::scores_of_looks(segmenter, grids, plan.protocol, &target);
                let labels = scores.labels();
                // An image never counts for a classifier that it taught.
                if !taught_by.contains(&query) {
                    cell.counts.add(&target, &labels);
                    cell.confidence.add(&scores, &target, segmenter.temperature());
                }
                labels
            })
            .collect();
        let name = &dataset.samples()[query].name;
        let before = &seen_before[..];
        each(&EvaluatedImage { name, image: &image, truth: &truth, predicted: &predicted, before });
    }
    progress(queries.len(), queries.len());
    let before = before.into_iter().map(|(_, counts)| counts).collect();
    Ok(setting.finish(model, benchmark, plan, draws, (cells, before), [queries.len(), all.len()]))
}

/// The fold and the splits of an evaluation.
struct Setting<'a> {
    fold: &'a Fold,
    classes: Classes,
    split: &'a str,
    support_split: &'a str,
}

impl<'a> Setting<'a> {
    fn new(model: &Model, benchmark: &'a Benchmark, plan: &Evaluation) -> Result<Self, EvaluateError> {
        let dataset = benchmark.dataset.as_ref();
        let fold = benchmark.fold(plan.fold)?;
        let data = || dataset.name().to_string();
        if fold.novel().is_empty() {
            return Err(EvaluateError::NoNovel { fold: plan.fold, data: data() });
        }
        let classes = fold.classes(dataset.classes()).map_err(DataError::from)?;
        check_classes(model, &classes, plan.fold, dataset.name())?;
        let train = benchmark.train.as_str();
        let split = benchmark
            .val
            .as_deref()
            .ok_or_else(|| EvaluateError::NoSplit { data: data(), train: train.to_string() })?;
        let support_split = if plan.protocol.takes_supports_from_val() { split } else { train };
        Ok(Self { fold, classes, split, support_split })
    }

    /// The result of cells, and of each usage before teaching, that have counted `evaluated` of `of` images.
    fn finish(
        self,
        model: &Model,
        benchmark: &Benchmark,
        plan: &Evaluation,
        draws: Vec<Draw>,
        (mut cells, before): (Vec<Cell>, Vec<Confusion>),
        [evaluated, of]: [usize; 2],
    ) -> Evaluated {
        for cell in &mut cells {
            cell.scores = Scores::of(&cell.counts, &self.classes, plan.protocol);
        }
        let per_usage = (cells.len() / before.len().max(1)).max(1);
        let base_classes = self.classes.with_novel::<&str>(&[]).expect("fewer of the same names");
        for (cells, counts) in cells.chunks_mut(per_usage).zip(&before) {
            let base = Scores::of(counts, &base_classes, plan.protocol).base;
            cells.iter_mut().for_each(|cell| cell.base_before = Some(base));
        }
        Evaluated {
            split: self.split.to_string(),
            support_split: self.support_split.to_string(),
            images: evaluated,
            of,
            min_pixels: draw::min_pixels(plan, benchmark),
            size: model.preprocess().size,
            supports: draws.into_iter().map(|draw| draw.list).collect(),
            cells,
            before,
            classes: self.classes,
        }
    }
}

/// A segmenter for every usage, number of shots and draw, with the samples that taught it. `second` is the model of the
/// second look.
fn classifiers(
    (model, second): (&Model, &Option<Model>),
    plan: &Evaluation,
    classes: &Classes,
    draws: &[Draw],
    memory: &Memory,
) -> Result<Vec<(Segmenter, Vec<usize>)>, EvaluateError> {
    let names: Vec<&str> = classes.names(ClassRole::Novel).collect();
    let n_base = classes.n_base() as u16;
    let mut segmenters = Vec::new();
    for usage in &plan.usages {
        for &shots in &plan.shots {
            for draw in draws {
                let supports: Vec<_> =
                    draw.shots(shots, n_base).map(|support| memory[&support].clone()).collect();
                let taught_by = draw.shots(shots, n_base).map(|(sample, _)| sample).collect();
                let classifier = model.classifier(&names, &supports, usage)?;
                let segmenter = Segmenter::with_classifier(model, classifier, usage.clone());
                segmenters.push((segmenter.with_second(second.clone()), taught_by));
            }
        }
    }
    Ok(segmenters)
}

/// A cell for every usage, number of shots and draw, in the order of [`Evaluated::cells`]. A system for episodes has one
/// usage.
fn empty_cells(model: &Model, plan: &Evaluation, classes: &Classes, draws: &[Draw]) -> Vec<Cell> {
    let usages: Vec<(&'static str, String)> = match model.manifest().method.episodic() {
        Some(episodic) => vec![(episodic.name(), "all prototypes fed".to_string())],
        None => plan.usages.iter().map(|usage| (usage.variant(), usage.preset().to_string())).collect(),
    };
    let mut cells = Vec::new();
    for (variant, preset) in usages {
        for &shots in &plan.shots {
            for draw in draws {
                let counts = Confusion::new(classes.rows().len());
                let scores = Scores::of(&counts, classes, plan.protocol);
                let (preset, seed) = (preset.clone(), draw.seed);
                let (base_before, confidence) = (None, Trust::default());
                cells.push(Cell { variant, preset, shots, seed, counts, scores, base_before, confidence });
            }
        }
    }
    cells
}

/// Every image of the split that can be evaluated. `pool` is the scan of the support split.
fn images_of(
    benchmark: &Benchmark,
    setting: &Setting<'_>,
    pool: SplitStats,
) -> Result<Vec<usize>, EvaluateError> {
    let dataset = benchmark.dataset.as_ref();
    let stats = if setting.support_split == setting.split { pool } else { scan(dataset, setting.split)? };
    Ok(stats.for_evaluation(dataset.classes()))
}

/// At most `limit` of these, evenly spread.
fn evenly(all: &[usize], limit: usize) -> Vec<usize> {
    let wanted = limit.min(all.len());
    (0..wanted).map(|place| all[place * all.len() / wanted]).collect()
}

fn check_classes(model: &Model, classes: &Classes, fold: usize, data: &str) -> Result<(), EvaluateError> {
    let base = |classes: &Classes| -> Vec<String> {
        classes.rows()[..classes.n_base()].iter().map(|class| class.name.clone()).collect()
    };
    let (knows, has) = (base(model.classes()), base(classes));
    // An imported system for episodes may know no class by name; it is fed all of them.
    let is_nameless =
        model.manifest().method.episodic().is_some() && model.manifest().training.data.is_none();
    if knows == has || is_nameless {
        return Ok(());
    }
    let training = &model.manifest().training;
    let trained = match (&training.data, training.fold) {
        (Some(data), Some(fold)) => format!(": fold {fold} of {data}"),
        _ => String::new(),
    };
    Err(EvaluateError::OtherClasses {
        fold,
        data: data.to_string(),
        model: knows.join(", "),
        got: has.join(", "),
        trained,
    })
}
