//! Pyramid pooling (PSPNet), with an exact shortcut through the convolution behind it.
//!
//! The plain form pools the map to 1, 4, 9 and 36 positions, mixes channels there, upsamples each to h x w, concatenates
//! them to the map and convolves all of it 3x3. Upsampling and convolution are both linear, so the pyramid's half of
//! that convolution can be done on the tiny maps: mix their channels once for each of the nine taps, then spread the
//! results over the map. Spreading (upsample, shift by the tap, zero outside the border) is one matrix that depends on
//! sizes alone. At 473x473 this removes 34 of the head's 68 GMAC, in training as in inference.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor, TensorData, module::adaptive_avg_pool2d},
};

use crate::{
    bridge::{ConvGeometry, conv2d},
    nn::{Conv, ConvNorm, Cost, upsample},
};

/// Sides of the pyramid's maps.
pub(crate) const BINS: [usize; 4] = [1, 2, 3, 6];
/// Taps of the 3x3 convolution behind the pyramid.
pub(crate) const TAPS: usize = 9;

/// `[batch, c, h, w]` -> four maps of `c / 4` channels at 1x1, 2x2, 3x3 and 6x6.
#[derive(Module, Debug)]
pub struct Ppm {
    pub branches: Vec<ConvNorm>,
}

impl Ppm {
    pub fn new(from: usize, device: &Device) -> Self {
        let branch = |_| ConvNorm::new(Conv::new(from, from / BINS.len(), 1), device);
        Self { branches: BINS.iter().map(branch).collect() }
    }

    /// Channels of the map and the pyramid together.
    pub fn channels(&self, from: usize) -> usize {
        from + BINS.len() * (from / BINS.len())
    }

    fn pooled(&self, x: &Tensor<4>) -> impl Iterator<Item = Tensor<4>> {
        let branches = self.branches.iter().zip(BINS);
        branches.map(|(branch, bin)| branch.forward_relu(adaptive_avg_pool2d(x.clone(), [bin, bin])))
    }

    /// The plain form: `[x, up(pooled_1), .., up(pooled_6)]`. [`Ppm::project`] gives what a 3x3 convolution of this
    /// gives, for half the work.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = x.dims();
        let pyramid = self.pooled(&x).map(|map| upsample(map, [height, width]));
        let maps = std::iter::once(x.clone()).chain(pyramid).collect();
        Tensor::cat(maps, 1)
    }

    /// `conv(self.forward(x))` by the shortcut; `conv` is 3x3, stride 1, dilation 1, padding 1, without bias.
    pub fn project(&self, x: Tensor<4>, conv: &Conv2d) -> Tensor<4> {
        debug_assert!(conv.bias.is_none() && conv.kernel_size == [3, 3] && conv.dilation == [1, 1]);
        let [batch, from, height, width] = x.dims();
        let weight = conv.weight.val();
        let to = weight.dims()[0];

        let mut start = from;
        let mixed = self.pooled(&x).zip(BINS).map(|(map, bin)| {
            let channels = map.dims()[1];
            // [to, c, 3, 3] -> [to * taps, c, 1, 1]: one channel mix a tap.
            let taps = weight.clone().slice_dim(1, start..start + channels);
            start += channels;
            let taps = taps.permute([0, 2, 3, 1]).reshape([to * TAPS, channels, 1, 1]);
            let mixed = conv2d(map, taps, ConvGeometry { stride: 1, dilation: 1, padding: 0 });
            mixed.reshape([batch * to, TAPS * bin * bin])
        });
        let mixed = Tensor::cat(mixed.collect(), 1);
        let spread = spread_matrix(height, width, &x.device());
        let pyramid = mixed.matmul(spread).reshape([batch, to, height, width]);

        let own =
            conv2d(x, weight.slice_dim(1, 0..from), ConvGeometry { stride: 1, dilation: 1, padding: 1 });
        own + pyramid
    }

    pub(super) fn cost(&self, cost: &mut Cost) {
        for (branch, bin) in self.branches.iter().zip(BINS) {
            branch.cost(cost, [bin, bin]);
        }
    }

    /// What the plain convolution of the pyramid's channels costs, less what the shortcut costs.
    pub(super) fn saved_macs(&self, conv: &Conv2d, [height, width]: [usize; 2]) -> u64 {
        let to = conv.weight.lazy_shape()[0];
        let positions: usize = BINS.iter().map(|bin| bin * bin).sum();
        let channels = self.branches[0].conv.weight.lazy_shape()[0];
        let plain = to * TAPS * channels * BINS.len() * height * width;
        let mix = to * TAPS * channels * positions;
        let spread = to * TAPS * positions * height * width;
        plain.saturating_sub(mix + spread) as u64
    }
}

