//! Cups, bottles and bowls.

use crate::math::{Color, Vec3, mix, rgb, sin_cos};
use crate::model::{Cone, Frame, Model, cone};
use crate::paint::{Paint, Texture};
use crate::rng::Rng;

const GLAZES: [u32; 13] = [
    0xeeebe3, 0xf2f0ea, 0xd9cdb6, 0x3f6f9a, 0xb7483a, 0x4f7f63, 0xe0ae3f, 0x2b2c30, 0x8fb0b8, 0xd98a7a,
    0x7c5c86, 0x9aa07c, 0x34506a,
];

fn scaled(profile: &[(f32, f32)], s: f32) -> Vec<(f32, f32)> {
    profile.iter().map(|(h, r)| (h * s, r * s)).collect()
}

/// Glaze with a random decor of bands, stripes or blotches.
fn glazed(rng: &mut Rng, s: f32) -> Paint {
    let color = rgb(rng.pick(&GLAZES)) * rng.range(0.85, 1.05);
    let second = rgb(rng.pick(&GLAZES));
    let paint = Paint::new(color).gloss(rng.range(0.2, 0.6));
    match rng.below(7) {
        0 => paint.texture(Texture::Stripes, second, rng.range(0.02, 0.05) * s),
        1 => paint.texture(Texture::Patches(rng.range(0.3, 0.5)), second, 0.03 * s),
        2 => paint.texture(Texture::Checks, second, rng.range(0.02, 0.04) * s),
        _ => paint,
    }
}

fn band(rng: &mut Rng, top: f32, s: f32) -> Vec<(f32, f32, Color)> {
    let color = rgb(rng.pick(&GLAZES));
    match rng.below(4) {
        0 => vec![(0.88 * top * s, top * s, color)],
        1 => vec![(0.3 * top * s, 0.62 * top * s, color)],
        2 => vec![(0.0, 0.4 * top * s, color)],
        _ => Vec::new(),
    }
}

/// Opens the vessel: the inner wall seen beyond the rim, and the contents.
fn opening(
    model: &mut Model,
    frame: &Frame,
    high: f32,
    r: f32,
    inner: Color,
    content: Option<(f32, f32, Color)>,
) {
    let s = frame.size;
    model.layer(0).plate(frame.at(0.0, high, 0.0), r * s, Paint::new(inner));
    model.layer(1).plate(frame.at(0.0, high - 0.004, 0.0), r * 0.92 * s, Paint::new(inner * 0.55));
    if let Some((level, width, color)) = content {
        model.layer(2).plate(frame.at(0.0, level, 0.0), width * s, Paint::new(color).gloss(0.2));
    }
}

/// Mugs, tea cups with saucers, espresso cups and paper cups.
pub fn cup(frame: &Frame, rng: &mut Rng) -> Model {
    let s = frame.size;
    let mut model = Model::default();
    let style = rng.below(6);
    let high = match style {
        0..=2 => rng.range(0.085, 0.115),
        5 => rng.range(0.11, 0.14),
        _ => rng.range(0.055, 0.075),
    };
    let wide = match style {
        0..=2 => rng.range(0.038, 0.047),
        5 => rng.range(0.04, 0.046),
        _ => rng.range(0.042, 0.056),
    };
    let profile: Vec<(f32, f32)> = match style {
        0 | 1 => vec![(0.0, 0.93 * wide), (0.006, wide), (high, wide)],
        2 => vec![
            (0.0, 0.7 * wide),
            (0.25 * high, 1.05 * wide),
            (0.6 * high, 1.08 * wide),
            (high, 0.95 * wide),
        ],
        5 => vec![(0.0, 0.72 * wide), (high, wide)],
        _ => vec![(0.0, 0.5 * wide), (0.08 * high, 0.52 * wide), (0.4 * high, 0.85 * wide), (high, wide)],
    };
    let paint = if style == 5 { Paint::new(rgb(0xefe9dd)).gloss(0.05) } else { glazed(rng, s) };
    let bands = if style == 5 {
        vec![(0.25 * high * s, 0.72 * high * s, rgb(rng.pick(&[0x8a5a34, 0x3f6b4c, 0xb5432f, 0x2c3440])))]
    } else {
        band(rng, high, s)
    };
    let rim = profile[profile.len() - 1].1;
    if (3..5).contains(&style) || (style < 3 && rng.chance(0.15)) {
        saucer(&mut model, frame, rng, wide);
    }
    let lifted = frame.child(0.0, if (3..5).contains(&style) { 0.012 } else { 0.0 }, 0.0, 0.0, 1.0);
    if style == 5 {
        lid(&mut model, &lifted, high, rim, rng);
    } else {
        let drink = rgb(rng.pick(&[0x2a160c, 0x6b4428, 0x8a4a1c, 0xd9c9b0, 0x5a1c14]));
        let inner = if rng.chance(0.5) { rgb(0xf0ede4) } else { paint.color };
        opening(&mut model, &lifted, high, rim, inner, Some((high - 0.022, 0.86 * rim, drink)));
        handle(&mut model, &lifted, (0.3 * high, 0.8 * high), wide, paint.color);
    }
    model.layer(3).lathe(lifted.origin, &scaled(&profile, s), &bands, paint);
    model
}

