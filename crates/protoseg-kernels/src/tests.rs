//! Every kernel against the reference, over shapes that are awkward on purpose.

use proptest::prelude::*;

use crate::{
    channels_last::{FixedConv, average_pool, cells, max_pool_3x3, transpose},
    simd::pretend::{Path, TURN, with},
    *,
};

/// Values in [-1, 1) from a counter: the same on every run, without a pattern a kernel could hide behind.
fn values(len: usize, seed: u64) -> Vec<f32> {
    (0..len as u64)
        .map(|i| {
            let mut z =
                (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Largest difference, over the largest magnitude.
fn error(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let worst = got.iter().zip(expected).fold(0.0f64, |a, (&g, &e)| a.max((f64::from(g) - e).abs()));
    if worst == 0.0 { 0.0 } else { worst / largest }
}

/// Errors of the three directions.
fn errors(shape: &ConvShape) -> [f64; 3] {
    let input = values(shape.input_len(), 1);
    let weight = values(shape.weight_len(), 2);
    let grad = values(shape.output_len(), 3);
    [
        error(&conv_forward(shape, &input, &weight), &reference::conv_forward(shape, &input, &weight)),
        error(&conv_input_grad(shape, &grad, &weight), &reference::conv_input_grad(shape, &grad, &weight)),
        error(&conv_weight_grad(shape, &input, &grad), &reference::conv_weight_grad(shape, &input, &grad)),
    ]
}

/// Odd sizes, one channel, dilations beyond the map.
fn shapes() -> impl Strategy<Value = ConvShape> {
    let channels = || prop_oneof![Just(1usize), 2usize..40];
    let kernel = prop_oneof![Just(1usize), Just(3), Just(3), Just(7)];
    let dilation = prop_oneof![1usize..5, Just(30)];
    (1usize..4, channels(), channels(), 1usize..24, 1usize..24, kernel, 1usize..3, dilation).prop_map(
        |(batch, from, to, height, width, kernel, stride, dilation)| {
            let padding = dilation * (kernel - 1) / 2;
            ConvShape { batch, from, to, height, width, kernel, stride, dilation, padding }
        },
    )
}

/// Of the largest magnitude.
const TOLERANCE: f64 = 2e-4;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_convolution_is_the_reference_one(shape in shapes()) {
        for (direction, error) in ["forward", "input", "weight"].iter().zip(errors(&shape)) {
            prop_assert!(error <= TOLERANCE, "{direction} is off by {error:e} at {shape:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn normalisation_is_the_reference_one(
        batch in 1usize..4,
        channels in 1usize..10,
        plane in 2usize..80,
        shift in -3.0f32..3.0,
        relu in any::<bool>(),
        with_shortcut in any::<bool>(),
    ) {
        let shape = NormShape { batch, channels, plane, epsilon: 1e-5 };
        let len = batch * channels * plane;
        let input: Vec<f32> = values(len, 1).iter().map(|x| x + shift).collect();
        let (weight, bias) = (values(channels, 2), values(channels, 3));
        let (added, grad) = (values(len, 4), values(len, 5));
        let shortcut = with_shortcut.then_some(&added[..]);
        let got = norm_forward(&shape, &input, &weight, &bias, shortcut, relu);
        let expected = reference::norm_forward(&shape, &input, &weight, &bias, shortcut, relu);
        for (got, expected) in [&got.output, &got.mean, &got.variance].into_iter().zip(&expected) {
            prop_assert!(error(got, expected) <= 2e-5);
        }
        let mut applied = input.clone();
        norm_apply(&shape, &mut applied, &weight, &bias, &got.mean, &got.variance, shortcut, relu);
        prop_assert!(error(&applied, &expected[0]) <= 5e-5);
        let output = relu.then_some(&got.output[..]);
        let grads = norm_backward(
            &shape, &input, &weight, &got.mean, &got.variance, output, &grad, with_shortcut,
        );
        let expected = reference::norm_backward(&shape, &input, &weight, output, &grad);
        for (got, expected) in [&grads.input, &grads.weight, &grads.bias].into_iter().zip(&expected) {
            // A sum over few values may be all cancellation; then its terms set the scale.
            let largest = expected.iter().fold(1.0f64, |a, b| a.max(b.abs()));
            let worst = got.iter().zip(expected).fold(0.0f64, |a, (&g, &e)| a.max((f64::from(g) - e).abs()));
            prop_assert!(worst <= 2e-4 * largest, "{worst:e} of {largest:e}");
        }
        if with_shortcut {
            prop_assert!(error(&grads.shortcut, &expected[3]) == 0.0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pixel_loss_is_the_reference_one(
        batch in 1usize..4,
        classes in 1usize..6,
        grid in (1usize..6, 1usize..6),
        size in (1usize..50, 1usize..20),
        scale in 0.1f32..40.0,
        seed in any::<u64>(),
    ) {
        let shape = PixelLossShape { batch, classes, grid: grid.into(), size: size.into() };
        let scores: Vec<f32> =
            values(batch * classes * grid.0 * grid.1, seed).iter().map(|score| score * scale).collect();
        let label = |value: &f32| match ((value + 1.0) * 0.5 * (classes + 1) as f32) as u16 {
            label if usize::from(label) < classes => label,
            _ => UNJUDGED,
        };
        let labels: Vec<u16> = values(batch * size.0 * size.1, seed ^ 1).iter().map(label).collect();
        let got = pixel_loss(&shape, &scores, &labels);
        let (loss, grad) = reference::pixel_loss(&shape, &scores, &labels);
        prop_assert!((got.loss - loss).abs() <= 1e-5 * loss.max(1.0), "{} {loss}", got.loss);
        let worst = got.grad.iter().zip(&grad).fold(0.0f64, |a, (&g, &e)| a.max((f64::from(g) - e).abs()));
        prop_assert!(worst <= 1e-5, "{worst:e}");
    }
}

/// `[batch, channels, plane]` to `[batch, plane, channels]`.
fn channels_last(maps: &[f32], channels: usize, plane: usize) -> Vec<f32> {
    let images = maps.chunks(channels * plane);
    images
        .flat_map(|map| (0..plane).flat_map(move |i| (0..channels).map(move |c| map[c * plane + i])))
        .collect()
}

/// The error of a [`FixedConv`] with bias, its output among other values that must stay as they are.
fn fixed_error(shape: &ConvShape, with_add: bool, relu: bool, gap: usize) -> f64 {
    let (input, weight) = (values(shape.input_len(), 1), values(shape.weight_len(), 2));
    let (bias, added) = (values(shape.to, 3), values(shape.output_len(), 4));
    let plane = shape.out_height() * shape.out_width();
    let stride = shape.to + gap;
    let spread = |maps: &[f32]| -> Vec<f32> {
        let pixels = channels_last(maps, shape.to, plane);
        pixels.chunks(shape.to).flat_map(|pixel| pixel.iter().copied().chain((0..gap).map(|_| 7.0))).collect()
    };
    let mut out = spread(&vec![f32::NAN; shape.output_len()]);
    let add = with_add.then(|| spread(&added));
    let conv = FixedConv::new(*shape, &weight, &bias, relu);
    conv.run(
        &channels_last(&input, shape.from, shape.height * shape.width),
        add.as_deref(),
        &mut out,
        stride,
    );
    let mut expected = reference::conv_forward(shape, &input, &weight);
    for (i, value) in expected.iter_mut().enumerate() {
        let add = if with_add { added[i] } else { 0.0 };
        *value += f64::from(bias[i / plane % shape.to]) + f64::from(add);
    }
    let largest = expected.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let expected: Vec<f32> =
        expected.iter().map(|&value| if relu { value.max(0.0) } else { value } as f32).collect();
    let mut worst = 0.0f64;
    for (got, expected) in out.iter().zip(spread(&expected)) {
        assert!(got.is_finite(), "a value was not written");
        worst = worst.max(f64::from(got - expected).abs());
    }
    for pixel in out.chunks(stride) {
        assert!(pixel[shape.to..].iter().all(|&value| value == 7.0), "a neighbour was written");
    }
    worst / largest.max(1e-30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_fixed_convolution_is_the_reference_one(
        shape in shapes(),
        with_add in any::<bool>(),
        relu in any::<bool>(),
        gap in prop_oneof![Just(0usize), 1usize..20],
    ) {
        let error = fixed_error(&shape, with_add, relu, gap);
        prop_assert!(error <= TOLERANCE, "off by {error:e} at {shape:?}");
    }

    #[test]
    fn pooling_is_what_it_says(
        height in 1usize..20, width in 1usize..20, channels in 1usize..9, stride in 1usize..3, bins in 1usize..7,
    ) {
        let input = values(height * width * channels, 5);
        let at = |y: usize, x: usize, c: usize| input[(y * width + x) * channels + c];
        let (out_height, out_width) = (height.div_ceil(stride), width.div_ceil(stride));
        let mut out = vec![f32::NAN; out_height * out_width * channels];
        max_pool_3x3([height, width, channels], stride, &input, &mut out);
        let near = |middle: usize, side: usize| (0..side).filter(move |at| at.abs_diff(middle) <= 1);
        for (i, got) in out.iter().enumerate() {
            let (c, x, y) = (i % channels, i / channels % out_width, i / channels / out_width);
            let window = near(y * stride, height).flat_map(|y| near(x * stride, width).map(move |x| (y, x)));
            prop_assert_eq!(*got, window.map(|(y, x)| at(y, x, c)).fold(f32::MIN, f32::max));
        }
        prop_assert_eq!(transpose(&channels_last(&input, channels, height * width), channels), input.clone());
        let means = average_pool([height, width, channels], &[1, bins], &input);
        prop_assert_eq!(means.len(), (1 + bins * bins) * channels);
        let total: f32 = (0..height * width).map(|i| input[i * channels]).sum();
        prop_assert!((means[0] - total / (height * width) as f32).abs() < 1e-5);
        let (y, x) = (cells(height, bins).next().unwrap(), cells(width, bins).next().unwrap());
        let sum: f32 = y.clone().flat_map(|y| x.clone().map(move |x| at(y, x, 0))).sum();
        prop_assert!((means[channels] - sum / (y.len() * x.len()) as f32).abs() < 1e-5);
    }
}

#[test]
fn many_channels_keep_the_tolerance() {
    let same = |from, to, side, dilation| ConvShape {
        batch: 1,
        from,
        to,
        height: side,
        width: side,
        kernel: 3,
        stride: 1,
        dilation,
        padding: dilation,
    };
    for shape in [same(1030, 20, 13, 1), same(20, 1030, 12, 1), same(520, 24, 11, 2), same(24, 520, 6, 1)] {
        for (direction, error) in ["forward", "input", "weight"].iter().zip(errors(&shape)) {
            assert!(error <= TOLERANCE, "{direction} is off by {error:e} at {shape:?}");
        }
        let error = fixed_error(&shape, true, false, 3);
        assert!(error <= TOLERANCE, "fixed is off by {error:e} at {shape:?}");
    }
}

#[test]
fn paths_that_this_machine_does_not_take_are_the_reference_too() {
    let shape = |from, to, side, kernel, stride, dilation| ConvShape {
        batch: 2,
        from,
        to,
        height: side,
        width: side + 1,
        kernel,
        stride,
        dilation,
        padding: dilation * (kernel - 1) / 2,
    };
    let shapes = [
        shape(20, 33, 7, 1, 1, 1),
        shape(20, 33, 13, 3, 1, 1),
        shape(17, 16, 14, 3, 1, 4),
        shape(18, 17, 5, 3, 1, 4),
        shape(3, 24, 15, 7, 2, 1),
    ];
    for path in [Path::Portable, Path::Wide] {
        for shape in &shapes {
            let (fixed, others) = with(path, || (fixed_error(shape, true, true, 1), errors(shape)));
            assert!(fixed <= TOLERANCE, "fixed is off by {fixed:e} at {shape:?}, {path:?}");
            for (direction, error) in ["forward", "input", "weight"].iter().zip(others) {
                assert!(error <= TOLERANCE, "{direction} is off by {error:e} at {shape:?}, {path:?}");
            }
        }
    }
}

#[test]
fn a_peak_is_above_nothing_and_below_everything() {
    let peak = peak_flops(1);
    assert!((1e8..1e13).contains(&peak), "{peak:e}");
}

#[test]
fn the_same_input_gives_the_same_bits() {
    let _turn = TURN.lock();
    let shape = ConvShape {
        batch: 3,
        from: 48,
        to: 40,
        height: 21,
        width: 19,
        kernel: 3,
        stride: 1,
        dilation: 2,
        padding: 2,
    };
    let strided = ConvShape { stride: 2, ..shape };
    let pointwise = ConvShape { kernel: 1, padding: 0, dilation: 1, ..shape };
    for shape in [shape, strided, pointwise] {
        let input = values(shape.input_len(), 1);
        let weight = values(shape.weight_len(), 2);
        let grad = values(shape.output_len(), 3);
        let run = || {
            (
                conv_forward(&shape, &input, &weight),
                conv_input_grad(&shape, &grad, &weight),
                conv_weight_grad(&shape, &input, &grad),
            )
        };
        let first = run();
        assert!((0..5).all(|_| run() == first), "{shape:?}");
    }
}
