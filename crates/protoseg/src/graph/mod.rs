//! A network said once: the layers of encoders and decoders as a graph of primitive nodes.
//!
//! Nodes borrow the modules that hold their weights. Whoever has to walk a network walks this graph: [`run`] computes
//! it with gradients, [`cost`] counts its work, [`fuse`] finds chains that are computed in one go, and
//! [`inference`](crate::inference) turns it into steps for the kernels. Sizes are no part of a graph: one serves
//! images of any size.

pub(crate) mod cost;
pub(crate) mod fold;
pub(crate) mod fuse;
pub(crate) mod pyramid;
mod run;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

use burn::{module::Param, nn::conv::Conv2d, tensor::Tensor};
use protoseg_kernels::{Activation, channels_last::MaxPool};

use crate::nn::{BatchNorm, ConvNorm, Dropout2d, LayerNorm, Rotary, Tokens};

/// What a node computes from its inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op<'a> {
    /// What the graph is given.
    Input,
    Conv(&'a Conv2d),
    Norm(&'a BatchNorm),
    Activation(Activation),
    /// The sum of two maps.
    Add,
    /// The largest of each window.
    MaxPool(MaxPool),
    /// Means over `bins` x `bins` cells.
    AveragePool {
        bins: usize,
    },
    /// The first input at the size of the second, bilinear with corners on corners.
    Resize,
    /// All inputs, one after the other along the channels.
    Concat,
    /// All inputs at unit length per pixel, on the grid of the first (bilinear, centres matched), one after the other
    /// along the channels, at unit length again.
    Stages,
    Dropout(&'a Dropout2d),
    /// A map of patches as a line of tokens: those that are no patches first, then every patch at its position,
    /// `[1, tokens, channels]`.
    Tokens(&'a Tokens),
    /// The first input without its first tokens, on the grid of the second.
    Grid {
        prefix: usize,
    },
    LayerNorm(&'a LayerNorm),
    /// Every channel times a number.
    Scale(&'a Param<Tensor<1>>),
    Gelu,
    /// `x * hard_sigmoid(x)`
    HardSwish,
    /// `min(max(x / 6 + 1 / 2, 0), 1)`
    HardSigmoid,
    /// The first input, each channel times its value in the second, which is one pixel.
    Weigh,
    /// `silu(first half of the channels) * second half`.
    Gated,
    /// Attention among tokens, from queries, keys and values; the second input is the map of patches.
    Attention {
        heads: usize,
        rotary: Option<Rotary>,
    },
}

/// A node of a graph, by its place in the order of computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node(usize);

#[derive(Debug)]
struct Entry<'a> {
    name: String,
    op: Op<'a>,
    inputs: Vec<Node>,
}

/// Nodes in an order in which they can be computed. The first is the input.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    nodes: Vec<Entry<'a>>,
    /// The output of every residual block before its last activation (of a VGG every convolution's), with its stage.
    blocks: Vec<(usize, Node)>,
}

impl<'a> Graph<'a> {
    /// A graph of nothing but its input, and that.
    pub fn new() -> (Self, Node) {
        let input = Entry { name: "input".to_string(), op: Op::Input, inputs: Vec::new() };
        (Self { nodes: vec![input], blocks: Vec::new() }, Node(0))
    }

    pub fn conv(&mut self, name: impl Into<String>, conv: &'a Conv2d, x: Node) -> Node {
        self.push(name, Op::Conv(conv), vec![x])
    }

    pub fn norm(&mut self, norm: &'a BatchNorm, x: Node) -> Node {
        self.push(self.after(x, "norm"), Op::Norm(norm), vec![x])
    }

    /// A convolution and its batch-norm.
    pub fn conv_norm(&mut self, name: impl Into<String>, layer: &'a ConvNorm, x: Node) -> Node {
        let convolved = self.conv(name, &layer.conv, x);
        self.norm(&layer.bn, convolved)
    }

    pub fn activation(&mut self, activation: Activation, x: Node) -> Node {
        self.push(self.after(x, "activation"), Op::Activation(activation), vec![x])
    }

    pub fn relu(&mut self, x: Node) -> Node {
        self.activation(Activation::Relu, x)
    }

    pub fn add(&mut self, x: Node, y: Node) -> Node {
        self.push(self.after(x, "add"), Op::Add, vec![x, y])
    }

    pub fn max_pool(&mut self, name: impl Into<String>, x: Node, pool: MaxPool) -> Node {
        self.push(name, Op::MaxPool(pool), vec![x])
    }

    /// Remembers a block's output, before its last activation.
    pub fn mark_block(&mut self, stage: usize, x: Node) {
        self.blocks.push((stage, x));
    }

    /// The blocks of a stage, in order.
    pub fn blocks(&self, stage: usize) -> Vec<Node> {
        self.blocks.iter().filter(|(of, _)| *of == stage).map(|&(_, node)| node).collect()
    }

    pub fn average_pool(&mut self, name: impl Into<String>, x: Node, bins: usize) -> Node {
        self.push(name, Op::AveragePool { bins }, vec![x])
    }

    pub fn resize(&mut self, x: Node, like: Node) -> Node {
        self.push(self.after(x, "resize"), Op::Resize, vec![x, like])
    }

    pub fn concat(&mut self, name: impl Into<String>, parts: Vec<Node>) -> Node {
        self.push(name, Op::Concat, parts)
    }

    pub fn stages(&mut self, name: impl Into<String>, maps: Vec<Node>) -> Node {
        self.push(name, Op::Stages, maps)
    }

    pub fn dropout(&mut self, dropout: &'a Dropout2d, x: Node) -> Node {
        self.push(self.after(x, "dropout"), Op::Dropout(dropout), vec![x])
    }

    pub fn tokens(&mut self, name: impl Into<String>, tokens: &'a Tokens, patches: Node) -> Node {
        self.push(name, Op::Tokens(tokens), vec![patches])
    }

    pub fn grid(&mut self, tokens: Node, patches: Node, prefix: usize) -> Node {
        self.push(self.after(tokens, "grid"), Op::Grid { prefix }, vec![tokens, patches])
    }

    pub fn layer_norm(&mut self, name: impl Into<String>, norm: &'a LayerNorm, x: Node) -> Node {
        self.push(name, Op::LayerNorm(norm), vec![x])
    }

    pub fn scale(&mut self, scale: &'a Param<Tensor<1>>, x: Node) -> Node {
        self.push(self.after(x, "scale"), Op::Scale(scale), vec![x])
    }

    pub fn gelu(&mut self, x: Node) -> Node {
        self.push(self.after(x, "gelu"), Op::Gelu, vec![x])
    }

    pub fn hard_swish(&mut self, x: Node) -> Node {
        self.push(self.after(x, "hard_swish"), Op::HardSwish, vec![x])
    }

    pub fn hard_sigmoid(&mut self, x: Node) -> Node {
        self.push(self.after(x, "hard_sigmoid"), Op::HardSigmoid, vec![x])
    }

    /// Channels of `x` times those of the pixel `weights`.
    pub fn weigh(&mut self, x: Node, weights: Node) -> Node {
        self.push(self.after(x, "weigh"), Op::Weigh, vec![x, weights])
    }

    pub fn gated(&mut self, x: Node) -> Node {
        self.push(self.after(x, "gated"), Op::Gated, vec![x])
    }

    /// Attention of `heads` on `qkv`, the queries, keys and values of each token.
    pub fn attention(
        &mut self,
        name: impl Into<String>,
        qkv: Node,
        patches: Node,
        (heads, rotary): (usize, Option<Rotary>),
    ) -> Node {
        self.push(name, Op::Attention { heads, rotary }, vec![qkv, patches])
    }

    fn push(&mut self, name: impl Into<String>, op: Op<'a>, inputs: Vec<Node>) -> Node {
        self.nodes.push(Entry { name: name.into(), op, inputs });
        Node(self.nodes.len() - 1)
    }

    fn after(&self, x: Node, what: &str) -> String {
        format!("{}.{what}", self.entry(x).name)
    }

    fn entry(&self, node: Node) -> &Entry<'a> {
        &self.nodes[node.0]
    }

    fn ids(&self) -> impl DoubleEndedIterator<Item = Node> + use<> {
        (0..self.nodes.len()).map(Node)
    }

    /// Whether each node takes part in any of `outputs`.
    fn needed(&self, outputs: &[Node]) -> PerNode<bool> {
        let mut needed = self.per_node(false);
        outputs.iter().for_each(|&node| needed[node] = true);
        for node in self.ids().rev() {
            if needed[node] {
                self.entry(node).inputs.iter().for_each(|&input| needed[input] = true);
            }
        }
        needed
    }

    fn per_node<T: Clone>(&self, value: T) -> PerNode<T> {
        PerNode(vec![value; self.nodes.len()])
    }
}

/// One value per node of a graph.
#[derive(Clone, Debug)]
pub(crate) struct PerNode<T>(Vec<T>);

impl<T> std::ops::Index<Node> for PerNode<T> {
    type Output = T;

    fn index(&self, node: Node) -> &T {
        &self.0[node.0]
    }
}

impl<T> std::ops::IndexMut<Node> for PerNode<T> {
    fn index_mut(&mut self, node: Node) -> &mut T {
        &mut self.0[node.0]
    }
}
