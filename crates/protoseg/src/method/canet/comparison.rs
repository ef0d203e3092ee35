//! CANet's decoder, which SCL takes over: dense comparison, iterative optimisation, ASPP.
//!
//! A map and the vectors of a class are compared everywhere by a 3x3 (dilation 2) on both together. Three residual
//! blocks refine the result; the first also sees what was found before, the history. An ASPP makes two scores per pixel.
//! There is no batch-norm.
//!
//! The first convolution is split: the map's share does not depend on the class, so it is computed once for many
//! classes; the vectors' share is the same at every place but near the border, where padding cuts taps away, so it is a
//! few small products. The first residual block is split in the same way: only its history changes from pass to pass.
//!
//! Shapes: map `[n, 256, h, w]`, vectors `[n, 256 v]`, history `[n, 2, h, w]` -> scores `[n, 2, h, w]`.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{
        Device, Tensor, TensorData,
        activation::{relu, softmax},
    },
};

use crate::{
    bridge::{self, ConvGeometry},
    method::fem::{self, CHANNELS, Part},
    nn::{Conv, Dropout2d},
};

/// Background and foreground of the pass before.
const HISTORY: usize = 2;
/// Dilation of the convolutions before the residual blocks.
const DILATION: usize = 2;
/// Dilations of the ASPP's 3x3.
const ASPP: [usize; 3] = [6, 12, 18];
/// Deviation of the weights that new layers start with.
const DEVIATION: f64 = 0.01;

/// 3x3 with dilation 2, ReLU, channel dropout: the encoder's maps to 256 channels.
#[derive(Module, Debug)]
pub struct Feature {
    /// The 3x3.
    pub conv: Conv2d,
    /// In training.
    pub dropout: Dropout2d,
}

impl Feature {
    pub(in crate::method) fn new(from: usize, device: &Device) -> Self {
        let conv = Conv::new(from, CHANNELS, 3).dilation(DILATION).bias().init_normal(DEVIATION, device);
        Self { conv, dropout: Dropout2d::new(0.5) }
    }

    /// `[n, 1536, h, w]` -> `[n, 256, h, w]`.
    pub fn forward(&self, maps: Tensor<4>) -> Tensor<4> {
        self.dropout.forward(relu(bridge::conv(&self.conv, maps)))
    }
}

/// ReLU, 3x3, ReLU, 3x3, to be added to its input.
#[derive(Module, Debug)]
pub struct Residual {
    /// The first 3x3.
    pub first: Conv2d,
    /// The second.
    pub second: Conv2d,
}

impl Residual {
    pub(in crate::method) fn new(from: usize, device: &Device) -> Self {
        let conv = |from| Conv::new(from, CHANNELS, 3).bias().init_normal(DEVIATION, device);
        Self { first: conv(from), second: conv(CHANNELS) }
    }

    /// Without the addition.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let begun = self.begin(x);
        self.finish(begun)
    }

    /// The first convolution of as many channels as there are.
    fn begin(&self, x: Tensor<4>) -> Tensor<4> {
        let own = self.first.weight.val().slice_dim(1, 0..x.dims()[1]);
        bridge::conv2d(relu(x), own, ConvGeometry::of(&self.first)) + bias(&self.first)
    }

    /// What a history adds to the first convolution. A history has no value below zero, so its ReLU does nothing.
    fn remember(&self, history: Tensor<4>) -> Tensor<4> {
        let own = self.first.weight.val().slice_dim(1, CHANNELS..CHANNELS + HISTORY);
        bridge::conv2d(history, own, ConvGeometry::of(&self.first))
    }

    fn finish(&self, begun: Tensor<4>) -> Tensor<4> {
        bridge::conv(&self.second, relu(begun))
    }
}

/// The decoder.
#[derive(Module, Debug)]
pub struct Comparison {
    /// 3x3 of a map and the vectors of a class.
    pub compare: Conv2d,
    /// The first residual block, which sees the history.
    pub residual1: Residual,
    /// The second.
    pub residual2: Residual,
    /// The third.
    pub residual3: Residual,
    /// 1x1 of the mean, 1x1, and 3x3 of three dilations.
    pub aspp: Vec<Conv2d>,
    /// 1x1 of all of them.
    pub fuse: Conv2d,
    /// 1x1: two scores.
    pub out: Conv2d,
    /// After every layer outside the residual blocks, in training.
    pub dropout: Dropout2d,
}

/// A map that has been compared with a class: what all passes begin with.
#[derive(Clone, Debug)]
pub struct Compared {
    /// `[n, 256, h, w]`
    pub map: Tensor<4>,
    /// The first convolution of the first residual block, without a history.
    begun: Tensor<4>,
}

