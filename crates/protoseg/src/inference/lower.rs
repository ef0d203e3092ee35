//! From the graph of a network to the steps of a program.

use std::collections::HashMap;

use protoseg_kernels::{
    Activation, ConvShape,
    channels_last::{Attention, LayerNorm, PackedConv, Panels},
};

use super::{
    NoKernel, Precision,
    program::{Builder, Map, Program, Work},
    spread::Spread,
};
use crate::{
    graph::{
        Graph, Node, Op, PerNode,
        fold::Folded,
        fuse::{self, Layer, Pyramid, Step, fuse},
        pyramid::TAPS,
        shape::{MapShape, conv_shape},
    },
    nn::ConvWeights,
};

/// The program that computes `outputs` of an input of `[height, width, channels]`, unless a step of it has no kernel.
pub fn lower(
    graph: &Graph,
    outputs: &[Node],
    input: MapShape,
    precision: Precision,
    weights: &ConvWeights,
) -> Result<Program, NoKernel> {
    let steps = fuse(graph, outputs);
    let (builder, image) = Builder::new(input);
    let mut lowering = Lowering {
        builder,
        shapes: graph.shapes(input),
        maps: HashMap::new(),
        parts: parts(graph, &steps, input)?,
        precision,
        weights,
    };
    for step in &steps {
        match &step.work {
            fuse::Work::Single(Op::Input, _) => {
                lowering.maps.insert(step.output, image);
            }
            fuse::Work::Single(op, inputs) => lowering.single(step, *op, inputs)?,
            fuse::Work::Layer(layer) => lowering.layer(step, layer)?,
        }
    }
    let outputs: Vec<Map> = outputs.iter().map(|output| lowering.maps[output]).collect();
    Ok(lowering.builder.finish(&outputs))
}

/// The channels of a concatenation that a node is written to.
#[derive(Clone, Copy)]
struct Part {
    whole: Node,
    offset: usize,
}

/// Which nodes are written to their place in a concatenation at once.
fn parts(graph: &Graph, steps: &[Step], input: MapShape) -> Result<HashMap<Node, Part>, NoKernel> {
    let shapes = graph.shapes(input);
    let mut reads: HashMap<Node, usize> = HashMap::new();
    steps.iter().flat_map(Step::inputs).for_each(|node| *reads.entry(node).or_default() += 1);
    let mut parts = HashMap::new();
    for step in steps {
        let fuse::Work::Single(Op::Concat, inputs) = &step.work else { continue };
        let mut offset = 0;
        for &input in inputs {
            let writer = steps.iter().find(|step| step.output == input);
            let can_write = writer.is_some_and(|writer| match &writer.work {
                fuse::Work::Layer(layer) => layer.add.is_none() && layer.pyramid.is_none(),
                fuse::Work::Single(op, _) => matches!(op, Op::Resize),
            });
            if !can_write || reads[&input] > 1 {
                return Err(NoKernel::new(&step.name, "a concatenation of maps that others read too"));
            }
            parts.insert(input, Part { whole: step.output, offset });
            offset += shapes[input][2];
        }
    }
    Ok(parts)
}

struct Lowering<'a> {
    builder: Builder,
    shapes: PerNode<MapShape>,
    /// Where the value of each node is, as far as it has been computed.
    maps: HashMap<Node, Map>,
    parts: HashMap<Node, Part>,
    precision: Precision,
    weights: &'a ConvWeights,
}

