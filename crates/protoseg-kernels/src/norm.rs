//! Batch normalisation in training, with what follows it in a residual network: the addition of a shortcut, and an
//! activation. One pass over memory instead of one per operation.

use rayon::prelude::*;

use crate::{
    Activation,
    planes::by_channel_mut,
    simd::{Simd, Work, fast},
};

/// Maps that are normalised by channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormShape {
    pub batch: usize,
    pub channels: usize,
    /// Values of one map.
    pub plane: usize,
    /// Added to the variance before its root is taken.
    pub epsilon: f64,
}

/// The statistics are those of the batch, one value per channel; the variance is the biased one.
#[derive(Clone, Debug)]
pub struct Normalised {
    pub output: Vec<f32>,
    pub mean: Vec<f32>,
    pub variance: Vec<f32>,
}

#[derive(Clone, Debug)]
pub struct NormGrads {
    pub input: Vec<f32>,
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    /// Empty unless asked for.
    pub shortcut: Vec<f32>,
}

impl NormShape {
    fn len(&self) -> usize {
        self.batch * self.channels * self.plane
    }

    fn count(&self) -> f64 {
        (self.batch * self.plane) as f64
    }

    fn plane<'a>(&self, maps: &'a [f32], image: usize, channel: usize) -> &'a [f32] {
        &maps[(image * self.channels + channel) * self.plane..][..self.plane]
    }
}

/// `input` normalised, times `weight`, plus `bias`, plus `shortcut` if given, then `activation`.
pub fn norm_forward(
    shape: &NormShape,
    input: &[f32],
    weight: &[f32],
    bias: &[f32],
    shortcut: Option<&[f32]>,
    activation: Activation,
) -> Normalised {
    assert_eq!(input.len(), shape.len(), "input of {shape:?}");
    assert!(shortcut.is_none_or(|shortcut| shortcut.len() == input.len()));
    let mut output = vec![0.0; shape.len()];
    let statistics = by_channel_mut(&mut output, shape.channels, shape.plane)
        .into_par_iter()
        .enumerate()
        .map(|(channel, output)| {
            let planes = || (0..shape.batch).map(|image| shape.plane(input, image, channel));
            let mean = planes().map(|x| sum(x, |x| x)).sum::<f64>() / shape.count();
            let centre = mean as f32;
            let variance =
                planes().map(|x| sum(x, |x| (x - centre) * (x - centre))).sum::<f64>() / shape.count();
            let scale = (f64::from(weight[channel]) / (variance + shape.epsilon).sqrt()) as f32;
            for (image, output) in output.into_iter().enumerate() {
                fast(Forward {
                    input: shape.plane(input, image, channel),
                    shortcut: shortcut.map(|shortcut| shape.plane(shortcut, image, channel)),
                    output,
                    centre,
                    scale,
                    bias: bias[channel],
                    activation,
                });
            }
            (centre, variance as f32)
        });
    let (mean, variance) = statistics.unzip();
    Normalised { output, mean, variance }
}

/// What [`norm_forward`] does, in place, with statistics that are known, as outside training.
#[allow(clippy::too_many_arguments)] // they are what the formula has
pub fn norm_apply(
    shape: &NormShape,
    maps: &mut [f32],
    weight: &[f32],
    bias: &[f32],
    mean: &[f32],
    variance: &[f32],
    shortcut: Option<&[f32]>,
    activation: Activation,
) {
    assert_eq!(maps.len(), shape.len(), "maps of {shape:?}");
    assert!(shortcut.is_none_or(|shortcut| shortcut.len() == maps.len()));
    maps.par_chunks_mut(shape.plane.max(1)).enumerate().for_each(|(place, map)| {
        let channel = place % shape.channels;
        let scale = f64::from(weight[channel]) / (f64::from(variance[channel]) + shape.epsilon).sqrt();
        let shift = f64::from(bias[channel]) - scale * f64::from(mean[channel]);
        let shortcut = shortcut.map(|shortcut| &shortcut[place * shape.plane..][..shape.plane]);
        fast(Apply { map, shortcut, scale: scale as f32, shift: shift as f32, activation });
    });
}

struct Apply<'a> {
    map: &'a mut [f32],
    shortcut: Option<&'a [f32]>,
    scale: f32,
    shift: f32,
    activation: Activation,
}

impl Work for Apply<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let [least, most] = self.activation.limits();
        match self.shortcut {
            None => {
                self.map.iter_mut().for_each(|x| *x = (*x * self.scale + self.shift).max(least).min(most))
            }
            Some(shortcut) => self.map.iter_mut().zip(shortcut).for_each(|(x, shortcut)| {
                *x = (*x * self.scale + self.shift + shortcut).max(least).min(most);
            }),
        }
    }
}

struct Forward<'a> {
    input: &'a [f32],
    shortcut: Option<&'a [f32]>,
    output: &'a mut [f32],
    centre: f32,
    scale: f32,
    bias: f32,
    activation: Activation,
}

impl Work for Forward<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let [least, most] = self.activation.limits();
        let pairs = self.output.iter_mut().zip(self.input);
        match self.shortcut {
            None => pairs
                .for_each(|(y, x)| *y = ((x - self.centre) * self.scale + self.bias).max(least).min(most)),
            Some(shortcut) => pairs.zip(shortcut).for_each(|((y, x), shortcut)| {
                *y = ((x - self.centre) * self.scale + self.bias + shortcut).max(least).min(most);
            }),
        }
    }
}

