//! Layers of vision transformers as nodes of ONNX. Where the canvas is known only in use, so are positions: they are then
//! resampled, or angles computed, in the graph.

use protoseg_kernels::channels_last::{Rotations, transpose};

use super::{
    builder::{Attribute, Builder, Value},
    layers::Lowering,
    ops::Size,
    proto::data_type,
};
use crate::{
    graph::Node,
    nn::{LayerNorm, Rotary, Tokens},
};

impl Lowering<'_> {
    /// A map of patches as `[batch, channels, 1, tokens]`.
    pub(super) fn tokens(&mut self, name: &str, x: &Value, patches: Node, tokens: &Tokens) -> Value {
        let [height, width, channels] = self.shapes[patches];
        let placed = tokens.at([height, width]);
        let (first, positions) = placed.parts();
        let mut line = self.builder.reshape(&format!("{name}.line"), x, &[0, 0, 1, -1]);
        let positions = match (self.size(patches), tokens.own_positions()) {
            (_, None) => None,
            (Size::Fixed(_), _) => {
                let shape = [1, channels, 1, height * width];
                let positions = transpose(positions, channels);
                Some(self.builder.floats(&format!("{name}.positions"), &shape, &positions))
            }
            (size @ Size::Of(_), Some(own)) => {
                let own = &own;
                Some(self.builder.resampled(
                    &format!("{name}.positions"),
                    own,
                    channels,
                    tokens.smooths(),
                    &size,
                ))
            }
        };
        if let Some(positions) = positions {
            line = self.builder.binary("Add", &format!("{name}.placed"), &line, &positions);
        }
        // One copy of the first tokens for each image of the batch.
        let shape = [1, channels, 1, first.len() / channels];
        let first = self.builder.floats(&format!("{name}.first"), &shape, &transpose(first, channels));
        let batch = self.builder.shape(&format!("{name}.batch"), x, 0, Some(1));
        let ones = self.builder.ints(&[1, 1, 1]);
        let shape = self.builder.concat(&format!("{name}.shape"), &[&batch, &ones], 0);
        let first = self.builder.binary("Expand", &format!("{name}.firsts"), &first, &shape);
        self.builder.concat(name, &[&first, &line], 3)
    }

    /// Over the channels, which are not the last axis.
    pub(super) fn layer_norm(&mut self, name: &str, x: &Value, norm: &LayerNorm) -> Value {
        let [weight, bias] = norm.scale_and_shift();
        let weight = self.builder.floats(&format!("{name}.weight"), &[weight.len()], &weight);
        let bias = self.builder.floats(&format!("{name}.bias"), &[bias.len()], &bias);
        let last = self.builder.transpose(&format!("{name}.last"), x, &[0, 2, 3, 1]);
        let attributes =
            vec![("axis", Attribute::Int(-1)), ("epsilon", Attribute::Float(norm.epsilon as f32))];
        let inputs = [&last, &weight, &bias];
        let normed = self.builder.node("LayerNormalization", &format!("{name}.normed"), &inputs, attributes);
        self.builder.transpose(name, &normed, &[0, 3, 1, 2])
    }

    pub(super) fn gelu(&mut self, name: &str, x: &Value) -> Value {
        let root = self.builder.scalar(std::f32::consts::FRAC_1_SQRT_2);
        let scaled = self.builder.binary("Mul", &format!("{name}.scaled"), x, &root);
        let erf = self.builder.unary("Erf", &format!("{name}.erf"), &scaled);
        let one = self.builder.scalar(1.0);
        let share = self.builder.binary("Add", &format!("{name}.share"), &erf, &one);
        let half = self.builder.scalar(0.5);
        let half = self.builder.binary("Mul", &format!("{name}.half"), x, &half);
        self.builder.binary("Mul", name, &half, &share)
    }

    /// `silu(first half of the channels) * second half`.
    pub(super) fn gated(&mut self, name: &str, x: &Value, channels: usize) -> Value {
        let gate = self.builder.slice(&format!("{name}.gate"), x, 1, 0, Some(channels));
        let value = self.builder.slice(&format!("{name}.value"), x, 1, channels, None);
        let share = self.builder.unary("Sigmoid", &format!("{name}.share"), &gate);
        let silu = self.builder.binary("Mul", &format!("{name}.silu"), &gate, &share);
        self.builder.binary("Mul", name, &silu, &value)
    }

    pub(super) fn attention(
        &mut self,
        name: &str,
        qkv: &Value,
        (patches, output): (Node, Node),
        heads: usize,
        rotary: Option<Rotary>,
    ) -> Value {
        let [.., channels] = self.shapes[output];
        let depth = channels / heads;
        // [batch, heads, tokens, depth]
        let part = |builder: &mut Builder, part: usize, of: &str| {
            let of = format!("{name}.{of}");
            let own = builder.slice(&of, qkv, 1, part * channels, Some((part + 1) * channels));
            let split = builder.reshape(&format!("{of}.heads"), &own, &[0, heads as i64, depth as i64, -1]);
            builder.transpose(&format!("{of}.rows"), &split, &[0, 1, 3, 2])
        };
        let mut queries = part(self.builder, 0, "queries");
        let mut keys = part(self.builder, 1, "keys");
        let values = part(self.builder, 2, "values");
        if let Some(rotary) = rotary {
            let size = self.size(patches);
            let tables = self.builder.rotations(name, &rotary, &size, depth);
            queries = self.builder.rotated(
                &format!("{name}.turned_queries"),
                &queries,
                rotary.prefix,
                &tables,
                depth,
            );
            keys = self.builder.rotated(&format!("{name}.turned_keys"), &keys, rotary.prefix, &tables, depth);
        }
        let scale = self.builder.scalar(1.0 / (depth as f32).sqrt());
        let queries = self.builder.binary("Mul", &format!("{name}.scaled"), &queries, &scale);
        let columns = self.builder.transpose(&format!("{name}.columns"), &keys, &[0, 1, 3, 2]);
        let scores = self.builder.binary("MatMul", &format!("{name}.scores"), &queries, &columns);
        let weights = self.builder.softmax(&format!("{name}.weights"), &scores, -1);
        let mixed = self.builder.binary("MatMul", &format!("{name}.mixed"), &weights, &values);
        let planes = self.builder.transpose(&format!("{name}.planes"), &mixed, &[0, 1, 3, 2]);
        self.builder.reshape(name, &planes, &[0, channels as i64, 1, -1])
    }
}

