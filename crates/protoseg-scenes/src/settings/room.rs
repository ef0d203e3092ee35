//! Walls, floors, windows and what hangs on walls.

use crate::math::{Color, Vec3, rgb, vec3};
use crate::model::{Frame, Model};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;
use crate::world::World;

/// A rectangle from `at` along `u` and `v`.
pub fn panel(model: &mut Model, at: Vec3, u: Vec3, v: Vec3, paint: Paint) {
    model.sheet(&[at, at + u, at + u + v, at + v], paint);
}

/// Bushes outside a window: a panel with an uneven top.
pub fn hedge(model: &mut Model, at: Vec3, u: Vec3, v: Vec3, paint: Paint, rng: &mut Rng) {
    let mut points = vec![at, at + u];
    for i in (0..=8).rev() {
        points.push(at + u * (i as f32 / 8.0) + v * rng.range(0.7, 1.15));
    }
    model.sheet(&points, paint);
}

const WALLS: [u32; 10] =
    [0xd9d2c4, 0xc9cfc8, 0xb9c4cc, 0xe0d8c8, 0xc4b49a, 0x9fb0a4, 0xd8c0b4, 0x7f8f96, 0xcfc9d2, 0x8a6f62];

pub fn wall_paint(rng: &mut Rng) -> Paint {
    let color = rgb(rng.pick(&WALLS)) * rng.range(0.85, 1.05);
    match rng.below(6) {
        0 => Paint::new(color).texture(Texture::Stripes, color * 0.86, rng.range(0.16, 0.4)),
        5 => Paint::new(rgb(0xa8664c)).texture(Texture::Bricks, rgb(0xc9bfae), 0.24),
        1..=3 => Paint::new(color).grain(0.025),
        _ => Paint::new(color),
    }
}

pub fn floor_paint(rng: &mut Rng) -> Paint {
    let tone = rng.range(0.8, 1.15);
    match rng.below(4) {
        0 => Paint::new(rgb(0xc9c2b4) * tone).texture(Texture::Tiles, rgb(0x8f8a80), rng.range(0.3, 0.5)),
        1 => Paint::new(rgb(0x8f8478) * tone).grain(0.06),
        _ => {
            let (a, b) = rng.pick(&[
                (0xa9764a, 0x8a5c36),
                (0x7a5236, 0x5f3f2a),
                (0xcfae80, 0xb8955f),
                (0x9a8a78, 0x83735f),
            ]);
            Paint::new(rgb(a) * tone).texture(Texture::Boards, rgb(b) * tone, 0.13).gloss(0.1)
        }
    }
}

/// Floor, back wall at `deep`, and one side wall if the room's corner is in view. Returns the side of that corner.
pub fn shell(world: &mut World, deep: f32, rng: &mut Rng) -> Option<f32> {
    let (wall, floor) = (wall_paint(rng), floor_paint(rng));
    let skirting = Paint::new(rgb(rng.pick(&[0xe9e4d8, 0x6b4a32, 0xcfc6b4])));
    world.wall = deep;
    let mut model = Model::default();
    let wide = 14.0;
    let near = world.camera.near;
    let right = vec3(2.0 * wide, 0.0, 0.0);
    model.layer(-2);
    panel(&mut model, vec3(-wide, 0.0, near), right, vec3(0.0, 0.0, deep - near), floor);
    panel(&mut model, vec3(-wide, 0.0, deep), right, vec3(0.0, 6.0, 0.0), wall);
    model.layer(-1);
    panel(&mut model, vec3(-wide, 0.0, deep - 0.01), right, vec3(0.0, 0.1, 0.0), skirting);
    let mut corner = None;
    if rng.chance(0.45) {
        let side = rng.sign();
        let x = side * rng.range(0.85, 1.3) * world.camera.across(world.canvas.width as f32, deep);
        let away = vec3(0.0, 0.0, deep - near);
        model.layer(0);
        panel(&mut model, vec3(x, 0.0, near), away, vec3(0.0, 6.0, 0.0), wall);
        model.layer(1);
        panel(&mut model, vec3(x - side * 0.01, 0.0, near), away, vec3(0.0, 0.1, 0.0), skirting);
        corner = Some(side);
    }
    world.backdrop(model);
    corner
}

