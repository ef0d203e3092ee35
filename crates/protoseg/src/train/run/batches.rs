//! The batches of a run as they are loaded: crops of labelled images or of their features, or of the queries and supports
//! of episodes.
//!
//! A batch depends on (seed, epoch, index) alone, so a run goes on at any of them.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use protoseg_core::{Cropper, IGNORE, Preprocess, Remap, RowMap};
use protoseg_data::{Benchmark, DataError, DrawnEpisode, EpisodePool, Loader, LoaderOptions, SampleRng};

use crate::{
    from_encoder::FeatureCache,
    method::{ClassLabels, Episodes, Images, TrainingBatch},
    model::Model,
    train::{Plan, TrainError},
};

/// Makes the batches of epochs.
pub type Batches = Loader<usize, Loaded, DataError>;

/// A batch in memory.
pub struct Loaded {
    /// Labelled images, or queries.
    images: Crops,
    /// Of episodes; shots of an episode together.
    supports: Option<Crops>,
}

/// Crops of one size.
struct Crops {
    /// 3, or those of features.
    channels: usize,
    side: usize,
    values: Vec<f32>,
    /// Rows of the classifier.
    rows: Vec<RowMap>,
    /// 1 is the class that the episode asks for, 0 everything else.
    masks: Vec<RowMap>,
    /// Indices into the data set's samples.
    samples: Vec<usize>,
}

impl Crops {
    fn new(count: usize, side: usize, with_masks: bool) -> Self {
        Self::of_channels(3, count, side, with_masks)
    }

    fn of_channels(channels: usize, count: usize, side: usize, with_masks: bool) -> Self {
        let blank = || RowMap::new(side, side, vec![0; side * side]);
        Self {
            channels,
            side,
            values: vec![0.0; count * channels * side * side],
            rows: vec![blank(); count],
            masks: if with_masks { vec![blank(); count] } else { Vec::new() },
            samples: vec![0; count],
        }
    }

    /// Writes a crop to its place; if a class is asked for, it stays in sight.
    fn fill(
        &mut self,
        place: usize,
        sample: usize,
        asked: Option<u16>,
        source: &Source,
        cropper: &Cropper,
        rng: &mut SampleRng,
    ) -> Result<(), DataError> {
        let (image, label) = source.benchmark.load_rows(sample, &source.remap)?;
        let length = 3 * self.side * self.side;
        let (values, rows) = (&mut self.values[place * length..][..length], &mut self.rows[place].data);
        self.samples[place] = sample;
        let Some(asked) = asked else {
            cropper.crop(rng, &image, &label, values, rows);
            return Ok(());
        };
        cropper.crop_with(asked, rng, &image, &label, values, rows);
        let mask = |&row: &u16| if row == IGNORE { IGNORE } else { u16::from(row == asked) };
        let masks = self.masks[place].data.iter_mut();
        masks.zip(&*rows).for_each(|(label, row)| *label = mask(row));
        Ok(())
    }

    /// `[crops, channels, side, side]`; the values are gone afterwards.
    fn tensor(&mut self, device: &Device) -> Tensor<4> {
        let shape = [self.rows.len(), self.channels, self.side, self.side];
        Tensor::from_data(TensorData::new(std::mem::take(&mut self.values), shape), device)
    }
}

impl Loaded {
    /// Images or episodes.
    pub fn len(&self) -> usize {
        self.images.rows.len()
    }

    /// All images, the supports included.
    pub fn n_images(&self) -> usize {
        self.len() + self.supports.as_ref().map_or(0, |supports| supports.rows.len())
    }

    /// Indices of all images into the data set's samples.
    pub fn samples(&self) -> Vec<usize> {
        let supports = self.supports.iter().flat_map(|supports| &supports.samples);
        self.images.samples.iter().chain(supports).copied().collect()
    }

