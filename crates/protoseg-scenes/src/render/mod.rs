//! Turns models into pixels: perspective, light, haze, and a label wherever a class covers most of a pixel.

mod blob;
mod disc;
mod face;
mod lathe;
mod polygon;
mod shadow;

pub use shadow::ShadowMask;

use crate::camera::Camera;
use crate::canvas::Canvas;
use crate::light::Light;
use crate::math::{Color, Vec3, smoothstep, vec3};
use crate::model::{Model, Part, Shape};
use crate::noise;

/// Draws the parts of one thing.
pub struct Painter<'a> {
    pub canvas: &'a mut Canvas,
    pub camera: &'a Camera,
    pub light: &'a Light,
    /// The class to write; `None` for what is only light (reflections).
    pub label: Option<u8>,
    /// Height of the plane the thing stands on, and how far up that plane darkens it.
    pub ground: f32,
    pub nook: f32,
    /// Reflections waver by this many pixels and are fainter than what they reflect.
    pub ripple: Option<f32>,
    /// Nothing shows below the ground plane (or, mirrored, above it).
    pub sunk: bool,
}

impl Painter<'_> {
    pub fn draw(&mut self, model: &Model) {
        for part in &model.parts {
            self.part(part);
        }
    }

    /// The thing upside down below the waterline.
    pub fn draw_mirrored(&mut self, model: &Model) {
        for part in &model.parts {
            self.part(&mirrored(part));
        }
    }

    fn part(&mut self, part: &Part) {
        let paint = &part.paint;
        match &part.shape {
            Shape::Face { points, normal, solid } => self.face(points, *normal, *solid, paint),
            Shape::Blob { cones, blend, bump } => self.blob(cones, *blend, *bump, paint),
            Shape::Lathe { base, profile, bands } => self.lathe(*base, profile, bands, paint),
            Shape::Disc { center, out: Some(out), .. } if out.dot(self.camera.eye() - *center) <= 0.0 => {}
            Shape::Disc { center, u, v, hole, .. } => self.disc(*center, *u, *v, *hole, paint),
        }
    }

    /// The position in the undisturbed picture that the pixel shows.
    #[inline]
    fn look(&self, x: usize, y: usize) -> (f32, f32) {
        let (px, py) = (x as f32 + 0.5, y as f32 + 0.5);
        match self.ripple {
            None => (px, py),
            Some(amount) => {
                let scale = 8.0 / amount;
                let wave = noise::value(px * 0.12 * scale, py * scale) - 0.5;
                (px + wave * 2.2 * amount, py + wave * amount)
            }
        }
    }

    /// Light lost near the plane a thing stands on.
    #[inline]
    fn occlusion(&self, height: f32) -> f32 {
        if self.nook == 0.0 {
            return 1.0;
        }
        0.62 + 0.38 * smoothstep(-0.3, 1.0, (height - self.ground) / self.nook)
    }

    #[inline]
    fn put(&mut self, x: usize, y: usize, color: Color, coverage: f32, alpha: f32) {
        if self.ripple.is_none() {
            self.canvas.blend(x, y, color, coverage, alpha, self.label);
        } else if self.canvas.is_wet(x, y) {
            self.canvas.blend(x, y, color, coverage, 0.5 * alpha, None);
        }
    }
}

fn mirrored(part: &Part) -> Part {
    let flip = |p: Vec3| vec3(p.x, -p.y, p.z);
    let mut part = part.clone();
    match &mut part.shape {
        Shape::Face { points, normal, .. } => {
            points.iter_mut().for_each(|p| *p = flip(*p));
            *normal = flip(*normal);
        }
        Shape::Blob { cones, .. } => {
            for cone in cones {
                (cone.a, cone.b) = (flip(cone.a), flip(cone.b));
            }
        }
        // A turned shape always stands upright; its mirror image is close enough.
        Shape::Lathe { base, profile, .. } => base.y = -base.y - profile.last().map_or(0.0, |p| p.0),
        Shape::Disc { center, u, v, out, .. } => {
            (*center, *u, *v) = (flip(*center), flip(*u), flip(*v));
            *out = out.map(flip);
        }
    }
    part
}
