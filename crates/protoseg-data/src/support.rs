//! A support in memory: an image in which one class is labelled.

use std::path::Path;

use protoseg_core::{IGNORE, Image, RowMap, SUPPORT_ROW};

use crate::{DataError, SupportFiles};

/// An image that teaches one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    name: String,
    image: Image,
    labels: RowMap,
    pixels: u64,
    is_weak: bool,
    is_part: bool,
    notes: Vec<String>,
}

/// A mask or label map whose size differs from its image's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "support `{name}`: got a mask of `{got:?}`, expected `{expected:?}` (width, height)\nhint: save the mask at the size of its image"
)]
pub struct SupportSizeError {
    /// The support's name.
    pub name: String,
    /// Width and height of the mask.
    pub got: (usize, usize),
    /// Width and height of the image.
    pub expected: (usize, usize),
}

impl Support {
    /// From two files: an image, and a mask of the same size in which the class has a single colour or id.
    pub fn read(image: impl AsRef<Path>, mask: impl AsRef<Path>) -> Result<Self, DataError> {
        SupportFiles::new("", image.as_ref(), mask.as_ref()).load(0, 0)
    }

    /// From labels of the same size as the image: [`SUPPORT_ROW`] where the class is, rows of base classes where they
    /// are known, [`IGNORE`] elsewhere. `name` is for people.
    pub fn new(name: impl Into<String>, image: Image, labels: RowMap) -> Result<Self, SupportSizeError> {
        let (got, expected) = ((labels.width, labels.height), (image.width, image.height));
        let name = name.into();
        if got != expected {
            return Err(SupportSizeError { name, got, expected });
        }
        let pixels = labels.data.iter().filter(|&&label| label == SUPPORT_ROW).count() as u64;
        Ok(Self { name, image, labels, pixels, is_weak: false, is_part: false, notes: Vec::new() })
    }

    /// From a mask of the same size as the image, one value per pixel, line by line: true where the class is. The
    /// other pixels stay unlabelled.
    pub fn from_mask(name: impl Into<String>, image: Image, mask: &[bool]) -> Result<Self, SupportSizeError> {
        let label = |&is_class: &bool| if is_class { SUPPORT_ROW } else { IGNORE };
        let (width, height) = (image.width, image.height);
        if mask.len() != width * height {
            let got = (mask.len().checked_div(height).unwrap_or(0), height);
            return Err(SupportSizeError { name: name.into(), got, expected: (width, height) });
        }
        Self::new(name, image, RowMap::new(width, height, mask.iter().map(label).collect()))
    }

    /// With pixels that nobody labelled as the row `rest`; without it they stay unlabelled, and so they do beside a
    /// scribble, where the class goes on.
    pub fn with_rest(mut self, rest: Option<u16>) -> Self {
        if let Some(rest) = rest.filter(|_| !self.is_part) {
            self.labels.data.iter_mut().filter(|label| **label == IGNORE).for_each(|label| *label = rest);
        }
        self
    }

    /// The same, marked as weak: its labels say only roughly where the class is (a box), or show a part of it (a
    /// scribble).
    #[must_use]
    pub fn weak(self) -> Self {
        Self { is_weak: true, ..self }
    }

    /// The same, marked as a scribble: weak, and only a part of the class is labelled.
    #[must_use]
    pub fn scribbled(self) -> Self {
        Self { is_part: true, ..self.weak() }
    }

    /// The same with notes for people on how its files were understood.
    #[must_use]
    pub(crate) fn noted(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Its name for people: usually the file name of its image.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The picture.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// [`SUPPORT_ROW`], rows of base classes, and [`IGNORE`].
    pub fn labels(&self) -> &RowMap {
        &self.labels
    }

    /// Number of pixels of the class.
    pub fn pixels(&self) -> u64 {
        self.pixels
    }

    /// Whether its labels are those of a box or a scribble.
    pub fn is_weak(&self) -> bool {
        self.is_weak
    }

    /// Whether only a part of the class is labelled.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// How its files were understood, where that could surprise.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_another_size_is_refused() {
        let image = || Image::new(3, 2, vec![0; 18]);
        let support = Support::from_mask("duck", image(), &[true, false, true, false, false, true]).unwrap();
        assert_eq!((support.pixels(), support.labels().data[1]), (3, IGNORE));
        let error = Support::from_mask("duck", image(), &[true; 4]).unwrap_err();
        assert_eq!((error.got, error.expected), ((2, 2), (3, 2)));
        assert!(Support::new("duck", image(), RowMap::new(2, 3, vec![0; 6])).is_err());
    }
}
