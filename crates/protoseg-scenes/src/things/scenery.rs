//! Things of the background class: trees, bushes, rocks, fences, houses, jetties, boxes.

use crate::math::{Color, rgb, sin_cos};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

/// Leaf colours of one place in one season.
pub fn foliage(rng: &mut Rng) -> Color {
    rgb(rng.pick(&[0x4a6b34, 0x5f7d3a, 0x3c5f3a, 0x6f8744, 0x54713f, 0x8a7a3a, 0xa8743a, 0x3f5f45]))
        * rng.range(0.8, 1.15)
}

pub fn tree(frame: &Frame, leaves: Color, rng: &mut Rng) -> Model {
    if rng.chance(0.3) { conifer(frame, leaves, rng) } else { broadleaf(frame, leaves, rng) }
}

fn broadleaf(frame: &Frame, leaves: Color, rng: &mut Rng) -> Model {
    let bark = rgb(rng.pick(&[0x5a4632, 0x6b5a48, 0x4a3a2c, 0xb9b0a0]));
    let (high, r) = (rng.range(2.0, 2.8), rng.range(1.2, 1.7));
    let lean = rng.range(-0.2, 0.2);
    let mut model = Model::default();
    let trunk = vec![
        cone(frame, (0.0, -0.05, 0.0), (lean * 0.5, 0.6 * high, 0.0), 0.22, 0.15, bark),
        cone(frame, (lean * 0.5, 0.6 * high, 0.0), (lean + 0.6, high, 0.0), 0.13, 0.06, bark),
        cone(frame, (lean * 0.5, 0.6 * high, 0.0), (lean - 0.5, high, 0.1), 0.13, 0.06, bark),
    ];
    model.layer(0).blob(trunk, 0.1 * frame.size, 0.02 * frame.size, Paint::new(bark).grain(0.1 * frame.size));
    let mut crown: Vec<Cone> = vec![cone(
        frame,
        (lean, high + 0.6 * r, 0.0),
        (lean, high + 0.7 * r, 0.0),
        0.8 * r,
        0.75 * r,
        leaves,
    )];
    for i in 0..5 {
        let (s, c) = sin_cos(i as f32 / 5.0 + rng.range(0.0, 0.1));
        let at = (lean + 0.75 * r * c, high + 0.55 * r + 0.45 * r * s, -0.2 * r * rng.unit());
        let size = r * rng.range(0.42, 0.58);
        crown.push(cone(frame, at, at, size, size, leaves));
    }
    let paint =
        Paint::new(leaves * 0.35).texture(Texture::Leaves, leaves * 1.6, rng.range(0.16, 0.28) * frame.size);
    model.layer(1).blob(crown, 0.3 * frame.size, 0.28 * frame.size, paint.offset(rng.range(0.0, 60.0)));
    model
}

fn conifer(frame: &Frame, leaves: Color, rng: &mut Rng) -> Model {
    let green = leaves.mix(rgb(0x2f4a38), 0.6);
    let high = rng.range(3.6, 5.0);
    let mut model = Model::default();
    model.layer(0).rod(
        frame.at(0.0, 0.0, 0.0),
        frame.at(0.0, 0.8, 0.0),
        0.14 * frame.size,
        Paint::new(rgb(0x4a3a2c)),
    );
    let tiers: Vec<Cone> = (0..4)
        .map(|i| {
            let t = i as f32 / 4.0;
            let (low, r) = (0.6 + t * (high - 0.9), 0.95 * (1.0 - 0.8 * t));
            cone(frame, (0.0, low, 0.0), (0.0, low + 0.36 * high * (1.0 - 0.5 * t), 0.0), r, 0.1, green)
        })
        .collect();
    let paint = Paint::new(green * 0.4).texture(Texture::Leaves, green * 1.5, 0.13 * frame.size);
    model.layer(1).blob(tiers, 0.08 * frame.size, 0.2 * frame.size, paint.offset(rng.range(0.0, 60.0)));
    model
}

