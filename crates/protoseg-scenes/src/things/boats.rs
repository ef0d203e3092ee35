//! Rowing boats, canoes, sailing boats, cabin cruisers and fishing boats.

use crate::math::{Color, Vec3, rgb};
use crate::model::{Frame, Model};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

struct Hull {
    half: f32,
    beam: f32,
    side: f32,
    /// How much the bow rises above the side.
    sheer: f32,
    /// Width of the stern as a share of the beam.
    stern: f32,
    paint: Paint,
    trim: Paint,
}

const STATIONS: usize = 9;

impl Hull {
    /// `(u, half beam, gunwale height)` at station `i`, stern to bow.
    fn station(&self, i: usize) -> (f32, f32, f32) {
        let t = 2.0 * i as f32 / (STATIONS - 1) as f32 - 1.0;
        let fore = t.max(0.0);
        let aft = (-t).max(0.0);
        let beam =
            self.beam * (1.0 - fore * fore * (0.35 + 0.65 * fore)) * (1.0 - (1.0 - self.stern) * aft * aft);
        let rise = self.side + self.sheer * (fore * fore + 0.25 * aft * aft);
        (self.half * t * (1.0 + 0.12 * fore * fore), beam.max(0.012), rise)
    }

    fn gunwale(&self, frame: &Frame, side: f32, drop: f32, inset: f32) -> Vec<Vec3> {
        (0..STATIONS)
            .map(|i| {
                let (u, b, v) = self.station(i);
                frame.at(u, v - drop, side * (b * inset))
            })
            .collect()
    }

    /// Planking, seen from outside, and from inside if the boat is open.
    fn build(&self, model: &mut Model, frame: &Frame, open: bool) {
        for side in [-1.0, 1.0] {
            let strip = |from: f32, to: f32, i: usize, k: f32| {
                let point = |i: usize, up: f32| {
                    let (u, b, v) = self.station(i);
                    frame.at(u * (0.9 + 0.1 * up), v * up, side * b * (0.72 + 0.28 * up) * k)
                };
                [point(i, from), point(i + 1, from), point(i + 1, to), point(i, to)]
            };
            for i in 0..STATIONS - 1 {
                let (u, _, v) = self.station(i);
                let axis = frame.at(u, 0.4 * v, 0.0);
                model.layer(2).side(&strip(0.0, 0.8, i, 1.0), axis, self.paint);
                model.side(&strip(0.8, 1.0, i, 1.01), axis, self.trim);
                if open {
                    // From inside the normal points to the axis.
                    let outside = frame.at(u, 0.4 * v, 3.0 * side * self.beam);
                    model.layer(0).side(&strip(0.2, 1.0, i, 0.98), outside, self.paint.dim(0.6));
                }
            }
        }
        let (u, b, v) = self.station(0);
        let transom = [
            frame.at(u, v, -b),
            frame.at(u, v, b),
            frame.at(u * 0.9, 0.0, 0.72 * b),
            frame.at(u * 0.9, 0.0, -0.72 * b),
        ];
        model.layer(2).side(&transom, frame.at(0.0, 0.3, 0.0), self.paint.dim(0.9));
        let mut deck = self.gunwale(
            frame,
            -1.0,
            if open { 0.75 * self.side } else { 0.02 },
            if open { 0.8 } else { 1.0 },
        );
        deck.extend(
            self.gunwale(
                frame,
                1.0,
                if open { 0.75 * self.side } else { 0.02 },
                if open { 0.8 } else { 1.0 },
            )
            .into_iter()
            .rev(),
        );
        let planks = Paint::new(rgb(0xa97c4f)).texture(Texture::Boards, rgb(0x8a623d), 0.12 * frame.size);
        model.layer(if open { 0 } else { 1 }).sheet(&deck, if open { planks.dim(0.5) } else { planks });
        if open {
            for t in [-0.45, 0.0, 0.4] {
                let (u, w, v) = (t * self.half, self.beam * 0.9, 0.72 * self.side);
                model.layer(1).block(frame, [u - 0.12, u + 0.12, v - 0.05, v, -w, w], planks);
            }
        }
    }
}

