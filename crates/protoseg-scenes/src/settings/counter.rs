//! A kitchen counter, shelf or window sill, close up: cups, bottles, bowls, small pots.

use super::room::{hedge, panel};
use crate::kind::Kind;
use crate::light::Light;
use crate::math::{rgb, vec3};
use crate::model::{Frame, Model};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;
use crate::things::{self, scenery, tableware};
use crate::world::{World, Zone};

pub fn counter(size: (usize, usize), mut rng: Rng) -> World {
    let mut light = Light::indoor(&mut rng);
    light.penumbra *= 0.15;
    let (lens, horizon) = (rng.range(1.2, 1.7), rng.range(0.08, 0.34));
    let high = rng.range(0.24, 0.42);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let deep = rng.range(0.95, 1.3);
    surfaces(&mut world, deep, &mut rng);
    let cast = world.cast(&[
        (Kind::Cup, 3.0),
        (Kind::Bottle, 2.8),
        (Kind::Bowl, 2.8),
        (Kind::Plant, 1.5),
        (Kind::Lamp, 1.0),
    ]);
    for (i, kind) in cast.into_iter().enumerate() {
        let share = if i == 0 { rng.range(0.45, 0.75) } else { rng.range(0.3, 0.5) };
        let zone = Zone { near: 0.0, far: deep - 0.12, left: 0.1, right: 0.9 };
        // Pots and lamps of the room are far too big for a sill.
        let shrink = match kind {
            Kind::Plant => 0.42,
            Kind::Lamp => 0.8,
            _ => rng.range(0.9, 1.25),
        };
        let like = if matches!(kind, Kind::Plant | Kind::Lamp) { Kind::Bottle } else { kind };
        let Some(at) = world.spot(like, zone, share) else { continue };
        let frame = Frame::new(at, rng.unit(), shrink);
        if kind == Kind::Lamp {
            let mut style = rng.fork();
            let model = things::lamp(&frame, &mut style, &mut world.light, false);
            world.put_model(model, kind, frame);
        } else {
            world.put(kind, frame);
        }
    }
    clutter(&mut world, deep, &mut rng);
    world
}

fn surfaces(world: &mut World, deep: f32, rng: &mut Rng) {
    let tone = rng.range(0.85, 1.1);
    let top = match rng.below(4) {
        0 => Paint::new(rgb(0xd9d5cc) * tone)
            .texture(Texture::Patches(0.4), rgb(0xb5b0a6) * tone, 0.05)
            .gloss(0.25),
        1 => Paint::new(rgb(0x4a4a4e) * tone)
            .texture(Texture::Patches(0.3), rgb(0x66666a) * tone, 0.02)
            .gloss(0.3),
        _ => {
            let (a, b) = rng.pick(&[(0xa9764a, 0x8a5c36), (0xd0b080, 0xb8955f), (0x6b452c, 0x533420)]);
            Paint::new(rgb(a) * tone).texture(Texture::Boards, rgb(b) * tone, 0.09).gloss(0.12)
        }
    };
    let tile = rgb(rng.pick(&[0xe6e4dc, 0xa9c0c4, 0xd8cdb6, 0x7f9a8c, 0xc9d2da, 0xd9b8a8]));
    let wall = match rng.below(4) {
        0 | 1 => Paint::new(tile).texture(Texture::Tiles, tile * 0.65, rng.range(0.1, 0.18)).gloss(0.15),
        2 => Paint::new(tile).texture(Texture::Bricks, tile * 0.6, 0.16),
        _ => Paint::new(tile * 0.9).grain(0.01),
    };
    world.wall = deep;
    let near = world.camera.near;
    let (right, wide) = (vec3(8.0, 0.0, 0.0), -4.0);
    let mut model = Model::default();
    model.layer(-2);
    panel(&mut model, vec3(wide, 0.0, near), right, vec3(0.0, 0.0, deep - near), top);
    panel(&mut model, vec3(wide, 0.0, deep), right, vec3(0.0, 2.0, 0.0), wall);
    if rng.chance(0.4) {
        // A window above the sill instead of tiles.
        let x = rng.range(-0.5, 0.0);
        let sky = Paint::new(rgb(rng.pick(&[0xcfe2ee, 0xe6ebea, 0xf2dcb8])) * 1.1).glow(0.9);
        let green = rgb(0x7f9a5f);
        let garden = Paint::new(green * 0.7).texture(Texture::Leaves, green * 1.3, 0.1).glow(0.8);
        let frame = Paint::new(rgb(0xe9e6de));
        let (u, v) = (vec3(rng.range(0.5, 0.9), 0.0, 0.0), vec3(0.0, 1.0, 0.0));
        model.layer(-1);
        panel(&mut model, vec3(x - 0.04, 0.06, deep - 0.001), u + vec3(0.08, 0.0, 0.0), v, frame);
        model.layer(0);
        panel(&mut model, vec3(x, 0.1, deep - 0.002), u, v, sky);
        model.layer(1);
        hedge(&mut model, vec3(x, 0.1, deep - 0.003), u, v * rng.range(0.1, 0.3), garden, rng);
        model.layer(2);
        panel(&mut model, vec3(x, 0.1, deep - 0.004) + u * 0.48, u * 0.05, v, frame);
    }
    world.backdrop(model);
}

/// Loose fruit, boxes and boards: things on a counter that are not one of our classes.
fn clutter(world: &mut World, deep: f32, rng: &mut Rng) {
    for _ in 0..rng.below(4) {
        let z = rng.range(0.5, 0.9) * deep;
        let at = vec3(world.camera.across(rng.range(0.05, 0.95) * world.canvas.width as f32, z), 0.0, z);
        if !world.claim(at, 0.06, false) {
            continue;
        }
        let frame = Frame::new(at, rng.unit(), 1.0);
        let model = match rng.below(3) {
            0 => scenery::boxes(&Frame { size: 0.18, ..frame }, rng),
            _ => tableware::loose_fruit(at, 1.0, rng),
        };
        world.prop(model, frame);
    }
}
