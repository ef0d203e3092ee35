//! The bank: what the rest of the world looks like, as rows.
//!
//! What the supports of a class show around it is never enough to tell it from everything else. Photos of other things
//! are: their background pixels, in groups of similar ones, are rows that pixels of later images may resemble more than
//! the class.

use std::path::PathBuf;

use burn::tensor::Tensor;
use protoseg_data::{Benchmark, Progress};

use super::{FromEncoderError, origin};
use crate::{
    method::prototypes::{Prototypes, kmeans::kmeans},
    model::{Model, Training},
};

/// Pixels that are taken from an image, evenly.
const PER_IMAGE: usize = 64;
/// Multiply-accumulates that a bank may cost, about a minute on two CPUs. A large encoder looks at fewer images, evenly
/// taken.
const MOST_WORK: u64 = 5_000_000_000_000;
/// Images that are looked at, whatever they cost.
const LEAST_IMAGES: usize = 64;

impl Model {
    /// The same encoder, with a background of at most `rows` rows made of the background pixels of these data sets;
    /// of all pixels where a data set has no background.
    pub fn with_bank(
        &self,
        sources: &[Benchmark],
        rows: usize,
        progress: Progress<'_>,
    ) -> Result<Self, FromEncoderError> {
        self.prototypes()?;
        let all: Vec<(&Benchmark, usize)> = sources
            .iter()
            .flat_map(|source| (0..source.dataset.samples().len()).map(move |index| (source, index)))
            .collect();
        let size = self.preprocess().size;
        let affordable = MOST_WORK / self.network().macs([size, size]).computed.max(1);
        let total = all.len().min(LEAST_IMAGES.max(affordable as usize));
        let mut points: Vec<f32> = Vec::new();
        for done in 0..total {
            progress(done, total);
            let (source, index) = all[done * all.len() / total];
            self.add_points(source, index, &mut points)?;
        }
        progress(total, total);
        let names: Vec<PathBuf> = sources.iter().map(|source| source.dataset.name().into()).collect();
        if points.is_empty() {
            let data = names.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ");
            return Err(FromEncoderError::NoImages { data });
        }
        // Pixels of joined maps are of unit length as they are.
        let bank = group_means(&points, &points, self.config().dim, rows);
        let settings = Prototypes::taught(bank.len() / self.config().dim);
        let before = &self.manifest().training;
        let training = Training { origin: origin(&before.origin, "background of", &names), ..before.clone() };
        Ok(self.with_prototypes(self.classes().clone(), settings, (bank, None), training))
    }

    /// Features at some background pixels of an image.
    fn add_points(
        &self,
        source: &Benchmark,
        index: usize,
        points: &mut Vec<f32>,
    ) -> Result<(), FromEncoderError> {
        let (image, labels) = source.dataset.load(index)?;
        let preprocess = self.preprocess();
        let features = self.features(&image);
        let [.., height, width] = features.dims();
        let labels = preprocess.grid_label(&labels, width, height);
        let background = source.dataset.classes().background();
        let ignore = source.dataset.classes().ignore();
        let is_wanted = |label: u16| match background {
            Some(background) => label == background.0,
            None => label != protoseg_core::IGNORE && !ignore.contains(&label),
        };
        take_points(&features, |position| is_wanted(labels.data[position]), points);
        Ok(())
    }
}

/// Features `[1, d, h, w]` at some of the positions that are wanted, evenly taken.
pub(super) fn take_points(features: &Tensor<4>, is_wanted: impl Fn(usize) -> bool, points: &mut Vec<f32>) {
    let [_, dim, height, width] = features.dims();
    let positions: Vec<usize> = (0..height * width).filter(|&position| is_wanted(position)).collect();
    if positions.is_empty() {
        return;
    }
    let values: Vec<f32> = features.clone().try_into_vec_as().expect("features are f32");
    let wanted = PER_IMAGE.min(positions.len());
    for place in 0..wanted {
        let position = positions[place * positions.len() / wanted];
        points.extend((0..dim).map(|channel| values[channel * height * width + position]));
    }
}

/// The mean of each group of points, `[groups, dim]`, that are similar by `directions`, which are of unit length.
pub(super) fn group_means(points: &[f32], directions: &[f32], dim: usize, groups: usize) -> Vec<f32> {
    let group_of = kmeans(directions, dim, groups);
    let count = group_of.iter().max().map_or(0, |last| last + 1);
    let mut sums = vec![0.0f64; count * dim];
    let mut members = vec![0.0f64; count];
    for (point, &group) in points.chunks_exact(dim).zip(&group_of) {
        members[group] += 1.0;
        sums[group * dim..][..dim].iter_mut().zip(point).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    sums.chunks_exact(dim)
        .zip(members)
        .flat_map(|(sum, count)| sum.iter().map(move |sum| (sum / count) as f32))
        .collect()
}
