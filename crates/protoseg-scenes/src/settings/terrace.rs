//! A café terrace: tables and chairs under parasols, pots, a bicycle, a waiting dog.

use super::{Styles, heading, share};
use crate::backdrop::{self, Ridge};
use crate::kind::Kind;
use crate::light::Light;
use crate::math::{rgb, vec3};
use crate::model::Frame;
use crate::paint::{Paint, Texture};
use crate::rng::Rng;
use crate::things::{self, Top, scenery};
use crate::world::{World, Zone};

pub fn terrace(size: (usize, usize), mut rng: Rng) -> World {
    let (light, sky) = Light::outdoor(&mut rng);
    let (lens, horizon) = (rng.range(1.1, 1.5), rng.range(0.28, 0.44));
    let high = rng.range(1.3, 1.7);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let cast = world.cast(&[
        (Kind::Chair, 3.0),
        (Kind::Table, 2.6),
        (Kind::Umbrella, 2.4),
        (Kind::Plant, 2.0),
        (Kind::Dog, 1.2),
        (Kind::Bicycle, 1.4),
    ]);
    world.kneel(cast[0], 0.4);
    paint(&mut world, &sky, &mut rng);
    let mut styles = Styles::new(&mut rng);
    for (i, kind) in cast.into_iter().enumerate() {
        let share = share(&mut rng, i);
        let zone = Zone { near: 0.0, far: 7.0, left: 0.1, right: 0.9 };
        let Some(at) = world.spot(kind, zone, share) else { continue };
        let turn = match kind {
            Kind::Chair => rng.unit(),
            _ => heading(&mut rng),
        };
        let frame = Frame::new(at, turn, rng.range(0.95, 1.15));
        let mut style = styles.of(kind, &mut rng);
        if kind != Kind::Table {
            world.put_styled(kind, frame, &mut style);
            continue;
        }
        let top = Top { high: 0.74, ..things::table_top(&mut style) };
        let model = things::table(&frame, top, &mut style);
        let table = world.put_model(model, kind, frame);
        for _ in 0..rng.below(3) {
            let kind = rng.pick(&[Kind::Cup, Kind::Bottle, Kind::Cup, Kind::Bowl]);
            let (u, w) = (rng.range(-0.6, 0.6) * top.half_u, rng.range(-0.6, 0.6) * top.half_w);
            world.put_on(table, kind, frame.child(u, top.high, w, rng.unit(), 1.7));
        }
    }
    world
}

fn paint(world: &mut World, sky: &crate::light::Sky, rng: &mut Rng) {
    let leaves = scenery::foliage(rng);
    let World { canvas, camera, light, .. } = world;
    backdrop::sky(canvas, camera, light, sky, rng);
    let row = camera.horizon + 1.5;
    backdrop::ridge(
        canvas,
        camera,
        light,
        Ridge::Trees,
        leaves * 0.9,
        (rng.range(0.05, 0.2), 30.0, row),
        rng,
    );
    let stone = rgb(rng.pick(&[0xb9ac98, 0xa8a49c, 0xc4a888, 0x9c8f86]));
    let paving = match rng.below(3) {
        0 => Paint::new(stone).texture(Texture::Tiles, stone * 0.6, rng.range(0.4, 0.7)),
        1 => Paint::new(rgb(0xa98a64)).texture(Texture::Boards, rgb(0x8c7050), 0.14),
        _ => Paint::new(stone).texture(Texture::Bricks, stone * 0.6, 0.3),
    };
    let turn = rng.range(-0.4, 0.4);
    let far = rng.range(7.5, 11.0);
    let lawn = leaves.mix(rgb(0x8aa04a), 0.4);
    backdrop::ground(canvas, camera, light, |x, z, foot| {
        if z > far + 0.5 {
            return backdrop::grit(lawn, 0.5, x, z, foot);
        }
        paving.sample(x + turn * z, z - turn * x, foot * (1.0 + 0.3 * z))
    });
    if rng.chance(0.65) {
        let mut x = -far * 1.2;
        while x < far * 1.2 {
            let wide = rng.range(6.0, 10.0);
            let frame = Frame::new(vec3(x + 0.5 * wide, 0.0, far), 0.0, 1.0);
            let model = scenery::house(&frame, wide, rng.range(4.5, 8.0), rng);
            world.house(model, frame);
            x += wide;
        }
    } else {
        for i in 0..12 {
            let x = (i as f32 - 6.0) * 0.28 * far;
            let frame = Frame::new(vec3(x, 0.0, far), 0.0, rng.range(1.2, 1.9));
            let model = scenery::bush(&frame, leaves * rng.range(0.8, 1.15), rng);
            world.prop(model, frame);
        }
    }
}
