//! Cows, horses, sheep and dogs.

use super::beast::{Beast, Pose};
use crate::math::{Color, rgb};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

/// Heavy and square, blotched or plain, with a thin tail and often horns.
pub fn cow(frame: &Frame, rng: &mut Rng, mood: &mut Rng) -> Model {
    let coats = [
        (0xe9e4da, Some(0x1d1a18)),
        (0x221e1c, Some(0xe6e1d8)),
        (0xe8dfcf, Some(0x8a4a26)),
        (0x8e5230, None),
        (0xb98455, None),
        (0x2a2420, None),
        (0xd9cdb8, None),
        (0x6d4630, Some(0xe4d9c8)),
    ];
    let (coat, blotch) = rng.pick(&coats);
    let coat = shade(rng, coat);
    let pale = coat.luma() > 0.3;
    let face = if blotch.is_some() && rng.chance(0.5) { rgb(blotch.unwrap_or(0)) } else { coat };
    let beast = Beast {
        pose: pose(mood, &[(Pose::Stand, 5.0), (Pose::Graze, 4.0), (Pose::Lie, 2.0)]),
        length: rng.vary(1.3, 0.1),
        leg: rng.vary(0.62, 0.1),
        chest: rng.vary(0.38, 0.07),
        belly: rng.vary(0.42, 0.08),
        rump: rng.vary(0.37, 0.06),
        thigh: 0.19,
        shank: 0.07,
        neck: rng.vary(0.42, 0.15),
        neck_width: (0.29, 0.19),
        neck_rise: rng.range(0.02, 0.1),
        head: rng.vary(0.4, 0.1),
        skull: 0.16,
        muzzle: 0.115,
        coat,
        legs: coat * 0.92,
        feet: rgb(0x2b2521),
        face,
        nose: if pale { rgb(0xd9a79a) } else { rgb(0x574844) },
    };
    let mut body = beast.build(frame, mood);
    body.pair(frame, 0.16, (0.03, -0.03, 0.17), (0.05, 0.035), face * 0.85, 0.3);
    if rng.chance(0.6) {
        let lift = rng.range(0.08, 0.2);
        body.pair(frame, 0.1, (0.0, lift, 0.13), (0.035, 0.015), rgb(0xd8cdb4), 0.0);
    }
    if beast.pose != Pose::Lie && rng.chance(0.6) {
        let v = beast.leg * 0.92;
        body.cones.push(cone(frame, (-0.36, v, 0.0), (-0.28, v - 0.06, 0.0), 0.15, 0.12, rgb(0xe0b0a0)));
    }
    let (tu, tv) = body.tail;
    let end = (tv - 0.75).max(0.15);
    body.cones.push(cone(frame, (tu, tv, 0.0), (tu - 0.07, end, 0.03), 0.035, 0.025, coat));
    body.cones.push(cone(
        frame,
        (tu - 0.07, end, 0.03),
        (tu - 0.07, end - 0.13, 0.03),
        0.045,
        0.04,
        coat * 0.5,
    ));
    let paint = match blotch {
        Some(hex) => {
            let share = rng.range(0.4, 0.6);
            Paint::new(coat).texture(Texture::Patches(share), rgb(hex), rng.range(0.3, 0.5) * frame.size)
        }
        None => Paint::new(coat).texture(Texture::Grain(0.6), coat, 0.12 * frame.size),
    };
    finish(body.cones, 0.1 * frame.size, 0.0, paint.offset(rng.range(0.0, 60.0)))
}

