//! What the parts of an export have in common: operations of opset 17 as methods.

use protoseg_core::GridPlacement;

use super::{
    builder::{Attribute, Builder, Value},
    proto::data_type,
};
use crate::bridge::ConvGeometry;

/// Below this, a norm counts as this, as everywhere in the library.
const TINY: f32 = 1e-12;

/// `[height, width]` of a map.
#[derive(Clone, Debug)]
pub(super) enum Size {
    Fixed([usize; 2]),
    /// That of this map, known only in use.
    Of(Value),
}

impl Builder {
    pub fn binary(&mut self, op: &str, name: &str, a: &Value, b: &Value) -> Value {
        self.node(op, name, &[a, b], Vec::new())
    }

    pub fn unary(&mut self, op: &str, name: &str, x: &Value) -> Value {
        self.node(op, name, &[x], Vec::new())
    }

    pub fn cast(&mut self, name: &str, x: &Value, to: i32) -> Value {
        self.node("Cast", name, &[x], vec![("to", Attribute::Int(i64::from(to)))])
    }

    pub fn transpose(&mut self, name: &str, x: &Value, order: &[i64]) -> Value {
        self.node("Transpose", name, &[x], vec![("perm", Attribute::Ints(order.to_vec()))])
    }

    pub fn concat(&mut self, name: &str, parts: &[&Value], axis: i64) -> Value {
        self.node("Concat", name, parts, vec![("axis", Attribute::Int(axis))])
    }

    pub fn softmax(&mut self, name: &str, x: &Value, axis: i64) -> Value {
        self.node("Softmax", name, &[x], vec![("axis", Attribute::Int(axis))])
    }

    /// The part of an axis from `start` to before `end`; to its end without one.
    pub fn slice(&mut self, name: &str, x: &Value, axis: i64, start: usize, end: Option<usize>) -> Value {
        let starts = self.ints(&[start as i64]);
        let ends = self.ints(&[end.map_or(i64::from(i32::MAX), |end| end as i64)]);
        let axes = self.ints(&[axis]);
        self.node("Slice", name, &[x, &starts, &ends, &axes], Vec::new())
    }

    /// `ReduceL2`, `ReduceMax` or `ReduceMean` over axes that stay, of length one.
    pub fn reduce(&mut self, op: &str, name: &str, x: &Value, axes: &[i64]) -> Value {
        let axes = ("axes", Attribute::Ints(axes.to_vec()));
        self.node(op, name, &[x], vec![axes, ("keepdims", Attribute::Int(1))])
    }

    /// The sum over an axis that stays, of length one. Its axes are an input, unlike those of the others.
    pub fn sum(&mut self, name: &str, x: &Value, axis: i64) -> Value {
        let axes = self.ints(&[axis]);
        self.node("ReduceSum", name, &[x, &axes], vec![("keepdims", Attribute::Int(1))])
    }

    /// Lengths of the axes from `start` to before `end`.
    pub fn shape(&mut self, name: &str, x: &Value, start: i64, end: Option<i64>) -> Value {
        let start = ("start", Attribute::Int(start));
        let end = end.map(|end| ("end", Attribute::Int(end)));
        self.node("Shape", name, &[x], std::iter::once(start).chain(end).collect())
    }

    /// In another shape, where 0 is the length as it is and -1 what is left.
    pub fn reshape(&mut self, name: &str, x: &Value, shape: &[i64]) -> Value {
        let shape = self.ints(shape);
        self.binary("Reshape", name, x, &shape)
    }

    /// Norms over an axis, which stays, never 0.
    pub fn norms(&mut self, name: &str, x: &Value, axis: i64) -> Value {
        let norms = self.reduce("ReduceL2", &format!("{name}.length"), x, &[axis]);
        let tiny = self.scalar(TINY);
        self.binary("Max", &format!("{name}.norm"), &norms, &tiny)
    }

    /// Vectors along an axis at unit length.
    pub fn unit(&mut self, name: &str, x: &Value, axis: i64) -> Value {
        let norms = self.norms(name, x, axis);
        self.binary("Div", &format!("{name}.unit"), x, &norms)
    }

    /// A convolution of a map with a square weight and, if there is one, a bias: `inputs` in this order.
    pub fn conv(&mut self, name: &str, inputs: &[&Value], kernel: usize, geometry: ConvGeometry) -> Value {
        let ConvGeometry { stride, dilation, padding, padding_after, groups } = geometry;
        let both = |value: usize| Attribute::Ints(vec![value as i64; 2]);
        let pads = [padding, padding, padding_after, padding_after].map(|pad| pad as i64);
        let attributes = vec![
            ("dilations", both(dilation)),
            ("group", Attribute::Int(groups as i64)),
            ("kernel_shape", both(kernel)),
            ("pads", Attribute::Ints(pads.to_vec())),
            ("strides", both(stride)),
        ];
        self.node("Conv", name, inputs, attributes)
    }