pub fn bush(frame: &Frame, leaves: Color, rng: &mut Rng) -> Model {
    let many = rng.between(2, 4);
    let balls: Vec<Cone> = (0..many)
        .map(|i| {
            let r = rng.range(0.3, 0.5);
            let at = ((i as f32 - 0.5 * many as f32) * 0.45, 0.6 * r, rng.range(-0.2, 0.2));
            cone(frame, at, (at.0, 0.9 * r, at.2), r, 0.85 * r, leaves)
        })
        .collect();
    let paint = Paint::new(leaves * 0.35).texture(Texture::Leaves, leaves * 1.5, 0.12 * frame.size);
    let mut model = Model::default();
    model.blob(balls, 0.15 * frame.size, 0.12 * frame.size, paint.offset(rng.range(0.0, 60.0)));
    model
}

pub fn rock(frame: &Frame, rng: &mut Rng) -> Model {
    let color = rgb(rng.pick(&[0x8a857c, 0x6f6c68, 0x9a8f7c, 0x5f5a55])) * rng.range(0.8, 1.15);
    let lumps = (0..3)
        .map(|i| {
            let r = rng.range(0.18, 0.38);
            let u = (i as f32 - 1.0) * 0.3;
            cone(frame, (u, 0.3 * r, 0.0), (u + rng.range(-0.1, 0.1), 0.7 * r, 0.0), r, 0.8 * r, color)
        })
        .collect();
    let mut model = Model::default();
    let paint = Paint::new(color).grain(0.14 * frame.size).offset(rng.range(0.0, 60.0));
    model.blob(lumps, 0.1 * frame.size, 0.09 * frame.size, paint);
    model
}

/// Posts and rails along `u`, `long` metres.
pub fn fence(frame: &Frame, long: f32, rng: &mut Rng) -> Model {
    let color = rgb(rng.pick(&[0x7a6048, 0xd9d4c8, 0x8c8478, 0x5a4632])) * rng.range(0.85, 1.1);
    let wood = Paint::new(color).grain(0.1);
    let mut model = Model::default();
    let posts = (long / 1.6) as usize;
    for i in 0..=posts {
        let u = -0.5 * long + 1.6 * i as f32;
        model.rod(frame.at(u, 0.0, 0.0), frame.at(u, 1.0, 0.0), 0.05 * frame.size, wood);
        if i < posts {
            for v in [0.45, 0.85] {
                model.rod(frame.at(u, v, 0.0), frame.at(u + 1.6, v, 0.0), 0.035 * frame.size, wood);
            }
        }
    }
    model
}

/// A reed bed: blades up from the water's edge.
pub fn reeds(frame: &Frame, rng: &mut Rng) -> Model {
    let mut model = Model::default();
    let base = rgb(rng.pick(&[0x6f7a3c, 0x8a8447, 0x54682f]));
    let blades: Vec<Cone> = (0..rng.between(10, 18))
        .map(|_| {
            let (u, w) = (rng.range(-0.5, 0.5), rng.range(-0.2, 0.2));
            let (tall, bend) = (rng.range(0.4, 1.0), rng.range(-0.2, 0.2));
            cone(frame, (u, 0.0, w), (u + bend, tall, w), 0.022, 0.005, base * rng.range(0.6, 1.3)).crisp()
        })
        .collect();
    model.blob(blades, 0.0, 0.0, Paint::new(base));
    model
}

/// A stack of crates or bales.
pub fn boxes(frame: &Frame, rng: &mut Rng) -> Model {
    let wood = rgb(rng.pick(&[0xa47c4c, 0x8c6a44, 0xc9a85f, 0x7f868c]));
    let paint = Paint::new(wood).texture(Texture::Boards, wood * 0.75, 0.1 * frame.size);
    let mut model = Model::default();
    let a = rng.range(0.3, 0.5);
    model.layer(0).block(frame, [-a, a, 0.0, 0.6 * a, -a, a], paint);
    if rng.chance(0.6) {
        model.layer(1).block(frame, [-0.6 * a, 0.5 * a, 0.6 * a, 1.1 * a, -0.5 * a, 0.5 * a], paint.dim(0.9));
    }
    model
}

