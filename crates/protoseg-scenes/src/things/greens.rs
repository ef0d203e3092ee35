//! Potted plants and parasols.

use crate::math::{Color, Vec3, rgb, sin_cos};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

const GREENS: [u32; 6] = [0x3f6b35, 0x55803f, 0x2f5a3c, 0x6f8f4a, 0x4a7a55, 0x7a9440];

/// A pot with something growing in it: rubber plant, sansevieria, palm, cactus or a flowering bush.
pub fn plant(frame: &Frame, rng: &mut Rng) -> Model {
    let s = frame.size;
    let pots = [0xb5623c, 0xe6e1d6, 0x2d2f33, 0x7c8f99, 0xc9a36b, 0x8c3f34, 0x3f5f55];
    let pot = rgb(rng.pick(&pots)) * rng.range(0.85, 1.1);
    let (r, high) = (rng.range(0.12, 0.19), rng.range(0.2, 0.34));
    let profile = match rng.below(3) {
        0 => vec![(0.0, 0.72 * r), (0.8 * high, 0.95 * r), (0.81 * high, 1.04 * r), (high, 1.06 * r)],
        1 => vec![(0.0, 0.95 * r), (high, r)],
        _ => vec![(0.0, 0.6 * r), (0.35 * high, 1.05 * r), (0.75 * high, 1.08 * r), (high, 0.9 * r)],
    };
    let rim = profile[profile.len() - 1].1;
    let profile: Vec<_> = profile.iter().map(|(h, r)| (h * s, r * s)).collect();
    let mut model = Model::default();
    model.layer(0).plate(frame.at(0.0, high, 0.0), rim * s, Paint::new(pot * 0.8));
    model.layer(1).plate(frame.at(0.0, high - 0.01, 0.0), rim * 0.9 * s, Paint::new(rgb(0x3a2a1e)));
    model.layer(6).lathe(frame.origin, &profile, &[], Paint::new(pot).gloss(0.15));
    let top = frame.child(0.0, high, 0.0, 0.0, 1.0);
    let green = rgb(rng.pick(&GREENS)) * rng.range(0.8, 1.2);
    match rng.below(6) {
        0 | 1 => rubber(&mut model, &top, green, rng),
        2 => swords(&mut model, &top, green, rim, rng),
        3 => palm(&mut model, &top, green, rng),
        4 => cactus(&mut model, &top, green, rng),
        _ => bush(&mut model, &top, green, rim, rng),
    }
    model
}

/// A leaf from `root` along `(u, v, w)`, `wide` at its middle.
fn leaf(
    model: &mut Model,
    frame: &Frame,
    root: (f32, f32, f32),
    way: (f32, f32, f32),
    wide: f32,
    color: Color,
) {
    let start = frame.at(root.0, root.1, root.2);
    let dir = frame.way(way.0, way.1, way.2);
    let across = dir.cross(Vec3 { x: 0.3, y: 0.2, z: -1.0 }).unit() * (wide * frame.size);
    let sag = Vec3 { x: 0.0, y: -0.12 * dir.length(), z: 0.0 };
    let points = [
        start,
        start + dir * 0.22 + across * 0.7,
        start + dir * 0.5 + across + sag * 0.2,
        start + dir * 0.78 + across * 0.65 + sag * 0.6,
        start + dir + sag,
        start + dir * 0.78 - across * 0.65 + sag * 0.6,
        start + dir * 0.5 - across + sag * 0.2,
        start + dir * 0.22 - across * 0.7,
    ];
    model.sheet(&points, Paint::new(color).gloss(0.12));
}

