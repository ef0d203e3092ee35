//! Anti-aliased polygons in pixels.

use crate::canvas::{Bounds, Canvas};

/// A polygon on the picture that answers "how far outside is this point".
pub struct Polygon {
    points: Vec<(f32, f32)>,
    /// Outward unit normals and offsets of the edges, if the polygon is convex.
    planes: Option<Vec<(f32, f32, f32)>>,
    /// Coverage of slivers thinner than a pixel.
    thin: f32,
    grow: f32,
}

impl Polygon {
    /// `grow` pixels are added all around, to close the seams between neighbouring faces.
    pub fn new(points: Vec<(f32, f32)>, grow: f32) -> Option<Self> {
        let n = points.len();
        let (mut area, mut around) = (0.0, 0.0);
        for i in 0..n {
            let ((ax, ay), (bx, by)) = (points[i], points[(i + 1) % n]);
            area += (ax - points[0].0) * (by - points[0].1) - (bx - points[0].0) * (ay - points[0].1);
            around += ((bx - ax) * (bx - ax) + (by - ay) * (by - ay)).sqrt();
        }
        if n < 3 || around < 1e-3 {
            return None;
        }
        let thickness = area.abs() / around;
        let grow = if thickness > 1.5 { grow } else { 0.0 };
        let planes = convex_planes(&points, area.signum());
        Some(Self { points, planes, thin: (thickness * 1.2).min(1.0), grow })
    }

    pub fn bounds(&self, canvas: &Canvas) -> Bounds {
        let fold = |f: fn(f32, f32) -> f32, start: f32| {
            self.points.iter().fold((start, start), |a, p| (f(a.0, p.0), f(a.1, p.1)))
        };
        let (left, top) = fold(f32::min, f32::INFINITY);
        let (right, bottom) = fold(f32::max, f32::NEG_INFINITY);
        canvas.bounds(left, top, right, bottom)
    }

    /// The part of row `y` that can be covered, within `x0..x1`, with `reach` pixels of soft border.
    pub fn span(&self, y: f32, bounds: &Bounds, reach: f32) -> (usize, usize) {
        let Some(planes) = &self.planes else { return (bounds.x0, bounds.x1) };
        let (mut low, mut high) = (bounds.x0 as f32, bounds.x1 as f32);
        for &(nx, ny, c) in planes {
            let room = reach - ny * y - c;
            if nx > 1e-4 {
                high = high.min(room / nx + 0.5);
            } else if nx < -1e-4 {
                low = low.max(room / nx - 0.5);
            } else if room < 0.0 {
                return (0, 0);
            }
        }
        if low >= high { (0, 0) } else { (low as usize, (high.ceil() as usize).min(bounds.x1)) }
    }

    /// Signed distance in pixels, negative inside.
    #[inline]
    pub fn distance(&self, x: f32, y: f32) -> f32 {
        match &self.planes {
            Some(planes) => planes.iter().fold(f32::NEG_INFINITY, |d, p| d.max(p.0 * x + p.1 * y + p.2)),
            None => self.ragged_distance(x, y),
        }
    }

    #[inline]
    pub fn coverage(&self, x: f32, y: f32) -> f32 {
        (0.5 + self.grow - self.distance(x, y)).clamp(0.0, 1.0) * self.thin
    }

    fn ragged_distance(&self, x: f32, y: f32) -> f32 {
        let (mut best, mut inside) = (f32::INFINITY, false);
        let mut b = self.points[self.points.len() - 1];
        for &a in &self.points {
            let (ex, ey) = (b.0 - a.0, b.1 - a.1);
            let (wx, wy) = (x - a.0, y - a.1);
            let t = ((wx * ex + wy * ey) / (ex * ex + ey * ey).max(1e-9)).clamp(0.0, 1.0);
            let (dx, dy) = (wx - ex * t, wy - ey * t);
            best = best.min(dx * dx + dy * dy);
            if (a.1 <= y) != (b.1 <= y) && (x < a.0 + ex * (y - a.1) / ey) {
                inside = !inside;
            }
            b = a;
        }
        if inside { -best.sqrt() } else { best.sqrt() }
    }
}

fn convex_planes(points: &[(f32, f32)], turn: f32) -> Option<Vec<(f32, f32, f32)>> {
    let n = points.len();
    let mut planes = Vec::with_capacity(n);
    for i in 0..n {
        let ((ax, ay), (bx, by), (cx, cy)) = (points[i], points[(i + 1) % n], points[(i + 2) % n]);
        let (ex, ey) = (bx - ax, by - ay);
        if turn * (ex * (cy - by) - ey * (cx - bx)) < -1e-2 {
            return None;
        }
        let length = (ex * ex + ey * ey).sqrt();
        if length > 1e-4 {
            let (nx, ny) = (turn * ey / length, -turn * ex / length);
            planes.push((nx, ny, -(nx * ax + ny * ay)));
        }
    }
    Some(planes)
}
