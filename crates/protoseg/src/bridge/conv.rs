//! Convolutions.

use super::{is_cpu, tensor, values};
use burn::{
    backend::{
        Autodiff, Backend, Dispatch, Flex, TensorMetadata,
        autodiff::{
            NodeId,
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind},
        },
        backend_extension,
        tensor::FloatTensor,
    },
    nn::{PaddingConfig2d, conv::Conv2d},
    tensor::{DType, Tensor, module, ops::ConvOptions},
};
use protoseg_kernels::{ConvShape, conv_forward, conv_input_grad, conv_weight_grad};

/// What a convolution is besides its tensors; the same along both axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvGeometry {
    pub stride: usize,
    pub dilation: usize,
    pub padding: usize,
}

/// What `conv.forward(input)` gives.
pub(crate) fn conv(conv: &Conv2d, input: Tensor<4>) -> Tensor<4> {
    let PaddingConfig2d::Explicit(padding, ..) = conv.padding else {
        unreachable!("convolutions of this crate are padded explicitly")
    };
    let geometry = ConvGeometry { stride: conv.stride[0], dilation: conv.dilation[0], padding };
    let out = conv2d(input, conv.weight.val(), geometry);
    match &conv.bias {
        Some(bias) => out + bias.val().reshape([1, -1, 1, 1]),
        None => out,
    }
}

/// `[batch, from, h, w]` convolved with a square `[to, from, k, k]`.
pub(crate) fn conv2d(input: Tensor<4>, weight: Tensor<4>, geometry: ConvGeometry) -> Tensor<4> {
    if !is_cpu(&input.device()) || input.dtype() != DType::F32 {
        let ConvGeometry { stride, dilation, padding } = geometry;
        return module::conv2d(
            input,
            weight,
            None,
            ConvOptions::new([stride; 2], [padding; 2], [dilation; 2], 1),
        );
    }
    let out = <Dispatch as Kernels>::convolve(input.into_dispatch(), weight.into_dispatch(), geometry);
    Tensor::from_dispatch(out)
}

/// Our kernels as operations of a backend.
#[backend_extension(Flex, Autodiff)]
trait Kernels: Backend {
    fn convolve(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self>;
}

impl Kernels for Flex {
    fn convolve(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let (input, weight) = (input.to_contiguous(), weight.to_contiguous());
        let shape = conv_shape(&input, &weight, geometry);
        let out = conv_forward(&shape, values(&input), values(&weight));
        tensor(out, [shape.batch, shape.to, shape.out_height(), shape.out_width()])
    }
}

impl<C: CheckpointStrategy> Kernels for Autodiff<Flex, C> {
    fn convolve(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let (needs_weight, needs_input) = (input.is_tracked(), weight.is_tracked());
        match Convolution.prepare::<C>([input.node(), weight.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let input_dims = input.shape().dims();
                let weight_dims = weight.shape().dims();
                let state = ConvState {
                    input: needs_input.then(|| prep.checkpoint(&input)),
                    weight: needs_weight.then(|| prep.checkpoint(&weight)),
                    shape: shape_of(input_dims, weight_dims, geometry),
                };
                prep.finish(state, Flex::convolve(input.into_primitive(), weight.into_primitive(), geometry))
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(Flex::convolve(input.into_primitive(), weight.into_primitive(), geometry))
            }
        }
    }
}

#[derive(Debug)]
struct Convolution;

/// What the gradients need: the input for the weight's, the weight for the input's.
#[derive(Clone, Debug)]
struct ConvState {
    input: Option<NodeId>,
    weight: Option<NodeId>,
    shape: ConvShape,
}

impl Backward<Flex, 2> for Convolution {
    type State = ConvState;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let [input_node, weight_node] = ops.parents;
        let grad = grads.consume::<Flex>(&ops.node).to_contiguous();
        let ConvState { input, weight, shape } = ops.state;
        let mut saved = |id| checkpointer.retrieve_node_output::<FloatTensor<Flex>>(id).to_contiguous();
        let (input, weight) = (input.map(&mut saved), weight.map(&mut saved));
        if let Some((node, weight)) = input_node.zip(weight) {
            let input_grad = conv_input_grad(&shape, values(&grad), values(&weight));
            grads.register::<Flex>(
                node.id,
                tensor(input_grad, [shape.batch, shape.from, shape.height, shape.width]),
            );
        }
        if let Some((node, input)) = weight_node.zip(input) {
            let weight_grad = conv_weight_grad(&shape, values(&input), values(&grad));
            grads.register::<Flex>(
                node.id,
                tensor(weight_grad, [shape.to, shape.from, shape.kernel, shape.kernel]),
            );
        }
    }
}

fn conv_shape(input: &FloatTensor<Flex>, weight: &FloatTensor<Flex>, geometry: ConvGeometry) -> ConvShape {
    shape_of(input.shape().dims(), weight.shape().dims(), geometry)
}

fn shape_of(
    [batch, from, height, width]: [usize; 4],
    [to, weight_from, kernel, kernel_width]: [usize; 4],
    ConvGeometry { stride, dilation, padding }: ConvGeometry,
) -> ConvShape {
    assert_eq!([from, kernel], [weight_from, kernel_width], "channels and kernel of input and weight");
    ConvShape { batch, from, to, height, width, kernel, stride, dilation, padding }
}
