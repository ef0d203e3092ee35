//! Centre-pivot 4D convolutions, over pairs of cells.
//!
//! A 4D kernel keeps only the taps where one of its two cells is the centre. What is left is two 2D convolutions: one
//! over the query's cells, at the support cells that the stride leaves (0, t, 2t, ..), and one over the support's cells
//! with stride t, at every query cell. Their sum is the result.
//!
//! Pairs lie as maps over the query's cells, one map per support cell, so the first convolution is an ordinary one with
//! support cells as its batch. The second is one with query cells as its batch; on grids of few cells it is a matrix
//! product, since most of its taps would lie beside the grid.

use burn::{
    module::{Initializer, Module, Param},
    nn::conv::Conv2d,
    tensor::{Device, Int, Tensor, TensorData, activation::relu},
};

use crate::{bridge, nn::Conv};

/// Groups of channels that are normalised together.
pub(crate) const GROUPS: usize = 4;
/// Added to the variance.
pub(crate) const EPSILON: f64 = 1e-5;
/// Most support cells for which the convolution over them is a matrix product.
const DENSE: usize = 16;

/// Values for pairs of a query cell and a support cell.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// `[n * support cells, channels, height, width]`: maps over the query's cells.
    pub maps: Tensor<4>,
    /// `[height, width]` of the support's grid.
    pub support: [usize; 2],
}

impl Pairs {
    /// The mean over the support's cells: `[n, channels, height, width]`.
    pub fn mean(self) -> Tensor<4> {
        let [_, channels, height, width] = self.maps.dims();
        let cells = self.support[0] * self.support[1];
        self.maps.reshape([-1, cells as i32, channels as i32, (height * width) as i32]).mean_dim(1).reshape([
            -1,
            channels as i32,
            height as i32,
            width as i32,
        ])
    }
}

/// A 4D convolution, group normalisation, ReLU.
#[derive(Module, Debug)]
pub struct PivotBlock {
    /// Over the query's cells.
    pub conv1: Conv2d,
    /// Over the support's cells, with the stride.
    pub conv2: Conv2d,
    /// After the sum of both.
    pub norm: GroupNorm,
}

impl PivotBlock {
    /// With fresh weights. `stride` is that over the support's cells.
    pub fn new(from: usize, to: usize, kernel: usize, stride: usize, device: &Device) -> Self {
        let conv = Conv::new(from, to, kernel).bias();
        Self {
            conv1: conv.init(device),
            conv2: conv.stride(stride).init(device),
            norm: GroupNorm::new(to, device),
        }
    }

    /// The whole block.
    pub fn forward(&self, pairs: Pairs) -> Pairs {
        let Pairs { maps, support } = self.convolve(pairs);
        Pairs { maps: relu(self.norm.forward(maps, support)), support }
    }

    /// The whole block, of pairs as maps over the support's cells: `[n * query cells, channels, height, width]`.
    pub fn forward_turned(&self, pairs: Tensor<4>, query: [usize; 2]) -> Pairs {
        let Pairs { maps, support } = self.convolve_turned(pairs, query);
        Pairs { maps: relu(self.norm.forward(maps, support)), support }
    }

    /// The 4D convolution alone.
    pub fn convolve(&self, pairs: Pairs) -> Pairs {
        let Pairs { maps, support: [height, width] } = pairs;
        let [all, from, query_height, query_width] = maps.dims();
        let cells = height * width;
        let (n, query) = (all / cells, query_height * query_width);
        if cells > DENSE {
            let turned = maps.reshape([n, cells, from, query]).permute([0, 3, 2, 1]);
            let turned = turned.reshape([n * query, from, height, width]);
            return self.convolve_turned(turned, [query_height, query_width]);
        }
        let to = self.conv1.weight.dims()[0];
        let [kept_height, kept_width] = self.support_after([height, width]);
        let kept = kept_height * kept_width;
        let weight = self.dense([height, width]);
        let over_support = weight.unsqueeze::<3>().matmul(maps.clone().reshape([n, cells * from, query]));
        let over_support = over_support.reshape([n * kept, to, query_height, query_width]);
        let pruned = if kept == cells {
            maps
        } else {
            let stride = self.conv2.stride[0];
            let maps = maps.reshape([n, height, width, from * query]);
            let maps = every(every(maps, 1, stride), 2, stride);
            maps.reshape([n * kept, from, query_height, query_width])
        };
        let bias = self.conv2.bias.as_ref().expect("it has a bias").val().reshape([1, -1, 1, 1]);
        let maps = bridge::conv(&self.conv1, pruned) + over_support + bias;
        Pairs { maps, support: [kept_height, kept_width] }
    }