impl Builder {
    /// `[side * side, channels]` embeddings on a grid that is known in use, as `[1, channels, 1, positions]`.
    fn resampled(&mut self, name: &str, own: &[f32], channels: usize, smooths: bool, size: &Size) -> Value {
        let side = (own.len() / channels).isqrt();
        let own = self.floats(&format!("{name}.own"), &[1, channels, side, side], &transpose(own, channels));
        let size = self.size(name, size);
        let map = if smooths {
            let down = self.shares(&format!("{name}.down"), &size, 0, side);
            let across = self.shares(&format!("{name}.across"), &size, 1, side);
            let across = self.transpose(&format!("{name}.columns"), &across, &[1, 0]);
            let wide = self.binary("MatMul", &format!("{name}.wide"), &own, &across);
            self.binary("MatMul", &format!("{name}.map"), &down, &wide)
        } else {
            let kept = self.ints(&[1, channels as i64]);
            let sizes = self.concat(&format!("{name}.sizes"), &[&kept, &size], 0);
            let nothing = Value(String::new());
            let attributes = vec![
                ("coordinate_transformation_mode", Attribute::Text("half_pixel")),
                ("cubic_coeff_a", Attribute::Float(-0.75)),
                ("mode", Attribute::Text("cubic")),
            ];
            self.node("Resize", &format!("{name}.map"), &[&own, &nothing, &nothing, &sizes], attributes)
        };
        self.reshape(name, &map, &[1, channels as i64, 1, -1])
    }

    /// `[positions, side]`: the shares of a smoothed bicubic resampling along an axis of `size`.
    fn shares(&mut self, name: &str, size: &Value, axis: usize, side: usize) -> Value {
        let (count, places) = self.places(name, size, axis);
        let (side_length, one) = (self.scalar(side as f32), self.scalar(1.0));
        let step = self.binary("Div", &format!("{name}.step"), &side_length, &count);
        let centres = self.binary("Mul", &format!("{name}.centres"), &places, &step);
        let centres = self.reshape(&format!("{name}.rows"), &centres, &[-1, 1]);
        let middles: Vec<f32> = (0..side).map(|place| place as f32 + 0.5).collect();
        let middles = self.floats(&format!("{name}.middles"), &[1, side], &middles);
        let wide = self.binary("Max", &format!("{name}.filter"), &step, &one);
        let away = self.binary("Sub", &format!("{name}.away"), &middles, &centres);
        let away = self.binary("Div", &format!("{name}.scaled"), &away, &wide);
        let x = self.unary("Abs", &format!("{name}.distance"), &away);
        // Keys' kernel with a = -0.5, by Horner's rule.
        let near = self.polynomial(&format!("{name}.near"), &x, &[1.5, -2.5, 0.0, 1.0]);
        let far = self.polynomial(&format!("{name}.far"), &x, &[-0.5, 2.5, -4.0, 2.0]);
        let (two, zero) = (self.scalar(2.0), self.scalar(0.0));
        let is_near = self.binary("Less", &format!("{name}.is_near"), &x, &one);
        let is_far = self.binary("Less", &format!("{name}.is_far"), &x, &two);
        let far = self.node("Where", &format!("{name}.outer"), &[&is_far, &far, &zero], Vec::new());
        let weights = self.node("Where", &format!("{name}.weights"), &[&is_near, &near, &far], Vec::new());
        let sum = self.sum(&format!("{name}.sum"), &weights, 1);
        self.binary("Div", name, &weights, &sum)
    }

