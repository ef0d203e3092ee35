//! Features of a data set's images by a frozen encoder, kept on disk from run to run with 16 bits per value.
//!
//! One file per image, under the fingerprint of what computes it. A file is written whole or not at all, so several
//! processes can share the folder. A file that is damaged, or of an image that has changed, is made again.

use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use burn::tensor::{Tensor, TensorData};
use half::f16;
use protoseg_core::Image;
use protoseg_data::{Benchmark, DataError, create_dir, write_whole};

use crate::model::Model;

/// What a file of features begins with.
const MAGIC: [u8; 4] = *b"psf1";
/// Magic, three sizes and a checksum.
const HEADER: usize = 4 + 3 * 4 + 4;

/// Where features are kept.
#[derive(Debug)]
pub(crate) struct FeatureStore {
    /// What was asked for; each extractor has a folder of its own there. Without it features are rounded all the same, so
    /// that results do not depend on it.
    root: Option<PathBuf>,
    folder: Option<PathBuf>,
}

impl Model {
    /// The same model, whose features of a data set's images are rounded to 16 bits and, with a folder, kept there from
    /// run to run. Everything that is learned from the data set or evaluated on it takes them; pictures of other sources
    /// are looked at as always.
    #[must_use]
    pub fn keep_features(&self, folder: Option<&Path>) -> Self {
        let root = folder.map(Path::to_path_buf);
        let folder = folder.map(|folder| folder.join(extractor(self)));
        self.with_store(Some(FeatureStore { root, folder }.into()))
    }

    /// Keeps features where another model keeps its own.
    pub(crate) fn keep_features_like(self, other: &Self) -> Self {
        match other.store() {
            Some(store) => self.keep_features(store.root.as_deref()),
            None => self,
        }
    }

    /// F of a data set's image, `[1, d, h, w]`: as it is kept, if it is kept.
    pub(crate) fn sample_features(
        &self,
        benchmark: &Benchmark,
        index: usize,
        image: &Image,
    ) -> Result<Tensor<4>, DataError> {
        let Some(store) = self.store() else { return Ok(self.features(image)) };
        let [channels, height, width] = grid(self, image.width, image.height);
        let bytes = store.bytes(self, benchmark, index, image)?;
        let (halves, _) = bytes.as_chunks::<2>();
        let values: Vec<f32> = halves.iter().map(|&half| f16::from_le_bytes(half).to_f32()).collect();
        let shape = [1, channels, height, width];
        Ok(Tensor::from_data(TensorData::new(values, shape), self.device()))
    }
}

impl FeatureStore {
    /// Whether features are kept from run to run.
    pub fn is_kept(&self) -> bool {
        self.folder.is_some()
    }

    /// Features of an image, `[d, h, w]`, with 16 bits per value.
    pub fn bytes(
        &self,
        model: &Model,
        benchmark: &Benchmark,
        index: usize,
        image: &Image,
    ) -> Result<Vec<u8>, DataError> {
        let size = grid(model, image.width, image.height);
        if let Some(bytes) = self.read(benchmark, index, size) {
            return Ok(bytes);
        }
        let values: Vec<f32> = model.features(image).try_into_vec_as().expect("features are f32");
        let bytes: Vec<u8> = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
        if let Some(folder) = &self.folder {
            create_dir(folder)?;
            write_whole(&folder.join(name(benchmark, index)), &packed(size, &bytes))?;
        }
        Ok(bytes)
    }

    /// The same, if they are kept and whole.
    pub fn read(&self, benchmark: &Benchmark, index: usize, size: [usize; 3]) -> Option<Vec<u8>> {
        let file = fs::read(self.folder.as_ref()?.join(name(benchmark, index))).ok()?;
        unpacked(size, file)
    }
}

/// Channels, height and width of the features of a picture.
pub(crate) fn grid(model: &Model, width: usize, height: usize) -> [usize; 3] {
    let (width, height) = model.preprocess().canvas_size(width, height);
    let [height, width] = model.network().map_size([height, width]);
    [model.config().dim, height, width]
}

