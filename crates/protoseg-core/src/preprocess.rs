//! Prepares a picture for a network outside training: resizes it to fit a canvas, places it at the top left corner and
//! normalises it. Nothing here is random.
//!
//! The canvas is a square, on which pictures keep their shape ([`Fit::Letterbox`]) or lose it ([`Fit::Squash`], in some
//! published protocols), or it has the shape of the picture ([`Fit::Tight`]).

use crate::transform::{Axis, Bilinear, Normalise, Pixel, Rows, Window, nearest, planes_row};
use crate::{IGNORE, Image, LabelMap};
use serde::{Deserialize, Serialize};

/// The preprocessing for evaluation, registration and prediction. By default it is the reference's: the longer side
/// becomes `size` and the other side keeps the aspect ratio (truncated). Both are rounded down to a multiple of
/// [`Preprocess::MULTIPLE`]. The rest of the square is black before normalisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocess {
    /// Side of the square canvas, or the longer side of a tight one.
    pub size: usize,
    /// Mean of red, green and blue on the 0..255 scale.
    pub mean: [f32; 3],
    /// Standard deviation of red, green and blue on the 0..255 scale.
    pub std: [f32; 3],
    /// How pictures that are not square reach the canvas.
    #[serde(default, skip_serializing_if = "Fit::is_letterbox")]
    pub fit: Fit,
    /// How the network's grid of features lies on the canvas.
    #[serde(default, skip_serializing_if = "GridPlacement::is_corners")]
    pub grid: GridPlacement,
    /// What the sides of a tight canvas are multiples of.
    #[serde(default = "tight_multiple", skip_serializing_if = "is_tight_multiple")]
    pub multiple: usize,
}

fn tight_multiple() -> usize {
    Preprocess::TIGHT_MULTIPLE
}

fn is_tight_multiple(multiple: &usize) -> bool {
    *multiple == Preprocess::TIGHT_MULTIPLE
}

/// How a coarse grid of positions lies on a canvas of pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GridPlacement {
    /// The first position is the first pixel, the last position the last pixel: of networks that pad evenly, on canvases
    /// of 8n + 1 pixels.
    #[default]
    Corners,
    /// Every position is the centre of an area of pixels.
    Centres,
}

impl GridPlacement {
    fn is_corners(&self) -> bool {
        *self == Self::Corners
    }
}

/// How pictures that are not square reach the canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// They keep their aspect ratio, and the rest of the square is black.
    #[default]
    Letterbox,
    /// They are stretched over the whole square.
    Squash,
    /// The canvas has their shape: the longer side becomes the canvas's `size`, or twice its own length if that is less,
    /// and both are rounded to a multiple of [`Preprocess::multiple`]. No position of the network's grid lies beside
    /// the picture, and none is computed.
    Tight,
}

impl Fit {
    fn is_letterbox(&self) -> bool {
        *self == Self::Letterbox
    }
}

/// A picture as the network's input.
#[derive(Clone, Debug, PartialEq)]
pub struct Canvas {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// Width and height of the picture at the top left corner; the rest is black.
    pub content: (usize, usize),
    /// `3 * height * width` normalised values: red plane, green plane, blue plane.
    pub data: Vec<f32>,
}

impl Preprocess {
    /// Sides of the content are rounded down to a multiple of this. A side that would vanish gets this length instead
    /// (or the canvas's, if that is smaller), so that even the thinnest picture is seen.
    pub const MULTIPLE: usize = 8;
    /// Sides of a tight canvas are multiples of this unless an encoder says otherwise: the largest stride of most.
    pub const TIGHT_MULTIPLE: usize = 32;
    /// Small pictures are enlarged by at most this factor on a tight canvas: more shows nothing new.
    pub const TIGHT_ENLARGED: f64 = 2.0;

    /// The share of a position's area that strokes must cover to label it.
    pub const LEAST_COVERED: f64 = 1.0 / 6.0;

    /// With the mean and deviation of ImageNet.
    pub fn imagenet(size: usize) -> Self {
        Self {
            size,
            mean: [123.675, 116.28, 103.53],
            std: [58.395, 57.12, 57.375],
            fit: Fit::Letterbox,
            grid: GridPlacement::Corners,
            multiple: Self::TIGHT_MULTIPLE,
        }
    }