/// A round straw bale.
pub fn bale(frame: &Frame, rng: &mut Rng) -> Model {
    let straw = rgb(0xc9a85f) * rng.range(0.8, 1.15);
    let r = 0.6;
    let mut model = Model::default();
    let paint = Paint::new(straw).texture(Texture::Wood, straw * 0.7, 0.05 * frame.size);
    model.blob(vec![cone(frame, (-0.3, r, 0.0), (0.3, r, 0.0), r, r, straw)], 0.0, 0.03, paint);
    model
}

/// A house front: wall, roof, door. `wide` and `high` in metres.
pub fn house(frame: &Frame, wide: f32, high: f32, rng: &mut Rng) -> Model {
    let walls = [0xd9cdb8, 0xb9785a, 0xe6e0d2, 0xa8b0b4, 0xc9a98a, 0x8f9a8a, 0xd8b890, 0x9a6a58];
    let wall = rgb(rng.pick(&walls)) * rng.range(0.85, 1.1);
    let glass = rgb(0x56697a);
    let storey = rng.range(2.6, 3.2);
    let half = 0.5 * wide;
    let paint = Paint::new(wall).texture(Texture::Facade, glass, storey).offset(rng.below(40) as f32);
    let mut model = Model::default();
    let inside = frame.at(0.0, 0.5 * high, 4.0);
    let quad = |u0: f32, u1: f32, v0: f32, v1: f32, w: f32| {
        [frame.at(u0, v0, w), frame.at(u1, v0, w), frame.at(u1, v1, w), frame.at(u0, v1, w)]
    };
    model.layer(0).side(&quad(-half, half, 0.0, high, 0.0), inside, paint);
    for u in [-half, half] {
        let end =
            [frame.at(u, 0.0, 0.0), frame.at(u, 0.0, 8.0), frame.at(u, high, 8.0), frame.at(u, high, 0.0)];
        model.side(&end, inside, Paint::new(wall * 0.9).texture(Texture::Bricks, wall * 0.7, 0.5));
    }
    let roof = rgb(rng.pick(&[0x8a4a38, 0x5a5a60, 0x6f4a3a, 0x4a4f55]));
    let slope = rng.range(0.6, 2.2);
    let eaves = [
        frame.at(-half - 0.2, high, -0.3),
        frame.at(half + 0.2, high, -0.3),
        frame.at(half, high + slope, 2.5),
        frame.at(-half, high + slope, 2.5),
    ];
    model.layer(1).sheet(&eaves, Paint::new(roof).texture(Texture::Bricks, roof * 0.7, 0.6));
    // Ground floor: shops and doors.
    let bays = (wide / 2.6) as usize;
    let trim = rgb(rng.pick(&[0x4a3326, 0x2f4a44, 0xe6e0d2, 0x6b2f2a, 0x2c3440]));
    for i in 0..bays {
        let u = -half + wide * (i as f32 + 0.5) / bays as f32;
        if rng.chance(0.15) {
            continue;
        }
        let door = rng.chance(0.35);
        let (w, low, top) = if door { (0.5, 0.0, 2.15) } else { (0.95, 0.55, 2.2) };
        let glass = Paint::new(rgb(0x222c33)).texture(Texture::Glass, rgb(0x7d8f9a), 1.6).gloss(0.4);
        let leaf =
            if door { Paint::new(trim.mix(wall, 0.3)).texture(Texture::Boards, trim, 0.25) } else { glass };
        model.layer(2).side(
            &quad(u - w - 0.1, u + w + 0.1, low - 0.1, top + 0.1, -0.02),
            inside,
            Paint::new(trim),
        );
        model.layer(3).side(&quad(u - w, u + w, low, top, -0.03), inside, leaf);
        if !door {
            model.layer(4).side(&quad(u - 0.03, u + 0.03, low, top, -0.04), inside, Paint::new(trim));
            if rng.chance(0.5) {
                let sign = Paint::new(rgb(rng.pick(&[0x8c2f2a, 0x2f5a6a, 0xd9b04a, 0x3a3a3e, 0x4a6b4a])));
                model.side(&quad(u - w - 0.15, u + w + 0.15, 2.35, 2.75, -0.05), inside, sign);
            }
        }
        if rng.chance(0.3) {
            let awning = Paint::new(rgb(rng.pick(&[0xb23a30, 0x3a6a5a, 0xd9b04a, 0x34506a])));
            let awning = awning.texture(Texture::Stripes, rgb(0xe9e4d8), 0.4);
            let cloth = [(-1.1, 2.6, -0.05), (1.1, 2.6, -0.05), (1.15, 2.2, -0.8), (-1.15, 2.2, -0.8)];
            model.layer(5).sheet(&cloth.map(|(k, v, w)| frame.at(u + k, v, w)), awning);
        }
    }
    model
}

