//! Chairs and sofas. Both face along `u`.

use crate::math::{Color, rgb, sin_cos};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

const CLOTHS: [u32; 12] = [
    0x8c3b35, 0x3f5f7f, 0x6b7a5a, 0xb9a58a, 0x4a4a50, 0xc98f3c, 0x7d5c7c, 0xd9d2c4, 0x2f4a45, 0x9c6b4f,
    0xb7bec4, 0x5b3a2a,
];
const WOODS: [(u32, u32); 5] = [
    (0xa9764a, 0x8a5c36),
    (0x5f3d26, 0x452b1a),
    (0xd6b98a, 0xc2a172),
    (0x2a2624, 0x1f1c1a),
    (0xe7e3da, 0xd8d3c8),
];

/// Wood of a random tree, or lacquer.
pub fn timber(rng: &mut Rng, frame: &Frame) -> Paint {
    let (a, b) = rng.pick(&WOODS);
    let tone = rng.range(0.85, 1.15);
    Paint::new(rgb(a) * tone)
        .texture(Texture::Wood, rgb(b) * tone, 0.05 * frame.size)
        .gloss(0.1)
        .offset(rng.range(0.0, 60.0))
}

/// Cloth or leather.
pub fn cloth(rng: &mut Rng, frame: &Frame) -> Paint {
    let color = rgb(rng.pick(&CLOTHS)) * rng.range(0.8, 1.2);
    match rng.below(5) {
        0 => Paint::new(color).gloss(0.25),
        1 => Paint::new(color).texture(
            Texture::Stripes,
            rgb(rng.pick(&CLOTHS)).mix(color, 0.4),
            0.16 * frame.size,
        ),
        2 => Paint::new(color).texture(Texture::Checks, color.mix(rgb(0xe8e2d6), 0.5), 0.12 * frame.size),
        _ => Paint::new(color).grain(0.04 * frame.size),
    }
}

/// Wooden, upholstered, bistro, shell and office chairs, and armchairs.
pub fn chair(frame: &Frame, rng: &mut Rng, indoors: bool) -> Model {
    match rng.below(if indoors { 7 } else { 5 }) {
        0..=2 => wooden(frame, rng),
        3 => bistro(frame, rng),
        4 => shell(frame, rng),
        5 => office(frame, rng),
        _ => couch(frame, rng, 0.62),
    }
}

fn wooden(frame: &Frame, rng: &mut Rng) -> Model {
    let wood = timber(rng, frame);
    let seat_paint = if rng.chance(0.5) { cloth(rng, frame) } else { wood };
    let (d, w) = (rng.range(0.2, 0.23), rng.range(0.2, 0.23));
    let seat = rng.range(0.43, 0.48);
    let top = rng.range(0.85, 1.08);
    let t = rng.range(0.018, 0.026);
    let lean = rng.range(0.02, 0.1);
    let mut model = Model::default();
    let back = if frame.forward.z < 0.0 { -1 } else { 2 };
    for (u, v) in [(-d, -w), (-d, w), (d, -w), (d, w)] {
        let layer = if u < 0.0 { back } else { -back };
        model.layer(layer).block(frame, [u - t, u + t, 0.0, seat, v - t, v + t], wood);
    }
    if rng.chance(0.4) {
        model.layer(0).block(frame, [-d, d, 0.16, 0.19, -w - 0.01, -w + 0.01], wood);
        model.block(frame, [-d, d, 0.16, 0.19, w - 0.01, w + 0.01], wood);
    }
    model.layer(0).block(frame, [-d - 0.02, d + 0.03, seat - 0.05, seat, -w - 0.02, w + 0.02], seat_paint);
    // The back leans away from the sitter.
    model.layer(back);
    let slab = |v0: f32, v1: f32, w0: f32, w1: f32| {
        let at = |v: f32| -d - lean * (v - seat) / (top - seat);
        let (low, high) = (at(v0), at(v1));
        ([[low - t, low + t, w0, w1], [high - t, high + t, w0, w1]], (v0, v1))
    };
    let mut put = |s: ([[f32; 4]; 2], (f32, f32)), paint: Paint| model.prism(frame, s.0, s.1, paint);
    put(slab(seat, top, -w - t, -w + t), wood);
    put(slab(seat, top, w - t, w + t), wood);
    match rng.below(4) {
        0 => put(slab(seat + 0.12, top - 0.02, -w, w), seat_paint),
        1 => {
            for k in 0..3 {
                let v = seat + 0.14 + k as f32 * (top - seat - 0.2) / 2.0;
                put(slab(v, v + 0.07, -w, w), wood);
            }
        }
        _ => {
            put(slab(top - 0.08, top, -w, w), wood);
            for k in 0..4 {
                let x = -w + 2.0 * w * (k as f32 + 1.0) / 5.0;
                put(slab(seat, top - 0.05, x - 0.012, x + 0.012), wood);
            }
        }
    }
    model
}

