//! Golden data of the transforms, for tests.

use crate::{Image, RowMap};
use protoseg_testing::shared;

/// The file with the results of the reference's OpenCV transforms on one photo.
pub struct Golden(protoseg_testing::Golden);

impl Golden {
    pub fn open() -> Self {
        Self(protoseg_testing::Golden::read(&shared("golden/transforms.safetensors")))
    }

    /// The photo that every transform started from.
    pub fn photo(&self) -> Image {
        let shape = self.0.shape("image");
        Image::new(shape[1], shape[0], self.0.bytes("image"))
    }

    /// `<name>.label`, or the photo's own labels under the name `label`.
    pub fn label(&self, name: &str) -> RowMap {
        let shape = self.0.shape(name);
        RowMap::from_u8(shape[1], shape[0], &self.0.bytes(name))
    }

    pub fn shape(&self, name: &str) -> &[usize] {
        self.0.shape(name)
    }

    pub fn values(&self, name: &str) -> &[f32] {
        self.0.values(name)
    }
}