    /// The 4D convolution alone, of pairs as maps over the support's cells.
    pub fn convolve_turned(&self, pairs: Tensor<4>, [query_height, query_width]: [usize; 2]) -> Pairs {
        let [all, from, height, width] = pairs.dims();
        let query = query_height * query_width;
        let n = all / query;
        let over_support = bridge::conv(&self.conv2, pairs.clone());
        let [_, to, kept_height, kept_width] = over_support.dims();
        let kept = kept_height * kept_width;
        let stride = self.conv2.stride[0];
        let pruned = pairs.reshape([all * from, height, width, 1]);
        let pruned = every(every(pruned, 1, stride), 2, stride);
        let pruned = pruned.reshape([n, query, from, kept]).permute([0, 3, 2, 1]);
        let over_query =
            bridge::conv(&self.conv1, pruned.reshape([n * kept, from, query_height, query_width]));
        let over_support = over_support.reshape([n, query, to, kept]).permute([0, 3, 2, 1]);
        Pairs {
            maps: over_query + over_support.reshape([n * kept, to, query_height, query_width]),
            support: [kept_height, kept_width],
        }
    }

    /// The support's grid after the stride.
    pub fn support_after(&self, support: [usize; 2]) -> [usize; 2] {
        support.map(|side| side.div_ceil(self.conv2.stride[0]))
    }

    /// The convolution over a grid of support cells as a matrix,
    /// `[cells after * channels after, cells * channels]`.
    fn dense(&self, support: [usize; 2]) -> Tensor<2> {
        let [to, from, kernel, _] = self.conv2.weight.dims();
        let taps = taps(support, kernel, self.conv2.stride[0]);
        let (kept, cells) = (taps.len(), support[0] * support[1]);
        let device = self.conv2.weight.device();
        let weight = self.conv2.weight.val().reshape([to, from, kernel * kernel]);
        // What lies under no tap reads a zero after the last one.
        let weight = Tensor::cat(vec![weight, Tensor::zeros([to, from, 1], &device)], 2);
        let index: Vec<i64> =
            taps.iter().flatten().map(|tap| tap.unwrap_or(kernel * kernel) as i64).collect();
        let index = Tensor::<1, Int>::from_data(TensorData::new(index, [kept * cells]), &device);
        let weight = weight.select(2, index).reshape([to, from, kept, cells]);
        weight.permute([2, 0, 3, 1]).reshape([kept * to, cells * from])
    }
}

/// Which tap of a padded `kernel` x `kernel` convolution connects a cell before (second index) with one after (first).
pub(super) fn taps([height, width]: [usize; 2], kernel: usize, stride: usize) -> Vec<Vec<Option<usize>>> {
    let tap = |after: usize, before: usize| {
        (before + kernel / 2).checked_sub(after * stride).filter(|&tap| tap < kernel)
    };
    let (kept_height, kept_width) = (height.div_ceil(stride), width.div_ceil(stride));
    let line = |after: usize| {
        let (y, x) = (after / kept_width, after % kept_width);
        let one = |before: usize| Some(tap(y, before / width)? * kernel + tap(x, before % width)?);
        (0..height * width).map(one).collect()
    };
    (0..kept_height * kept_width).map(line).collect()
}

/// The places 0, step, 2 step, .. along an axis.
fn every(map: Tensor<4>, axis: usize, step: usize) -> Tensor<4> {
    if step == 1 {
        return map;
    }
    let places: Vec<i64> = (0..map.dims()[axis]).step_by(step).map(|place| place as i64).collect();
    let count = places.len();
    let places = Tensor::<1, Int>::from_data(TensorData::new(places, [count]), &map.device());
    map.select(axis, places)
}

/// Normalises groups of channels over all pairs of an episode.
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// Scale per channel.
    pub weight: Param<Tensor<1>>,
    /// Shift per channel.
    pub bias: Param<Tensor<1>>,
}

impl GroupNorm {
    /// With scale 1 and shift 0.
    pub fn new(channels: usize, device: &Device) -> Self {
        Self {
            weight: Initializer::Ones.init([channels], device),
            bias: Initializer::Zeros.init([channels], device),
        }
    }

    /// Maps over the query's cells, `[n * support cells, channels, height, width]`, normalised.
    pub fn forward(&self, maps: Tensor<4>, support: [usize; 2]) -> Tensor<4> {
        let [all, channels, height, width] = maps.dims();
        let cells = support[0] * support[1];
        let own = channels / GROUPS * height * width;
        let groups = maps.reshape([all / cells, cells, GROUPS, own]);
        let mean = groups.clone().mean_dim(3).mean_dim(1);
        let centred = groups - mean;
        let variance = centred.clone().square().mean_dim(3).mean_dim(1);
        let normal = centred / variance.add_scalar(EPSILON).sqrt();
        let per_channel = |values: &Param<Tensor<1>>| values.val().reshape([1, channels, 1, 1]);
        normal.reshape([all, channels, height, width]) * per_channel(&self.weight) + per_channel(&self.bias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::tensor::Distribution;
    use protoseg_testing::assert_close;

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        Tensor::random(shape, Distribution::Normal(0.0, 1.0), &cpu())
    }

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.try_into_vec_as().unwrap()
    }

