//! Every kernel against the reference, over shapes that are awkward on purpose.

use proptest::prelude::*;

use crate::{
    channels_last::{
        JoinedConvs, MaxPool, PackedConv, average_pool, cells, max_pool, panels::Products, transpose,
    },
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

/// Largest difference; infinite if there is a NaN.
fn difference(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len(), "numbers of values");
    let difference = |(&got, &expected): (&f32, &f64)| (f64::from(got) - expected).abs();
    let differences = got.iter().zip(expected).map(difference);
    differences.fold(0.0, |a, b| if b.is_nan() { f64::INFINITY } else { a.max(b) })
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |a, b| a.max(b.abs()))
}

/// Largest difference, over the largest magnitude.
fn error(got: &[f32], expected: &[f64]) -> f64 {
    let worst = difference(got, expected);
    if worst == 0.0 { 0.0 } else { worst / largest(expected) }
}

#[test]
fn a_comparison_sees_what_is_not_a_number() {
    assert_eq!(error(&[1.0, 2.5], &[1.0, 2.0]), 0.25);
    assert_eq!(error(&[f32::NAN; 3], &[1.0; 3]), f64::INFINITY);
    assert_eq!(error(&[f32::NAN, 1.0], &[1.0; 2]), f64::INFINITY);
    assert_eq!(error(&[f32::NAN, 0.0], &[0.0; 2]), f64::INFINITY);
    assert_eq!(difference(&[1.0], &[f64::NAN]), f64::INFINITY);
}

#[test]
#[should_panic(expected = "numbers of values")]
fn a_comparison_sees_what_is_missing() {
    error(&[1.0, 1.0], &[1.0; 3]);
}

/// Errors of the three directions.
fn errors(shape: &ConvShape) -> [f64; 3] {
    let input = values(shape.input_len(), 1);
    let weight = values(shape.weight_len(), 2);
    let grad = values(shape.output_len(), 3);
    let weight_grad = reference::conv_weight_grad(shape, &input, &grad);
    [
        error(&conv_forward(shape, &input, &weight), &reference::conv_forward(shape, &input, &weight)),
        error(&conv_input_grad(shape, &grad, &weight), &reference::conv_input_grad(shape, &grad, &weight)),
        // The sum for a single weight may be all cancellation; then its terms set the scale.
        difference(&conv_weight_grad(shape, &input, &grad), &weight_grad) / largest(&weight_grad).max(1.0),
    ]
}

/// How a map is padded.
#[derive(Clone, Copy, Debug)]
enum Padding {
    /// As much on every side as keeps the size of a map at stride 1.
    Same,
    /// The least that gives as many outputs as steps fit on the map, the odd one after it.
    Least,
    Any(usize, usize),
}

impl Padding {
    fn sides(self, kernel: usize, stride: usize, dilation: usize) -> [usize; 2] {
        let reach = dilation * (kernel - 1);
        match self {
            Self::Same => [reach / 2; 2],
            Self::Least => {
                let all = reach.saturating_sub(stride - 1);
                [all / 2, all - all / 2]
            }
            Self::Any(before, after) => [before, after],
        }
    }
}

/// Odd sizes, one channel, dilations beyond the map, padding of every kind, channels together and by themselves.
fn shapes() -> impl Strategy<Value = ConvShape> {
    let channels = || prop_oneof![Just(1usize), 2usize..40];
    let sides = (1usize..24, 1usize..24);
    let kernel = prop_oneof![Just(1usize), Just(3), Just(3), Just(5), Just(7)];
    let dilation = prop_oneof![1usize..5, Just(1), Just(30)];
    let padding = prop_oneof![
        Just(Padding::Same),
        Just(Padding::Least),
        (0usize..7, 0usize..7).prop_map(|(before, after)| Padding::Any(before, after)),
    ];
    let steps = (kernel, 1usize..4, dilation, padding);
    (1usize..4, channels(), channels(), any::<bool>(), sides, steps)
        .prop_map(|(batch, from, to, depthwise, (height, width), (kernel, stride, dilation, padding))| {
            let [padding, padding_after] = padding.sides(kernel, stride, dilation);
            let (to, groups) = if depthwise { (from, from) } else { (to, 1) };
            ConvShape {
                batch,
                from,
                to,
                height,
                width,
                kernel,
                stride,
                dilation,
                padding,
                padding_after,
                groups,
            }
        })
        .prop_filter("an output", |shape| shape.output_len() > 0)
}