fn rubber(model: &mut Model, frame: &Frame, green: Color, rng: &mut Rng) {
    let tall = rng.range(0.4, 0.85);
    model.layer(2).rod(
        frame.at(0.0, -0.02, 0.0),
        frame.at(0.02, tall, 0.0),
        0.014 * frame.size,
        Paint::new(rgb(0x5f4a33)),
    );
    model.layer(3);
    let many = rng.between(9, 15);
    let wide = rng.range(0.06, 0.1);
    for i in 0..many {
        let t = (i as f32 + 0.5) / many as f32;
        let (s, c) = sin_cos(i as f32 * 0.382 + rng.range(-0.04, 0.04));
        let reach = rng.range(0.2, 0.34) * (1.15 - 0.5 * t);
        let way = (reach * c, reach * rng.range(0.1, 0.8), reach * s);
        leaf(model, frame, (0.0, 0.12 + t * (tall - 0.12), 0.0), way, wide, green * rng.range(0.75, 1.3));
    }
}

fn swords(model: &mut Model, frame: &Frame, green: Color, rim: f32, rng: &mut Rng) {
    model.layer(3);
    for i in 0..rng.between(7, 12) {
        let (s, c) = sin_cos(i as f32 * 0.382);
        let tall = rng.range(0.4, 0.85);
        let root = (0.5 * rim * c, -0.02, 0.5 * rim * s);
        leaf(
            model,
            frame,
            root,
            (0.12 * c, tall, 0.12 * s),
            rng.range(0.025, 0.04),
            green * rng.range(0.7, 1.3),
        );
    }
}

fn palm(model: &mut Model, frame: &Frame, green: Color, rng: &mut Rng) {
    let tall = rng.range(0.15, 0.5);
    model.layer(2).rod(
        frame.at(0.0, -0.02, 0.0),
        frame.at(0.0, tall, 0.0),
        0.03 * frame.size,
        Paint::new(rgb(0x6b5237)),
    );
    model.layer(3);
    let many = rng.between(10, 16);
    for i in 0..many {
        let (s, c) = sin_cos(i as f32 * 0.382 + 0.1);
        let (out, up) = (rng.range(0.18, 0.26), rng.range(0.12, 0.34));
        let color = green * rng.range(0.75, 1.3);
        leaf(model, frame, (0.0, tall, 0.0), (out * c, up, out * s), 0.035, color);
        let knee = (out * c * 0.8, tall + up * 0.75, out * s * 0.8);
        leaf(model, frame, knee, (out * c, -0.1 - 0.3 * up, out * s), 0.04, color * 0.9);
    }
}

fn cactus(model: &mut Model, frame: &Frame, green: Color, rng: &mut Rng) {
    let tall = rng.range(0.3, 0.65);
    let r = rng.range(0.06, 0.1);
    let mut cones = vec![cone(frame, (0.0, 0.0, 0.0), (0.0, tall, 0.0), r, 0.9 * r, green)];
    for side in [-1.0, 1.0] {
        if rng.chance(0.7) {
            let (v, out, up) = (rng.range(0.35, 0.6) * tall, rng.range(0.12, 0.18), rng.range(0.12, 0.25));
            cones.push(cone(frame, (0.0, v, 0.0), (0.0, v + 0.02, out * side), 0.5 * r, 0.5 * r, green));
            cones.push(cone(
                frame,
                (0.0, v + 0.02, out * side),
                (0.0, v + up, out * side * 1.05),
                0.5 * r,
                0.45 * r,
                green,
            ));
        }
    }
    let ribs = Paint::new(green).texture(Texture::Stripes, green * 0.6, 0.045 * frame.size);
    model.layer(3).blob(cones, 0.03 * frame.size, 0.0, ribs);
}

