//! The files that a prediction becomes.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use protoseg::core::{ClassRole, IGNORE, Image, RowMap, ScoreMap, best};
use protoseg_data::{
    DataError, create_dir,
    mask::{encode_gray_png, encode_palette_png, encode_values_png},
    picture::write_image,
    region::Region,
    rle::{encode_runs, pack_runs},
    write_atomic,
};
use serde::Serialize;

use super::palette::Palette;

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
    palette: Palette,
    /// Pixels below this confidence get no class.
    abstain: Option<f64>,
}

/// What was written of an image.
pub struct Outputs {
    pub areas: Vec<Area>,
    pub abstained: u64,
    pub files: Vec<PathBuf>,
    pub annotations: Vec<Annotation>,
}

/// How much of an image a class covers.
#[derive(Serialize)]
pub struct Area {
    pub class: String,
    pub id: u16,
    pub pixels: u64,
    pub share: f64,
}

/// A class as summaries name it.
#[derive(Serialize)]
pub struct ClassEntry {
    pub id: u16,
    pub name: String,
    pub role: ClassRole,
    pub color: String,
}

/// An image with its classes, as COCO has it.
pub struct CocoImage<'a> {
    pub path: &'a Path,
    pub width: usize,
    pub height: usize,
    pub annotations: &'a [Annotation],
}

/// One class in one image, as COCO has it.
pub struct Annotation {
    class: u16,
    size: [usize; 2],
    counts: String,
    area: u64,
    bbox: [usize; 4],
    /// Mean confidence.
    score: f64,
}

/// What every pixel came to.
struct Pixels {
    labels: RowMap,
    /// Probability of the label, of 255; empty where nobody asks.
    confidence: Vec<u8>,
    /// Of each class, of 255; empty where nobody asks.
    probability: Vec<Vec<u8>>,
}

impl MaskWriter {
    pub fn new(folder: &Path, kinds: Kinds, palette: Palette, abstain: Option<f64>) -> Self {
        Self { folder: folder.to_path_buf(), kinds, palette, abstain }
    }

    /// Writes what is to be written of the image called `name`.
    pub fn write(&self, name: &str, image: &Image, map: &ScoreMap) -> Result<Outputs, DataError> {
        let pixels = self.decide(map);
        let labels = &pixels.labels;
        let mut files = Vec::new();
        let mut write = |kind: &str, name: &str, bytes: &[u8]| -> Result<(), DataError> {
            let path = self.folder.join(kind).join(format!("{name}.png"));
            create_dir(path.parent().unwrap_or(&self.folder))?;
            write_atomic(&path, bytes)?;
            files.push(path);
            Ok(())
        };
        if self.kinds.index {
            write("index", name, &encode_gray_png(labels))?;
        }
        if self.kinds.palette {
            // More classes than a palette holds are numbers only.
            let png =
                encode_palette_png(labels, &self.palette.colors).unwrap_or_else(|| encode_gray_png(labels));
            write("palette", name, &png)?;
        }
        if self.kinds.confidence {
            write("confidence", name, &encode_values_png(labels.width, labels.height, &pixels.confidence))?;
        }
        for (row, values) in pixels.probability.iter().enumerate() {
            let class: String = self.palette.names[row]
                .chars()
                .map(|c| if c.is_alphanumeric() || " -_.".contains(c) { c } else { '_' })
                .collect();
            let name = format!("{name}/{row:03}-{class}");
            write("probability", &name, &encode_values_png(labels.width, labels.height, values))?;
        }
        if self.kinds.overlay {
            let path = self.folder.join("overlay").join(format!("{name}.png"));
            create_dir(path.parent().unwrap_or(&self.folder))?;
            write_image(&path, &self.palette.overlay(image, labels))?;
            files.push(path);
        }
        let mut areas: Vec<Area> = Vec::new();
        let mut annotations = Vec::new();
        let counted = labels.data.len().max(1) as f64;
        for row in labels.present() {
            let pixels_of = labels.data.iter().filter(|&&label| label == row).count() as u64;
            let class = self.palette.name(row).to_string();
            areas.push(Area { class, id: row, pixels: pixels_of, share: pixels_of as f64 / counted });
            if self.kinds.coco && Some(row) != self.palette.background {
                annotations.push(annotation(row, &pixels));
            }
        }
        areas.sort_by(|a, b| b.pixels.cmp(&a.pixels).then(a.id.cmp(&b.id)));
        let abstained = labels.data.iter().filter(|&&label| label == IGNORE).count() as u64;
        Ok(Outputs { areas, abstained, files, annotations })
    }

