//! A scene while it is being composed: the place, and the things in it.

use crate::camera::Camera;
use crate::canvas::{Canvas, Film};
use crate::kind::Kind;
use crate::light::Light;
use crate::math::Vec3;
use crate::model::{Frame, Model, Shape};
use crate::render::{Painter, ShadowMask};
use crate::rng::Rng;
use crate::things::{self, Whereabouts};
use protoseg_core::{IdMap, Image};

pub struct World {
    pub canvas: Canvas,
    pub camera: Camera,
    pub light: Light,
    pub rng: Rng,
    film: Film,
    outdoors: bool,
    /// Depth of the wall that ends the floor.
    pub wall: f32,
    backdrops: Vec<Model>,
    items: Vec<Item>,
    taken: Vec<Taken>,
}

struct Item {
    model: Model,
    label: u8,
    depth: f32,
    /// Height of the plane it stands on.
    ground: f32,
    /// The item it stands on.
    on: Option<usize>,
    afloat: bool,
    shadow: bool,
    frame: Frame,
}

/// The ground and the picture width that a thing already occupies.
struct Taken {
    at: Vec3,
    radius: f32,
    left: f32,
    right: f32,
}

/// Where on the ground things may go: depths in metres, columns as shares of the width.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    pub near: f32,
    pub far: f32,
    pub left: f32,
    pub right: f32,
}

/// A thing wider than this share of the picture (the root of its area) would not fit into it.
const LARGEST: f32 = 0.85;

