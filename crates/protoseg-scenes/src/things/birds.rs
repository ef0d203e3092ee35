//! Ducks and swans, on the water or on its bank.

use crate::math::{Color, rgb};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

/// Plump and short-necked: drakes with green heads, brown hens, white and black farm ducks.
pub fn duck(frame: &Frame, (rng, mood): (&mut Rng, &mut Rng), afloat: bool) -> Model {
    // body, wing, breast, head, bill
    let plumages = [
        [0xb5b0a8, 0x8d8880, 0x6b3c26, 0x1d5a3c, 0xd9b93a],
        [0x8a6a48, 0x6d5238, 0x94744f, 0x7d6144, 0xb07a3a],
        [0xeeeae0, 0xe2ded4, 0xeeeae0, 0xeeeae0, 0xe39a2e],
        [0x2b2b2e, 0x3a3a40, 0x26262a, 0x1e2b2a, 0x8d8d85],
        [0xd8c9b0, 0x9a5f3c, 0xe0d6c6, 0x8f4a2a, 0x6f7a86],
    ];
    let p = rng.pick(&plumages).map(rgb);
    let m = rng.range(0.85, 1.15);
    let lift = if afloat { -0.035 } else { 0.14 };
    let b = |u: f32, v: f32| (u, v + lift, 0.0);
    let mut cones = vec![
        cone(frame, b(0.12 * m, 0.13), b(-0.12, 0.13), 0.14, 0.145, p[0]),
        cone(frame, b(-0.12, 0.14), b(-0.34 * m, 0.2), 0.13, 0.035, p[0]),
        cone(frame, b(0.16 * m, 0.14), b(0.2 * m, 0.16), 0.125, 0.11, p[2]),
    ];
    for side in [-1.0, 1.0] {
        let w = 0.085 * side;
        let wing = cone(frame, (0.08, 0.17 + lift, w), (-0.24, 0.19 + lift, w), 0.09, 0.035, p[1]);
        cones.push(Cone { soft: 0.5, ..wing });
    }
    let resting = mood.chance(0.15);
    let (hu, hv) = if resting { (0.1, 0.29) } else { (mood.range(0.22, 0.33), mood.range(0.33, 0.47)) };
    let (hu, hv) = if mood.chance(0.1) { (0.4, 0.12) } else { (hu, hv) };
    let aside = mood.range(-0.06, 0.06);
    cones.push(cone(frame, b(0.18 * m, 0.2), (hu, hv + lift, aside * 0.5), 0.085, 0.06, p[2].mix(p[3], 0.6)));
    let head = (hu + 0.02, hv + lift, aside);
    cones.push(cone(frame, head, (hu + 0.05, hv + lift, aside), 0.08, 0.072, p[3]));
    let bill = (hu + 0.2, hv - 0.035 + lift, aside * 1.5);
    cones.push(cone(frame, (hu + 0.1, hv - 0.01 + lift, aside), bill, 0.034, 0.022, p[4]).crisp());
    if rng.chance(0.6) {
        cones.push(cone(
            frame,
            (hu - 0.05, hv - 0.08 + lift, 0.0),
            (hu + 0.01, hv - 0.09 + lift, 0.0),
            0.06,
            0.06,
            rgb(0xe9e5db),
        ));
        let collar = cones.len() - 1;
        cones[collar].soft = 0.2;
    }
    eyes(frame, (hu + 0.06, hv + 0.02 + lift, aside), 0.066, &mut cones);
    if !afloat {
        feet(frame, lift + 0.06, 0.05, p[4], &mut cones);
    }
    let paint =
        Paint::new(p[0]).texture(Texture::Grain(0.7), p[0], 0.035 * frame.size).offset(rng.range(0.0, 60.0));
    finish(cones, 0.035 * frame.size, paint)
}