    /// The definition, with loops over everything. Pairs are `[channels, query, support]`.
    fn naive(block: &PivotBlock, pairs: &[f32], query: [usize; 2], support: [usize; 2]) -> Vec<f32> {
        let [to, from, kernel, _] = block.conv1.weight.dims();
        let stride = block.conv2.stride[0];
        let [first, second] = [&block.conv1, &block.conv2].map(|conv| values(conv.weight.val()));
        let [bias1, bias2] =
            [&block.conv1, &block.conv2].map(|conv| values(conv.bias.as_ref().unwrap().val()));
        let kept = block.support_after(support);
        let at = |c: usize, q: [isize; 2], s: [isize; 2]| {
            let inside = |place: [isize; 2], size: [usize; 2]| {
                let ok = (0..2).all(|axis| (0..size[axis] as isize).contains(&place[axis]));
                ok.then(|| place[0] as usize * size[1] + place[1] as usize)
            };
            let (Some(q_index), Some(s_index)) = (inside(q, query), inside(s, support)) else { return 0.0 };
            pairs[(c * query[0] * query[1] + q_index) * support[0] * support[1] + s_index]
        };
        let mut out = Vec::new();
        for s in 0..kept[0] * kept[1] {
            let s = [(s / kept[1] * stride) as isize, (s % kept[1] * stride) as isize];
            for o in 0..to {
                for q in 0..query[0] * query[1] {
                    let q = [(q / query[1]) as isize, (q % query[1]) as isize];
                    let mut sum = bias1[o] + bias2[o];
                    for c in 0..from {
                        for tap in 0..kernel * kernel {
                            let half = (kernel / 2) as isize;
                            let shift = [(tap / kernel) as isize - half, (tap % kernel) as isize - half];
                            let moved = |place: [isize; 2]| [place[0] + shift[0], place[1] + shift[1]];
                            let weight = (o * from + c) * kernel * kernel + tap;
                            sum += first[weight] * at(c, moved(q), s) + second[weight] * at(c, q, moved(s));
                        }
                    }
                    out.push(sum);
                }
            }
        }
        out
    }

    #[test]
    fn the_sum_of_two_planar_convolutions_on_grids_of_any_size() {
        cpu().seed(5);
        for (support, kernel, stride) in
            [([5, 6], 5, 4), ([4, 3], 3, 2), ([2, 2], 3, 1), ([1, 1], 3, 2), ([7, 3], 3, 2), ([1, 5], 5, 4)]
        {
            let block = PivotBlock::new(3, 8, kernel, stride, &cpu());
            let (query, cells) = ([4, 5], support[0] * support[1]);
            let pairs = random([3, 20, cells]);
            let expected = naive(&block, &values(pairs.clone()), query, support);
            let maps = pairs.clone().permute([2, 0, 1]).reshape([cells, 3, query[0], query[1]]);
            let what = format!("{support:?}, kernel {kernel}, stride {stride}");
            let got = block.convolve(Pairs { maps, support });
            assert_eq!(got.support, block.support_after(support));
            assert_close(&what, &values(got.maps), &expected, 1e-4);
            let turned = pairs.permute([1, 0, 2]).reshape([20, 3, support[0], support[1]]);
            assert_close(&what, &values(block.convolve_turned(turned, query).maps), &expected, 1e-4);
        }
    }

    #[test]
    fn groups_are_normalised_over_all_pairs_of_one_episode() {
        cpu().seed(6);
        let maps = random([2 * 3, 8, 2, 2]) * 5.0 + 3.0;
        let normal = GroupNorm::new(8, &cpu()).forward(maps.clone(), [3, 1]);
        let alone = GroupNorm::new(8, &cpu()).forward(maps.slice_dim(0, 3..6), [3, 1]);
        assert_close("episodes", &values(normal.clone().slice_dim(0, 3..6)), &values(alone), 1e-5);
        let group = values(normal.slice_dim(0, 0..3).slice_dim(1, 2..4));
        let mean = group.iter().sum::<f32>() / group.len() as f32;
        let square = group.iter().map(|value| value * value).sum::<f32>() / group.len() as f32;
        assert_close("mean and square", &[mean, square], &[0.0, 1.0], 1e-4);
    }
}
