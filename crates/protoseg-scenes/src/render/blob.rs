//! Soft bodies: round cones whose outlines blend together, shaded as the rounded surface nearest to the eye.

use super::Painter;
use crate::math::{Color, smoothstep, vec3};
use crate::model::Cone;
use crate::noise;
use crate::paint::{Paint, Texture};

/// A cone as seen; all lengths are in pixels.
struct Seen {
    x: f32,
    y: f32,
    dx: f32,
    dy: f32,
    inverse: f32,
    r: f32,
    dr: f32,
    z: f32,
    dz: f32,
    color: Color,
    soft: f32,
    left: f32,
    right: f32,
    top: f32,
    bottom: f32,
}

impl Painter<'_> {
    pub(super) fn blob(&mut self, cones: &[Cone], blend: f32, bump: f32, paint: &Paint) {
        let anchor = cones[0].a;
        let scale = self.camera.scale(anchor.z);
        let (ox, oy) = self.camera.project(anchor);
        let (blend, bump) = (blend * scale, bump * scale);
        let margin = blend + bump + 1.0 + self.ripple.unwrap_or(0.0) * 1.2;
        let seen: Vec<Seen> = cones.iter().map(|c| self.see(c, scale, margin)).collect();
        let edge =
            |f: fn(f32, f32) -> f32, of: fn(&Seen) -> f32| seen.iter().map(of).reduce(f).unwrap_or(0.0);
        let bounds = self.canvas.bounds(
            edge(f32::min, |s| s.left),
            edge(f32::min, |s| s.top),
            edge(f32::max, |s| s.right),
            edge(f32::max, |s| s.bottom),
        );
        let foot = 1.0 / scale;
        let mut row: Vec<&Seen> = Vec::with_capacity(seen.len());
        for y in bounds.y0..bounds.y1 {
            row.clear();
            row.extend(seen.iter().filter(|s| s.top <= y as f32 + 1.0 && s.bottom >= y as f32));
            let (Some(x0), Some(x1)) =
                (row.iter().map(|s| s.left).reduce(f32::min), row.iter().map(|s| s.right).reduce(f32::max))
            else {
                continue;
            };
            let span = self.canvas.bounds(x0, 0.0, x1, 0.0);
            for x in span.x0..span.x1 {
                let (px, py) = self.look(x, y);
                let Some(mut hit) = surface(&row, px, py, blend) else { continue };
                let (u, v) = ((px - ox) * foot, (oy - py) * foot);
                if bump > 0.0 {
                    let (bu, bv) = (u / paint.size + paint.offset, v / paint.size);
                    let rough = noise::value(bu, bv) + 0.5 * noise::value(bu * 2.3 + 7.0, bv * 2.3) - 0.75;
                    hit.distance += bump * hit.soft * rough * 1.3;
                    hit.nx += 0.5 * rough;
                }
                let mut coverage = (0.5 - hit.distance).clamp(0.0, 1.0) * hit.thin;
                if self.sunk {
                    let above = if self.ripple.is_some() { -(anchor.y + v) } else { anchor.y + v };
                    coverage *= (0.5 + above * scale).clamp(0.0, 1.0);
                }
                if coverage <= 0.0 {
                    continue;
                }
                let flat = (hit.nx * hit.nx + hit.ny * hit.ny).min(1.0);
                let normal = vec3(hit.nx, -hit.ny, -(1.0 - flat).sqrt()).unit();
                let albedo = if paint.texture == Texture::Plain || hit.soft == 0.0 {
                    hit.color
                } else {
                    let at = (u / paint.size + paint.offset, v / paint.size);
                    let marked = paint.pattern(hit.color, at.0, at.1, foot / paint.size);
                    hit.color.mix(marked, hit.soft)
                };
                let mut color = self.light.shade(albedo, normal, paint.gloss) * self.occlusion(anchor.y + v);
                color = color * (0.8 + 0.2 * smoothstep(0.0, 0.6, -normal.z));
                if !self.light.bulbs.is_empty() {
                    color = color + self.light.lamplight(albedo, normal, anchor + vec3(u, v, 0.0));
                }
                color = self.light.through_haze(color.mix(albedo, paint.glow), anchor.z);
                self.put(x, y, color, coverage, paint.alpha);
            }
        }
    }

    fn see(&self, cone: &Cone, scale: f32, margin: f32) -> Seen {
        let (x, y) = self.camera.project(cone.a);
        let (bx, by) = self.camera.project(cone.b);
        let (dx, dy) = (bx - x, by - y);
        let (ra, rb) = (cone.ra * self.camera.scale(cone.a.z), cone.rb * self.camera.scale(cone.b.z));
        let length = dx * dx + dy * dy;
        Seen {
            x,
            y,
            dx,
            dy,
            inverse: if length > 1e-6 { 1.0 / length } else { 0.0 },
            r: ra,
            dr: rb - ra,
            z: cone.a.z * scale,
            dz: (cone.b.z - cone.a.z) * scale,
            color: cone.color,
            soft: cone.soft,
            left: (x - ra).min(bx - rb) - margin,
            right: (x + ra).max(bx + rb) + margin,
            top: (y - ra).min(by - rb) - margin,
            bottom: (y + ra).max(by + rb) + margin,
        }
    }
}

struct Hit {
    distance: f32,
    front: f32,
    nx: f32,
    ny: f32,
    color: Color,
    soft: f32,
    thin: f32,
}

/// The body's outline and foremost surface at a pixel, if anything is near.
#[inline]
fn surface(row: &[&Seen], px: f32, py: f32, blend: f32) -> Option<Hit> {
    let mut hit: Option<Hit> = None;
    for s in row {
        if px < s.left || px > s.right {
            continue;
        }
        let (vx, vy) = (px - s.x, py - s.y);
        let t = ((vx * s.dx + vy * s.dy) * s.inverse).clamp(0.0, 1.0);
        let (wx, wy) = (vx - t * s.dx, vy - t * s.dy);
        let r = (s.r + t * s.dr).max(1e-3);
        let square = wx * wx + wy * wy;
        let k = (blend * s.soft).max(0.3);
        let reach = r + k + 1.0 + blend;
        if square > reach * reach {
            continue;
        }
        let length = square.sqrt();
        let distance = length - r;
        let depth = s.z + t * s.dz;
        let front = if distance < 0.0 { depth - (r * r - square).sqrt() } else { depth + 3.0 * distance };
        let (nx, ny) = (wx / r, wy / r);
        let thin = (2.0 * r).min(1.0);
        match &mut hit {
            None => hit = Some(Hit { distance, front, nx, ny, color: s.color, soft: s.soft, thin }),
            Some(h) => {
                let outline = (0.5 + 0.5 * (h.distance - distance) / k).clamp(0.0, 1.0);
                h.thin += (thin - h.thin) * outline;
                h.distance += (distance - h.distance) * outline - k * outline * (1.0 - outline);
                let near = (0.5 + 0.5 * (h.front - front) / k).clamp(0.0, 1.0);
                h.front += (front - h.front) * near - 0.5 * k * near * (1.0 - near);
                h.nx += (nx - h.nx) * near;
                h.ny += (ny - h.ny) * near;
                h.soft += (s.soft - h.soft) * near;
                h.color = h.color.mix(s.color, near);
            }
        }
    }
    hit
}
