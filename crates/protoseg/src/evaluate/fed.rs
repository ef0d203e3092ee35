//! Systems for episodes in the generalized setting: the vectors of all base and novel classes are fed for every query.

use std::collections::{HashMap, hash_map::Entry};

use burn::tensor::Tensor;
use protoseg_core::{IGNORE, Remap, RowMap, ScoreGrid};
use protoseg_data::{Benchmark, Progress, scan};

use super::{
    EvaluateError, Evaluated, EvaluatedImage, Evaluation, Setting, draw, empty_cells, images_of, lookup,
};
use crate::{
    bridge::transposed,
    method::{Episodic, Fed, Maps, mask::FOREGROUND},
    model::{Model, ModelError},
};

/// The means of the base classes' vectors, and the sum and number of all.
struct BaseVectors {
    /// `[1, v]` for each base class but the background.
    classes: Vec<Tensor<2>>,
    sum: Tensor<2>,
    count: f64,
}

/// A model of a system for episodes, looked at through what it is fed.
struct Feeding<'a> {
    model: &'a Model,
    episodic: &'a dyn Episodic,
    fed: &'a dyn Fed,
    benchmark: &'a Benchmark,
    remap: Remap,
}

/// As [`super::evaluate`], for a model of a system for episodes.
pub(super) fn evaluate(
    model: &Model,
    benchmark: &Benchmark,
    plan: &Evaluation,
    progress: Progress<'_>,
    each: &mut dyn FnMut(&EvaluatedImage<'_>),
) -> Result<Evaluated, EvaluateError> {
    let method = &model.manifest().method;
    let fed = method.fed().map_err(|reason| EvaluateError::NotFed { method: method.name(), reason })?;
    let generalized = || ModelError::Generalized { method: method.name() };
    let episodic = method.episodic().ok_or_else(generalized)?;
    let dataset = benchmark.dataset.as_ref();
    let setting = Setting::new(model, benchmark, plan)?;
    let remap = Remap::for_all_classes(dataset.classes(), setting.fold);
    let pool = scan(dataset, setting.support_split)?;
    let draws = draw::draws(plan, benchmark, setting.fold, &setting.classes, &pool)?;
    let novel_pixels = model.manifest().training.novel_pixels.unwrap_or(benchmark.novel_pixels);
    let teachers =
        scan(dataset, &benchmark.train)?.for_base_training(dataset.classes(), setting.fold, novel_pixels);
    let all = images_of(benchmark, &setting, pool)?;
    let queries = plan.queries(&all);
    if all.is_empty() {
        return Err(EvaluateError::NoImages { split: setting.split.to_string() });
    }
    let feeding = Feeding { model, episodic, fed, benchmark, remap };
    let total = teachers.len() + queries.len();

    let n_base = setting.classes.n_base();
    let has_background = setting.classes.has_background();
    let first = usize::from(has_background);
    let rows = setting.classes.rows();
    let base = feeding.base_vectors(&teachers, first..n_base, &|done| progress(done, total))?;
    if let Some(missing) =
        base.missing(&rows[first..n_base].iter().map(|class| &class.name[..]).collect::<Vec<_>>())
    {
        return Err(EvaluateError::NoTeacher { class: missing, split: benchmark.train.clone() });
    }
    let BaseVectors { classes: base_classes, sum, count } = base;
    let base_classes = Tensor::cat(base_classes, 0);

    // What each support gives, once; then the vectors of every draw.
    let mut remembered: HashMap<(usize, u16), Tensor<2>> = HashMap::new();
    for (sample, row) in draws.iter().flat_map(|draw| draw.shots(usize::MAX, n_base as u16)) {
        if let Entry::Vacant(entry) = remembered.entry((sample, row)) {
            entry.insert(feeding.support_vectors(sample, row)?);
        }
    }
    let mut cells = empty_cells(model, plan, &setting.classes, &draws);
    let mut novel = Vec::new();
    for &shots in &plan.shots {
        for draw in &draws {
            let supports: Vec<(usize, u16)> = draw.shots(shots, n_base as u16).collect();
            let of_row = |row: u16| {
                let own = supports.iter().filter(|(_, of)| *of == row).map(|key| remembered[key].clone());
                Tensor::cat(own.collect(), 0)
            };
            let vectors: Vec<Tensor<2>> = (n_base as u16..rows.len() as u16).map(of_row).collect();
            let all_novel = Tensor::cat(vectors.clone(), 0);
            let [images, _] = all_novel.dims();
            let overall = (sum.clone() + all_novel.sum_dim(0)).div_scalar(count + images as f64);
            let means = vectors.into_iter().map(|vectors| vectors.mean_dim(0)).collect();
            let taught_by: Vec<usize> = supports.iter().map(|&(sample, _)| sample).collect();
            novel.push((Tensor::cat(means, 0), overall, taught_by));
        }
    }

    for (done, &query) in queries.iter().enumerate() {
        progress(teachers.len() + done, total);
        let (image, truth) = benchmark.load_rows(query, &feeding.remap)?;
        let maps = episodic.encode(&model.vision(), model.canvas(&image));
        let base_maps = fed.class_maps(model.network(), &maps, &base_classes);
        let target = lookup::target(&truth, plan.protocol);
        let mut predicted = Vec::with_capacity(cells.len());
        for ((vectors, overall, taught_by), cell) in novel.iter().zip(&mut cells) {
            let background = has_background.then(|| fed.background_map(model.network(), &maps, overall));
            let novel_maps = fed.class_maps(model.network(), &maps, vectors);
            let scores: Vec<Tensor<4>> =
                background.into_iter().chain([base_maps.clone(), novel_maps]).collect();
            let scores = grid(Tensor::cat(scores, 1));
            let labels = lookup::scores(scores, plan.protocol, model.preprocess(), &target).labels();
            if !taught_by.contains(&query) {
                cell.counts.add(&target, &labels);
            }
            predicted.push(labels);
        }
        let name = &dataset.samples()[query].name;
        each(&EvaluatedImage { name, image: &image, truth: &truth, predicted: &predicted, before: &[] });
    }
    progress(total, total);
    Ok(setting.finish(model, benchmark, plan, draws, (cells, Vec::new()), [queries.len(), all.len()]))
}

impl BaseVectors {
    /// The first class without a training image.
    fn missing(&self, names: &[&str]) -> Option<String> {
        let none = self.classes.iter().position(|vectors| vectors.dims()[0] == 0)?;
        Some(names[none].to_string())
    }
}

impl Feeding<'_> {
    /// One pass over the training images: the mean vectors of the base classes `rows`.
    fn base_vectors(
        &self,
        teachers: &[usize],
        rows: std::ops::Range<usize>,
        progress: &dyn Fn(usize),
    ) -> Result<BaseVectors, EvaluateError> {
        let mut sums: Vec<Option<(Tensor<2>, f64)>> = vec![None; rows.len()];
        for (done, &sample) in teachers.iter().enumerate() {
            progress(done);
            let (image, labels) = self.benchmark.load_rows(sample, &self.remap)?;
            let labels = self.model.preprocess().label(&labels);
            let present: Vec<u16> =
                labels.present().into_iter().filter(|&row| rows.contains(&usize::from(row))).collect();
            let Some(&first) = present.first() else { continue };
            // What a class's vectors are made of does not depend on the mask, only the prior does, which nobody is fed.
            let maps = self.encode(&image, &only(&labels, first));
            for row in present {
                let vectors = self.fed.class_vectors(self.model.network(), &maps, &[only(&labels, row)]);
                let place = &mut sums[usize::from(row) - rows.start];
                *place = Some(match place.take() {
                    None => (vectors, 1.0),
                    Some((sum, count)) => (sum + vectors, count + 1.0),
                });
            }
        }
        let found: Vec<&(Tensor<2>, f64)> = sums.iter().flatten().collect();
        let total = found.iter().map(|(sum, _)| sum.clone()).reduce(|sum, more| sum + more);
        let count = found.iter().map(|(_, count)| count).sum();
        let device = self.model.device();
        let width = total.as_ref().map_or(0, |sum| sum.dims()[1]);
        let mean = |sum: &Option<(Tensor<2>, f64)>| match sum {
            Some((sum, count)) => sum.clone().div_scalar(*count),
            None => Tensor::zeros([0, width], device),
        };
        let sum = total.unwrap_or_else(|| Tensor::zeros([1, width], device));
        Ok(BaseVectors { classes: sums.iter().map(mean).collect(), sum, count })
    }

    /// The vectors of one support, `[1, v]`.
    fn support_vectors(&self, sample: usize, row: u16) -> Result<Tensor<2>, EvaluateError> {
        let (image, labels) = self.benchmark.load_rows(sample, &self.remap)?;
        let label = only(&self.model.preprocess().label(&labels), row);
        let maps = self.encode(&image, &label);
        Ok(self.fed.class_vectors(self.model.network(), &maps, std::slice::from_ref(&label)))
    }

    fn encode(&self, image: &protoseg_core::Image, label: &RowMap) -> Maps {
        let canvas = self.model.canvas(image);
        self.episodic.encode_supports(&self.model.vision(), canvas, std::slice::from_ref(label))
    }
}

/// A class against everything else.
fn only(labels: &RowMap, row: u16) -> RowMap {
    let label = |&label: &u16| match label {
        IGNORE => IGNORE,
        label if label == row => FOREGROUND,
        _ => 0,
    };
    RowMap::new(labels.width, labels.height, labels.data.iter().map(label).collect())
}

fn grid(scores: Tensor<4>) -> ScoreGrid {
    let [_, classes, height, width] = scores.dims();
    ScoreGrid::new(classes, height, width, transposed(scores.reshape([classes, height * width])))
}
