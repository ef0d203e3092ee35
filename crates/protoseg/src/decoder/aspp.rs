//! Atrous spatial pyramid pooling (DeepLab-V3): a 1x1, three dilated 3x3 and the image's mean, side by side.

use burn::{module::Module, tensor::Device};

use crate::{
    graph::{Graph, Node},
    nn::{Conv, ConvNorm},
};

/// `[batch, from, h, w]` -> `[batch, 5 * to, h, w]`.
#[derive(Module, Debug)]
pub struct Aspp {
    /// The 1x1.
    pub point: ConvNorm,
    /// The dilated 3x3, narrowest first.
    pub atrous: Vec<ConvNorm>,
    /// The 1x1 on the mean of the image.
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

    pub(super) fn describe<'a>(&'a self, graph: &mut Graph<'a>, name: &str, x: Node) -> Node {
        let pooled = graph.average_pool(format!("{name}.mean"), x, 1);
        let pooled = graph.conv_norm(format!("{name}.pool"), &self.pool, pooled);
        let pooled = graph.relu(pooled);
        let context = graph.resize(pooled, x);
        let point = graph.conv_norm(format!("{name}.point"), &self.point, x);
        let mut parts = vec![graph.relu(point)];
        for (index, conv) in self.atrous.iter().enumerate() {
            let atrous = graph.conv_norm(format!("{name}.atrous.{index}"), conv, x);
            parts.push(graph.relu(atrous));
        }
        parts.push(context);
        graph.concat(name, parts)
    }
}
