//! Vectors, colours and scalar helpers that give the same bits on every platform. They use only `+ - * /`, `sqrt` and
//! `floor`, because the standard library's trigonometry depends on the platform.

use std::ops::{Add, Mul, Neg, Sub};

/// A point or direction in metres (x right, y up, z away from the eye), or a linear colour (r, g, b).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vec3 {
    pub x: f32,
    pub y: f32,
    pub z: f32,
}

/// Linear light, 1 = white.
pub type Color = Vec3;

pub const fn vec3(x: f32, y: f32, z: f32) -> Vec3 {
    Vec3 { x, y, z }
}

/// A colour from its usual hexadecimal form. The transfer curve is a plain square; it is undone when the canvas is
/// developed.
pub const fn rgb(hex: u32) -> Color {
    let r = ((hex >> 16) & 255) as f32 / 255.0;
    let g = ((hex >> 8) & 255) as f32 / 255.0;
    let b = (hex & 255) as f32 / 255.0;
    vec3(r * r, g * g, b * b)
}

impl Vec3 {
    pub const fn splat(v: f32) -> Self {
        vec3(v, v, v)
    }
    pub fn dot(self, o: Self) -> f32 {
        self.x * o.x + self.y * o.y + self.z * o.z
    }
    pub fn cross(self, o: Self) -> Self {
        vec3(self.y * o.z - self.z * o.y, self.z * o.x - self.x * o.z, self.x * o.y - self.y * o.x)
    }
    pub fn length(self) -> f32 {
        self.dot(self).sqrt()
    }
    pub fn unit(self) -> Self {
        self * (1.0 / self.length().max(1e-9))
    }
    /// Component by component: a surface colour under a light of this colour.
    pub fn tint(self, o: Self) -> Self {
        vec3(self.x * o.x, self.y * o.y, self.z * o.z)
    }
    pub fn mix(self, o: Self, t: f32) -> Self {
        self + (o - self) * t
    }
    /// Perceived brightness of a colour.
    pub fn luma(self) -> f32 {
        0.3 * self.x + 0.59 * self.y + 0.11 * self.z
    }
}

impl Add for Vec3 {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        vec3(self.x + o.x, self.y + o.y, self.z + o.z)
    }
}

impl Sub for Vec3 {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        vec3(self.x - o.x, self.y - o.y, self.z - o.z)
    }
}

impl Mul<f32> for Vec3 {
    type Output = Self;
    fn mul(self, s: f32) -> Self {
        vec3(self.x * s, self.y * s, self.z * s)
    }
}

impl Neg for Vec3 {
    type Output = Self;
    fn neg(self) -> Self {
        self * -1.0
    }
}

pub fn mix(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// 0 below `a`, 1 above `b`, smooth between.
pub fn smoothstep(a: f32, b: f32, x: f32) -> f32 {
    let t = ((x - a) / (b - a)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Sine and cosine of an angle in turns (1 = full circle), to about a thousandth.
pub fn sin_cos(turns: f32) -> (f32, f32) {
    (sine(turns), sine(turns + 0.25))
}

fn sine(turns: f32) -> f32 {
    let t = 2.0 * (turns - (turns + 0.5).floor());
    let y = 4.0 * t * (1.0 - t.abs());
    0.225 * (y * y.abs() - y) + y
}
