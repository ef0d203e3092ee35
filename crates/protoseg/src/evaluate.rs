//! Evaluation: base, novel and total scores of a model on a data set, for every draw of supports and every variant of the
//! method, with the features of each image computed once.

use std::collections::{HashMap, hash_map::Entry};

use protoseg_core::{
    Classes, Confusion, Image, Preprocess, Protocol, Remap, RowMap, ScoreGrid, ScoreMap, Scores, SupportDraw,
    SupportList,
};
use protoseg_data::{Benchmark, DataError, Progress, scan};
use rayon::prelude::*;

use crate::{
    method::capl::{gate::Gate, method::Parts, options::Options, support::SupportSums},
    model::Model,
    predict::Predictor,
    register::RegisterError,
};

/// What is to be evaluated.
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub fold: usize,
    pub protocol: Protocol,
    pub shots: Vec<usize>,
    pub seeds: Vec<u64>,
    pub variants: Vec<Variant>,
    /// The fewest pixels of its class a drawn support holds; the benchmark's own rule by default.
    pub min_pixels: Option<u64>,
    /// At most so many images, evenly taken from the split; a result with a limit is no result of the benchmark.
    pub limit: Option<usize>,
}

/// One way to use a trained model.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub use_of: UseOf,
    /// What the options are called.
    pub preset: String,
    pub options: Options,
}

/// Which parts of the method act at registration and on an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseOf {
    /// Novel prototypes beside the learned base rows.
    Baseline,
    Sce,
    Dqce,
    /// SCE and DQCE.
    Capl,
}

impl UseOf {
    pub const ALL: [Self; 4] = [Self::Baseline, Self::Sce, Self::Dqce, Self::Capl];

    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Sce => "sce",
            Self::Dqce => "dqce",
            Self::Capl => "capl",
        }
    }

    /// With the gates that the model has: a support gate that was never trained is the constant 0.5.
    pub fn parts(self, model: &Model) -> Parts {
        let (own, network) = (model.manifest.inference(), &model.manifest.network);
        let untrained = if network.support_mlp { Gate::Mlp } else { Gate::Constant(0.5) };
        let (sce, dqce) = match self {
            Self::Baseline => (false, false),
            Self::Sce => (true, false),
            Self::Dqce => (false, true),
            Self::Capl => (true, true),
        };
        Parts {
            fake_novel: false,
            sce: sce.then(|| own.sce.unwrap_or(untrained)),
            dqce: dqce.then(|| own.dqce.unwrap_or(Gate::Cosine)),
        }
    }
}

/// What an evaluation came to.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Base classes, then the fold's novel ones.
    pub classes: Classes,
    /// The split whose images were judged, and the one that supports came from.
    pub split: String,
    pub support_split: String,
    /// Images that were judged, of how many that could be.
    pub images: usize,
    pub of: usize,
    pub min_pixels: u64,
    /// One a seed, with the most shots; fewer shots are its beginning.
    pub supports: Vec<SupportList>,
    /// By variant, then shots, then seed.
    pub cells: Vec<Cell>,
}

/// One variant with one draw of supports.
#[derive(Clone, Debug)]
pub struct Cell {
    pub variant: Variant,
    pub shots: usize,
    pub seed: u64,
    pub counts: Confusion,
    pub scores: Scores,
}

/// An image that was just judged.
pub struct Judged<'a> {
    pub name: &'a str,
    pub image: &'a Image,
    pub truth: &'a RowMap,
    /// What each cell made of it, in the order of [`Evaluated::cells`]. Under [`Protocol::Reference`] they are squares, and
    /// the image lies at their top left.
    pub predicted: &'a [RowMap],
}

/// What cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(
        "the model and fold `{fold}` of `{data}` do not have the same base classes: the model knows {model}; the fold has {got}\n\
         hint: choose the fold that the model was trained on{trained}"
    )]
    OtherClasses { fold: usize, data: String, model: String, got: String, trained: String },
    #[error(
        "fold `{fold}` of `{data}` has no novel class\nhint: describe folds in a .toml file, see docs/formats.md"
    )]
    NoNovel { fold: usize, data: String },
    #[error(
        "`{data}` has no split besides `{train}` to evaluate on\nhint: describe a second split in a .toml file"
    )]
    NoSplit { data: String, train: String },
    #[error("no image of split `{split}` can be judged\nhint: look at it with `protoseg data check`")]
    NoImages { split: String },
}

