//! Rotation about the centre on a canvas of the same size, as `cv2.warpAffine` with `getRotationMatrix2D` does it.
//!
//! Coordinates are exact, as in OpenCV 5 and in our golden data. Older versions rounded them to 1/32 pixel, which
//! changes a photo by up to 2 grey levels. We count in units of 2^-32 pixel. That is exact enough, turns a floor into
//! a shift, and gives a window exactly the numbers that the whole picture would get.

use super::{Patch, Pixel, Rows, Window};
use std::ops::Range;

/// Fraction bits of a coordinate.
const BITS: u32 = 32;
const ONE: i64 = 1 << BITS;

/// A rotation of a picture of a given size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    pub width: usize,
    pub height: usize,
    x: Line,
    y: Line,
}

/// One source coordinate as a function of the position in the result, in units of 2^-32 pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    across: i64,
    down: i64,
    start: i64,
}

impl Rotation {
    /// Rotates counter-clockwise about (width / 2, height / 2).
    pub fn new(width: usize, height: usize, degrees: f64) -> Self {
        let (sin, cos) = degrees.to_radians().sin_cos();
        let (cx, cy) = (width as f64 / 2.0, height as f64 / 2.0);
        let line = |across: f64, down: f64, centre: f64| Line {
            across: fixed(across),
            down: fixed(down),
            start: fixed(centre - across * cx - down * cy),
        };
        Self { width, height, x: line(cos, -sin, cx), y: line(sin, cos, cy) }
    }

    /// The part of the unrotated picture that is read for a window of the rotated one. It is empty if the window
    /// shows only border.
    pub fn reach(&self, window: Window) -> Window {
        let span = |line: Line, length: usize| {
            let (low, high) = line.range(window);
            let low = (low >> BITS).clamp(0, length as i64);
            let high = ((high >> BITS) + 2).clamp(low, length as i64);
            (low as usize, (high - low) as usize)
        };
        let ((left, width), (top, height)) = (span(self.x, self.width), span(self.y, self.height));
        Window { left, top, width, height }
    }

    /// A window of the rotated picture, bilinear, `border` outside; `source` covers [`Rotation::reach`] of it.
    pub fn rows<'a>(&'a self, source: &'a Patch, window: Window, border: [f32; 3]) -> impl Rows {
        let [r, g, b] = border;
        Rotated { rotation: self, source, window, border: [r, g, b, 0.0] }
    }

    /// For each pixel in a window's row, the nearest pixel of the unrotated picture. Returns the columns of the
    /// window that have one, and the source column and row of each.
    pub fn nearest(
        &self,
        window: Window,
        row: usize,
    ) -> (Range<usize>, impl Iterator<Item = (usize, usize)>) {
        let (x, y) = self.row_start(window, row);
        let (x, y) = (x + ONE / 2, y + ONE / 2);
        let columns = self.columns(x, y, (0, ONE), window.width);
        let (x, y) = self.at(x, y, columns.start);
        let (dx, dy) = (self.x.across, self.y.across);
        let place = move |i: i64| (((x + i * dx) >> BITS) as usize, ((y + i * dy) >> BITS) as usize);
        let count = columns.len() as i64;
        (columns, (0..count).map(place))
    }

    /// The position in the unrotated picture that a pixel of the rotated picture shows.
    #[cfg(test)]
    pub fn source(&self, x: usize, y: usize) -> (f64, f64) {
        let pixels = |line: Line| line.at(x, y) as f64 / ONE as f64;
        (pixels(self.x), pixels(self.y))
    }

    /// Source coordinates of the first pixel of a window's row.
    fn row_start(&self, window: Window, row: usize) -> (i64, i64) {
        let (x, y) = (window.left, window.top + row);
        (self.x.at(x, y), self.y.at(x, y))
    }

    fn at(&self, x: i64, y: i64, column: usize) -> (i64, i64) {
        (x + column as i64 * self.x.across, y + column as i64 * self.y.across)
    }

    /// The columns of a row whose source coordinates lie in `[low, size - 1 + high)` on both axes.
    fn columns(&self, x: i64, y: i64, (low, high): (i64, i64), width: usize) -> Range<usize> {
        let within = |start, step, length: usize| {
            let end = ((length as i64 - 1) << BITS) + high;
            steps_within(start, step, low..end, width as i64)
        };
        let (a, b) = (within(x, self.x.across, self.width), within(y, self.y.across, self.height));
        let start = a.start.max(b.start);
        start as usize..a.end.min(b.end).max(start) as usize
    }
}

struct Rotated<'a> {
    rotation: &'a Rotation,
    source: &'a Patch,
    window: Window,
    border: Pixel,
}

impl Rows for Rotated<'_> {
    fn window(&self) -> Window {
        self.window
    }

    fn row(&mut self, i: usize, out: &mut [Pixel]) {
        let rotation = self.rotation;
        let (x, y) = rotation.row_start(self.window, i);
        // Where a pixel mixes at least one picture pixel, and where it mixes only picture pixels.
        let touched = rotation.columns(x, y, (-ONE, ONE), out.len());
        let inside = rotation.columns(x, y, (0, 0), out.len());
        let inside = if inside.is_empty() { touched.start..touched.start } else { inside };
        out[..touched.start].fill(self.border);
        out[touched.end..].fill(self.border);
        for column in (touched.start..inside.start).chain(inside.end..touched.end) {
            out[column] = self.mix_at_border(rotation.at(x, y, column));
        }
        self.mix(rotation.at(x, y, inside.start), &mut out[inside]);
    }
}

