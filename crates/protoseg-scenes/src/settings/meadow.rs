//! Pasture: cows, sheep and horses, a dog among them, trees and fences.

use super::{Styles, heading, share};
use crate::backdrop::{self, Ridge, Turf};
use crate::kind::Kind;
use crate::light::{Light, Sky};
use crate::math::{Color, rgb, vec3};
use crate::model::Frame;
use crate::rng::Rng;
use crate::things::scenery;
use crate::world::{World, Zone};

pub fn meadow(size: (usize, usize), mut rng: Rng) -> World {
    let (light, sky) = Light::outdoor(&mut rng);
    let (lens, horizon) = (rng.range(1.1, 1.6), rng.range(0.25, 0.45));
    let high = rng.range(1.2, 2.0);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let cast = world.cast(&[
        (Kind::Cow, 3.0),
        (Kind::Sheep, 3.0),
        (Kind::Horse, 3.0),
        (Kind::Dog, 1.5),
        (Kind::Truck, 0.35),
        (Kind::Bicycle, 0.6),
    ]);
    world.kneel(cast[0], 0.4);
    let leaves = scenery::foliage(&mut rng);
    countryside(&mut world, &sky, leaves, &mut rng, |_, _| 0.0);
    props(&mut world, leaves, &mut rng);
    let mut styles = Styles::new(&mut rng);
    for (i, kind) in cast.into_iter().enumerate() {
        let zone = Zone { near: 0.0, far: 30.0, left: 0.06, right: 0.94 };
        let share = share(&mut rng, i);
        if let Some(at) = world.spot(kind, zone, share) {
            let frame = Frame::new(at, heading(&mut rng), rng.range(0.85, 1.15));
            let mut style = styles.of(kind, &mut rng);
            world.put_styled(kind, frame, &mut style);
        }
    }
    world
}

/// Sky, hills and grass; `bare(x, z)` is the share of trodden earth.
pub fn countryside(
    world: &mut World,
    sky: &Sky,
    leaves: Color,
    rng: &mut Rng,
    bare: impl Fn(f32, f32) -> f32,
) {
    let World { canvas, camera, light, .. } = world;
    backdrop::sky(canvas, camera, light, sky, rng);
    let foot = camera.horizon + 1.5;
    if rng.chance(0.6) {
        let blue = rgb(0x74848a).mix(leaves, 0.3);
        let kind = if rng.chance(0.4) { Ridge::Mountains } else { Ridge::Hills };
        backdrop::ridge(canvas, camera, light, kind, blue, (rng.range(0.1, 0.28), 150.0, foot), rng);
    }
    if rng.chance(0.6) {
        backdrop::ridge(
            canvas,
            camera,
            light,
            Ridge::Hills,
            leaves * 1.2,
            (rng.range(0.04, 0.12), 70.0, foot),
            rng,
        );
    }
    if rng.chance(0.7) {
        backdrop::ridge(
            canvas,
            camera,
            light,
            Ridge::Trees,
            leaves * 0.8,
            (rng.range(0.04, 0.15), 40.0, foot),
            rng,
        );
    }
    let flowers = [0xf0ead0, 0xe6c440, 0xc9607a];
    let mut turf = Turf {
        lush: leaves * rng.range(0.8, 1.0),
        light: leaves.mix(rgb(0x8aa04a), 0.5) * 1.2,
        dry: rgb(0xa8955c),
        flower: rng.chance(0.5).then(|| rgb(rng.pick(&flowers))),
        seed: rng.range(0.0, 60.0),
    };
    if rng.chance(0.1) {
        // Snow, with grass showing through here and there.
        let white = rgb(0xdfe5ec);
        turf = Turf { lush: white * 0.9, light: white, dry: rgb(0x9a9478), flower: None, ..turf };
    }
    let earth = rgb(0x8c7455);
    backdrop::ground(canvas, camera, light, |x, z, foot| {
        let green = turf.at(x, z, foot);
        let worn = bare(x, z);
        if worn > 0.0 { green.mix(backdrop::grit(earth, 0.08, x, z, foot), worn) } else { green }
    });
}

fn props(world: &mut World, leaves: Color, rng: &mut Rng) {
    let width = world.canvas.width as f32;
    for _ in 0..rng.between(0, 4) {
        let z = rng.range(9.0, 30.0);
        let at = vec3(world.camera.across(rng.unit() * width, z), 0.0, z);
        let frame = Frame::new(at, 0.0, rng.range(0.8, 1.4));
        let green = leaves * rng.range(0.8, 1.2);
        let model = if rng.chance(0.65) {
            scenery::tree(&frame, green, rng)
        } else {
            scenery::bush(&frame, green, rng)
        };
        world.prop(model, frame);
    }
    if rng.chance(0.4) {
        let z = rng.range(7.0, 22.0);
        let frame = Frame::new(vec3(0.0, 0.0, z), rng.range(-0.03, 0.03), 1.0);
        let model = scenery::fence(&frame, 2.2 * z, rng);
        world.prop(model, frame);
    }
    for _ in 0..rng.below(3) {
        let z = rng.range(4.0, 20.0);
        let at = vec3(world.camera.across(rng.unit() * width, z), 0.0, z);
        if world.claim(at, 0.6, false) {
            let frame = Frame::new(at, rng.unit(), rng.range(0.6, 1.1));
            let model = match rng.below(3) {
                0 => scenery::rock(&frame, rng),
                1 => scenery::bale(&frame, rng),
                _ => scenery::bush(&frame, leaves, rng),
            };
            world.prop(model, frame);
        }
    }
}
