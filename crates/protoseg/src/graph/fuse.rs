//! Which nodes are computed in one go: a convolution with the normalisation, shortcut and activation after it, and with
//! the pyramid before it.

use burn::{module::Param, nn::conv::Conv2d, tensor::Tensor};
use protoseg_kernels::Activation;

use super::{Graph, Node, Op, PerNode};
use crate::{bridge::ConvGeometry, nn::BatchNorm};

/// One or more nodes of a graph, computed together.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// Of the convolution, or of the single node.
    pub name: String,
    pub work: Work<'a>,
    /// The node whose value this is.
    pub output: Node,
}

#[derive(Debug)]
pub(crate) enum Work<'a> {
    /// A single node.
    Single(Op<'a>, Vec<Node>),
    Layer(Layer<'a>),
}

/// A convolution and what follows it: normalised, plus `add`, then the activation, each if it is there.
#[derive(Debug)]
pub(crate) struct Layer<'a> {
    pub input: Node,
    /// Small maps that are resized and concatenated to the input, of which the convolution is 3x3.
    pub pyramid: Option<Pyramid>,
    pub conv: &'a Conv2d,
    pub norm: Option<&'a BatchNorm>,
    /// Factors of the channels, if there is no normalisation.
    pub scale: Option<&'a Param<Tensor<1>>>,
    pub add: Option<Node>,
    pub activation: Activation,
}

/// The small maps of a pyramid, in the order of their channels.
#[derive(Clone, Debug)]
pub(crate) struct Pyramid {
    pub name: String,
    pub levels: Vec<Level>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub map: Node,
    /// The map has `bins` x `bins` positions.
    pub bins: usize,
}

impl Step<'_> {
    /// The nodes that are read.
    pub fn inputs(&self) -> Vec<Node> {
        match &self.work {
            Work::Single(_, inputs) => inputs.clone(),
            Work::Layer(layer) => {
                let levels = layer.pyramid.iter().flat_map(|pyramid| &pyramid.levels);
                std::iter::once(layer.input).chain(levels.map(|level| level.map)).chain(layer.add).collect()
            }
        }
    }
}

/// The steps that lead to `outputs`, in order.
pub(crate) fn fuse<'a>(graph: &Graph<'a>, outputs: &[Node]) -> Vec<Step<'a>> {
    let uses = Uses::new(graph, outputs);
    let mut layers: PerNode<Option<Step<'a>>> = PerNode(graph.ids().map(|_| None).collect());
    let mut absorbed = graph.per_node(false);
    for node in graph.ids().filter(|&node| uses.needed[node]) {
        if let Op::Conv(conv) = graph.entry(node).op {
            let (layer, chain) = layer(graph, &uses, node, conv);
            let output = *chain.last().expect("the convolution is in its chain");
            chain.into_iter().for_each(|node| absorbed[node] = true);
            if let Some(pyramid) = &layer.pyramid {
                let concat = graph.entry(node).inputs[0];
                absorbed[concat] = true;
                let resized = &graph.entry(concat).inputs[1..];
                debug_assert_eq!(resized.len(), pyramid.levels.len());
                resized.iter().for_each(|&resized| absorbed[resized] = true);
            }
            let name = graph.entry(node).name.clone();
            layers[output] = Some(Step { name, work: Work::Layer(layer), output });
        }
    }
    let step = |node: Node| {
        let single = || {
            let entry = graph.entry(node);
            let work = Work::Single(entry.op, entry.inputs.clone());
            Step { name: entry.name.clone(), work, output: node }
        };
        layers[node].take().or_else(|| (uses.needed[node] && !absorbed[node]).then(single))
    };
    graph.ids().filter_map(step).collect()
}

/// Who reads each node.
struct Uses {
    needed: PerNode<bool>,
    readers: PerNode<Vec<Node>>,
    is_output: PerNode<bool>,
}

