//! The graph of a network as nodes of ONNX. Batch-norm is part of the convolution before it.

use std::collections::HashMap;

use protoseg_core::GridPlacement;
use protoseg_kernels::{Activation, channels_last::MaxPool};

use super::{
    ExportError,
    builder::{Attribute, Builder, Value},
    ops::Size,
};
use crate::{
    bridge::ConvGeometry,
    graph::{
        Graph, Node, Op, PerNode,
        fold::Folded,
        fuse::{Layer, Step, Work, fuse},
        shape::MapShape,
    },
    nn::ConvWeights,
};

/// Adds the layers that lead from `input` to `outputs`. `shape` is that of the input; if it is `free`, only an example:
/// height and width are known in use.
pub(super) fn lower(
    builder: &mut Builder,
    graph: &Graph<'_>,
    outputs: &[Node],
    input: Value,
    (shape, is_free): (MapShape, bool),
) -> Result<Vec<Value>, ExportError> {
    let mut lowering = Lowering { builder, shapes: graph.shapes(shape), is_free, values: HashMap::new() };
    let mut input = Some(input);
    for step in fuse(graph, outputs) {
        let value = match &step.work {
            Work::Single(Op::Input, _) => input.take().expect("a graph has one input"),
            Work::Single(op, inputs) => lowering.single(&step, *op, inputs)?,
            Work::Layer(layer) => lowering.layer(&step, layer),
        };
        lowering.values.insert(step.output, value);
    }
    Ok(outputs.iter().map(|output| lowering.values[output].clone()).collect())
}

pub(super) struct Lowering<'b> {
    pub builder: &'b mut Builder,
    pub shapes: PerNode<MapShape>,
    is_free: bool,
    values: HashMap<Node, Value>,
}

