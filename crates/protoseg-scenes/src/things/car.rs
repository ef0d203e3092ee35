//! Cars: one lofted body, many silhouettes.

use crate::math::{Color, Vec3, rgb};
use crate::model::{Frame, Model};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

/// Shares of the half length (positive = front) and heights in metres of the lines of a car body.
struct Lines {
    half: f32,
    width: f32,
    belt: f32,
    roof: f32,
    nose: f32,
    cowl: f32,
    roof_front: f32,
    roof_rear: f32,
    rear_glass: f32,
    tail: f32,
    wheel: f32,
}

pub fn car(frame: &Frame, rng: &mut Rng) -> Model {
    let mut lines = lines(rng);
    lines.half *= rng.range(0.94, 1.06);
    lines.roof *= rng.range(0.96, 1.06);
    let paint = coachwork(rng);
    let mut model = Model::default();
    underside(&mut model, frame, &lines);
    shell(&mut model, frame, &lines, paint);
    let glass = glass(rng);
    windows(&mut model, frame, &lines, glass, rng.chance(0.7));
    lamps(&mut model, frame, &lines, paint, rng);
    for u in [0.62, -0.6] {
        for side in [-1.0, 1.0] {
            let center = (u * lines.half, lines.wheel * 0.98, side * lines.width * 1.01);
            wheel(&mut model, frame, center, lines.wheel, rgb(0xb9bcc0));
        }
    }
    model
}

fn lines(rng: &mut Rng) -> Lines {
    let saloon = Lines {
        half: 2.1,
        width: 0.86,
        belt: 0.9,
        roof: 1.4,
        nose: 0.68,
        cowl: 0.34,
        roof_front: 0.08,
        roof_rear: -0.42,
        rear_glass: -0.7,
        tail: 0.92,
        wheel: 0.32,
    };
    match rng.below(7) {
        0 | 1 => saloon,
        // Hatchback.
        2 => Lines {
            half: 1.85,
            roof: 1.46,
            roof_rear: -0.62,
            rear_glass: -0.93,
            tail: 0.95,
            cowl: 0.4,
            ..saloon
        },
        // Estate and off-roader.
        3 => Lines { roof_rear: -0.8, rear_glass: -0.95, tail: 0.93, ..saloon },
        4 => Lines {
            half: 2.05,
            belt: 1.08,
            roof: 1.72,
            nose: 0.95,
            roof_rear: -0.82,
            rear_glass: -0.95,
            tail: 1.08,
            wheel: 0.38,
            ..saloon
        },
        // Van.
        5 => Lines {
            half: 2.2,
            width: 0.92,
            belt: 1.08,
            roof: 1.95,
            nose: 0.92,
            cowl: 0.62,
            roof_front: 0.42,
            roof_rear: -0.94,
            rear_glass: -0.97,
            tail: 1.1,
            wheel: 0.35,
        },
        // Sports car.
        _ => Lines { belt: 0.78, roof: 1.18, nose: 0.56, cowl: 0.2, roof_front: -0.1, tail: 0.84, ..saloon },
    }
}

fn coachwork(rng: &mut Rng) -> Paint {
    let colors = [
        0xb3261e, 0x1f4e8c, 0xe4e4e2, 0x8f9499, 0x1c1d20, 0x2f6b46, 0xd9a520, 0x6f8fae, 0x7b2d3b, 0xd8cdb8,
        0x44474c, 0xe06a2b,
    ];
    Paint::new(rgb(rng.pick(&colors)) * rng.range(0.8, 1.15)).gloss(rng.range(0.35, 0.8))
}

pub fn glass(rng: &mut Rng) -> Paint {
    let tone = rng.range(0.6, 1.2);
    Paint::new(rgb(0x14181c) * tone).texture(Texture::Glass, rgb(0x54656f) * tone, 0.8).gloss(0.6)
}

fn underside(model: &mut Model, frame: &Frame, l: &Lines) {
    let dark = Paint::new(rgb(0x141416));
    model.layer(-1);
    for u in [0.62, -0.6] {
        for w in [-1.0, 1.0] {
            let (u, inner) = (u * l.half, w * (l.width - 0.2));
            let (w0, w1) = (inner.min(w * l.width), inner.max(w * l.width));
            model.block(frame, [u - 0.75 * l.wheel, u + 0.75 * l.wheel, 0.0, l.wheel, w0, w1], dark);
        }
    }
    model.block(frame, [-0.9 * l.half, 0.9 * l.half, 0.2, 0.35, -0.8 * l.width, 0.8 * l.width], dark);
}