impl Lowering<'_> {
    fn single(&mut self, step: &Step, op: Op, inputs: &[Node]) -> Result<(), NoKernel> {
        let no_kernel = |what| Err(NoKernel::new(&step.name, what));
        let work = |lowering: &mut Self, work: Work| {
            let (to, offset) = lowering.place(step.output);
            let from = lowering.maps[&inputs[0]];
            lowering.builder.step(&step.name, work, &[from], to, offset);
            Ok(())
        };
        match op {
            Op::MaxPool(pool) => work(self, Work::MaxPool(pool)),
            Op::Activation(activation) => work(self, Work::Activation(activation)),
            Op::AveragePool { bins } => work(self, Work::AveragePool { bins }),
            Op::Resize if self.shapes[inputs[0]][..2] == [1, 1] => work(self, Work::Broadcast),
            Op::Stages | Op::Weigh => {
                let (to, offset) = self.place(step.output);
                let from: Vec<Map> = inputs.iter().map(|input| self.maps[input]).collect();
                let work = if matches!(op, Op::Weigh) { Work::Weigh } else { Work::Stages };
                self.builder.step(&step.name, work, &from, to, offset);
                Ok(())
            }
            // Its parts are written to it.
            Op::Concat => Ok(()),
            // Only training drops anything.
            Op::Dropout(_) => {
                self.maps.insert(step.output, self.maps[&inputs[0]]);
                Ok(())
            }
            Op::Input | Op::Conv(_) => unreachable!("it is no single step"),
            Op::Tokens(tokens) => {
                let [height, width, _] = self.shapes[inputs[0]];
                work(self, Work::Tokens(tokens.at([height, width])))
            }
            Op::Grid { prefix } => work(self, Work::Grid { prefix }),
            Op::LayerNorm(norm) => {
                let [weight, bias] = norm.scale_and_shift();
                work(self, Work::LayerNorm(LayerNorm { weight, bias, epsilon: norm.epsilon as f32 }))
            }
            Op::Gelu => work(self, Work::Gelu),
            Op::HardSwish => work(self, Work::HardSwish),
            Op::HardSigmoid => work(self, Work::HardSigmoid),
            Op::Gated => work(self, Work::Gated),
            Op::Attention { heads, rotary } => {
                let ([height, width, _], [.., channels]) = (self.shapes[inputs[1]], self.shapes[step.output]);
                let rotations = rotary.map(|rotary| rotary.rotations([height, width], channels / heads));
                work(self, Work::Attention(Attention::new(heads, channels, rotations)))
            }
            Op::Scale(_) => no_kernel("a factor that follows no convolution"),
            Op::Norm(_) => no_kernel("a normalisation that follows no convolution"),
            Op::Add => no_kernel("a sum that follows no convolution"),
            Op::Resize => no_kernel("a resized map"),
        }
    }

    fn layer(&mut self, step: &Step, layer: &Layer) -> Result<(), NoKernel> {
        let shape = conv_shape(layer.conv, self.shapes[layer.input]);
        let folded = Folded::new(layer.conv, layer.norm, layer.scale, self.weights);
        if !shape.is_supported() {
            return Err(NoKernel::new(&step.name, "a convolution in groups"));
        }
        let add = layer.add.map(|node| self.maps[&node]);
        match &layer.pyramid {
            None => self.conv(step, layer.input, (shape, folded, layer.activation), add),
            Some(_) if add.is_some() => {
                return Err(NoKernel::new(&step.name, "a shortcut after a pyramid"));
            }
            Some(pyramid) => {
                let (own, spread) = self.pyramid(step, pyramid, &shape, folded);
                self.conv(step, layer.input, (shape, own, layer.activation), Some(spread));
            }
        }
        Ok(())
    }

    fn conv(
        &mut self,
        step: &Step,
        input: Node,
        (shape, Folded { weight, bias }, activation): (ConvShape, Folded, Activation),
        add: Option<Map>,
    ) {
        let conv = PackedConv::with_precision(shape, &weight, &bias, activation, self.precision);
        let (to, offset) = self.place(step.output);
        let from: Vec<Map> = std::iter::once(self.maps[&input]).chain(add).collect();
        self.builder.step(&step.name, Work::Conv(conv), &from, to, offset);
    }

    /// The pyramid's share of a convolution, computed where the pyramid is small; and the weights that are left.
    fn pyramid(&mut self, step: &Step, pyramid: &Pyramid, own: &ConvShape, folded: Folded) -> (Folded, Map) {
        let (from, to) = (own.from, own.to);
        let all = folded.weight.len() / (to * TAPS);
        let mut first = from;
        let levels = pyramid.levels.iter().map(|level| {
            let [.., channels] = self.shapes[level.map];
            // [channels, tap and output channel]
            let taps = Panels::new(channels, TAPS * to, |channel, column| {
                let (tap, to) = (column / to, column % to);
                folded.weight[(to * all + first + channel) * TAPS + tap]
            });
            first += channels;
            (level.bins, taps)
        });
        let [height, width, _] = self.shapes[step.output];
        let spread = Spread::new([height, width], to, levels.collect());
        let share = self.builder.map([height, width, to]);
        let maps: Vec<Map> = pyramid.levels.iter().map(|level| self.maps[&level.map]).collect();
        self.builder.step(&pyramid.name, Work::Spread(spread), &maps, share, 0);
        let own = folded.weight.chunks_exact(all * TAPS);
        let weight = own.flat_map(|filter| &filter[..from * TAPS]).copied().collect();
        (Folded { weight, bias: folded.bias }, share)
    }

    /// The map that a node is written to, and its first channel there.
    fn place(&mut self, node: Node) -> (Map, usize) {
        let Part { whole, offset } =
            self.parts.get(&node).copied().unwrap_or(Part { whole: node, offset: 0 });
        let shape = self.shapes[whole];
        let map = *self.maps.entry(whole).or_insert_with(|| self.builder.map(shape));
        (map, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        nn::{Conv, ConvNorm},
    };
    use protoseg_kernels::channels_last::MaxPool;

    #[test]
    fn what_has_no_kernel_is_refused_by_name() {
        let layer = ConvNorm::new(Conv::new(3, 4, 3), &cpu());
        let (mut graph, image) = Graph::new();
        let x = graph.conv_norm("stem", &layer, image);
        let pooled = graph.max_pool("pool", x, MaxPool::three(2));
        let resized = graph.resize(pooled, x);
        let lower =
            |output: Node| lower(&graph, &[output], [16, 16, 3], Precision::Single, &ConvWeights::default());
        let refused = |output: Node| lower(output).unwrap_err().layer;
        assert!(lower(pooled).is_ok());
        assert_eq!(refused(resized), "pool.resize");
    }

    #[test]
    fn a_concatenation_of_a_map_that_is_read_elsewhere_is_refused() {
        let layer = ConvNorm::new(Conv::new(3, 4, 3), &cpu());
        let (mut graph, image) = Graph::new();
        let x = graph.conv_norm("stem", &layer, image);
        let pooled = graph.max_pool("pool", x, MaxPool::three(1));
        let both = graph.concat("both", vec![x, pooled]);
        let refused =
            lower(&graph, &[both], [16, 16, 3], Precision::Single, &ConvWeights::default()).unwrap_err();
        assert_eq!(refused.layer, "both");
    }
}
