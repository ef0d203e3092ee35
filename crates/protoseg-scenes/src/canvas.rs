//! The picture being painted: linear colour, and which class covers how much of each pixel.

use crate::math::{Color, Vec3, vec3};
use crate::noise;
use crate::rng::Rng;
use protoseg_core::{IdMap, Image};

/// The two classes that cover most of a pixel, the larger share first.
#[derive(Clone, Copy, Debug, Default)]
struct Cover {
    label: u8,
    other: u8,
    share: f32,
    other_share: f32,
}

#[derive(Clone, Debug)]
pub struct Canvas {
    pub width: usize,
    pub height: usize,
    colors: Vec<Color>,
    covers: Vec<Cover>,
    /// Where there is water, which mirrors what swims on it.
    wet: Vec<bool>,
}

/// Pixels `x0..x1` of the rows `y0..y1`.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub x0: usize,
    pub x1: usize,
    pub y0: usize,
    pub y1: usize,
}

impl Canvas {
    pub fn new(width: usize, height: usize) -> Self {
        let cover = Cover { share: 1.0, ..Cover::default() };
        Self {
            width,
            height,
            colors: vec![Color::default(); width * height],
            covers: vec![cover; width * height],
            wet: vec![false; width * height],
        }
    }

    /// The length that stands for "the size of the picture", whatever its aspect ratio.
    pub fn unit(&self) -> f32 {
        ((self.width * self.height) as f32).sqrt()
    }

    pub fn color(&self, x: usize, y: usize) -> Color {
        self.colors[y * self.width + x]
    }

    pub fn set(&mut self, x: usize, y: usize, color: Color) {
        self.colors[y * self.width + x] = color;
    }

    pub fn label(&self, x: usize, y: usize) -> u8 {
        self.covers[y * self.width + x].label
    }

    pub fn is_wet(&self, x: usize, y: usize) -> bool {
        self.wet[y * self.width + x]
    }

    pub fn set_wet(&mut self, x: usize, y: usize) {
        self.wet[y * self.width + x] = true;
    }

    /// Paints `color` over the pixel. `coverage` is the share of the pixel's area and decides the label; `alpha` is
    /// the opacity.
    #[inline]
    pub fn blend(&mut self, x: usize, y: usize, color: Color, coverage: f32, alpha: f32, label: Option<u8>) {
        let i = y * self.width + x;
        let under = self.colors[i];
        self.colors[i] = under.mix(color, coverage * alpha);
        if let Some(label) = label {
            self.covers[i].add(label, coverage);
        }
    }

    /// The pixels whose centres lie within the given edges, plus one pixel for soft borders.
    pub fn bounds(&self, left: f32, top: f32, right: f32, bottom: f32) -> Bounds {
        let clip = |v: f32, limit: usize| v.clamp(0.0, limit as f32) as usize;
        Bounds {
            x0: clip(left - 1.0, self.width),
            x1: clip(right + 2.0, self.width),
            y0: clip(top - 1.0, self.height),
            y1: clip(bottom + 2.0, self.height),
        }
    }

    /// Applies exposure, colour cast, lens falloff and sensor noise, and converts to 8 bits. Also returns the class
    /// that covers most of each pixel.
    pub fn develop(&self, film: &Film) -> (Image, IdMap) {
        let mut data = vec![0; self.width * self.height * 3];
        let (cx, cy) = (self.width as f32 / 2.0, self.height as f32 / 2.0);
        let corner = film.vignette / (cx * cx + cy * cy);
        for (i, (pixel, color)) in data.chunks_exact_mut(3).zip(&self.colors).enumerate() {
            let (x, y) = (i % self.width, i / self.width);
            let (dx, dy) = (x as f32 + 0.5 - cx, y as f32 + 0.5 - cy);
            let c = color.tint(film.balance) * (1.0 - (dx * dx + dy * dy) * corner);
            let c = Vec3::splat(c.luma()).mix(c, film.saturation);
            let dust = noise::scatter(x as u32 ^ film.seed, y as u32);
            // Ten bits of noise per channel.
            let tone = |v: f32, dust: u32| {
                let v = shoulder(v.max(0.0)).sqrt();
                let v = v + film.contrast * v * (1.0 - v) * (2.0 * v - 1.0);
                let v = v + film.grain * ((dust & 1023) as f32 / 1023.0 - 0.5);
                (v * 255.0 + 0.5).clamp(0.0, 255.0) as u8
            };
            pixel[0] = tone(c.x, dust);
            pixel[1] = tone(c.y, dust >> 10);
            pixel[2] = tone(c.z, dust >> 20);
        }
        let labels = self.covers.iter().map(|cover| u16::from(cover.label)).collect();
        (Image::new(self.width, self.height, data), IdMap::new(self.width, self.height, labels))
    }
}

/// Highlights roll off instead of clipping.
fn shoulder(v: f32) -> f32 {
    if v < 0.6 { v } else { 0.6 + (v - 0.6) / (1.0 + (v - 0.6) * 1.1) }
}

impl Cover {
    #[inline]
    fn add(&mut self, label: u8, coverage: f32) {
        if coverage >= 0.999 {
            *self = Self { label, other: label, share: 1.0, other_share: 0.0 };
            return;
        }
        self.share *= 1.0 - coverage;
        self.other_share *= 1.0 - coverage;
        if label == self.label {
            self.share += coverage;
        } else if label == self.other {
            self.other_share += coverage;
        } else if coverage > self.other_share {
            (self.other, self.other_share) = (label, coverage);
        }
        if self.other_share > self.share {
            std::mem::swap(&mut self.label, &mut self.other);
            std::mem::swap(&mut self.share, &mut self.other_share);
        }
    }
}

/// What the camera does to the light it receives.
#[derive(Clone, Debug)]
pub struct Film {
    balance: Color,
    saturation: f32,
    contrast: f32,
    vignette: f32,
    grain: f32,
    seed: u32,
}

impl Film {
    pub fn random(rng: &mut Rng) -> Self {
        let exposure = rng.range(0.85, 1.2);
        let warmth = rng.range(-0.07, 0.07);
        Self {
            balance: vec3(1.0 + warmth, 1.0 + rng.range(-0.02, 0.02), 1.0 - warmth) * exposure,
            saturation: rng.range(0.8, 1.15),
            contrast: rng.range(0.1, 0.5),
            vignette: rng.range(0.05, 0.3),
            grain: rng.range(0.01, 0.05),
            seed: rng.next() as u32 & 0xFFFF_F000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_that_covers_most_of_a_pixel_wins() {
        let mut canvas = Canvas::new(1, 1);
        let white = Vec3::splat(1.0);
        canvas.blend(0, 0, white, 0.4, 1.0, Some(7));
        assert_eq!(canvas.label(0, 0), 0);
        canvas.blend(0, 0, white, 0.4, 1.0, Some(7));
        assert_eq!(canvas.label(0, 0), 7, "0.64 of the pixel is class 7 now");
        canvas.blend(0, 0, white, 0.9, 0.1, Some(3));
        assert_eq!(canvas.label(0, 0), 3, "glass counts by its area, not by how clear it is");
    }
}
