//! COCO's instance JSON: polygons, run-length masks (packed or plain), and crowds, which become "no label".
//!
//! A class's id is the position of its category in ascending order of category id, starting at 1; 0 is the
//! background. All parts of an instance are filled ([`crate::region`]). [`crate::shapes`] has the rule for
//! overlapping instances.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use protoseg_core::IGNORE;

use super::coco_json::{Annotation, Counts, Root, Segmentation};
use super::{ALL, drawn_classes, rest_label};
use crate::dataset::{Contents, Dataset, Sample, Split};
use crate::picture::{MAX_PIXELS, is_too_large};
use crate::region::{MAX_RUNS, Region, TooManyRuns};
use crate::rle::{decode_runs, unpack_runs};
use crate::shapes::{Labels, Shape, paint};
use crate::{DataError, Size, files};

/// Most pixels that the shapes of a picture may cover, counted as often as they are covered: seconds of painting.
const MAX_AREA: u64 = 1 << 32;

/// One JSON file and the folder of its images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CocoSplit {
    pub name: String,
    pub annotations: PathBuf,
    pub images: PathBuf,
}

/// An open COCO data set.
pub struct CocoDataset {
    contents: Contents,
    records: Vec<Record>,
}

/// The instances of one sample in ascending order of their ids.
struct Record {
    size: Size,
    instances: Vec<Instance>,
}

struct Instance {
    id: u64,
    label: u16,
    segmentation: Segmentation,
}

/// Finds the JSON files of a folder: `annotations/instances_SPLIT.json` (as in COCO and CVAT) or
/// `SPLIT/_annotations.coco.json` (as in Roboflow). Images are in `SPLIT`, `images/SPLIT`, `images`, or beside the
/// JSON.
pub fn find_splits(root: &Path) -> Result<Vec<CocoSplit>, DataError> {
    let mut splits = Vec::new();
    let annotations = root.join("annotations");
    if annotations.is_dir() {
        for path in files::list_dir(&annotations)? {
            let stem = files::stem_under(&annotations, &path);
            if let Some(split) = stem.strip_prefix("instances_").filter(|_| files::has_ending(&path, "json"))
            {
                let places = [root.join(split), root.join("images").join(split), root.join("images")];
                let images =
                    places.into_iter().find(|place| place.is_dir()).unwrap_or_else(|| root.to_path_buf());
                splits.push(CocoSplit { name: split.to_string(), annotations: path, images });
            }
        }
    }
    for folder in files::list_dir(root)?.into_iter().filter(|folder| folder.is_dir()) {
        let path = folder.join("_annotations.coco.json");
        if path.is_file() {
            splits.push(CocoSplit {
                name: files::name_under(root, &folder),
                annotations: path,
                images: folder,
            });
        }
    }
    if splits.is_empty() {
        let hint = "put the instance JSON here, one file per split".to_string();
        return Err(DataError::Missing { path: annotations.join(format!("instances_{ALL}.json")), hint });
    }
    Ok(splits)
}

/// Opens the JSON files of a data set. `background` says whether pixels outside all instances are background or
/// "no label".
pub fn open(name: &str, splits: &[CocoSplit], background: bool) -> Result<CocoDataset, DataError> {
    let mut roots = Vec::new();
    let mut categories: BTreeMap<u64, String> = BTreeMap::new();
    for split in splits {
        let path = &split.annotations;
        let root: Root = serde_json::from_slice(&files::read_bytes(path)?)
            .map_err(|source| DataError::Json { path: path.clone(), source })?;
        for category in &root.categories {
            let known = categories.entry(category.id).or_insert_with(|| category.name.clone());
            if *known != category.name {
                let got = format!("{}: {known} and {}", category.id, category.name);
                return Err(DataError::Duplicate { path: path.clone(), what: "category id", got });
            }
        }
        roots.push(root);
    }
    let first = splits.first().map_or_else(PathBuf::new, |split| split.annotations.clone());
    let names: Vec<&String> = categories.values().collect();
    let classes =
        drawn_classes(&names, background).map_err(|source| DataError::Classes { path: first, source })?;
    let ids: HashMap<u64, u16> = categories.keys().copied().zip(1..).collect();

    let mut dataset = CocoDataset {
        contents: Contents { name: name.to_string(), classes, samples: Vec::new(), splits: Vec::new() },
        records: Vec::new(),
    };
    let prefixed = splits.len() > 1;
    for (split, root) in splits.iter().zip(roots) {
        dataset.add_split(split, root, &ids, prefixed)?;
    }
    Ok(dataset)
}