impl Lowering<'_> {
    fn value(&self, node: Node) -> Value {
        self.values[&node].clone()
    }

    /// `[height, width]` of a node's map.
    pub fn size(&self, node: Node) -> Size {
        let [height, width, _] = self.shapes[node];
        if self.is_free { Size::Of(self.value(node)) } else { Size::Fixed([height, width]) }
    }

    fn single(&mut self, step: &Step<'_>, op: Op<'_>, inputs: &[Node]) -> Result<Value, ExportError> {
        let name = &step.name;
        let x = self.value(inputs[0]);
        Ok(match op {
            Op::Activation(activation) => self.activation(name, &x, activation),
            Op::Add => {
                let other = self.value(inputs[1]);
                self.builder.binary("Add", name, &x, &other)
            }
            Op::Norm(norm) => {
                let (scale, shift) = norm.scale_and_shift();
                let shape = [1, scale.len(), 1, 1];
                let scale = self.builder.floats(&format!("{name}.scale"), &shape, &scale);
                let shift = self.builder.floats(&format!("{name}.shift"), &shape, &shift);
                let scaled = self.builder.binary("Mul", &format!("{name}.scaled"), &x, &scale);
                self.builder.binary("Add", name, &scaled, &shift)
            }
            Op::MaxPool(pool) => self.max_pool(name, &x, inputs[0], pool),
            Op::AveragePool { bins } => self.average_pool(name, &x, inputs[0], bins)?,
            Op::Resize => self.resize(name, inputs[0], inputs[1], GridPlacement::Corners),
            Op::Concat => {
                let parts: Vec<Value> = inputs.iter().map(|&input| self.value(input)).collect();
                self.builder.concat(name, &parts.iter().collect::<Vec<_>>(), 1)
            }
            Op::Stages => self.stages(name, inputs),
            Op::Tokens(tokens) => self.tokens(name, &x, inputs[0], tokens),
            Op::Grid { prefix } => {
                let patches = self.builder.slice(&format!("{name}.patches"), &x, 3, prefix, None);
                let size = self.size(inputs[1]);
                self.builder.as_map(name, &patches, &size)
            }
            Op::LayerNorm(norm) => self.layer_norm(name, &x, norm),
            Op::Gelu => self.gelu(name, &x),
            Op::HardSwish => self.builder.unary("HardSwish", name, &x),
            Op::HardSigmoid => {
                let attributes =
                    vec![("alpha", Attribute::Float(1.0 / 6.0)), ("beta", Attribute::Float(0.5))];
                self.builder.node("HardSigmoid", name, &[&x], attributes)
            }
            Op::Weigh => {
                let weights = self.value(inputs[1]);
                self.builder.binary("Mul", name, &x, &weights)
            }
            Op::Gated => self.gated(name, &x, self.shapes[step.output][2]),
            Op::Scale(factors) => {
                let factors: Vec<f32> = factors.val().try_into_vec_as().expect("weights are f32");
                let factors =
                    self.builder.floats(&format!("{name}.factors"), &[1, factors.len(), 1, 1], &factors);
                self.builder.binary("Mul", name, &x, &factors)
            }
            Op::Attention { heads, rotary } => {
                self.attention(name, &x, (inputs[1], step.output), heads, rotary)
            }
            // Only training drops anything.
            Op::Dropout(_) => x,
            Op::Input | Op::Conv(_) => unreachable!("it is no single step"),
        })
    }

    fn layer(&mut self, step: &Step<'_>, layer: &Layer<'_>) -> Value {
        let name = &step.name;
        let mut x = self.value(layer.input);
        if let Some(pyramid) = &layer.pyramid {
            let mut parts = vec![x];
            for level in &pyramid.levels {
                let name = format!("{}.up{}", pyramid.name, level.bins);
                parts.push(self.resize(&name, level.map, layer.input, GridPlacement::Corners));
            }
            x = self.builder.concat(&pyramid.name, &parts.iter().collect::<Vec<_>>(), 1);
        }
        let Folded { weight, bias } =
            Folded::new(layer.conv, layer.norm, layer.scale, &ConvWeights::default());
        let shape: [usize; 4] = layer.conv.weight.lazy_shape().dims();
        let weight = self.builder.floats(&format!("{name}.weight"), &shape, &weight);
        let bias = self.builder.floats(&format!("{name}.bias"), &[shape[0]], &bias);
        let geometry = ConvGeometry::of(layer.conv);
        let mut out = self.builder.conv(name, &[&x, &weight, &bias], shape[2], geometry);
        if let Some(other) = layer.add {
            let other = self.value(other);
            out = self.builder.binary("Add", &format!("{name}.add"), &out, &other);
        }
        self.activation(&format!("{name}.activation"), &out, layer.activation)
    }

    fn activation(&mut self, name: &str, x: &Value, activation: Activation) -> Value {
        match activation {
            Activation::None => x.clone(),
            Activation::Relu => self.builder.unary("Relu", name, x),
            Activation::Relu6 => {
                let (low, high) = (self.builder.scalar(0.0), self.builder.scalar(6.0));
                self.builder.node("Clip", name, &[x, &low, &high], Vec::new())
            }
        }
    }

    fn max_pool(&mut self, name: &str, x: &Value, input: Node, pool: MaxPool) -> Value {
        let before = pool.padding() as i64;
        let [height, width, _] = self.shapes[input];
        // A last window that reaches beyond the map is said by padding where sizes are known: not every runtime means the
        // same by `ceil_mode`.
        let after = |side: usize| {
            let reach = (pool.out(side) - 1) * pool.stride + pool.window;
            (reach as i64 - side as i64 - before).max(0)
        };
        let [below, right] = if self.is_free { [before; 2] } else { [after(height), after(width)] };
        let both = |value: usize| Attribute::Ints(vec![value as i64; 2]);
        let attributes = vec![
            ("ceil_mode", Attribute::Int(i64::from(pool.ceil && self.is_free))),
            ("kernel_shape", both(pool.window)),
            ("pads", Attribute::Ints(vec![before, before, below, right])),
            ("strides", both(pool.stride)),
        ];
        self.builder.node("MaxPool", name, &[x], attributes)
    }

    /// Means over `bins` x `bins` cells.
    fn average_pool(
        &mut self,
        name: &str,
        x: &Value,
        input: Node,
        bins: usize,
    ) -> Result<Value, ExportError> {
        if bins == 1 {
            return Ok(self.builder.unary("GlobalAveragePool", name, x));
        }
        if self.is_free {
            return Err(ExportError::FreeCanvas { layer: name.to_string() });
        }
        let [height, width, _] = self.shapes[input];
        Ok(self.builder.average_pool(name, x, [height, width], [bins; 2]))
    }

    /// The map of one node at the size of another's.
    fn resize(&mut self, name: &str, from: Node, like: Node, placement: GridPlacement) -> Value {
        let x = self.value(from);
        let (own, other) = (self.shapes[from], self.shapes[like]);
        if own[..2] == other[..2] {
            return x;
        }
        let size = self.size(like);
        if own[..2] != [1, 1] {
            return self.builder.resize(name, &x, &size, placement);
        }
        let shape = match size {
            Size::Fixed([height, width]) => self.builder.ints(&[1, 1, height as i64, width as i64]),
            Size::Of(_) => {
                let (ones, size) = (self.builder.ints(&[1, 1]), self.builder.size(name, &size));
                self.builder.concat(&format!("{name}.shape"), &[&ones, &size], 0)
            }
        };
        self.builder.binary("Expand", name, &x, &shape)
    }

    /// All maps at unit length per pixel on the grid of the first, joined, at unit length again.
    fn stages(&mut self, name: &str, inputs: &[Node]) -> Value {
        let first = self.size(inputs[0]);
        let mut parts = Vec::new();
        for (index, &input) in inputs.iter().enumerate() {
            let x = self.value(input);
            let unit = self.builder.unit(&format!("{name}.{index}"), &x, 1);
            let is_same = self.shapes[input][..2] == self.shapes[inputs[0]][..2];
            parts.push(match is_same {
                true => unit,
                false => {
                    let name = format!("{name}.{index}.resize");
                    self.builder.resize(&name, &unit, &first, GridPlacement::Centres)
                }
            });
        }
        let joined = self.builder.concat(name, &parts.iter().collect::<Vec<_>>(), 1);
        self.builder.unit(name, &joined, 1)
    }
}
