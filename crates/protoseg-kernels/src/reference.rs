//! The meaning of every kernel: naive loops, summed in double precision.

use crate::ConvShape;

/// Calls `visit(output index, input index, weight index)` for every product of a convolution.
fn each_product(shape: &ConvShape, mut visit: impl FnMut(usize, usize, usize)) {
    let &ConvShape { batch, from, to, height, width, kernel, stride, dilation, padding } = shape;
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let at = |out: usize, tap: usize, side: usize| {
        (out * stride + tap * dilation).checked_sub(padding).filter(|&i| i < side)
    };
    for image in 0..batch {
        for o in 0..to {
            for c in 0..from {
                for y in 0..out_height {
                    for x in 0..out_width {
                        for ky in 0..kernel {
                            for kx in 0..kernel {
                                let (Some(iy), Some(ix)) = (at(y, ky, height), at(x, kx, width)) else {
                                    continue;
                                };
                                visit(
                                    ((image * to + o) * out_height + y) * out_width + x,
                                    ((image * from + c) * height + iy) * width + ix,
                                    ((o * from + c) * kernel + ky) * kernel + kx,
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

/// See [`crate::conv_forward`].
pub fn conv_forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f64> {
    let mut output = vec![0.0; shape.output_len()];
    each_product(shape, |o, i, w| output[o] += f64::from(input[i]) * f64::from(weight[w]));
    output
}

/// See [`crate::conv_input_grad`].
pub fn conv_input_grad(shape: &ConvShape, grad: &[f32], weight: &[f32]) -> Vec<f64> {
    let mut input = vec![0.0; shape.input_len()];
    each_product(shape, |o, i, w| input[i] += f64::from(grad[o]) * f64::from(weight[w]));
    input
}

/// See [`crate::conv_weight_grad`].
pub fn conv_weight_grad(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f64> {
    let mut weight = vec![0.0; shape.weight_len()];
    each_product(shape, |o, i, w| weight[w] += f64::from(grad[o]) * f64::from(input[i]));
    weight
}