/// A square map, padded to keep its size.
fn same(from: usize, to: usize, side: usize, kernel: usize, dilation: usize) -> ConvShape {
    let padding = dilation * (kernel - 1) / 2;
    ConvShape {
        batch: 1,
        from,
        to,
        height: side,
        width: side,
        kernel,
        stride: 1,
        dilation,
        padding,
        padding_after: padding,
        groups: 1,
    }
}

/// The convolution of zeros.
fn empty(shape: ConvShape) -> PackedConv {
    PackedConv::new(shape, &vec![0.0; shape.weight_len()], &vec![0.0; shape.to], Activation::None)
}

fn activations() -> impl Strategy<Value = Activation> {
    prop_oneof![Just(Activation::None), Just(Activation::Relu), Just(Activation::Relu6)]
}

/// Of the largest magnitude.
const TOLERANCE: f64 = 2e-4;

/// Products of numbers that are rounded.
const ROUNDED: [Products; 2] = [Products::Pairs, Products::Tiles];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

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
        scale in prop_oneof![Just(1.0f32), Just(6.0)],
        activation in activations(),
        with_shortcut in any::<bool>(),
    ) {
        let shape = NormShape { batch, channels, plane, epsilon: 1e-5 };
        let len = batch * channels * plane;
        let input: Vec<f32> = values(len, 1).iter().map(|x| x + shift).collect();
        // Large enough for some values to reach 6.
        let weight: Vec<f32> = values(channels, 2).iter().map(|x| x * scale).collect();
        let bias = values(channels, 3);
        let (added, grad) = (values(len, 4), values(len, 5));
        let shortcut = with_shortcut.then_some(&added[..]);
        let got = norm_forward(&shape, &input, &weight, &bias, shortcut, activation);
        let expected = reference::norm_forward(&shape, &input, &weight, &bias, shortcut, activation);
        for (got, expected) in [&got.output, &got.mean, &got.variance].into_iter().zip(&expected) {
            prop_assert!(error(got, expected) <= 2e-5);
        }
        let mut applied = input.clone();
        norm_apply(&shape, &mut applied, &weight, &bias, &got.mean, &got.variance, shortcut, activation);
        prop_assert!(error(&applied, &expected[0]) <= 5e-5);
        let output = (activation != Activation::None).then_some(&got.output[..]);
        let grads = norm_backward(
            &shape, &input, &weight, &got.mean, &got.variance, activation, output, &grad, with_shortcut,
        );
        let expected = reference::norm_backward(&shape, &input, &weight, activation, output, &grad);
        for (got, expected) in [&grads.input, &grads.weight, &grads.bias].into_iter().zip(&expected) {
            // A sum over few values may be all cancellation; then its terms set the scale.
            let (worst, largest) = (difference(got, expected), largest(expected).max(1.0));
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
        smoothing in prop_oneof![Just(0.0f32), 0.01f32..0.4],
        weighed in any::<bool>(),
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
        let weights = values(classes, seed ^ 2).iter().map(|value| 1.5 + value).collect();
        let rule = PixelLossRule { weights: if weighed { weights } else { Vec::new() }, smoothing };
        let got = pixel_loss_by(&shape, &scores, &labels, &rule);
        let (loss, grad) = reference::pixel_loss(&shape, &scores, &labels, &rule);
        prop_assert!((got.loss - loss).abs() <= 1e-5 * loss.max(1.0), "{} {loss}", got.loss);
        let worst = difference(&got.grad, &grad);
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

/// The error of a [`PackedConv`] with bias, its output among other values that must stay as they are.
fn packed_error(shape: &ConvShape, with_add: bool, activation: Activation, gap: usize) -> f64 {
    packed_error_of(shape, with_add, activation, gap, Products::Plain, values)
}

/// The same of a convolution with such products and such values.
fn packed_error_of(
    shape: &ConvShape,
    with_add: bool,
    activation: Activation,
    gap: usize,
    products: Products,
    values: fn(usize, u64) -> Vec<f32>,
) -> f64 {
    let (input, weight) = (values(shape.input_len(), 1), values(shape.weight_len(), 2));
    // Large enough for some sums to be beyond 6 where that matters.
    let scale = if activation == Activation::Relu6 { 8.0 } else { 1.0 };
    let bias: Vec<f32> = values(shape.to, 3).iter().map(|x| scale * x).collect();
    let added = values(shape.output_len(), 4);
    let plane = shape.out_height() * shape.out_width();
    let stride = shape.to + gap;
    let spread = |maps: &[f32]| -> Vec<f32> {
        let pixels = channels_last(maps, shape.to, plane);
        pixels.chunks(shape.to).flat_map(|pixel| pixel.iter().copied().chain((0..gap).map(|_| 7.0))).collect()
    };
    let mut out = spread(&vec![f32::NAN; shape.output_len()]);
    let add = with_add.then(|| spread(&added));
    let conv = PackedConv::with_products(*shape, &weight, &bias, activation, products);
    let input_pixels = channels_last(&input, shape.from, shape.height * shape.width);
    conv.run(&input_pixels, add.as_deref(), &mut out, stride);
    let mut expected = reference::conv_forward(shape, &input, &weight);
    for (i, value) in expected.iter_mut().enumerate() {
        let add = if with_add { added[i] } else { 0.0 };
        *value += f64::from(bias[i / plane % shape.to]) + f64::from(add);
    }
    let largest = largest(&expected);
    let expected: Vec<f32> =
        expected.iter().map(|&value| reference::activate(activation, value) as f32).collect();
    let expected: Vec<f64> = spread(&expected).into_iter().map(f64::from).collect();
    let onto = add.filter(|_| conv.runs_onto()).map(|mut onto| {
        conv.run_onto(&input_pixels, &mut onto, stride);
        onto
    });
    let outs = || std::iter::once(&out).chain(&onto);
    let worst = outs().map(|out| difference(out, &expected)).fold(0.0, f64::max);
    for pixel in outs().flat_map(|out| out.chunks(stride)) {
        assert!(pixel[shape.to..].iter().all(|&value| value == 7.0), "a neighbour was written");
    }
    worst / largest.max(1e-30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_packed_convolution_is_the_reference_one(
        shape in shapes(),
        with_add in any::<bool>(),
        activation in activations(),
        gap in prop_oneof![Just(0usize), 1usize..20],
    ) {
        let error = packed_error(&shape, with_add, activation, gap);
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
        max_pool([height, width, channels], MaxPool::three(stride), &input, &mut out);
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
    let shapes = [
        same(1030, 20, 13, 3, 1),
        same(20, 1030, 12, 3, 1),
        same(520, 24, 11, 3, 2),
        same(24, 520, 6, 3, 1),
        same(1200, 20, 11, 1, 1),
        ConvShape { groups: 1030, ..same(1030, 1030, 15, 5, 1) },
    ];
    for shape in shapes {
        for (direction, error) in ["forward", "input", "weight"].iter().zip(errors(&shape)) {
            assert!(error <= TOLERANCE, "{direction} is off by {error:e} at {shape:?}");
        }
        let error = packed_error(&shape, true, Activation::None, 3);
        assert!(error <= TOLERANCE, "packed is off by {error:e} at {shape:?}");
    }
}

#[test]
fn paths_that_this_machine_does_not_take_are_the_reference_too() {
    let shape = |from, to, side, kernel, stride, dilation| ConvShape {
        batch: 2,
        width: side + 1,
        stride,
        ..same(from, to, side, kernel, dilation)
    };
    let depthwise = |side, kernel, stride, dilation| ConvShape {
        groups: 35,
        padding_after: dilation * (kernel - 1) / 2 + 1,
        ..shape(35, 35, side, kernel, stride, dilation)
    };
    let shapes = [
        shape(20, 33, 7, 1, 1, 1),
        shape(20, 33, 13, 3, 1, 1),
        shape(17, 16, 14, 3, 1, 4),
        shape(18, 17, 5, 3, 1, 4),
        shape(3, 24, 15, 7, 2, 1),
        ConvShape { padding: 0, ..shape(3, 32, 16, 3, 2, 1) },
        depthwise(14, 3, 1, 1),
        depthwise(14, 3, 2, 1),
        depthwise(14, 5, 1, 1),
        depthwise(14, 5, 2, 1),
        depthwise(14, 3, 1, 3),
        depthwise(14, 5, 2, 2),
        depthwise(14, 7, 1, 1),
    ];
    for path in [Path::Portable, Path::Wide, Path::Avx2] {
        for shape in &shapes {
            let (packed, others) =
                with(path, || (packed_error(shape, true, Activation::Relu6, 1), errors(shape)));
            assert!(packed <= TOLERANCE, "packed is off by {packed:e} at {shape:?}, {path:?}");
            for (direction, error) in ["forward", "input", "weight"].iter().zip(others) {
                assert!(error <= TOLERANCE, "{direction} is off by {error:e} at {shape:?}, {path:?}");
            }
        }
    }
}

/// What a packed product gives, in single precision and with rounded numbers, and the largest magnitude of the first.
fn single_and_rounded(
    shape: &ConvShape,
    scale: f32,
    round: bool,
    products: Products,
) -> (Vec<f32>, Vec<f32>, f32) {
    let values = |len, seed| -> Vec<f32> {
        let values = values(len, seed);
        if round { values.iter().map(|x| (scale * x).round()).collect() } else { values }
    };
    let (input, weight) = (values(shape.input_len(), 1), values(shape.weight_len(), 2));
    let (bias, added) = (values(shape.to, 3), values(shape.output_len(), 4));
    let run = |products| {
        let conv = PackedConv::with_products(*shape, &weight, &bias, Activation::Relu, products);
        let mut out = vec![f32::NAN; shape.output_len()];
        conv.run(&input, Some(&added), &mut out, shape.to);
        out
    };
    let single = run(Products::Plain);
    let largest = single.iter().fold(0.0, |a: f32, b| a.max(b.abs()));
    (single, run(products), largest)
}

#[test]
fn rounded_products_are_exact_for_whole_numbers_and_near_for_others() {
    // Odd and even depths, beyond one block of depth too; rows and columns that fill no tile.
    let shapes = [
        (1, 5, 3),
        (2, 16, 4),
        (20, 33, 7),
        (31, 40, 9),
        (96, 24, 12),
        (320, 50, 5),
        (1151, 130, 6),
        (2050, 17, 3),
    ]
    .map(|(from, to, side)| ConvShape { batch: 1, width: side + 2, ..same(from, to, side, 1, 1) });
    let check = || {
        for (shape, products) in shapes.iter().flat_map(|shape| ROUNDED.map(|products| (shape, products))) {
            let (single, rounded, _) = single_and_rounded(shape, 16.0, true, products);
            assert_eq!(single, rounded, "whole numbers, {shape:?}, {products:?}");
            let (single, rounded, largest) = single_and_rounded(shape, 1.0, false, products);
            let worst = single.iter().zip(&rounded).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= 0.01 * largest, "off by {worst} of {largest}, {shape:?}, {products:?}");
            assert!(single != rounded, "nothing was rounded, {shape:?}, {products:?}");
        }
    };
    for path in [Path::Portable, Path::Wide, Path::Avx2] {
        with(path, check);
    }
    let _turn = TURN.lock();
    check();
}

#[test]
fn windows_by_tiles_are_exact_for_whole_numbers_and_near_for_others() {
    // Dilations, strides, batches, zeros on one side only, and more steps than are summed at a time.
    let shapes = [
        same(64, 40, 19, 3, 2),
        same(1056, 24, 9, 3, 1),
        ConvShape { batch: 2, width: 33, stride: 2, ..same(96, 40, 21, 3, 1) },
        ConvShape { padding: 0, padding_after: 3, ..same(32, 17, 20, 5, 1) },
    ];
    let whole = |len, seed| values(len, seed).iter().map(|x| (8.0 * x).round()).collect();
    let check = || {
        for shape in &shapes {
            let error = |values| packed_error_of(shape, true, Activation::Relu, 3, Products::Tiles, values);
            assert_eq!(error(whole), 0.0, "whole numbers, {shape:?}");
            let error = error(values);
            assert!((1e-6..0.01).contains(&error), "off by {error:e}, {shape:?}");
        }
    };
    with(Path::Portable, check);
    let _turn = TURN.lock();
    check();
}

/// Widths, kernels, strides, dilations and zeros of an inverted residual block.
fn joined_shapes() -> impl Iterator<Item = [ConvShape; 3]> {
    let cases = [
        [3, 1, 1, 1, 1],
        [3, 2, 1, 0, 1],
        [5, 1, 1, 2, 2],
        [5, 2, 1, 1, 2],
        [3, 1, 2, 2, 2],
        [3, 2, 1, 1, 1],
    ];
    cases.into_iter().map(|[kernel, stride, dilation, padding, padding_after]| {
        let widen = ConvShape { width: 161, ..same(13, 48, 210, 1, 1) };
        let depthwise =
            ConvShape { from: 48, kernel, stride, dilation, padding, padding_after, groups: 48, ..widen };
        let (height, width) = (depthwise.out_height(), depthwise.out_width());
        [widen, depthwise, ConvShape { height, width, ..same(48, 13, 0, 1, 1) }]
    })
}

#[test]
fn layers_that_are_joined_are_what_they_are_apart() {
    let _turn = TURN.lock();
    for [widen, depthwise, narrow] in joined_shapes() {
        for products in [Products::Plain, Products::Pairs, Products::Tiles] {
            let conv = |shape: ConvShape, activation, seed| {
                let (weight, bias) = (values(shape.weight_len(), seed), values(shape.to, seed + 1));
                PackedConv::with_products(shape, &weight, &bias, activation, products)
            };
            joined_is_apart(&[
                conv(widen, Activation::Relu6, 1),
                conv(depthwise, Activation::Relu6, 3),
                conv(narrow, Activation::None, 5),
            ]);
        }
    }
}

fn joined_is_apart(layers: &[PackedConv; 3]) {
    let narrow = layers[2].shape();
    let run = |layers: &[PackedConv], input: &[f32], add: Option<&[f32]>| {
        layers.iter().enumerate().fold(input.to_vec(), |map, (index, conv)| {
            let mut out = vec![f32::NAN; conv.shape().output_len()];
            let add = if index + 1 == layers.len() { add } else { None };
            conv.run(&map, add, &mut out, conv.shape().to);
            out
        })
    };
    let added = values(narrow.output_len(), 7);
    for (first, add) in [(0, None), (0, Some(&added[..])), (1, None)] {
        let input = values(layers[first].shape().input_len(), 8);
        let apart = run(&layers[first..], &input, add);
        let joined = JoinedConvs::new((first == 0).then_some(&layers[0]), &layers[1], &layers[2]);
        let mut out = vec![f32::NAN; narrow.output_len()];
        joined.expect("the map is large").run(&input, add, &mut out);
        assert_eq!(out, apart, "{:?}", layers[1].shape());
    }
}

#[test]
fn layers_of_small_maps_stay_apart() {
    let depthwise = ConvShape { groups: 48, ..same(48, 48, 20, 3, 1) };
    let conv = |shape: ConvShape| {
        PackedConv::new(shape, &values(shape.weight_len(), 1), &values(shape.to, 2), Activation::Relu)
    };
    assert!(JoinedConvs::new(None, &conv(depthwise), &conv(same(48, 8, 20, 1, 1))).is_none());
}

#[test]
fn a_peak_is_above_nothing_and_below_everything() {
    let peak = peak_flops(1);
    assert!((1e8..1e13).contains(&peak), "{peak:e}");
}

fn packed(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; shape.output_len()];
    let conv = PackedConv::new(*shape, weight, &vec![0.0; shape.to], Activation::None);
    conv.run(input, None, &mut out, shape.to);
    out
}

#[test]
#[should_panic(expected = "no kernel for the groups")]
fn groups_without_a_kernel_are_refused() {
    let shape = ConvShape { groups: 2, ..same(4, 4, 5, 3, 1) };
    assert!(!shape.is_supported());
    conv_forward(&shape, &values(shape.input_len(), 1), &values(shape.weight_len(), 2));
}

#[test]
fn the_same_input_gives_the_same_bits() {
    let _turn = TURN.lock();
    let shape = ConvShape { batch: 3, width: 19, ..same(48, 40, 21, 3, 2) };
    let strided = ConvShape { stride: 2, ..shape };
    let pointwise = ConvShape { batch: 3, ..same(48, 40, 21, 1, 1) };
    let depthwise = ConvShape { batch: 3, groups: 48, ..same(48, 48, 21, 5, 1) };
    for shape in [shape, strided, pointwise, depthwise] {
        let input = values(shape.input_len(), 1);
        let weight = values(shape.weight_len(), 2);
        let grad = values(shape.output_len(), 3);
        let run = || {
            (
                conv_forward(&shape, &input, &weight),
                conv_input_grad(&shape, &grad, &weight),
                conv_weight_grad(&shape, &input, &grad),
                packed(&shape, &input, &weight),
            )
        };
        let first = run();
        assert!((0..5).all(|_| run() == first), "{shape:?}");
    }
}

#[test]
fn the_busiest_thread_has_what_cannot_be_divided_further() {
    // 9 pixels for 4 threads: one has 3 of them.
    let product = empty(same(16, 16, 3, 1, 1));
    assert_eq!(
        [1, 4, 9, 100].map(|threads| product.busiest(threads)),
        [1.0, 3.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0]
    );
    // 10 x 10 tiles of 2 x 2 outputs.
    let winograd = empty(same(32, 32, 20, 3, 1));
    assert_eq!(winograd.kernel(), "winograd 2");
    assert_eq!([1, 5, 64].map(|threads| winograd.busiest(threads)), [1.0, 20.0 / 100.0, 2.0 / 100.0]);
}

#[test]
fn wide_dilations_are_never_computed_where_taps_lie_beside_the_map() {
    let conv = |channels, side, dilation| empty(same(channels, channels, side, 3, dilation));
    for side in 20..52 {
        for dilation in 2 * side / 3..side {
            let conv = conv(16, side, dilation);
            // A tap beside the middle reaches `side - dilation` of the rows or columns.
            let taps = (side + 2 * (side - dilation)).pow(2);
            assert!(conv.kernel().starts_with("winograd"), "{side} {dilation}: {}", conv.kernel());
            assert!(conv.computed_macs() <= (16 * 16 * taps) as u64, "{side} {dilation}");
        }
    }
    assert_eq!(conv(8, 31, 24).kernel(), "taps");
    assert_eq!(conv(8, 31, 2).kernel(), "windows");
}
