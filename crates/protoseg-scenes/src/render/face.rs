//! Flat faces in perspective.

use super::Painter;
use super::polygon::Polygon;
use crate::math::{Vec3, smoothstep};
use crate::paint::{Paint, Texture};

impl Painter<'_> {
    pub(super) fn face(&mut self, points: &[Vec3], normal: Vec3, solid: bool, paint: &Paint) {
        let eye = self.camera.eye();
        let towards = normal.dot(eye - points[0]);
        if solid && towards <= 0.0 {
            return;
        }
        let normal = if towards < 0.0 { -normal } else { normal };
        let shown: Vec<_> =
            clip_near(points, self.camera.near).into_iter().map(|p| self.camera.project(p)).collect();
        let Some(polygon) = Polygon::new(shown, 0.35) else { return };

        // The plane's own axes, for textures.
        let u_axis = (points[1] - points[0]).unit();
        let v_axis = normal.cross(u_axis);
        let v_axis = if v_axis.y + 0.01 * v_axis.z < 0.0 { -v_axis } else { v_axis };
        let reach = normal.dot(points[0] - eye);
        let slant = (normal.dot((points[0] - eye).unit())).abs().max(0.1);
        let flat = paint.texture == Texture::Plain;
        let plain = self.light.shade(paint.color, normal, paint.gloss);
        let bounds = polygon.bounds(self.canvas);
        // Rippled reflections look beside the pixel.
        let wander = self.ripple.unwrap_or(0.0) * 1.2;
        for y in bounds.y0..bounds.y1 {
            let (x0, x1) = polygon.span(y as f32 + 0.5, &bounds, 0.9 + wander);
            for x in x0..x1 {
                let (px, py) = self.look(x, y);
                let coverage = polygon.coverage(px, py);
                if coverage <= 0.0 {
                    continue;
                }
                let ray = self.camera.ray(px, py);
                let along = normal.dot(ray);
                let z = if along.abs() > 1e-6 { (reach / along).clamp(0.0, 500.0) } else { points[0].z };
                let at = eye + ray * z;
                let (albedo, mut color) = if flat {
                    (paint.color, plain)
                } else {
                    let way = at - points[0];
                    let foot = z / (self.camera.focal * slant);
                    let albedo = paint.sample(way.dot(u_axis), way.dot(v_axis), foot);
                    (albedo, self.light.shade(albedo, normal, paint.gloss))
                };
                if paint.gloss > 0.25 {
                    // Polished sides mirror the sky above and the ground below.
                    let up = ray.y - 2.0 * along * normal.y;
                    let mirror = self.light.bounce.mix(self.light.sky * 1.6, smoothstep(-0.2, 0.3, up));
                    color = color + mirror * (0.16 * paint.gloss);
                }
                color = color * self.occlusion(at.y);
                if !self.light.bulbs.is_empty() {
                    color = color + self.light.lamplight(albedo, normal, at);
                }
                color = self.light.through_haze(color.mix(albedo, paint.glow), z);
                self.put(x, y, color, coverage, paint.alpha);
            }
        }
    }
}

/// The part of the polygon farther than `near`.
fn clip_near(points: &[Vec3], near: f32) -> Vec<Vec3> {
    if points.iter().all(|p| p.z >= near) {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(points.len() + 2);
    for (i, &a) in points.iter().enumerate() {
        let b = points[(i + 1) % points.len()];
        if a.z >= near {
            kept.push(a);
        }
        if (a.z >= near) != (b.z >= near) {
            kept.push(a + (b - a) * ((near - a.z) / (b.z - a.z)));
        }
    }
    kept
}
