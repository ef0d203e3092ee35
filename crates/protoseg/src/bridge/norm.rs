//! Batch normalisation in training, with the shortcut and the ReLU behind it.

use burn::{
    backend::{
        Autodiff, AutodiffBackend, Backend, Dispatch, Flex, TensorMetadata,
        autodiff::{
            NodeId,
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind},
        },
        backend_extension,
        tensor::FloatTensor,
    },
    tensor::{DType, Tensor, activation::relu, module},
};
use protoseg_kernels::{NormGrads, NormShape, norm_apply, norm_backward, norm_forward};

use super::{is_cpu, tensor, values};

/// What happens to the normalised values.
#[allow(clippy::large_enum_variant)] // one a call, never stored
pub(crate) enum Then {
    Nothing,
    Relu,
    /// A shortcut is added, then ReLU.
    AddRelu(Tensor<4>),
}

/// `[batch, channels, h, w]` normalised by its own statistics, and those: mean and biased variance.
pub(crate) fn norm_train(
    input: Tensor<4>,
    weight: Tensor<1>,
    bias: Tensor<1>,
    epsilon: f64,
    then: Then,
) -> (Tensor<4>, Tensor<1>, Tensor<1>) {
    if !is_cpu(&input.device()) || input.dtype() != DType::F32 {
        let module::BatchNormTrainOutput { output, mean, variance } =
            module::batch_norm_train(input, weight, bias, epsilon);
        let output = match then {
            Then::Nothing => output,
            Then::Relu => relu(output),
            Then::AddRelu(shortcut) => relu(output + shortcut),
        };
        return (output, mean, variance);
    }
    let (input, weight, bias) = (input.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    let (output, mean, variance) = match then {
        Then::Nothing => <Dispatch as NormKernels>::normalise(input, weight, bias, epsilon, false),
        Then::Relu => <Dispatch as NormKernels>::normalise(input, weight, bias, epsilon, true),
        Then::AddRelu(shortcut) => {
            <Dispatch as NormKernels>::normalise_add(input, weight, bias, shortcut.into_dispatch(), epsilon)
        }
    };
    (Tensor::from_dispatch(output), Tensor::from_dispatch(mean), Tensor::from_dispatch(variance))
}

/// `[batch, channels, h, w]` normalised by statistics that are known.
pub(crate) fn norm_eval(
    input: Tensor<4>,
    [weight, bias, mean, variance]: [Tensor<1>; 4],
    epsilon: f64,
    then: Then,
) -> Tensor<4> {
    let device = input.device();
    if device.is_autodiff() || !is_cpu(&device) || input.dtype() != DType::F32 {
        let output = module::batch_norm(input, weight, bias, mean, variance, epsilon);
        return match then {
            Then::Nothing => output,
            Then::Relu => relu(output),
            Then::AddRelu(shortcut) => relu(output + shortcut),
        };
    }
    let data =
        |tensor: Tensor<1>| tensor.try_into_vec_as::<f32>().expect("parameters are of single precision");
    let [weight, bias, mean, variance] = [weight, bias, mean, variance].map(data);
    let (shortcut, relu) = match then {
        Then::Nothing => (None, false),
        Then::Relu => (None, true),
        Then::AddRelu(shortcut) => (Some(shortcut.into_dispatch()), true),
    };
    let known = Known { weight, bias, mean, variance, epsilon, relu };
    let output = match shortcut {
        None => <Dispatch as EvalKernels>::apply(input.into_dispatch(), known),
        Some(shortcut) => <Dispatch as EvalKernels>::apply_add(input.into_dispatch(), shortcut, known),
    };
    Tensor::from_dispatch(output)
}

/// What a layer outside training is, besides its maps.
#[derive(Clone, Debug)]
struct Known {
    weight: Vec<f32>,
    bias: Vec<f32>,
    mean: Vec<f32>,
    variance: Vec<f32>,
    epsilon: f64,
    relu: bool,
}

#[backend_extension(Flex)]
trait EvalKernels: Backend {
    fn apply(input: FloatTensor<Self>, known: Known) -> FloatTensor<Self>;

    fn apply_add(input: FloatTensor<Self>, shortcut: FloatTensor<Self>, known: Known) -> FloatTensor<Self>;
}

impl EvalKernels for Flex {
    fn apply(input: FloatTensor<Self>, known: Known) -> FloatTensor<Self> {
        apply(input, None, &known)
    }

    fn apply_add(input: FloatTensor<Self>, shortcut: FloatTensor<Self>, known: Known) -> FloatTensor<Self> {
        apply(input, Some(&shortcut.to_contiguous()), &known)
    }
}

/// In place where nobody else holds the maps, as behind a convolution.
fn apply(input: FloatTensor<Flex>, shortcut: Option<&FloatTensor<Flex>>, known: &Known) -> FloatTensor<Flex> {
    let dims: [usize; 4] = input.shape().dims();
    let Known { weight, bias, mean, variance, epsilon, relu } = known;
    let shape = norm_shape(dims, *epsilon);
    let shortcut = shortcut.map(values);
    let is_whole = input.is_contiguous() && input.storage::<f32>().len() == dims.iter().product::<usize>();
    let mut maps = if is_whole { input } else { tensor(values(&input.to_contiguous()).to_vec(), dims) };
    norm_apply(&shape, maps.storage_mut::<f32>(), weight, bias, mean, variance, shortcut, *relu);
    maps
}

/// Output, mean and variance.
type Outputs<B> = (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>);

#[backend_extension(Flex, Autodiff)]
trait NormKernels: Backend {
    fn normalise(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
        relu: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    fn normalise_add(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

impl NormKernels for Flex {
    fn normalise(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
        relu: bool,
    ) -> Outputs<Self> {
        forward(input, weight, bias, None, epsilon, relu)
    }

    fn normalise_add(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        epsilon: f64,
    ) -> Outputs<Self> {
        forward(input, weight, bias, Some(shortcut), epsilon, true)
    }
}

impl<C: CheckpointStrategy> NormKernels for Autodiff<Flex, C> {
    fn normalise(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
        relu: bool,
    ) -> Outputs<Self> {
        let nodes = [input.node(), weight.node(), bias.node()];
        let prep = Normalisation.prepare::<C>(nodes).compute_bound().stateful();
        let (output, mean, variance) = match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = [prep.checkpoint(&input), prep.checkpoint(&weight)];
                let (output, mean, variance) = Flex::normalise(
                    input.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                    epsilon,
                    relu,
                );
                let rectified = relu.then(|| output.clone());
                let state =
                    NormState { saved, rectified, mean: mean.clone(), variance: variance.clone(), epsilon };
                (prep.finish(state, output), mean, variance)
            }
            OpsKind::UnTracked(prep) => {
                let (output, mean, variance) = Flex::normalise(
                    input.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                    epsilon,
                    relu,
                );
                (prep.finish(output), mean, variance)
            }
        };
        (output, Self::from_inner(mean), Self::from_inner(variance))
    }

    fn normalise_add(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        epsilon: f64,
    ) -> Outputs<Self> {
        let nodes = [input.node(), weight.node(), bias.node(), shortcut.node()];
        let prep = Normalisation.prepare::<C>(nodes).compute_bound().stateful();
        let (output, mean, variance) = match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = [prep.checkpoint(&input), prep.checkpoint(&weight)];
                let (output, mean, variance) = Flex::normalise_add(
                    input.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                    shortcut.into_primitive(),
                    epsilon,
                );
                let rectified = Some(output.clone());
                let state =
                    NormState { saved, rectified, mean: mean.clone(), variance: variance.clone(), epsilon };
                (prep.finish(state, output), mean, variance)
            }
            OpsKind::UnTracked(prep) => {
                let (output, mean, variance) = Flex::normalise_add(
                    input.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                    shortcut.into_primitive(),
                    epsilon,
                );
                (prep.finish(output), mean, variance)
            }
        };
        (output, Self::from_inner(mean), Self::from_inner(variance))
    }
}