    /// The batch as a step takes it. Its pictures are gone afterwards.
    pub fn batch(&mut self, device: &Device) -> TrainingBatch<'_> {
        let images = self.images.tensor(device);
        let Some(supports) = &mut self.supports else {
            return TrainingBatch::Images(Images { images, labels: &self.images.rows });
        };
        let (episodes, all) = (self.images.rows.len(), supports.rows.len());
        let shape = [episodes, all / episodes, 3, supports.side, supports.side];
        TrainingBatch::Episodes(Episodes {
            queries: images,
            query_labels: &self.images.masks,
            supports: supports.tensor(device).reshape(shape),
            support_labels: &supports.masks,
            classes: Some(ClassLabels { queries: &self.images.rows, supports: &supports.rows }),
        })
    }
}

/// Where images come from and how their labels become rows.
pub struct Source {
    pub benchmark: Arc<Benchmark>,
    pub remap: Remap,
    pub fold: usize,
}

/// Batches of labelled images.
pub fn of_images(
    plan: &Plan,
    items: Vec<usize>,
    source: Source,
    preprocess: &Preprocess,
) -> Result<Batches, TrainError> {
    let (cropper, crop) = (plan.cropper(preprocess), plan.training.crop);
    let start = move |count| Loaded { images: Crops::new(count, crop, false), supports: None };
    let loader = Loader::collating(items, options(plan), start, move |batch, place, &index, rng| {
        batch.images.fill(place, index, None, &source, &cropper, rng)
    })?;
    Ok(loader)
}

/// Batches of parts of the features of labelled images.
pub fn of_features(
    plan: &Plan,
    items: Vec<usize>,
    source: Source,
    model: Model,
) -> Result<Batches, TrainError> {
    let crop = plan.training.crop.min(model.preprocess().size);
    let side = model.network().map_size([crop, crop])[0];
    let cache = FeatureCache::new(model, source.remap)?;
    let (channels, benchmark) = (cache.dim(), source.benchmark);
    let start =
        move |count| Loaded { images: Crops::of_channels(channels, count, side, false), supports: None };
    let length = channels * side * side;
    let loader = Loader::collating(items, options(plan), start, move |batch, place, &index, rng| {
        let Crops { values, rows, samples, .. } = &mut batch.images;
        samples[place] = index;
        let values = &mut values[place * length..][..length];
        cache.crop(&benchmark, index, rng, values, &mut rows[place])
    })?;
    Ok(loader)
}

/// Batches of episodes. Each query of the pool is visited once in an epoch, unless the plan says how many episodes
/// there are.
pub fn of_episodes(
    plan: &Plan,
    pool: EpisodePool,
    source: Source,
    preprocess: &Preprocess,
) -> Result<Batches, TrainError> {
    let (queries, supports) = (plan.cropper(preprocess), plan.support_cropper(preprocess));
    let (crop, shots) = (plan.training.crop, plan.training.shots);
    let per_epoch = plan.training.episodes.unwrap_or(pool.queries().len());
    let all = per_epoch.max(pool.queries().len());
    let items: Vec<usize> = pool.queries().iter().copied().cycle().take(all).collect();
    let start = move |count| Loaded {
        images: Crops::new(count, crop, true),
        supports: Some(Crops::new(count * shots, crop, true)),
    };
    let fill = move |batch: &mut Loaded, place: usize, &query: &usize, rng: &mut SampleRng| {
        let DrawnEpisode { class, supports: drawn } = pool.draw(query, shots, rng);
        let row = source.benchmark.fold(source.fold)?.row(class).expect("pools hold classes of the fold");
        let row = row as u16;
        batch.images.fill(place, query, Some(row), &source, &queries, rng)?;
        let own = batch.supports.as_mut().expect("a batch of episodes has supports");
        for (shot, sample) in drawn.into_iter().enumerate() {
            own.fill(place * shots + shot, sample, Some(row), &source, &supports, rng)?;
        }
        Ok(())
    };
    Ok(Loader::collating(items, options(plan), start, fill)?.take(per_epoch)?)
}

fn options(plan: &Plan) -> LoaderOptions {
    LoaderOptions {
        batch_size: plan.training.batch,
        seed: plan.seed,
        shuffle: true,
        // As in the reference: a last batch of one image would have no fake support.
        drop_last: true,
        workers: plan.data.workers,
        prefetch: 2 * plan.data.workers,
        on_error: plan.data.on_error,
    }
}