fn saucer(model: &mut Model, frame: &Frame, rng: &mut Rng, wide: f32) {
    let s = frame.size;
    let color = rgb(rng.pick(&[0xf0ede4, 0xe9e4d6, 0xd2dde0]));
    let r = wide * rng.range(1.55, 1.8);
    model.layer(-2).lathe(
        frame.origin,
        &[(0.0, 0.6 * r * s), (0.014 * s, r * s)],
        &[],
        Paint::new(color).gloss(0.3),
    );
    model.layer(-1).plate(frame.at(0.0, 0.014, 0.0), r * s, Paint::new(color * 0.95).gloss(0.2));
    model.plate(frame.at(0.0, 0.013, 0.0), r * 0.62 * s, Paint::new(color * 0.82));
}

fn lid(model: &mut Model, frame: &Frame, high: f32, rim: f32, rng: &mut Rng) {
    let s = frame.size;
    let color = rgb(rng.pick(&[0xf1efe8, 0x26211e]));
    let paint = Paint::new(color).gloss(0.2);
    model.layer(4).lathe(
        frame.at(0.0, high - 0.004, 0.0),
        &[(0.0, rim * 1.06 * s), (0.012 * s, rim * 0.98 * s)],
        &[],
        paint,
    );
    model.layer(5).plate(frame.at(0.0, high + 0.008, 0.0), rim * 0.98 * s, paint.dim(0.95));
    model.plate(frame.at(0.0, high + 0.009, 0.0), rim * 0.78 * s, paint.dim(0.8));
}

/// A half ring on the side the frame faces.
fn handle(model: &mut Model, frame: &Frame, (low, high): (f32, f32), wide: f32, color: Color) {
    let mut cones: Vec<Cone> = Vec::new();
    let (mid, half) = (0.5 * (low + high), 0.5 * (high - low));
    let at = |k: usize| {
        let (s, c) = sin_cos(-0.25 + 0.5 * k as f32 / 10.0);
        (0.95 * wide + 0.95 * half * c, mid + half * s, 0.0)
    };
    for k in 0..10 {
        cones.push(cone(frame, at(k), at(k + 1), 0.0065, 0.0065, color));
    }
    model.layer(if frame.forward.z < 0.0 { 4 } else { -1 });
    model.blob(cones, 0.008 * frame.size, 0.0, Paint::new(color).gloss(0.4));
}

/// Wine, beer, milk, water and sauce bottles.
pub fn bottle(frame: &Frame, rng: &mut Rng) -> Model {
    let s = frame.size;
    let r = rng.range(0.033, 0.044);
    let high = rng.range(0.23, 0.32);
    let neck = rng.range(0.011, 0.016);
    let style = rng.below(5);
    let (shoulder, throat) = match style {
        0 => (0.62, 0.72),
        1 => (0.45, 0.72),
        2 => (0.6, 0.78),
        3 => (0.68, 0.9),
        _ => (0.55, 0.85),
    };
    let high = if style == 3 { high * 0.8 } else { high };
    let mid = mix(r, neck, 0.45);
    let profile = [
        (0.0, 0.9 * r),
        (0.01, r),
        (shoulder * high, r * if style == 4 { 0.85 } else { 1.0 }),
        (mix(shoulder, throat, 0.5) * high, mid * if style == 2 { 1.25 } else { 1.05 }),
        (throat * high, neck),
        (0.95 * high, neck),
        (0.955 * high, neck * 1.25),
        (high, neck * 1.2),
    ];
    let (glass, alpha) = match style {
        3 => (rng.pick(&[0xe9eef0, 0xf1efe6, 0xcfe3ea]), 0.75),
        4 => (rng.pick(&[0xb3271e, 0xd9a82c, 0x4b2a1c, 0xe4e0d2]), 1.0),
        _ => (rng.pick(&[0x1f4a2a, 0x2c5a34, 0x55301a, 0x1d2226, 0x9fc3c9, 0x6f8f5a, 0x2e4f7a]), 0.93),
    };
    let glass = rgb(glass) * rng.range(0.85, 1.2);
    let label = rgb(rng.pick(&[0xf0ead8, 0xe0d2ae, 0x9c2f28, 0x27415c, 0x1f1f20, 0xd9b145]));
    let cap = rgb(rng.pick(&[0x8c2a24, 0x22262a, 0xc7a64a, 0x2c5a8a, 0xd9d5ca, 0xb08a5a]));
    let mut bands = Vec::new();
    if rng.chance(0.75) {
        let (a, b) = (rng.range(0.1, 0.2), rng.range(0.36, 0.5));
        bands.push((a * high * s, b * high * s, label));
        let (c, d) = (mix(a, b, 0.3), mix(a, b, 0.55));
        bands.push((c * high * s, d * high * s, label * 0.35));
    }
    bands.push((rng.range(0.82, 0.93) * high * s, high * s, cap));
    let mut model = Model::default();
    model.layer(0).lathe(
        frame.origin,
        &scaled(&profile, s),
        &bands,
        Paint::new(glass).gloss(0.9).alpha(alpha),
    );
    model.layer(1).plate(frame.at(0.0, high, 0.0), neck * 1.2 * s, Paint::new(cap));
    model
}

