//! How a training picture reaches the crop, and what is done when a crop loses the class that it was made for.

use super::Augment;
use crate::transform::{Axis, Bilinear, Pixel, Rows, Window};
use crate::{Fit, Image, LabelMap, Preprocess};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// How often a crop is drawn anew when it lost its class.
const TRIES: usize = 8;
/// The fewest pixels of its class that a crop must hold: those of one cell at stride 8.
const LEAST_PIXELS: usize = 64;

/// How a training picture reaches the square crop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CropFit {
    /// Scaled, then a random part is cut out.
    #[default]
    Crop,
    /// Stretched over the square, and a part is cut out only where `scale` is above 1.
    Squash,
    /// The longer side becomes the square's, the rest is black, as outside training. Only flips vary it.
    Letterbox,
}

/// Makes training crops.
#[derive(Clone, Debug, PartialEq)]
pub struct Cropper {
    pub augment: Augment,
    pub fit: CropFit,
    /// Probability that a picture is turned upside down.
    pub flip_vertical_p: f64,
}

impl Cropper {
    /// Draws a crop and writes it: `3 * crop * crop` normalised values, and one label per pixel.
    ///
    /// # Panics
    /// As [`Augment::apply_into`].
    pub fn crop<L: Clone>(
        &self,
        rng: &mut impl Rng,
        image: &Image,
        label: &LabelMap<L>,
        values: &mut [f32],
        labels: &mut [u16],
    ) {
        if self.flip_vertical_p > 0.0 && rng.random_bool(self.flip_vertical_p) {
            return self.crop_upright(rng, &upside_down(image), &label_upside_down(label), values, labels);
        }
        self.crop_upright(rng, image, label, values, labels);
    }

    /// As [`Cropper::crop`], for a class that must stay in sight: a crop with too few pixels of it is drawn anew, and
    /// after a few the whole picture is squashed into the square.
    pub fn crop_with<L: Clone>(
        &self,
        class: u16,
        rng: &mut impl Rng,
        image: &Image,
        label: &LabelMap<L>,
        values: &mut [f32],
        labels: &mut [u16],
    ) {
        for _ in 0..TRIES {
            self.crop(rng, image, label, values, labels);
            if labels.iter().filter(|&&label| label == class).count() >= LEAST_PIXELS {
                return;
            }
        }
        self.write_still(Fit::Squash, image, label, values, labels);
    }

    fn crop_upright<L: Clone>(
        &self,
        rng: &mut impl Rng,
        image: &Image,
        label: &LabelMap<L>,
        values: &mut [f32],
        labels: &mut [u16],
    ) {
        let augment = &self.augment;
        match self.fit {
            CropFit::Crop => {
                let draw = augment.sample(rng, image.width, image.height);
                augment.apply_into(&draw, image, label, values, labels);
            }
            CropFit::Squash => {
                let mut draw = augment.sample(rng, augment.crop, augment.crop);
                let side = Axis::by_factor(augment.crop, draw.scale).to;
                draw.scale = 1.0;
                let (image, label) = (squashed(image, side), label.resize_nearest(side, side));
                augment.apply_into(&draw, &image, &label, values, labels);
            }
            CropFit::Letterbox if rng.random_bool(augment.flip_p) => {
                self.write_still(Fit::Letterbox, &image.mirrored(), &label_mirrored(label), values, labels);
            }
            CropFit::Letterbox => self.write_still(Fit::Letterbox, image, label, values, labels),
        }
    }

    /// The picture as it is outside training.
    fn write_still<L>(
        &self,
        fit: Fit,
        image: &Image,
        label: &LabelMap<L>,
        values: &mut [f32],
        labels: &mut [u16],
    ) {
        let &Augment { crop, mean, std, .. } = &self.augment;
        let preprocess = Preprocess { mean, std, fit, ..Preprocess::imagenet(crop) };
        values.copy_from_slice(&preprocess.image(image).data);
        labels.copy_from_slice(&preprocess.label(label).data);
    }
}

/// The picture stretched over a square.
fn squashed(image: &Image, side: usize) -> Image {
    let axes = (Axis::to_length(image.width, side), Axis::to_length(image.height, side));
    let mut rows = Bilinear::new(image, axes, Window::whole(side, side));
    let mut row = vec![Pixel::default(); side];
    let mut data = Vec::with_capacity(3 * side * side);
    for y in 0..side {
        rows.row(y, &mut row);
        data.extend(row.iter().flat_map(|pixel| [0, 1, 2].map(|c| (pixel[c] + 0.5) as u8)));
    }
    Image::new(side, side, data)
}

fn upside_down(image: &Image) -> Image {
    let rows = image.data.chunks_exact(3 * image.width).rev();
    Image::new(image.width, image.height, rows.flatten().copied().collect())
}