/// Long legs, arched neck, mane and a full tail.
pub fn horse(frame: &Frame, rng: &mut Rng, mood: &mut Rng) -> Model {
    let coats = [
        (0x6e3f22, 0x1c1512),
        (0x8a4b25, 0x8a4b25),
        (0x2a2220, 0x14100e),
        (0xb9b3aa, 0x8a847c),
        (0xc79a5e, 0xe8dcc2),
        (0xded8cd, 0xd0c8ba),
        (0x4a2c1c, 0x120e0c),
    ];
    let (coat, mane) = rng.pick(&coats);
    let (coat, mane) = (shade(rng, coat), rgb(mane));
    let socks = rng.chance(0.35);
    let beast = Beast {
        pose: pose(mood, &[(Pose::Stand, 6.0), (Pose::Graze, 3.0), (Pose::Lie, 0.6)]),
        length: rng.vary(1.12, 0.08),
        leg: rng.vary(0.88, 0.08),
        chest: rng.vary(0.33, 0.07),
        belly: rng.vary(0.31, 0.08),
        rump: rng.vary(0.34, 0.06),
        thigh: 0.17,
        shank: 0.058,
        neck: rng.vary(0.72, 0.1),
        neck_width: (0.25, 0.145),
        neck_rise: rng.range(0.1, 0.16),
        head: rng.vary(0.5, 0.08),
        skull: 0.13,
        muzzle: 0.085,
        coat,
        legs: if socks { rgb(0xd9d2c6) } else { coat * 0.85 },
        feet: rgb(0x231d1a),
        face: coat,
        nose: coat * 0.55,
    };
    let mut body = beast.build(frame, mood);
    body.pair(frame, 0.09, (0.0, 0.14, 0.02), (0.04, 0.015), coat * 0.85, 0.3);
    // A crest along the neck, and locks that hang to both sides of it.
    let (wu, wv) = body.withers;
    let poll = body.poll;
    body.cones.push(cone(
        frame,
        (wu, wv - 0.02, 0.0),
        (poll.0 - 0.05, poll.1 + 0.1, poll.2),
        0.05,
        0.06,
        mane,
    ));
    for i in 0..6 {
        let t = i as f32 / 5.0;
        let (u, v, w) = (wu + (poll.0 - wu) * t, wv + (poll.1 + 0.06 - wv) * t, poll.2 * t);
        for side in [-1.0, 1.0] {
            let tip = (u - 0.05, v - 0.17, w + side * 0.15);
            body.cones
                .push(Cone { soft: 0.6, ..cone(frame, (u, v, w + side * 0.06), tip, 0.07, 0.045, mane) });
        }
    }
    body.cones.push(cone(
        frame,
        (poll.0, poll.1 + 0.12, poll.2),
        (poll.0 + 0.12, poll.1 + 0.06, poll.2),
        0.04,
        0.03,
        mane,
    ));
    let (tu, tv) = body.tail;
    let low = (tv - rng.range(0.6, 0.85)).max(0.1);
    let flow = mood.range(0.1, 0.3);
    body.cones.push(cone(frame, (tu, tv, 0.0), (tu - flow, tv - 0.2, 0.0), 0.06, 0.1, mane));
    body.cones.push(cone(frame, (tu - flow, tv - 0.2, 0.0), (tu - flow, low, 0.02), 0.1, 0.04, mane));
    if rng.chance(0.4) {
        let (p, g) = (body.poll, body.gaze);
        let at = |t: f32, up: f32| (p.0 + g.0 * t, p.1 + g.1 * t + up, p.2 + g.2 * t);
        body.cones.push(cone(frame, at(0.12, 0.1), at(0.45, 0.06), 0.035, 0.03, rgb(0xe6e0d6)).crisp());
    }
    let paint = if rng.chance(0.2) {
        Paint::new(coat).texture(Texture::Patches(0.5), rgb(0xe6dfd2), 0.5 * frame.size)
    } else {
        Paint::new(coat).texture(Texture::Grain(0.5), coat, 0.15 * frame.size).gloss(0.12)
    };
    finish(body.cones, 0.09 * frame.size, 0.0, paint.offset(rng.range(0.0, 60.0)))
}

/// A woolly ball on thin legs with a small bare face.
pub fn sheep(frame: &Frame, rng: &mut Rng, mood: &mut Rng) -> Model {
    let wools = [0xe8e2d3, 0xdad1bf, 0xf1ede4, 0xc9bca4, 0x8c7a66, 0x3c332d];
    let wool = shade(rng, rng.clone().pick(&wools));
    let face = rng.pick(&[rgb(0x1e1a18), rgb(0xd8cbb8), rgb(0xe9e0d2), rgb(0x5b4636)]);
    let shorn = rng.chance(0.2);
    let fat = if shorn { 0.8 } else { rng.range(0.95, 1.15) };
    let beast = Beast {
        pose: pose(mood, &[(Pose::Stand, 4.0), (Pose::Graze, 4.0), (Pose::Lie, 2.5)]),
        length: rng.vary(0.62, 0.1),
        leg: rng.vary(0.33, 0.15),
        chest: 0.27 * fat,
        belly: 0.32 * fat,
        rump: 0.29 * fat,
        thigh: 0.11,
        shank: 0.036,
        neck: rng.vary(0.24, 0.15),
        neck_width: (0.19 * fat, 0.13 * fat),
        neck_rise: rng.range(0.06, 0.13),
        head: rng.vary(0.23, 0.1),
        skull: 0.1,
        muzzle: 0.06,
        coat: wool,
        legs: face,
        feet: rgb(0x1f1a17),
        face,
        nose: face * 0.6,
    };
    let mut body = beast.build(frame, mood);
    body.pair(frame, 0.09, (0.0, -0.02, 0.13), (0.035, 0.025), face, 0.1);
    if rng.chance(0.25) {
        body.pair(frame, 0.09, (0.12, 0.02, 0.1), (0.045, 0.03), rgb(0xb9a582), 0.0);
    }
    let (p, g) = (body.poll, body.gaze);
    if !shorn {
        let crown = (p.0 - 0.03 * g.0, p.1 + 0.08, p.2);
        body.cones.push(cone(frame, crown, crown, 0.08, 0.08, wool));
    }
    let (tu, tv) = body.tail;
    body.cones.push(cone(frame, (tu, tv, 0.0), (tu - 0.05, tv - 0.16, 0.0), 0.07, 0.05, wool));
    // The bare face and legs take part in neither bumps nor curls.
    for c in &mut body.cones {
        if c.color != wool {
            c.soft = c.soft.min(0.25);
        }
    }
    let curl = if shorn { 0.02 } else { 0.055 };
    let paint = Paint::new(wool).texture(Texture::Grain(0.7), wool, rng.range(0.06, 0.1) * frame.size);
    finish(body.cones, 0.07 * frame.size, curl * frame.size, paint.offset(rng.range(0.0, 60.0)))
}

