//! Roads in town and country, crossing the picture or leading into it.

use super::meadow::countryside;
use super::{Styles, share};
use crate::backdrop;
use crate::kind::Kind;
use crate::light::Light;
use crate::math::{Color, Vec3, rgb, sin_cos, smoothstep, vec3};
use crate::model::Frame;
use crate::noise::value;
use crate::paint::{Paint, Texture};
use crate::rng::Rng;
use crate::things::scenery;
use crate::world::{World, Zone};

/// A straight road: points lie `along` it and `beside` its middle (positive = far side).
#[derive(Clone, Copy, Debug)]
struct Road {
    middle: Vec3,
    turn: f32,
    way: Vec3,
    half: f32,
    /// Runs into the picture rather than across it.
    deep: bool,
}

impl Road {
    /// A road that leaves room for things `span` metres long, for a lens of the given strength.
    fn new(rng: &mut Rng, high: f32, lens: f32, span: f32) -> Self {
        let deep = rng.chance(0.35);
        let half = rng.range(2.8, 3.8);
        let away = (lens * span / 1.1).max(rng.range(3.0, 5.5) * high.max(1.4) / 1.6 + 0.5 * half);
        let (turn, middle) = if deep {
            (0.25 + rng.range(-0.05, 0.05), vec3(rng.range(-2.0, 2.0), 0.0, 0.0))
        } else if rng.chance(0.6) {
            (rng.range(-0.05, 0.05), vec3(0.0, 0.0, away + 0.5 * half))
        } else {
            // Across a corner of the picture.
            (rng.sign() * rng.range(0.06, 0.14), vec3(0.0, 0.0, 1.3 * away + 0.5 * half))
        };
        let (s, c) = sin_cos(turn);
        Self { middle, turn, way: vec3(c, 0.0, s), half, deep }
    }

    /// Where the lane `beside` the middle is seen `slope` metres to the right for each metre of depth.
    fn meet(&self, slope: f32, beside: f32) -> f32 {
        let lane = self.at(0.0, beside);
        let speed = self.way.x - slope * self.way.z;
        (slope * lane.z - lane.x) / if speed.abs() < 0.05 { 0.05 } else { speed }
    }

    fn at(&self, along: f32, beside: f32) -> Vec3 {
        self.middle + self.way * along + vec3(-self.way.z, 0.0, self.way.x) * beside
    }

    fn measure(&self, x: f32, z: f32) -> (f32, f32) {
        let d = vec3(x, 0.0, z) - self.middle;
        (d.dot(self.way), d.x * -self.way.z + d.z * self.way.x)
    }
}

pub fn street(size: (usize, usize), mut rng: Rng, town: bool) -> World {
    let (light, sky) = Light::outdoor(&mut rng);
    let (lens, horizon) = (rng.range(1.0, 1.4), rng.range(0.3, 0.48));
    let high = rng.range(1.4, 2.6);
    let mut world = World::new(size, rng, light, lens, horizon, high);
    let mut rng = world.rng.fork();
    let town_roles = [
        (Kind::Car, 3.0),
        (Kind::Bus, 3.0),
        (Kind::Truck, 2.0),
        (Kind::Bicycle, 2.2),
        (Kind::Dog, 0.6),
        (Kind::Plant, 0.4),
        (Kind::Umbrella, 0.3),
    ];
    let country_roles = [
        (Kind::Car, 2.5),
        (Kind::Truck, 2.0),
        (Kind::Bus, 1.8),
        (Kind::Bicycle, 1.6),
        (Kind::Cow, 1.6),
        (Kind::Sheep, 1.0),
        (Kind::Horse, 1.0),
    ];
    let cast = if town { world.cast(&town_roles) } else { world.cast(&country_roles) };
    world.kneel(cast[0], 0.6);
    let span = cast.iter().map(|kind| kind.measure().0).fold(0.0, f32::max);
    let road = Road::new(&mut rng, high, lens, span);
    if town {
        paint_town(&mut world, &sky, &road, &mut rng);
    } else {
        let leaves = scenery::foliage(&mut rng);
        countryside(&mut world, &sky, leaves, &mut rng, |_, _| 0.0);
        paint_road(&mut world, &road, false, &mut rng);
        verge(&mut world, &road, leaves, &mut rng);
    }
    let mut styles = Styles::new(&mut rng);
    for (i, kind) in cast.into_iter().enumerate() {
        let share = share(&mut rng, i);
        let (at, turn) = match place(&mut world, &road, kind, share, &mut rng) {
            Some(place) => place,
            None if i == 0 => middle(&mut world, &road, kind),
            None => continue,
        };
        let frame = Frame::new(at, turn, rng.range(0.9, 1.12));
        let mut style = styles.of(kind, &mut rng);
        world.put_styled(kind, frame, &mut style);
    }
    if town {
        kerbside(&mut world, &road, &mut rng);
    }
    world
}

