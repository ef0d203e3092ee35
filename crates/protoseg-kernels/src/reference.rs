//! The meaning of every kernel: naive loops, summed in double precision.

use crate::{ConvShape, NormShape};

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

/// See [`crate::norm_forward`]: output, mean, variance.
pub fn norm_forward(
    shape: &NormShape,
    input: &[f32],
    weight: &[f32],
    bias: &[f32],
    shortcut: Option<&[f32]>,
    relu: bool,
) -> [Vec<f64>; 3] {
    let channel_of = |i: usize| i / shape.plane % shape.channels;
    let count = (shape.batch * shape.plane) as f64;
    let mut mean = vec![0.0; shape.channels];
    input.iter().enumerate().for_each(|(i, &x)| mean[channel_of(i)] += f64::from(x) / count);
    let mut variance = vec![0.0; shape.channels];
    let centred = |i: usize| f64::from(input[i]) - mean[channel_of(i)];
    (0..input.len()).for_each(|i| variance[channel_of(i)] += centred(i).powi(2) / count);
    let output = (0..input.len()).map(|i| {
        let c = channel_of(i);
        let normalised = centred(i) / (variance[c] + shape.epsilon).sqrt();
        let y = normalised * f64::from(weight[c])
            + f64::from(bias[c])
            + shortcut.map_or(0.0, |s| f64::from(s[i]));
        if relu { y.max(0.0) } else { y }
    });
    [output.collect(), mean.clone(), variance.clone()]
}

/// See [`crate::norm_backward`]: gradients of input, weight, bias and shortcut.
pub fn norm_backward(
    shape: &NormShape,
    input: &[f32],
    weight: &[f32],
    output: Option<&[f32]>,
    grad: &[f32],
) -> [Vec<f64>; 4] {
    let channel_of = |i: usize| i / shape.plane % shape.channels;
    let count = (shape.batch * shape.plane) as f64;
    let zeros = vec![0.0; shape.channels];
    let flat = vec![1.0; shape.channels];
    let [normalised, _, variance] =
        norm_forward(shape, input, &flat, &vec![0.0; shape.channels], None, false);
    let masked: Vec<f64> = (0..input.len())
        .map(|i| if output.is_some_and(|y| y[i] <= 0.0) { 0.0 } else { f64::from(grad[i]) })
        .collect();
    let (mut weight_grad, mut bias_grad) = (zeros.clone(), zeros);
    for i in 0..input.len() {
        weight_grad[channel_of(i)] += masked[i] * normalised[i];
        bias_grad[channel_of(i)] += masked[i];
    }
    let input_grad = (0..input.len()).map(|i| {
        let c = channel_of(i);
        let scale = f64::from(weight[c]) / (variance[c] + shape.epsilon).sqrt();
        scale * (masked[i] - bias_grad[c] / count - normalised[i] * weight_grad[c] / count)
    });
    [input_grad.collect(), weight_grad.clone(), bias_grad.clone(), masked]
}
