//! Atrous spatial pyramid pooling (DeepLab-V3): a 1x1, three dilated 3x3 and the image's mean, side by side.

use burn::{
    module::Module,
    tensor::{Device, Tensor, module::adaptive_avg_pool2d},
};

use crate::nn::{Conv, ConvNorm, Cost};

/// `[batch, from, h, w]` -> `[batch, 5 * to, h, w]`.
#[derive(Module, Debug)]
pub struct Aspp {
    pub point: ConvNorm,
    pub atrous: Vec<ConvNorm>,
    pub pool: ConvNorm,
}

impl Aspp {
    /// Dilations are 12, 24 and 36 at output stride 8, and in proportion at others: the same view of the image.
    pub fn new(from: usize, to: usize, output_stride: usize, device: &Device) -> Self {
        let rates = [1, 2, 3].map(|i| i * 96 / output_stride);
        let atrous = |rate| ConvNorm::new(Conv::new(from, to, 3).dilation(rate), device);
        Self {
            point: ConvNorm::new(Conv::new(from, to, 1), device),
            atrous: rates.into_iter().map(atrous).collect(),
            pool: ConvNorm::new(Conv::new(from, to, 1), device),
        }
    }

    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, _, height, width] = x.dims();
        let pooled = self.pool.forward_relu(adaptive_avg_pool2d(x.clone(), [1, 1]));
        let [_, channels, _, _] = pooled.dims();
        let mut branches = vec![self.point.forward_relu(x.clone())];
        branches.extend(self.atrous.iter().map(|conv| conv.forward_relu(x.clone())));
        branches.push(pooled.expand([batch, channels, height, width]));
        Tensor::cat(branches, 1)
    }

    pub(super) fn cost(&self, cost: &mut Cost, size: [usize; 2]) {
        self.point.cost(cost, size);
        for conv in &self.atrous {
            conv.cost(cost, size);
        }
        self.pool.cost(cost, [1, 1]);
    }
}
