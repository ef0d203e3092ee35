//! A laid table, close: cups, bottles and bowls on it, chairs around it, a lamp above.

use super::room;
use crate::kind::Kind;
use crate::light::Light;
use crate::math::vec3;
use crate::model::Frame;
use crate::rng::Rng;
use crate::things::{self, Top};
use crate::world::World;

pub fn dining(size: (usize, usize), mut rng: Rng) -> World {
    let light = Light::indoor(&mut rng);
    let (lens, horizon) = (rng.range(1.0, 1.4), rng.range(0.16, 0.36));
    let high = rng.range(1.2, 1.5);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let deep = rng.range(2.8, 4.0);
    room::shell(&mut world, deep, &mut rng);
    let z = deep - 0.02;
    if rng.chance(0.5) {
        let x = rng.range(-1.2, 0.4);
        room::window(&mut world, vec3(x, 0.95, z), (rng.range(0.9, 1.4), 1.2), &mut rng);
    } else if rng.chance(0.7) {
        let at = vec3(rng.range(-1.0, 0.5), rng.range(1.0, 1.3), z);
        room::picture(&mut world, at, (rng.range(0.4, 0.8), rng.range(0.4, 0.6)), &mut rng);
    }
    let others = world.cast(&[
        (Kind::Cup, 2.6),
        (Kind::Bottle, 2.4),
        (Kind::Bowl, 2.4),
        (Kind::Chair, 2.6),
        (Kind::Lamp, 1.4),
        (Kind::Plant, 0.6),
    ]);
    let mut style = rng.fork();
    let top = Top { high: rng.range(0.7, 0.78), ..things::table_top(&mut style) };
    let table_z = rng.range(1.25, 1.75);
    let turn = 0.25 + if top.round { 0.0 } else { rng.range(-0.06, 0.06) };
    let frame = Frame::new(vec3(rng.range(-0.25, 0.25), 0.0, table_z), turn, 1.0);
    let model = things::table(&frame, top, &mut style);
    let table = world.put_model(model, Kind::Table, frame);
    let mut taken: Vec<(f32, f32)> = Vec::new();
    for kind in others {
        match kind {
            Kind::Chair => {
                // Behind the table or at its ends, facing it.
                let (u, w, turn) = match rng.below(3) {
                    0 => (0.1, top.half_w + 0.25, -0.25),
                    1 => (0.1, -top.half_w - 0.25, 0.25),
                    _ => (top.half_u + 0.3, rng.range(-0.5, 0.5) * top.half_w, 0.5),
                };
                let seat = frame.child(u, 0.0, w, turn + rng.range(-0.03, 0.03), 1.0);
                if seat.origin.z > 0.9 && world.claim(seat.origin, 0.25, true) {
                    world.put(kind, seat);
                }
            }
            Kind::Lamp if rng.chance(0.6) => {
                let at = frame.at(0.0, rng.range(1.45, 1.75), rng.range(-0.3, 0.3));
                let hang = Frame::new(vec3(at.x, at.y, at.z + 0.3), 0.0, rng.range(0.9, 1.3));
                let mut style = rng.fork();
                let model = things::pendant(&hang, &mut style, &mut world.light);
                world.put_model(model, kind, hang);
            }
            _ => {
                let (u, w) = (rng.range(-0.75, 0.7) * top.half_u, rng.range(-0.7, 0.7) * top.half_w);
                if taken.iter().all(|t| (t.0 - u) * (t.0 - u) + (t.1 - w) * (t.1 - w) > 0.04) {
                    taken.push((u, w));
                    let scale = if kind == Kind::Plant {
                        0.45
                    } else if kind == Kind::Lamp {
                        0.9
                    } else {
                        rng.range(1.5, 2.1)
                    };
                    let spot = frame.child(u, top.high, w, rng.unit(), scale);
                    world.put_on(table, kind, spot);
                }
            }
        }
    }
    world
}
