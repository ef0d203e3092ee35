//! Small files that tests write.

use std::path::{Path, PathBuf};

use protoseg_core::{IGNORE, IdMap, Image};
use protoseg_data::mask::encode_index_png;

/// A folder that is removed after the test.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// A picture in the format of its file extension.
    pub fn picture(&self, name: &str, image: &Image) -> PathBuf {
        let path = self.write(name, []);
        let (width, height) = (image.width as u32, image.height as u32);
        image::save_buffer(&path, &image.data, width, height, image::ColorType::Rgb8).unwrap();
        path
    }

    /// An index mask as palette PNG.
    pub fn mask(&self, name: &str, labels: &IdMap) -> PathBuf {
        self.write(name, encode_index_png(labels))
    }

    /// A mask in colours.
    pub fn color_mask(&self, name: &str, labels: &IdMap, color: impl Fn(u16) -> [u8; 3]) -> PathBuf {
        let data = labels.data.iter().flat_map(|&label| color(label)).collect();
        self.picture(name, &Image::new(labels.width, labels.height, data))
    }
}

/// A smooth picture, so that JPEG keeps it.
pub fn gradient(width: usize, height: usize) -> Image {
    let data = (0..width * height).flat_map(|at| {
        let (x, y) = (at % width, at / width);
        [(x * 255 / width) as u8, (y * 255 / height) as u8, 128]
    });
    Image::new(width, height, data.collect())
}

/// The scene that every format describes: 20 x 12, background 0, a cow (1) of 10 x 8 at (2, 2) and a duck (2) of 4 x
/// 4 at (9, 5), which overlaps the cow's edge.
pub fn scene() -> IdMap {
    let mut map = IdMap::new(20, 12, vec![0; 240]);
    for (label, left, top, width, height) in [(1, 2, 2, 10, 8), (2, 9, 5, 4, 4)] {
        for y in top..top + height {
            map.data[y * 20 + left..][..width].fill(label);
        }
    }
    map
}

/// Corners of the scene's rectangles, clockwise.
pub const COW: [(f64, f64); 4] = [(2.0, 2.0), (12.0, 2.0), (12.0, 10.0), (2.0, 10.0)];
pub const DUCK: [(f64, f64); 4] = [(9.0, 5.0), (13.0, 5.0), (13.0, 9.0), (9.0, 9.0)];

/// The scene with "no label" outside all shapes.
pub fn scene_without_background() -> IdMap {
    let mut map = scene();
    map.data.iter_mut().filter(|label| **label == 0).for_each(|label| *label = IGNORE);
    map
}

/// Coordinates as text, separated, each scaled.
pub fn coordinates(corners: &[(f64, f64)], separator: &str, scale: (f64, f64)) -> String {
    let numbers: Vec<String> =
        corners.iter().flat_map(|(x, y)| [(x * scale.0).to_string(), (y * scale.1).to_string()]).collect();
    numbers.join(separator)
}
