//! The meaning of every kernel: naive loops, summed in double precision.

use crate::{Activation, ConvShape, NormShape, PixelLossRule, PixelLossShape, UNJUDGED, pairs::GroupNorm};

/// Calls `visit(output index, input index, weight index)` for every product of a convolution.
fn each_product(shape: &ConvShape, mut visit: impl FnMut(usize, usize, usize)) {
    let &ConvShape { batch, from, to, height, width, kernel, stride, dilation, padding, groups, .. } = shape;
    let (group_from, group_to) = (from / groups, to / groups);
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let at = |out: usize, tap: usize, side: usize| {
        (out * stride + tap * dilation).checked_sub(padding).filter(|&i| i < side)
    };
    for image in 0..batch {
        for o in 0..to {
            for c in 0..group_from {
                let channel = o / group_to * group_from + c;
                for y in 0..out_height {
                    for x in 0..out_width {
                        for ky in 0..kernel {
                            for kx in 0..kernel {
                                let (Some(iy), Some(ix)) = (at(y, ky, height), at(x, kx, width)) else {
                                    continue;
                                };
                                visit(
                                    ((image * to + o) * out_height + y) * out_width + x,
                                    ((image * from + channel) * height + iy) * width + ix,
                                    ((o * group_from + c) * kernel + ky) * kernel + kx,
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

/// See [`Activation`].
pub fn activate(activation: Activation, value: f64) -> f64 {
    match activation {
        Activation::None => value,
        Activation::Relu => value.max(0.0),
        Activation::Relu6 => value.clamp(0.0, 6.0),
    }
}

/// See [`crate::norm_forward`]: output, mean, variance.
pub fn norm_forward(
    shape: &NormShape,
    input: &[f32],
    weight: &[f32],
    bias: &[f32],
    shortcut: Option<&[f32]>,
    activation: Activation,
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
        activate(activation, y)
    });
    [output.collect(), mean.clone(), variance.clone()]
}

/// See [`crate::norm_backward`]: gradients of input, weight, bias and shortcut.
pub fn norm_backward(
    shape: &NormShape,
    input: &[f32],
    weight: &[f32],
    activation: Activation,
    output: Option<&[f32]>,
    grad: &[f32],
) -> [Vec<f64>; 4] {
    let channel_of = |i: usize| i / shape.plane % shape.channels;
    let count = (shape.batch * shape.plane) as f64;
    let zeros = vec![0.0; shape.channels];
    let flat = vec![1.0; shape.channels];
    let [normalised, _, variance] =
        norm_forward(shape, input, &flat, &vec![0.0; shape.channels], None, Activation::None);
    let is_cut = |y: f32| match activation {
        Activation::None => false,
        Activation::Relu => y <= 0.0,
        Activation::Relu6 => y <= 0.0 || y >= 6.0,
    };
    let masked: Vec<f64> = (0..input.len())
        .map(|i| if output.is_some_and(|y| is_cut(y[i])) { 0.0 } else { f64::from(grad[i]) })
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

/// See [`crate::pixel_loss`]: the loss, and its gradient in the scores.
pub fn pixel_loss(
    shape: &PixelLossShape,
    scores: &[f32],
    labels: &[u16],
    rule: &PixelLossRule,
) -> (f64, Vec<f64>) {
    let &PixelLossShape { batch, classes, grid: [grid_height, grid_width], size: [height, width] } = shape;
    let share = |new: usize, old: usize, from: usize, to: usize| {
        let at = new as f64 * (from as f64 - 1.0) / (to.max(2) as f64 - 1.0);
        (1.0 - (at - old as f64).abs()).max(0.0)
    };
    let weight_of =
        |label: u16| rule.weights.get(usize::from(label)).map_or(1.0, |&weight| f64::from(weight));
    let smoothing = f64::from(rule.smoothing);
    let judged = labels.iter().filter(|&&label| label != UNJUDGED);
    let judged = judged.map(|&label| weight_of(label)).sum::<f64>();
    let (mut loss, mut grad) = (0.0, vec![0.0; scores.len()]);
    for image in 0..batch {
        for y in 0..height {
            for x in 0..width {
                let label = labels[(image * height + y) * width + x];
                if label == UNJUDGED {
                    continue;
                }
                let place = |class: usize, i: usize, j: usize| {
                    ((image * classes + class) * grid_height + i) * grid_width + j
                };
                let mut pixel = vec![0.0; classes];
                let mut shares = Vec::new();
                for i in 0..grid_height {
                    for j in 0..grid_width {
                        shares.push((
                            i,
                            j,
                            share(y, i, grid_height, height) * share(x, j, grid_width, width),
                        ));
                    }
                }
                for (class, pixel) in pixel.iter_mut().enumerate() {
                    *pixel = shares
                        .iter()
                        .map(|&(i, j, share)| share * f64::from(scores[place(class, i, j)]))
                        .sum();
                }
                let total: f64 = pixel.iter().map(|score: &f64| score.exp()).sum();
                let weight = weight_of(label) / judged;
                for (class, score) in pixel.iter().enumerate() {
                    let own = class == usize::from(label);
                    let target = match classes {
                        1 => 1.0,
                        _ if own => 1.0 - smoothing,
                        _ => smoothing / (classes - 1) as f64,
                    };
                    loss += weight * target * (total.ln() - score);
                    for &(i, j, share) in &shares {
                        grad[place(class, i, j)] += weight * share * (score.exp() / total - target);
                    }
                }
            }
        }
    }
    (loss, grad)
}

/// See [`crate::pairs::weigh_rows`].
pub fn weigh_rows(values: &[f32], starts: &[usize], weight: &[f32], bias: &[f32], length: usize) -> Vec<f64> {
    let channels = bias.len();
    let value = |at: usize| {
        let (channel, i) = (at / length, at % length);
        let terms = starts.iter().enumerate().map(|(term, &start)| {
            f64::from(weight[term * channels + channel]) * f64::from(values[start + i])
        });
        f64::from(bias[channel]) + terms.sum::<f64>()
    };
    (0..channels * length).map(value).collect()
}

/// See [`crate::pairs::group_norm`].
pub fn group_norm(norm: &GroupNorm, values: &[f32]) -> Vec<f64> {
    let channels = norm.weight.len();
    let own = channels / norm.groups;
    let group_of = |at: usize| at % channels / own;
    let mean_of = |group: usize, of: &dyn Fn(f64) -> f64| {
        let all = || values.iter().enumerate().filter(|(at, _)| group_of(*at) == group);
        all().map(|(_, &value)| of(f64::from(value))).sum::<f64>() / all().count() as f64
    };
    let moments: Vec<[f64; 2]> = (0..norm.groups)
        .map(|group| {
            let mean = mean_of(group, &|value| value);
            [mean, mean_of(group, &|value| (value - mean) * (value - mean))]
        })
        .collect();
    let normal = |(at, &value): (usize, &f32)| {
        let [mean, variance] = moments[group_of(at)];
        let normal = (f64::from(value) - mean) / (variance + norm.epsilon).sqrt();
        (normal * f64::from(norm.weight[at % channels]) + f64::from(norm.bias[at % channels])).max(0.0)
    };
    values.iter().enumerate().map(normal).collect()
}

/// Cosines, at least 0, of the cells of two maps `[channels, cells]`, each norm with `tiny` added: `[second, first]`.
/// Vectors of the second are multiplied with a weight each before.
pub fn cosines(first: &[f32], second: &[f32], weight: &[f32], channels: usize, tiny: f64) -> Vec<f64> {
    let unit = |map: &[f32], cell: usize, weight: f64| -> Vec<f64> {
        let cells = map.len() / channels;
        let vector: Vec<f64> = (0..channels).map(|c| weight * f64::from(map[c * cells + cell])).collect();
        let norm = vector.iter().map(|value| value * value).sum::<f64>().sqrt() + tiny;
        vector.into_iter().map(|value| value / norm).collect()
    };
    let mut out = Vec::new();
    for (cell, &weight) in weight.iter().enumerate() {
        let support = unit(second, cell, f64::from(weight));
        for query in 0..first.len() / channels {
            let query = unit(first, query, 1.0);
            out.push(support.iter().zip(query).map(|(a, b)| a * b).sum::<f64>().max(0.0));
        }
    }
    out
}

/// The largest product of each pixel of `[pixels, dim]` with the rows of each class, `[rows, dim]`, times `scale`; the
/// rows of class c end before `ends[c]`. No product counts as less than -1.
pub fn best_rows(pixels: &[f32], dim: usize, rows: &[f32], ends: &[usize], scale: f32) -> Vec<f32> {
    let mut scores = Vec::new();
    for pixel in pixels.chunks(dim) {
        let mut start = 0;
        for &end in ends {
            let product = |row: &[f32]| row.iter().zip(pixel).map(|(a, b)| a * b).sum::<f32>();
            let products = rows[start * dim..end * dim].chunks(dim).map(product);
            scores.push(scale * products.fold(-1.0, f32::max));
            start = end;
        }
    }
    scores
}
