//! A thing as geometry in the world: faces, soft bodies made of round cones, turned shapes and discs, each with its
//! paint.

use crate::math::{Color, Vec3, sin_cos, vec3};
use crate::paint::Paint;

/// A tapered rod with round ends, the bone and flesh of soft bodies.
#[derive(Clone, Copy, Debug)]
pub struct Cone {
    pub a: Vec3,
    pub b: Vec3,
    pub ra: f32,
    pub rb: f32,
    pub color: Color,
    /// How strongly this cone takes part in the body's blending and texture; 0 = crisp and plain.
    pub soft: f32,
}

#[derive(Clone, Debug)]
pub enum Shape {
    /// A flat polygon. One side of a solid is invisible from behind.
    Face { points: Vec<Vec3>, normal: Vec3, solid: bool },
    /// Cones that blend into each other over `blend` metres; `bump` roughens the outline by that many metres.
    Blob { cones: Vec<Cone>, blend: f32, bump: f32 },
    /// A profile of `(height, radius)` turned about the vertical axis through `base`. `bands` colour ranges of
    /// heights.
    Lathe { base: Vec3, profile: Vec<(f32, f32)>, bands: Vec<(f32, f32, Color)> },
    /// An ellipse or, with a `hole` (share of the radius), a ring. With a direction `out` it is invisible from
    /// behind.
    Disc { center: Vec3, u: Vec3, v: Vec3, hole: f32, out: Option<Vec3> },
}

#[derive(Clone, Debug)]
pub struct Part {
    pub shape: Shape,
    pub paint: Paint,
    pub layer: i8,
    pub depth: f32,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub parts: Vec<Part>,
    layer: i8,
}

/// Where a thing stands: `u` points where it faces, `v` up, `w` to its side, all scaled by its size.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub origin: Vec3,
    pub forward: Vec3,
    pub side: Vec3,
    pub size: f32,
}

impl Frame {
    /// `turn` in turns: 0 faces right, 0.25 away from the viewer, -0.25 towards the viewer.
    pub fn new(origin: Vec3, turn: f32, size: f32) -> Self {
        let (s, c) = sin_cos(turn);
        Self { origin, forward: vec3(c, 0.0, s), side: vec3(-s, 0.0, c), size }
    }

    pub fn at(&self, u: f32, v: f32, w: f32) -> Vec3 {
        self.origin + self.way(u, v, w)
    }

    pub fn way(&self, u: f32, v: f32, w: f32) -> Vec3 {
        (self.forward * u + self.side * w + vec3(0.0, v, 0.0)) * self.size
    }

    /// A frame on this one, turned and shifted.
    pub fn child(&self, u: f32, v: f32, w: f32, turn: f32, size: f32) -> Self {
        let (s, c) = sin_cos(turn);
        Self {
            origin: self.at(u, v, w),
            forward: self.forward * c + self.side * s,
            side: self.side * c - self.forward * s,
            size: self.size * size,
        }
    }
}

/// A box in a frame: `[u0, u1, v0, v1, w0, w1]`.
pub type Extent = [f32; 6];

impl Model {
    /// Parts in a higher layer are drawn later; within a layer, the farthest come first.
    pub fn layer(&mut self, layer: i8) -> &mut Self {
        self.layer = layer;
        self
    }

    fn push(&mut self, shape: Shape, paint: Paint, depth: f32) {
        self.parts.push(Part { shape, paint, layer: self.layer, depth });
    }

    /// A sheet that is seen from both sides.
    pub fn sheet(&mut self, points: &[Vec3], paint: Paint) {
        let shape = Shape::Face { points: points.to_vec(), normal: normal_of(points), solid: false };
        self.push(shape, paint, mean(points).z);
    }

    /// One side of a solid around `inside`.
    pub fn side(&mut self, points: &[Vec3], inside: Vec3, paint: Paint) {
        let center = mean(points);
        let normal = normal_of(points);
        let normal = if normal.dot(center - inside) < 0.0 { -normal } else { normal };
        self.push(Shape::Face { points: points.to_vec(), normal, solid: true }, paint, center.z);
    }

