//! The seaside: parasols and dogs on the sand, boats beyond the surf or drawn up on the shore.

use super::{Styles, heading, share};
use crate::backdrop::{self, Ridge};
use crate::kind::Kind;
use crate::light::Light;
use crate::math::{rgb, smoothstep, vec3};
use crate::model::Frame;
use crate::noise::value;
use crate::rng::Rng;
use crate::things::scenery;
use crate::world::{World, Zone};

pub fn beach(size: (usize, usize), mut rng: Rng) -> World {
    let (light, sky) = Light::outdoor(&mut rng);
    let (lens, horizon) = (rng.range(1.1, 1.5), rng.range(0.3, 0.48));
    let high = rng.range(1.3, 2.0);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let cast = world.cast(&[
        (Kind::Umbrella, 3.0),
        (Kind::Boat, 2.6),
        (Kind::Dog, 1.8),
        (Kind::Chair, 1.2),
        (Kind::Bicycle, 0.8),
        (Kind::Duck, 0.7),
        (Kind::Car, 0.5),
        (Kind::Horse, 0.5),
    ]);
    world.kneel(cast[0], 0.4);
    let surf = rng.range(7.0, 14.0);
    paint(&mut world, &sky, surf, &mut rng);
    let mut styles = Styles::new(&mut rng);
    for (i, kind) in cast.into_iter().enumerate() {
        let swims = matches!(kind, Kind::Duck) || (kind == Kind::Boat && rng.chance(0.7));
        let zone = if swims {
            Zone { near: surf * 1.15, far: surf * 4.0, left: 0.08, right: 0.92 }
        } else {
            Zone { near: 0.0, far: surf * 0.85, left: 0.08, right: 0.92 }
        };
        // Ducks at sea would be specks: they swim in the shallows.
        let zone =
            if kind == Kind::Duck { Zone { near: surf * 0.95, far: surf * 1.1, ..zone } } else { zone };
        let share = share(&mut rng, i);
        if let Some(at) = world.spot(kind, zone, share) {
            let frame = Frame::new(at, heading(&mut rng), rng.range(0.9, 1.15));
            let mut style = styles.of(kind, &mut rng);
            if swims {
                world.float(kind, frame, &mut style);
            } else {
                world.put_styled(kind, frame, &mut style);
            }
        }
    }
    for _ in 0..rng.between(0, 3) {
        let z = rng.range(0.5, 1.0) * surf;
        let at = vec3(world.camera.across(rng.unit() * size.0 as f32, z), 0.0, z);
        if world.claim(at, 0.4, false) {
            let frame = Frame::new(at, rng.unit(), rng.range(0.5, 1.0));
            let model = if rng.chance(0.7) {
                scenery::rock(&frame, &mut rng)
            } else {
                scenery::boxes(&frame, &mut rng)
            };
            world.prop(model, frame);
        }
    }
    world
}

fn paint(world: &mut World, sky: &crate::light::Sky, surf: f32, rng: &mut Rng) {
    let World { canvas, camera, light, .. } = world;
    backdrop::sky(canvas, camera, light, sky, rng);
    if rng.chance(0.4) {
        let color = rgb(0x76807a);
        backdrop::ridge(
            canvas,
            camera,
            light,
            Ridge::Hills,
            color,
            (rng.range(0.05, 0.14), 120.0, camera.horizon + 1.0),
            rng,
        );
    }
    let sand = rgb(rng.pick(&[0xd9c49a, 0xe4d6b4, 0xc9ae84, 0xb9ab94]));
    let shift = rng.range(0.0, 60.0);
    let line =
        move |x: f32| surf * (0.96 + 0.1 * value(x * 0.12 + shift, 1.0) + 0.02 * value(x * 0.9 + shift, 4.0));
    backdrop::ground(canvas, camera, light, |x, z, foot| {
        let dry = backdrop::grit(sand, 0.07, x, z, foot);
        let dunes = 0.9 + 0.2 * value(x * 0.8 + shift, z * 1.6);
        (dry * dunes).mix(sand * 0.45, smoothstep(0.8, 0.97, z / line(x)))
    });
    let tint = rgb(rng.pick(&[0x2f6f80, 0x3a7f88, 0x35586a, 0x4a8f94]));
    let chop = rng.range(0.5, 1.2);
    let horizon = camera.horizon;
    backdrop::water(canvas, camera, light, (tint, chop, horizon), rng, |x, z, _| {
        smoothstep(0.0, 0.06, z / line(x) - 1.0)
    });
    // White water where the waves break.
    let foam = light.sky + light.sun * 0.7;
    let first = (camera.ground_row(surf * 2.2) as usize).min(canvas.height);
    for y in first..canvas.height {
        let z = camera.ground_depth(y as f32 + 0.5);
        for x in 0..canvas.width {
            let wx = camera.across(x as f32 + 0.5, z);
            let t = z / line(wx) - 1.0;
            let lace = value(wx * 1.5 + shift, z * 2.0) + 0.5 * value(wx * 5.0, z * 6.0);
            let wave = |at: f32, wide: f32| (1.0 - ((t - at) / wide).abs()).max(0.0);
            let white = wave(0.03, 0.05) + 0.8 * wave(0.35 + 0.06 * lace, 0.05) + 0.5 * wave(0.8, 0.06);
            let cover = (white * smoothstep(0.5, 1.1, lace)).min(0.9);
            if cover > 0.0 {
                canvas.blend(x, y, foam, cover, 1.0, None);
            }
        }
    }
}
