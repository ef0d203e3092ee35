//! Base classes by one streaming pass over a labelled data set: counts, sums and second moments, nothing else.

use burn::tensor::{Tensor, TensorData};
use protoseg_core::{NovelPixels, Remap, RowMap};
use protoseg_data::{Benchmark, DataError, Progress, scan};
use rayon::prelude::*;

use super::{
    FromEncoderError,
    bank::{group_means, take_points},
    origin,
};
use crate::{
    method::{
        cosine::unit,
        prototypes::{Prototypes, moments::Moments, whitening::Whitening},
    },
    model::{Model, Training},
};

/// The share of the mean variance that is added to every direction. From 1 to 3 it hardly matters; 0.1 is too little.
const SHRINKAGE: f64 = 3.0;
/// Prototypes of a background, by default: one mean is too few for everything that it may be.
pub const BACKGROUND_ROWS: usize = 32;

impl Model {
    /// The same encoder with the base classes of a fold, from one pass over the training images that the rule
    /// `novel_pixels` keeps. A background gets up to `background_rows` prototypes, usually [`BACKGROUND_ROWS`].
    pub fn with_base(
        &self,
        benchmark: &Benchmark,
        fold: usize,
        novel_pixels: NovelPixels,
        background_rows: usize,
        progress: Progress<'_>,
    ) -> Result<Self, FromEncoderError> {
        let dataset = benchmark.dataset.as_ref();
        let stats = scan(dataset, &benchmark.train)?;
        let images = stats.for_base_training(dataset.classes(), benchmark.fold(fold)?, novel_pixels);
        self.with_base_of(benchmark, fold, novel_pixels, background_rows, &images, progress)
    }

    /// The same from these images, which the rule keeps.
    pub(crate) fn with_base_of(
        &self,
        benchmark: &Benchmark,
        fold: usize,
        novel_pixels: NovelPixels,
        background_rows: usize,
        images: &[usize],
        progress: Progress<'_>,
    ) -> Result<Self, FromEncoderError> {
        self.prototypes()?;
        let dataset = benchmark.dataset.as_ref();
        let (table, fold_index, fold) = (dataset.classes(), fold, benchmark.fold(fold)?);
        let remap = Remap::for_base_training(table, fold, novel_pixels).map_err(DataError::from)?;
        if images.is_empty() {
            return Err(FromEncoderError::NoImages { data: dataset.name().to_string() });
        }
        let classes = fold.classes(table).map_err(DataError::from)?;
        let n_base = classes.n_base();
        let counts = self.count(benchmark, &remap, images, n_base)?;
        if let Some(row) = counts.iter().position(|&count| count == 0) {
            return Err(FromEncoderError::NoPixels { class: classes.rows()[row].name.clone() });
        }

        let dim = self.config().dim;
        let has_background = classes.has_background();
        let mut moments = Moments::new(dim, &counts);
        let mut background: Vec<f32> = Vec::new();
        for (done, &index) in images.iter().enumerate() {
            progress(done, images.len());
            let (image, labels) = benchmark.load_rows(index, &remap)?;
            let features = self.sample_features(benchmark, index, &image)?;
            let labels = self.grid_labels(&labels, &features);
            if has_background {
                take_points(&features, |position| labels.data[position] == 0, &mut background);
            }
            moments.add(features, &labels);
        }
        progress(images.len(), images.len());

        let (centre, covariance) = moments.centre_and_covariance();
        let whitening = Whitening::new(&centre, &covariance, SHRINKAGE, self.device());
        let mut base: Vec<f32> = moments.means().iter().map(|&value| value as f32).collect();
        let mut base_rows = vec![1; n_base];
        if has_background {
            let rows = rows_of_background(&background, dim, background_rows, &whitening);
            base_rows[0] = rows.len() / dim;
            base.splice(..dim, rows);
        }
        let settings = Prototypes::learned(base_rows, has_background, SHRINKAGE);
        let training = Training {
            origin: origin(&self.manifest().training.origin, "statistics of", &[dataset.name().into()]),
            data: Some(dataset.name().to_string()),
            fold: Some(fold_index),
            novel_pixels: Some(novel_pixels),
            ..Training::default()
        };
        Ok(self.with_prototypes(classes, settings, (base, Some(whitening)), training))
    }

    /// Positions of each base class on the grids of all images. Only labels are read.
    fn count(
        &self,
        benchmark: &Benchmark,
        remap: &Remap,
        images: &[usize],
        n_base: usize,
    ) -> Result<Vec<u64>, FromEncoderError> {
        let preprocess = self.preprocess();
        let count = |&index: &usize| -> Result<Vec<u64>, DataError> {
            let labels = benchmark.load_label_rows(index, remap)?;
            let (width, height) = preprocess.canvas_size(labels.width, labels.height);
            let [height, width] = self.network().map_size([height, width]);
            let labels = preprocess.grid_label(&labels, width, height);
            let mut counts = vec![0; n_base];
            for &label in &labels.data {
                if let Some(count) = counts.get_mut(usize::from(label)) {
                    *count += 1;
                }
            }
            Ok(counts)
        };
        let counts: Vec<Vec<u64>> = images.par_iter().map(count).collect::<Result<_, _>>()?;
        let mut all = vec![0; n_base];
        counts.iter().for_each(|counts| all.iter_mut().zip(counts).for_each(|(all, count)| *all += count));
        Ok(all)
    }

    /// Labels of an image at the positions of its features.
    fn grid_labels(&self, labels: &RowMap, features: &Tensor<4>) -> RowMap {
        let [.., height, width] = features.dims();
        self.preprocess().grid_label(labels, width, height)
    }
}

/// Means of groups of background pixels that are similar in the whitened space, `[rows, dim]`.
fn rows_of_background(points: &[f32], dim: usize, rows: usize, whitening: &Whitening) -> Vec<f32> {
    let count = points.len() / dim;
    let device = whitening.matrix.val().device();
    let pixels = Tensor::<2>::from_data(TensorData::new(points.to_vec(), [count, dim]), &device);
    let whitened = unit(whitening.apply(pixels));
    let whitened: Vec<f32> = whitened.try_into_vec_as().expect("features are f32");
    group_means(points, &whitened, dim, rows)
}
