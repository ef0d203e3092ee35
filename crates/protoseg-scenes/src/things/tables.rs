//! Tables and lamps.

use super::seats::{cloth, timber};
use crate::light::{Bulb, Light};
use crate::math::{Color, Vec3, rgb};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

/// The surface that other things can stand on.
#[derive(Clone, Copy, Debug)]
pub struct Top {
    pub high: f32,
    pub half_u: f32,
    pub half_w: f32,
    pub round: bool,
}

/// Heights and sizes of the common tables.
pub fn table_top(rng: &mut Rng) -> Top {
    match rng.below(5) {
        0 => Top {
            high: rng.range(0.36, 0.48),
            half_u: rng.range(0.3, 0.4),
            half_w: rng.range(0.45, 0.65),
            round: false,
        },
        1 => {
            let r = rng.range(0.38, 0.6);
            Top { high: rng.range(0.68, 0.76), half_u: r, half_w: r, round: true }
        }
        _ => Top {
            high: rng.range(0.7, 0.78),
            half_u: rng.range(0.36, 0.46),
            half_w: rng.range(0.6, 0.95),
            round: false,
        },
    }
}

pub fn table(frame: &Frame, top: Top, rng: &mut Rng) -> Model {
    let wood = timber(rng, frame);
    if top.round { round_table(frame, top, wood, rng) } else { long_table(frame, top, wood, rng) }
}

fn long_table(frame: &Frame, top: Top, wood: Paint, rng: &mut Rng) -> Model {
    let Top { high, half_u, half_w, .. } = top;
    let mut model = Model::default();
    let t = rng.range(0.022, 0.04);
    let inset = rng.range(0.02, 0.1);
    let metal = Paint::new(rgb(0x26272a)).gloss(0.2);
    let legs = if rng.chance(0.25) { metal } else { wood };
    let splay = rng.range(0.0, 0.08);
    for (u, w) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)] {
        let (u1, w1) = (u * (half_u - inset), w * (half_w - inset));
        let (u0, w0) = (u1 + u * splay, w1 + w * splay);
        let ring = |u: f32, w: f32, t: f32| [u - t, u + t, w - t, w + t];
        model.layer(-1).prism(frame, [ring(u0, w0, 0.8 * t), ring(u1, w1, t)], (0.0, high), legs);
    }
    if rng.chance(0.6) {
        let (a, b) = (half_u - inset, half_w - inset);
        model.layer(0).block(frame, [-a, a, high - 0.12, high - 0.03, -b, b], wood.dim(0.85));
    }
    if rng.chance(0.2) && high < 0.6 {
        let (a, b) = (half_u - inset, half_w - inset);
        model.layer(-2).block(frame, [-a, a, 0.12, 0.15, -b, b], wood);
    }
    let slab = Paint { size: 0.1 * frame.size, ..wood };
    model.layer(1).block(frame, [-half_u, half_u, high - 0.035, high, -half_w, half_w], slab);
    if rng.chance(0.25) {
        let linen = cloth(rng, frame);
        let (a, b, fall) = (half_u + 0.015, half_w + 0.015, high - rng.range(0.12, 0.3));
        model.layer(2).block(frame, [-a, a, fall, high + 0.005, -b, b], linen);
    }
    model
}

fn round_table(frame: &Frame, top: Top, wood: Paint, rng: &mut Rng) -> Model {
    let (r, high, s) = (top.half_u * frame.size, top.high * frame.size, frame.size);
    let base = frame.origin;
    let mut model = Model::default();
    let metal = Paint::new(rgb(rng.pick(&[0x232426, 0xd9d6ce, 0x4a3a2c]))).gloss(0.2);
    if rng.chance(0.6) {
        let foot = [
            (0.0, 0.24 * s),
            (0.02 * s, 0.24 * s),
            (0.05 * s, 0.06 * s),
            (0.12 * s, 0.035 * s),
            (high - 0.08 * s, 0.035 * s),
            (high - 0.03 * s, 0.1 * s),
        ];
        model.layer(-1).lathe(base, &foot, &[], metal);
    } else {
        let legs: Vec<Cone> = [(1.0, 0.3), (-0.76, 0.85), (-0.24, -0.95), (0.6, -0.7)]
            .map(|(u, w)| {
                let k = top.half_u * 0.8;
                cone(
                    frame,
                    (0.6 * k * u, top.high, 0.6 * k * w),
                    (k * u, 0.0, k * w),
                    0.026,
                    0.018,
                    wood.color,
                )
                .crisp()
            })
            .to_vec();
        model.layer(-1).blob(legs, 0.0, 0.0, wood);
    }
    let linen = rng.chance(0.25);
    let cover = if linen { cloth(rng, frame) } else { wood };
    let drop = if linen { rng.range(0.15, 0.35) * s } else { 0.035 * s };
    let lip = Vec3 { y: base.y + high - drop, ..base };
    model.layer(0).lathe(lip, &[(0.0, r * if linen { 1.04 } else { 0.97 }), (drop, r)], &[], cover.dim(0.85));
    model.layer(1).plate(Vec3 { y: base.y + high, ..base }, r, cover.gloss(0.08));
    model
}