/// The outline from the front bumper over the roof to the rear, as `(u, v, half width)`.
fn outline(l: &Lines) -> [(f32, f32, f32); 11] {
    let (h, w) = (l.half, l.width);
    [
        (h * 0.99, 0.24, w * 0.93),
        (h, 0.24 + 0.5 * (l.nose - 0.24), w * 0.95),
        (h * 0.95, l.nose, w * 0.95),
        (h * l.cowl, l.belt, w * 0.97),
        (h * l.roof_front, l.roof, w * 0.76),
        (h * 0.5 * (l.roof_front + l.roof_rear), l.roof * 1.012, w * 0.77),
        (h * l.roof_rear, l.roof * 0.99, w * 0.75),
        (h * l.rear_glass, l.tail, w * 0.94),
        (-h * 0.985, l.tail * 0.97, w * 0.94),
        (-h, 0.6 * l.tail, w * 0.94),
        (-h * 0.98, 0.27, w * 0.92),
    ]
}

fn shell(model: &mut Model, frame: &Frame, l: &Lines, paint: Paint) {
    let line = outline(l);
    let inside = frame.at(0.0, 0.6 * l.belt, 0.0);
    model.layer(0);
    for pair in line.windows(2) {
        let ((u0, v0, w0), (u1, v1, w1)) = (pair[0], pair[1]);
        let strip =
            [frame.at(u0, v0, -w0), frame.at(u0, v0, w0), frame.at(u1, v1, w1), frame.at(u1, v1, -w1)];
        model.side(&strip, inside, paint);
    }
    for side in [-1.0, 1.0] {
        let at = |i: usize| frame.at(line[i].0, line[i].1, side * line[i].2);
        let waist = |i: usize| frame.at(line[i].0, line[i].1, side * l.width);
        let mut flank: Vec<Vec3> = [0, 1, 2, 3, 7, 8, 9, 10].map(waist).to_vec();
        flank.push(frame.at(-0.8 * l.half, 0.22, side * l.width));
        flank.push(frame.at(0.8 * l.half, 0.2, side * l.width));
        model.side(&flank, inside, paint);
        model.side(&[at(3), at(4), at(5), at(6), at(7)], inside, paint.dim(0.9));
    }
}

fn windows(model: &mut Model, frame: &Frame, l: &Lines, glass: Paint, pillar: bool) {
    let line = outline(l);
    let inside = frame.at(0.0, 0.6 * l.belt, 0.0);
    model.layer(1);
    // Windscreen and rear window, a little smaller than their strips.
    for (low, high) in [(3, 4), (7, 6)] {
        let (a, b) = (line[low], line[high]);
        let lerp = |t: f32, side: f32| {
            let w = a.2 + (b.2 - a.2) * t;
            frame.at(a.0 + (b.0 - a.0) * t, a.1 + (b.1 - a.1) * t, side * w * 0.9)
        };
        model.side(&[lerp(0.08, -1.0), lerp(0.08, 1.0), lerp(0.92, 1.0), lerp(0.92, -1.0)], inside, glass);
    }
    for side in [-1.0, 1.0] {
        let (front, rear) = (line[3].0 - 0.1, line[7].0 + 0.12);
        let (top_front, top_rear) = (line[4].0 - 0.04, line[6].0 + 0.05);
        let (low, high) = (l.belt + 0.03, l.roof - 0.07);
        let at = |t: f32, up: f32| {
            let u = (front + (rear - front) * t) * (1.0 - up) + (top_front + (top_rear - top_front) * t) * up;
            let w = l.width * (0.97 + (0.775 - 0.97) * up) * 1.005;
            frame.at(u, low + (high - low) * up, side * w)
        };
        let panes: &[(f32, f32)] = if pillar { &[(0.0, 0.47), (0.52, 1.0)] } else { &[(0.0, 1.0)] };
        for &(a, b) in panes {
            model.side(&[at(a, 0.0), at(a, 1.0), at(b, 1.0), at(b, 0.0)], inside, glass);
        }
        // Door seams and handles.
        let seam = Paint::new(Color::splat(0.01)).alpha(0.5);
        for u in [0.36, -0.08, -0.5] {
            let u = u * l.half;
            let (a, b) = (frame.at(u, 0.3, side * l.width), frame.at(u - 0.02, l.belt, side * l.width));
            let (c, d) =
                (frame.at(u - 0.04, l.belt, side * l.width), frame.at(u - 0.02, 0.3, side * l.width));
            model.side(&[a, b, c, d], inside, seam);
        }
        let sill = [(0.44, 0.2), (0.44, 0.3), (-0.42, 0.3), (-0.42, 0.2)];
        let sill = sill.map(|(u, v)| frame.at(u * l.half, v, side * l.width));
        model.side(&sill, inside, Paint::new(rgb(0x1a1a1c)));
    }
}

