//! What every reader provides: samples, splits, classes, and one image with its labels at a time.

use std::path::PathBuf;

use protoseg_core::{ClassTable, IdMap, Image};

use crate::mask::{read_color_mask, read_index_mask};
use crate::palette::ColorMap;
use crate::picture::{raw_size, read_image};
use crate::shapes::Labels;
use crate::{DataError, Size};

/// A data set on disk. Opening one reads its lists and names. Images and labels are read on demand, from any thread.
pub trait Dataset: Send + Sync {
    /// What the data set holds.
    fn contents(&self) -> &Contents;

    fn name(&self) -> &str {
        &self.contents().name
    }

    fn classes(&self) -> &ClassTable {
        &self.contents().classes
    }

    /// Every sample of every split.
    fn samples(&self) -> &[Sample] {
        &self.contents().samples
    }

    /// Named parts of the samples; they may overlap.
    fn splits(&self) -> &[Split] {
        &self.contents().splits
    }

    /// The labels of a sample as class ids. Unknown ids are left as they are: [`protoseg_core::Remap`] and
    /// [`crate::check`] refuse them.
    fn labels(&self, index: usize) -> Result<Labels, DataError>;

    /// The image of a sample.
    fn image(&self, index: usize) -> Result<Image, DataError> {
        read_image(&self.samples()[index].image)
    }

    /// Whether the image exists, without reading it.
    fn has_image(&self, index: usize) -> bool {
        self.samples()[index].image.is_file()
    }

    /// Image and labels of a sample; both have the same size.
    fn load(&self, index: usize) -> Result<(Image, IdMap), DataError> {
        let image = self.image(index)?;
        let map = self.labels(index)?.map;
        check_sizes(&self.samples()[index], &image, &map)?;
        Ok((image, map))
    }

    /// The split with this name.
    fn split(&self, name: &str) -> Result<&Split, DataError> {
        self.splits().iter().find(|split| split.name == name).ok_or_else(|| DataError::NoSplit {
            dataset: self.name().to_string(),
            got: name.to_string(),
            known: self
                .splits()
                .iter()
                .map(|split| format!("`{}`", split.name))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

/// What a data set holds: everything known before any image or label is read.
#[derive(Clone, Debug)]
pub struct Contents {
    pub name: String,
    pub classes: ClassTable,
    pub samples: Vec<Sample>,
    pub splits: Vec<Split>,
}

/// One image with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its name in lists and reports; unique in the data set.
    pub name: String,
    pub image: PathBuf,
    /// The file with its labels; `None` if the format leaves out the file when nothing is labelled.
    pub label: Option<PathBuf>,
}

/// A named part of a data set: indices into [`Dataset::samples`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    pub name: String,
    pub samples: Vec<usize>,
}

/// Refuses labels whose size differs from their image's.
pub(crate) fn check_sizes(sample: &Sample, image: &Image, map: &IdMap) -> Result<(), DataError> {
    let (expected, got) = (Size(image.width, image.height), Size(map.width, map.height));
    if expected == got {
        return Ok(());
    }
    let turned = raw_size(&sample.image).is_ok_and(|raw| raw == got);
    let hint = match turned {
        true => {
            "the labels fit the image before its EXIF orientation turns it: turn the labels, or remove the orientation"
        }
        false => "export the labels at the image's own size",
    };
    let label = sample.label.clone().unwrap_or_else(|| sample.image.clone());
    Err(DataError::SizeMismatch { image: sample.image.clone(), label, got, expected, hint })
}

/// What the pixels of mask files mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskKind {
    /// The number at a pixel is the class id.
    Index,
    /// The colour at a pixel stands for an id.
    Color(ColorMap),
}

/// A data set of image and mask files in pairs. Most readers return one.
#[derive(Clone, Debug)]
pub struct MaskDataset {
    pub contents: Contents,
    pub masks: MaskKind,
}

impl MaskDataset {
    /// The same data set under another name.
    pub(crate) fn named(mut self, name: impl Into<String>) -> Self {
        self.contents.name = name.into();
        self
    }
}

impl Dataset for MaskDataset {
    fn contents(&self) -> &Contents {
        &self.contents
    }

    fn labels(&self, index: usize) -> Result<Labels, DataError> {
        let sample = &self.contents.samples[index];
        let path = sample.label.as_ref().ok_or_else(|| DataError::missing(&sample.image))?;
        let mut map = match &self.masks {
            MaskKind::Index => read_index_mask(path)?,
            MaskKind::Color(colors) => read_color_mask(path, colors)?,
        };
        self.contents.classes.mark_ignored(&mut map);
        Ok(map.into())
    }
}

/// Collects samples. A name that occurs again (in another split) is the same sample.
#[derive(Debug, Default)]
pub(crate) struct SampleTable {
    pub samples: Vec<Sample>,
    by_name: std::collections::HashMap<String, usize>,
}

impl SampleTable {
    /// The index of the sample; `None` if the name already stands for other files.
    pub fn add(&mut self, sample: Sample) -> Option<usize> {
        match self.by_name.get(&sample.name) {
            Some(&place) => (self.samples[place] == sample).then_some(place),
            None => {
                let place = self.samples.len();
                self.by_name.insert(sample.name.clone(), place);
                self.samples.push(sample);
                Some(place)
            }
        }
    }
}
