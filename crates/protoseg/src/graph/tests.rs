//! What is computed in one go is what the nodes say one by one.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Distribution, Tensor},
};
use protoseg_kernels::Activation;

use super::{
    Graph, Node, Op,
    fuse::{Layer, Step, Work, fuse},
};
use crate::{
    decoder::{Decoder, DecoderKind, DecoderShape, Ppm},
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    nn::{BatchNorm, Conv, ConvNorm},
};

/// Every node a step of its own.
fn single_steps<'a>(graph: &Graph<'a>, outputs: &[Node]) -> Vec<Step<'a>> {
    let needed = graph.needed(outputs);
    let step = |node: Node| {
        let entry = graph.entry(node);
        let work = Work::Single(entry.op, entry.inputs.clone());
        Step { name: entry.name.clone(), work, output: node }
    };
    graph.ids().filter(|&node| needed[node]).map(step).collect()
}

fn noise(shape: [usize; 4]) -> Tensor<4> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &cpu().autodiff())
}

/// Largest difference between computing step by step and node by node: output, gradient of the input, and gradients of
/// some weights.
fn differences(graph: &Graph, output: Node, input: [usize; 4], weights: &[&Conv2d]) -> Vec<f32> {
    let input = noise(input);
    let target = noise(graph.run_to(input.clone(), output).dims());
    let run = |steps: Vec<Step>| {
        let x = input.clone().detach().require_grad();
        let y = graph.run_steps(&steps, x.clone(), &[output]).remove(0);
        let grads = (y.clone() * target.clone()).sum().backward();
        let weights = weights.iter().map(|conv| conv.weight.val().grad(&grads).unwrap());
        [y.inner(), x.grad(&grads).unwrap()].into_iter().chain(weights).collect::<Vec<_>>()
    };
    let fused = run(fuse(graph, &[output]));
    let plain = run(single_steps(graph, &[output]));
    let worst = |(a, b): (Tensor<4>, Tensor<4>)| (a - b).abs().max().into_scalar::<f32>();
    fused.into_iter().zip(plain).map(worst).collect()
}

fn decoder(kind: DecoderKind) -> Decoder {
    let device = cpu().autodiff();
    device.seed(7);
    kind.init(&DecoderShape { from: 16, dim: 12, dropout: 0.0, output_stride: 8 }, &device)
}

/// The pyramid of a decoder and the 3x3 after it.
fn pyramid(decoder: &Decoder) -> (&Ppm, &Conv2d) {
    match decoder {
        Decoder::PspNet(head) => (&head.ppm, &head.projector.conv.conv),
        Decoder::PspBottleneck(head) => (&head.ppm, &head.bottleneck.conv),
        other => panic!("{other:?} has no pyramid"),
    }
}

#[test]
fn the_pyramid_shortcut_equals_the_plain_form_forward_and_backward() {
    for kind in [DecoderKind::PspNet, DecoderKind::PspBottleneck] {
        let decoder = decoder(kind);
        let (ppm, conv) = pyramid(&decoder);
        let (mut graph, input) = Graph::new();
        let features = decoder.describe(&mut graph, &[input]);
        let shortcut = |step: &Step| matches!(&step.work, Work::Layer(Layer { pyramid: Some(pyramid), .. }) if pyramid.levels.len() == 4);
        assert_eq!(fuse(&graph, &[features]).iter().filter(|step| shortcut(step)).count(), 1);
        for [height, width] in [[13, 13], [6, 9], [2, 7], [20, 3]] {
            let weights = [conv, &ppm.branches[3].conv];
            let worst = differences(&graph, features, [2, 16, height, width], &weights);
            let what = ["output", "input grad", "conv grad", "branch grad"];
            for (what, worst) in what.iter().zip(worst) {
                assert!(worst < 2e-3, "{what} of {kind:?} differs by {worst} at {height} x {width}");
            }
        }
    }
}

#[test]
fn an_atrous_head_is_the_same_in_one_go() {
    let decoder = decoder(DecoderKind::DeepLabV3);
    let Decoder::DeepLabV3(head) = &decoder else { unreachable!() };
    let (mut graph, input) = Graph::new();
    let features = decoder.describe(&mut graph, &[input]);
    let worst = differences(&graph, features, [2, 16, 9, 7], &[&head.aspp.pool.conv, &head.merge.conv]);
    assert!(worst.iter().all(|&worst| worst < 1e-3), "{worst:?}");
}

#[test]
fn a_residual_encoder_is_the_same_in_one_go() {
    let device = cpu().autodiff();
    device.seed(3);
    let config = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    let encoder = config.init(&device);
    // Batch statistics of few values would enlarge every rounding.
    let encoder = encoder.freeze();
    let (mut graph, image) = Graph::new();
    let last = *encoder.describe(&mut graph, image).last().unwrap();
    let worst = differences(&graph, last, [2, 3, 41, 33], &[]);
    assert!(worst.iter().all(|&worst| worst < 1e-3), "{worst:?}");
}

#[test]
fn the_operand_that_comes_last_takes_the_sum_in() {
    let device = cpu();
    let layer = || ConvNorm::new(Conv::new(4, 4, 3), &device);
    let (first, second) = (layer(), layer());
    let (mut graph, x) = Graph::new();
    let a = graph.conv_norm("a", &first, x);
    let b = graph.conv_norm("b", &second, x);
    let sum = graph.add(a, b);
    let out = graph.relu(sum);
    let steps = fuse(&graph, &[out]);
    let [_, Step { work: Work::Layer(early), .. }, Step { work: Work::Layer(late), name, .. }] = &steps[..]
    else {
        panic!("{steps:?}")
    };
    assert_eq!((early.add, early.activation), (None, Activation::None));
    assert_eq!((name.as_str(), late.add, late.activation), ("b", Some(a), Activation::Relu));
}

#[test]
fn a_value_that_somebody_else_needs_is_not_swallowed() {
    let device = cpu();
    let layer = ConvNorm::new(Conv::new(4, 4, 3), &device);
    let (mut graph, x) = Graph::new();
    let normalised = graph.conv_norm("a", &layer, x);
    let out = graph.relu(normalised);
    let last = |outputs: &[Node]| {
        let steps = fuse(&graph, outputs);
        let is_relu = matches!(steps.last().unwrap().work, Work::Single(Op::Activation(_), _));
        (steps.len(), is_relu)
    };
    assert_eq!(last(&[out]), (2, false));
    assert_eq!(last(&[normalised, out]), (3, true));
}

#[test]
fn what_no_output_needs_is_not_computed() {
    let device = cpu();
    let (layer, norm) = (ConvNorm::new(Conv::new(4, 4, 3), &device), BatchNorm::new(4, &device));
    let (mut graph, x) = Graph::new();
    let wanted = graph.conv_norm("wanted", &layer, x);
    graph.norm(&norm, wanted);
    assert_eq!(fuse(&graph, &[wanted]).len(), 2);
}
