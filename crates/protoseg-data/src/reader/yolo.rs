//! YOLO segmentation: one text file per image, one shape per line: `class x y x y ...`, coordinates from 0 to 1.
//!
//! `data.yaml` names the classes and the splits, as Ultralytics and CVAT write it. The path of a label file is that
//! of its image, with `labels` instead of the last folder called `images`. An image without a label file has no
//! labels. Class k in the files has id k + 1; id 0 is the background. Overlaps follow the rule of [`crate::shapes`].

use std::path::{Path, PathBuf};

use protoseg_core::{ClassId, ClassTable};

use super::{drawn_classes, folder_name, rest_label};
use crate::dataset::{Contents, Dataset, Sample, SampleTable, Split};
use crate::picture::image_size;
use crate::region::Region;
use crate::shapes::{Labels, Shape, paint};
use crate::{DataError, Size, files};

/// An open YOLO data set.
pub struct YoloDataset {
    contents: Contents,
}

/// The description file of a folder.
pub fn find_yaml(root: &Path) -> Option<PathBuf> {
    ["data.yaml", "data.yml", "dataset.yaml"].iter().map(|name| root.join(name)).find(|path| path.is_file())
}

/// Opens the data set that the folder's `data.yaml` describes. `background` says whether pixels outside all shapes
/// are background or "no label".
pub fn open(root: &Path, background: bool) -> Result<YoloDataset, DataError> {
    let path = find_yaml(root).ok_or_else(|| DataError::missing(&root.join("data.yaml")))?;
    open_yaml(&path, background)
}