#[derive(Debug)]
struct Normalisation;

/// What the gradients need. The output behind a ReLU is the next convolution's input, so keeping it costs nothing.
#[derive(Clone, Debug)]
struct NormState {
    /// Input and weight.
    saved: [NodeId; 2],
    rectified: Option<FloatTensor<Flex>>,
    mean: FloatTensor<Flex>,
    variance: FloatTensor<Flex>,
    epsilon: f64,
}

impl Backward<Flex, 3> for Normalisation {
    type State = NormState;

    fn backward(self, ops: Ops<NormState, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let shape: [usize; 4] = grad.shape().dims();
        let NormGrads { input, weight, bias, .. } = backward(ops.state, grad, checkpointer, false);
        let channels = [shape[1]];
        let [input_node, weight_node, bias_node] = ops.parents;
        if let Some(node) = input_node {
            grads.register::<Flex>(node.id, tensor(input, shape));
        }
        for (node, grad) in [(weight_node, weight), (bias_node, bias)] {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, tensor(grad, channels));
            }
        }
    }
}

impl Backward<Flex, 4> for Normalisation {
    type State = NormState;

    fn backward(self, ops: Ops<NormState, 4>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let shape: [usize; 4] = grad.shape().dims();
        let [input_node, weight_node, bias_node, shortcut_node] = ops.parents;
        let NormGrads { input, weight, bias, shortcut } =
            backward(ops.state, grad, checkpointer, shortcut_node.is_some());
        let channels = [shape[1]];
        for (node, grad) in [(input_node, input), (shortcut_node, shortcut)] {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, tensor(grad, shape));
            }
        }
        for (node, grad) in [(weight_node, weight), (bias_node, bias)] {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, tensor(grad, channels));
            }
        }
    }
}

fn forward(
    input: FloatTensor<Flex>,
    weight: FloatTensor<Flex>,
    bias: FloatTensor<Flex>,
    shortcut: Option<FloatTensor<Flex>>,
    epsilon: f64,
    relu: bool,
) -> Outputs<Flex> {
    let (input, weight, bias) = (input.to_contiguous(), weight.to_contiguous(), bias.to_contiguous());
    let shortcut = shortcut.map(|shortcut| shortcut.to_contiguous());
    let dims: [usize; 4] = input.shape().dims();
    let out = norm_forward(
        &norm_shape(dims, epsilon),
        values(&input),
        values(&weight),
        values(&bias),
        shortcut.as_ref().map(values),
        relu,
    );
    (tensor(out.output, dims), tensor(out.mean, [dims[1]]), tensor(out.variance, [dims[1]]))
}

fn backward(
    state: NormState,
    grad: FloatTensor<Flex>,
    checkpointer: &mut Checkpointer,
    with_shortcut: bool,
) -> NormGrads {
    let grad = grad.to_contiguous();
    let [input, weight] =
        state.saved.map(|id| checkpointer.retrieve_node_output::<FloatTensor<Flex>>(id).to_contiguous());
    norm_backward(
        &norm_shape(input.shape().dims(), state.epsilon),
        values(&input),
        values(&weight),
        values(&state.mean),
        values(&state.variance),
        state.rectified.as_ref().map(values),
        values(&grad),
        with_shortcut,
    )
}

fn norm_shape([batch, channels, height, width]: [usize; 4], epsilon: f64) -> NormShape {
    NormShape { batch, channels, plane: height * width, epsilon }
}