/// Floor, table and desk lamps. A lit one lights the room too.
pub fn lamp(frame: &Frame, rng: &mut Rng, light: &mut Light, floor: bool) -> Model {
    let metal = Paint::new(rgb(rng.pick(&[0x222326, 0xb08d4a, 0xc9ccd0, 0xe6e2d8, 0x7a4a2c]))).gloss(0.5);
    let shades = [0xf0e6cc, 0xe9d3a6, 0xd9c7b4, 0xc9564a, 0x4f7d8c, 0xe8e8e4, 0x6a7a4a, 0x2d2f36];
    let color = rgb(rng.pick(&shades)) * rng.range(0.9, 1.1);
    let lit = rng.chance(0.55);
    let mut shade = Paint::new(color).gloss(0.05);
    if rng.chance(0.25) {
        shade = shade.texture(Texture::Stripes, color * 0.75, 0.05 * frame.size);
    }
    let shade = shade.glow(if lit { 0.85 } else { 0.12 });
    let shade = if lit { Paint { color: shade.color.mix(rgb(0xffe9b0), 0.5) * 1.5, ..shade } } else { shade };
    let high = if floor { rng.range(1.3, 1.7) } else { rng.range(0.36, 0.56) };
    let k = if floor { 1.0 } else { 0.62 };
    let (bottom, mid) = match rng.below(if floor { 3 } else { 4 }) {
        3 => return desk_lamp(frame, rng, light, metal, lit),
        0 => (rng.range(0.2, 0.26) * k, rng.range(0.12, 0.15) * k),
        1 => (rng.range(0.17, 0.22) * k, rng.range(0.165, 0.2) * k),
        _ => (rng.range(0.24, 0.32) * k, rng.range(0.07, 0.1) * k),
    };
    let tall = rng.range(0.24, 0.34) * k;
    let s = frame.size;
    let mut model = Model::default();
    if floor {
        stand(&mut model, frame, metal, high - tall, rng);
    } else {
        model.layer(0).lathe(
            frame.origin,
            &turned_foot(rng, (high - 0.8 * tall) * s, s),
            &[],
            metal.gloss(0.35),
        );
    }
    let base = frame.at(0.0, high - tall, 0.0);
    model.layer(1).lathe(base, &[(0.0, bottom * s), (tall * s, mid * s)], &[], shade);
    let inner = Paint::new(if lit { rgb(0xfff0c8) * 1.6 } else { shade.color * 0.4 }).glow(if lit {
        1.0
    } else {
        0.0
    });
    model.layer(2).plate(frame.at(0.0, high, 0.0), mid * s * 0.96, inner);
    if lit {
        shine(light, frame.at(0.0, high - 0.5 * tall, -0.05), if floor { 0.9 } else { 0.45 } * s);
    }
    model
}

fn shine(light: &mut Light, at: Vec3, reach: f32) {
    light.bulbs.push(Bulb { at, color: rgb(0xffd98a) * 0.8, reach });
}

fn stand(model: &mut Model, frame: &Frame, metal: Paint, high: f32, rng: &mut Rng) {
    let s = frame.size;
    if rng.chance(0.4) {
        let legs: Vec<Cone> = [(0.25, 0.05), (-0.15, 0.2), (-0.1, -0.22)]
            .map(|(u, w)| cone(frame, (0.0, high, 0.0), (u, 0.0, w), 0.016, 0.013, metal.color).crisp())
            .to_vec();
        model.layer(0).blob(legs, 0.0, 0.0, metal);
    } else {
        model.layer(0).lathe(
            frame.origin,
            &[(0.0, 0.15 * s), (0.02 * s, 0.15 * s), (0.03 * s, 0.03 * s)],
            &[],
            metal,
        );
        model.rod(frame.at(0.0, 0.02, 0.0), frame.at(0.0, high + 0.05, 0.0), 0.014 * s, metal);
    }
}