    fn decide(&self, map: &ScoreMap) -> Pixels {
        let Kinds { confidence, probability, coco, .. } = self.kinds;
        if !(confidence || probability || coco || self.abstain.is_some()) {
            return Pixels { labels: map.labels(), confidence: Vec::new(), probability: Vec::new() };
        }
        let size = map.width * map.height;
        let mut labels = Vec::with_capacity(size);
        let mut confident = Vec::with_capacity(size);
        let mut probable: Vec<Vec<u8>> =
            if probability { vec![Vec::with_capacity(size); map.classes] } else { Vec::new() };
        let mut shares = vec![0.0f32; map.classes];
        map.for_rows(|_, scores| {
            for pixel in scores.chunks_exact(map.classes) {
                let (row, highest) = best(pixel);
                shares.iter_mut().zip(pixel).for_each(|(share, score)| *share = (score - highest).exp());
                let sum: f32 = shares.iter().sum();
                let sure = 1.0 / sum;
                let kept = self.abstain.is_none_or(|least| f64::from(sure) >= least);
                labels.push(if kept { row as u16 } else { IGNORE });
                confident.push((255.0 * sure).round() as u8);
                for (plane, share) in probable.iter_mut().zip(&shares) {
                    plane.push((255.0 * share / sum).round() as u8);
                }
            }
        });
        let labels = RowMap::new(map.width, map.height, labels);
        Pixels { labels, confidence: confident, probability: probable }
    }

    /// Writes `coco.json` for all images.
    pub fn write_coco(&self, classes: &[ClassEntry], images: &[CocoImage<'_>]) -> Result<()> {
        let entries: Vec<_> = images
            .iter()
            .zip(1usize..)
            .map(|(image, id)| {
                let file_name = image.path.display().to_string();
                serde_json::json!({ "id": id, "file_name": file_name, "width": image.width, "height": image.height })
            })
            .collect();
        let categories: Vec<_> = classes
            .iter()
            .filter(|class| Some(class.id) != self.palette.background)
            .map(|class| serde_json::json!({ "id": class.id, "name": class.name }))
            .collect();
        let annotations = images.iter().zip(1usize..);
        let annotations = annotations
            .flat_map(|(image, id)| image.annotations.iter().map(move |annotation| (id, annotation)));
        let annotations: Vec<_> = annotations
            .zip(1usize..)
            .map(|((image_id, annotation), id)| CocoAnnotation {
                id,
                image_id,
                category_id: annotation.class,
                segmentation: CocoRuns { size: annotation.size, counts: &annotation.counts },
                area: annotation.area,
                bbox: annotation.bbox,
                iscrowd: 0,
                score: annotation.score,
            })
            .collect();
        let coco =
            serde_json::json!({ "images": entries, "annotations": annotations, "categories": categories });
        Ok(write_atomic(&self.folder.join("coco.json"), serde_json::to_string(&coco)?.as_bytes())?)
    }
}

#[derive(Serialize)]
struct CocoAnnotation<'a> {
    id: usize,
    image_id: usize,
    category_id: u16,
    segmentation: CocoRuns<'a>,
    area: u64,
    bbox: [usize; 4],
    iscrowd: u8,
    score: f64,
}

#[derive(Serialize)]
struct CocoRuns<'a> {
    size: [usize; 2],
    counts: &'a str,
}

fn annotation(class: u16, pixels: &Pixels) -> Annotation {
    let RowMap { width, height, data, .. } = &pixels.labels;
    let mask: Vec<bool> = data.iter().map(|&label| label == class).collect();
    let sure = mask.iter().zip(&pixels.confidence).filter(|(is_class, _)| **is_class);
    let (count, sum) =
        sure.fold((0u64, 0u64), |(count, sum), (_, &value)| (count + 1, sum + u64::from(value)));
    let region = Region::from_mask(&mask, *width);
    let runs = region.runs();
    let left = runs.iter().map(|run| run.start).min().unwrap_or(0);
    let right = runs.iter().map(|run| run.end).max().unwrap_or(0);
    let top = runs.iter().map(|run| run.y).min().unwrap_or(0);
    let bottom = runs.iter().map(|run| run.y + 1).max().unwrap_or(0);
    Annotation {
        class,
        size: [*height, *width],
        counts: pack_runs(&encode_runs(&region, *width, *height)),
        area: count,
        bbox: [left, top, right - left, bottom - top],
        score: sum as f64 / 255.0 / count.max(1) as f64,
    }
}
