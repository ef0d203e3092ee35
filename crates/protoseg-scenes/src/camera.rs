//! A pinhole camera that looks straight ahead: verticals stay vertical, and all points of one depth share a scale.

use crate::math::{Vec3, vec3};

#[derive(Clone, Debug)]
pub struct Camera {
    /// Pixels per metre at a distance of one metre.
    pub focal: f32,
    /// The vanishing point in pixels.
    pub cx: f32,
    pub horizon: f32,
    /// Metres above the ground plane.
    pub height: f32,
    /// Nothing nearer than this is drawn.
    pub near: f32,
}

impl Camera {
    /// Pixel position of a point.
    #[inline]
    pub fn project(&self, p: Vec3) -> (f32, f32) {
        let s = self.scale(p.z);
        (self.cx + p.x * s, self.horizon + (self.height - p.y) * s)
    }

    /// How far the image of a point moves when the point moves by `way`, to first order.
    pub fn spread(&self, p: Vec3, way: Vec3) -> (f32, f32) {
        let s = self.scale(p.z);
        let back = way.z / p.z.max(self.near);
        (s * (way.x - p.x * back), -s * (way.y + (self.height - p.y) * back))
    }

    /// Pixels per metre at depth `z`.
    #[inline]
    pub fn scale(&self, z: f32) -> f32 {
        self.focal / z.max(self.near)
    }

    /// The view ray through a pixel; its z is 1.
    #[inline]
    pub fn ray(&self, x: f32, y: f32) -> Vec3 {
        vec3((x - self.cx) / self.focal, (self.horizon - y) / self.focal, 1.0)
    }

    pub fn eye(&self) -> Vec3 {
        vec3(0.0, self.height, 0.0)
    }

    /// Depth of the ground seen at pixel row `y` (below the horizon).
    pub fn ground_depth(&self, y: f32) -> f32 {
        self.focal * self.height / (y - self.horizon).max(1e-3)
    }

    /// Pixel row of the ground at depth `z`.
    pub fn ground_row(&self, z: f32) -> f32 {
        self.horizon + self.scale(z) * self.height
    }

    /// World x seen at pixel column `x` at depth `z`.
    pub fn across(&self, x: f32, z: f32) -> f32 {
        (x - self.cx) / self.scale(z)
    }
}