fn label_upside_down<L>(label: &LabelMap<L>) -> LabelMap<L> {
    let rows = label.data.chunks_exact(label.width).rev();
    LabelMap::new(label.width, label.height, rows.flatten().copied().collect())
}

fn label_mirrored<L>(label: &LabelMap<L>) -> LabelMap<L> {
    let rows = label.data.chunks_exact(label.width);
    LabelMap::new(label.width, label.height, rows.flat_map(|row| row.iter().rev()).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IGNORE, RowMap, seed};

    /// Dark but for a bright corner of 24 x 24 pixels at the bottom right, which is class 7.
    fn picture(width: usize, height: usize) -> (Image, RowMap) {
        let is_class = |at: usize| at % width + 24 >= width && at / width + 24 >= height;
        let pixels = (0..width * height).flat_map(|at| [if is_class(at) { 250 } else { 5 }; 3]).collect();
        let labels = (0..width * height).map(|at| if is_class(at) { 7 } else { 0 }).collect();
        (Image::new(width, height, pixels), RowMap::new(width, height, labels))
    }

    fn cropper(fit: CropFit, scale: [f64; 2]) -> Cropper {
        let still = Augment { rotate_p: 0.0, blur_p: 0.0, flip_p: 0.0, scale, ..Augment::reference(40) };
        Cropper { augment: still, fit, flip_vertical_p: 0.0 }
    }

    /// Bright values and labels of the class where the crop has them.
    fn crop(cropper: &Cropper, seed: u64, class: Option<u16>, size: (usize, usize)) -> (Vec<bool>, Vec<u16>) {
        let (image, label) = picture(size.0, size.1);
        let (mut values, mut labels) = (vec![0.0; 3 * 1600], vec![0; 1600]);
        let mut rng = seed::stream(seed, &[]);
        match class {
            Some(class) => {
                cropper.crop_with(class, &mut rng, &image, &label, &mut values, &mut labels);
            }
            None => cropper.crop(&mut rng, &image, &label, &mut values, &mut labels),
        }
        (values[..1600].iter().map(|&red| red > 0.0).collect(), labels)
    }

    fn count(labels: &[u16]) -> usize {
        labels.iter().filter(|&&label| label == 7).count()
    }

    #[test]
    fn a_squashed_picture_is_whole_and_fills_the_square() {
        let (bright, labels) = crop(&cropper(CropFit::Squash, [1.0, 1.0]), 1, None, (120, 60));
        // 24 of 120 columns and 24 of 60 rows.
        assert_eq!(count(&labels), 8 * 16);
        assert!(labels.iter().all(|&label| label != IGNORE));
        let agree = bright.iter().zip(&labels).filter(|(bright, label)| **bright == (**label == 7)).count();
        assert!(agree > 1600 - 60, "{agree}");
    }

    #[test]
    fn a_larger_squash_is_cropped() {
        let wide = cropper(CropFit::Squash, [1.5, 1.5]);
        let counts: Vec<usize> = (0..20).map(|seed| count(&crop(&wide, seed, None, (120, 60)).1)).collect();
        assert!(counts.iter().all(|&count| count <= 12 * 24) && counts.iter().any(|&count| count > 200));
    }

    #[test]
    fn a_letterboxed_picture_leaves_the_rest_black() {
        let (_, labels) = crop(&cropper(CropFit::Letterbox, [1.0, 1.0]), 1, None, (120, 60));
        assert!(labels[16 * 40..].iter().all(|&label| label == IGNORE) && labels[0] == 0);
    }

    #[test]
    fn flips_mirror_picture_and_labels_alike() {
        let still = cropper(CropFit::Letterbox, [1.0, 1.0]);
        let (_, plain) = crop(&still, 3, None, (80, 80));
        let turned = Cropper { flip_vertical_p: 1.0, ..still.clone() };
        let (bright, labels) = crop(&turned, 3, None, (80, 80));
        assert!(labels[39] == 7 && labels[39 * 40 + 39] == 0 && bright[39] && !bright[39 * 40 + 39]);
        assert_eq!(count(&labels), count(&plain));
        let mut mirror = still;
        mirror.augment.flip_p = 1.0;
        let (bright, labels) = crop(&mirror, 3, None, (80, 80));
        assert!(labels[39 * 40] == 7 && bright[39 * 40]);
    }

    #[test]
    fn a_class_that_crops_lose_is_kept_by_squashing() {
        // A crop of 40 from a side of 400 hardly ever meets the corner.
        let far = cropper(CropFit::Crop, [1.0, 1.0]);
        assert_eq!(count(&crop(&far, 5, None, (400, 400)).1), 0);
        for seed in 0..20 {
            let (_, labels) = crop(&far, seed, Some(7), (400, 400));
            let count = count(&labels);
            assert!(count >= 4, "{count}");
            assert!(labels.iter().all(|&label| label != IGNORE));
        }
    }
}
