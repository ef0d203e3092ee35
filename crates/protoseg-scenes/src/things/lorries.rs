//! Buses and trucks: long boxes on big wheels.

use super::car::{glass, wheel};
use crate::math::{Color, Vec3, rgb};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

/// A quad on the side `w` of a body.
fn flank(frame: &Frame, (u0, u1): (f32, f32), (v0, v1): (f32, f32), w: f32) -> [Vec3; 4] {
    [frame.at(u0, v0, w), frame.at(u1, v0, w), frame.at(u1, v1, w), frame.at(u0, v1, w)]
}

/// A quad on the front or rear `u` of a body.
fn end(frame: &Frame, u: f32, (v0, v1): (f32, f32), (w0, w1): (f32, f32)) -> [Vec3; 4] {
    [frame.at(u, v0, w0), frame.at(u, v0, w1), frame.at(u, v1, w1), frame.at(u, v1, w0)]
}

/// City bus, coach, double-decker or minibus.
pub fn bus(frame: &Frame, rng: &mut Rng) -> Model {
    let decks = if rng.chance(0.2) { 2 } else { 1 };
    let small = decks == 1 && rng.chance(0.25);
    let half = if small { 2.9 } else { rng.range(3.7, 4.5) };
    let (wide, low) = (if small { 1.0 } else { 1.2 }, 0.32);
    let high =
        if decks == 2 { rng.range(3.9, 4.2) } else { rng.range(2.6, 3.1) } * if small { 0.9 } else { 1.0 };
    let colors = [0xb82a22, 0xe8b521, 0x2c5fa5, 0xe9e6de, 0x3c8a58, 0xd96a2c, 0x7fa6bd, 0x5d3b78];
    let base = Paint::new(rgb(rng.pick(&colors)) * rng.range(0.85, 1.1)).gloss(0.35);
    let band = Paint::new(rgb(rng.pick(&colors))).gloss(0.35);
    let glass = glass(rng);
    let mut model = Model::default();
    let inside = frame.at(0.0, 0.5 * high, 0.0);
    axles(&mut model, frame, &[0.62 * half, -0.55 * half], wide, 0.46);
    let (bottom, top) = ([-half, half, -wide, wide], [-half, half * 0.985, -0.96 * wide, 0.96 * wide]);
    model.layer(0).prism(frame, [bottom, top], (low, high), base);
    model.layer(1);
    let striped = rng.chance(0.6);
    let rows: &[(f32, f32)] = if decks == 2 { &[(0.28, 0.47), (0.68, 0.88)] } else { &[(0.42, 0.8)] };
    let panes = if small { 4 } else { rng.between(5, 8) };
    for side in [-1.0, 1.0] {
        let w = side * wide * 1.002;
        if striped {
            model.side(&flank(frame, (-half, half), (low, low + 0.2 * high), w), inside, band);
        }
        for &(a, b) in rows {
            let (v0, v1) = (a * high, b * high);
            if rng.chance(0.5) {
                let dark = Paint::new(rgb(0x17191c)).gloss(0.2);
                model.side(
                    &flank(frame, (-half * 0.97, half * 0.97), (v0 - 0.06, v1 + 0.06), w),
                    inside,
                    dark,
                );
            }
            for i in 0..panes {
                let step = 2.0 * 0.95 * half / panes as f32;
                let u0 = -0.95 * half + i as f32 * step;
                model.side(&flank(frame, (u0 + 0.06, u0 + step - 0.06), (v0, v1), w * 1.002), inside, glass);
            }
        }
        if side < 0.0 {
            for u in [0.82, 0.05] {
                let door = flank(
                    frame,
                    (u * half - 0.5, u * half + 0.5),
                    (low + 0.1, 0.78 * high / decks as f32),
                    w * 1.004,
                );
                model.side(&door, inside, Paint::new(rgb(0x2a2e33)));
                for k in [-0.24, 0.24] {
                    let u = u * half + k;
                    let leaf =
                        flank(frame, (u - 0.2, u + 0.2), (low + 0.2, 0.74 * high / decks as f32), w * 1.006);
                    model.side(&leaf, inside, glass);
                }
            }
        }
    }
    bus_ends(&mut model, frame, (half, wide, high, low), decks, glass, rng);
    for u in [0.62, -0.55] {
        for side in [-1.0, 1.0] {
            wheel(&mut model, frame, (u * half, 0.46, side * wide), 0.46, rgb(0x9a9da0));
        }
    }
    model
}