/// Fruit bowls, soup bowls, deep and shallow.
pub fn bowl(frame: &Frame, rng: &mut Rng) -> Model {
    let s = frame.size;
    let r = rng.range(0.075, 0.13);
    let high = r * rng.range(0.5, 0.85);
    let foot = r * rng.range(0.35, 0.5);
    let profile = match rng.below(3) {
        0 => {
            vec![(0.0, foot), (0.06 * high, foot), (0.3 * high, 0.72 * r), (0.65 * high, 0.93 * r), (high, r)]
        }
        1 => vec![(0.0, foot), (high, r)],
        _ => vec![
            (0.0, 0.8 * foot),
            (0.15 * high, 0.5 * foot),
            (0.3 * high, 0.6 * r),
            (0.6 * high, 0.9 * r),
            (high, r),
        ],
    };
    let wooden = rng.chance(0.2);
    let paint = if wooden {
        Paint::new(rgb(0x9a6a3c)).texture(Texture::Wood, rgb(0x7a4e2a), 0.02 * s).gloss(0.15)
    } else {
        glazed(rng, s)
    };
    let bands = if wooden { Vec::new() } else { band(rng, high, s) };
    let inner = if rng.chance(0.5) { paint.color } else { rgb(0xefece4) };
    let mut model = Model::default();
    match rng.below(4) {
        0 => opening(&mut model, frame, high, r, inner, None),
        1 => {
            let soup = rgb(rng.pick(&[0xb5471f, 0xc9a24a, 0x6f7f3a, 0xe4dcc6]));
            opening(&mut model, frame, high, r, inner, Some((high * 0.8, 0.9 * r, soup)));
        }
        _ => {
            opening(&mut model, frame, high, r, inner, None);
            fruit(&mut model, frame, r, high, rng);
        }
    }
    model.layer(5).lathe(frame.origin, &scaled(&profile, s), &bands, paint);
    model
}

fn fruit(model: &mut Model, frame: &Frame, r: f32, high: f32, rng: &mut Rng) {
    let colors = [0xb92b22, 0xd98324, 0x7f9a2e, 0xd9b93a, 0x8a2f4a, 0xc24a2a];
    let one = rgb(rng.pick(&colors));
    let mixed = rng.chance(0.6);
    let many = rng.between(4, 7);
    let mut cones: Vec<Cone> = Vec::new();
    for i in 0..many {
        let (sin, cos) = sin_cos(i as f32 / many as f32 + 0.07);
        let ball = r * rng.range(0.3, 0.4);
        let out = r * 0.5;
        let color = if mixed { rgb(rng.pick(&colors)) } else { one } * rng.range(0.85, 1.15);
        let at = (out * cos, high * 0.95, out * sin);
        cones.push(cone(frame, at, at, ball, ball, color).crisp());
    }
    let top = (0.0, high + 0.28 * r, 0.0);
    cones.push(cone(frame, top, top, 0.36 * r, 0.36 * r, rgb(rng.pick(&colors))).crisp());
    model.layer(3).blob(cones, 0.0, 0.0, Paint::new(one).gloss(0.25));
}

/// A loose fruit on the table. It is background, unlike fruit in bowls.
pub fn loose_fruit(at: Vec3, s: f32, rng: &mut Rng) -> Model {
    let color = rgb(rng.pick(&[0xb92b22, 0xd98324, 0x7f9a2e, 0xd9b93a]));
    let r = rng.range(0.03, 0.042) * s;
    let center = Vec3 { y: at.y + r, ..at };
    let mut model = Model::default();
    model.blob(
        vec![Cone { a: center, b: center, ra: r, rb: r, color, soft: 0.0 }],
        0.0,
        0.0,
        Paint::new(color).gloss(0.3),
    );
    model
}
