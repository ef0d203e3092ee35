//! From hypercorrelations to scores: squeeze the support's cells of each stage, mix coarse into fine, decode.
//!
//! Stage 4 is the coarsest. All stages are squeezed to the same grid of support cells (2x2 at 400 pixels), so that
//! they can be added once the query's cells are as many. The mean over the support's cells is a map of the query, and
//! an ordinary decoder makes scores of it.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Int, Tensor, TensorData, activation::relu},
};

use super::{
    centre_pivot::{Pairs, PivotBlock},
    hypercorrelation::hypercorrelation,
};
use crate::{
    bridge,
    method::{FeatureShape, Maps},
    nn::{Conv, upsample},
};

/// The stages whose blocks are correlated, finest first.
pub(crate) const STAGES: [usize; 3] = [2, 3, 4];
/// Channels after each block of a squeeze.
const CHANNELS: [usize; 3] = [16, 64, 128];

/// What HSNet adds to its encoder.
#[derive(Module, Debug)]
pub struct HsnetWeights {
    /// Of stage 4.
    pub squeeze4: Vec<PivotBlock>,
    /// Of stage 3.
    pub squeeze3: Vec<PivotBlock>,
    /// Of stage 2.
    pub squeeze2: Vec<PivotBlock>,
    /// Stage 4 into stage 3.
    pub mix43: Vec<PivotBlock>,
    /// Both into stage 2.
    pub mix32: Vec<PivotBlock>,
    /// Before the map is enlarged.
    pub decoder1: Vec<Conv2d>,
    /// After that; the last gives the scores.
    pub decoder2: Vec<Conv2d>,
    /// Blocks of each of [`STAGES`].
    blocks: Vec<usize>,
}

impl HsnetWeights {
    /// With fresh weights, for an encoder with blocks in stages 2 to 4.
    pub(super) fn new(shape: &FeatureShape, device: &Device) -> Self {
        let blocks: Vec<usize> =
            STAGES.iter().map(|&stage| shape.blocks.get(stage).copied().unwrap_or(0)).collect();
        let squeeze = |from: usize, kernels: [usize; 3], strides: [usize; 3]| {
            let from = [from, CHANNELS[0], CHANNELS[1]];
            let block = |i: usize| PivotBlock::new(from[i], CHANNELS[i], kernels[i], strides[i], device);
            (0..3).map(block).collect()
        };
        let mix = || (0..3).map(|_| PivotBlock::new(CHANNELS[2], CHANNELS[2], 3, 1, device)).collect();
        let conv = |from, to| Conv::new(from, to, 3).bias().init(device);
        Self {
            squeeze4: squeeze(blocks[2], [3, 3, 3], [2, 2, 2]),
            squeeze3: squeeze(blocks[1], [5, 3, 3], [4, 2, 2]),
            squeeze2: squeeze(blocks[0], [5, 5, 3], [4, 4, 2]),
            mix43: mix(),
            mix32: mix(),
            decoder1: vec![conv(128, 128), conv(128, 64)],
            decoder2: vec![conv(64, 64), conv(64, 2)],
            blocks,
        }
    }

    /// Scores `[n, 2, h, w]` of queries for one support each, from the maps of all blocks of stages 2 to 4; those of
    /// the supports are masked. The scores' map is twice as large as that of stage 2.
    pub fn scores(&self, queries: &Maps, supports: &Maps) -> Tensor<4> {
        let [stage4, stage3, stage2] = [4, 3, 2].map(|stage| {
            let (queries, supports) = (self.of_stage(queries, stage), self.of_stage(supports, stage));
            self.squeeze(stage, queries, supports)
        });
        let mixed = mix(&self.mix43, stage4, stage3);
        let mixed = mix(&self.mix32, mixed, stage2);
        self.decode(mixed.mean())
    }

    /// The maps of one stage among those of all.
    pub fn of_stage<'a, T>(&self, maps: &'a [T], stage: usize) -> &'a [T] {
        let first = self.blocks[..stage - STAGES[0]].iter().sum::<usize>();
        &maps[first..][..self.blocks[stage - STAGES[0]]]
    }

    /// The squeezed correlations of one stage.
    pub fn squeeze(&self, stage: usize, queries: &[Tensor<4>], supports: &[Tensor<4>]) -> Pairs {
        let (first, rest) = self.squeeze_of(stage).split_first().expect("there are three");
        let [.., height, width] = queries[0].dims();
        let squeezed = first.forward_turned(hypercorrelation(queries, supports), [height, width]);
        rest.iter().fold(squeezed, |pairs, block| block.forward(pairs))
    }

    /// The blocks that squeeze a stage.
    pub fn squeeze_of(&self, stage: usize) -> &[PivotBlock] {
        [&self.squeeze2, &self.squeeze3, &self.squeeze4][stage - STAGES[0]]
    }

    /// Scores of an encoded map: `[n, 128, h, w]` -> `[n, 2, 2 w, 2 w]`.
    pub fn decode(&self, encoded: Tensor<4>) -> Tensor<4> {
        let x = self.decode_first(encoded);
        let side = 2 * x.dims()[3];
        let x = relu(bridge::conv(&self.decoder2[0], upsample(x, [side, side])));
        bridge::conv(&self.decoder2[1], x)
    }

    /// The decoder before it enlarges the map: `[n, 128, h, w]` -> `[n, 64, h, w]`.
    pub fn decode_first(&self, encoded: Tensor<4>) -> Tensor<4> {
        self.decoder1.iter().fold(encoded, |x, conv| relu(bridge::conv(conv, x)))
    }
}

/// A coarse stage, enlarged over the query's cells, and a fine one, through blocks that keep the grid.
pub fn mix(blocks: &[PivotBlock], coarse: Pairs, fine: Pairs) -> Pairs {
    let [.., height, width] = fine.maps.dims();
    let coarse = over_support(coarse, fine.support);
    let maps = upsample(coarse.maps, [height, width]) + fine.maps;
    blocks.iter().fold(Pairs { maps, ..coarse }, |pairs, block| block.forward(pairs))
}

/// The coarse stage's cells for a grid of support cells. The grids are the same but for a VGG, which rounds down, at
/// odd sizes: what the coarse grid lacks is its last row and column again.
fn over_support(pairs: Pairs, support: [usize; 2]) -> Pairs {
    if pairs.support == support {
        return pairs;
    }
    let [all, channels, height, width] = pairs.maps.dims();
    let places = nearest_cells(pairs.support, support);
    let index = places.iter().map(|&place| place as i64).collect();
    let index = TensorData::new::<i64, _>(index, [places.len()]);
    let index = Tensor::<1, Int>::from_data(index, &pairs.maps.device());
    let cells = pairs.support[0] * pairs.support[1];
    let n = all / cells;
    let maps = pairs.maps.reshape([n, cells, channels * height * width]).select(1, index);
    Pairs { maps: maps.reshape([n * places.len(), channels, height, width]), support }
}

/// For each cell of the grid `to`, that cell of the grid `from`, or the last one along an axis that is shorter.
pub(crate) fn nearest_cells(from: [usize; 2], to: [usize; 2]) -> Vec<usize> {
    let cell = |place: usize| {
        let (y, x) = ((place / to[1]).min(from[0] - 1), (place % to[1]).min(from[1] - 1));
        y * from[1] + x
    };
    (0..to[0] * to[1]).map(cell).collect()
}