/// Opens the data set that a YAML file of any name describes.
pub fn open_yaml(path: &Path, background: bool) -> Result<YoloDataset, DataError> {
    let path = path.to_path_buf();
    let root = path.parent().filter(|root| !root.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let yaml = parse_yaml(&path, &files::read_text(&path)?)?;
    let classes = drawn_classes(&yaml.names, background)
        .map_err(|source| DataError::Classes { path: path.clone(), source })?;
    let base = yaml.path.map_or_else(|| root.to_path_buf(), |path| root.join(path));
    let base = if base.is_dir() { base } else { root.to_path_buf() };
    let mut table = SampleTable::default();
    let mut splits = Vec::new();
    for (name, place) in yaml.splits {
        let images = find_images(&base, &place)?;
        if images.is_empty() {
            return Err(DataError::Empty {
                path: base.join(place),
                hint: "put the images there, or correct data.yaml",
            });
        }
        let samples = images.into_iter().filter_map(|image| {
            let label = Some(label_path(&image)).filter(|label| label.is_file());
            table.add(Sample { name: files::name_under(&base, &image), image, label })
        });
        splits.push(Split { name, samples: samples.collect() });
    }
    if splits.is_empty() {
        return Err(DataError::Empty { path, hint: "add a line such as `train: images/train`" });
    }
    let name = folder_name(root, "yolo");
    Ok(YoloDataset { contents: Contents { name, classes, samples: table.samples, splits } })
}

/// The images of a split: a folder, or a text file with one image per line. Some exports write `../train/images`
/// where they mean `train/images`.
fn find_images(base: &Path, place: &str) -> Result<Vec<PathBuf>, DataError> {
    let stripped = place.trim_start_matches("../").trim_start_matches("./");
    let found = [place, stripped].into_iter().map(|place| base.join(place)).find(|path| path.exists());
    let path = found.ok_or_else(|| DataError::missing(&base.join(place)))?;
    if path.is_dir() {
        return files::walk(&path, files::is_picture);
    }
    let parent = path.parent().unwrap_or(base);
    let lines = files::read_lines(&path)?;
    let resolve = |(_, line): (usize, String)| {
        // CVAT writes paths that start with the name of the archive's folder.
        let inner = line.split_once('/').map_or(line.as_str(), |(_, inner)| inner);
        let places = [parent.join(&line), parent.join(inner), base.join(&line)];
        places.into_iter().find(|path| path.is_file()).unwrap_or_else(|| parent.join(&line))
    };
    Ok(lines.into_iter().map(resolve).collect())
}

fn label_path(image: &Path) -> PathBuf {
    let parts: Vec<_> = image.components().collect();
    let last = parts.iter().rposition(|part| part.as_os_str() == "images");
    let swapped: PathBuf = parts
        .iter()
        .enumerate()
        .map(|(place, part)| if Some(place) == last { "labels".as_ref() } else { part.as_os_str() })
        .collect();
    swapped.with_extension("txt")
}

struct Yaml {
    path: Option<String>,
    names: Vec<String>,
    splits: Vec<(String, String)>,
}

/// Reads the few keys we need from plain YAML: `key: value`, and `names` as `[a, b]`, as `- a` lines or as `0: a`
/// lines.
fn parse_yaml(path: &Path, text: &str) -> Result<Yaml, DataError> {
    let mut yaml = Yaml { path: None, names: Vec::new(), splits: Vec::new() };
    let mut in_names = false;
    for (index, line) in text.lines().enumerate() {
        let content = line.split(" #").next().unwrap_or("").trim();
        let refuse = |expected| DataError::Line {
            path: path.to_path_buf(),
            line: index + 1,
            got: content.to_string(),
            expected,
        };
        if content.is_empty() || content.starts_with('#') || content == "---" {
            continue;
        }
        let indented = line.starts_with([' ', '\t']);
        if in_names && (indented || content.starts_with('-')) {
            let name = match content.strip_prefix('-') {
                Some(name) => name,
                None => {
                    let (id, name) =
                        content.split_once(':').ok_or_else(|| refuse("`0: name` or `- name`"))?;
                    if id.trim().parse() != Ok(yaml.names.len()) {
                        return Err(refuse("the classes in order, from 0, without gaps"));
                    }
                    name
                }
            };
            yaml.names.push(unquote(name));
            continue;
        }
        in_names = false;
        let Some((key, value)) = content.split_once(':').filter(|_| !indented) else { continue };
        let value = value.trim();
        match key.trim() {
            "path" => yaml.path = Some(unquote(value)),
            "names" if value.is_empty() => in_names = true,
            "names" => {
                let inner = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                let inner = inner.ok_or_else(|| refuse("`names: [first, second]`, or one name per line"))?;
                yaml.names = inner.split(',').map(unquote).filter(|name| !name.is_empty()).collect();
            }
            split @ ("train" | "val" | "test") if !value.is_empty() && value != "null" => {
                if value.starts_with('[') {
                    return Err(refuse("one folder or one list file per split"));
                }
                yaml.splits.push((split.to_string(), unquote(value)));
            }
            _ => {}
        }
    }
    Ok(yaml)
}

fn unquote(value: &str) -> String {
    let value = value.trim();
    let quoted = ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    quoted.unwrap_or(value).to_string()
}

impl YoloDataset {
    /// The same data set under another name.
    pub fn with_name(self, name: String) -> Self {
        Self { contents: Contents { name, ..self.contents } }
    }
}

impl Dataset for YoloDataset {
    fn contents(&self) -> &Contents {
        &self.contents
    }

    fn labels(&self, index: usize) -> Result<Labels, DataError> {
        let sample = &self.contents.samples[index];
        let size = image_size(&sample.image)?;
        let mut shapes = Vec::new();
        if let Some(path) = &sample.label {
            for (line, text) in files::read_lines(path)? {
                let refuse =
                    |expected| DataError::Line { path: path.clone(), line, got: shorten(&text), expected };
                shapes.push(parse_shape(&text, size, &self.contents.classes).map_err(refuse)?);
            }
        }
        Ok(paint(size.0, size.1, rest_label(&self.contents.classes), &shapes))
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

fn parse_shape(line: &str, Size(width, height): Size, classes: &ClassTable) -> Result<Shape, &'static str> {
    let mut words = line.split_whitespace();
    let class: Option<u16> = words.next().and_then(|word| word.parse().ok());
    let label =
        class.and_then(|class| class.checked_add(1)).filter(|&label| classes.contains(ClassId(label)));
    let label = label.ok_or("a class number that data.yaml names")?;
    let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.iter().all(|n| n.is_finite())).ok_or("only numbers")?;
    match numbers.len() {
        4 => Err("a polygon, not a box (`class x y w h` is for detection)"),
        n if n < 6 || n % 2 != 0 => Err("a class and at least 3 pairs of coordinates"),
        _ => {
            let corner = |pair: &[f64]| (pair[0] * width as f64, pair[1] * height as f64);
            let corners: Vec<_> = numbers.chunks_exact(2).map(corner).collect();
            let region = Region::from_polygons(&[corners], width, height);
            let region = region.map_err(|_| "a polygon of fewer corners")?;
            Ok(Shape { label, region, beneath: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_data_yaml_are_read() {
        let forms = [
            "path: ../d # root\ntrain: images/train\nval: 'images/my val'\nnc: 2\nnames: ['cat', \"sea dog\"]\n",
            "train: images/train\nval: images/my val\npath: ../d\nnames:\n  0: cat\n  1: sea dog\nroboflow:\n  names: x\n",
            "# made by hand\npath: ../d\nnames:\n- cat\n- sea dog\ntrain: images/train\nval: images/my val\ntest:\n",
        ];
        for text in forms {
            let yaml = parse_yaml(Path::new("data.yaml"), text).unwrap();
            assert_eq!(yaml.names, ["cat", "sea dog"], "{text}");
            assert_eq!(yaml.path.as_deref(), Some("../d"));
            let splits = [("train", "images/train"), ("val", "images/my val")];
            assert_eq!(yaml.splits, splits.map(|(name, place)| (name.to_string(), place.to_string())));
        }
        let gap = parse_yaml(Path::new("data.yaml"), "names:\n  0: a\n  2: b\n");
        assert!(gap.is_err());
    }

    #[test]
    fn labels_stand_where_images_do() {
        let path = label_path(Path::new("images/set/images/train/a b.JPG"));
        assert_eq!(path, Path::new("images/set/labels/train/a b.txt"));
    }

    #[test]
    fn lines_become_shapes() {
        let classes = ClassTable::from_names(&["background", "cat"], &[]).unwrap();
        let parse = |line| parse_shape(line, Size(10, 4), &classes);
        let half = parse("0 0 0 0.5 0 0.5 1 0 1").unwrap();
        assert_eq!((half.label, half.region.area()), (1, 20));
        assert!(parse("1 0 0 0.5 0 0.5 1").unwrap_err().contains("class number"));
        assert!(parse("0 0.5 0.5 0.1 0.1").unwrap_err().contains("not a box"));
        assert!(parse("0 0 0 1").is_err());
        assert!(parse("0 0 0 1 0 1 nan").is_err());
    }
}
