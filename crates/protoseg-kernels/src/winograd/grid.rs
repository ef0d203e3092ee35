//! Which pixel each value of each tile is. Dilation, borders and ragged edges exist only here.

use super::tile::LANES;
use crate::ConvShape;

/// Outputs along a tile's side. Larger tiles take fewer products, and lose more to a ragged edge and to rounding.
pub const TILES: [usize; 5] = [6, 5, 4, 3, 2];
/// What a transformed weight costs, in products: it must be made or fetched. With 100, 2048 to 512 channels on a map of
/// 60 x 60 took 52 ms and 128 to 128 channels 1.2 (AVX-512, 2 threads); with 60, 50 and 0.9.
const WEIGHT: usize = 60;

/// The tiles of all images of a batch, joined in one line and cut into chunks of [`LANES`]. A dilated map is
/// `dilation^2` maps that do not see each other (phases), each with tiles of its own.
pub struct Grid {
    /// Tiles of the batch.
    pub tiles: usize,
    /// `[chunk][N * N][lane]`: the place in the batch's maps of one channel.
    pub inputs: Vec<u32>,
    /// `[chunk][M * M][lane]`
    pub outputs: Vec<u32>,
    /// The place after the maps: what is read there is zero, what is written there is dropped.
    pub nowhere: usize,
}

/// How phases are cut along one side of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of them, into tiles of so many outputs.
    All(usize),
    /// Those of three outputs, which are a tile each.
    Three,
    /// Those of one or two outputs, as a whole. All that lies around them is zero, which saves products.
    Whole(usize),
}

impl Cut {
    /// Outputs along a tile's side.
    pub fn outputs(self) -> usize {
        match self {
            Self::All(outputs) | Self::Whole(outputs) => outputs,
            Self::Three => 3,
        }
    }

    /// Places along a transformed tile's side.
    pub fn places(self) -> usize {
        match self {
            Self::All(_) | Self::Three => self.outputs() + 2,
            Self::Whole(outputs) => 2 * outputs - 1,
        }
    }

    fn takes(self, len: usize) -> bool {
        matches!(self, Self::All(_)) || len == self.outputs()
    }

    /// Tiles along a side of the map.
    fn tiles(self, side: usize, dilation: usize) -> usize {
        phases(side, dilation).filter(|&len| self.takes(len)).map(|len| len.div_ceil(self.outputs())).sum()
    }

    /// The cuts that take phases of at most three outputs by what saves most; none if there are longer ones.
    fn of_short_phases(side: usize, dilation: usize) -> Vec<Self> {
        let mut cuts = Vec::new();
        for len in phases(side, dilation) {
            let cut = match len {
                1 | 2 => Self::Whole(len),
                3 => Self::Three,
                _ => return Vec::new(),
            };
            if !cuts.contains(&cut) {
                cuts.push(cut);
            }
        }
        cuts
    }
}

/// The cheapest way to cut a map for constant weights, rows and columns: a part for each way in which phases are cut.
pub fn parts(shape: &ConvShape) -> Vec<[Cut; 2]> {
    let squares = TILES.iter().map(|&m| vec![[Cut::All(m); 2]]);
    let ways = squares.chain([parts_of_short_phases(shape)]).filter(|parts| !parts.is_empty());
    ways.min_by_key(|parts| cost(shape, parts, WEIGHT)).expect("there are squares")
}

/// Every phase cut by its length; nothing if there are phases of more than three outputs.
pub fn parts_of_short_phases(shape: &ConvShape) -> Vec<[Cut; 2]> {
    let sides = [shape.height, shape.width];
    let [rows, columns] = sides.map(|side| Cut::of_short_phases(side, shape.dilation));
    rows.iter().flat_map(|&row| columns.iter().map(move |&column| [row, column])).collect()
}

/// Products of these parts for one image and channel pair.
pub fn products(shape: &ConvShape, parts: &[[Cut; 2]]) -> usize {
    cost(&ConvShape { batch: 1, ..*shape }, parts, 0)
}

/// Products for all images, and what weights cost.
fn cost(shape: &ConvShape, parts: &[[Cut; 2]], weight: usize) -> usize {
    let part = |&[rows, columns]: &[Cut; 2]| {
        let tiles = rows.tiles(shape.height, shape.dilation) * columns.tiles(shape.width, shape.dilation);
        rows.places() * columns.places() * (shape.batch * tiles + weight)
    };
    parts.iter().map(part).sum()
}

impl Grid {
    /// The best tile size in training, whose gradients pass through several transforms: one of the smaller ones, which
    /// round less. And how many products it takes for one image and channel pair.
    pub fn cheapest_in_training(shape: &ConvShape) -> (usize, usize) {
        let cost = |&m: &usize| cost(shape, &[[Cut::All(m); 2]], 0);
        let best = TILES[2..].iter().copied().min_by_key(cost).expect("there are sizes");
        (best, products(shape, &[[Cut::All(best); 2]]))
    }

    /// With tiles of `m` x `m` outputs.
    pub fn new(shape: &ConvShape, m: usize) -> Self {
        let &ConvShape { batch, height, width, .. } = shape;
        let corners = corners(shape, [Cut::All(m); 2]);
        let nowhere = batch * height * width;
        assert!(u32::try_from(nowhere).is_ok(), "a batch of {nowhere} pixels is too large");
        let table = |side: usize, padding: usize| {
            let mut table = Vec::with_capacity(corners.len().next_multiple_of(LANES) * side * side);
            for chunk in corners.chunks(LANES) {
                for j in 0..side {
                    for i in 0..side {
                        table.extend(chunk.iter().map(|corner| {
                            place(shape, corner, [j, i], [padding; 2]).unwrap_or(nowhere) as u32
                        }));
                        table.resize(table.len().next_multiple_of(LANES), nowhere as u32);
                    }
                }
            }
            table
        };
        Self { tiles: corners.len(), inputs: table(m + 2, 1), outputs: table(m, 0), nowhere }
    }
}

/// The first output of a tile: image, row and column.
pub type Corner = (usize, usize, usize);

/// Where the tiles of a part begin.
pub fn corners(shape: &ConvShape, [rows, columns]: [Cut; 2]) -> Vec<Corner> {
    let &ConvShape { batch, height, width, dilation, .. } = shape;
    let own = |side, cut: Cut| phases(side, dilation).enumerate().filter(move |&(_, len)| cut.takes(len));
    let mut corners = Vec::new();
    for image in 0..batch {
        for (py, height) in own(height, rows) {
            for (px, width) in own(width, columns) {
                for ty in (0..height).step_by(rows.outputs()) {
                    for tx in (0..width).step_by(columns.outputs()) {
                        corners.push((image, py + ty * dilation, px + tx * dilation));
                    }
                }
            }
        }
    }
    corners
}

/// The pixel of the batch some steps below and right of a tile's corner, less the padding in steps; none outside the
/// map.
#[inline(always)]
pub fn place(shape: &ConvShape, corner: &Corner, steps: [usize; 2], padding: [usize; 2]) -> Option<usize> {
    let &ConvShape { height, width, dilation, .. } = shape;
    let &(image, y, x) = corner;
    let y = (y + steps[0] * dilation).checked_sub(padding[0] * dilation).filter(|&y| y < height)?;
    let x = (x + steps[1] * dilation).checked_sub(padding[1] * dilation).filter(|&x| x < width)?;
    Some((image * height + y) * width + x)
}

/// Lengths of the interleaved lines that a line falls into under a dilation.
fn phases(side: usize, dilation: usize) -> impl Iterator<Item = usize> {
    (0..dilation.min(side)).map(move |phase| (side - phase).div_ceil(dilation))
}
