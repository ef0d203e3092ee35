//! HSNet in use, on kernels: the same numbers as [`HsnetWeights::scores`], several times as fast.
//!
//! The first 4D convolution of a stage reads cosines a few rows of support cells at a time ([`first`]), so the
//! correlations of a stage never exist as a whole, and support cells beside the mask, whose cosines are zero, are left
//! out. From then on ([`block`]) the channels of a pair lie together, `[support cells, query cells, channels]`.
//!
//! Weights are packed anew for every batch of episodes, which takes as long as a few convolutions.

mod block;
mod first;

use burn::{
    nn::conv::Conv2d,
    tensor::{Tensor, TensorData},
};
use protoseg_kernels::{
    Activation,
    channels_last::{PackedConv, enlarge, transpose},
};
use rayon::prelude::*;

use self::{
    block::{Block, CellMaps},
    first::{FirstBlock, QueryStage, SupportStage},
};
use super::{
    HsnetWeights,
    centre_pivot::PivotBlock,
    learner::{STAGES, nearest_cells},
};
use crate::{
    bridge::{ConvGeometry, Values},
    method::{
        Encoded,
        mask::{FOREGROUND, masks},
    },
};

/// The scores that each shot makes alone, `[episodes, 2, h, w]` on the decoder's grid; none where there are gradients or
/// no kernels.
pub(super) fn scores(weights: &HsnetWeights, encoded: &Encoded<'_>) -> Option<Vec<Tensor<4>>> {
    let queries: Vec<Values> = encoded.queries.iter().map(Values::of).collect::<Option<_>>()?;
    let supports: Vec<Values> = encoded.supports.iter().map(Values::of).collect::<Option<_>>()?;
    let sizes = STAGES.map(|stage| size(weights.of_stage(&encoded.queries, stage)));
    let support_sizes = STAGES.map(|stage| size(weights.of_stage(&encoded.supports, stage)));
    let learner = Learner::new(weights, sizes);
    let masks = Masks::new(encoded, support_sizes);
    let (episodes, shots) = (encoded.len(), encoded.shots);
    let [height, width] = learner.scores_size();
    let mut scores = vec![Vec::with_capacity(episodes * 2 * height * width); shots];
    for episode in 0..episodes {
        let query: Vec<QueryStage> = (0..STAGES.len())
            .map(|stage| {
                let maps = weights.of_stage(&queries, STAGES[stage]);
                let padding = learner.squeezes[stage].0.padding();
                QueryStage::new(&images(maps, episode, episodes), sizes[stage], padding)
            })
            .collect();
        for (shot, scores) in scores.iter_mut().enumerate() {
            let image = episode * shots + shot;
            let stages = (0..STAGES.len()).map(|stage| {
                let maps = weights.of_stage(&supports, STAGES[stage]);
                SupportStage::new(
                    &images(maps, image, episodes * shots),
                    support_sizes[stage],
                    masks.of(stage, image),
                )
            });
            scores.extend(learner.scores(&query, &stages.collect::<Vec<_>>()));
        }
    }
    let device = encoded.queries[0].device();
    let tensor =
        |scores| Tensor::from_data(TensorData::new::<f32, _>(scores, [episodes, 2, height, width]), &device);
    Some(scores.into_iter().map(tensor).collect())
}

fn size(maps: &[Tensor<4>]) -> [usize; 2] {
    let [.., height, width] = maps[0].dims();
    [height, width]
}

/// One image of every map.
fn images(maps: &[Values], image: usize, of: usize) -> Vec<&[f32]> {
    maps.iter().map(|map| &map[image * (map.len() / of)..][..map.len() / of]).collect()
}

/// The supports' masks on the grid of each stage.
struct Masks([Vec<f32>; 3], [usize; 3]);

impl Masks {
    fn new(encoded: &Encoded<'_>, sizes: [[usize; 2]; 3]) -> Self {
        let device = encoded.supports[0].device();
        let values = |size| {
            let masks = masks(encoded.support_labels, FOREGROUND, size, &device);
            masks.try_into_vec_as().expect("masks are f32")
        };
        Self(sizes.map(values), sizes.map(|[height, width]| height * width))
    }

    fn of(&self, stage: usize, image: usize) -> &[f32] {
        &self.0[stage][image * self.1[stage]..][..self.1[stage]]
    }
}

/// All layers after the encoder, packed for queries of one size.
struct Learner {
    /// Of stages 2, 3 and 4.
    squeezes: [(FirstBlock, Vec<Block>); 3],
    mix43: Vec<Block>,
    mix32: Vec<Block>,
    decoder: [PackedConv; 4],
    /// Of the map that is decoded.
    size: [usize; 2],
}

impl Learner {
    fn new(weights: &HsnetWeights, sizes: [[usize; 2]; 3]) -> Self {
        let squeezes = [0, 1, 2].map(|index| {
            let (first, rest) = weights.squeeze_of(STAGES[index]).split_first().expect("there are three");
            let rest = rest.par_iter().map(|block| Block::new(block, sizes[index])).collect();
            (FirstBlock::new(first), rest)
        });
        let mix =
            |blocks: &[PivotBlock], size| blocks.par_iter().map(|block| Block::new(block, size)).collect();
        let size = sizes[0];
        let large = [2 * size[1]; 2];
        Self {
            squeezes,
            mix43: mix(&weights.mix43, sizes[1]),
            mix32: mix(&weights.mix32, size),
            decoder: [
                pack(&weights.decoder1[0], size, Activation::Relu),
                pack(&weights.decoder1[1], size, Activation::Relu),
                pack(&weights.decoder2[0], large, Activation::Relu),
                pack(&weights.decoder2[1], large, Activation::None),
            ],
            size,
        }
    }

