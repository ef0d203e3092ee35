//! The files that a prediction becomes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, bail};
use protoseg::{core::Image, prediction::Prediction};
use protoseg_data::{
    DataError, clean_up, create_dir,
    mask::{encode_gray_png, encode_palette_png, encode_picture_png, encode_values_png_fast},
    picture::encode_jpeg,
    write_whole,
};

use super::timings::{Part, Timings};

/// Longer side of a thumbnail in the gallery.
const THUMBNAIL: usize = 320;

/// Most bytes of the probabilities of one image.
const MAX_PLANES: usize = 4 << 30;

/// The subfolders that files go to.
pub const FOLDERS: [&str; 6] = ["index", "palette", "overlay", "confidence", "probability", "gallery"];
/// Subfolders of the gallery: the image, and its overlay.
pub const GALLERY_INPUT: &str = "gallery/input";
pub const GALLERY_OVERLAY: &str = "gallery/overlay";

/// Which files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub index: bool,
    pub palette: bool,
    pub overlay: bool,
    pub confidence: bool,
    pub probability: bool,
    pub coco: bool,
    pub gallery: bool,
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
                "gallery" => kinds.gallery = true,
                "none" => {}
                _ => bail!(
                    "`--write {name}` is not known\n\
                     hint: choose among index, palette, overlay, confidence, probability, coco, gallery, none"
                ),
            }
        }
        Ok(kinds)
    }

    /// The names of the kinds, in a fixed order.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.index, "index"),
            (self.palette, "palette"),
            (self.overlay, "overlay"),
            (self.confidence, "confidence"),
            (self.probability, "probability"),
            (self.coco, "coco"),
            (self.gallery, "gallery"),
        ];
        all.into_iter().filter_map(|(is_written, name)| is_written.then_some(name)).collect()
    }

    /// The files of an image that have its name, as seen from the output folder.
    pub fn files(self, name: &str) -> Vec<PathBuf> {
        let all = [
            (self.index, "index", "png"),
            (self.palette, "palette", "png"),
            (self.confidence, "confidence", "png"),
            (self.overlay, "overlay", "png"),
            (self.gallery, GALLERY_INPUT, "jpg"),
            (self.gallery, GALLERY_OVERLAY, "jpg"),
        ];
        let written = all.into_iter().filter(|(is_written, ..)| *is_written);
        written.map(|(_, folder, ending)| place(folder, name, ending)).collect()
    }
}

/// Writes the files of images into one folder, each whole or not at all.
pub struct MaskWriter<'a> {
    folder: PathBuf,
    kinds: Kinds,
    timings: &'a Timings,
}

impl<'a> MaskWriter<'a> {
    pub fn new(folder: &Path, kinds: Kinds, timings: &'a Timings) -> Self {
        Self { folder: folder.to_path_buf(), kinds, timings }
    }

    /// Deletes what a killed run has left half written.
    pub fn clean_up(folder: &Path) {
        for kind in FOLDERS.iter().chain(&["", GALLERY_INPUT, GALLERY_OVERLAY]) {
            clean_up(&folder.join(kind), Duration::ZERO);
        }
    }

    /// Writes the files of the image called `name`, and says which they are, as seen from the folder. If one cannot be
    /// written, none is left.
    pub fn write(
        &self,
        name: &str,
        image: &Image,
        prediction: &Prediction,
    ) -> Result<Vec<PathBuf>, DataError> {
        let mut files = Vec::new();
        let written = self.write_all(name, image, prediction, &mut files);
        if written.is_err() {
            // The error that is told is the first one.
            files.iter().for_each(|file| drop(fs::remove_file(self.folder.join(file))));
        }
        written.map(|()| files)
    }

    fn write_all(
        &self,
        name: &str,
        image: &Image,
        prediction: &Prediction,
        files: &mut Vec<PathBuf>,
    ) -> Result<(), DataError> {
        let time = self.timings;
        let bytes = image.width * image.height * prediction.classes().rows().len();
        if self.kinds.probability && bytes > MAX_PLANES {
            let why = format!(
                "probabilities of {} classes on {} x {} pixels would take {} MB of memory",
                prediction.classes().rows().len(),
                image.width,
                image.height,
                bytes >> 20
            );
            return Err(DataError::Write {
                path: self.folder.join("probability"),
                source: io::Error::other(why),
            });
        }
        // What takes the most is asked for first: the pass that makes it finds the rest too.
        let probabilities =
            self.kinds.probability.then(|| time.time(Part::Probability, || prediction.probabilities_u8()));
        if self.kinds.confidence || self.kinds.coco {
            time.time(Part::Confidence, || prediction.confidence());
        }
        let labels = time.time(Part::Labels, || prediction.labels());
        let (width, height) = (labels.width, labels.height);
        let mut write = |folder: &str, name: &str, ending: &str, bytes: &[u8]| {
            let file = place(folder, name, ending);
            time.time(Part::Files, || self.write_file(&file, bytes))?;
            files.push(file);
            Ok::<_, DataError>(())
        };
        if self.kinds.index {
            write("index", name, "png", &time.time(Part::Index, || encode_gray_png(labels)))?;
        }
        if self.kinds.palette {
            // A PNG's palette holds 256 colours; with more classes the file has numbers only.
            let encode = || {
                let png = encode_palette_png(labels, prediction.palette().colors());
                png.unwrap_or_else(|| encode_gray_png(labels))
            };
            write("palette", name, "png", &time.time(Part::Palette, encode))?;
        }
        if self.kinds.confidence {
            let encode = || encode_values_png_fast(width, height, &prediction.confidence_u8());
            write("confidence", name, "png", &time.time(Part::Confidence, encode))?;
        }
        let classes = prediction.classes().rows().iter().enumerate();
        for ((row, class), values) in classes.zip(probabilities.into_iter().flatten()) {
            let name = format!("{name}/{row:03}-{}", file_name(&class.name));
            let png = time.time(Part::Probability, || encode_values_png_fast(width, height, &values));
            write("probability", &name, "png", &png)?;
        }
        if self.kinds.overlay {
            let encode = || encode_picture_png(&prediction.overlay(image));
            write("overlay", name, "png", &time.time(Part::Overlay, encode))?;
        }
        if self.kinds.gallery {
            let encode = || {
                let [input, overlay] = prediction.thumbnails(image, THUMBNAIL);
                Ok::<_, DataError>([encode_jpeg(&input)?, encode_jpeg(&overlay)?])
            };
            let [input, overlay] = time.time(Part::Gallery, encode)?;
            write(GALLERY_INPUT, name, "jpg", &input)?;
            write(GALLERY_OVERLAY, name, "jpg", &overlay)?;
        }
        Ok(())
    }

    /// Writes a file; its folder is made if need be.
    fn write_file(&self, file: &Path, bytes: &[u8]) -> Result<(), DataError> {
        let path = self.folder.join(file);
        create_dir(path.parent().unwrap_or(&self.folder))?;
        write_whole(&path, bytes)
    }
}

fn place(folder: &str, name: &str, ending: &str) -> PathBuf {
    Path::new(folder).join(format!("{name}.{ending}"))
}

/// A class name as part of a file name.
fn file_name(class: &str) -> String {
    class.chars().map(|c| if c.is_alphanumeric() || " -_.".contains(c) { c } else { '_' }).collect()
}
