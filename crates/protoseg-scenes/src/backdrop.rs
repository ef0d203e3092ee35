//! What lies behind everything else: sky, hills, distant trees, ground and water.

use crate::camera::Camera;
use crate::canvas::Canvas;
use crate::light::{Light, Sky};
use crate::math::{Color, Vec3, mix, smoothstep, vec3};
use crate::noise::{fbm, speck, value, whole};
use crate::rng::Rng;

const UP: Vec3 = vec3(0.0, 1.0, 0.0);

/// Beyond this depth the ground gets no hazier; otherwise a bright seam would separate it from the skyline behind it.
const FAR: f32 = 50.0;

/// Fills the picture down to the horizon.
pub fn sky(canvas: &mut Canvas, camera: &Camera, light: &Light, sky: &Sky, rng: &mut Rng) {
    let (shift, drift) = (rng.range(0.0, 60.0), rng.range(0.0, 60.0));
    let size = rng.range(0.8, 1.8);
    let unit = canvas.unit();
    let bottom = (camera.horizon.ceil() + 2.0).clamp(0.0, canvas.height as f32) as usize;
    let sun_x = camera.cx + light.to_sun.x * unit * 0.8;
    for y in 0..bottom {
        let up = ((camera.horizon - y as f32) / (unit * 0.75)).max(0.0);
        let base = sky.gradient(up);
        let plane = 1.0 / (up + 0.18);
        let open = smoothstep(0.02, 0.25, up);
        for x in 0..canvas.width {
            let along = (x as f32 - camera.cx) / unit;
            let n = fbm(along * plane * size + shift, plane * 1.3 * size + drift, 4);
            let veil = smoothstep(0.85 - 0.55 * sky.cover, 1.05 - 0.4 * sky.cover, n + 0.12) * open;
            let relief = 0.78 + 0.3 * smoothstep(0.3, 0.8, n);
            let away = (x as f32 - sun_x) / unit;
            let glow = 1.0 / (1.0 + 8.0 * away * away + 12.0 * up * up);
            let color = base.mix(sky.cloud * relief, veil * 0.9) + sky.glow * glow;
            canvas.set(x, y, color);
        }
    }
}

/// The shape of a far skyline.
#[derive(Clone, Copy, Debug)]
pub enum Ridge {
    Hills,
    Mountains,
    Trees,
}

/// A skyline of height `height` (as a share of the picture) that stands on row `foot`, `far` metres away.
pub fn ridge(
    canvas: &mut Canvas,
    camera: &Camera,
    light: &Light,
    kind: Ridge,
    color: Color,
    (height, far, foot): (f32, f32, f32),
    rng: &mut Rng,
) {
    let unit = canvas.unit();
    let seed = rng.range(0.0, 60.0);
    let bottom = (foot.ceil() + 1.0).clamp(0.0, canvas.height as f32) as usize;
    for x in 0..canvas.width {
        let along = (x as f32 - camera.cx) / unit;
        let rise = match kind {
            Ridge::Hills => 0.4 + 0.6 * fbm(along * 1.7 + seed, seed, 2),
            Ridge::Mountains => 1.5 * fbm(along * 2.6 + seed, seed, 5) - 0.2,
            Ridge::Trees => {
                0.35 + 0.35 * value(along * 4.0 + seed, seed) + 0.4 * fbm(along * 22.0 + seed, seed, 2)
            }
        };
        let top = foot - rise.max(0.02) * height * unit;
        for y in (top.floor().max(0.0) as usize)..bottom {
            let (u, v) = (along * 30.0 + seed, (foot - y as f32) / unit * 30.0);
            let texture = match kind {
                Ridge::Trees => 0.55 + 0.9 * fbm(u * 1.3, v * 1.3, 2),
                Ridge::Hills => 0.85 + 0.3 * fbm(u * 0.4, v * 0.9, 2),
                Ridge::Mountains => 0.7 + 0.6 * fbm(u * 0.5 + v * 0.3, v * 0.4, 3),
            };
            let normal = vec3(0.3 * (texture - 1.0), 0.6, -0.75);
            let lit = light.through_haze(light.shade(color * texture, normal, 0.0), far);
            canvas.blend(x, y, lit, (y as f32 + 1.0 - top).clamp(0.0, 1.0), 1.0, None);
        }
    }
}

/// Paints the ground plane with `albedo(x, z, metres per pixel)`.
pub fn ground(canvas: &mut Canvas, camera: &Camera, light: &Light, albedo: impl Fn(f32, f32, f32) -> Color) {
    let sheen = light.sky + light.sun * (light.to_sun.y * 0.88 + 0.12);
    for y in first_row(canvas, camera)..canvas.height {
        let z = camera.ground_depth(y as f32 + 0.5);
        let foot = z / camera.focal;
        for x in 0..canvas.width {
            let wx = (x as f32 + 0.5 - camera.cx) * foot;
            let mut color = albedo(wx, z, foot);
            if light.bulbs.is_empty() {
                color = color.tint(sheen);
            } else {
                color = color.tint(sheen) + light.lamplight(color, UP, vec3(wx, 0.0, z));
            }
            canvas.set(x, y, light.through_haze(color, z.min(FAR)));
        }
    }
}