    /// Width and height of the canvas for a picture of this size.
    pub fn canvas_size(&self, width: usize, height: usize) -> (usize, usize) {
        match self.fit {
            Fit::Letterbox | Fit::Squash => (self.size, self.size),
            Fit::Tight => {
                let ratio = (self.size as f64 / width.max(height).max(1) as f64).min(Self::TIGHT_ENLARGED);
                let multiple = self.multiple.max(1) as f64;
                let fit = |side: usize| (side as f64 * ratio / multiple).round().max(1.0) as usize;
                (fit(width) * self.multiple, fit(height) * self.multiple)
            }
        }
    }

    /// The width and height that a picture of this size has on the canvas.
    pub fn content(&self, width: usize, height: usize) -> (usize, usize) {
        if width == 0 || height == 0 {
            return (0, 0);
        }
        if self.fit != Fit::Letterbox {
            return self.canvas_size(width, height);
        }
        // First the ratio, then the product, in double precision: the order can change the truncated result.
        let ratio = self.size as f64 / width.max(height) as f64;
        let fit = |side: usize, other: usize| {
            let side = if side >= other { self.size } else { (side as f64 * ratio) as usize };
            (side / Self::MULTIPLE * Self::MULTIPLE).max(Self::MULTIPLE).min(self.size)
        };
        (fit(width, height), fit(height, width))
    }

    /// Places a picture on the canvas.
    pub fn image(&self, image: &Image) -> Canvas {
        let (canvas_width, canvas_height) = self.canvas_size(image.width, image.height);
        let (width, height) = self.content(image.width, image.height);
        let normalise = Normalise::new(self.mean, self.std);

        let pixels = canvas_width * canvas_height;
        let mut data = Vec::with_capacity(3 * pixels);
        for black in normalise.colour([0.0; 3]) {
            data.resize(data.len() + pixels, black);
        }
        if width > 0 {
            let axes = (Axis::to_length(image.width, width), Axis::to_length(image.height, height));
            let mut rows = Bilinear::new(image, axes, Window::whole(width, height));
            let mut row = vec![Pixel::default(); width];
            for y in 0..height {
                rows.row(y, &mut row);
                normalise.row(&row, planes_row(&mut data, canvas_width, y, 0..width));
            }
        }
        Canvas { width: canvas_width, height: canvas_height, content: (width, height), data }
    }

    /// Places a label map on the canvas, and picks the labels at the positions of a grid on it.
    pub fn grid_label<L>(&self, label: &LabelMap<L>, width: usize, height: usize) -> LabelMap<L> {
        let canvas = self.label(label);
        match self.grid {
            GridPlacement::Corners => canvas.resize_nearest(width, height),
            GridPlacement::Centres => canvas.at_centres(width, height),
        }
    }

    /// The same for a picture of which only strokes are labelled: a position takes the label that most labelled pixels
    /// of its area have, if they cover at least [`Self::LEAST_COVERED`] of it. A thin stroke that passes beside the
    /// middle of every area counts, too. If no area is covered by as much, those that are covered most count.
    pub fn grid_strokes<L>(&self, label: &LabelMap<L>, width: usize, height: usize) -> LabelMap<L> {
        let canvas = self.canvas_size(label.width, label.height);
        let content = self.content(label.width, label.height);
        let columns = self.nearest_positions(label.width, content.0, canvas.0, width);
        let rows = self.nearest_positions(label.height, content.1, canvas.1, height);
        let mut votes: Vec<Vec<(u16, u32)>> = vec![Vec::new(); width * height];
        let mut areas = vec![0u32; width * height];
        for (line, &row) in label.data.chunks_exact(label.width.max(1)).zip(&rows) {
            let mut start = 0;
            while start < line.len() {
                let (at, value) = (columns[start], line[start]);
                let rest = line[start..].iter().zip(&columns[start..]);
                let length = rest.take_while(|(label, column)| **label == value && **column == at).count();
                let position = row * width + at;
                areas[position] += length as u32;
                if value != IGNORE {
                    match votes[position].iter_mut().find(|(label, _)| *label == value) {
                        Some((_, count)) => *count += length as u32,
                        None => votes[position].push((value, length as u32)),
                    }
                }
                start += length;
            }
        }
        let covered = |position: usize| {
            let painted: u32 = votes[position].iter().map(|(_, count)| count).sum();
            f64::from(painted) / f64::from(areas[position].max(1))
        };
        let most = (0..votes.len()).map(covered).fold(0.0, f64::max);
        let least = Self::LEAST_COVERED.min(most);
        let winner = |position: usize| {
            // The lower label wins a tie.
            let best =
                votes[position].iter().max_by_key(|(label, count)| (*count, std::cmp::Reverse(*label)));
            best.filter(|_| covered(position) >= least).map_or(IGNORE, |(label, _)| *label)
        };
        LabelMap::new(width, height, (0..votes.len()).map(winner).collect())
    }

