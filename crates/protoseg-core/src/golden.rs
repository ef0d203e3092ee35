//! Golden data of the transforms, for tests.

use crate::{Image, RowMap};
use safetensors::{SafeTensors, tensor::TensorView};

/// The file of what the reference's OpenCV transforms make of one photo.
pub struct Golden(Vec<u8>);

impl Golden {
    /// `None`, and a loud line, where the shared folder is not checked out.
    #[allow(clippy::print_stderr)]
    pub fn open() -> Option<Self> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden/transforms.safetensors");
        match std::fs::read(path) {
            Ok(bytes) => Some(Self(bytes)),
            Err(error) => {
                eprintln!("SKIPPED: golden data {path} cannot be read: {error}");
                None
            }
        }
    }

    /// The photo every transform started from.
    pub fn photo(&self) -> Image {
        self.with("image", |view| Image::new(view.shape()[1], view.shape()[0], view.data().to_vec()))
    }

    /// `<name>.label`, or the photo's own labels by the name `label`.
    pub fn label(&self, name: &str) -> RowMap {
        self.with(name, |view| RowMap::from_u8(view.shape()[1], view.shape()[0], view.data()))
    }

    /// Shape and values of single precision.
    pub fn floats(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        self.with(name, |view| {
            let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            (view.shape().to_vec(), values.collect())
        })
    }

    fn with<T>(&self, name: &str, read: impl FnOnce(&TensorView) -> T) -> T {
        let file = SafeTensors::deserialize(&self.0).expect("a safetensors file");
        read(&file.tensor(name).expect("a tensor of this name"))
    }
}

/// The largest difference, element by element.
pub fn worst(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(got, want)| (got - want).abs()).fold(0.0, f32::max)
}
