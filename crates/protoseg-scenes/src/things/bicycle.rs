//! Bicycles: two thin wheels and a frame of tubes.

use crate::math::{Color, rgb, sin_cos};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::Paint;
use crate::rng::Rng;

const SPOKES: usize = 8;
const ARC: usize = 16;

pub fn bicycle(frame: &Frame, rng: &mut Rng) -> Model {
    let colors = [0xc0392b, 0x2471a3, 0x1e8449, 0x222428, 0xe6e3da, 0xd68910, 0x76448a, 0x5d6d7e, 0x48c9b0];
    let paint = rgb(rng.pick(&colors)) * rng.range(0.8, 1.1);
    let dark = rgb(0x1a1a1c);
    let steel = rgb(0xb5b8bc);
    let r = rng.range(0.3, 0.36);
    let base = rng.range(0.98, 1.1) * 0.5;
    let thick = rng.range(0.026, 0.036);
    let step_through = rng.chance(0.35);
    let (rear, front) = ((-base, r, 0.0), (base, r, 0.0));
    let crank = (-0.08, r * 0.85, 0.0);
    let seat_low = (-0.2, rng.range(0.7, 0.82), 0.0);
    let saddle = (-0.24, seat_low.1 + rng.range(0.1, 0.2), 0.0);
    let head = (base - 0.17, rng.range(0.8, 0.88), 0.0);
    let head_low = (base - 0.13, head.1 - 0.14, 0.0);
    let grip = (head.0 - rng.range(0.02, 0.1), head.1 + rng.range(0.1, 0.18));

    let mut cones: Vec<Cone> = Vec::with_capacity(80);
    let mut tube = |a: (f32, f32, f32), b: (f32, f32, f32), radius: f32, color: Color| {
        cones.push(cone(frame, a, b, radius, radius, color).crisp());
    };
    for hub in [rear, front] {
        wheel(&mut tube, hub, r, thick, dark, steel);
    }
    // Frame triangle, stays and fork.
    let top = if step_through { (-0.15, 0.5, 0.0) } else { seat_low };
    tube(head_low, crank, thick, paint);
    tube(if step_through { head_low } else { head }, top, thick, paint);
    tube(crank, seat_low, thick, paint);
    tube(seat_low, rear, thick * 0.7, paint);
    tube(crank, rear, thick * 0.7, paint);
    tube(head, head_low, thick * 1.2, paint);
    tube(head_low, front, thick * 0.9, paint);
    // Saddle, handlebar, pedals.
    tube(seat_low, saddle, thick * 0.7, steel);
    tube((saddle.0 - 0.13, saddle.1 + 0.03, 0.0), (saddle.0 + 0.14, saddle.1 + 0.02, 0.0), 0.042, dark);
    tube(head, (grip.0 + 0.05, grip.1, 0.0), thick * 0.8, steel);
    for side in [-1.0, 1.0] {
        let out = (grip.0 + 0.03, grip.1, 0.2 * side);
        tube((grip.0 + 0.05, grip.1, 0.0), out, thick * 0.7, steel);
        tube(out, (grip.0 - 0.1, grip.1 + 0.01, 0.27 * side), thick * 0.9, dark);
        let (s, c) = sin_cos(0.08 + if side > 0.0 { 0.5 } else { 0.0 });
        let pedal = (crank.0 + 0.16 * c, crank.1 + 0.16 * s, 0.09 * side);
        tube((crank.0, crank.1, 0.07 * side), pedal, thick * 0.6, steel);
        tube((pedal.0 - 0.05, pedal.1, pedal.2), (pedal.0 + 0.05, pedal.1, pedal.2), 0.025, dark);
    }
    tube((crank.0, crank.1, -0.03), (crank.0, crank.1, 0.03), 0.075, dark);
    if rng.chance(0.4) {
        tube((-base - 0.2, 2.0 * r + 0.06, 0.0), (-0.24, 2.0 * r + 0.06, 0.0), 0.02, steel);
    }
    if rng.chance(0.5) {
        for i in 0..5 {
            let at = |k: usize| {
                let (s, c) = sin_cos(0.14 + 0.07 * k as f32);
                ((r + 0.045) * c, (r + 0.045) * s)
            };
            let ((a, b), (c, d)) = (at(i), at(i + 1));
            for hub in [rear, front] {
                tube((hub.0 + a, hub.1 + b, 0.0), (hub.0 + c, hub.1 + d, 0.0), thick * 0.7, paint);
            }
        }
    }
    let mut model = Model::default();
    if rng.chance(0.3) {
        let wicker = Paint::new(rgb(0xa8743f)).grain(0.03);
        let (u, v) = (base - 0.02, grip.1 - 0.26);
        let (low, high) = ([u - 0.1, u + 0.1, -0.12, 0.12], [u - 0.14, u + 0.16, -0.16, 0.16]);
        model.prism(frame, [low, high], (v, v + 0.22), wicker);
    }
    model.layer(if frame.forward.z > 0.0 { 1 } else { -1 });
    model.blob(cones, 0.0, 0.0, Paint::new(paint).gloss(0.3));
    model
}

fn wheel(
    tube: &mut impl FnMut((f32, f32, f32), (f32, f32, f32), f32, Color),
    hub: (f32, f32, f32),
    r: f32,
    thick: f32,
    tyre: Color,
    steel: Color,
) {
    let at = |turn: f32, r: f32| {
        let (s, c) = sin_cos(turn);
        (hub.0 + r * c, hub.1 + r * s, 0.0)
    };
    for i in 0..ARC {
        let (a, b) = (i as f32 / ARC as f32, (i + 1) as f32 / ARC as f32);
        tube(at(a, r - thick), at(b, r - thick), thick, tyre);
    }
    for i in 0..SPOKES {
        tube(hub, at((i as f32 + 0.3) / SPOKES as f32, r - thick), 0.006, steel);
    }
    tube((hub.0, hub.1, -0.03), (hub.0, hub.1, 0.03), 0.04, steel);
}