/// `[sum over bins of 9 * bin * bin, height * width]`: where, and with which weight, the value of a pyramid position under
/// a tap lands on the map.
fn spread_matrix(height: usize, width: usize, device: &Device) -> Tensor<2> {
    let mut matrix = Vec::new();
    for bin in BINS {
        let (rows, columns) = (shifted_weights(bin, height), shifted_weights(bin, width));
        for row_tap in &rows {
            for column_tap in &columns {
                for row in row_tap {
                    for column in column_tap {
                        matrix.extend(row.iter().flat_map(|y| column.iter().map(move |x| y * x)));
                    }
                }
            }
        }
    }
    let entries = matrix.len() / (height * width);
    Tensor::from_data(TensorData::new(matrix, [entries, height * width]), device)
}

/// The same for rows that are pixels: `[height * width, position and tap]`, the taps of a position together.
pub(crate) fn pyramid_spread(height: usize, width: usize) -> Vec<f32> {
    let lines: Vec<_> =
        BINS.iter().map(|&bin| (bin, shifted_weights(bin, height), shifted_weights(bin, width))).collect();
    let mut spread = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for (bin, rows, columns) in &lines {
                for position in 0..bin * bin {
                    for row in rows {
                        spread.extend(
                            columns.iter().map(|column| row[position / bin][y] * column[position % bin][x]),
                        );
                    }
                }
            }
        }
    }
    spread
}

/// `[tap][position][i]`: weight of `position` among `bin` in the upsampled line's value at `i + tap - 1`, zero where that
/// lies outside the line.
fn shifted_weights(bin: usize, length: usize) -> [Vec<Vec<f32>>; 3] {
    let ratio = (bin as f64 - 1.0) / (length.max(2) as f64 - 1.0);
    let weight = |position: usize, i: usize| {
        let source = i as f64 * ratio;
        (1.0 - (source - position as f64).abs()).max(0.0) as f32
    };
    [0, 1, 2].map(|tap| {
        let line = |position| {
            let at = |i: usize| match (i + tap).checked_sub(1) {
                Some(i) if i < length => weight(position, i),
                _ => 0.0,
            };
            (0..length).map(at).collect()
        };
        (0..bin).map(line).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::tensor::Distribution;
    use protoseg_testing::assert_close;

    /// Compares the two forms, and the gradients of the input and of both weights.
    fn compare(height: usize, width: usize) {
        let device = cpu().autodiff();
        device.seed(7);
        let ppm = Ppm::new(16, &device);
        let conv = Conv::new(32, 12, 3).init(&device);
        let x = Tensor::<4>::random([2, 16, height, width], Distribution::Normal(0.0, 1.0), &device);
        let target = Tensor::<4>::random([2, 12, height, width], Distribution::Normal(0.0, 1.0), &device);
        let run = |shortcut: bool| {
            let x = x.clone().detach().require_grad();
            let y =
                if shortcut { ppm.project(x.clone(), &conv) } else { conv.forward(ppm.forward(x.clone())) };
            let grads = (y.clone() * target.clone()).sum().backward();
            let branch = ppm.branches[3].conv.weight.val().grad(&grads).unwrap();
            let conv_grad = conv.weight.val().grad(&grads).unwrap();
            [y.inner(), x.grad(&grads).unwrap(), conv_grad, branch]
                .map(|tensor| tensor.try_into_vec_as::<f32>().unwrap())
        };
        let (fast, plain) = (run(true), run(false));
        for (i, what) in ["output", "input grad", "conv grad", "branch grad"].iter().enumerate() {
            assert_close(&format!("{what} at {height} x {width}"), &fast[i], &plain[i], 2e-4);
        }
    }

    #[test]
    fn shortcut_equals_the_plain_form_forward_and_backward() {
        for (height, width) in [(13, 13), (6, 9), (1, 1), (2, 7), (20, 3)] {
            compare(height, width);
        }
    }
}
