//! What a forward pass costs.

use super::{
    Graph, Node, Op, PerNode,
    fuse::{Work, fuse},
    pyramid,
    shape::{MapShape, conv_shape},
};

/// Multiply-accumulates of one image's features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macs {
    /// As the network is written.
    pub plain: u64,
    /// As it is computed, with the pyramid shortcut.
    pub computed: u64,
}

impl Graph<'_> {
    /// What outputs cost for maps of these shapes, as the network is written.
    pub fn plain_macs(&self, shapes: &PerNode<MapShape>, outputs: &[Node]) -> u64 {
        let needed = self.needed(outputs);
        let macs = self.ids().filter(|&node| needed[node]).map(|node| match self.entry(node).op {
            Op::Conv(conv) => conv_shape(conv, shapes[self.entry(node).inputs[0]]).macs(),
            // Queries with keys, and weights with values.
            Op::Attention { .. } => {
                let [_, tokens, channels] = shapes[node];
                (2 * tokens * tokens * channels) as u64
            }
            _ => 0,
        });
        macs.sum()
    }

    /// What `output` costs for an image of `[height, width]`.
    pub fn macs(&self, [height, width]: [usize; 2], output: Node) -> Macs {
        let shapes = self.shapes([height, width, 3]);
        let plain = self.plain_macs(&shapes, &[output]);
        let saved = fuse(self, &[output]).into_iter().map(|step| match step.work {
            Work::Layer(layer) => layer.pyramid.map_or(0, |pyramid| {
                let [height, width, to] = shapes[step.output];
                let levels: Vec<_> =
                    pyramid.levels.iter().map(|level| (level.bins, shapes[level.map][2])).collect();
                pyramid::saved_macs(&levels, to, [height, width])
            }),
            Work::Single(..) => 0,
        });
        Macs { plain, computed: plain - saved.sum::<u64>() }
    }
}