/// From dachshund to wolfhound, standing, sitting or lying.
pub fn dog(frame: &Frame, rng: &mut Rng, mood: &mut Rng) -> Model {
    let coats = [0xc69a5c, 0x8a5a33, 0x2b2522, 0xe6ddcd, 0x6b6560, 0xa8703c, 0xd7c19a];
    let coat = shade(rng, rng.clone().pick(&coats));
    let snout = if rng.chance(0.3) { coat * 0.35 } else { coat };
    let stout = rng.range(0.85, 1.3);
    let shaggy = rng.chance(0.3);
    let short = rng.chance(0.2);
    let beast = Beast {
        pose: pose(mood, &[(Pose::Stand, 5.0), (Pose::Sit, 3.5), (Pose::Lie, 2.0)]),
        length: rng.vary(if short { 0.6 } else { 0.5 }, 0.15),
        leg: rng.vary(if short { 0.2 } else { 0.4 }, 0.12),
        chest: 0.155 * stout,
        belly: 0.115 * stout,
        rump: 0.13 * stout,
        thigh: 0.095 * stout,
        shank: 0.036 * stout,
        neck: rng.vary(0.2, 0.2),
        neck_width: (0.11 * stout, 0.085 * stout),
        neck_rise: rng.range(0.09, 0.17),
        head: rng.vary(0.2, 0.2),
        skull: 0.1,
        muzzle: rng.range(0.045, 0.06),
        coat,
        legs: if rng.chance(0.25) { rgb(0xe2d8c8) } else { coat * 0.9 },
        feet: coat * 0.75,
        face: if rng.chance(0.25) { coat * 0.5 } else { coat },
        nose: rgb(0x15110f),
    };
    let mut body = beast.build(frame, mood);
    if rng.chance(0.6) {
        body.pair(frame, 0.09, (0.03, -0.14, 0.05), (0.05, 0.04), coat * 0.6, 0.3);
    } else {
        body.pair(frame, 0.08, (0.0, 0.13, 0.015), (0.045, 0.012), snout * 0.85, 0.3);
    }
    let (tu, tv) = body.tail;
    let (back, up) = (mood.range(0.12, 0.25), mood.range(-0.15, 0.25));
    let hang = (tv + up).max(0.06);
    body.cones.push(cone(frame, (tu, tv, 0.0), (tu - back * 0.6, 0.5 * (tv + hang), 0.0), 0.04, 0.035, coat));
    let tip = if shaggy { 0.05 } else { 0.02 };
    body.cones.push(cone(
        frame,
        (tu - back * 0.6, 0.5 * (tv + hang), 0.0),
        (tu - back, hang, 0.02),
        0.035,
        tip,
        coat,
    ));
    let paint = match rng.below(4) {
        0 => Paint::new(coat).texture(Texture::Patches(0.5), rgb(0xe8e0d2), 0.2 * frame.size),
        1 => Paint::new(coat).texture(Texture::Patches(0.35), coat * 0.3, 0.14 * frame.size),
        _ => Paint::new(coat).texture(Texture::Grain(0.6), coat, 0.05 * frame.size),
    };
    let bump = if shaggy { 0.03 } else { 0.0 };
    let paint = Paint { size: if shaggy { 0.05 * frame.size } else { paint.size }, ..paint };
    finish(body.cones, 0.04 * frame.size, bump * frame.size, paint.offset(rng.range(0.0, 60.0)))
}

fn finish(cones: Vec<Cone>, blend: f32, bump: f32, paint: Paint) -> Model {
    let mut model = Model::default();
    model.blob(cones, blend, bump, paint);
    model
}

fn pose(rng: &mut Rng, choices: &[(Pose, f32)]) -> Pose {
    choices[rng.weighted(choices.iter().map(|c| c.1))].0
}

/// A coat colour, a little different on every animal.
fn shade(rng: &mut Rng, hex: u32) -> Color {
    rgb(hex) * rng.range(0.8, 1.2)
}