/// Thin metal legs, round seat, hooped back.
fn bistro(frame: &Frame, rng: &mut Rng) -> Model {
    let metal =
        Paint::new(rgb(rng.pick(&[0x222426, 0xb23a2e, 0x2f6f62, 0xe4e0d6, 0xd8a83a, 0x7b4a2a]))).gloss(0.3);
    let seat = Paint::new(metal.color.mix(rgb(0xb08050), if rng.chance(0.5) { 0.8 } else { 0.0 })).gloss(0.1);
    let (r, high, top) = (0.2, 0.45, rng.range(0.85, 0.95));
    let mut legs: Vec<Cone> = Vec::new();
    for (u, w) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)] {
        legs.push(
            cone(frame, (0.12 * u, high, 0.12 * w), (0.2 * u, 0.0, 0.19 * w), 0.016, 0.013, metal.color)
                .crisp(),
        );
    }
    let mut hoop: Vec<Cone> = Vec::new();
    for (wide, up) in [(0.19, top - high), (0.11, 0.82 * (top - high))] {
        for i in 0..8 {
            let at = |k: usize| {
                let (s, c) = sin_cos(0.5 * k as f32 / 8.0);
                (-0.17 - 0.08 * s, high + up * s.sqrt(), wide * c)
            };
            hoop.push(cone(frame, at(i), at(i + 1), 0.016, 0.016, metal.color).crisp());
        }
    }
    let mut model = Model::default();
    model.layer(-2).blob(legs, 0.0, 0.0, metal);
    model.layer(0).lathe(
        frame.at(0.0, high - 0.02, 0.0),
        &[(0.0, r * frame.size), (0.03 * frame.size, r * frame.size)],
        &[],
        seat.dim(0.8),
    );
    model.layer(1).plate(frame.at(0.0, high + 0.01, 0.0), r * frame.size, seat);
    model.layer(if frame.forward.z < 0.0 { -1 } else { 2 }).blob(hoop, 0.0, 0.0, metal);
    model
}

/// A moulded seat on four splayed legs.
fn shell(frame: &Frame, rng: &mut Rng) -> Model {
    let color =
        rgb(rng.pick(&[0xe9e6df, 0xd9a62e, 0x2f6b78, 0xb84a3a, 0x2b2c2f, 0x7f9a6a])) * rng.range(0.9, 1.1);
    let leg = rgb(rng.pick(&[0xb58a5a, 0x8c8f92, 0x1e1e20]));
    let mut legs: Vec<Cone> = Vec::new();
    for (u, w) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)] {
        legs.push(
            cone(frame, (0.1 * u, 0.42, 0.1 * w), (0.22 * u, 0.01, 0.21 * w), 0.02, 0.014, leg).crisp(),
        );
    }
    let mut body: Vec<Cone> = Vec::new();
    for i in 0..7 {
        let w = 0.065 * (i as f32 - 3.0);
        let rise = 1.2 * w * w;
        let (low, mid) = ((-0.15, 0.42 + rise, w), (-0.24 + rise, 0.6, w * 1.02));
        body.push(cone(frame, (0.2, 0.44 + rise, w), low, 0.036, 0.036, color));
        body.push(cone(frame, low, mid, 0.036, 0.036, color));
        body.push(cone(frame, mid, (-0.3 + rise, 0.86 - 1.5 * rise, w * 0.85), 0.036, 0.032, color));
    }
    let mut model = Model::default();
    model.layer(-1).blob(legs, 0.0, 0.0, Paint::new(leg));
    model.layer(0).blob(body, 0.11 * frame.size, 0.0, Paint::new(color).gloss(0.2));
    model
}

/// Cushioned seat and back on a star of castors.
fn office(frame: &Frame, rng: &mut Rng) -> Model {
    let cover = Paint::new(rgb(rng.pick(&[0x26272b, 0x3c4a5c, 0x6b2f2f, 0x5f6468]))).grain(0.03 * frame.size);
    let steel = rgb(0x2c2d30);
    let mut base: Vec<Cone> =
        vec![cone(frame, (0.0, 0.08, 0.0), (0.0, 0.42, 0.0), 0.03, 0.03, steel).crisp()];
    for i in 0..5 {
        let (s, c) = sin_cos(i as f32 / 5.0 + 0.05);
        base.push(cone(frame, (0.0, 0.1, 0.0), (0.28 * c, 0.06, 0.28 * s), 0.025, 0.02, steel).crisp());
        base.push(
            cone(frame, (0.28 * c, 0.03, 0.28 * s), (0.28 * c, 0.03, 0.28 * s), 0.03, 0.03, rgb(0x121213))
                .crisp(),
        );
    }
    base.push(cone(frame, (-0.1, 0.42, 0.0), (-0.27, 0.62, 0.0), 0.025, 0.025, steel).crisp());
    let top = rng.range(0.9, 1.15);
    let mut model = Model::default();
    model.layer(-1).blob(base, 0.0, 0.0, Paint::new(steel).gloss(0.2));
    let across = [-0.16, -0.08, 0.0, 0.08, 0.16];
    let seat = across.map(|w| cone(frame, (-0.17, 0.47, w), (0.18, 0.47, w), 0.055, 0.05, cover.color));
    model.layer(0).blob(seat.to_vec(), 0.12 * frame.size, 0.0, cover);
    let back = across.map(|w| cone(frame, (-0.26, 0.6, w), (-0.31, top, w * 0.85), 0.05, 0.045, cover.color));
    model.layer(if frame.forward.z < 0.0 { -1 } else { 1 }).blob(
        back.to_vec(),
        0.12 * frame.size,
        0.0,
        cover,
    );
    model
}