impl CocoDataset {
    fn add_split(
        &mut self,
        split: &CocoSplit,
        root: Root,
        ids: &HashMap<u64, u16>,
        prefixed: bool,
    ) -> Result<(), DataError> {
        let path = &split.annotations;
        let start = self.contents.samples.len();
        let mut places: HashMap<u64, usize> = HashMap::with_capacity(root.images.len());
        for image in root.images {
            let place = self.contents.samples.len();
            if places.insert(image.id, place).is_some() {
                return Err(DataError::Duplicate {
                    path: path.clone(),
                    what: "image id",
                    got: image.id.to_string(),
                });
            }
            let size = Size(image.width, image.height);
            if size.0 == 0 || size.1 == 0 || is_too_large(size.0, size.1) {
                let (width, height) = (size.0, size.1);
                return Err(DataError::TooLarge {
                    path: split.images.join(image.file_name),
                    width,
                    height,
                    max: MAX_PIXELS,
                });
            }
            let name = match prefixed {
                true => format!("{}/{}", split.name, image.file_name),
                false => image.file_name.clone(),
            };
            let image = split.images.join(&image.file_name);
            self.contents.samples.push(Sample { name, image, label: Some(path.clone()) });
            self.records.push(Record { size, instances: Vec::new() });
        }
        if self.contents.samples.len() == start {
            return Err(DataError::Empty { path: path.clone(), hint: "export it again with its images" });
        }
        for Annotation { id, image_id, category_id, segmentation, iscrowd } in root.annotations {
            let dangling =
                |what, got: u64| DataError::Dangling { path: path.clone(), what, got: got.to_string() };
            let &place = places.get(&image_id).ok_or_else(|| dangling("image", image_id))?;
            let &label = ids.get(&category_id).ok_or_else(|| dangling("category", category_id))?;
            let label = if iscrowd { IGNORE } else { label };
            self.records[place].instances.push(Instance { id, label, segmentation });
        }
        for record in &mut self.records[start..] {
            record.instances.sort_by_key(|instance| instance.id);
        }
        self.contents.splits.push(Split {
            name: split.name.clone(),
            samples: (start..self.contents.samples.len()).collect(),
        });
        Ok(())
    }

    /// The number of instances in a sample, including crowds.
    pub fn n_instances(&self, index: usize) -> usize {
        self.records[index].instances.len()
    }
}

impl Dataset for CocoDataset {
    fn contents(&self) -> &Contents {
        &self.contents
    }

    fn labels(&self, index: usize) -> Result<Labels, DataError> {
        let Record { size, instances } = &self.records[index];
        let (mut n_runs, mut area) = (0, 0);
        let shapes = instances.iter().map(|instance| {
            let region = fill(&instance.segmentation, *size).and_then(|region| {
                n_runs += region.runs().len();
                area += region.area();
                match () {
                    () if n_runs > MAX_RUNS => Err(TooManyRuns.to_string()),
                    () if area > MAX_AREA => {
                        Err(format!("with those before it, it covers over {MAX_AREA} pixels"))
                    }
                    () => Ok(region),
                }
            });
            let region = region.map_err(|reason| DataError::BadShape {
                path: self.contents.samples[index].label.clone().unwrap_or_default(),
                shape: format!(
                    "annotation `{}` of image `{}`",
                    instance.id, self.contents.samples[index].name
                ),
                reason,
                hint: "correct or remove this annotation",
            })?;
            Ok(Shape { label: instance.label, region, beneath: instance.label == IGNORE })
        });
        let shapes = shapes.collect::<Result<Vec<Shape>, DataError>>()?;
        Ok(paint(size.0, size.1, rest_label(&self.contents.classes), &shapes))
    }
}

fn fill(segmentation: &Segmentation, Size(width, height): Size) -> Result<Region, String> {
    match segmentation {
        Segmentation::None => Err("it has a box but no segmentation".to_string()),
        Segmentation::Polygons(polygons) => {
            let corners =
                polygons.iter().map(|polygon| parse_corners(polygon)).collect::<Result<Vec<_>, _>>()?;
            Region::from_polygons(&corners, width, height).map_err(|error| error.to_string())
        }
        Segmentation::Runs { size, counts } => {
            if *size != (height, width) {
                let (got, expected) = (Size(size.1, size.0), Size(width, height));
                return Err(format!("its mask has size `{got}`, its image `{expected}`"));
            }
            let region = match counts {
                Counts::Plain(counts) => decode_runs(counts, width, height),
                Counts::Packed(packed) => {
                    unpack_runs(packed).and_then(|counts| decode_runs(&counts, width, height))
                }
            };
            region.map_err(|error| error.to_string())
        }
    }
}

fn parse_corners(polygon: &[f32]) -> Result<Vec<(f64, f64)>, String> {
    if polygon.len() < 6 || !polygon.len().is_multiple_of(2) {
        return Err(format!(
            "a polygon has `{}` numbers, expected an even number of at least 6",
            polygon.len()
        ));
    }
    if let Some(odd) = polygon.iter().find(|number| !number.is_finite()) {
        return Err(format!("a polygon has the coordinate `{odd}`"));
    }
    Ok(polygon.chunks_exact(2).map(|corner| (f64::from(corner[0]), f64::from(corner[1]))).collect())
}
