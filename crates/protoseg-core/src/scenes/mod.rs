//! Scenes: a small world that the library draws itself, as the data set that needs no files.
//!
//! Every sample is a pure function of `(seed, index, size)`, bit for bit the same on every platform and in every
//! thread. A scene is a place (lake, beach, meadow, street, country road, living room, laid table, kitchen counter,
//! terrace) with weather or lamplight, and 1 to 4 of twenty classes that belong there. Things are small three-dimensional
//! models seen in perspective, lit, shadowed, mirrored in water and partly hidden by each other; the label map says
//! for each pixel which class covers most of it. Trees, rocks, houses, windows and loose fruit are background.
//!
//! ```
//! use protoseg_core::scenes::{CLASS_NAMES, Scenes};
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

use crate::raster::{Image, LabelMap};
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
    /// Picture `index` and its label map, ids as in [`CLASS_NAMES`].
    ///
    /// The composition depends on the aspect of the picture only: the same index at twice the size is, but for
    /// rounding, the same scene.
    pub fn draw(&self, index: u64) -> (Image, LabelMap) {
        assert!(
            self.width > 0 && self.height > 0,
            "a scene of {} x {} has no pixels",
            self.width,
            self.height
        );
        let mut rng = Rng::new(self.seed, index);
        let setting = Setting::draw(&mut rng);
        let mut again = 0;
        loop {
            let (image, labels) = setting.build((self.width, self.height), rng.fork()).finish();
            let shown = labels.data.iter().filter(|&&label| label != 0).count();
            // In one scene of two hundred all things ended up hidden or outside.
            if again == MOST_TRIES || shown * ONE_IN >= labels.data.len() {
                return (image, labels);
            }
            again += 1;
        }
    }
}

/// A scene that shows less than one pixel of a thing in this many is drawn again.
const ONE_IN: usize = 50;
const MOST_TRIES: usize = 4;