    /// For each of the `length` pixels of a picture's line, the position of a grid of `count` that it is nearest to.
    pub fn nearest_positions(
        &self,
        length: usize,
        content: usize,
        canvas: usize,
        count: usize,
    ) -> Vec<usize> {
        let scale = content as f64 / length.max(1) as f64;
        let nearest = |pixel: usize| {
            let at = (pixel as f64 + 0.5) * scale;
            let position = match self.grid {
                GridPlacement::Centres => (at * count as f64 / canvas.max(1) as f64).floor(),
                GridPlacement::Corners => {
                    ((at - 0.5) * (count as f64 - 1.0) / (canvas as f64 - 1.0).max(1.0)).round()
                }
            };
            (position.max(0.0) as usize).min(count.saturating_sub(1))
        };
        (0..length).map(nearest).collect()
    }

    /// Places a label map on the canvas, with [`IGNORE`] outside the content.
    pub fn label<L>(&self, label: &LabelMap<L>) -> LabelMap<L> {
        let (canvas_width, canvas_height) = self.canvas_size(label.width, label.height);
        let (width, height) = self.content(label.width, label.height);
        let pixels = vec![IGNORE; canvas_width * canvas_height];
        let mut canvas = LabelMap::new(canvas_width, canvas_height, pixels);
        if width == 0 {
            return canvas;
        }
        let axes = (Axis::to_length(label.width, width), Axis::to_length(label.height, height));
        let content = nearest(label, axes, Window::whole(width, height));
        for (row, content) in canvas.data.chunks_exact_mut(canvas_width).zip(content.data.chunks_exact(width))
        {
            row[..width].copy_from_slice(content);
        }
        canvas
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use protoseg_testing::assert_close;

    #[test]
    #[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
    fn the_canvas_is_the_reference_s() {
        let golden = Golden::open();
        let preprocess = Preprocess::imagenet(161);
        let canvas = preprocess.image(&golden.photo());
        assert_eq!(canvas.content, (160, 120));

        // The file says that this tensor is [3, 161, 161], but its values are in HWC order: it was saved from a
        // transposed view. Read in that order, it equals `resize_161.image`, normalised, to the last bit.
        let hwc = golden.values("eval_161.image");
        let chw: Vec<f32> = (0..3).flat_map(|c| hwc.iter().skip(c).step_by(3).copied()).collect();
        assert_close("canvas", &canvas.data, &chw, 1e-4);
        assert_eq!(preprocess.label(&golden.label("label")), golden.label("eval_161.label"));
    }

    #[test]
    #[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
    fn the_resized_picture_is_the_reference_s() {
        let golden = Golden::open();
        for size in [161, 473] {
            let preprocess = Preprocess { mean: [0.0; 3], std: [1.0; 3], ..Preprocess::imagenet(size) };
            let canvas = preprocess.image(&golden.photo()).data;
            let hwc: Vec<f32> =
                (0..size * size).flat_map(|i| [0, 1, 2].map(|c| canvas[c * size * size + i])).collect();
            let picture = format!("resize_{size}.image");
            assert_close(&picture, &hwc, golden.values(&picture), 1e-2);
            let label = preprocess.label(&golden.label("label"));
            assert_eq!(label, golden.label(&format!("resize_{size}.label")));
        }
    }

    #[test]
    fn sides_are_truncated_then_floored_to_a_multiple_of_eight() {
        let preprocess = Preprocess::imagenet(473);
        assert_eq!(preprocess.content(500, 375), (472, 352));
        assert_eq!(preprocess.content(375, 500), (352, 472));
        assert_eq!(preprocess.content(333, 333), (472, 472));
    }

    #[test]
    fn squashed_pictures_fill_the_square() {
        let preprocess = Preprocess { fit: Fit::Squash, ..Preprocess::imagenet(6) };
        assert_eq!((preprocess.content(500, 3), preprocess.content(0, 3)), ((6, 6), (0, 0)));
        let label = crate::RowMap::new(3, 2, vec![1, 2, 3, 4, 5, 6]);
        let squashed = preprocess.label(&label);
        assert_eq!(squashed, label.resize_nearest(6, 6), "as PyTorch's nearest");
        let canvas = preprocess.image(&Image::new(3, 2, vec![200; 18]));
        assert!(canvas.data[..36].iter().all(|red| (red - (200.0 - 123.675) / 58.395).abs() < 1e-4));
    }

    #[test]
    fn a_tight_canvas_has_the_shape_of_the_picture() {
        let preprocess = Preprocess { fit: Fit::Tight, ..Preprocess::imagenet(480) };
        assert_eq!(preprocess.content(320, 213), (480, 320));
        assert_eq!(preprocess.content(375, 500), (352, 480));
        assert_eq!(preprocess.content(1, 5000), (32, 480));
        assert_eq!(preprocess.content(0, 5), (0, 0));
        assert_eq!(preprocess.content(64, 50), (128, 96), "enlarged twice");
        let canvas = preprocess.image(&Image::new(48, 32, vec![200; 48 * 32 * 3]));
        assert_eq!((canvas.width, canvas.height, canvas.content), (96, 64, (96, 64)));
        assert!(canvas.data[..96 * 64].iter().all(|red| (red - (200.0 - 123.675) / 58.395).abs() < 1e-4));
        let label = crate::RowMap::new(48, 32, (0..48 * 32).map(|at| at / 48).collect());
        let label = preprocess.label(&label);
        assert_eq!((label.width, label.height, label.data[0], label.data[96 * 64 - 1]), (96, 64, 0, 31));
    }

    #[test]
    fn a_thin_stroke_beside_the_middle_of_every_area_counts() {
        let preprocess =
            Preprocess { fit: Fit::Tight, grid: GridPlacement::Centres, ..Preprocess::imagenet(32) };
        // Areas of 8 x 8 pixels: a line of two pixels along the upper edge of the second row of areas.
        let mut strokes = crate::RowMap::new(32, 32, vec![IGNORE; 32 * 32]);
        strokes.data[8 * 32..10 * 32].fill(5);
        assert_eq!(preprocess.grid_label(&strokes, 4, 4).present(), [0u16; 0], "picked at the middle");
        let labels = preprocess.grid_strokes(&strokes, 4, 4);
        assert_eq!(labels.data[4..8], [5; 4]);
        assert_eq!(labels.data.iter().filter(|&&label| label == 5).count(), 4);
        // Where two strokes meet, more pixels win; a touch of another area does not count.
        strokes.data[10 * 32..12 * 32].fill(7);
        strokes.data[12 * 32..12 * 32 + 8].fill(7);
        strokes.data[7 * 32] = 7;
        assert_eq!(
            preprocess.grid_strokes(&strokes, 4, 4).data[..8],
            [IGNORE, IGNORE, IGNORE, IGNORE, 7, 5, 5, 5]
        );
        // A single dot is still seen.
        let mut dot = crate::RowMap::new(32, 32, vec![IGNORE; 32 * 32]);
        dot.data[33] = 9;
        assert_eq!(preprocess.grid_strokes(&dot, 4, 4).data[0], 9);
        let corners = Preprocess::imagenet(9);
        assert_eq!(corners.nearest_positions(8, 8, 9, 3), [0, 0, 1, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn no_size_is_too_odd() {
        let sizes = [(1, 1), (1, 700), (700, 1), (2, 3), (9, 2000), (0, 0), (0, 5)];
        for ((width, height), size) in sizes.into_iter().flat_map(|image| [1, 7, 8, 97].map(|s| (image, s))) {
            let preprocess = Preprocess::imagenet(size);
            let canvas = preprocess.image(&Image::new(width, height, vec![200; width * height * 3]));
            let label = preprocess.label(&crate::RowMap::new(width, height, vec![4; width * height]));
            let (w, h) = canvas.content;
            assert!(
                w <= size && h <= size && (w > 0) == (width * height > 0),
                "{width} x {height}: {w} x {h}"
            );
            assert_eq!(label.data.iter().filter(|&&label| label == 4).count(), w * h);
            let bright = (200.0 - 123.675) / 58.395;
            let seen = canvas.data[..size * size].iter().filter(|&&red| (red - bright).abs() < 1e-4).count();
            assert_eq!(seen, w * h);
        }
    }
}