/// The name of everything that features depend on besides the image.
fn extractor(model: &Model) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(&serde_json::to_vec(model.preprocess()).expect("preprocessing is plain data"));
    hash.update(&serde_json::to_vec(model.config()).expect("a network's description is plain data"));
    model.for_each_tensor(|name, values| {
        if name.starts_with("encoder.") || name.starts_with("decoder.") {
            hash.update(name.as_bytes());
            hash.update(values.bytes());
        }
    });
    hash.finalize().to_hex()[..16].to_string()
}

/// The name of an image's file of features: another one when the image's own file has changed.
fn name(benchmark: &Benchmark, index: usize) -> String {
    let sample = &benchmark.dataset.samples()[index];
    let mut hash = blake3::Hasher::new();
    hash.update(benchmark.dataset.name().as_bytes());
    hash.update(&[0]);
    hash.update(sample.name.as_bytes());
    // Drawn scenes have no file; they change with the program.
    hash.update(env!("CARGO_PKG_VERSION").as_bytes());
    if let Ok(file) = fs::metadata(&sample.image) {
        let changed = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        hash.update(&file.len().to_le_bytes());
        hash.update(&changed.unwrap_or_default().as_nanos().to_le_bytes());
    }
    format!("{}.f16", &hash.finalize().to_hex()[..32])
}

fn header(size: [usize; 3], bytes: &[u8]) -> Vec<u8> {
    let sizes = size.map(|side| side as u32);
    let numbers = sizes.into_iter().chain([crc32fast::hash(bytes)]);
    MAGIC.into_iter().chain(numbers.flat_map(u32::to_le_bytes)).collect()
}

fn packed(size: [usize; 3], bytes: &[u8]) -> Vec<u8> {
    let mut file = header(size, bytes);
    file.extend_from_slice(bytes);
    file
}

/// What [`packed`] packed, if it is whole and of this size.
fn unpacked(size: [usize; 3], mut file: Vec<u8>) -> Option<Vec<u8>> {
    let expected = HEADER + size.iter().product::<usize>() * size_of::<f16>();
    if file.len() != expected || header(size, &file[HEADER..]) != file[..HEADER] {
        return None;
    }
    file.drain(..HEADER);
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_or_of_another_size_is_not_taken() {
        let bytes: Vec<u8> = (0..24).collect();
        let file = packed([2, 2, 3], &bytes);
        assert_eq!(unpacked([2, 2, 3], file.clone()), Some(bytes));
        assert_eq!(unpacked([2, 3, 2], file.clone()), None, "another grid");
        assert_eq!(unpacked([2, 2, 3], file[..30].to_vec()), None, "cut short");
        let mut damaged = file;
        damaged[30] ^= 1;
        assert_eq!(unpacked([2, 2, 3], damaged), None, "a bit is wrong");
    }

    #[test]
    fn kept_features_are_those_that_were_computed_and_a_damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let scenes = Benchmark::open("scenes", None).unwrap();
        let model = Model::builtin().with_canvas(96).unwrap();
        let kept = model.keep_features(Some(folder.path()));
        let image = scenes.dataset.image(3).unwrap();
        let values = |model: &Model| -> Vec<f32> {
            model.sample_features(&scenes, 3, &image).unwrap().try_into_vec_as().unwrap()
        };
        let rounded = values(&model.keep_features(None));
        assert!(values(&kept) == rounded && values(&kept) == rounded, "made, then read");
        let exact = values(&model);
        let furthest = exact.iter().zip(&rounded).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(exact != rounded && furthest < 5e-4, "{furthest}");

        let file = folder.path().join(extractor(&model)).join(name(&scenes, 3));
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(values(&kept) == rounded);
        assert!(fs::read(&file).unwrap() == whole);
    }

    #[test]
    fn features_of_another_canvas_are_kept_elsewhere() {
        let model = Model::builtin().keep_features(Some(Path::new("features")));
        let other = model.with_canvas(96).unwrap();
        let folder = |model: &Model| model.store().and_then(|store| store.folder.clone()).unwrap();
        assert_ne!(folder(&model), folder(&other));
        assert!(folder(&other).starts_with("features"));
        assert_eq!(extractor(&model), extractor(&Model::builtin()));
        assert!(Model::builtin().with_canvas(96).unwrap().store().is_none());
    }
}