impl Compared {
    /// Without gradients, on the device below.
    pub(in crate::method) fn inner(&self) -> Self {
        Self { map: self.map.clone().inner(), begun: self.begun.clone().inner() }
    }
}

impl Comparison {
    /// For as many vectors of a class.
    pub(in crate::method) fn new(vectors: usize, device: &Device) -> Self {
        let init = |conv: Conv| conv.bias().init_normal(DEVIATION, device);
        let pointwise = || init(Conv::new(CHANNELS, CHANNELS, 1));
        let wide = ASPP.map(|dilation| init(Conv::new(CHANNELS, CHANNELS, 3).dilation(dilation)));
        Self {
            compare: init(Conv::new((1 + vectors) * CHANNELS, CHANNELS, 3).dilation(DILATION)),
            residual1: Residual::new(CHANNELS + HISTORY, device),
            residual2: Residual::new(CHANNELS, device),
            residual3: Residual::new(CHANNELS, device),
            aspp: [pointwise(), pointwise()].into_iter().chain(wide).collect(),
            fuse: init(Conv::new((2 + ASPP.len()) * CHANNELS, CHANNELS, 1)),
            out: init(Conv::new(CHANNELS, 2, 1)),
            dropout: Dropout2d::new(0.5),
        }
    }

    /// A map's share of the comparison, for [`compare`](Self::compare) with any number of classes.
    pub fn share(&self, map: Tensor<4>) -> Tensor<4> {
        let own = self.compare.weight.val().slice_dim(1, 0..CHANNELS);
        bridge::conv2d(map, own, ConvGeometry::of(&self.compare)) + bias(&self.compare)
    }

    /// Shares `[n or 1, 256, h, w]` with vectors `[n, 256 v]`, one after the other where there are several.
    pub fn compare(&self, share: &Tensor<4>, vectors: &Tensor<2>) -> Tensor<4> {
        let [.., height, width] = share.dims();
        let constant = constant_conv(&self.compare, vectors.clone(), CHANNELS, [height, width]);
        self.dropout.forward(relu(share.clone() + constant))
    }

    /// What all passes begin with. `first` is the first residual block: the own one for queries, another for supports
    /// of SCL, which have no history.
    pub fn begin(&self, first: &Residual, compared: Tensor<4>) -> Compared {
        Compared { begun: first.begin(compared.clone()), map: compared }
    }

    /// Scores `[n, 2, h, w]` of one pass. No history is a history of zeros.
    pub fn pass(&self, first: &Residual, compared: &Compared, history: Option<Tensor<4>>) -> Tensor<4> {
        let x = compared.map.clone() + self.first_residual(first, compared, history);
        let x = x.clone() + self.residual2.forward(x);
        let x = x.clone() + self.residual3.forward(x);
        let fused = self.fuse(self.branches(x));
        bridge::conv(&self.out, fused)
    }

    /// The scores of every one of `passes` passes, each with the softmax of the one before as history.
    pub fn refine(&self, compared: &Compared, passes: usize) -> Vec<Tensor<4>> {
        let mut all: Vec<Tensor<4>> = Vec::with_capacity(passes);
        for _ in 0..passes {
            let history = all.last().map(|scores| softmax(scores.clone(), 1));
            all.push(self.pass(&self.residual1, compared, history));
        }
        all
    }

    /// The first residual block before its addition.
    pub fn first_residual(
        &self,
        first: &Residual,
        compared: &Compared,
        history: Option<Tensor<4>>,
    ) -> Tensor<4> {
        let begun = compared.begun.clone();
        first.finish(match history {
            Some(history) => begun + first.remember(history),
            None => begun,
        })
    }

    /// The branches of the ASPP; that of the mean is one pixel.
    pub fn branches(&self, x: Tensor<4>) -> Vec<Tensor<4>> {
        let mean = x.clone().mean_dim(2).mean_dim(3);
        let inputs = std::iter::once(mean).chain(std::iter::repeat(x));
        let branch = |(conv, x)| self.dropout.forward(relu(bridge::conv(conv, x)));
        self.aspp.iter().zip(inputs).map(branch).collect()
    }

    /// All branches as one map.
    pub fn fuse(&self, branches: Vec<Tensor<4>>) -> Tensor<4> {
        let parts = branches.into_iter().enumerate().map(|(index, branch)| match index {
            0 => Part::Vector(branch.flatten(1, 3)),
            _ => Part::Map(branch),
        });
        let fused = fem::merge(&self.fuse, parts.collect()) + bias(&self.fuse);
        self.dropout.forward(relu(fused))
    }
}

