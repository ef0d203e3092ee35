//! A living room: sofas, chairs, tables, lamps, plants, and sometimes the dog.

use super::room;
use crate::kind::Kind;
use crate::light::Light;
use crate::math::vec3;
use crate::model::Frame;
use crate::rng::Rng;
use crate::things;
use crate::world::{World, Zone};

pub fn living(size: (usize, usize), mut rng: Rng) -> World {
    let light = Light::indoor(&mut rng);
    let (lens, horizon) = (rng.range(0.95, 1.3), rng.range(0.3, 0.46));
    let high = rng.range(1.2, 1.65);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let deep = rng.range(3.0, 4.4);
    let cast = world.cast(&[
        (Kind::Sofa, 4.5),
        (Kind::Chair, 2.6),
        (Kind::Table, 1.6),
        (Kind::Lamp, 2.4),
        (Kind::Plant, 2.2),
        (Kind::Dog, 1.0),
    ]);
    world.kneel(cast[0], 0.8);
    let corner = room::shell(&mut world, deep, &mut rng);
    decorate(&mut world, deep, &mut rng);
    let mut table = None;
    // Big furniture goes first, small things find room around it.
    let mut cast = cast;
    cast.sort_by_key(|kind| match kind {
        Kind::Sofa => 0,
        Kind::Table => 1,
        _ => 2,
    });
    for (i, kind) in cast.into_iter().enumerate() {
        if let (Kind::Lamp | Kind::Plant, Some((below, at, top)), true) = (kind, table, rng.chance(0.5)) {
            let top: things::Top = top;
            let frame = Frame::new(at, 0.0, 1.0).child(
                rng.range(-0.4, 0.4) * top.half_u,
                top.high,
                rng.range(-0.6, 0.6) * top.half_w,
                0.0,
                1.0,
            );
            let frame = if kind == Kind::Plant { Frame { size: 0.55, ..frame } } else { frame };
            world.put_on(below, kind, frame);
            continue;
        }
        let zone = match kind {
            Kind::Sofa => Zone { near: deep - 1.3, far: deep - 0.55, left: 0.25, right: 0.75 },
            Kind::Table => Zone { near: 1.7, far: deep - 1.0, left: 0.25, right: 0.75 },
            Kind::Lamp | Kind::Plant => Zone { near: 1.8, far: deep - 0.35, left: 0.1, right: 0.9 },
            _ => Zone { near: 1.8, far: deep - 0.5, left: 0.14, right: 0.86 },
        };
        let share = if i == 0 { rng.range(0.6, 0.95) } else { rng.range(0.4, 0.65) };
        let Some(at) = world.spot(kind, zone, share) else { continue };
        // Keep clear of the side wall.
        let limit = corner.map_or(9.0, |_| 0.8 * world.camera.across(size.0 as f32, at.z));
        let at = vec3(at.x.clamp(-limit, limit), 0.0, at.z);
        let turn = match kind {
            Kind::Sofa if rng.chance(0.12) => rng.unit(),
            Kind::Sofa => -0.25 + rng.range(-0.1, 0.1),
            Kind::Chair => -0.25 + rng.range(-0.22, 0.22) + if rng.chance(0.15) { 0.5 } else { 0.0 },
            Kind::Table => 0.25 + rng.range(-0.06, 0.06),
            Kind::Dog => super::heading(&mut rng),
            _ => rng.unit(),
        };
        let frame = Frame::new(at, turn, rng.range(0.92, 1.1));
        if kind == Kind::Table {
            let mut style = rng.fork();
            let top = things::table_top(&mut style);
            let model = things::table(&frame, top, &mut style);
            let number = world.put_model(model, kind, frame);
            table = Some((number, at, top));
        } else {
            world.put(kind, frame);
        }
    }
    world
}

fn decorate(world: &mut World, deep: f32, rng: &mut Rng) {
    let reach = world.camera.across(world.canvas.width as f32, deep);
    let z = deep - 0.02;
    let mut column = -reach + rng.range(0.0, 0.6);
    while column < reach {
        match rng.below(6) {
            0 => {
                let wide = rng.range(0.9, 1.5);
                room::window(world, vec3(column, rng.range(0.8, 1.0), z), (wide, rng.range(1.1, 1.5)), rng);
                column += wide + 0.5;
            }
            1 => {
                let wide = rng.range(0.7, 1.2);
                room::bookcase(world, vec3(column, 0.0, z), (wide, rng.range(1.0, 2.2)), rng);
                column += wide + 0.3;
            }
            2 | 3 => {
                let wide = rng.range(0.3, 0.8);
                room::picture(
                    world,
                    vec3(column, rng.range(1.2, 1.6), z),
                    (wide, wide * rng.range(0.7, 1.3)),
                    rng,
                );
                column += wide + 0.4;
            }
            _ => column += rng.range(0.5, 1.2),
        }
    }
    if rng.chance(0.5) {
        let at = vec3(rng.range(-0.4, 0.4), 0.0, 0.62 * deep);
        room::rug(world, at, (rng.range(1.4, 2.4), rng.range(0.9, 1.5)), rng);
    }
}
