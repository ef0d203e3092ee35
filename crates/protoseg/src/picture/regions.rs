//! Regions of classes as COCO writes them.

use protoseg_core::{Classes, RowMap};
use protoseg_data::{
    region::Region,
    rle::{encode_runs, pack_runs},
};
use serde::{Deserialize, Serialize};

/// All pixels of one class in one image, as COCO describes a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClassRegion {
    /// Row of the class.
    pub row: u16,
    /// Height and width of the image.
    pub size: [usize; 2],
    /// COCO's compressed run lengths.
    pub counts: String,
    /// In pixels.
    pub area: u64,
    /// Left, top, width and height.
    pub bbox: [usize; 4],
    /// Mean confidence, from 0 to 1.
    pub score: f64,
}

impl ClassRegion {
    /// The pixels labelled `row`; `confidence` is of 255, one value per pixel.
    pub(crate) fn new(row: u16, labels: &RowMap, confidence: &[u8]) -> Self {
        let RowMap { width, height, data, .. } = labels;
        let mask: Vec<bool> = data.iter().map(|&label| label == row).collect();
        let sure = mask.iter().zip(confidence).filter(|(is_class, _)| **is_class);
        let sum: u64 = sure.map(|(_, &value)| u64::from(value)).sum();
        let region = Region::from_mask(&mask, *width);
        let runs = region.runs();
        let left = runs.iter().map(|run| run.start).min().unwrap_or(0);
        let right = runs.iter().map(|run| run.end).max().unwrap_or(0);
        let top = runs.first().map_or(0, |run| run.y);
        let bottom = runs.last().map_or(0, |run| run.y + 1);
        let area: u64 = runs.iter().map(|run| (run.end - run.start) as u64).sum();
        Self {
            row,
            size: [*height, *width],
            counts: pack_runs(&encode_runs(&region, *width, *height)),
            area,
            bbox: [left, top, right - left, bottom - top],
            score: sum as f64 / 255.0 / area.max(1) as f64,
        }
    }
}

/// Regions in many images as one COCO document: serialise it to get the file. Rows of the classifier are the category
/// ids; the background is no category.
#[derive(Clone, Debug, Serialize)]
pub struct CocoDocument {
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
    images: Vec<ImageEntry>,
}

#[derive(Clone, Debug, Serialize)]
struct Annotation {
    area: u64,
    bbox: [usize; 4],
    category_id: u16,
    id: usize,
    image_id: usize,
    iscrowd: u8,
    score: f64,
    segmentation: Segmentation,
}

#[derive(Clone, Debug, Serialize)]
struct Segmentation {
    counts: String,
    size: [usize; 2],
}

#[derive(Clone, Debug, Serialize)]
struct Category {
    id: u16,
    name: String,
}

#[derive(Clone, Debug, Serialize)]
struct ImageEntry {
    file_name: String,
    height: usize,
    id: usize,
    width: usize,
}

impl CocoDocument {
    /// A document without images.
    pub fn new(classes: &Classes) -> Self {
        let skipped = usize::from(classes.has_background());
        let rows = (0u16..).zip(classes.rows()).skip(skipped);
        let categories = rows.map(|(id, class)| Category { id, name: class.name.clone() }).collect();
        Self { annotations: Vec::new(), categories, images: Vec::new() }
    }

    /// Adds an image with its regions. Images and annotations are numbered from 1 in the order they come.
    pub fn push(&mut self, file_name: &str, width: usize, height: usize, regions: &[ClassRegion]) {
        let image_id = self.images.len() + 1;
        self.images.push(ImageEntry { file_name: file_name.to_string(), height, id: image_id, width });
        for region in regions {
            self.annotations.push(Annotation {
                area: region.area,
                bbox: region.bbox,
                category_id: region.row,
                id: self.annotations.len() + 1,
                image_id,
                iscrowd: 0,
                score: region.score,
                segmentation: Segmentation { counts: region.counts.clone(), size: region.size },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_its_box_area_and_mean_confidence() {
        // 0 2 0
        // 2 2 0
        let labels = RowMap::new(3, 2, vec![0, 2, 0, 2, 2, 0]);
        let region = ClassRegion::new(2, &labels, &[0, 255, 0, 0, 102, 255]);
        assert_eq!((region.row, region.size, region.area, region.bbox), (2, [2, 3], 3, [0, 0, 2, 2]));
        assert_eq!(region.counts, pack_runs(&[1, 3, 2]));
        assert!((region.score - 1.4 / 3.0).abs() < 1e-9, "{}", region.score);
    }

    #[test]
    fn a_document_numbers_from_one_and_leaves_the_background_out() {
        let classes = Classes::new(&["background", "cow"], &["duck"]).unwrap();
        let labels = RowMap::new(2, 1, vec![1, 2]);
        let regions = [1, 2].map(|row| ClassRegion::new(row, &labels, &[255, 255]));
        let mut document = CocoDocument::new(&classes);
        document.push("a.png", 2, 1, &regions[..1]);
        document.push("b.png", 2, 1, &regions);
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(
            json["categories"],
            serde_json::json!([{"id": 1, "name": "cow"}, {"id": 2, "name": "duck"}])
        );
        let ids = json["annotations"].as_array().unwrap().iter();
        let ids: Vec<_> = ids.map(|entry| (entry["id"].as_u64(), entry["image_id"].as_u64())).collect();
        assert_eq!(ids, [(Some(1), Some(1)), (Some(2), Some(2)), (Some(3), Some(2))]);
        assert_eq!(json["images"][1]["file_name"], "b.png");
    }
}