/// A free spot: in a lane for vehicles, beside the road for everything else.
fn place(world: &mut World, road: &Road, kind: Kind, share: f32, rng: &mut Rng) -> Option<(Vec3, f32)> {
    let drives =
        matches!(kind, Kind::Car | Kind::Bus | Kind::Truck) || (kind == Kind::Bicycle && rng.chance(0.12));
    if !drives {
        // On this side of the road; grazing animals, or things where the road leads into the picture, anywhere.
        let grazes = matches!(kind, Kind::Cow | Kind::Sheep | Kind::Horse);
        let far = if grazes || road.deep { 30.0 } else { road.middle.z - road.half - 0.5 };
        let zone = Zone { near: 0.0, far, left: 0.08, right: 0.92 };
        let at = world.spot(kind, zone, share)?;
        return Some((at, super::heading(rng)));
    }
    let (span, tall) = kind.measure();
    // Seen end on, the height is what matters.
    let size = if road.deep { 1.35 * tall } else { (0.85 * span).max(tall) };
    let wish = world.camera.focal * size / (share * kind.closeness() * world.canvas.unit());
    for attempt in 0..14 {
        let lane = rng.sign();
        let beside = lane * 0.5 * road.half;
        let along = if road.deep {
            wish * rng.range(0.85, 1.3) + 0.5 * span
        } else {
            let column = rng.range(0.12, 0.88) * world.canvas.width as f32;
            road.meet(world.camera.across(column, 1.0), beside)
        };
        let at = road.at(along, beside);
        let (x, y) = world.camera.project(at);
        let low = if span > 3.0 { 1.05 } else { 0.96 };
        let shown =
            (0.02..0.98).contains(&(x / world.canvas.width as f32)) && y < world.canvas.height as f32 * low;
        if at.z > 0.6 * span && at.z < 60.0 && shown && world.claim(at, 0.34 * span, attempt > 8) {
            // Traffic keeps to its side.
            let flip = if lane > 0.0 { 0.5 } else { 0.0 };
            return Some((at, road.turn + flip + rng.range(-0.015, 0.015)));
        }
    }
    None
}

/// Where the main subject stands if the road has no room for it: in the middle of the picture.
fn middle(world: &mut World, road: &Road, kind: Kind) -> (Vec3, f32) {
    let (span, tall) = kind.measure();
    let z = (world.camera.focal * span.max(1.3 * tall) / (0.6 * world.canvas.unit())).max(1.2 * span);
    let at = vec3(0.0, 0.0, z);
    world.claim(at, 0.34 * span, true);
    (at, road.turn)
}

fn paint_town(world: &mut World, sky: &crate::light::Sky, road: &Road, rng: &mut Rng) {
    {
        let World { canvas, camera, light, .. } = world;
        backdrop::sky(canvas, camera, light, sky, rng);
        let haze = rgb(0x8f959c);
        backdrop::ridge(
            canvas,
            camera,
            light,
            backdrop::Ridge::Hills,
            haze,
            (0.1, 90.0, camera.horizon + 1.5),
            rng,
        );
        let stone = rgb(rng.pick(&[0xa8a49c, 0x9a9690, 0xb9ae9c]));
        let slabs = Paint::new(stone).texture(Texture::Tiles, stone * 0.7, rng.range(0.5, 0.9));
        backdrop::ground(canvas, camera, light, |x, z, foot| {
            let (along, beside) = road.measure(x, z);
            slabs.sample(along, beside, foot * (1.0 + 0.4 * z))
        });
    }
    paint_road(world, road, true, rng);
    let pavement = rng.range(2.4, 4.0);
    let rows: &[f32] = if road.deep { &[1.0, -1.0] } else { &[1.0] };
    for &side in rows {
        let mut along = if road.deep { 1.0 } else { -40.0 };
        let end = if road.deep { 70.0 } else { 40.0 };
        while along < end {
            let wide = rng.range(6.0, 12.0);
            let origin = road.at(along + 0.5 * wide, side * (road.half + pavement));
            let turn = if side > 0.0 { road.turn } else { road.turn + 0.5 };
            let frame = Frame::new(origin, turn, 1.0);
            along += wide + if rng.chance(0.2) { rng.range(1.0, 4.0) } else { 0.0 };
            if origin.z - 0.5 * wide * road.way.z.abs() > if road.deep { -1.0 } else { 4.0 } {
                let house = scenery::house(&frame, wide, rng.range(5.0, 11.0), rng);
                world.house(house, frame);
            }
        }
    }
}