/// A pole with a sign, a bollard or a bin.
pub fn post(frame: &Frame, rng: &mut Rng) -> Model {
    let mut model = Model::default();
    let s = frame.size;
    let grey = Paint::new(rgb(0x84888c)).gloss(0.2);
    match rng.below(3) {
        0 => {
            model.layer(0).rod(frame.at(0.0, 0.0, 0.0), frame.at(0.0, 2.4, 0.0), 0.035 * s, grey);
            let red = Paint::new(rgb(rng.pick(&[0xb8261c, 0x2558a0, 0xe0b52a])));
            let (u, v) = ((frame.way(0.27, 0.0, 0.0)), frame.way(0.0, 0.27, 0.0));
            model.layer(1).disc(frame.at(0.0, 2.2, -0.04), u, v, 0.0, red);
            model.layer(2).disc(
                frame.at(0.0, 2.2, -0.05),
                u * 0.62,
                v * 0.62,
                0.0,
                Paint::new(rgb(0xe9e6de)),
            );
        }
        1 => {
            let color = rgb(rng.pick(&[0x2f4a3a, 0x3a3d42, 0x55708a]));
            let bin = [(0.0, 0.2 * s), (0.8 * s, 0.25 * s), (0.82 * s, 0.28 * s), (0.95 * s, 0.2 * s)];
            model.lathe(frame.origin, &bin, &[], Paint::new(color).gloss(0.15));
            model.layer(1).plate(frame.at(0.0, 0.95, 0.0), 0.2 * s, Paint::new(color * 0.8));
        }
        _ => {
            let iron = Paint::new(rgb(0x2b2c2f)).gloss(0.2);
            let bollard = [
                (0.0, 0.12 * s),
                (0.1 * s, 0.08 * s),
                (0.7 * s, 0.07 * s),
                (0.8 * s, 0.1 * s),
                (0.9 * s, 0.02 * s),
            ];
            model.lathe(frame.origin, &bollard, &[], iron);
        }
    }
    model
}

/// Planks on piles that lead `long` metres out along `u`.
pub fn jetty(frame: &Frame, long: f32, rng: &mut Rng) -> Model {
    let wood = rgb(0x8a7760) * rng.range(0.8, 1.15);
    let paint = Paint::new(wood).texture(Texture::Boards, wood * 0.75, 0.18);
    let mut model = Model::default();
    for i in 0..4 {
        let u = -0.5 * long + long * (i as f32 + 0.5) / 4.0;
        for w in [-0.5, 0.5] {
            model.layer(0).rod(
                frame.at(u, 0.0, w),
                frame.at(u, 0.7, w),
                0.07 * frame.size,
                Paint::new(wood * 0.6),
            );
        }
    }
    model.layer(1).block(frame, [-0.5 * long, 0.5 * long, 0.38, 0.48, -0.55, 0.55], paint);
    model
}
