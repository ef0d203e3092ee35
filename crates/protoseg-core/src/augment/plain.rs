//! The definition of an augmentation: each step on the whole picture, pixel by pixel, in double precision. For tests.

use super::{Augment, AugmentDraw};
use crate::transform::{Axis, Placement, Rotation};
use crate::{IGNORE, Image, RowMap};

type Colour = [f64; 3];

/// One value of any type per pixel, rows from the top.
#[derive(Clone)]
struct Grid<T> {
    width: usize,
    height: usize,
    data: Vec<T>,
}

impl<T: Copy> Grid<T> {
    fn new(width: usize, height: usize, mut at: impl FnMut(usize, usize) -> T) -> Self {
        let data = (0..width * height).map(|i| at(i % width, i / width)).collect();
        Self { width, height, data }
    }

    fn get(&self, x: i64, y: i64) -> Option<T> {
        let inside = (0..self.width as i64).contains(&x) && (0..self.height as i64).contains(&y);
        inside.then(|| self.data[y as usize * self.width + x as usize])
    }

    fn flip(&self) -> Self {
        let last = self.width - 1;
        Self::new(self.width, self.height, |x, y| self.data[y * self.width + last - x])
    }

    /// Pads with `outside` to at least `size`, the smaller half first, then crops.
    fn crop(&self, size: usize, (left, top): (usize, usize), outside: T) -> Self {
        let before = |length: usize| (size.saturating_sub(length) / 2) as i64;
        let (dx, dy) = (left as i64 - before(self.width), top as i64 - before(self.height));
        Self::new(size, size, |x, y| self.get(x as i64 + dx, y as i64 + dy).unwrap_or(outside))
    }
}

/// What [`Augment::apply`] must return.
pub fn apply(augment: &Augment, plan: &AugmentDraw, image: &Image, label: &RowMap) -> (Vec<f32>, RowMap) {
    let border = augment.border.map(f64::from);
    let mut colours = scale(image, plan.scale);
    let mut labels = scale_label(label, plan.scale);
    if let Some(degrees) = plan.rotate {
        let rotation = Rotation::new(colours.width, colours.height, degrees);
        colours = rotate(&colours, &rotation, border);
        labels = rotate_label(&labels, &rotation);
    }
    if plan.blur {
        colours = blur(&colours);
    }
    if plan.flip {
        (colours, labels) = (colours.flip(), labels.flip());
    }
    assert!(plan.offset.0 <= Placement::freedom((colours.width, colours.height), augment.crop).0);
    let colours = colours.crop(augment.crop, plan.offset, border);
    let labels = labels.crop(augment.crop, plan.offset, IGNORE);
    let value = |c: usize, colour: &Colour| {
        ((colour[c] - f64::from(augment.mean[c])) / f64::from(augment.std[c])) as f32
    };
    let planes = (0..3).flat_map(|c| colours.data.iter().map(move |colour| value(c, colour))).collect();
    (planes, RowMap::new(labels.width, labels.height, labels.data))
}

fn mix(a: Colour, b: Colour, weight: f64) -> Colour {
    [0, 1, 2].map(|c| a[c] + (b[c] - a[c]) * weight)
}

fn scale(image: &Image, factor: f64) -> Grid<Colour> {
    let (x, y) = (Axis::by_factor(image.width, factor), Axis::by_factor(image.height, factor));
    let (columns, lines) = (x.linear(0, x.to), y.linear(0, y.to));
    let pixel = |x: usize, y: usize| {
        let i = y.min(image.height - 1) * image.width + x.min(image.width - 1);
        [0, 1, 2].map(|c| f64::from(image.data[i * 3 + c]))
    };
    Grid::new(x.to, y.to, |x, y| {
        let (x, y) = (columns[x], lines[y]);
        let row = |line| mix(pixel(x.low, line), pixel(x.low + 1, line), x.weight.into());
        mix(row(y.low), row(y.low + 1), y.weight.into())
    })
}

fn scale_label(label: &RowMap, factor: f64) -> Grid<u16> {
    let (x, y) = (Axis::by_factor(label.width, factor), Axis::by_factor(label.height, factor));
    let (columns, lines) = (x.nearest(0, x.to), y.nearest(0, y.to));
    Grid::new(x.to, y.to, |x, y| label.data[lines[y] * label.width + columns[x]])
}

fn rotate(image: &Grid<Colour>, rotation: &Rotation, border: Colour) -> Grid<Colour> {
    Grid::new(image.width, image.height, |x, y| {
        let (x, y) = rotation.source(x, y);
        let pixel =
            |dx: i64, dy: i64| image.get(x.floor() as i64 + dx, y.floor() as i64 + dy).unwrap_or(border);
        let row = |dy| mix(pixel(0, dy), pixel(1, dy), x - x.floor());
        mix(row(0), row(1), y - y.floor())
    })
}

fn rotate_label(label: &Grid<u16>, rotation: &Rotation) -> Grid<u16> {
    Grid::new(label.width, label.height, |x, y| {
        let (x, y) = rotation.source(x, y);
        label.get((x + 0.5).floor() as i64, (y + 0.5).floor() as i64).unwrap_or(IGNORE)
    })
}

fn blur(image: &Grid<Colour>) -> Grid<Colour> {
    let mirror = |i: i64, length: usize| {
        let (mut i, last) = (i, length as i64 - 1);
        while i < 0 || i > last {
            i = if last == 0 {
                0
            } else if i < 0 {
                -i
            } else {
                2 * last - i
            };
        }
        i
    };
    let weights = [1.0, 4.0, 6.0, 4.0, 1.0].map(|weight| weight / 16.0);
    Grid::new(image.width, image.height, |x, y| {
        let mut sum = [0.0; 3];
        for (i, j) in (0..5).flat_map(|j| (0..5).map(move |i| (i, j))) {
            let (x, y) = (x as i64 + i - 2, y as i64 + j - 2);
            let colour =
                image.get(mirror(x, image.width), mirror(y, image.height)).expect("a mirrored place");
            (0..3).for_each(|c| sum[c] += colour[c] * weights[i as usize] * weights[j as usize]);
        }
        sum
    })
}
