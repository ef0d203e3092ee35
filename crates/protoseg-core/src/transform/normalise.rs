//! From the 0..255 scale to a network's input: subtract the mean, divide by the deviation, one plane per channel.

use super::Pixel;
use std::ops::Range;

/// `value * scale + shift`, per channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalise {
    scale: [f32; 3],
    shift: [f32; 3],
}

impl Normalise {
    /// From mean and standard deviation on the 0..255 scale.
    pub fn new(mean: [f32; 3], std: [f32; 3]) -> Self {
        let scale = std.map(|std| 1.0 / std);
        Self { scale, shift: [0, 1, 2].map(|c| -mean[c] * scale[c]) }
    }

    /// Normalises one colour.
    pub fn colour(&self, colour: [f32; 3]) -> [f32; 3] {
        [0, 1, 2].map(|c| colour[c] * self.scale[c] + self.shift[c])
    }

    /// Normalises one row of pixels into the same row of three planes.
    pub fn row(&self, row: &[Pixel], planes: [&mut [f32]; 3]) {
        let [red, green, blue] = planes;
        let [sr, sg, sb] = self.scale;
        let [tr, tg, tb] = self.shift;
        for (((pixel, r), g), b) in row.iter().zip(red).zip(green).zip(blue) {
            *r = pixel[0] * sr + tr;
            *g = pixel[1] * sg + tg;
            *b = pixel[2] * sb + tb;
        }
    }
}

/// Some columns of one row in a canvas's three planes.
pub fn planes_row(planes: &mut [f32], width: usize, y: usize, columns: Range<usize>) -> [&mut [f32]; 3] {
    let pixels = planes.len() / 3;
    let (red, rest) = planes.split_at_mut(pixels);
    let (green, blue) = rest.split_at_mut(pixels);
    [red, green, blue].map(|plane| &mut plane[y * width..][columns.clone()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use protoseg_testing::assert_close;

    #[test]
    fn the_mean_becomes_zero_and_one_deviation_above_it_one() {
        let normalise = Normalise::new([120.0, 110.0, 100.0], [60.0, 50.0, 40.0]);
        let mut data = vec![7.0; 3 * 4];
        let row = [[120.0, 110.0, 100.0, 9.0], [180.0, 160.0, 140.0, 9.0]];
        normalise.row(&row, planes_row(&mut data, 2, 1, 0..2));
        for plane in data.chunks_exact(4) {
            assert_close("plane", plane, &[7.0, 7.0, 0.0, 1.0], 1e-6);
        }
        assert_eq!(normalise.colour([120.0, 110.0, 100.0]), [data[2], data[6], data[10]]);
    }
}