fn bush(model: &mut Model, frame: &Frame, green: Color, rim: f32, rng: &mut Rng) {
    let r = rim * rng.range(1.0, 1.5);
    let tall = rng.range(0.1, 0.35);
    let mut cones = vec![cone(frame, (0.0, 0.3 * r, 0.0), (0.0, tall + 0.3 * r, 0.0), 0.8 * r, r, green)];
    for i in 0..4 {
        let (s, c) = sin_cos(i as f32 / 4.0 + 0.1);
        let at = (0.7 * r * c, tall + 0.2 * r, 0.7 * r * s);
        cones.push(cone(frame, at, at, 0.6 * r, 0.6 * r, green));
    }
    let leaves = Paint::new(green * 0.5)
        .texture(Texture::Leaves, green * 1.4, 0.035 * frame.size)
        .offset(rng.range(0.0, 60.0));
    model.layer(3).blob(cones, 0.1 * frame.size, 0.04 * frame.size, leaves);
    if rng.chance(0.6) {
        let color = rgb(rng.pick(&[0xd84a6a, 0xf1e4ec, 0xe7b42e, 0xb33a9a, 0xd9402e]));
        let flowers: Vec<Cone> = (0..rng.between(6, 14))
            .map(|_| {
                let (s, c) = sin_cos(rng.unit());
                let at = (r * rng.range(0.2, 1.1) * c, tall + r * rng.range(0.1, 1.1), r * s - 0.1);
                let size = rng.range(0.02, 0.035);
                cone(frame, at, at, size, size, color * rng.range(0.8, 1.2)).crisp()
            })
            .collect();
        model.layer(4).blob(flowers, 0.0, 0.0, Paint::new(color));
    }
}

/// Beach parasols, market umbrellas and, now and then, a folded one.
pub fn umbrella(frame: &Frame, rng: &mut Rng) -> Model {
    let colors =
        [0xc8372c, 0xf0ebe0, 0x2c6aa0, 0xe3b23a, 0x3f8a6a, 0xd97a3a, 0x7a4a7c, 0x30363c, 0xe9dcc0, 0xd98aa0];
    let (a, b) = (rgb(rng.pick(&colors)), rgb(rng.pick(&colors)));
    let b = if rng.chance(0.35) { a } else { b };
    let s = frame.size;
    let high = rng.range(1.9, 2.4);
    let tilt = if rng.chance(0.5) { rng.range(-0.35, 0.35) } else { 0.0 };
    let lean = |v: f32, t: f32| tilt * (v / high) * 0.6 + t;
    let pole = Paint::new(rgb(rng.pick(&[0xe6e2d8, 0x9a7448, 0x55585c]))).gloss(0.2);
    let mut model = Model::default();
    model.layer(1).rod(frame.at(0.0, 0.0, 0.0), frame.at(lean(high, 0.0), high, 0.0), 0.028 * s, pole);
    if rng.chance(0.1) {
        let cloth = Paint::new(a).texture(Texture::Stripes, b.mix(a, 0.4), 0.09 * s);
        let furled = [(0.0, 0.1 * s), (0.25 * s, 0.14 * s), (1.1 * s, 0.07 * s), (1.35 * s, 0.02 * s)];
        model.layer(2).lathe(frame.at(lean(high, 0.0) * 0.8, high - 1.25, 0.0), &furled, &[], cloth);
        return model;
    }
    let (r, drop) = (rng.range(0.95, 1.35), rng.range(0.4, 0.8));
    let gores = rng.pick(&[6, 8, 8, 10]);
    // A point on the dome: share of the radius, turn; the whole cap leans with the pole.
    let at = |k: f32, turn: f32| {
        let (sin, cos) = sin_cos(turn);
        let v = high - drop * k * (0.55 + 0.45 * k);
        let u = r * k * cos;
        frame.at(lean(high, u), v - tilt * u * 0.8, r * k * sin)
    };
    model.layer(2);
    for i in 0..gores {
        let (t0, t1) = (i as f32 / gores as f32, (i + 1) as f32 / gores as f32);
        let tm = 0.5 * (t0 + t1);
        let cloth = Paint::new(if i % 2 == 0 { a } else { b }).grain(0.3 * s).glow(0.06);
        model.sheet(&[at(0.0, t0), at(0.55, t0), at(0.55, t1)], cloth);
        model.sheet(&[at(0.55, t0), at(1.0, t0), at(0.95, tm), at(1.0, t1), at(0.55, t1)], cloth.dim(0.96));
    }
    model.layer(3).rod(
        frame.at(lean(high, 0.0), high, 0.0),
        frame.at(lean(high, 0.0), high + 0.08, 0.0),
        0.025 * s,
        pole,
    );
    model
}