pub fn boat(frame: &Frame, rng: &mut Rng) -> Model {
    let colors = [0xb8322a, 0x2a5c94, 0xeeeae0, 0x2f7a5a, 0x8a5a34, 0xd8a434, 0x24303c, 0x6c4a33, 0x5aa0b0];
    let paint = Paint::new(rgb(rng.pick(&colors)) * rng.range(0.85, 1.1)).gloss(0.2);
    let trim = Paint::new(rgb(rng.pick(&[0xf0ece2, 0x6b4526, 0x22282e, 0xc8b48a]))).gloss(0.2);
    let mut hull = Hull { half: 1.7, beam: 0.62, side: 0.42, sheer: 0.32, stern: 0.65, paint, trim };
    let mut model = Model::default();
    match rng.below(9) {
        0..=2 => {
            hull.half *= rng.range(0.85, 1.15);
            hull.build(&mut model, frame, true);
            if rng.chance(0.6) {
                oars(&mut model, frame, &hull);
            }
        }
        3 => {
            let canoe = Hull { half: 2.1, beam: 0.4, side: 0.3, sheer: 0.3, stern: 0.08, ..hull };
            canoe.build(&mut model, frame, true);
        }
        4..=6 => {
            hull = Hull { half: rng.range(1.6, 2.0), beam: 0.6, side: 0.4, sheer: 0.15, ..hull };
            hull.build(&mut model, frame, rng.chance(0.5));
            rig(&mut model, frame, &hull, rng);
        }
        7 => {
            hull = Hull { half: 2.2, beam: 0.8, side: 0.62, sheer: 0.3, stern: 0.85, ..hull };
            hull.build(&mut model, frame, false);
            let white = Paint::new(rgb(0xeceae4)).gloss(0.3);
            cabin(&mut model, frame, [-0.9, 0.75, 0.6, 1.25], 0.5, 0.35, white);
        }
        _ => {
            hull = Hull { half: 2.1, beam: 0.8, side: 0.6, sheer: 0.5, stern: 0.75, ..hull };
            hull.build(&mut model, frame, false);
            let house = Paint::new(rgb(rng.pick(&[0xe6e2d8, 0xd2c7ae, 0x9a5a3a, 0x7f9aa8])));
            cabin(&mut model, frame, [-1.4, -0.5, 0.58, 1.55], 0.48, 0.08, house);
            let mast = Paint::new(rgb(0x4d3a2a));
            model.layer(3).rod(frame.at(0.5, 0.6, 0.0), frame.at(0.5, 2.3, 0.0), 0.04 * frame.size, mast);
            model.rod(frame.at(0.5, 2.2, 0.0), frame.at(1.9, 0.95, 0.0), 0.015 * frame.size, mast);
            model.rod(frame.at(0.5, 1.0, 0.0), frame.at(-0.4, 1.9, 0.0), 0.025 * frame.size, mast);
        }
    }
    model
}

