//! Batch normalisation, with the shortcut and the activation after it.

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
use protoseg_kernels::{Activation, NormGrads, NormShape, norm_apply, norm_backward, norm_forward};

use super::{is_cpu, tensor, values};

/// What happens to the values after a layer: a shortcut is added if there is one, then the activation.
#[derive(Default)]
pub(crate) struct Then {
    pub add: Option<Tensor<4>>,
    pub activation: Activation,
}

impl Then {
    /// By operations of Burn.
    pub fn apply(self, values: Tensor<4>) -> Tensor<4> {
        let values = match self.add {
            Some(shortcut) => values + shortcut,
            None => values,
        };
        activate(values, self.activation)
    }
}

/// The activation by operations of Burn.
pub(crate) fn activate(values: Tensor<4>, activation: Activation) -> Tensor<4> {
    match activation {
        Activation::None => values,
        Activation::Relu => relu(values),
        Activation::Relu6 => values.clamp(0.0, 6.0),
    }
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
        return (then.apply(output), mean, variance);
    }
    let (input, weight, bias) = (input.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    let Then { add, activation } = then;
    let (output, mean, variance) = match add {
        None => <Dispatch as NormKernels>::normalise(input, weight, bias, epsilon, activation),
        Some(add) => {
            let add = add.into_dispatch();
            <Dispatch as NormKernels>::normalise_add(input, weight, bias, add, epsilon, activation)
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
        return then.apply(output);
    }
    let data =
        |tensor: Tensor<1>| tensor.try_into_vec_as::<f32>().expect("parameters are of single precision");
    let [weight, bias, mean, variance] = [weight, bias, mean, variance].map(data);
    let Then { add, activation } = then;
    let known = Known { weight, bias, mean, variance, epsilon, activation };
    let output = match add {
        None => <Dispatch as EvalKernels>::apply(input.into_dispatch(), known),
        Some(add) => <Dispatch as EvalKernels>::apply_add(input.into_dispatch(), add.into_dispatch(), known),
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
    activation: Activation,
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
    let Known { weight, bias, mean, variance, epsilon, activation } = known;
    let shape = norm_shape(dims, *epsilon);
    let shortcut = shortcut.map(values);
    let is_whole = input.is_contiguous() && input.storage::<f32>().len() == dims.iter().product::<usize>();
    let mut maps = if is_whole { input } else { tensor(values(&input.to_contiguous()).to_vec(), dims) };
    norm_apply(&shape, maps.storage_mut::<f32>(), weight, bias, mean, variance, shortcut, *activation);
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
        activation: Activation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    fn normalise_add(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        epsilon: f64,
        activation: Activation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

impl NormKernels for Flex {
    fn normalise(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
        activation: Activation,
    ) -> Outputs<Self> {
        forward(input, weight, bias, None, epsilon, activation)
    }

    fn normalise_add(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        epsilon: f64,
        activation: Activation,
    ) -> Outputs<Self> {
        forward(input, weight, bias, Some(shortcut), epsilon, activation)
    }
}

impl<C: CheckpointStrategy> NormKernels for Autodiff<Flex, C> {
    fn normalise(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
        activation: Activation,
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
                    activation,
                );
                let state = NormState::new(saved, activation, &output, &mean, &variance, epsilon);
                (prep.finish(state, output), mean, variance)
            }
            OpsKind::UnTracked(prep) => {
                let (output, mean, variance) = Flex::normalise(
                    input.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                    epsilon,
                    activation,
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
        activation: Activation,
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
                    activation,
                );
                let state = NormState::new(saved, activation, &output, &mean, &variance, epsilon);
                (prep.finish(state, output), mean, variance)
            }
            OpsKind::UnTracked(prep) => {
                let (output, mean, variance) = Flex::normalise_add(
                    input.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                    shortcut.into_primitive(),
                    epsilon,
                    activation,
                );
                (prep.finish(output), mean, variance)
            }
        };
        (output, Self::from_inner(mean), Self::from_inner(variance))
    }
}

#[derive(Debug)]
struct Normalisation;

/// What the gradients need. The output of an activation is the next convolution's input, so keeping it costs nothing.
#[derive(Clone, Debug)]
struct NormState {
    /// Input and weight.
    saved: [NodeId; 2],
    activation: Activation,
    /// Of an activation.
    output: Option<FloatTensor<Flex>>,
    mean: FloatTensor<Flex>,
    variance: FloatTensor<Flex>,
    epsilon: f64,
}

impl NormState {
    fn new(
        saved: [NodeId; 2],
        activation: Activation,
        output: &FloatTensor<Flex>,
        mean: &FloatTensor<Flex>,
        variance: &FloatTensor<Flex>,
        epsilon: f64,
    ) -> Self {
        let output = (activation != Activation::None).then(|| output.clone());
        Self { saved, activation, output, mean: mean.clone(), variance: variance.clone(), epsilon }
    }
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
    activation: Activation,
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
        activation,
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
        state.activation,
        state.output.as_ref().map(values),
        values(&grad),
        with_shortcut,
    )
}

fn norm_shape([batch, channels, height, width]: [usize; 4], epsilon: f64) -> NormShape {
    NormShape { batch, channels, plane: height * width, epsilon }
}