    /// `[height, width]` of the scores.
    fn scores_size(&self) -> [usize; 2] {
        [2 * self.size[1]; 2]
    }

    /// `[2, height, width]` of one query and one support.
    fn scores(&self, query: &[QueryStage], support: &[SupportStage]) -> Vec<f32> {
        let [stage4, stage3, stage2] = [2, 1, 0].map(|stage| {
            let (first, rest) = &self.squeezes[stage];
            rest.iter().fold(first.run(&query[stage], &support[stage]), |maps, block| block.run(&maps))
        });
        let mixed = mix(&self.mix43, stage4, stage3);
        let mixed = mix(&self.mix32, mixed, stage2);
        self.decode(&mixed.mean())
    }

    fn decode(&self, encoded: &[f32]) -> Vec<f32> {
        let [first, second, third, last] = &self.decoder;
        let x = run(second, &run(first, encoded));
        let x = enlarge(&x, self.size, self.scores_size());
        transpose(&run(last, &run(third, &x)), last.shape().to)
    }
}

/// The coarse stage over the query's cells of the fine one, their sum, and blocks that keep the grid.
fn mix(blocks: &[Block], coarse: CellMaps, mut fine: CellMaps) -> CellMaps {
    let places = nearest_cells(coarse.support, fine.support);
    let own = fine.cell_len();
    for (fine_map, place) in fine.values.chunks_exact_mut(own).zip(places) {
        let enlarged = enlarge(coarse.cell(place), coarse.query, fine.query);
        fine_map.iter_mut().zip(enlarged).for_each(|(value, more)| *value += more);
    }
    blocks.iter().fold(fine, |maps, block| block.run(&maps))
}

/// A convolution for maps of one size.
fn pack(conv: &Conv2d, [height, width]: [usize; 2], activation: Activation) -> PackedConv {
    let [to, from, kernel, _] = conv.weight.dims();
    let shape = ConvGeometry::of(conv).shape([1, from, height, width], to, kernel);
    PackedConv::new(shape, &weight(conv), &bias(conv), activation)
}

fn run(conv: &PackedConv, input: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; conv.shape().output_len()];
    conv.run(input, None, &mut out, conv.shape().to);
    out
}

/// The weights of a layer, `[to, from, kernel, kernel]`.
fn weight(conv: &Conv2d) -> Vec<f32> {
    conv.weight.val().try_into_vec_as().expect("weights are f32")
}

fn bias(conv: &Conv2d) -> Vec<f32> {
    conv.bias.as_ref().expect("it has a bias").val().try_into_vec_as().expect("biases are f32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        method::{FeatureShape, Maps, hsnet::small_scores},
    };
    use burn::tensor::Distribution;
    use protoseg_core::RowMap;
    use protoseg_testing::assert_close;

    /// Maps of all blocks, `[n, d, h, w]` each.
    fn maps(n: usize, blocks: [usize; 3], sizes: [[usize; 2]; 3]) -> Maps {
        let stages = blocks.into_iter().zip(sizes).zip([24, 40, 17]);
        let map = |([height, width], dim): ([usize; 2], usize)| {
            Tensor::random([n, dim, height, width], Distribution::Normal(0.1, 1.0), &cpu())
        };
        stages.flat_map(|((count, size), dim)| (0..count).map(move |_| map((size, dim)))).collect()
    }

    #[test]
    fn the_same_scores_as_by_operations_of_burn() {
        cpu().seed(8);
        let cases = [
            // As of a ResNet at 97 pixels; another size of supports; a VGG at a size where its grids differ.
            ([2, 3, 1], [[13, 13], [7, 7], [4, 4]], [[13, 13], [7, 7], [4, 4]]),
            ([1, 2, 2], [[9, 13], [5, 7], [3, 4]], [[34, 20], [17, 10], [9, 5]]),
            ([3, 3, 1], [[12, 12], [6, 6], [3, 3]], [[33, 33], [16, 16], [8, 8]]),
        ];
        for (blocks, sizes, support_sizes) in cases {
            let shape = FeatureShape {
                dim: 17,
                before_last: 40,
                stages: vec![8, 8, 24, 40, 17],
                blocks: [&[0, 0][..], &blocks].concat(),
                dropout: 0.0,
            };
            let weights = HsnetWeights::new(&shape, &cpu());
            let (episodes, shots) = (2, 2);
            // A block, a few single pixels, everything, one corner.
            let inside: [fn(usize, usize) -> bool; 4] = [
                |y, x| (20..50).contains(&y) && (30..70).contains(&x),
                |y, x| y % 29 == 3 && x % 31 == 7,
                |_, _| true,
                |y, x| y > 80 && x > 70,
            ];
            let label = |inside: fn(usize, usize) -> bool| {
                let data = (0..97 * 97).map(|at| u16::from(inside(at / 97, at % 97))).collect();
                RowMap::new(97, 97, data)
            };
            let labels = inside.map(label);
            let encoded = Encoded {
                queries: maps(episodes, blocks, sizes),
                query_labels: &[],
                supports: maps(episodes * shots, blocks, support_sizes),
                support_labels: &labels,
                shots,
                size: [97, 97],
            };
            let fast = scores(&weights, &encoded).expect("there are kernels");
            for (shot, (fast, slow)) in fast.into_iter().zip(small_scores(&weights, &encoded)).enumerate() {
                let [fast, slow] = [fast, slow].map(|scores| scores.try_into_vec_as::<f32>().unwrap());
                assert_close(&format!("{support_sizes:?}, shot {shot}"), &fast, &slow, 1e-4);
            }
        }
    }
}
