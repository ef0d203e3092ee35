//! Convolutions in their three directions, each by the kernel that suits its shape.

use crate::{im2col, pointwise, winograd};

/// A square convolution of zero-padded maps.
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
    pub padding: usize,
}

impl ConvShape {
    fn out_side(&self, side: usize) -> usize {
        let reach = self.dilation * (self.kernel - 1) + 1;
        (side + 2 * self.padding).checked_sub(reach).map_or(0, |room| room / self.stride + 1)
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
        self.to * self.from * self.kernel * self.kernel
    }

    pub(crate) fn is_pointwise(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.padding == 0
    }

    /// Maps no larger than a 3x3's dilation lie under its middle tap alone, as under the widest of DeepLab's: what is left is
    /// this 1x1.
    pub(crate) fn middle_tap(&self) -> Option<Self> {
        let same = self.kernel == 3 && self.stride == 1 && self.padding == self.dilation;
        (same && self.dilation >= self.height.max(self.width)).then_some(Self {
            kernel: 1,
            padding: 0,
            dilation: 1,
            ..*self
        })
    }

    /// Multiply-accumulates of the convolution as it is written.
    pub fn macs(&self) -> u64 {
        (self.batch * self.out_plane() * self.weight_len()) as u64
    }

    fn check(&self, input: usize, weight: usize, output: usize) {
        assert_eq!(input, self.input_len(), "input of {self:?}");
        assert_eq!(weight, self.weight_len(), "weight of {self:?}");
        assert_eq!(output, self.output_len(), "output of {self:?}");
    }
}

/// `input` convolved with `weight`.
pub fn conv_forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    shape.check(input.len(), weight.len(), shape.output_len());
    if shape.is_pointwise() {
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
    if shape.is_pointwise() {
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
    if shape.is_pointwise() {
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