    pub fn block(&mut self, frame: &Frame, e: Extent, paint: Paint) {
        let [u0, u1, v0, v1, w0, w1] = e;
        self.prism(frame, [[u0, u1, w0, w1], [u0, u1, w0, w1]], (v0, v1), paint);
    }

    /// A box whose bottom and top rectangles `[u0, u1, w0, w1]` may differ.
    pub fn prism(&mut self, frame: &Frame, ends: [[f32; 4]; 2], v: (f32, f32), paint: Paint) {
        let ring = |e: [f32; 4], v: f32| {
            [
                frame.at(e[0], v, e[2]),
                frame.at(e[1], v, e[2]),
                frame.at(e[1], v, e[3]),
                frame.at(e[0], v, e[3]),
            ]
        };
        let (low, high) = (ring(ends[0], v.0), ring(ends[1], v.1));
        let inside = (mean(&low) + mean(&high)) * 0.5;
        self.side(&high, inside, paint);
        self.side(&low, inside, paint);
        for i in 0..4 {
            let j = (i + 1) % 4;
            self.side(
                &[low[i], low[j], high[j], high[i]],
                inside,
                paint.offset(paint.offset + 0.37 * i as f32),
            );
        }
    }

    /// A straight pole.
    pub fn rod(&mut self, a: Vec3, b: Vec3, radius: f32, paint: Paint) {
        let cone = Cone { a, b, ra: radius, rb: radius, color: paint.color, soft: 0.0 };
        self.blob(vec![cone], 0.0, 0.0, paint);
    }

    pub fn blob(&mut self, cones: Vec<Cone>, blend: f32, bump: f32, paint: Paint) {
        let depth = cones.iter().map(|c| c.a.z + c.b.z).sum::<f32>() / (2 * cones.len()) as f32;
        self.push(Shape::Blob { cones, blend, bump }, paint, depth);
    }

    pub fn lathe(&mut self, base: Vec3, profile: &[(f32, f32)], bands: &[(f32, f32, Color)], paint: Paint) {
        let shape = Shape::Lathe { base, profile: profile.to_vec(), bands: bands.to_vec() };
        self.push(shape, paint, base.z);
    }

    /// A disc seen from both sides.
    pub fn disc(&mut self, center: Vec3, u: Vec3, v: Vec3, hole: f32, paint: Paint) {
        self.push(Shape::Disc { center, u, v, hole, out: None }, paint, center.z);
    }

    /// A disc on the side of a solid.
    pub fn boss(&mut self, center: Vec3, u: Vec3, v: Vec3, out: Vec3, paint: Paint) {
        self.push(Shape::Disc { center, u, v, hole: 0.0, out: Some(out) }, paint, center.z);
    }

    /// A level disc.
    pub fn plate(&mut self, center: Vec3, radius: f32, paint: Paint) {
        self.disc(center, vec3(radius, 0.0, 0.0), vec3(0.0, 0.0, radius), 0.0, paint);
    }

    pub fn sort(&mut self) {
        self.parts.sort_by(|a, b| a.layer.cmp(&b.layer).then(b.depth.total_cmp(&a.depth)));
    }
}

/// A cone in a frame; lengths are scaled by the frame's size.
pub fn cone(frame: &Frame, a: (f32, f32, f32), b: (f32, f32, f32), ra: f32, rb: f32, color: Color) -> Cone {
    Cone {
        a: frame.at(a.0, a.1, a.2),
        b: frame.at(b.0, b.1, b.2),
        ra: ra * frame.size,
        rb: rb * frame.size,
        color,
        soft: 1.0,
    }
}

impl Cone {
    pub fn crisp(self) -> Self {
        Self { soft: 0.0, ..self }
    }
}

fn mean(points: &[Vec3]) -> Vec3 {
    points.iter().fold(Vec3::default(), |sum, p| sum + *p) * (1.0 / points.len() as f32)
}

/// Newell's normal: right for polygons that are not convex or not quite flat.
fn normal_of(points: &[Vec3]) -> Vec3 {
    let mut n = Vec3::default();
    for (i, a) in points.iter().enumerate() {
        let b = points[(i + 1) % points.len()];
        n = n + (*a - points[0]).cross(b - points[0]);
    }
    n.unit()
}