/// A window in the back wall, with daylight behind it.
pub fn window(world: &mut World, at: Vec3, (wide, high): (f32, f32), rng: &mut Rng) {
    let day = world.light.sky.luma() > 0.3;
    let outside = if day { rgb(rng.pick(&[0xcfe2ee, 0xe3e9e6, 0xbfd4e6])) } else { rgb(0x3a4a66) };
    let garden = if day { rgb(0x7f9a6a) } else { rgb(0x1f2a2c) };
    let frame = Paint::new(rgb(0xe9e5dc));
    let (u, v) = (vec3(wide, 0.0, 0.0), vec3(0.0, high, 0.0));
    let front = vec3(0.0, 0.0, -0.01);
    let mut model = Model::default();
    model.layer(0);
    panel(
        &mut model,
        at + vec3(-0.07, -0.07, 0.0),
        vec3(wide + 0.14, 0.0, 0.0),
        vec3(0.0, high + 0.14, 0.0),
        frame,
    );
    model.layer(1);
    panel(&mut model, at + front, u, v, Paint::new(outside * 1.1).glow(0.9));
    model.layer(2);
    let hedge_paint = Paint::new(garden * 0.6).texture(Texture::Leaves, garden * 1.2, 0.14).glow(0.7);
    hedge(&mut model, at + front * 2.0, u, v * rng.range(0.2, 0.45), hedge_paint, rng);
    model.layer(3);
    panel(&mut model, at + front * 3.0 + u * 0.48, u * 0.04, v, frame);
    panel(&mut model, at + front * 3.0 + v * 0.55, u, v * 0.035, frame);
    if rng.chance(0.6) {
        let cloth = rgb(rng.pick(&[0xd9d0c0, 0x8c4a44, 0x55708a, 0x9aa88a, 0xe6ddc8]));
        let cloth = Paint::new(cloth).texture(Texture::Stripes, cloth * 0.7, 0.1);
        let (drop, wide_c) = (vec3(0.0, -high * 1.35 - 0.1, 0.0), 0.3 * wide);
        model.layer(4);
        panel(
            &mut model,
            at + v * 1.12 + front * 4.0 - vec3(0.2, 0.0, 0.0),
            vec3(wide_c, 0.0, 0.0),
            drop,
            cloth,
        );
        panel(
            &mut model,
            at + u + v * 1.12 + front * 4.0 + vec3(0.2 - wide_c, 0.0, 0.0),
            vec3(wide_c, 0.0, 0.0),
            drop,
            cloth,
        );
    }
    world.backdrop(model);
}

/// A framed picture on the back wall.
pub fn picture(world: &mut World, at: Vec3, (wide, high): (f32, f32), rng: &mut Rng) {
    let frame = Paint::new(rgb(rng.pick(&[0x2a2522, 0xc9a55a, 0x6b4a30, 0xe9e6de])));
    let (a, b): (Color, Color) = (rgb(rng.next() as u32 & 0xFF_FFFF), rgb(rng.next() as u32 & 0xFF_FFFF));
    let art =
        Paint::new(a.mix(rgb(0xb0a898), 0.65)).texture(Texture::Patches(0.5), b.mix(rgb(0x807868), 0.6), 0.2);
    let mut model = Model::default();
    let (u, v) = (vec3(wide, 0.0, 0.0), vec3(0.0, high, 0.0));
    model.layer(0);
    panel(&mut model, at, u, v, frame);
    model.layer(1);
    panel(
        &mut model,
        at + u * 0.08 + v * 0.1 + vec3(0.0, 0.0, -0.01),
        u * 0.84,
        v * 0.8,
        art.offset(rng.range(0.0, 60.0)),
    );
    world.backdrop(model);
}

/// A rug on the floor.
pub fn rug(world: &mut World, at: Vec3, (wide, deep): (f32, f32), rng: &mut Rng) {
    let colors = [0x8c3f38, 0x3f5a78, 0xb9a684, 0x5f6b52, 0xcfc6b6, 0x6b4a6a];
    let (a, b) = (rgb(rng.pick(&colors)), rgb(rng.pick(&colors)));
    let weave = match rng.below(3) {
        0 => Paint::new(a).texture(Texture::Stripes, b, rng.range(0.15, 0.5)),
        1 => Paint::new(a).texture(Texture::Checks, b, rng.range(0.2, 0.5)),
        _ => Paint::new(a).grain(0.08),
    };
    let frame = Frame::new(at, rng.range(-0.05, 0.05), 1.0);
    let corners = |k: f32, y: f32| {
        [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
            .map(|(u, w)| frame.at(0.5 * wide * u * k, y, 0.5 * deep * w * k))
    };
    let mut model = Model::default();
    model.layer(0).sheet(&corners(1.0, 0.004), Paint::new(b * 0.8));
    model.layer(1).sheet(&corners(0.93, 0.006), weave);
    world.backdrop(model);
}

/// Shelves full of books against the back wall: a busy background.
pub fn bookcase(world: &mut World, at: Vec3, (wide, high): (f32, f32), rng: &mut Rng) {
    let wood = rgb(rng.pick(&[0x6b4a30, 0xcbb48c, 0xe6e2d8, 0x3a2c24]));
    let mut model = Model::default();
    model.layer(0);
    panel(&mut model, at, vec3(wide, 0.0, 0.0), vec3(0.0, high, 0.0), Paint::new(wood));
    let rows = (high / 0.36) as usize;
    for row in 0..rows {
        let v = at.y + 0.04 + row as f32 * high / rows as f32;
        let tall = high / rows as f32 - 0.06;
        model.layer(1);
        panel(
            &mut model,
            vec3(at.x + 0.03, v, at.z - 0.01),
            vec3(wide - 0.06, 0.0, 0.0),
            vec3(0.0, tall, 0.0),
            Paint::new(wood * 0.3),
        );
        model.layer(2);
        let mut x = at.x + 0.04;
        while x < at.x + wide - 0.1 {
            let thick = rng.range(0.025, 0.06);
            let color = rgb(rng.next() as u32 & 0xFF_FFFF).mix(rgb(0x8a7a68), 0.55);
            let up = tall * rng.range(0.6, 0.95);
            panel(
                &mut model,
                vec3(x, v, at.z - 0.02),
                vec3(thick, 0.0, 0.0),
                vec3(0.0, up, 0.0),
                Paint::new(color),
            );
            x += thick + 0.004 + if rng.chance(0.12) { rng.range(0.05, 0.2) } else { 0.0 };
        }
    }
    world.backdrop(model);
}