/// The names of the decoder's layers in published checkpoints, and ours.
pub(in crate::method) const NAMES: [(&str, &str); 14] = [
    ("layer55.0.", "comparison.compare."),
    ("residule1.1.", "comparison.residual1.first."),
    ("residule1.3.", "comparison.residual1.second."),
    ("residule2.1.", "comparison.residual2.first."),
    ("residule2.3.", "comparison.residual2.second."),
    ("residule3.1.", "comparison.residual3.first."),
    ("residule3.3.", "comparison.residual3.second."),
    ("layer6_0.0.", "comparison.aspp.0."),
    ("layer6_1.0.", "comparison.aspp.1."),
    ("layer6_2.0.", "comparison.aspp.2."),
    ("layer6_3.0.", "comparison.aspp.3."),
    ("layer6_4.0.", "comparison.aspp.4."),
    ("layer7.0.", "comparison.fuse."),
    ("layer9.", "comparison.out."),
];

fn bias(conv: &Conv2d) -> Tensor<4> {
    conv.bias.as_ref().expect("every layer has a bias").val().reshape([1, -1, 1, 1])
}

/// What a convolution that keeps the size gives for maps that are the same vector `[n, c]` everywhere, by the channels
/// `from .. from + c` of its weight, without bias: `[n, to, h, w]`. A place sums the taps that fall on the map.
fn constant_conv(conv: &Conv2d, vectors: Tensor<2>, from: usize, [height, width]: [usize; 2]) -> Tensor<4> {
    let [n, channels] = vectors.dims();
    let [to, _, kernel, _] = conv.weight.dims();
    let own = conv.weight.val().slice_dim(1, from..from + channels);
    let own = own.swap_dims(0, 1).reshape([channels, to * kernel * kernel]);
    let taps = vectors.matmul(own).reshape([n, to, kernel, kernel]);
    let ConvGeometry { dilation, padding, .. } = ConvGeometry::of(conv);
    let device = taps.device();
    // [side, kernel]: 1 where a tap falls on the map.
    let reach = |side: usize| {
        let inside = |at: usize, tap: usize| {
            let at = at + tap * dilation;
            f32::from(u8::from((padding..padding + side).contains(&at)))
        };
        let inside: Vec<f32> = (0..side).flat_map(|at| (0..kernel).map(move |tap| inside(at, tap))).collect();
        Tensor::<2>::from_data(TensorData::new(inside, [side, kernel]), &device)
    };
    let rows = reach(height).reshape([1, 1, height, kernel]);
    let columns = reach(width).transpose().reshape([1, 1, kernel, width]);
    rows.matmul(taps).matmul(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{device::cpu, method::mask::tiled};
    use burn::tensor::Distribution;
    use protoseg_testing::assert_close;

    fn values(map: Tensor<4>) -> Vec<f32> {
        map.try_into_vec_as().unwrap()
    }

    #[test]
    fn comparing_is_the_convolution_of_map_and_tiled_vectors() {
        let device = cpu();
        device.seed(1);
        let comparison = Comparison::new(2, &device);
        let normal = Distribution::Normal(0.0, 1.0);
        // A map that taps cross the border of on every side, and one where several taps always do.
        for size in [[7, 5], [3, 2]] {
            let map = Tensor::<4>::random([1, CHANNELS, size[0], size[1]], normal, &device);
            let vectors = Tensor::<2>::random([3, 2 * CHANNELS], normal, &device);
            let fast = comparison.compare(&comparison.share(map.clone()), &vectors);
            let whole = Tensor::cat(vec![map.repeat_dim(0, 3), tiled(vectors, size)], 1);
            let plain = relu(comparison.compare.forward(whole));
            assert_close("compared", &values(fast), &values(plain), 1e-4);
        }
    }

    #[test]
    fn a_pass_is_the_plain_residual_block_on_map_and_history() {
        let device = cpu();
        device.seed(2);
        let comparison = Comparison::new(1, &device);
        let normal = Distribution::Normal(0.0, 1.0);
        let map = Tensor::<4>::random([2, CHANNELS, 4, 5], normal, &device);
        let history = softmax(Tensor::<4>::random([2, 2, 4, 5], normal, &device), 1);
        let first = &comparison.residual1;
        let compared = comparison.begin(first, map.clone());
        let got = comparison.first_residual(first, &compared, Some(history.clone()));
        let x = relu(Tensor::cat(vec![map, history], 1));
        let plain = first.second.forward(relu(first.first.forward(x)));
        assert_close("residual", &values(got), &values(plain), 1e-4);
    }
}
