//! The things of the world, one function per kind: geometry at a place, random looks.

mod animals;
mod beast;
mod bicycle;
mod birds;
mod boats;
mod car;
mod greens;
mod lorries;
pub mod scenery;
mod seats;
mod tables;
pub mod tableware;

pub use tables::{Top, lamp, pendant, table, table_top};

use crate::kind::Kind;
use crate::light::Light;
use crate::model::{Frame, Model};
use crate::rng::Rng;

/// Where a thing is, for kinds that look different by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    Indoors,
    Outdoors,
    Afloat,
}

/// A thing of the given kind. Its looks and (for animals) its pose are drawn from two streams. Lit lamps add
/// themselves to `light`.
pub fn build(
    kind: Kind,
    frame: &Frame,
    place: Whereabouts,
    (rng, pose): (&mut Rng, &mut Rng),
    light: &mut Light,
) -> Model {
    let afloat = place == Whereabouts::Afloat;
    match kind {
        Kind::Boat => boats::boat(frame, rng),
        Kind::Cow => animals::cow(frame, rng, pose),
        Kind::Chair => seats::chair(frame, rng, place == Whereabouts::Indoors),
        Kind::Car => car::car(frame, rng),
        Kind::Cup => tableware::cup(frame, rng),
        Kind::Duck => birds::duck(frame, (rng, pose), afloat),
        Kind::Sheep => animals::sheep(frame, rng, pose),
        Kind::Sofa => seats::sofa(frame, rng),
        Kind::Bus => lorries::bus(frame, rng),
        Kind::Bottle => tableware::bottle(frame, rng),
        Kind::Swan => birds::swan(frame, (rng, pose), afloat),
        Kind::Horse => animals::horse(frame, rng, pose),
        Kind::Table => {
            let top = table_top(rng);
            table(frame, top, rng)
        }
        Kind::Truck => lorries::truck(frame, rng),
        Kind::Plant => greens::plant(frame, rng),
        Kind::Umbrella => greens::umbrella(frame, rng),
        Kind::Dog => animals::dog(frame, rng, pose),
        Kind::Lamp => tables::lamp(frame, rng, light, frame.origin.y == 0.0),
        Kind::Bicycle => bicycle::bicycle(frame, rng),
        Kind::Bowl => tableware::bowl(frame, rng),
    }
}