/// Long S-shaped neck; white, rarely black, or a grey cygnet.
pub fn swan(frame: &Frame, (rng, mood): (&mut Rng, &mut Rng), afloat: bool) -> Model {
    let (body, bill) = match rng.below(10) {
        0..=6 => (rgb(0xf3f1ea) * rng.range(0.9, 1.05), rgb(0xd9772b)),
        7 => (rgb(0x26242a), rgb(0xb8322a)),
        _ => (rgb(0xa99f92) * rng.range(0.9, 1.2), rgb(0x6b6460)),
    };
    let lift = if afloat { -0.05 } else { 0.24 };
    let mut cones = vec![
        cone(frame, (0.2, 0.2 + lift, 0.0), (-0.2, 0.2 + lift, 0.0), 0.2, 0.21, body),
        cone(frame, (-0.2, 0.22 + lift, 0.0), (-0.52, 0.3 + lift, 0.0), 0.17, 0.04, body),
        cone(frame, (0.25, 0.22 + lift, 0.0), (0.32, 0.25 + lift, 0.0), 0.17, 0.14, body),
    ];
    // Wings: folded, or raised like sails.
    let raised = if mood.chance(0.35) { mood.range(0.1, 0.25) } else { 0.0 };
    for side in [-1.0, 1.0] {
        let w = 0.12 * side;
        for i in 0..3 {
            let t = i as f32 / 2.0;
            let tip = (-0.34 - 0.1 * t, 0.27 + 0.5 * raised + 0.05 * t + lift, w * 1.1);
            let wing = cone(
                frame,
                (0.1 - 0.08 * t, 0.25 + raised * t + lift, w),
                tip,
                0.12,
                0.045,
                body * (0.97 - 0.05 * t),
            );
            cones.push(Cone { soft: 0.45, ..wing });
        }
    }
    let tall = mood.range(0.45, 0.75);
    let aside = mood.range(-0.1, 0.1);
    // Upright curve, or reaching down to feed.
    let path: [(f32, f32); 5] = if mood.chance(0.2) {
        [(0.34, 0.3), (0.5, 0.5), (0.66, 0.48), (0.74, 0.3), (0.76, 0.14)]
    } else {
        let s = mood.range(0.7, 1.3);
        [
            (0.33, 0.3),
            (0.33 + 0.13 * s, 0.3 + 0.35 * tall),
            (0.33 + 0.03 * s, 0.3 + 0.7 * tall),
            (0.33 + 0.05 * s, 0.3 + 0.95 * tall),
            (0.33 + 0.17 * s, 0.3 + tall),
        ]
    };
    // A smooth curve through the points of the path, `t` from 0 (breast) to 4 (head).
    let at = |t: f32| {
        let i = (t as usize).min(3);
        let k = t - i as f32;
        let p = |n: usize| path[(i + n).saturating_sub(1).min(4)];
        let through = |a: f32, b: f32, c: f32, d: f32| {
            b + 0.5 * k * (c - a + k * (2.0 * a - 5.0 * b + 4.0 * c - d + k * (3.0 * (b - c) + d - a)))
        };
        let u = through(p(0).0, p(1).0, p(2).0, p(3).0);
        (u, through(p(0).1, p(1).1, p(2).1, p(3).1) + lift, aside * t * 0.25)
    };
    let widths = [0.12, 0.075, 0.058, 0.053, 0.056];
    let width = |t: f32| {
        let i = (t as usize).min(3);
        widths[i] + (widths[i + 1] - widths[i]) * (t - i as f32)
    };
    for step in 0..10 {
        let (a, b) = (0.4 * step as f32, 0.4 * (step + 1) as f32);
        cones.push(cone(frame, at(a), at(b), width(a), width(b), body));
    }
    let head = at(4.0);
    let (du, dv) = (path[4].0 - path[3].0, path[4].1 - path[3].1 - 0.05);
    let long = (du * du + dv * dv).sqrt().max(0.05);
    let (du, dv) = (du / long, dv / long);
    let ahead = |t: f32| (head.0 + du * t, head.1 + dv * t, head.2);
    cones.push(cone(frame, head, ahead(0.07), 0.068, 0.052, body));
    cones.push(cone(frame, ahead(0.06), ahead(0.13), 0.035, 0.03, rgb(0x1b1918)).crisp());
    cones.push(cone(frame, ahead(0.11), ahead(0.22), 0.034, 0.022, bill).crisp());
    eyes(frame, ahead(0.05), 0.05, &mut cones);
    if !afloat {
        feet(frame, lift + 0.08, 0.07, rgb(0x33302e), &mut cones);
    }
    let paint = Paint::new(body).grain(0.06 * frame.size).offset(rng.range(0.0, 60.0));
    finish(cones, 0.05 * frame.size, paint)
}

fn eyes(frame: &Frame, at: (f32, f32, f32), out: f32, cones: &mut Vec<Cone>) {
    for side in [-1.0, 1.0] {
        let eye = (at.0, at.1 + 0.01, at.2 + side * out);
        cones.push(cone(frame, eye, eye, 0.013, 0.013, rgb(0x0c0b0b)).crisp());
    }
}

fn feet(frame: &Frame, hip: f32, out: f32, color: Color, cones: &mut Vec<Cone>) {
    for side in [-1.0, 1.0] {
        let w = side * out;
        cones.push(cone(frame, (0.0, hip, w), (0.0, 0.02, w), 0.02, 0.016, color).crisp());
        cones.push(cone(frame, (0.0, 0.015, w), (0.09, 0.012, w), 0.016, 0.022, color).crisp());
    }
}

fn finish(cones: Vec<Cone>, blend: f32, paint: Paint) -> Model {
    let mut model = Model::default();
    model.blob(cones, blend, 0.0, paint);
    model
}