fn bus_ends(
    model: &mut Model,
    frame: &Frame,
    (half, wide, high, low): (f32, f32, f32, f32),
    decks: usize,
    glass: Paint,
    rng: &mut Rng,
) {
    let inside = frame.at(0.0, 0.5 * high, 0.0);
    let front = half * 1.002;
    model.layer(1);
    let panes: &[(f32, f32)] = if decks == 2 { &[(0.26, 0.5), (0.66, 0.9)] } else { &[(0.38, 0.8)] };
    for &(a, b) in panes {
        model.side(&end(frame, front, (a * high, b * high), (-0.9 * wide, 0.9 * wide)), inside, glass);
    }
    let sign = Paint::new(rgb(0x101214));
    let at = if decks == 2 { 0.56 } else { 0.86 };
    model.side(
        &end(frame, front, ((at - 0.04) * high, (at + 0.05) * high), (-0.7 * wide, 0.7 * wide)),
        inside,
        sign,
    );
    let letters = Paint::new(rgb(0xf2a52b)).glow(0.7);
    model.side(
        &end(frame, front * 1.002, ((at - 0.015) * high, (at + 0.025) * high), (-0.5 * wide, 0.4 * wide)),
        inside,
        letters,
    );
    let rear = -half * 1.002;
    model.side(&end(frame, rear, (0.5 * high, 0.8 * high), (-0.8 * wide, 0.8 * wide)), inside, glass);
    lights(model, frame, (half, wide, low), rng);
}

/// Head and tail lights, bumpers.
fn lights(model: &mut Model, frame: &Frame, (half, wide, low): (f32, f32, f32), rng: &mut Rng) {
    let inside = frame.at(0.0, 1.0, 0.0);
    let white = Paint::new(rgb(0xf6f2e0)).glow(if rng.chance(0.4) { 0.8 } else { 0.2 });
    let red = Paint::new(rgb(0xb5170f)).glow(0.2);
    let bumper = Paint::new(rgb(0x1b1c1f));
    model.layer(1);
    for (u, color) in [(half * 1.003, white), (-half * 1.003, red)] {
        model.side(&end(frame, u, (low, low + 0.18), (-wide, wide)), inside, bumper);
        for side in [-1.0f32, 1.0] {
            let (a, b) = (side * 0.6 * wide, side * 0.92 * wide);
            model.side(&end(frame, u * 1.001, (low + 0.22, low + 0.42), (a.min(b), a.max(b))), inside, color);
        }
    }
}

fn axles(model: &mut Model, frame: &Frame, at: &[f32], wide: f32, r: f32) {
    let dark = Paint::new(rgb(0x131315));
    model.layer(-1);
    for &u in at {
        for side in [-1.0f32, 1.0] {
            let (a, b) = (side * wide, side * (wide - 0.35));
            model.block(frame, [u - 0.8 * r, u + 0.8 * r, 0.0, r, a.min(b), a.max(b)], dark);
        }
    }
}

/// Box vans, flatbeds with a load, tankers and tippers behind a cab.
pub fn truck(frame: &Frame, rng: &mut Rng) -> Model {
    let half = rng.range(2.7, 3.9);
    let wide = 1.15;
    let colors = [0xc23327, 0x2d5d9f, 0xece9e0, 0x3f7d4f, 0xd9a128, 0x3a3d42, 0x8aa6b8, 0xb9632c];
    let cab_paint = Paint::new(rgb(rng.pick(&colors)) * rng.range(0.85, 1.15)).gloss(0.4);
    let mut model = Model::default();
    let cab = rng.range(1.5, 1.9);
    let cab_high = rng.range(2.2, 2.7);
    let (u0, u1) = (half - cab, half);
    let axle_at: Vec<f32> = if half > 3.3 {
        vec![half - 0.75, -half + 0.75, -half + 1.75]
    } else {
        vec![half - 0.75, -half + 0.9]
    };
    axles(&mut model, frame, &axle_at, wide, 0.48);
    let chassis = Paint::new(rgb(0x26272a));
    model.layer(0).block(frame, [-half, u1 - 0.1, 0.5, 0.78, -0.8 * wide, 0.8 * wide], chassis);
    cargo(&mut model, frame, (-half, u0 - 0.18), wide, rng);
    // The cab leans back above the bonnet line.
    let slope = rng.range(0.05, 0.3);
    model.layer(cab_layer(frame));
    let mid = 0.55 * cab_high;
    model.prism(frame, [[u0, u1, -wide, wide], [u0, u1, -wide, wide]], (0.45, mid), cab_paint);
    let upper = [[u0, u1, -wide, wide], [u0, u1 - slope, -0.93 * wide, 0.93 * wide]];
    model.prism(frame, upper, (mid, cab_high), cab_paint);
    let glass = glass(rng);
    let inside = frame.at(u0 + 0.5 * cab, 0.5 * cab_high, 0.0);
    model.layer(cab_layer(frame) + 1);
    let lean = |t: f32| u1 - slope * t + 0.01;
    let screen = |t0: f32, t1: f32, w: f32| {
        let v = |t: f32| mid + (cab_high - mid) * t;
        [
            frame.at(lean(t0), v(t0), -w),
            frame.at(lean(t0), v(t0), w),
            frame.at(lean(t1), v(t1), w * 0.95),
            frame.at(lean(t1), v(t1), -w * 0.95),
        ]
    };
    model.side(&screen(0.04, 0.82, 0.9 * wide), inside, glass);
    for side in [-1.0, 1.0] {
        let w = |v: f32| side * wide * (1.003 - 0.07 * ((v - mid) / (cab_high - mid)).max(0.0));
        let (a, b) = (u0 + 0.3 * cab, u1 - 0.12);
        let (low, high) = (mid, cab_high - 0.3);
        let pane = [
            frame.at(a, low, w(low)),
            frame.at(b, low, w(low)),
            frame.at(b - slope * 0.8, high, w(high)),
            frame.at(a, high, w(high)),
        ];
        model.side(&pane, inside, glass);
        let door = flank(frame, (a - 0.03, a), (0.6, mid), side * wide * 1.003);
        model.side(&door, inside, Paint::new(Color::splat(0.01)).alpha(0.5));
    }
    let grille = Paint::new(rgb(0x1c1d20)).gloss(0.3);
    model.side(&end(frame, u1 * 1.002, (0.75, mid - 0.12), (-0.6 * wide, 0.6 * wide)), inside, grille);
    lights(&mut model, frame, (half, wide, 0.42), rng);
    for &u in &axle_at {
        for side in [-1.0, 1.0] {
            wheel(&mut model, frame, (u, 0.48, side * wide), 0.48, rgb(0x8f9296));
        }
    }
    model
}

