//! Convolutions that keep a map's size, with or without normalisation after them.

use burn::{
    module::{Initializer, Module},
    nn::{
        PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
    tensor::Device,
};

use super::{BatchNorm, NormSettings};

/// A square convolution, padded so that stride 1 keeps the size unless said otherwise.
#[derive(Clone, Copy)]
pub(crate) struct Conv {
    pub from: usize,
    pub to: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub bias: bool,
    pub groups: usize,
    /// Zeros above and left, and below and right.
    pub padding: Option<(usize, usize)>,
}

impl Conv {
    pub const fn new(from: usize, to: usize, kernel: usize) -> Self {
        Self { from, to, kernel, stride: 1, dilation: 1, bias: false, groups: 1, padding: None }
    }

    pub const fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    pub const fn dilation(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    pub const fn bias(self) -> Self {
        Self { bias: true, ..self }
    }

    /// Every channel by itself.
    pub const fn depthwise(self) -> Self {
        Self { groups: self.from, ..self }
    }

    pub const fn padding(self, before: usize, after: usize) -> Self {
        Self { padding: Some((before, after)), ..self }
    }

    fn config(self) -> Conv2dConfig {
        let same = self.dilation * (self.kernel - 1) / 2;
        let (before, after) = self.padding.unwrap_or((same, same));
        Conv2dConfig::new([self.from, self.to], [self.kernel; 2])
            .with_stride([self.stride; 2])
            .with_dilation([self.dilation; 2])
            .with_padding(PaddingConfig2d::Explicit(before, before, after, after))
            .with_groups(self.groups)
            .with_bias(self.bias)
    }

    /// With PyTorch's default initialisation, which is Burn's too: what heads start from.
    pub fn init(self, device: &Device) -> Conv2d {
        self.config().init(device)
    }

    /// With normal weights of this deviation and PyTorch's default bias.
    pub fn init_normal(self, std: f64, device: &Device) -> Conv2d {
        let bias = self.init(device).bias;
        let initializer = Initializer::Normal { mean: 0.0, std };
        Conv2d { bias, ..self.config().with_initializer(initializer).init(device) }
    }

    /// With He's normal initialisation over the outgoing connections: what torchvision's encoders start from.
    pub fn init_he(self, device: &Device) -> Conv2d {
        self.config()
            .with_initializer(Initializer::KaimingNormal { gain: 2f64.sqrt(), fan_out_only: true })
            .init(device)
    }
}

/// A convolution without bias and the batch normalisation after it.
#[derive(Module, Debug)]
pub struct ConvNorm {
    /// The convolution.
    pub conv: Conv2d,
    /// Its normalisation.
    pub bn: BatchNorm,
}

impl ConvNorm {
    pub(crate) fn new(conv: Conv, device: &Device) -> Self {
        Self { conv: conv.init(device), bn: BatchNorm::new(conv.to, device) }
    }

    pub(crate) fn new_he(conv: Conv, device: &Device) -> Self {
        Self { conv: conv.init_he(device), bn: BatchNorm::new(conv.to, device) }
    }

    /// With other settings of the batch normalisation.
    pub(crate) fn with_norm(self, settings: NormSettings) -> Self {
        Self { bn: self.bn.with(settings), ..self }
    }
}