    /// A 1x1 convolution: `weight` is `[to, from]`.
    pub fn point_conv(
        &mut self,
        name: &str,
        x: &Value,
        [to, from]: [usize; 2],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> Value {
        let weight = self.floats(&format!("{name}.weight"), &[to, from, 1, 1], weight);
        let bias = bias.map(|bias| self.floats(&format!("{name}.bias"), &[to], bias));
        let inputs: Vec<&Value> = [x, &weight].into_iter().chain(&bias).collect();
        let kernel = ("kernel_shape", Attribute::Ints(vec![1, 1]));
        self.node("Conv", name, &inputs, vec![kernel, ("pads", Attribute::Ints(vec![0; 4]))])
    }

    /// `[height, width]` as a value.
    pub fn size(&mut self, name: &str, size: &Size) -> Value {
        match size {
            Size::Fixed([height, width]) => self.ints(&[*height as i64, *width as i64]),
            Size::Of(map) => self.shape(&format!("{name}.size"), map, 2, Some(4)),
        }
    }

    /// Maps at another size, bilinear.
    pub fn resize(&mut self, name: &str, x: &Value, size: &Size, placement: GridPlacement) -> Value {
        let kept = self.shape(&format!("{name}.kept"), x, 0, Some(2));
        let size = self.size(name, size);
        let sizes = self.concat(&format!("{name}.sizes"), &[&kept, &size], 0);
        let mode = match placement {
            GridPlacement::Corners => "align_corners",
            GridPlacement::Centres => "half_pixel",
        };
        let nothing = Value(String::new());
        let attributes = vec![
            ("coordinate_transformation_mode", Attribute::Text(mode)),
            ("mode", Attribute::Text("linear")),
        ];
        self.node("Resize", name, &[x, &nothing, &nothing, &sizes], attributes)
    }

    /// `[batch, channels, positions]` -> `[batch, channels, height, width]`.
    pub fn as_map(&mut self, name: &str, x: &Value, size: &Size) -> Value {
        match size {
            Size::Fixed([height, width]) => self.reshape(name, x, &[0, 0, *height as i64, *width as i64]),
            Size::Of(_) => {
                let (kept, size) = (self.ints(&[0, 0]), self.size(name, size));
                let shape = self.concat(&format!("{name}.shape"), &[&kept, &size], 0);
                self.binary("Reshape", name, x, &shape)
            }
        }
    }

    /// Pixels in bytes, `[batch, height, width, 3]`, as a normalised map.
    pub fn normalised(&mut self, name: &str, image: &Value, mean: [f32; 3], std: [f32; 3]) -> Value {
        let pixels = self.cast(&format!("{name}.pixels"), image, data_type::FLOAT);
        let planes = self.transpose(&format!("{name}.planes"), &pixels, &[0, 3, 1, 2]);
        let mean = self.floats(&format!("{name}.mean"), &[1, 3, 1, 1], &mean);
        let std = self.floats(&format!("{name}.std"), &[1, 3, 1, 1], &std);
        let centred = self.binary("Sub", &format!("{name}.centred"), &planes, &mean);
        self.binary("Div", &format!("{name}.normalised"), &centred, &std)
    }

    /// Means over cells of a map: windows of equal size where the sides can be divided, else one product per axis with the
    /// share of each position in each cell.
    pub fn average_pool(
        &mut self,
        name: &str,
        x: &Value,
        [height, width]: [usize; 2],
        [rows, columns]: [usize; 2],
    ) -> Value {
        if height.is_multiple_of(rows) && width.is_multiple_of(columns) {
            let window = || Attribute::Ints(vec![(height / rows) as i64, (width / columns) as i64]);
            let attributes = vec![
                ("kernel_shape", window()),
                ("pads", Attribute::Ints(vec![0; 4])),
                ("strides", window()),
            ];
            return self.node("AveragePool", name, &[x], attributes);
        }
        let down = self.floats(&format!("{name}.rows"), &[rows, height], &cells(height, rows));
        let across = transposed(&cells(width, columns), width);
        let across = self.floats(&format!("{name}.columns"), &[width, columns], &across);
        let narrow = self.binary("MatMul", &format!("{name}.across"), x, &across);
        self.binary("MatMul", name, &down, &narrow)
    }
}

/// `[bins, side]`: the share of each position in the mean of each cell.
fn cells(side: usize, bins: usize) -> Vec<f32> {
    let mut shares = vec![0.0; bins * side];
    for (cell, shares) in shares.chunks_exact_mut(side).enumerate() {
        let range = cell * side / bins..((cell + 1) * side).div_ceil(bins);
        let share = 1.0 / range.len() as f32;
        shares[range].fill(share);
    }
    shares
}

fn transposed(rows: &[f32], columns: usize) -> Vec<f32> {
    let count = rows.len() / columns;
    (0..columns).flat_map(|column| (0..count).map(move |row| rows[row * columns + column])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_a_line_overlap_where_it_cannot_be_divided() {
        // Five positions in three cells: 0 and 1; 1 to 3; 3 and 4.
        let third = 1.0 / 3.0;
        let expected = [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, third, third, third, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5];
        assert_eq!(cells(5, 3), expected);
        // More cells than positions: each sees the position that it lies on.
        assert_eq!(cells(1, 2), [1.0, 1.0]);
        assert_eq!(transposed(&cells(2, 2), 2), [1.0, 0.0, 0.0, 1.0]);
    }
}