/// Two or three seats wide.
pub fn sofa(frame: &Frame, rng: &mut Rng) -> Model {
    let long = rng.range(1.5, 2.3);
    couch(frame, rng, long)
}

/// Upholstery: base, arms, cushions; `long` is the room between the arms.
fn couch(frame: &Frame, rng: &mut Rng, long: f32) -> Model {
    let cover = cloth(rng, frame);
    let round = rng.chance(0.5);
    let (half, deep) = (0.5 * long, rng.range(0.36, 0.44));
    let arm = rng.range(0.1, 0.17);
    let (seat, arm_high) = (rng.range(0.36, 0.42), rng.range(0.52, 0.64));
    let high = rng.range(0.76, 0.95);
    let feet = rng.range(0.05, 0.13);
    let wood = timber(rng, frame);
    let out = half + arm;
    let towards = frame.forward.z < 0.0;
    let mut model = Model::default();
    for (u, w) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)] {
        let (u, w) = (u * (deep - 0.06), w * (out - 0.07));
        model.layer(-3).block(frame, [u - 0.03, u + 0.03, 0.0, feet + 0.02, w - 0.03, w + 0.03], wood);
    }
    let back_layer = if towards { -2 } else { 3 };
    let back = [[-deep, -deep + 0.18, -out, out], [-deep - 0.06, -deep + 0.08, -out, out]];
    model.layer(back_layer).prism(frame, back, (feet, high), cover);
    model.layer(-1).block(
        frame,
        [-deep + 0.1, deep, feet, seat - 0.1, -half - 0.02, half + 0.02],
        cover.dim(0.85),
    );
    let seats = (long / 0.68).round().max(1.0) as usize;
    cushions(&mut model, frame, (deep, half, seat, high), seats, cover, towards);
    for side in [-1.0, 1.0] {
        let (w0, w1) = if side > 0.0 { (half, out) } else { (-out, -half) };
        let near = frame.way(0.0, 0.0, side).z < 0.0;
        model.layer(if near { 2 } else { -1 });
        let box_high = if round { arm_high - 0.07 } else { arm_high };
        model.block(frame, [-deep, deep, feet, box_high, w0, w1], cover);
        if round {
            let (v, r) = (arm_high - 0.07, 0.5 * arm + 0.025);
            let roll = cone(
                frame,
                (-deep, v, 0.5 * (w0 + w1)),
                (deep - r * 0.3, v, 0.5 * (w0 + w1)),
                r,
                r,
                cover.color,
            );
            model.blob(vec![roll], 0.0, 0.0, cover);
        }
    }
    if towards && rng.chance(0.6) {
        let color: Color = rgb(rng.pick(&CLOTHS));
        let w = rng.range(-0.7, 0.7) * half;
        let pillow = pillow(frame, (-0.2 * deep, seat + 0.14, w), (0.09, 0.12, 0.13), color);
        model.layer(1).blob(pillow, 0.14 * frame.size, 0.0, Paint::new(color).grain(0.04 * frame.size));
    }
    model
}

fn cushions(
    model: &mut Model,
    frame: &Frame,
    (deep, half, seat, high): (f32, f32, f32, f32),
    seats: usize,
    cover: Paint,
    towards: bool,
) {
    let step = 2.0 * half / seats as f32;
    for i in 0..seats {
        let w = -half + step * (i as f32 + 0.5);
        let k = 0.5 * step - 0.07;
        let color = cover.color * 1.06;
        let mut rows: Vec<Cone> = Vec::new();
        for u in [-0.45 * deep, 0.1 * deep, 0.72 * deep] {
            rows.push(cone(frame, (u, seat - 0.06, w - k), (u, seat - 0.06, w + k), 0.085, 0.085, color));
        }
        model.layer(0).blob(rows, 0.2 * frame.size, 0.0, cover);
        let back: Vec<Cone> = [seat + 0.12, 0.5 * (seat + high) + 0.08, high - 0.02]
            .map(|v| cone(frame, (-0.5 * deep, v, w - k), (-0.5 * deep, v, w + k), 0.09, 0.09, color))
            .to_vec();
        model.layer(if towards { -1 } else { 1 }).blob(back, 0.22 * frame.size, 0.0, cover);
    }
}

/// A scatter cushion.
fn pillow(
    frame: &Frame,
    (u, v, w): (f32, f32, f32),
    (du, dv, dw): (f32, f32, f32),
    color: Color,
) -> Vec<Cone> {
    [-0.6, 0.0, 0.6]
        .map(|k| {
            cone(
                frame,
                (u - 0.5 * du, v + k * dv, w - dw),
                (u - 0.5 * du, v + k * dv, w + dw),
                0.075,
                0.075,
                color,
            )
        })
        .to_vec()
}
