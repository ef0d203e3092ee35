//! The files that a prediction becomes.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use protoseg::{core::Image, prediction::Prediction};
use protoseg_data::{
    DataError, create_dir,
    mask::{encode_gray_png, encode_palette_png, encode_values_png},
    picture::write_image,
    write_atomic,
};

/// Which files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub index: bool,
    pub palette: bool,
    pub overlay: bool,
    pub confidence: bool,
    pub probability: bool,
    pub coco: bool,
}

impl Kinds {
    pub fn parse(names: &[String]) -> Result<Self> {
        let mut kinds = Self::default();
        for name in names {
            match name.trim() {
                "index" => kinds.index = true,
                "palette" => kinds.palette = true,
                "overlay" => kinds.overlay = true,
                "confidence" => kinds.confidence = true,
                "probability" => kinds.probability = true,
                "coco" => kinds.coco = true,
                "none" => {}
                _ => bail!(
                    "`--write {name}` is not known\n\
                     hint: choose among index, palette, overlay, confidence, probability, coco, none"
                ),
            }
        }
        Ok(kinds)
    }
}

/// Writes the files of images into one folder, each whole or not at all.
pub struct MaskWriter {
    folder: PathBuf,
    kinds: Kinds,
}

impl MaskWriter {
    pub fn new(folder: &Path, kinds: Kinds) -> Self {
        Self { folder: folder.to_path_buf(), kinds }
    }

    /// Writes the files of the image called `name`, and says which they are.
    pub fn write(
        &self,
        name: &str,
        image: &Image,
        prediction: &Prediction,
    ) -> Result<Vec<PathBuf>, DataError> {
        // What takes the most is asked for first: the pass that makes it finds the rest too.
        let probabilities = self.kinds.probability.then(|| prediction.probabilities_u8());
        if self.kinds.confidence || self.kinds.coco {
            prediction.confidence();
        }
        let labels = prediction.labels();
        let (width, height) = (labels.width, labels.height);
        let mut files = Vec::new();
        if self.kinds.index {
            files.push(self.write_png("index", name, &encode_gray_png(labels))?);
        }
        if self.kinds.palette {
            // A PNG's palette holds 256 colours; with more classes the file has numbers only.
            let png = encode_palette_png(labels, prediction.palette().colors());
            files.push(self.write_png("palette", name, &png.unwrap_or_else(|| encode_gray_png(labels)))?);
        }
        if self.kinds.confidence {
            let png = encode_values_png(width, height, &prediction.confidence_u8());
            files.push(self.write_png("confidence", name, &png)?);
        }
        let classes = prediction.classes().rows().iter().enumerate();
        for ((row, class), values) in classes.zip(probabilities.into_iter().flatten()) {
            let name = format!("{name}/{row:03}-{}", file_name(&class.name));
            files.push(self.write_png("probability", &name, &encode_values_png(width, height, &values))?);
        }
        if self.kinds.overlay {
            let path = self.place("overlay", name)?;
            write_image(&path, &prediction.overlay(image))?;
            files.push(path);
        }
        Ok(files)
    }

    fn write_png(&self, kind: &str, name: &str, png: &[u8]) -> Result<PathBuf, DataError> {
        let path = self.place(kind, name)?;
        write_atomic(&path, png)?;
        Ok(path)
    }

    /// Where a file goes; its folder is made if need be.
    fn place(&self, kind: &str, name: &str) -> Result<PathBuf, DataError> {
        let path = self.folder.join(kind).join(format!("{name}.png"));
        create_dir(path.parent().unwrap_or(&self.folder))?;
        Ok(path)
    }
}

/// A class name as part of a file name.
fn file_name(class: &str) -> String {
    class.chars().map(|c| if c.is_alphanumeric() || " -_.".contains(c) { c } else { '_' }).collect()
}
