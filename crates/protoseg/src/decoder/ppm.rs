//! Pyramid pooling (PSPNet).
//!
//! The map is pooled to 1, 4, 9 and 36 positions, channels are mixed there, and each small map is upsampled to h x w
//! and concatenated to the map. What a 3x3 convolution makes of that is computed by a shortcut
//! ([`pyramid`](crate::graph::pyramid)).

use burn::{module::Module, tensor::Device};

use crate::{
    graph::{Graph, Node},
    nn::{Conv, ConvNorm},
};

/// Sides of the pyramid's maps.
const BINS: [usize; 4] = [1, 2, 3, 6];

/// `[batch, c, h, w]` -> `[batch, 2 c, h, w]`: the map, and four maps of `c / 4` channels.
#[derive(Module, Debug)]
pub struct Ppm {
    /// The 1x1 of each bin, smallest bin first.
    pub branches: Vec<ConvNorm>,
}

impl Ppm {
    /// A pyramid over a map of `from` channels, with fresh weights.
    pub fn new(from: usize, device: &Device) -> Self {
        let branch = |_| ConvNorm::new(Conv::new(from, from / BINS.len(), 1), device);
        Self { branches: BINS.iter().map(branch).collect() }
    }

    /// Channels of the map and the pyramid together.
    pub fn channels(&self, from: usize) -> usize {
        from + BINS.len() * (from / BINS.len())
    }

    pub(super) fn describe<'a>(&'a self, graph: &mut Graph<'a>, name: &str, x: Node) -> Node {
        let mut parts = vec![x];
        for (index, (branch, bins)) in self.branches.iter().zip(BINS).enumerate() {
            let pooled = graph.average_pool(format!("{name}.pool{bins}"), x, bins);
            let mixed = graph.conv_norm(format!("{name}.{index}"), branch, pooled);
            let mixed = graph.relu(mixed);
            parts.push(graph.resize(mixed, x));
        }
        graph.concat(name, parts)
    }
}
