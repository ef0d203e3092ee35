//! Convolutions in their three directions, each by the kernel that suits its shape.

use crate::{depthwise, im2col, pointwise, winograd};

/// A square convolution of zero-padded maps, the same along both axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    pub batch: usize,
    /// Input channels.
    pub from: usize,
    /// Output channels.
    pub to: usize,
    /// Of the input.
    pub height: usize,
    /// Of the input.
    pub width: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Zeros above and left of a map.
    pub padding: usize,
    /// Zeros below and right of a map.
    pub padding_after: usize,
    /// Groups of channels that do not see each other: 1, or one per channel (see [`Self::is_supported`]).
    pub groups: usize,
}

impl ConvShape {
    fn out_side(&self, side: usize) -> usize {
        let reach = self.dilation * (self.kernel - 1) + 1;
        (side + self.padding + self.padding_after).checked_sub(reach).map_or(0, |room| room / self.stride + 1)
    }

    pub fn out_height(&self) -> usize {
        self.out_side(self.height)
    }

    pub fn out_width(&self) -> usize {
        self.out_side(self.width)
    }

    /// Values of one input map.
    pub(crate) fn in_plane(&self) -> usize {
        self.height * self.width
    }

    /// Values of one output map.
    pub(crate) fn out_plane(&self) -> usize {
        self.out_height() * self.out_width()
    }

    pub fn input_len(&self) -> usize {
        self.batch * self.from * self.in_plane()
    }

    pub fn output_len(&self) -> usize {
        self.batch * self.to * self.out_plane()
    }

    pub fn weight_len(&self) -> usize {
        self.to * (self.from / self.groups) * self.kernel * self.kernel
    }

    /// Whether there are kernels for it: all channels in one group, or every channel in a group of its own.
    pub fn is_supported(&self) -> bool {
        self.groups == 1 || self.is_depthwise()
    }

    /// Whether every channel is convolved by itself.
    pub fn is_depthwise(&self) -> bool {
        self.groups > 1 && [self.from, self.to] == [self.groups; 2]
    }

    pub(crate) fn is_pointwise(&self) -> bool {
        self.groups == 1
            && self.kernel == 1
            && self.stride == 1
            && [self.padding, self.padding_after] == [0; 2]
    }

    /// Whether it is a 3x3 of all channels that keeps the size of its maps.
    pub(crate) fn is_same_3x3(&self) -> bool {
        let is_same = [self.padding, self.padding_after] == [self.dilation; 2];
        self.groups == 1 && self.kernel == 3 && self.stride == 1 && is_same
    }

    /// Maps no larger than a 3x3's dilation lie under its middle tap alone, as under the widest of DeepLab's: what
    /// is left is this 1x1.
    pub(crate) fn middle_tap(&self) -> Option<Self> {
        (self.is_same_3x3() && self.dilation >= self.height.max(self.width)).then_some(Self {
            kernel: 1,
            padding: 0,
            padding_after: 0,
            dilation: 1,
            ..*self
        })
    }

    /// Multiply-accumulates of the convolution as it is written.
    pub fn macs(&self) -> u64 {
        (self.batch * self.out_plane() * self.weight_len()) as u64
    }

    fn check(&self, input: usize, weight: usize, output: usize) {
        assert!(self.is_supported(), "no kernel for the groups of {self:?}");
        assert_eq!(input, self.input_len(), "input of {self:?}");
        assert_eq!(weight, self.weight_len(), "weight of {self:?}");
        assert_eq!(output, self.output_len(), "output of {self:?}");
    }
}

/// `input` convolved with `weight`.
pub fn conv_forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    shape.check(input.len(), weight.len(), shape.output_len());
    if shape.is_depthwise() {
        depthwise::forward(shape, input, weight)
    } else if shape.is_pointwise() {
        pointwise::forward(shape, input, weight)
    } else if let Some(point) = shape.middle_tap() {
        pointwise::forward(&point, input, &middle_taps(weight))
    } else if winograd::suits(shape) {
        winograd::forward(shape, input, weight)
    } else {
        im2col::forward(shape, input, weight)
    }
}

/// The gradient of the input, given `grad`, that of the output.
pub fn conv_input_grad(shape: &ConvShape, grad: &[f32], weight: &[f32]) -> Vec<f32> {
    shape.check(shape.input_len(), weight.len(), grad.len());
    if shape.is_depthwise() {
        depthwise::input_grad(shape, grad, weight)
    } else if shape.is_pointwise() {
        pointwise::input_grad(shape, grad, weight)
    } else if let Some(point) = shape.middle_tap() {
        pointwise::input_grad(&point, grad, &middle_taps(weight))
    } else if winograd::suits(shape) {
        winograd::input_grad(shape, grad, weight)
    } else {
        im2col::input_grad(shape, grad, weight)
    }
}

/// The gradient of the weight, given `grad`, that of the output.
pub fn conv_weight_grad(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f32> {
    shape.check(input.len(), shape.weight_len(), grad.len());
    if shape.is_depthwise() {
        depthwise::weight_grad(shape, input, grad)
    } else if shape.is_pointwise() {
        pointwise::weight_grad(shape, input, grad)
    } else if let Some(point) = shape.middle_tap() {
        let middle = |tap| [0.0, 0.0, 0.0, 0.0, tap, 0.0, 0.0, 0.0, 0.0];
        pointwise::weight_grad(&point, input, grad).into_iter().flat_map(middle).collect()
    } else if winograd::suits(shape) {
        winograd::weight_grad(shape, input, grad)
    } else {
        im2col::weight_grad(shape, input, grad)
    }
}

fn middle_taps(weight: &[f32]) -> Vec<f32> {
    weight.as_chunks::<9>().0.iter().map(|taps| taps[4]).collect()
}