/// A vase-like foot of a table lamp.
fn turned_foot(rng: &mut Rng, high: f32, s: f32) -> Vec<(f32, f32)> {
    let r = rng.range(0.05, 0.1) * s;
    match rng.below(3) {
        0 => vec![
            (0.0, r * 0.7),
            (0.15 * high, r),
            (0.45 * high, r * 0.95),
            (0.7 * high, r * 0.35),
            (high, 0.012 * s),
        ],
        1 => vec![(0.0, r), (0.06 * high, r), (0.1 * high, 0.016 * s), (high, 0.014 * s)],
        _ => vec![
            (0.0, r * 0.9),
            (0.1 * high, r * 0.5),
            (0.35 * high, r),
            (0.6 * high, r * 0.4),
            (0.75 * high, r * 0.6),
            (high, 0.012 * s),
        ],
    }
}

/// A jointed arm and a tin shade that points ahead and down.
fn desk_lamp(frame: &Frame, rng: &mut Rng, light: &mut Light, metal: Paint, lit: bool) -> Model {
    let color: Color = rgb(rng.pick(&[0x1f2023, 0xb8352b, 0x2f6d8c, 0xe4e1d8, 0x3f7a52, 0xd9a32c]));
    let paint = Paint::new(color).gloss(0.4);
    let (elbow, neck) = ((-0.13, rng.range(0.2, 0.27), 0.0), (0.08, rng.range(0.38, 0.48), 0.0));
    let s = frame.size;
    let mut model = Model::default();
    model.layer(0).lathe(
        frame.origin,
        &[(0.0, 0.09 * s), (0.015 * s, 0.09 * s), (0.03 * s, 0.02 * s)],
        &[],
        paint,
    );
    let arm = vec![
        cone(frame, (0.0, 0.02, 0.0), elbow, 0.012, 0.012, metal.color).crisp(),
        cone(frame, elbow, neck, 0.012, 0.012, metal.color).crisp(),
        cone(frame, elbow, elbow, 0.02, 0.02, color).crisp(),
    ];
    model.layer(1).blob(arm, 0.0, 0.0, metal);
    let tip = (neck.0 + 0.1, neck.1 - 0.1, 0.0);
    let mut head = vec![cone(frame, neck, tip, 0.03, 0.085, color)];
    if lit {
        let bulb = (tip.0 + 0.035, tip.1 - 0.035, 0.0);
        head.push(cone(frame, bulb, bulb, 0.06, 0.06, rgb(0xfff2c4) * 2.0).crisp());
        shine(light, frame.at(tip.0 + 0.05, tip.1 - 0.02, -0.05), 0.4 * s);
    }
    model.layer(2).blob(head, 0.0, 0.0, paint.glow(if lit { 0.15 } else { 0.0 }));
    model
}

/// A lamp that hangs from the ceiling, `frame.origin` at the lower rim of its shade.
pub fn pendant(frame: &Frame, rng: &mut Rng, light: &mut Light) -> Model {
    let color =
        rgb(rng.pick(&[0x222326, 0xe9e5da, 0xb8743c, 0x2f5d6c, 0xb6382e, 0x7d8a5a])) * rng.range(0.9, 1.1);
    let s = frame.size;
    let (r, tall) = (rng.range(0.16, 0.28) * s, rng.range(0.14, 0.26) * s);
    let lit = rng.chance(0.6);
    let mut model = Model::default();
    let cord = Paint::new(rgb(0x1c1c1e));
    model.layer(-1).rod(frame.at(0.0, tall / s, 0.0), frame.at(0.0, 4.0, 0.0), 0.006 * s, cord);
    let profile = match rng.below(3) {
        0 => vec![(0.0, r), (0.35 * tall, 0.93 * r), (0.75 * tall, 0.6 * r), (tall, 0.1 * r)],
        1 => vec![(0.0, r), (0.8 * tall, 0.25 * r), (tall, 0.2 * r)],
        _ => vec![
            (0.0, 0.55 * r),
            (0.3 * tall, 0.95 * r),
            (0.6 * tall, 0.98 * r),
            (0.9 * tall, 0.5 * r),
            (tall, 0.15 * r),
        ],
    };
    let paint = Paint::new(color).gloss(0.25);
    let paint =
        if lit { Paint { color: color.mix(rgb(0xffe9b0), 0.3) * 1.2, ..paint }.glow(0.5) } else { paint };
    model.layer(1).lathe(frame.origin, &profile, &[], paint);
    let inner =
        Paint::new(if lit { rgb(0xfff0c8) * 1.6 } else { color * 0.3 }).glow(if lit { 1.0 } else { 0.0 });
    model.layer(0).plate(frame.origin, profile[0].1 * 0.97, inner);
    if lit {
        shine(light, frame.at(0.0, -0.05, 0.0), 0.9 * s);
    }
    model
}
