//! Discs and rings: wheels, rims, plates.

use super::Painter;
use crate::math::Vec3;
use crate::paint::Paint;

impl Painter<'_> {
    pub(super) fn disc(&mut self, center: Vec3, u: Vec3, v: Vec3, hole: f32, paint: &Paint) {
        let (cx, cy) = self.camera.project(center);
        let ((ux, uy), (vx, vy)) = (self.camera.spread(center, u), self.camera.spread(center, v));
        let det = ux * vy - uy * vx;
        if det.abs() < 1e-3 {
            return;
        }
        let normal = u.cross(v).unit();
        let normal = if normal.dot(self.camera.eye() - center) < 0.0 { -normal } else { normal };
        let color = self.light.shade(paint.color, normal, paint.gloss).mix(paint.color, paint.glow)
            * self.occlusion(center.y);
        let color = color + self.light.lamplight(paint.color, normal, center);
        let color = self.light.through_haze(color, center.z);
        let (half_w, half_h) = ((ux * ux + vx * vx).sqrt(), (uy * uy + vy * vy).sqrt());
        let bounds = self.canvas.bounds(cx - half_w, cy - half_h, cx + half_w, cy + half_h);
        for y in bounds.y0..bounds.y1 {
            for x in bounds.x0..bounds.x1 {
                let (px, py) = self.look(x, y);
                let (dx, dy) = (px - cx, py - cy);
                // Coordinates in which the ellipse is the unit circle.
                let (a, b) = ((dx * vy - dy * vx) / det, (ux * dy - uy * dx) / det);
                let r = (a * a + b * b).sqrt().max(1e-4);
                let (gx, gy) = ((a * vy - b * uy) / det, (b * ux - a * vx) / det);
                let per_pixel = ((gx * gx + gy * gy).sqrt() / r).max(1e-6);
                let mut coverage = (0.5 - (r - 1.0) / per_pixel).clamp(0.0, 1.0);
                if hole > 0.0 {
                    coverage *= (0.5 - (hole - r) / per_pixel).clamp(0.0, 1.0);
                }
                if coverage > 0.0 {
                    self.put(x, y, color, coverage, paint.alpha);
                }
            }
        }
    }
}
