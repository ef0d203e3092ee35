//! The places of the world. Each one decides on camera, light and ground, and on what may be found there.

mod beach;
mod counter;
mod dining;
mod lake;
mod living;
mod meadow;
mod room;
mod street;
mod terrace;

use crate::kind::Kind;
use crate::rng::Rng;
use crate::world::World;

/// The places, in arbitrary order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Lake,
    Beach,
    Meadow,
    Street,
    Country,
    Living,
    Dining,
    Counter,
    Terrace,
}

const SHARES: [(Setting, f32); 9] = [
    (Setting::Lake, 1.9),
    (Setting::Beach, 0.9),
    (Setting::Meadow, 1.6),
    (Setting::Street, 1.6),
    (Setting::Country, 0.9),
    (Setting::Living, 1.6),
    (Setting::Dining, 0.9),
    (Setting::Counter, 1.5),
    (Setting::Terrace, 1.0),
];

impl Setting {
    pub fn draw(rng: &mut Rng) -> Self {
        SHARES[rng.weighted(SHARES.iter().map(|share| share.1))].0
    }

    /// The scene, ready to be painted.
    pub fn build(self, size: (usize, usize), rng: Rng) -> World {
        match self {
            Self::Lake => lake::lake(size, rng),
            Self::Beach => beach::beach(size, rng),
            Self::Meadow => meadow::meadow(size, rng),
            Self::Street => street::street(size, rng, true),
            Self::Country => street::street(size, rng, false),
            Self::Living => living::living(size, rng),
            Self::Dining => dining::dining(size, rng),
            Self::Counter => counter::counter(size, rng),
            Self::Terrace => terrace::terrace(size, rng),
        }
    }
}

/// The share of the picture for thing `i` of a cast: the first is the scene's main subject.
fn share(rng: &mut Rng, i: usize) -> f32 {
    if i == 0 { rng.range(0.5, 0.9) } else { rng.range(0.3, 0.6) }
}

/// Mostly a side view, sometimes any other.
fn heading(rng: &mut Rng) -> f32 {
    let side = if rng.chance(0.5) { 0.0 } else { 0.5 };
    if rng.chance(0.7) { side + rng.range(-0.1, 0.1) } else { rng.unit() }
}

/// Streams for looks: things of one kind in one scene often look alike.
struct Styles {
    alike: bool,
    seen: Vec<(Kind, Rng)>,
}

impl Styles {
    fn new(rng: &mut Rng) -> Self {
        Self { alike: rng.chance(0.4), seen: Vec::new() }
    }

    fn of(&mut self, kind: Kind, rng: &mut Rng) -> Rng {
        let fresh = rng.fork();
        if !self.alike {
            return fresh;
        }
        match self.seen.iter().find(|(k, _)| *k == kind) {
            Some((_, style)) => style.clone(),
            None => {
                self.seen.push((kind, fresh.clone()));
                fresh
            }
        }
    }
}
