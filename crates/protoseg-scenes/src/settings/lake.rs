//! A lake or pond: boats, ducks and swans on the water, a dog on the bank.

use super::{Styles, heading, share};
use crate::backdrop::{self, Ridge, Turf};
use crate::kind::Kind;
use crate::light::Light;
use crate::math::{rgb, smoothstep, vec3};
use crate::model::Frame;
use crate::noise::value;
use crate::rng::Rng;
use crate::things::scenery;
use crate::world::{World, Zone};

pub fn lake(size: (usize, usize), mut rng: Rng) -> World {
    let (light, sky) = Light::outdoor(&mut rng);
    let (lens, horizon) = (rng.range(1.1, 1.5), rng.range(0.22, 0.42));
    let high = rng.range(0.9, 1.5);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let cast = world.cast(&[
        (Kind::Boat, 2.6),
        (Kind::Duck, 3.0),
        (Kind::Swan, 3.2),
        (Kind::Dog, 0.6),
        (Kind::Umbrella, 0.4),
    ]);
    world.kneel(cast[0], 0.65);
    let needs_bank = cast.iter().any(|kind| matches!(kind, Kind::Dog | Kind::Umbrella));

    let far = rng.range(18.0, 45.0);
    let far_row = world.camera.ground_row(far);
    let bank = needs_bank || rng.chance(0.5);
    let bank_row = if needs_bank { rng.range(0.62, 0.74) } else { rng.range(0.78, 0.92) };
    let bank_z = if bank { world.camera.ground_depth(bank_row * world.canvas.height as f32) } else { 0.0 };
    let leaves = scenery::foliage(&mut rng);
    paint(&mut world, &sky, (far, far_row, bank_z), leaves, &mut rng);

    for _ in 0..rng.between(0, 4) {
        let z = far + rng.range(0.0, 6.0);
        let x = world.camera.across(rng.unit() * size.0 as f32, z);
        let frame = Frame::new(vec3(x, 0.0, z), 0.0, rng.range(0.8, 1.4));
        let tree = scenery::tree(&frame, leaves * rng.range(0.8, 1.2), &mut rng);
        world.prop(tree, frame);
    }
    let mut styles = Styles::new(&mut rng);
    for (i, kind) in cast.into_iter().enumerate() {
        let ashore = matches!(kind, Kind::Dog | Kind::Umbrella)
            || (bank && matches!(kind, Kind::Duck | Kind::Swan) && rng.chance(0.2));
        let (near, end) = if ashore { (0.0, bank_z * 0.9) } else { (bank_z * 1.12, far * 0.8) };
        let zone = Zone { near, far: end, left: 0.08, right: 0.92 };
        let share = share(&mut rng, i);
        if let Some(at) = world.spot(kind, zone, share) {
            let frame = Frame::new(at, heading(&mut rng), rng.range(0.85, 1.15));
            let mut style = styles.of(kind, &mut rng);
            if ashore {
                world.put_styled(kind, frame, &mut style);
            } else {
                world.float(kind, frame, &mut style);
            }
        }
    }
    waterside(&mut world, bank_z, &mut rng);
    world
}

fn paint(
    world: &mut World,
    sky: &crate::light::Sky,
    (far, far_row, bank_z): (f32, f32, f32),
    leaves: crate::math::Color,
    rng: &mut Rng,
) {
    let World { canvas, camera, light, .. } = world;
    backdrop::sky(canvas, camera, light, sky, rng);
    if rng.chance(0.6) {
        let kind = if rng.chance(0.5) { Ridge::Mountains } else { Ridge::Hills };
        let blue = rgb(0x6d7f86).mix(leaves, rng.range(0.0, 0.5));
        backdrop::ridge(
            canvas,
            camera,
            light,
            kind,
            blue,
            (rng.range(0.1, 0.3), 160.0, camera.horizon + 1.0),
            rng,
        );
    }
    backdrop::ridge(
        canvas,
        camera,
        light,
        Ridge::Trees,
        leaves * 0.8,
        (rng.range(0.06, 0.2), far, far_row),
        rng,
    );
    let turf = Turf {
        lush: leaves * 0.85,
        light: leaves * 1.35,
        dry: rgb(0x9a8a55),
        flower: None,
        seed: rng.range(0.0, 60.0),
    };
    let sandy = rng.chance(0.3);
    backdrop::ground(canvas, camera, light, |x, z, foot| {
        let green = turf.at(x, z, foot);
        let mud = backdrop::grit(rgb(0x8a7a5c), 0.08, x, z, foot);
        let edge = if z < bank_z { bank_z - z } else { (z - far).max(0.0) };
        green.mix(mud, if sandy { 1.0 } else { 1.0 - smoothstep(0.05, 0.5, edge) })
    });
    let tint = rgb(rng.pick(&[0x2f4a48, 0x35525a, 0x3d4f3c, 0x2a4356]));
    let (shift, chop) = (rng.range(0.0, 60.0), rng.range(0.25, 1.0));
    backdrop::water(canvas, camera, light, (tint, chop, far_row), rng, |x, z, foot| {
        let shore = bank_z * (0.9 + 0.2 * value(x * 0.5 + shift, 3.0) + 0.06 * value(x * 2.5 + shift, 9.0));
        let back = far * (0.96 + 0.08 * value(x * 0.2 + shift, 5.0));
        smoothstep(shore - foot, shore + foot, z) * (1.0 - smoothstep(back, back * 1.02, z))
    });
}

fn waterside(world: &mut World, bank_z: f32, rng: &mut Rng) {
    let width = world.canvas.width as f32;
    for _ in 0..rng.between(0, 3) {
        let side = if rng.chance(0.5) { rng.range(0.0, 0.15) } else { rng.range(0.85, 1.0) };
        let z =
            (bank_z * rng.range(0.95, 1.1)).max(world.camera.ground_depth(world.canvas.height as f32 * 0.95));
        let at = vec3(world.camera.across(side * width, z), 0.0, z);
        let frame = Frame::new(at, 0.0, rng.range(0.7, 1.2) * (0.25 * z).min(1.0));
        let model = if rng.chance(0.6) {
            scenery::reeds(&frame, rng)
        } else {
            scenery::rock(&Frame { size: 0.7 * frame.size, ..frame }, rng)
        };
        world.prop(model, frame);
    }
    if rng.chance(0.2) {
        let z = world.camera.ground_depth(world.canvas.height as f32 * 0.75).max(bank_z);
        let x = world.camera.across(if rng.chance(0.5) { 0.0 } else { width }, z);
        let frame = Frame::new(vec3(x, 0.0, z * 1.4), rng.range(-0.06, 0.06), 1.0);
        if world.claim(frame.origin, 1.2, false) {
            let model = scenery::jetty(&frame, 3.5, rng);
            world.prop(model, frame);
        }
    }
}
