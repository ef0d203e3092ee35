//! The classes of the world.

/// The name of every class id; 0 is everything other than the twenty things.
pub const CLASS_NAMES: [&str; 21] = [
    "background",
    "boat",
    "cow",
    "chair",
    "car",
    "cup",
    "duck",
    "sheep",
    "sofa",
    "bus",
    "bottle",
    "swan",
    "horse",
    "table",
    "truck",
    "plant",
    "umbrella",
    "dog",
    "lamp",
    "bicycle",
    "bowl",
];

/// The five novel classes of a fold (0 to 3), as in Pascal-5i: `5 * fold + 1 ..= 5 * fold + 5`.
///
/// Ids are assigned so that things which belong together (boat, duck, swan; car, bus, truck, bicycle; ...) are in
/// different folds. Whichever fold is novel, its classes are seen beside base classes.
pub fn novel_classes(fold: usize) -> [u16; 5] {
    assert!(fold < 4, "the twenty classes have folds 0 to 3, not `{fold}`");
    std::array::from_fn(|i| (5 * fold + 1 + i) as u16)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Boat = 1,
    Cow,
    Chair,
    Car,
    Cup,
    Duck,
    Sheep,
    Sofa,
    Bus,
    Bottle,
    Swan,
    Horse,
    Table,
    Truck,
    Plant,
    Umbrella,
    Dog,
    Lamp,
    Bicycle,
    Bowl,
}

impl Kind {
    /// Usual length and height in metres. Small animals are drawn larger than life and ships smaller, as a
    /// photographer would frame them.
    pub fn measure(self) -> (f32, f32) {
        match self {
            Self::Boat => (4.0, 2.0),
            Self::Cow => (2.4, 1.6),
            Self::Horse => (2.4, 1.9),
            Self::Sheep => (1.4, 1.0),
            Self::Dog => (1.1, 0.85),
            Self::Duck => (0.75, 0.55),
            Self::Swan => (1.2, 1.0),
            Self::Car => (4.2, 1.5),
            Self::Bus => (8.5, 3.0),
            Self::Truck => (7.0, 3.0),
            Self::Bicycle => (1.75, 1.1),
            Self::Chair => (0.55, 0.95),
            Self::Sofa => (2.0, 0.85),
            Self::Table => (1.4, 0.75),
            Self::Lamp => (0.45, 1.4),
            Self::Plant => (0.6, 1.0),
            Self::Umbrella => (2.4, 2.3),
            Self::Cup => (0.11, 0.10),
            Self::Bottle => (0.08, 0.29),
            Self::Bowl => (0.22, 0.11),
        }
    }

    /// Things with thin parts come closer, so that they cover as many pixels as others.
    pub fn closeness(self) -> f32 {
        match self {
            Self::Bicycle => 2.0,
            Self::Lamp | Self::Chair => 1.5,
            Self::Dog | Self::Duck | Self::Swan | Self::Bottle | Self::Umbrella => 1.35,
            Self::Plant | Self::Cup => 1.15,
            _ => 1.0,
        }
    }

    /// How many of them tend to be together.
    pub fn company(self) -> (usize, usize) {
        match self {
            Self::Duck => (1, 4),
            Self::Sheep => (1, 4),
            Self::Cow => (1, 3),
            Self::Swan | Self::Horse | Self::Boat | Self::Car | Self::Umbrella | Self::Cup | Self::Bottle => {
                (1, 2)
            }
            _ => (1, 1),
        }
    }
}
