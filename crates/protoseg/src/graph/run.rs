//! The graph computed by operations of Burn, with gradients, on any device.

use burn::{
    module::Param,
    tensor::{
        Tensor, TensorData,
        activation::{gelu, hard_sigmoid, silu, softmax},
        module::{adaptive_avg_pool2d, max_pool2d},
        ops::MaxPoolOptions,
    },
};
use protoseg_kernels::channels_last::Rotations;

use super::{
    Graph, Node, Op, PerNode,
    fuse::{Layer, Step, Work, fuse},
    pyramid,
};
use crate::{
    bridge::{self, Then, activate},
    nn::{Rotary, resize_centred, unit_pixels, upsample},
};

impl Graph<'_> {
    /// The values of `outputs`, given that of the input.
    pub fn run(&self, input: Tensor<4>, outputs: &[Node]) -> Vec<Tensor<4>> {
        self.run_steps(&fuse(self, outputs), input, outputs)
    }

    /// The value of one node.
    pub fn run_to(&self, input: Tensor<4>, output: Node) -> Tensor<4> {
        self.run(input, &[output]).swap_remove(0)
    }

    pub(super) fn run_steps(&self, steps: &[Step], input: Tensor<4>, outputs: &[Node]) -> Vec<Tensor<4>> {
        let mut values = Values::new(self, steps, outputs);
        values.value[Node(0)] = Some(input);
        for step in steps {
            let value = match &step.work {
                Work::Single(Op::Input, _) => continue,
                Work::Single(op, inputs) => single(*op, inputs, &mut values),
                Work::Layer(layer) => self::layer(layer, &mut values),
            };
            values.value[step.output] = Some(value);
        }
        outputs.iter().map(|&node| values.read(node)).collect()
    }
}

/// Values that are still needed.
struct Values {
    value: PerNode<Option<Tensor<4>>>,
    /// How often each will still be read.
    reads: PerNode<usize>,
}

impl Values {
    fn new(graph: &Graph, steps: &[Step], outputs: &[Node]) -> Self {
        let mut reads = graph.per_node(0);
        let read = steps.iter().flat_map(Step::inputs).chain(outputs.iter().copied());
        read.for_each(|node| reads[node] += 1);
        Self { value: graph.per_node(None), reads }
    }

    /// The value of a node; the last reader takes it away.
    fn read(&mut self, node: Node) -> Tensor<4> {
        self.reads[node] -= 1;
        let value = &mut self.value[node];
        let read = if self.reads[node] == 0 { value.take() } else { value.clone() };
        read.expect("nodes are in the order of computation")
    }
}

fn single(op: Op, inputs: &[Node], values: &mut Values) -> Tensor<4> {
    let mut inputs = inputs.iter().map(|&input| values.read(input));
    let mut next = || inputs.next().expect("a node has its inputs");
    match op {
        Op::Input => unreachable!("the input is given"),
        Op::Conv(conv) => bridge::conv(conv, next()),
        Op::Norm(norm) => norm.forward(next()),
        Op::Activation(activation) => activate(next(), activation),
        Op::Add => next() + next(),
        Op::MaxPool(pool) => {
            let options = MaxPoolOptions::new([pool.window; 2])
                .with_stride([pool.stride; 2])
                .with_padding([pool.padding(); 2])
                .with_ceil_mode(pool.ceil);
            max_pool2d(next(), options)
        }
        Op::AveragePool { bins } => adaptive_avg_pool2d(next(), [bins, bins]),
        Op::Resize => resize(next(), next()),
        Op::Concat => Tensor::cat(inputs.collect(), 1),
        Op::Stages => stages(inputs.collect()),
        Op::Dropout(dropout) => dropout.forward(next()),
        Op::Tokens(tokens) => tokens.forward(next()),
        Op::Grid { prefix } => {
            let (tokens, [.., height, width]) = (next(), next().dims());
            let [batch, channels, _, count] = tokens.dims();
            tokens.slice_dim(3, prefix..count).reshape([batch, channels, height, width])
        }
        Op::LayerNorm(norm) => norm.forward(next()),
        Op::Scale(factors) => scaled(next(), factors),
        Op::Gelu => gelu(next()),
        Op::HardSwish => {
            let x = next();
            x.clone() * hard_sigmoid(x, 1.0 / 6.0, 0.5)
        }
        Op::HardSigmoid => hard_sigmoid(next(), 1.0 / 6.0, 0.5),
        Op::Weigh => next() * next(),
        Op::Gated => {
            let x = next();
            let channels = x.dims()[1] / 2;
            silu(x.clone().slice_dim(1, 0..channels)) * x.slice_dim(1, channels..2 * channels)
        }
        Op::Attention { heads, rotary } => attention(next(), heads, rotary, next()),
    }
}