/// Paints water where `wet(x, z, metres per pixel)` is true. It mirrors what has been painted above row `shore`.
pub fn water(
    canvas: &mut Canvas,
    camera: &Camera,
    light: &Light,
    (tint, chop, shore): (Color, f32, f32),
    rng: &mut Rng,
    wet: impl Fn(f32, f32, f32) -> f32,
) {
    let (seed, unit) = (rng.range(0.0, 60.0), canvas.unit());
    let body = tint.tint(light.sky + light.sun * 0.4);
    let shore_row = shore.clamp(1.0, (canvas.height as f32 - 1.0).max(1.0));
    for y in first_row(canvas, camera)..canvas.height {
        let z = camera.ground_depth(y as f32 + 0.5);
        let foot = z / camera.focal;
        let squash = z * foot / camera.height;
        let fine = (1.2 - 2.0 * squash).clamp(0.0, 1.0);
        let steep = smoothstep(0.0, 0.75, (y as f32 - camera.horizon) / unit);
        for x in 0..canvas.width {
            let wx = (x as f32 + 0.5 - camera.cx) * foot;
            let share = wet(wx, z, foot);
            if share <= 0.0 {
                continue;
            }
            let swell = value(wx * 0.35 + seed, z * 0.9) - 0.5;
            let waves = fbm(wx * 1.3 + seed, z * 3.0 + swell, 3) - 0.5;
            let n = chop * (0.1 + 0.9 * fine) * (0.5 * swell + waves);
            let row = (2.0 * shore_row - y as f32 + n * unit * 0.25).clamp(0.0, shore_row - 1.0) as usize;
            let column = (x as f32 + n * unit * 0.06).clamp(0.0, canvas.width as f32 - 1.0) as usize;
            let mirror = canvas.color(column, row);
            let clear = (mix(0.8, 0.35, steep) + 0.9 * n).clamp(0.1, 0.95);
            let glint = smoothstep(0.17, 0.3, n * fine) * 0.35;
            let color = body.mix(mirror, clear) + (light.sun + light.sky) * (glint * 0.5);
            canvas.blend(x, y, light.through_haze(color, z * 0.5), share, 1.0, None);
            if share > 0.5 {
                canvas.set_wet(x, y);
            }
        }
    }
}

fn first_row(canvas: &Canvas, camera: &Camera) -> usize {
    (camera.horizon + 0.5).clamp(0.0, canvas.height as f32) as usize
}

/// A meadow, a lawn, a verge.
#[derive(Clone, Debug)]
pub struct Turf {
    pub lush: Color,
    pub light: Color,
    pub dry: Color,
    pub flower: Option<Color>,
    pub seed: f32,
}

impl Turf {
    pub fn at(&self, x: f32, z: f32, foot: f32) -> Color {
        let broad = fbm(x * 0.22 + self.seed, z * 0.22, 2);
        let tufts = value(x * 1.9 + self.seed, z * 1.3);
        let fine = (1.4 - foot * 18.0).clamp(0.0, 1.0);
        let blades = value(x * 24.0, z * 6.0 + self.seed) * fine + 0.5 * (1.0 - fine);
        let base = self.lush.mix(self.light, smoothstep(0.25, 0.75, broad));
        let base = base.mix(self.dry, 0.5 * smoothstep(0.5, 0.85, tufts)) * (0.7 + 0.6 * blades);
        match self.flower {
            Some(flower) if foot < 0.05 => {
                let (cx, cz) = (whole(x * 5.0), whole(z * 5.0));
                let dot = speck(cx, cz);
                let (dx, dz) = (x * 5.0 - cx as f32 - 0.5, z * 5.0 - cz as f32 - 0.5);
                let on = dot > 0.9 && dx * dx + 0.3 * dz * dz < 0.03 + foot;
                if on { base.mix(flower, 0.8) } else { base }
            }
            _ => base,
        }
    }
}

/// Sand, gravel, asphalt, earth: one colour with broad and fine mottling.
pub fn grit(color: Color, size: f32, x: f32, z: f32, foot: f32) -> Color {
    let fine = (1.3 - foot / size).clamp(0.0, 1.0);
    let broad = fbm(x * 0.15 / size, z * 0.15 / size, 2) - 0.5;
    color * (1.0 + 0.35 * broad + 0.45 * fine * (value(x / size, z / size) - 0.5))
}
