//! Shapes turned about a vertical axis: cups, bottles, bowls, pots, lamp shades.

use super::Painter;
use crate::math::{Color, Vec3, mix, smoothstep, vec3};
use crate::paint::{Paint, Texture};

const STEPS: usize = 48;

impl Painter<'_> {
    pub(super) fn lathe(
        &mut self,
        base: Vec3,
        profile: &[(f32, f32)],
        bands: &[(f32, f32, Color)],
        paint: &Paint,
    ) {
        let scale = self.camera.scale(base.z);
        let (bx, by) = self.camera.project(base);
        let top = profile[profile.len() - 1].0;
        let widest = profile.iter().fold(0.0f32, |w, p| w.max(p.1));
        let radii = tabulate(profile);
        let step = top / STEPS as f32;
        let slopes: [f32; STEPS + 1] = std::array::from_fn(|i| {
            let (a, b) = (i.saturating_sub(1), (i + 1).min(STEPS));
            (radii[b] - radii[a]) / ((b - a) as f32 * step)
        });
        let radius = |h: f32| {
            let t = (h / step).clamp(0.0, STEPS as f32 - 0.001);
            let i = t as usize;
            (mix(radii[i], radii[i + 1], t - i as f32), mix(slopes[i], slopes[i + 1], t - i as f32))
        };
        // How far the near side of a ring drops below its centre, as a share of its radius.
        let dip = |h: f32| (self.camera.height - base.y - h) / base.z;
        let sag = widest * dip(0.0).abs().max(dip(top).abs()) * scale;
        let bounds =
            self.canvas.bounds(bx - widest * scale, by - top * scale - sag, bx + widest * scale, by + sag);
        for y in bounds.y0..bounds.y1 {
            for x in bounds.x0..bounds.x1 {
                let (px, py) = self.look(x, y);
                let (across, level) = ((px - bx) / scale, (by - py) / scale);
                // The front of the surface is seen lower than its axis: step once to the right height.
                let (r0, _) = radius(level);
                let round0 = (1.0 - across * across / (r0 * r0).max(1e-9)).max(0.0).sqrt();
                let near = level + dip(level) * r0 * round0;
                let (r1, _) = radius(near);
                let round1 = (1.0 - across * across / (r1 * r1).max(1e-9)).max(0.0).sqrt();
                let height = level + dip(near) * r1 * round1;
                let (r, slope) = radius(height);
                let steep = 1.0 / (1.0 + slope * slope).sqrt();
                let outside = ((across.abs() - r) * steep).max(-height).max(height - top) * scale;
                let coverage = (0.5 - outside).clamp(0.0, 1.0);
                if coverage <= 0.0 {
                    continue;
                }
                let sine = (across / r.max(1e-6)).clamp(-1.0, 1.0);
                let round = (1.0 - sine * sine).sqrt();
                let normal = vec3(sine * steep, -slope * steep, -round * steep);
                let mut albedo = paint.color;
                if paint.texture != Texture::Plain {
                    // Approximate arc length.
                    let arc = r * sine * (1.0 + 0.4 * sine * sine);
                    albedo = paint.sample(arc, height, 1.0 / scale);
                }
                let soft = 0.7 / scale;
                for &(low, high, color) in bands {
                    let inside = smoothstep(low - soft, low + soft, height)
                        * (1.0 - smoothstep(high - soft, high + soft, height));
                    albedo = albedo.mix(color, inside);
                }
                let mut color =
                    self.light.shade(albedo, normal, paint.gloss) * self.occlusion(base.y + height);
                if !self.light.bulbs.is_empty() && paint.glow == 0.0 {
                    let at = base + vec3(across, height, -r * round);
                    color = color + self.light.lamplight(albedo, normal, at);
                }
                // Shades glow from within: brightest in the middle.
                let shine = albedo * (0.75 + 0.45 * round * (1.0 - 0.5 * (2.0 * height / top - 1.0).abs()));
                color = self.light.through_haze(color.mix(shine, paint.glow), base.z);
                self.put(x, y, color, coverage, paint.alpha);
            }
        }
    }
}

/// Radii at even heights, the corners of the profile slightly rounded.
fn tabulate(profile: &[(f32, f32)]) -> [f32; STEPS + 1] {
    let top = profile[profile.len() - 1].0;
    let mut radii = [0.0; STEPS + 1];
    let mut i = 0;
    for (k, r) in radii.iter_mut().enumerate() {
        let h = top * k as f32 / STEPS as f32;
        while i + 2 < profile.len() && profile[i + 1].0 < h {
            i += 1;
        }
        let ((h0, r0), (h1, r1)) = (profile[i], profile[i + 1]);
        *r = mix(r0, r1, ((h - h0) / (h1 - h0).max(1e-6)).clamp(0.0, 1.0));
    }
    for _ in 0..2 {
        let sharp = radii;
        for k in 1..STEPS {
            radii[k] = 0.25 * sharp[k - 1] + 0.5 * sharp[k] + 0.25 * sharp[k + 1];
        }
    }
    radii
}