impl World {
    /// An empty world seen by a camera `height` metres above ground; `horizon` is a share of the picture's height.
    pub fn new(
        size: (usize, usize),
        mut rng: Rng,
        light: Light,
        lens: f32,
        horizon: f32,
        height: f32,
    ) -> Self {
        let canvas = Canvas::new(size.0, size.1);
        let camera = Camera {
            focal: lens * canvas.unit(),
            cx: size.0 as f32 / 2.0,
            horizon: horizon * size.1 as f32,
            height,
            near: height * 0.2,
        };
        let film = Film::random(&mut rng);
        // Only open air has haze.
        let outdoors = light.haze > 0.0;
        Self {
            canvas,
            camera,
            light,
            rng,
            film,
            outdoors,
            wall: 1e6,
            backdrops: Vec::new(),
            items: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Draws the classes of this scene, its main subject first, with a group of each.
    pub fn cast(&mut self, roles: &[(Kind, f32)]) -> Vec<Kind> {
        let many = 1 + self.rng.weighted([0.27, 0.37, 0.26, 0.1].into_iter());
        let mut left = roles.to_vec();
        let mut cast: Vec<Kind> = Vec::new();
        for _ in 0..many.min(roles.len()) {
            let (kind, _) = left.remove(self.rng.weighted(left.iter().map(|role| role.1)));
            let (low, high) = kind.company();
            let high = if cast.is_empty() { high } else { high.div_ceil(2).max(low) };
            for _ in 0..self.rng.between(low, high).min(7 - cast.len()) {
                cast.push(kind);
            }
        }
        cast
    }

    /// Lowers the camera, as a photographer kneels before a dog, until `kind` can be large in the picture with its
    /// feet still visible. Must be called before anything is painted.
    pub fn kneel(&mut self, kind: Kind, lowest: f32) {
        let (span, tall) = kind.measure();
        let below = (0.97 * self.canvas.height as f32 - self.camera.horizon) / self.canvas.unit();
        let high = below * (0.85 * span).max(tall) / (0.6 * kind.closeness()).min(LARGEST);
        self.camera.height = self.camera.height.min(high.max(lowest));
        self.camera.near = 0.2 * self.camera.height;
    }

    /// A free place in `zone` where the thing takes about `share` of the picture. The first thing always finds one.
    pub fn spot(&mut self, kind: Kind, zone: Zone, share: f32) -> Option<Vec3> {
        let (span, tall) = kind.measure();
        let size = (0.85 * span).max(tall);
        let near = zone.near.max(self.camera.ground_depth(self.canvas.height as f32 * 0.97));
        for attempt in 0..16 {
            let share = (share * kind.closeness()).min(LARGEST) * (1.0 - 0.03 * attempt as f32);
            let wish = self.camera.focal * size / (share * self.canvas.unit());
            let z = (wish * self.rng.range(0.9, 1.15)).clamp(near, zone.far.max(near));
            let column = self.rng.range(zone.left, zone.right) * self.canvas.width as f32;
            let at = Vec3 { x: self.camera.across(column, z), y: 0.0, z };
            if self.claim(at, 0.36 * span, attempt > 8) {
                return Some(at);
            }
        }
        None
    }

    /// Takes the ground around `at` if it is free and the thing would not hide most of another.
    pub fn claim(&mut self, at: Vec3, radius: f32, crowded: bool) -> bool {
        let (x, _) = self.camera.project(at);
        let half = radius * 1.15 * self.camera.scale(at.z);
        let (left, right) = (x - half, x + half);
        let limit = if crowded { 0.6 } else { 0.35 };
        let free = self.taken.iter().all(|t| {
            let way = t.at - at;
            let common = (right.min(t.right) - left.max(t.left)).max(0.0);
            way.length() > 1.05 * (t.radius + radius) && common < limit * (right - left).min(t.right - t.left)
        });
        if free {
            self.taken.push(Taken { at, radius, left, right });
        }
        free
    }

    /// Adds a thing on the ground and returns its number.
    pub fn put(&mut self, kind: Kind, frame: Frame) -> usize {
        let mut rng = self.rng.fork();
        self.put_styled(kind, frame, &mut rng)
    }

    /// As [`World::put`], with its looks drawn from `style`: the same stream gives the same looks in another pose.
    pub fn put_styled(&mut self, kind: Kind, frame: Frame, style: &mut Rng) -> usize {
        let mut pose = self.rng.fork();
        let place = if self.outdoors { Whereabouts::Outdoors } else { Whereabouts::Indoors };
        let model = things::build(kind, &frame, place, (style, &mut pose), &mut self.light);
        self.add(model, kind as u8, frame)
    }

    /// Adds a thing that swims.
    pub fn float(&mut self, kind: Kind, frame: Frame, style: &mut Rng) {
        let mut pose = self.rng.fork();
        let model = things::build(kind, &frame, Whereabouts::Afloat, (style, &mut pose), &mut self.light);
        let number = self.add(model, kind as u8, frame);
        self.items[number].afloat = true;
    }

    /// Adds a thing whose model the caller made.
    pub fn put_model(&mut self, model: Model, kind: Kind, frame: Frame) -> usize {
        self.add(model, kind as u8, frame)
    }

    /// Adds a thing that stands on item `below`, `frame.origin.y` above the ground.
    pub fn put_on(&mut self, below: usize, kind: Kind, frame: Frame) {
        let number = self.put(kind, frame);
        self.items[number].on = Some(below);
    }

    /// Adds something of the background: a tree, a rock, a fence.
    pub fn prop(&mut self, model: Model, frame: Frame) -> usize {
        self.add(model, 0, frame)
    }

    /// Adds a house or similar: it stands behind everything else, and its shadow falls elsewhere.
    pub fn house(&mut self, model: Model, frame: Frame) {
        let number = self.add(model, 0, frame);
        self.items[number].shadow = false;
        self.items[number].depth += 1000.0;
    }

    /// Adds walls, floors and whatever hangs or lies flat on them: drawn first, under every shadow.
    pub fn backdrop(&mut self, mut model: Model) {
        model.sort();
        self.backdrops.push(model);
    }

    fn add(&mut self, mut model: Model, label: u8, frame: Frame) -> usize {
        model.sort();
        self.items.push(Item {
            model,
            label,
            depth: frame.origin.z,
            ground: frame.origin.y,
            on: None,
            afloat: false,
            shadow: true,
            frame,
        });
        self.items.len() - 1
    }

    /// Paints everything that was added and develops the picture.
    pub fn finish(mut self) -> (Image, IdMap) {
        for model in std::mem::take(&mut self.backdrops) {
            self.painter(0.0, 0.0).draw(&model);
        }
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by(|&a, &b| self.items[b].depth.total_cmp(&self.items[a].depth));
        self.shade_ground(0.0, None, &|item| item.on.is_none() && item.ground == 0.0 && !item.afloat);
        for &i in &order {
            if self.items[i].on.is_some() {
                continue;
            }
            self.paint(i);
            let riders: Vec<usize> = order.iter().copied().filter(|&k| self.items[k].on == Some(i)).collect();
            if let Some(&first) = riders.first() {
                let (plane, label) = (self.items[first].ground, self.items[i].label);
                self.shade_ground(plane, Some(label), &|item| item.on == Some(i));
            }
            for rider in riders {
                self.paint(rider);
            }
        }
        self.canvas.develop(&self.film)
    }

    fn shade_ground(&mut self, plane: f32, only: Option<u8>, of: &dyn Fn(&Item) -> bool) {
        let mut mask = ShadowMask::new(&self.canvas, &self.camera, &self.light, (plane, self.wall));
        for item in self.items.iter().filter(|item| item.shadow && of(item)) {
            mask.cast(&self.canvas, &item.model);
            if let Some((a, b, radius)) = item.footprint() {
                mask.touch(&self.canvas, a, b, radius);
            }
        }
        mask.apply(&mut self.canvas, only);
    }

    fn painter(&mut self, ground: f32, tall: f32) -> Painter<'_> {
        Painter {
            canvas: &mut self.canvas,
            camera: &self.camera,
            light: &self.light,
            label: None,
            ground,
            nook: 0.3 * tall,
            ripple: None,
            sunk: false,
        }
    }

    fn paint(&mut self, i: usize) {
        let item = &self.items[i];
        let (label, afloat) = (item.label, item.afloat);
        let (ground, top) = (item.ground, item.top());
        let model = std::mem::take(&mut self.items[i].model);
        let mut painter = self.painter(ground, (top - ground).max(1e-3));
        if afloat {
            painter.sunk = true;
            painter.ripple = Some(painter.canvas.unit() * 0.012);
            painter.draw_mirrored(&model);
            painter.ripple = None;
        }
        painter.label = Some(label);
        painter.draw(&model);
    }
}

impl Item {
    /// Corners of the geometry with the radius around each.
    fn corners(&self) -> impl Iterator<Item = (Vec3, f32)> + '_ {
        self.model.parts.iter().flat_map(|part| match &part.shape {
            Shape::Face { points, .. } => points.iter().map(|p| (*p, 0.0)).collect::<Vec<_>>(),
            Shape::Blob { cones, .. } => cones.iter().flat_map(|c| [(c.a, c.ra), (c.b, c.rb)]).collect(),
            Shape::Lathe { base, profile, .. } => {
                profile.iter().map(|(h, r)| (*base + Vec3 { x: 0.0, y: *h, z: 0.0 }, *r)).collect()
            }
            Shape::Disc { center, u, v, .. } => vec![(*center, u.length().max(v.length()))],
        })
    }

    fn top(&self) -> f32 {
        self.corners().fold(self.ground, |top, (p, _)| top.max(p.y))
    }

    /// The rod on the ground that the lowest part of the thing covers.
    fn footprint(&self) -> Option<(Vec3, Vec3, f32)> {
        let low = self.ground + 0.12 * (self.top() - self.ground);
        let (mut back, mut front, mut left, mut right) = (f32::MAX, f32::MIN, f32::MAX, f32::MIN);
        for (p, r) in self.corners().filter(|(p, r)| p.y - 0.6 * r <= low) {
            let way = p - self.frame.origin;
            let (u, w) = (way.dot(self.frame.forward), way.dot(self.frame.side));
            (back, front) = (back.min(u - r), front.max(u + r));
            (left, right) = (left.min(w - r), right.max(w + r));
        }
        if back >= front {
            return None;
        }
        let radius = 0.5 * (right - left).min(front - back);
        let point =
            |u: f32| self.frame.origin + self.frame.forward * u + self.frame.side * (0.5 * (left + right));
        let slack = (0.5 * (front - back) - radius).max(0.0);
        let middle = 0.5 * (front + back);
        Some((point(middle - slack), point(middle + slack), radius * 1.1))
    }
}
