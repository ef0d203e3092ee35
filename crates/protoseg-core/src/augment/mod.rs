//! The random transforms of training, in the reference's order: scale, rotate, blur, flip, crop, normalise.
//!
//! Randomness and work are separate. [`Augment::sample`] draws a plan of plain numbers; [`Augment::apply`] carries it
//! out without randomness. A sample can therefore be recorded and made again.

mod cropper;
mod fused;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod tests;

pub use cropper::{CropFit, Cropper};

use crate::transform::{Axis, Placement};
use crate::{Image, LabelMap};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// What may happen to a training picture, and how it is cropped and normalised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Augment {
    /// Side of the square crop.
    pub crop: usize,
    /// Smallest and largest scale; the scale is drawn uniformly between them.
    pub scale: [f64; 2],
    /// Smallest and largest rotation in degrees, counter-clockwise; the angle is drawn uniformly between them.
    pub rotate: [f64; 2],
    /// Probability that a picture is rotated.
    pub rotate_p: f64,
    /// Probability that it is blurred.
    pub blur_p: f64,
    /// Probability that it is flipped left to right.
    pub flip_p: f64,
    /// Colour outside the picture, on the 0..255 scale; it is normalised like every other pixel.
    pub border: [f32; 3],
    /// Mean of red, green and blue on the 0..255 scale.
    pub mean: [f32; 3],
    /// Standard deviation of red, green and blue on the 0..255 scale.
    pub std: [f32; 3],
}

/// What is done to one picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugmentDraw {
    pub scale: f64,
    /// Degrees, counter-clockwise.
    pub rotate: Option<f64>,
    pub blur: bool,
    pub flip: bool,
    /// Column and row of the crop's corner in the scaled and padded picture.
    pub offset: (usize, usize),
}

impl Augment {
    /// The reference's settings. Its border colour is the mean divided by 255 once too often, which is nearly black;
    /// models trained with it expect that.
    pub fn reference(crop: usize) -> Self {
        let mean = [123.675, 116.28, 103.53];
        Self {
            crop,
            scale: [0.5, 2.0],
            rotate: [-10.0, 10.0],
            rotate_p: 0.5,
            blur_p: 0.5,
            flip_p: 0.5,
            border: mean.map(|mean| mean / 255.0),
            mean,
            std: [58.395, 57.12, 57.375],
        }
    }

    /// Draws what is done to a picture of this size. The same state of `rng` gives the same plan.
    ///
    /// # Panics
    /// If a probability is not between 0 and 1.
    pub fn sample(&self, rng: &mut impl Rng, width: usize, height: usize) -> AugmentDraw {
        let between = |rng: &mut _, [low, high]: [f64; 2]| low + (high - low) * Rng::random::<f64>(rng);
        let scale = between(rng, self.scale);
        let rotate = rng.random_bool(self.rotate_p).then(|| between(rng, self.rotate));
        let blur = rng.random_bool(self.blur_p);
        let flip = rng.random_bool(self.flip_p);
        let scaled = (Axis::by_factor(width, scale).to, Axis::by_factor(height, scale).to);
        let (right, down) = Placement::freedom(scaled, self.crop);
        AugmentDraw {
            scale,
            rotate,
            blur,
            flip,
            offset: (rng.random_range(0..=right), rng.random_range(0..=down)),
        }
    }

    /// Carries out a plan. Returns `3 * crop * crop` normalised values (red plane, green plane, blue plane) and one
    /// label per pixel, [`IGNORE`](crate::IGNORE) outside the picture.
    ///
    /// # Panics
    /// If image and label differ in size or are empty, if the crop is empty, or if the plan was drawn for another
    /// size.
    pub fn apply<L>(
        &self,
        plan: &AugmentDraw,
        image: &Image,
        label: &LabelMap<L>,
    ) -> (Vec<f32>, LabelMap<L>) {
        let area = self.crop * self.crop;
        let mut values = vec![0.0; 3 * area];
        let mut labels = vec![0; area];
        self.apply_into(plan, image, label, &mut values, &mut labels);
        (values, LabelMap::new(self.crop, self.crop, labels))
    }

    /// As [`Augment::apply`], but writes into existing memory: one sample's place in a batch. Every value is
    /// written.
    ///
    /// # Panics
    /// As [`Augment::apply`], or if the memory does not have the size of a crop.
    pub fn apply_into<L>(
        &self,
        plan: &AugmentDraw,
        image: &Image,
        label: &LabelMap<L>,
        values: &mut [f32],
        labels: &mut [u16],
    ) {
        let area = self.crop * self.crop;
        assert_eq!((values.len(), labels.len()), (3 * area, area), "the place for a crop of {}", self.crop);
        assert_eq!(
            (image.width, image.height),
            (label.width, label.height),
            "an image and its label differ in size"
        );
        assert!(image.width > 0 && image.height > 0, "there is nothing to augment in an empty image");
        assert!(self.crop > 0, "a crop of 0 pixels holds nothing");
        let geometry = fused::Geometry::new(self, plan, image.width, image.height);
        geometry.image(self, image, values);
        geometry.label(self.crop, label, labels);
    }
}
