//! Shadows on the plane a thing stands on: where the sun does not reach, and the soft dark area under it.

use super::polygon::Polygon;
use crate::camera::Camera;
use crate::canvas::{Bounds, Canvas};
use crate::light::Light;
use crate::math::{Vec3, sin_cos, smoothstep, vec3};
use crate::model::{Model, Shape};

/// How dark each pixel of the plane is; overlapping shadows do not add up.
pub struct ShadowMask<'a> {
    camera: &'a Camera,
    light: &'a Light,
    plane: f32,
    cast: Vec<f32>,
    contact: Vec<f32>,
    top: usize,
}

impl<'a> ShadowMask<'a> {
    /// For the plane at height `plane`, which ends at depth `end`.
    pub fn new(canvas: &Canvas, camera: &'a Camera, light: &'a Light, (plane, end): (f32, f32)) -> Self {
        let size = canvas.width * canvas.height;
        let edge = camera.horizon + camera.scale(end) * (camera.height - plane);
        let top = (edge + 0.5).max(camera.horizon + 1.0).clamp(0.0, canvas.height as f32) as usize;
        Self { camera, light, plane, cast: vec![0.0; size], contact: vec![0.0; size], top }
    }

    /// Adds the shadow that the thing casts in the sun.
    pub fn cast(&mut self, canvas: &Canvas, model: &Model) {
        for part in &model.parts {
            match &part.shape {
                Shape::Face { points, .. } => self.cast_polygon(canvas, points),
                Shape::Blob { cones, .. } => {
                    for c in cones {
                        self.cast_rod(canvas, c.a, c.b, c.ra, c.rb);
                    }
                }
                Shape::Lathe { base, profile, .. } => {
                    for pair in profile.windows(2) {
                        let (a, b) = (vec3(0.0, pair[0].0, 0.0), vec3(0.0, pair[1].0, 0.0));
                        self.cast_rod(canvas, *base + a, *base + b, pair[0].1, pair[1].1);
                    }
                }
                Shape::Disc { center, u, v, hole, .. } if *hole < 0.5 => {
                    let ring: Vec<Vec3> = (0..12)
                        .map(|i| {
                            let (s, c) = sin_cos(i as f32 / 12.0);
                            *center + *u * c + *v * s
                        })
                        .collect();
                    self.cast_polygon(canvas, &ring);
                }
                Shape::Disc { .. } => {}
            }
        }
    }

    /// Adds the soft dark area between the plane and a thing that covers `a..b` of it.
    pub fn touch(&mut self, canvas: &Canvas, a: Vec3, b: Vec3, radius: f32) {
        let (a, b) = (vec3(a.x, self.plane, a.z), vec3(b.x, self.plane, b.z));
        self.rod(canvas, a, b, (radius * 0.55, radius * 0.55), radius * 0.9, true);
    }

    /// Darkens the canvas; `only` limits it to pixels of that label.
    pub fn apply(&self, canvas: &mut Canvas, only: Option<u8>) {
        let left = self.light.shadow();
        let white = Vec3::splat(1.0);
        for y in self.top..canvas.height {
            for x in 0..canvas.width {
                let i = y * canvas.width + x;
                let (cast, contact) = (self.cast[i], self.contact[i]);
                // Water mirrors but shows no shadows.
                let bare = cast + contact == 0.0 || canvas.is_wet(x, y);
                if bare || only.is_some_and(|label| canvas.label(x, y) != label) {
                    continue;
                }
                let color = canvas.color(x, y).tint(white.mix(left, cast)) * (1.0 - 0.5 * contact);
                canvas.set(x, y, color);
            }
        }
    }

    /// Where the shadow of a point falls.
    fn fall(&self, p: Vec3) -> Vec3 {
        let l = self.light.to_sun;
        let t = (p.y - self.plane).max(0.0) / l.y.max(0.3);
        let g = p - l * t;
        vec3(g.x, self.plane, g.z)
    }