fn lamps(model: &mut Model, frame: &Frame, l: &Lines, body: Paint, rng: &mut Rng) {
    let inside = frame.at(0.0, 0.6 * l.belt, 0.0);
    let (h, w) = (l.half, l.width);
    let quad = |u: f32, v: (f32, f32), w: (f32, f32)| {
        [frame.at(u, v.0, w.0), frame.at(u, v.0, w.1), frame.at(u, v.1, w.1), frame.at(u, v.1, w.0)]
    };
    let lit = rng.chance(0.3);
    let front = Paint::new(rgb(0xf4f1e2)).gloss(0.6).glow(if lit { 0.8 } else { 0.1 });
    let rear = Paint::new(rgb(0xb5170f)).glow(if lit { 0.6 } else { 0.15 });
    let (low, high) = (0.24 + 0.45 * (l.nose - 0.24), l.nose - 0.03);
    for side in [-1.0, 1.0] {
        let span = |a: f32, b: f32| if side > 0.0 { (a * w, b * w) } else { (-b * w, -a * w) };
        model.side(&quad(h * 1.0, (low, high), span(0.55, 0.9)), inside, front);
        model.side(&quad(-h * 1.0, (0.6 * l.tail, 0.9 * l.tail), span(0.6, 0.92)), inside, rear);
    }
    let grille = Paint::new(rgb(0x17181a)).gloss(0.2);
    model.side(&quad(h * 1.0, (low - 0.12, high - 0.06), (-0.5 * w, 0.5 * w)), inside, grille);
    model.side(&quad(h * 1.0, (0.24, 0.33), (-0.9 * w, 0.9 * w)), inside, grille);
    model.side(&quad(-h * 1.0, (0.26, 0.36), (-0.9 * w, 0.9 * w)), inside, grille);
    let plate = Paint::new(rgb(0xe9e7dc));
    model.side(&quad(-h * 1.0, (0.44, 0.54), (-0.25, 0.25)), inside, plate);
    model.side(&quad(h * 1.01, (0.35, 0.44), (-0.24, 0.24)), inside, plate);
    let trim = if rng.chance(0.5) { body.dim(0.35) } else { Paint::new(rgb(0x9da1a5)) };
    for side in [-1.0, 1.0] {
        let rub = [(0.9, 0.46), (0.9, 0.5), (-0.9, 0.5), (-0.9, 0.46)];
        model.side(&rub.map(|(u, v)| frame.at(u * h, v, side * w)), inside, trim);
    }
}

/// A wheel flush with the side of a body, `center` in the frame, facing outwards.
pub fn wheel(model: &mut Model, frame: &Frame, center: (f32, f32, f32), radius: f32, rim: Color) {
    let (u, v, w) = center;
    let out = frame.way(0.0, 0.0, w.signum());
    let mut ring = |layer: i8, r: f32, color: Color, gloss: f32, push: f32| {
        let c = frame.at(u, v, w + w.signum() * push);
        model.layer(layer).boss(
            c,
            frame.way(r, 0.0, 0.0),
            frame.way(0.0, r, 0.0),
            out,
            Paint::new(color).gloss(gloss),
        );
    };
    ring(2, radius * 1.2, rgb(0x0d0d0e), 0.0, 0.0);
    ring(3, radius, rgb(0x1d1d1f), 0.0, 0.01);
    ring(4, radius * 0.64, rim, 0.4, 0.02);
    ring(5, radius * 0.5, rim * 0.35, 0.0, 0.02);
    ring(6, radius * 0.3, rim, 0.3, 0.025);
    model.layer(0);
}