/// The gradients of what [`norm_forward`] took, given that of its output. An `activation` needs the `output` as
/// well: where it was cut off, the gradient is zero.
#[allow(clippy::too_many_arguments)] // they are what the formula has
pub fn norm_backward(
    shape: &NormShape,
    input: &[f32],
    weight: &[f32],
    mean: &[f32],
    variance: &[f32],
    activation: Activation,
    output: Option<&[f32]>,
    grad: &[f32],
    with_shortcut: bool,
) -> NormGrads {
    assert_eq!([input.len(), grad.len()], [shape.len(); 2], "input and gradient of {shape:?}");
    assert!(activation == Activation::None || output.is_some(), "{activation:?} without its output");
    let mut input_grad = vec![0.0; shape.len()];
    let mut shortcut = if with_shortcut { vec![0.0; shape.len()] } else { Vec::new() };
    let mut shortcuts = by_channel_mut(&mut shortcut, shape.channels, shape.plane);
    let sums = by_channel_mut(&mut input_grad, shape.channels, shape.plane)
        .into_par_iter()
        .zip(shortcuts.par_iter_mut())
        .enumerate()
        .map_init(
            || vec![0.0; shape.batch * shape.plane],
            |masked, (channel, (input_grad, shortcut))| {
                let inverse = (f64::from(variance[channel]) + shape.epsilon).sqrt().recip();
                let (mut grad_sum, mut product_sum) = (0.0, 0.0);
                for (image, masked) in masked.chunks_mut(shape.plane).enumerate() {
                    let mut sums = [0.0; 2];
                    fast(Mask {
                        grad: shape.plane(grad, image, channel),
                        activation,
                        output: output.map(|output| shape.plane(output, image, channel)),
                        input: shape.plane(input, image, channel),
                        centre: mean[channel],
                        masked,
                        sums: &mut sums,
                    });
                    grad_sum += sums[0];
                    product_sum += sums[1];
                }
                // With n the normalised input: dx = scale (g - mean(g) - n mean(g n)).
                let weight_grad = product_sum * inverse;
                let scale = f64::from(weight[channel]) * inverse;
                for (image, input_grad) in input_grad.into_iter().enumerate() {
                    let masked = &masked[image * shape.plane..][..shape.plane];
                    fast(Backward {
                        masked,
                        input: shape.plane(input, image, channel),
                        input_grad,
                        centre: mean[channel],
                        scale: scale as f32,
                        slope: (scale * inverse * weight_grad / shape.count()) as f32,
                        shift: (scale * grad_sum / shape.count()) as f32,
                    });
                    if let Some(shortcut) = shortcut.get_mut(image) {
                        shortcut.copy_from_slice(masked);
                    }
                }
                (weight_grad as f32, grad_sum as f32)
            },
        );
    let (weight, bias) = sums.unzip();
    NormGrads { input: input_grad, weight, bias, shortcut }
}

/// The gradient before the activation, its sum, and the sum of its product with the centred input.
struct Mask<'a> {
    grad: &'a [f32],
    activation: Activation,
    output: Option<&'a [f32]>,
    input: &'a [f32],
    centre: f32,
    masked: &'a mut [f32],
    sums: &'a mut [f64; 2],
}

impl Work for Mask<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        match (self.activation, self.output) {
            (Activation::None, _) | (_, None) => self.masked.copy_from_slice(self.grad),
            (Activation::Relu, Some(output)) => mask(self.masked, self.grad, output, |y| y > 0.0),
            (Activation::Relu6, Some(output)) => mask(self.masked, self.grad, output, |y| y > 0.0 && y < 6.0),
        }
        let (masked, rest) = self.masked.as_chunks::<LANES>();
        let (input, input_rest) = self.input.as_chunks::<LANES>();
        let (mut sums, mut products) = ([0.0f32; LANES], [0.0f32; LANES]);
        for (masked, input) in masked.iter().zip(input) {
            for lane in 0..LANES {
                sums[lane] += masked[lane];
                products[lane] += masked[lane] * (input[lane] - self.centre);
            }
        }
        for (lane, (masked, input)) in rest.iter().zip(input_rest).enumerate() {
            sums[lane] += masked;
            products[lane] += masked * (input - self.centre);
        }
        *self.sums = [sums, products].map(|lanes| lanes.iter().copied().map(f64::from).sum());
    }
}

/// The gradient where the output passes, zero elsewhere.
#[inline(always)]
fn mask(masked: &mut [f32], grad: &[f32], output: &[f32], passes: impl Fn(f32) -> bool) {
    for ((masked, grad), &output) in masked.iter_mut().zip(grad).zip(output) {
        *masked = if passes(output) { *grad } else { 0.0 };
    }
}

struct Backward<'a> {
    masked: &'a [f32],
    input: &'a [f32],
    input_grad: &'a mut [f32],
    centre: f32,
    scale: f32,
    slope: f32,
    shift: f32,
}

impl Work for Backward<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for ((dx, g), x) in self.input_grad.iter_mut().zip(self.masked).zip(self.input) {
            *dx = g * self.scale - self.shift - (x - self.centre) * self.slope;
        }
    }
}

/// Sums that run side by side: enough for single precision to lose little, and for vectors.
const LANES: usize = 16;

/// The sum of `map` of each value.
fn sum(values: &[f32], map: impl Fn(f32) -> f32) -> f64 {
    let mut total = 0.0;
    fast(Sum { values, map, total: &mut total });
    total
}

struct Sum<'a, F> {
    values: &'a [f32],
    map: F,
    total: &'a mut f64,
}

impl<F: Fn(f32) -> f32> Work for Sum<'_, F> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (chunks, rest) = self.values.as_chunks::<LANES>();
        let mut sums = [0.0f32; LANES];
        for chunk in chunks {
            for lane in 0..LANES {
                sums[lane] += (self.map)(chunk[lane]);
            }
        }
        for (sum, &value) in sums.iter_mut().zip(rest) {
            *sum += (self.map)(value);
        }
        *self.total = sums.iter().copied().map(f64::from).sum();
    }
}
