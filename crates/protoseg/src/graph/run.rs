//! The graph computed by operations of Burn, with gradients, on any device.

use burn::tensor::{
    Tensor,
    module::{adaptive_avg_pool2d, max_pool2d},
    ops::MaxPoolOptions,
};

use super::{
    Graph, Node, Op, PerNode,
    fuse::{Layer, Step, Work, fuse},
    pyramid,
};
use crate::{
    bridge::{self, Then, activate},
    nn::{resize_centred, unit_pixels, upsample},
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
    match layer.norm {
        Some(norm) => norm.forward_then(convolved, then),
        None => then.apply(convolved),
    }
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
