//! Features of a frozen encoder that a head learns from: computed once, then cut and flipped at random.
//!
//! A flipped map is not exactly the map of the flipped image: at strides of 2 the encoder pads one side more than the
//! other. Neither is a part of a map that of a part of the image, whose surroundings it has seen.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    sync::{Arc, Mutex, PoisonError},
};

use half::f16;
use protoseg_core::{IGNORE, Remap, RowMap};
use protoseg_data::{Benchmark, DataError};
use rand::Rng;

use super::feature_store::grid;
use crate::model::Model;

/// Features of images with 16 bits per value, computed when an image is first asked for. They lie where the model
/// [keeps](Model::keep_features) them, or in a temporary file that goes when this does.
pub(crate) struct FeatureCache {
    model: Model,
    remap: Remap,
    kept: Mutex<Kept>,
}

struct Kept {
    file: File,
    images: HashMap<usize, Arc<KeptImage>>,
    end: u64,
}

struct KeptImage {
    /// In the temporary file.
    offset: u64,
    /// Channels, height and width of what is kept.
    size: [usize; 3],
    /// On the grid, without what lies beside the picture on the canvas.
    labels: RowMap,
}

/// A part of an image on the grid.
#[derive(Clone, Copy, Debug)]
struct Crop {
    left: usize,
    top: usize,
    side: usize,
    /// Left and right exchanged.
    flip: bool,
}

impl FeatureCache {
    /// For images seen by this model, with labels by this table.
    pub fn new(model: Model, remap: Remap) -> Result<Self, DataError> {
        let file = tempfile::tempfile().map_err(cannot_keep)?;
        let kept = Mutex::new(Kept { file, images: HashMap::new(), end: 0 });
        Ok(Self { model, remap, kept })
    }

    /// Channels of the features.
    pub fn dim(&self) -> usize {
        self.model.config().dim
    }

    /// Computes the features of an image, unless they are there.
    pub fn keep(&self, benchmark: &Benchmark, index: usize) -> Result<(), DataError> {
        self.image(benchmark, index).map(|_| ())
    }

    /// A random square part of an image, flipped half of the time: its features, `[d, side, side]`, and its labels. Beyond
    /// the picture its edge is repeated, without labels.
    pub fn crop(
        &self,
        benchmark: &Benchmark,
        index: usize,
        rng: &mut impl Rng,
        features: &mut [f32],
        labels: &mut RowMap,
    ) -> Result<(), DataError> {
        let image = self.image(benchmark, index)?;
        let side = labels.width;
        let mut start = |length: usize| rng.random_range(0..=length.saturating_sub(side));
        let (left, top) = (start(image.labels.width), start(image.labels.height));
        let crop = Crop { left, top, side, flip: rng.random_bool(0.5) };
        let bytes = self.read(benchmark, index, &image)?;
        cut(&bytes, image.size, &image.labels, crop, features, labels);
        Ok(())
    }

    /// What is kept of an image.
    fn read(&self, benchmark: &Benchmark, index: usize, image: &KeptImage) -> Result<Vec<u8>, DataError> {
        if let Some(store) = self.model.store().filter(|store| store.is_kept()) {
            return match store.read(benchmark, index, image.size) {
                Some(bytes) => Ok(bytes),
                // Somebody removed or damaged it in the meantime.
                None => store.bytes(&self.model, benchmark, index, &benchmark.dataset.image(index)?),
            };
        }
        let mut bytes = vec![0; image.size.iter().product::<usize>() * size_of::<f16>()];
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let read = kept.file.seek(SeekFrom::Start(image.offset));
        read.and_then(|_| kept.file.read_exact(&mut bytes)).map_err(cannot_keep)?;
        Ok(bytes)
    }

    fn image(&self, benchmark: &Benchmark, index: usize) -> Result<Arc<KeptImage>, DataError> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = lock().images.get(&index) {
            return Ok(Arc::clone(image));
        }
        let (image, labels) = benchmark.load_rows(index, &self.remap)?;
        let [_, height, width] = grid(&self.model, image.width, image.height);
        let preprocess = self.model.preprocess();
        let labels = preprocess.grid_label(&labels, width, height);
        let (across, down) = preprocess.content(image.width, image.height);
        let canvas = preprocess.canvas_size(image.width, image.height);
        let part = |content: usize, positions: usize, canvas: usize| {
            (content * positions).div_ceil(canvas.max(1)).clamp(1, positions)
        };
        let content = (part(across, width, canvas.0), part(down, height, canvas.1));
        let image = match self.model.store().filter(|store| store.is_kept()) {
            Some(store) => {
                store.bytes(&self.model, benchmark, index, &image)?;
                let size = [self.dim(), height, width];
                KeptImage { offset: 0, size, labels: top_left(&labels, content) }
            }
            None => {
                let features = self.model.sample_features(benchmark, index, &image)?;
                let features: Vec<f32> = features.try_into_vec_as().expect("features are f32");
                let bytes = pack(&features, &labels, content);
                let mut kept = lock();
                let offset = kept.end;
                let written = kept.file.seek(SeekFrom::Start(offset));
                written.and_then(|_| kept.file.write_all(&bytes)).map_err(cannot_keep)?;
                kept.end += bytes.len() as u64;
                KeptImage {
                    offset,
                    size: [self.dim(), content.1, content.0],
                    labels: top_left(&labels, content),
                }
            }
        };
        let image = Arc::new(image);
        lock().images.insert(index, Arc::clone(&image));
        Ok(image)
    }
}

