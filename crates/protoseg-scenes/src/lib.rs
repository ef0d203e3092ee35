//! Scenes: a small world that the library draws itself, as a data set that needs no files.
//!
//! Every sample is a pure function of `(seed, index, size)`, bit for bit the same on every platform and in every
//! thread. A scene is a place (lake, beach, meadow, street, country road, living room, laid table, kitchen counter,
//! terrace) with weather or lamplight, and 1 to 4 of twenty classes that belong there. Things are small
//! three-dimensional models. They are seen in perspective, lit, shadowed, mirrored in water and partly hidden by each
//! other. The label map gives the class that covers most of each pixel. Trees, rocks, houses, windows and loose fruit
//! are background.
//!
//! ```
//! use protoseg_scenes::{CLASS_NAMES, Scenes};
//!
//! let scenes = Scenes { seed: 7, width: 97, height: 97 };
//! let (image, labels) = scenes.draw(0);
//! assert_eq!((image.width, labels.height), (97, 97));
//! let present: Vec<_> = labels.present().iter().map(|&id| CLASS_NAMES[usize::from(id)]).collect();
//! assert!(present.contains(&"background"));
//! ```

mod backdrop;
mod camera;
mod canvas;
mod kind;
mod light;
mod math;
mod model;
mod noise;
mod paint;
mod render;
mod rng;
mod settings;
mod things;
mod world;

#[cfg(test)]
mod tests;

pub use kind::{CLASS_NAMES, novel_classes};

use protoseg_core::{IdMap, Image};
use rng::Rng;
use settings::Setting;

/// An endless series of labelled pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenes {
    pub seed: u64,
    pub width: usize,
    pub height: usize,
}

impl Scenes {
    /// Picture `index` and its label map, with ids as in [`CLASS_NAMES`].
    ///
    /// The composition depends only on the aspect ratio: the same index at twice the size is the same scene, except
    /// for rounding.
    pub fn draw(&self, index: u64) -> (Image, IdMap) {
        assert!(
            self.width > 0 && self.height > 0,
            "a scene of {} x {} has no pixels",
            self.width,
            self.height
        );
        let mut rng = Rng::new(self.seed, index);
        let setting = Setting::draw(&mut rng);
        // Like a photographer who moves closer: of a few compositions, seen small, take the first that shows enough.
        let small = |side: usize| (side * SKETCH / self.width.max(self.height)).max(1);
        let mut composition = rng.fork();
        for _ in 1..MOST_TRIES {
            let (_, labels) =
                setting.build((small(self.width), small(self.height)), composition.clone()).finish();
            let shown = labels.data.iter().filter(|&&label| label != 0).count();
            if shown * ENOUGH >= labels.data.len() {
                break;
            }
            composition = rng.fork();
        }
        setting.build((self.width, self.height), composition).finish()
    }
}

/// Things must cover at least one pixel in this many; otherwise the scene is composed again.
const ENOUGH: usize = 5;
const MOST_TRIES: usize = 8;
/// The longer side of a sketch, in pixels.
const SKETCH: usize = 32;
