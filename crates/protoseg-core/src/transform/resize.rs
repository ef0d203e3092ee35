//! Resizing: bilinear for pictures, nearest neighbour for labels, both as `cv2.resize` does it.

use super::{Pixel, Rows, Window};
use crate::{Image, LabelMap};

/// How one axis is resized: its length before and after, and the source distance per step of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    pub from: usize,
    pub to: usize,
    step: f64,
}

impl Axis {
    /// Resizes to a length (`cv2.resize` with `dsize`).
    pub fn to_length(from: usize, to: usize) -> Self {
        // OpenCV divides twice, and nearest neighbour depends on the last bit.
        Self { from, to, step: 1.0 / (to as f64 / from as f64) }
    }

    /// Resizes by a factor (`cv2.resize` with `fx`). The length is rounded, half to even, but the step is exactly the
    /// factor's. At least one pixel remains.
    pub fn by_factor(from: usize, factor: f64) -> Self {
        let to = (from as f64 * factor).round_ties_even().max(1.0) as usize;
        Self { from, to, step: 1.0 / factor }
    }

    /// For each result index, the lower of its two source indices and the weight of the upper one. At the borders
    /// the weight is zero: the outermost pixel is repeated.
    pub fn linear(&self, start: usize, length: usize) -> Vec<Tap> {
        let last = self.from - 1;
        let tap = |i: usize| {
            let centre = ((i as f64 + 0.5) * self.step - 0.5) as f32;
            let low = centre.floor();
            if low < 0.0 {
                Tap { low: 0, weight: 0.0 }
            } else if low as usize >= last {
                Tap { low: last, weight: 0.0 }
            } else {
                Tap { low: low as usize, weight: centre - low }
            }
        };
        (start..start + length).map(tap).collect()
    }

    /// The source index of each result index, without interpolation.
    pub fn nearest(&self, start: usize, length: usize) -> Vec<usize> {
        let last = self.from - 1;
        (start..start + length).map(|i| ((i as f64 * self.step) as usize).min(last)).collect()
    }
}

/// Interpolates between pixel `low` and the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap {
    pub low: usize,
    pub weight: f32,
}

/// A window of a resized picture.
///
/// Rows are mixed first, straight from the 8-bit source, because that is a plain vector loop. Then columns are
/// picked, with two loads per pixel.
pub struct Bilinear<'a> {
    image: &'a Image,
    window: Window,
    lines: Vec<Tap>,
    /// `low` is an index into the values of `mixed`.
    columns: Vec<Tap>,
    /// The first source column that is read, and how many are read.
    first: usize,
    reach: usize,
    /// A row between two source rows. It has one more column than the taps start at (their right neighbour, unused
    /// where the weight is 0) and one more value, so that a pixel can be read as four values.
    mixed: Vec<f32>,
}

impl<'a> Bilinear<'a> {
    pub fn new(image: &'a Image, (x, y): (Axis, Axis), window: Window) -> Self {
        let mut columns = x.linear(window.left, window.width);
        let first = columns.first().map_or(0, |tap| tap.low);
        let count = columns.last().map_or(0, |tap| tap.low - first + 1);
        columns.iter_mut().for_each(|tap| tap.low = (tap.low - first) * 3);
        Self {
            image,
            window,
            lines: y.linear(window.top, window.height),
            columns,
            first,
            reach: (count + 1).min(x.from - first),
            mixed: vec![0.0; (count + 1) * 3 + 1],
        }
    }

    fn line(&self, y: usize) -> &'a [u8] {
        &self.image.data[(y * self.image.width + self.first) * 3..][..self.reach * 3]
    }
}

impl Rows for Bilinear<'_> {
    fn window(&self) -> Window {
        self.window
    }

    fn row(&mut self, i: usize, out: &mut [Pixel]) {
        let Tap { low, weight } = self.lines[i];
        let (above, below) = (self.line(low), self.line((low + 1).min(self.image.height - 1)));
        mix_rows(above, below, weight, &mut self.mixed);
        pick_columns(&self.mixed, &self.columns, out);
    }
}

fn mix_rows(low: &[u8], high: &[u8], weight: f32, mixed: &mut [f32]) {
    for ((out, &a), &b) in mixed.iter_mut().zip(low).zip(high) {
        let (a, b) = (f32::from(a), f32::from(b));
        *out = a + (b - a) * weight;
    }
}

fn pick_columns(mixed: &[f32], columns: &[Tap], row: &mut [Pixel]) {
    for (out, tap) in row.iter_mut().zip(columns) {
        let pair: &[f32; 7] = mixed[tap.low..].first_chunk().expect("the row ends with a spare column");
        for c in 0..4 {
            out[c] = pair[c] + (pair[c + 3] - pair[c]) * tap.weight;
        }
    }
}

/// A window of the resized label map.
pub fn nearest<L>(label: &LabelMap<L>, (x, y): (Axis, Axis), window: Window) -> LabelMap<L> {
    let columns = x.nearest(window.left, window.width);
    let mut data = Vec::with_capacity(window.width * window.height);
    for y in y.nearest(window.top, window.height) {
        let row = &label.data[y * label.width..][..label.width];
        data.extend(columns.iter().map(|&x| row[x]));
    }
    LabelMap::new(window.width, window.height, data)
}

#[cfg(test)]
mod tests {
    use super::super::Patch;
    use super::*;

    #[test]
    fn lengths_are_rounded_half_to_even_and_never_vanish() {
        let length = |from, factor| Axis::by_factor(from, factor).to;
        assert_eq!([length(267, 0.5), length(265, 0.5), length(3, 1.4), length(1, 0.1)], [134, 132, 4, 1]);
    }

    #[test]
    fn pixel_centres_meet_and_the_border_is_repeated() {
        let taps = Axis::to_length(2, 4).linear(0, 4);
        assert_eq!(taps.iter().map(|tap| tap.low).collect::<Vec<_>>(), [0, 0, 0, 1]);
        assert_eq!(taps.iter().map(|tap| tap.weight).collect::<Vec<_>>(), [0.0, 0.25, 0.75, 0.0]);
        assert_eq!(Axis::to_length(2, 4).nearest(0, 4), [0, 0, 1, 1]);
    }

    #[test]
    fn a_window_is_a_part_of_the_whole() {
        let image = Image::new(5, 4, (0..60u8).map(|i| i.wrapping_mul(37)).collect());
        let axes = (Axis::by_factor(5, 1.7), Axis::by_factor(4, 1.7));
        let [mut whole, mut part] = [Patch::empty(), Patch::empty()];
        whole.fill(Bilinear::new(&image, axes, Window::whole(axes.0.to, axes.1.to)));
        let window = Window { left: 3, top: 2, width: 5, height: 4 };
        part.fill(Bilinear::new(&image, axes, window));
        for y in window.top..window.bottom() {
            let colours = |row: &[Pixel]| row.iter().map(|pixel| pixel[..3].to_vec()).collect::<Vec<_>>();
            assert_eq!(colours(part.row(y)), colours(&whole.row(y)[window.left..window.right()]));
        }
    }
}