fn cannot_keep(source: io::Error) -> DataError {
    DataError::Write { path: std::env::temp_dir(), source }
}

/// The first `content` columns and rows of features `[d, height, width]` of a whole canvas.
fn pack(features: &[f32], labels: &RowMap, (width, height): (usize, usize)) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(features.len() * size_of::<f16>());
    for plane in features.chunks_exact(labels.width * labels.height) {
        for line in plane.chunks_exact(labels.width).take(height) {
            bytes.extend(line[..width].iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()));
        }
    }
    bytes
}

/// The first columns and rows of labels.
fn top_left(labels: &RowMap, (width, height): (usize, usize)) -> RowMap {
    let rows = labels.data.chunks_exact(labels.width).take(height);
    RowMap::new(width, height, rows.flat_map(|row| row[..width].to_vec()).collect())
}

/// A part of features `[d, height, width]`, of which those with labels are the picture's.
fn cut(
    bytes: &[u8],
    [_, down, across]: [usize; 3],
    kept: &RowMap,
    crop: Crop,
    features: &mut [f32],
    labels: &mut RowMap,
) {
    let [width, height] = [kept.width, kept.height];
    let place = |at: usize| if crop.flip { crop.side - 1 - at } else { at };
    let columns: Vec<usize> = (0..crop.side).map(|x| crop.left + place(x)).collect();
    let rows: Vec<usize> = (0..crop.side).map(|y| crop.top + y).collect();
    let (values, _) = bytes.as_chunks::<2>();
    let mut lines = features.chunks_exact_mut(crop.side);
    for plane in values.chunks_exact(across * down) {
        for (&y, line) in rows.iter().zip(&mut lines) {
            let kept = &plane[y.min(height - 1) * across..][..width];
            for (value, &x) in line.iter_mut().zip(&columns) {
                *value = f16::from_le_bytes(kept[x.min(width - 1)]).to_f32();
            }
        }
    }
    let label = |(&y, &x): (&usize, &usize)| {
        if y < height && x < width { kept.data[y * width + x] } else { IGNORE }
    };
    let places = rows.iter().flat_map(|y| columns.iter().map(move |x| (y, x)));
    labels.data.iter_mut().zip(places.map(label)).for_each(|(to, label)| *to = label);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_image_come_back_as_they_were() {
        // A canvas of 3 x 2 with two channels, of which two columns are picture.
        let features: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let labels = RowMap::new(3, 2, vec![0, 1, 9, 2, 3, 9]);
        let (bytes, kept) = (pack(&features, &labels, (2, 2)), top_left(&labels, (2, 2)));
        let whole = pack(&features, &labels, (3, 2));
        assert_eq!((kept.width, kept.height), (2, 2));
        let read = |crop: Crop| {
            let read = |bytes: &[u8], size: [usize; 3]| {
                let (mut features, mut labels) = (vec![0.0; 8], RowMap::new(2, 2, vec![7; 4]));
                cut(bytes, size, &kept, crop, &mut features, &mut labels);
                (features, labels.data)
            };
            let part = read(&bytes, [2, 2, 2]);
            assert_eq!(read(&whole, [2, 2, 3]), part, "what lies beside the picture is never seen");
            part
        };
        let (features, labels) = read(Crop { left: 0, top: 0, side: 2, flip: false });
        assert_eq!(features, [0.0, 1.0, 3.0, 4.0, 6.0, 7.0, 9.0, 10.0]);
        assert_eq!(labels, [0, 1, 2, 3]);
        let (features, labels) = read(Crop { left: 1, top: 0, side: 2, flip: true });
        assert_eq!(features, [1.0, 1.0, 4.0, 4.0, 7.0, 7.0, 10.0, 10.0]);
        assert_eq!(labels, [IGNORE, 1, IGNORE, 3]);
    }
}
