//! Gaussian blur over 5 x 5 pixels, as `cv2.GaussianBlur(image, (5, 5), 0)` does it.
//!
//! If sigma is not given, OpenCV does not sample a Gaussian (its formula would give sigma 1.1). It uses the binomial
//! row 1 4 6 4 1 divided by 16. Sampling with sigma 1.1 instead is off by up to 2.5 grey levels.

use super::{Patch, Pixel, Rows, Window};

/// How many pixels the blur reads on every side.
const REACH: usize = 2;

/// Weights of the centre, of its neighbours, and of the next pixels.
const WEIGHTS: [f32; 3] = [6.0 / 16.0, 4.0 / 16.0, 1.0 / 16.0];

/// Blurs a picture of a given size. Beyond its border the picture is mirrored without repeating the border pixel
/// (`BORDER_REFLECT_101`).
pub struct Blur {
    pub width: usize,
    pub height: usize,
}

impl Blur {
    /// The part of the picture that is read for a window of the result.
    pub fn reach(&self, window: Window) -> Window {
        window.grow(REACH, self.width, self.height)
    }

    /// A window of the blurred picture; `source` covers [`Blur::reach`] of it.
    pub fn rows<'a>(&'a self, source: &'a Patch, window: Window) -> impl Rows {
        let wide = vec![Pixel::default(); window.width + 2 * REACH];
        Blurred { blur: self, source, window, known: self.reach(window), wide }
    }
}

struct Blurred<'a> {
    blur: &'a Blur,
    source: &'a Patch,
    window: Window,
    /// The part of the source that is read.
    known: Window,
    /// One row, already blurred vertically. Its column `i` is column `window.left + i - REACH` of the picture.
    wide: Vec<Pixel>,
}

impl Rows for Blurred<'_> {
    fn window(&self) -> Window {
        self.window
    }

    fn row(&mut self, i: usize, out: &mut [Pixel]) {
        let Self { blur, source, window, known, wide } = self;
        let y = (window.top + i) as isize;
        let from = known.left - source.window.left;
        let lines = [-2, -1, 0, 1, 2]
            .map(|step| source.row(reflect(y + step, blur.height))[from..][..known.width].as_flattened());
        let first = known.left + REACH - window.left;
        mix(lines, wide[first..][..known.width].as_flattened_mut());
        for missing in (0..first).chain(first + known.width..wide.len()) {
            let x = reflect((window.left + missing) as isize - REACH as isize, blur.width);
            wide[missing] = wide[x + REACH - window.left];
        }
        let columns = [0, 1, 2, 3, 4].map(|step| wide[step..][..window.width].as_flattened());
        mix(columns, out.as_flattened_mut());
    }
}

fn mix([a, b, c, d, e]: [&[f32]; 5], out: &mut [f32]) {
    let [centre, near, far] = WEIGHTS;
    let n = out.len();
    let (a, b, c, d, e) = (&a[..n], &b[..n], &c[..n], &d[..n], &e[..n]);
    for i in 0..n {
        out[i] = c[i] * centre + (b[i] + d[i]) * near + (a[i] + e[i]) * far;
    }
}

/// The index that mirrors at both ends show, for any distance and any length of the line.
fn reflect(i: isize, length: usize) -> usize {
    let last = length as isize - 1;
    if last == 0 {
        return 0;
    }
    let i = i.rem_euclid(2 * last);
    i.min(2 * last - i) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_does_not_repeat_the_border_pixel() {
        assert_eq!([-2, -1, 0, 4, 5, 6].map(|i| reflect(i, 5)), [2, 1, 0, 4, 3, 2]);
        assert_eq!([-2, -1, 0, 1, 2, 3].map(|i| reflect(i, 2)), [0, 1, 0, 1, 0, 1]);
        assert_eq!([-2, 0, 2].map(|i| reflect(i, 1)), [0, 0, 0]);
    }

    #[test]
    fn a_single_bright_pixel_spreads_as_one_four_six_four_one() {
        let window = Window::whole(7, 7);
        let mut source = Patch { window, data: vec![[0.0; 4]; 49] };
        source.data[3 * 7 + 3] = [256.0; 4];
        let blur = Blur { width: 7, height: 7 };
        let mut patch = Patch::empty();
        patch.fill(blur.rows(&source, window));
        let middle: Vec<f32> = patch.row(3).iter().map(|pixel| pixel[0]).collect();
        assert_eq!(middle, [0.0, 6.0, 24.0, 36.0, 24.0, 6.0, 0.0]);
    }
}
