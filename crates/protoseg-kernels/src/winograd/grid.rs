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

impl Grid {
    /// The best tile size for constant weights, and how many products it takes for one image and channel pair.
    pub fn cheapest(shape: &ConvShape) -> (usize, usize) {
        Self::choose(shape, &TILES, WEIGHT)
    }

    /// The same in training, whose gradients pass through several transforms: the smaller tiles, which round less.
    pub fn cheapest_in_training(shape: &ConvShape) -> (usize, usize) {
        Self::choose(shape, &TILES[2..], 0)
    }

    fn choose(shape: &ConvShape, sizes: &[usize], weight: usize) -> (usize, usize) {
        let tiles = |m: usize| {
            let line = |side| -> usize { phases(side, shape.dilation).map(|len| len.div_ceil(m)).sum() };
            line(shape.height) * line(shape.width)
        };
        let places = |m: usize| (m + 2) * (m + 2);
        let cost = |m: &usize| places(*m) * (shape.batch * tiles(*m) + weight);
        let best = sizes.iter().copied().min_by_key(cost).expect("there are sizes");
        (best, places(best) * tiles(best))
    }

    /// With tiles of `m` x `m` outputs.
    pub fn new(shape: &ConvShape, m: usize) -> Self {
        let &ConvShape { batch, height, width, .. } = shape;
        let corners = corners(shape, m);
        let nowhere = batch * height * width;
        assert!(u32::try_from(nowhere).is_ok(), "a batch of {nowhere} pixels is too large");
        let table = |side: usize, padding: usize| {
            let mut table = Vec::with_capacity(corners.len().next_multiple_of(LANES) * side * side);
            for chunk in corners.chunks(LANES) {
                for j in 0..side {
                    for i in 0..side {
                        table.extend(
                            chunk
                                .iter()
                                .map(|corner| place(shape, corner, j, i, padding).unwrap_or(nowhere) as u32),
                        );
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

/// Where the tiles of `m` x `m` outputs begin.
pub fn corners(shape: &ConvShape, m: usize) -> Vec<Corner> {
    let &ConvShape { batch, height, width, dilation, .. } = shape;
    let mut corners = Vec::new();
    for image in 0..batch {
        for (py, rows) in phases(height, dilation).enumerate() {
            for (px, columns) in phases(width, dilation).enumerate() {
                for ty in (0..rows).step_by(m) {
                    for tx in (0..columns).step_by(m) {
                        corners.push((image, py + ty * dilation, px + tx * dilation));
                    }
                }
            }
        }
    }
    corners
}

/// The pixel of the batch `j` steps below and `i` right of a tile's corner, less the padding in steps; none outside
/// the map.
#[inline(always)]
pub fn place(shape: &ConvShape, corner: &Corner, j: usize, i: usize, padding: usize) -> Option<usize> {
    let &ConvShape { height, width, dilation, .. } = shape;
    let &(image, y, x) = corner;
    let y = (y + j * dilation).checked_sub(padding * dilation).filter(|&y| y < height)?;
    let x = (x + i * dilation).checked_sub(padding * dilation).filter(|&x| x < width)?;
    Some((image * height + y) * width + x)
}

/// Lengths of the interleaved lines that a line falls into under a dilation.
fn phases(side: usize, dilation: usize) -> impl Iterator<Item = usize> {
    (0..dilation.min(side)).map(move |phase| (side - phase).div_ceil(dilation))
}