impl Uses {
    fn new(graph: &Graph, outputs: &[Node]) -> Self {
        let needed = graph.needed(outputs);
        let mut readers = graph.per_node(Vec::new());
        for node in graph.ids().filter(|&node| needed[node]) {
            graph.entry(node).inputs.iter().for_each(|&input| readers[input].push(node));
        }
        let mut is_output = graph.per_node(false);
        outputs.iter().for_each(|&node| is_output[node] = true);
        Self { needed, readers, is_output }
    }

    /// The only node that reads `node`, if nobody else needs its value.
    fn only_reader(&self, node: Node) -> Option<Node> {
        match self.readers[node][..] {
            [reader] if !self.is_output[node] => Some(reader),
            _ => None,
        }
    }
}

/// A convolution as far as it reaches, and the nodes from the convolution to the last that it takes in.
fn layer<'a>(graph: &Graph<'a>, uses: &Uses, node: Node, conv: &'a Conv2d) -> (Layer<'a>, Vec<Node>) {
    let [input] = graph.entry(node).inputs[..] else { unreachable!("a convolution has one input") };
    let pyramid = pyramid(graph, uses, input, conv);
    let input = if pyramid.is_some() { graph.entry(input).inputs[0] } else { input };
    let mut layer =
        Layer { input, pyramid, conv, norm: None, scale: None, add: None, activation: Activation::None };
    let mut chain = vec![node];
    while let Some(next) = uses.only_reader(chain[chain.len() - 1]) {
        let (last, plain) = (chain[chain.len() - 1], layer.activation == Activation::None);
        match graph.entry(next).op {
            Op::Norm(norm) if chain.len() == 1 => layer.norm = Some(norm),
            Op::Scale(scale) if chain.len() == 1 => layer.scale = Some(scale),
            Op::Add if plain && layer.add.is_none() => {
                // The operand that is computed last takes the sum in.
                let other = graph.entry(next).inputs.iter().find(|&&operand| operand != last);
                match other {
                    Some(&other) if other < last => layer.add = Some(other),
                    _ => break,
                }
            }
            Op::Activation(activation) if plain => layer.activation = activation,
            _ => break,
        }
        chain.push(next);
    }
    (layer, chain)
}

/// The pyramid before a convolution: `input` is nothing but the concatenation of a map and resized maps of fixed size,
/// read by a 3x3 convolution alone.
fn pyramid(graph: &Graph, uses: &Uses, input: Node, conv: &Conv2d) -> Option<Pyramid> {
    let ConvGeometry { stride, dilation, padding, padding_after, groups } = ConvGeometry::of(conv);
    let plain = [stride, dilation, padding, padding_after, groups] == [1; 5];
    let entry = graph.entry(input);
    if !matches!(entry.op, Op::Concat) || conv.kernel_size != [3, 3] || !plain || conv.bias.is_some() {
        return None;
    }
    uses.only_reader(input)?;
    let (&first, resized) = entry.inputs.split_first()?;
    let level = |&node: &Node| {
        let entry = graph.entry(node);
        let is_part = matches!(entry.op, Op::Resize) && entry.inputs[1] == first;
        uses.only_reader(node)?;
        let map = entry.inputs[0];
        is_part.then_some(Level { map, bins: fixed_side(graph, map)? })
    };
    let levels: Vec<Level> = resized.iter().map(level).collect::<Option<_>>()?;
    (!levels.is_empty()).then(|| Pyramid { name: entry.name.clone(), levels })
}

/// The side of a map that does not depend on the image's.
fn fixed_side(graph: &Graph, node: Node) -> Option<usize> {
    let entry = graph.entry(node);
    match entry.op {
        Op::AveragePool { bins } => Some(bins),
        Op::Conv(conv) if conv.kernel_size == [1, 1] && conv.stride == [1, 1] => {
            fixed_side(graph, entry.inputs[0])
        }
        Op::Norm(_) | Op::Activation(_) | Op::Dropout(_) => fixed_side(graph, entry.inputs[0]),
        _ => None,
    }
}