/// Evaluates `model` on a benchmark. `progress` is told of images done, `judged` of every image.
pub fn evaluate(
    model: &Model,
    benchmark: &Benchmark,
    plan: &Evaluation,
    progress: Progress<'_>,
    mut judged: impl FnMut(&Judged<'_>),
) -> Result<Evaluated, EvaluateError> {
    let dataset = benchmark.dataset.as_ref();
    let fold = benchmark.fold(plan.fold)?;
    let data = || dataset.name().to_string();
    if fold.novel().is_empty() {
        return Err(EvaluateError::NoNovel { fold: plan.fold, data: data() });
    }
    let classes = fold.classes(dataset.classes()).map_err(DataError::from)?;
    check_classes(model, &classes, plan.fold, dataset.name())?;
    let train = &benchmark.train;
    let split = benchmark
        .val
        .as_ref()
        .ok_or_else(|| EvaluateError::NoSplit { data: data(), train: train.clone() })?;
    let support_split = if plan.protocol == Protocol::B { split } else { train };

    // Supports: every draw, and the sums of each image once.
    let remap = Remap::for_all_classes(dataset.classes(), fold);
    let most = plan.shots.iter().copied().max().unwrap_or(1);
    let pool = scan(dataset, support_split)?;
    let min_pixels = plan.min_pixels.unwrap_or(benchmark.min_support_pixels);
    let n_base = classes.n_base() as u16;
    let mut sums: HashMap<(usize, u16), SupportSums> = HashMap::new();
    let mut draws: Vec<Vec<Vec<usize>>> = Vec::new();
    let mut supports = Vec::new();
    for &seed in &plan.seeds {
        let draw = SupportDraw { n_shots: most, seed, min_pixels };
        let (list, drawn) = pool.draw_supports(dataset, fold, draw)?;
        for (novel, samples) in (n_base..).zip(&drawn) {
            for &sample in samples {
                if let Entry::Vacant(entry) = sums.entry((sample, novel)) {
                    let (image, label) = benchmark.load_rows(sample, &remap)?;
                    let label = model.manifest.preprocess.label(&label);
                    entry.insert(model.pool_support(novel, model.features(&image), &label));
                }
            }
        }
        draws.push(drawn);
        supports.push(list);
    }

    let names: Vec<&str> = classes.names(protoseg_core::ClassRole::Novel).collect();
    let mut cells = Vec::new();
    let mut predictors: Vec<(Predictor<'_>, Vec<usize>)> = Vec::new();
    for variant in &plan.variants {
        let (parts, options) = (variant.use_of.parts(model), variant.options.clone());
        for &shots in &plan.shots {
            for (&seed, drawn) in plan.seeds.iter().zip(&draws) {
                let mut own = Vec::new();
                let mut used = Vec::new();
                for (novel, samples) in (n_base..).zip(drawn) {
                    for &sample in samples.iter().take(shots) {
                        own.push(sums[&(sample, novel)].clone());
                        used.push(sample);
                    }
                }
                let bank = model.bank(&names, &own, parts, &options)?;
                let options = options.clone();
                predictors.push((Predictor { model, bank, dqce: parts.dqce, options }, used));
                let counts = Confusion::new(classes.rows().len());
                let scores = Scores::of(&counts, &classes, plan.protocol);
                cells.push(Cell { variant: variant.clone(), shots, seed, counts, scores });
            }
        }
    }

    let stats = if support_split == split { pool } else { scan(dataset, split)? };
    let all = stats.for_evaluation(dataset.classes());
    let queries = evenly(&all, plan.limit.unwrap_or(all.len()));
    if queries.is_empty() {
        return Err(EvaluateError::NoImages { split: split.clone() });
    }
    for (done, &query) in queries.iter().enumerate() {
        progress(done, queries.len());
        let (image, truth) = benchmark.load_rows(query, &remap)?;
        let features = model.features(&image);
        let grids: Vec<ScoreGrid> =
            predictors.iter().map(|(predictor, _)| predictor.grid(features.clone())).collect();
        let preprocess = &model.manifest.preprocess;
        let target = match plan.protocol {
            Protocol::Reference => on_square(&truth),
            _ => truth.clone(),
        };
        let predicted: Vec<RowMap> = grids
            .into_par_iter()
            .zip(&mut cells)
            .zip(&predictors)
            .map(|((grid, cell), (_, used))| {
                let labels = label(grid, plan.protocol, preprocess, &target);
                // An image never judges a classifier that it taught.
                if !used.contains(&query) {
                    cell.counts.add(&target, &labels);
                }
                labels
            })
            .collect();
        let name = &dataset.samples()[query].name;
        judged(&Judged { name, image: &image, truth: &truth, predicted: &predicted });
    }
    progress(queries.len(), queries.len());
    for cell in &mut cells {
        cell.scores = Scores::of(&cell.counts, &classes, plan.protocol);
    }
    Ok(Evaluated {
        classes,
        split: split.clone(),
        support_split: support_split.clone(),
        images: queries.len(),
        of: all.len(),
        min_pixels,
        supports,
        cells,
    })
}

/// Labels of a grid's picture as the protocol looks it up; `target` has the size that is judged at.
fn label(grid: ScoreGrid, protocol: Protocol, preprocess: &Preprocess, target: &RowMap) -> RowMap {
    let (width, height) = (target.width, target.height);
    match protocol {
        Protocol::Exact | Protocol::B => ScoreMap::on_canvas(grid, preprocess, width, height).labels(),
        Protocol::Reference => {
            let canvas = grid.upsample(preprocess.size, preprocess.size);
            ScoreMap::stretched(canvas, width, height).labels()
        }
    }
}

/// A label map at the top left of a square of its longer side; nothing is judged in the rest.
fn on_square(label: &RowMap) -> RowMap {
    let side = label.width.max(label.height);
    let mut data = vec![protoseg_core::IGNORE; side * side];
    for (to, from) in data.chunks_exact_mut(side.max(1)).zip(label.data.chunks_exact(label.width.max(1))) {
        to[..label.width].copy_from_slice(from);
    }
    RowMap::new(side, side, data)
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
    let (knows, has) = (base(&model.manifest.classes), base(classes));
    if knows == has {
        return Ok(());
    }
    let training = &model.manifest.training;
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