fn cabin(model: &mut Model, frame: &Frame, [u0, u1, v0, v1]: [f32; 4], wide: f32, rake: f32, paint: Paint) {
    let inside = frame.at(0.5 * (u0 + u1), 0.5 * (v0 + v1), 0.0);
    let top = [u0 + 0.05, u1 - rake, -0.9 * wide, 0.9 * wide];
    model.layer(3).prism(frame, [[u0, u1, -wide, wide], top], (v0, v1), paint);
    let glass = Paint::new(rgb(0x1c2a33)).texture(Texture::Glass, rgb(0x7f9bab), 0.6).gloss(0.5);
    model.layer(4);
    let (a, b) = (v0 + 0.42 * (v1 - v0), v0 + 0.82 * (v1 - v0));
    let many = 3;
    for side in [-1.0, 1.0] {
        let w = |v: f32| side * wide * (1.005 - 0.1 * (v - v0) / (v1 - v0));
        for i in 0..many {
            let step = (u1 - rake - u0) / many as f32;
            let (l, r) = (u0 + step * (i as f32 + 0.15), u0 + step * (i as f32 + 0.85));
            model.side(
                &[frame.at(l, a, w(a)), frame.at(r, a, w(a)), frame.at(r, b, w(b)), frame.at(l, b, w(b))],
                inside,
                glass,
            );
        }
    }
    let lean = |v: f32| u1 - rake * (v - v0) / (v1 - v0) + 0.01;
    let screen = [(a, -0.8), (a, 0.8), (b, 0.75), (b, -0.75)].map(|(v, w)| frame.at(lean(v), v, w * wide));
    model.side(&screen, inside, glass);
}

fn oars(model: &mut Model, frame: &Frame, hull: &Hull) {
    let wood = Paint::new(rgb(0xc9a36b));
    for side in [-1.0, 1.0] {
        let (w, v) = (side * hull.beam, hull.side * 1.05);
        let layer = if frame.way(0.0, 0.0, side).z < 0.0 { 3 } else { -1 };
        model.layer(layer).rod(
            frame.at(0.25, v + 0.15, w * 0.4),
            frame.at(-0.15, 0.03, w * 2.1),
            0.025 * frame.size,
            wood,
        );
    }
}

/// Mast, boom, mainsail and sometimes a jib.
fn rig(model: &mut Model, frame: &Frame, hull: &Hull, rng: &mut Rng) {
    let wood = Paint::new(rgb(0x8a6a44));
    let high = rng.range(2.6, 3.6);
    let mast = rng.range(0.1, 0.5);
    let base = hull.side + 0.2;
    let swing = rng.range(-0.45, 0.45);
    let furled = rng.chance(0.12);
    model.layer(5).rod(frame.at(mast, 0.3, 0.0), frame.at(mast, high, 0.0), 0.035 * frame.size, wood);
    let boom = (mast - 1.45, base + 0.05, swing);
    model.rod(frame.at(mast, base, 0.0), frame.at(boom.0, boom.1, boom.2), 0.03 * frame.size, wood);
    if furled {
        return;
    }
    let clothes = [0xf2eee4, 0xf2eee4, 0xe8dcc2, 0xb5432f, 0x2e4f7d, 0xd7a13c];
    let cloth = rgb(rng.pick(&clothes));
    let stripe: Color = if rng.chance(0.3) { rgb(rng.pick(&clothes)) } else { cloth * 0.93 };
    let sail =
        Paint::new(cloth).texture(Texture::Stripes, stripe, rng.range(0.4, 0.9) * frame.size).glow(0.12);
    let bulge = 0.12;
    let main = [
        frame.at(mast - 0.03, base + 0.05, 0.0),
        frame.at(boom.0, boom.1 + 0.04, boom.2),
        frame.at(boom.0 + 0.45 - bulge, base + 0.42 * (high - base), 0.7 * boom.2),
        frame.at(boom.0 + 1.0 - bulge, base + 0.75 * (high - base), 0.35 * boom.2),
        frame.at(mast - 0.03, high - 0.08, 0.0),
    ];
    model.layer(4).sheet(&main, sail);
    if rng.chance(0.7) {
        let (u, _, v) = hull.station(STATIONS - 1);
        let jib = [
            frame.at(u, v, 0.0),
            frame.at(mast + 0.1, base + 0.1, 0.4 * swing),
            frame.at(mast + 0.14, base + 0.4 * (high - base), 0.3 * swing),
            frame.at(mast + 0.03, 0.88 * high, 0.0),
        ];
        model.sheet(&jib, sail.dim(0.95));
    }
}