fn layer(layer: &Layer, values: &mut Values) -> Tensor<4> {
    let x = values.read(layer.input);
    let convolved = match &layer.pyramid {
        None => bridge::conv(layer.conv, x),
        Some(pyramid) => {
            let maps = pyramid.levels.iter().map(|level| values.read(level.map)).collect();
            pyramid::project(x, maps, layer.conv)
        }
    };
    let then = Then { add: layer.add.map(|node| values.read(node)), activation: layer.activation };
    match (layer.norm, layer.scale) {
        (Some(norm), _) => norm.forward_then(convolved, then),
        (None, Some(factors)) => then.apply(scaled(convolved, factors)),
        (None, None) => then.apply(convolved),
    }
}

/// Every channel times its factor.
fn scaled(x: Tensor<4>, factors: &Param<Tensor<1>>) -> Tensor<4> {
    let channels = x.dims()[1];
    x * factors.val().reshape([1, channels, 1, 1])
}

/// Attention of `[batch, 3 * channels, 1, tokens]`, with queries and keys of patches rotated by their place on the grid.
fn attention(qkv: Tensor<4>, heads: usize, rotary: Option<Rotary>, patches: Tensor<4>) -> Tensor<4> {
    let [batch, all, _, tokens] = qkv.dims();
    let depth = all / 3 / heads;
    // [batch * heads, tokens, depth]
    let part = |part: usize| {
        let of = qkv.clone().slice_dim(1, part * heads * depth..(part + 1) * heads * depth);
        of.reshape([batch * heads, depth, tokens]).swap_dims(1, 2)
    };
    let (mut queries, mut keys, values) = (part(0), part(1), part(2));
    if let Some(rotary) = rotary {
        let [.., height, width] = patches.dims();
        let rotations = rotary.rotations([height, width], depth);
        (queries, keys) = (rotated(queries, &rotations), rotated(keys, &rotations));
    }
    let scores = queries.matmul(keys.swap_dims(1, 2)).div_scalar((depth as f64).sqrt());
    let mixed = softmax(scores, 2).matmul(values);
    mixed.swap_dims(1, 2).reshape([batch, heads * depth, 1, tokens])
}

fn rotated(x: Tensor<3>, rotations: &Rotations) -> Tensor<3> {
    let [_, tokens, depth] = x.dims();
    let (device, half) = (x.device(), depth / 2);
    let table = |values: &[f32]| {
        Tensor::<3>::from_data(
            TensorData::new(values.to_vec(), [1, tokens - rotations.prefix, depth]),
            &device,
        )
    };
    let patches = x.clone().slice_dim(1, rotations.prefix..tokens);
    let first = patches.clone().slice_dim(2, 0..half);
    let turned = Tensor::cat(vec![patches.clone().slice_dim(2, half..depth).neg(), first], 2);
    let patches = patches * table(&rotations.cos) + turned * table(&rotations.sin);
    Tensor::cat(vec![x.slice_dim(1, 0..rotations.prefix), patches], 1)
}

fn stages(maps: Vec<Tensor<4>>) -> Tensor<4> {
    let [.., height, width] = maps[0].dims();
    let on_grid = |map: Tensor<4>| resize_centred(unit_pixels(map), [height, width]);
    unit_pixels(Tensor::cat(maps.into_iter().map(on_grid).collect(), 1))
}

fn resize(x: Tensor<4>, like: Tensor<4>) -> Tensor<4> {
    let [.., height, width] = like.dims();
    match x.dims() {
        [batch, channels, 1, 1] => x.expand([batch, channels, height, width]),
        _ => upsample(x, [height, width]),
    }
}