impl Rotated<'_> {
    /// Pixels whose four neighbours all lie inside the picture, so that no check is needed.
    fn mix(&self, (mut x, mut y): (i64, i64), out: &mut [Pixel]) {
        let Patch { window, data } = self.source;
        x -= (window.left as i64) << BITS;
        y -= (window.top as i64) << BITS;
        for out in out {
            let index = (y >> BITS) as usize * window.width + (x >> BITS) as usize;
            let pair =
                |index: usize| *data[index..].first_chunk::<2>().expect("a source as large as the reach");
            *out = bilinear([pair(index), pair(index + window.width)], fraction(x), fraction(y));
            x += self.rotation.x.across;
            y += self.rotation.y.across;
        }
    }

    /// A pixel that may have border among its four neighbours.
    fn mix_at_border(&self, (x, y): (i64, i64)) -> Pixel {
        let Rotation { width, height, .. } = *self.rotation;
        let pixel = |dx: i64, dy: i64| {
            let (x, y) = ((x >> BITS) + dx, (y >> BITS) + dy);
            let inside = (0..width as i64).contains(&x) && (0..height as i64).contains(&y);
            if inside {
                self.source.row(y as usize)[x as usize - self.source.window.left]
            } else {
                self.border
            }
        };
        bilinear([[pixel(0, 0), pixel(1, 0)], [pixel(0, 1), pixel(1, 1)]], fraction(x), fraction(y))
    }
}

impl Line {
    fn at(&self, x: usize, y: usize) -> i64 {
        self.start + x as i64 * self.across + y as i64 * self.down
    }

    /// Smallest and largest value in a window; they lie in its corners.
    fn range(&self, window: Window) -> (i64, i64) {
        let (right, bottom) = (window.right().max(1) - 1, window.bottom().max(1) - 1);
        let corners =
            [(window.left, window.top), (right, window.top), (window.left, bottom), (right, bottom)];
        let values = corners.map(|(x, y)| self.at(x, y));
        (values.into_iter().min().unwrap_or(0), values.into_iter().max().unwrap_or(0))
    }
}

fn fixed(value: f64) -> i64 {
    (value * ONE as f64).round() as i64
}

/// The fraction of a coordinate. Its last bit is dropped so that it fits a signed word, which converts faster.
fn fraction(value: i64) -> f32 {
    ((value as u32) >> 1) as i32 as f32 * (1.0 / (1u32 << 31) as f32)
}

fn bilinear([[a, b], [c, d]]: [[Pixel; 2]; 2], x: f32, y: f32) -> Pixel {
    let lane = |i: usize| {
        let above = a[i] + (b[i] - a[i]) * x;
        let below = c[i] + (d[i] - c[i]) * x;
        above + (below - above) * y
    };
    [lane(0), lane(1), lane(2), lane(3)]
}

/// The steps `i` in `0..count` for which `start + i * step` lies in `target`. They are consecutive.
fn steps_within(start: i64, step: i64, target: Range<i64>, count: i64) -> Range<i64> {
    // The number of steps it takes to reach a value, rounded up; `step` is positive.
    let until = |value: i64, start: i64, step: i64| (value - start + step - 1).div_euclid(step);
    let (first, end) = match step {
        0 if target.contains(&start) => (0, count),
        0 => (0, 0),
        step if step > 0 => (until(target.start, start, step), until(target.end, start, step)),
        // Mirrored: -start - i * |step| in (-end, -start].
        step => (until(1 - target.end, -start, -step), until(1 - target.start, -start, -step)),
    };
    let first = first.clamp(0, count);
    first..end.clamp(first, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_within_a_range_are_those_that_counting_finds() {
        let numbers = || [-7i64, -2, -1, 0, 1, 3, 8];
        for (start, step) in numbers().into_iter().flat_map(|start| numbers().map(|step| (start, step))) {
            for (low, high) in [(-5, 6), (0, 1), (2, 2), (4, 9)] {
                let found = steps_within(start, step, low..high, 12);
                let counted = |i: &i64| (low..high).contains(&(start + i * step));
                let counted: Vec<i64> = (0..12).filter(counted).collect();
                assert_eq!(found.collect::<Vec<_>>(), counted, "{start} + i * {step} in {low}..{high}");
            }
        }
    }

    #[test]
    fn no_angle_changes_nothing() {
        let window = Window::whole(5, 3);
        let data = (0..15).map(|i| [i as f32; 4]).collect();
        let source = Patch { window, data };
        let mut rotated = Patch::empty();
        rotated.fill(Rotation::new(5, 3, 0.0).rows(&source, window, [0.0; 3]));
        assert_eq!(rotated, source);
    }

    #[test]
    fn a_quarter_turn_goes_counter_clockwise_about_the_middle() {
        // (width / 2, height / 2) is a corner between pixels, so the rotated picture lies one pixel too low.
        let rotation = Rotation::new(4, 4, 90.0);
        let places = |row| {
            let (columns, places) = rotation.nearest(Window::whole(4, 4), row);
            (columns, places.collect::<Vec<_>>())
        };
        assert_eq!(places(0).0, 0..0);
        assert_eq!(places(1), (0..4, vec![(3, 0), (3, 1), (3, 2), (3, 3)]));
    }

    #[test]
    fn a_window_far_outside_reaches_nothing() {
        let rotation = Rotation::new(4, 400, 90.0);
        let window = Window { left: 0, top: 0, width: 4, height: 20 };
        assert_eq!(rotation.reach(window).width, 0);
        let mut rotated = Patch::empty();
        rotated.fill(rotation.rows(&Patch::empty(), window, [1.0, 2.0, 3.0]));
        assert!(rotated.data.iter().all(|pixel| pixel[..3] == [1.0, 2.0, 3.0]));
    }
}
