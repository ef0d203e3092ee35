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
    /// Zeros above and to the left.
    pub padding: usize,
    /// Zeros below and to the right.
    pub padding_after: usize,
    pub groups: usize,
}

impl ConvGeometry {
    pub const fn pointwise() -> Self {
        Self { stride: 1, dilation: 1, padding: 0, padding_after: 0, groups: 1 }
    }

    pub fn of(conv: &Conv2d) -> Self {
        let PaddingConfig2d::Explicit(padding, _, padding_after, _) = conv.padding else {
            unreachable!("convolutions of this crate are padded explicitly")
        };
        let (stride, dilation) = (conv.stride[0], conv.dilation[0]);
        Self { stride, dilation, padding, padding_after, groups: conv.groups }
    }

    /// The convolution of `[batch, from, height, width]` to `to` channels.
    pub fn shape(self, [batch, from, height, width]: [usize; 4], to: usize, kernel: usize) -> ConvShape {
        let Self { stride, dilation, padding, padding_after, groups } = self;
        ConvShape { batch, from, to, height, width, kernel, stride, dilation, padding, padding_after, groups }
    }
}

/// What `conv.forward(input)` gives.
pub(crate) fn conv(conv: &Conv2d, input: Tensor<4>) -> Tensor<4> {
    let out = conv2d(input, conv.weight.val(), ConvGeometry::of(conv));
    match &conv.bias {
        Some(bias) => out + bias.val().reshape([1, -1, 1, 1]),
        None => out,
    }
}

/// `[batch, from, h, w]` convolved with a square `[to, from / groups, k, k]`.
pub(crate) fn conv2d(input: Tensor<4>, weight: Tensor<4>, geometry: ConvGeometry) -> Tensor<4> {
    if !is_cpu(&input.device()) || input.dtype() != DType::F32 {
        let ConvGeometry { stride, dilation, padding, padding_after, groups } = geometry;
        let padding = [(padding, padding_after); 2];
        let options = ConvOptions::new_with_padding([stride; 2], padding, [dilation; 2], groups);
        return module::conv2d(input, weight, None, options);
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
                tensor(weight_grad, [shape.to, shape.from / shape.groups, shape.kernel, shape.kernel]),
            );
        }
    }
}

fn conv_shape(input: &FloatTensor<Flex>, weight: &FloatTensor<Flex>, geometry: ConvGeometry) -> ConvShape {
    shape_of(input.shape().dims(), weight.shape().dims(), geometry)
}

fn shape_of(
    input: [usize; 4],
    [to, weight_from, kernel, kernel_width]: [usize; 4],
    geometry: ConvGeometry,
) -> ConvShape {
    let from = weight_from * geometry.groups;
    assert_eq!([input[1], kernel], [from, kernel_width], "channels and kernel of input and weight");
    geometry.shape(input, to, kernel)
}