    fn polynomial(&mut self, name: &str, x: &Value, factors: &[f32]) -> Value {
        let mut sum = self.scalar(factors[0]);
        for (place, &factor) in factors[1..].iter().enumerate() {
            let factor = self.scalar(factor);
            let product = self.binary("Mul", &format!("{name}.{place}.product"), &sum, x);
            sum = self.binary("Add", &format!("{name}.{place}"), &product, &factor);
        }
        sum
    }

    /// How many positions an axis of `size` has, and the middle of each: 0.5, 1.5, ...
    fn places(&mut self, name: &str, size: &Value, axis: usize) -> (Value, Value) {
        let own = self.slice(&format!("{name}.side"), size, 0, axis, Some(axis + 1));
        let axes = self.ints(&[0]);
        let own = self.binary("Squeeze", &format!("{name}.length"), &own, &axes);
        let count = self.cast(&format!("{name}.count"), &own, data_type::FLOAT);
        let (zero, one, half) = (self.scalar(0.0), self.scalar(1.0), self.scalar(0.5));
        let range = self.node("Range", &format!("{name}.range"), &[&zero, &count, &one], Vec::new());
        let middles = self.binary("Add", &format!("{name}.places"), &range, &half);
        (count, middles)
    }

    /// Cosines and sines of the angles of patches, `[1, 1, patches, depth]` each.
    fn rotations(&mut self, name: &str, rotary: &Rotary, size: &Size, depth: usize) -> [Value; 2] {
        if let Size::Fixed(size) = size {
            let Rotations { cos, sin, .. } = rotary.rotations(*size, depth);
            let shape = [1, 1, cos.len() / depth, depth];
            return [("cos", cos), ("sin", sin)]
                .map(|(of, values)| self.floats(&format!("{name}.{of}"), &shape, &values));
        }
        let size = self.size(name, size);
        let speeds = rotary.speeds(depth);
        let speeds = self.floats(&format!("{name}.speeds"), &[1, 1, speeds.len()], &speeds);
        // Angles of rows, [height, 1, quarter], and of columns, [1, width, quarter].
        let [rows, columns] = [(0, [-1, 1, 1]), (1, [1, -1, 1])].map(|(axis, shape)| {
            let name = format!("{name}.axis{axis}");
            let (count, middles) = self.places(&name, &size, axis);
            let (two, one) = (self.scalar(2.0), self.scalar(1.0));
            let share = self.binary("Div", &format!("{name}.share"), &middles, &count);
            let share = self.binary("Mul", &format!("{name}.twice"), &share, &two);
            let place = self.binary("Sub", &format!("{name}.place"), &share, &one);
            let place = self.reshape(&format!("{name}.along"), &place, &shape);
            self.binary("Mul", &format!("{name}.angles"), &place, &speeds)
        });
        let zero = self.scalar(0.0);
        let mut everywhere = |own: &Value, other: &Value, of: &str| {
            let nothing = self.binary("Mul", &format!("{name}.{of}.nothing"), other, &zero);
            self.binary("Add", &format!("{name}.{of}.everywhere"), own, &nothing)
        };
        let (rows, columns) = (everywhere(&rows, &columns, "rows"), everywhere(&columns, &rows, "columns"));
        let angles = self.concat(&format!("{name}.angles"), &[&rows, &columns, &rows, &columns], 2);
        let angles = self.reshape(&format!("{name}.line"), &angles, &[1, 1, -1, depth as i64]);
        ["Cos", "Sin"].map(|of| self.unary(of, &format!("{name}.{}", of.to_lowercase()), &angles))
    }

    /// Queries or keys, those of patches turned.
    fn rotated(
        &mut self,
        name: &str,
        x: &Value,
        prefix: usize,
        [cos, sin]: &[Value; 2],
        depth: usize,
    ) -> Value {
        let half = depth / 2;
        let first = self.slice(&format!("{name}.first"), x, 2, 0, Some(prefix));
        let patches = self.slice(&format!("{name}.patches"), x, 2, prefix, None);
        let left = self.slice(&format!("{name}.left"), &patches, 3, 0, Some(half));
        let right = self.slice(&format!("{name}.right"), &patches, 3, half, None);
        let right = self.unary("Neg", &format!("{name}.negative"), &right);
        let turned = self.concat(&format!("{name}.turned"), &[&right, &left], 3);
        let along = self.binary("Mul", &format!("{name}.along"), &patches, cos);
        let across = self.binary("Mul", &format!("{name}.across"), &turned, sin);
        let patches = self.binary("Add", &format!("{name}.rotated"), &along, &across);
        self.concat(name, &[&first, &patches], 2)
    }
}