/// The cab is drawn after the load if it is nearer to the viewer.
fn cab_layer(frame: &Frame) -> i8 {
    if frame.forward.z > 0.15 { -1 } else { 1 }
}

fn cargo(model: &mut Model, frame: &Frame, u: (f32, f32), wide: f32, rng: &mut Rng) {
    let colors = [0xe8e5dc, 0xd8dadc, 0x3a6ea8, 0xb8392d, 0x4d8a5c, 0xe0b84a, 0x8c8f93];
    let paint = Paint::new(rgb(rng.pick(&colors)) * rng.range(0.85, 1.1));
    let (u0, u1) = u;
    model.layer(0);
    match rng.below(5) {
        0 | 1 => {
            let high = rng.range(2.6, 3.4);
            model.block(
                frame,
                [u0, u1, 0.78, high, -wide, wide],
                paint.texture(Texture::Stripes, paint.color * 0.93, 0.5),
            );
            let inside = frame.at(0.5 * (u0 + u1), 1.6, 0.0);
            let mark = Paint::new(rgb(rng.pick(&colors)) * 0.8);
            model.layer(1);
            let (m, low, tall) = (0.5 * (u0 + u1), rng.range(1.2, 1.6), rng.range(0.3, 0.9));
            for side in [-1.0, 1.0] {
                let logo = flank(
                    frame,
                    (m - 0.32 * (u1 - u0), m + 0.32 * (u1 - u0)),
                    (low, low + tall),
                    side * wide * 1.003,
                );
                model.side(&logo, inside, mark);
            }
        }
        2 => {
            let steel = Paint::new(rgb(0xb9bec2)).gloss(0.7);
            let r = rng.range(0.85, 1.0);
            let tank =
                cone(frame, (u0 + r * 0.8, 0.75 + r, 0.0), (u1 - r * 0.8, 0.75 + r, 0.0), r, r, steel.color);
            model.blob(vec![tank], 0.0, 0.0, steel);
        }
        3 => {
            // A tipper heaped with earth or sand.
            let load = Paint::new(rgb(rng.pick(&[0x6d5a44, 0xb79a6a, 0x77736c]))).grain(0.15 * frame.size);
            let heap = [(0.25, 0.5), (0.5, 0.75), (0.75, 0.5)].map(|(t, r)| {
                let u = u0 + (u1 - u0) * t;
                cone(frame, (u, 1.45, 0.0), (u, 1.5, 0.0), 1.0, r, load.color)
            });
            model.blob(heap.to_vec(), 0.3 * frame.size, 0.06 * frame.size, load);
            let bottom = [u0 + 0.15, u1 - 0.1, -0.9 * wide, 0.9 * wide];
            model.layer(1).prism(frame, [bottom, [u0, u1, -wide, wide]], (0.78, 1.7), paint);
        }
        _ => {
            let bed = Paint::new(rgb(0x6b4c33)).texture(Texture::Boards, rgb(0x54402c), 0.2 * frame.size);
            model.block(frame, [u0, u1, 0.78, 0.98, -wide, wide], bed);
            model.layer(1);
            logs(model, frame, (u0 + 0.2, u1 - 0.2), rng);
        }
    }
}

fn logs(model: &mut Model, frame: &Frame, (u0, u1): (f32, f32), rng: &mut Rng) {
    let mut cones: Vec<Cone> = Vec::new();
    for (v, many) in [(1.22, 4), (1.62, 3), (2.0, 2)] {
        for i in 0..many {
            let w = (i as f32 - 0.5 * (many - 1) as f32) * 0.52;
            let color = rgb(0x7a5a3a) * rng.range(0.7, 1.3);
            cones.push(cone(frame, (u0, v, w), (u1, v, w), 0.24, 0.24, color).crisp());
        }
    }
    model.blob(cones, 0.0, 0.0, Paint::new(rgb(0x7a5a3a)));
}