    fn cast_rod(&mut self, canvas: &Canvas, a: Vec3, b: Vec3, ra: f32, rb: f32) {
        let (a, b) = (self.fall(a), self.fall(b));
        self.rod(canvas, a, b, (ra, rb), self.light.penumbra.max(0.1 * ra), false);
    }

    fn cast_polygon(&mut self, canvas: &Canvas, points: &[Vec3]) {
        let fallen: Vec<Vec3> = points.iter().map(|p| self.fall(*p)).collect();
        if fallen.iter().any(|p| p.z < self.camera.near) {
            return;
        }
        let middle = fallen.iter().map(|p| p.z).sum::<f32>() / fallen.len() as f32;
        let soft = 1.0 + self.light.penumbra * self.camera.scale(middle);
        let shown = fallen.iter().map(|p| self.camera.project(*p)).collect();
        let Some(polygon) = Polygon::new(shown, 0.0) else { return };
        let b = polygon.bounds(canvas);
        let reach = soft as usize + 1;
        let b = Bounds {
            x0: b.x0.saturating_sub(reach),
            x1: (b.x1 + reach).min(canvas.width),
            y0: b.y0.saturating_sub(reach).max(self.top),
            y1: (b.y1 + reach).min(canvas.height),
        };
        for y in b.y0..b.y1 {
            let (x0, x1) = polygon.span(y as f32 + 0.5, &b, soft);
            for x in x0..x1 {
                // Fully dark up to the edge, so that neighbouring faces leave no light between them.
                let d = polygon.distance(x as f32 + 0.5, y as f32 + 0.5);
                let dark = &mut self.cast[y * canvas.width + x];
                *dark = dark.max(smoothstep(1.0, 0.0, d / soft));
            }
        }
    }

    /// A rod lying on the plane, in the plane's own metres.
    fn rod(&mut self, canvas: &Canvas, a: Vec3, b: Vec3, radii: (f32, f32), soft: f32, contact: bool) {
        let reach = radii.0.max(radii.1) + soft;
        let (z0, z1) = (a.z.min(b.z) - reach, a.z.max(b.z) + reach);
        let drop = self.camera.height - self.plane;
        if z1 <= self.camera.near || drop <= 0.0 {
            return;
        }
        let z0 = z0.max(self.camera.near);
        let row = |z: f32| self.camera.horizon + self.camera.scale(z) * drop;
        let column = |x: f32, z: f32| self.camera.cx + x * self.camera.scale(z);
        let (l, r) = (a.x.min(b.x) - reach, a.x.max(b.x) + reach);
        let bounds = canvas.bounds(
            column(l, z0).min(column(l, z1)),
            row(z1),
            column(r, z0).max(column(r, z1)),
            row(z0),
        );
        let (dx, dz) = (b.x - a.x, b.z - a.z);
        let inverse = 1.0 / (dx * dx + dz * dz).max(1e-9);
        let mask = if contact { &mut self.contact } else { &mut self.cast };
        for y in bounds.y0.max(self.top)..bounds.y1 {
            let z = self.camera.focal * drop / (y as f32 + 0.5 - self.camera.horizon).max(1e-3);
            let foot = z / self.camera.focal;
            let border = 1.0 / (soft + 2.0 * foot);
            for x in bounds.x0..bounds.x1 {
                let (px, pz) = ((x as f32 + 0.5 - self.camera.cx) * foot - a.x, z - a.z);
                let t = ((px * dx + pz * dz) * inverse).clamp(0.0, 1.0);
                let (wx, wz) = (px - t * dx, pz - t * dz);
                let d = (wx * wx + wz * wz).sqrt() - (radii.0 + t * (radii.1 - radii.0));
                let dark = &mut mask[y * canvas.width + x];
                *dark = dark.max(smoothstep(0.5, -0.5, d * border));
            }
        }
    }
}