fn paint_road(world: &mut World, road: &Road, town: bool, rng: &mut Rng) {
    let World { canvas, camera, light, .. } = world;
    let asphalt = rgb(rng.pick(&[0x55565a, 0x626264, 0x4a4b50, 0x6f6a64]));
    let dirt = !town && rng.chance(0.25);
    let asphalt: Color = if dirt { rgb(0x9a8262) } else { asphalt };
    let lit = light.sky + light.sun * (light.to_sun.y * 0.88 + 0.12);
    let line = rgb(0xe6e3da);
    let shift = rng.range(0.0, 60.0);
    let dashed = rng.chance(0.7);
    let first = (camera.horizon + 0.5).max(0.0) as usize;
    for y in first.min(canvas.height)..canvas.height {
        let z = camera.ground_depth(y as f32 + 0.5);
        let foot = z / camera.focal;
        for x in 0..canvas.width {
            let wx = camera.across(x as f32 + 0.5, z);
            let (along, beside) = road.measure(wx, z);
            let ragged = if town { 0.0 } else { 0.35 * (value(along * 0.7 + shift, beside) - 0.5) };
            let edge = beside.abs() - road.half + ragged;
            // The pixel's footprint across the road: long where the road crosses the view.
            let blur = foot * (1.0 + road.way.x.abs() * z / camera.height);
            let cover = smoothstep(0.5 * blur, -0.5 * blur, edge);
            let kerb = if town { smoothstep(0.3 + blur, 0.15, edge) } else { 0.0 };
            if cover <= 0.0 && kerb <= 0.0 {
                continue;
            }
            let mut color = backdrop::grit(asphalt, 0.06, wx, z, foot);
            if dirt {
                let rut = ((beside.abs() - 0.8).abs() / 0.4).min(1.0);
                color = color * (0.8 + 0.25 * rut);
            } else {
                let mark = |at: f32| {
                    smoothstep(0.5 * blur + 0.07, 0.07 - 0.5 * blur.min(0.1), (beside - at).abs())
                        * (0.14 / blur).min(1.0)
                };
                let dash = if dashed && (along * 0.25).fract().abs() > 0.5 { 0.0 } else { 1.0 };
                let paint = (mark(0.0) * dash).max(mark(road.half - 0.25)).max(mark(0.25 - road.half));
                color = color.mix(line, 0.8 * paint);
            }
            if kerb > 0.0 {
                let stone = light.through_haze(rgb(0xb5b1a8).tint(lit) * 0.9, z);
                canvas.blend(x, y, stone, kerb, 1.0, None);
            }
            canvas.blend(x, y, light.through_haze(color.tint(lit), z), cover, 1.0, None);
        }
    }
}

fn verge(world: &mut World, road: &Road, leaves: Color, rng: &mut Rng) {
    for _ in 0..rng.between(1, 5) {
        let along = if road.deep { rng.range(8.0, 40.0) } else { rng.range(-12.0, 12.0) };
        let beside = if road.deep { rng.sign() } else { 1.0 } * (road.half + rng.range(2.0, 9.0));
        let frame = Frame::new(road.at(along, beside), 0.0, rng.range(0.8, 1.4));
        let green = leaves * rng.range(0.8, 1.2);
        let model = if rng.chance(0.6) {
            scenery::tree(&frame, green, rng)
        } else {
            scenery::bush(&frame, green, rng)
        };
        world.prop(model, frame);
    }
    if rng.chance(0.35) {
        let frame = Frame::new(road.at(if road.deep { 14.0 } else { 0.0 }, road.half + 1.2), road.turn, 1.0);
        let model = scenery::fence(&frame, 24.0, rng);
        world.prop(model, frame);
    }
}

/// Trees, signs, bins and bollards on the pavement.
fn kerbside(world: &mut World, road: &Road, rng: &mut Rng) {
    let leaves = scenery::foliage(rng);
    for _ in 0..rng.between(0, 4) {
        let along = if road.deep { rng.range(5.0, 30.0) } else { rng.range(-9.0, 9.0) };
        let side = if road.deep { rng.sign() } else { 1.0 };
        let at = road.at(along, side * (road.half + 0.9));
        if world.claim(at, 0.35, false) {
            let frame = Frame::new(at, 0.0, rng.range(0.8, 1.1));
            let model =
                if rng.chance(0.4) { scenery::tree(&frame, leaves, rng) } else { scenery::post(&frame, rng) };
            world.prop(model, frame);
        }
    }
}
