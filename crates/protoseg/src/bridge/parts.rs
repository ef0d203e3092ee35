//! Parts of a weight's input channels, whose gradients are joined once. Burn's own slices would each give a gradient of the
//! whole weight, most of it zeros, and add them up.

use std::sync::{Arc, Mutex, PoisonError};

use burn::{
    backend::{
        Autodiff, Backend, Dispatch, Flex, TensorMetadata,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind},
        },
        backend_extension,
        tensor::FloatTensor,
    },
    tensor::{DType, Tensor},
};
use rayon::prelude::*;

use super::{is_cpu, tensor, values};

/// `[to, from, k, k]` cut into parts of so many input channels each. All parts or none must go into what is differentiated:
/// with some of them, the weight gets no gradient.
pub(crate) fn channel_parts(weight: &Tensor<4>, channels: &[usize]) -> Vec<Tensor<4>> {
    let starts = channels.iter().scan(0, |end, channels| {
        *end += channels;
        Some(*end - channels)
    });
    if !is_cpu(&weight.device()) || weight.dtype() != DType::F32 {
        let part = |(start, channels): (usize, &usize)| weight.clone().slice_dim(1, start..start + channels);
        return starts.zip(channels).map(part).collect();
    }
    assert_eq!(weight.dims()[1], channels.iter().sum::<usize>(), "parts are the whole");
    let gradients = Arc::new(Mutex::new(vec![None; channels.len()]));
    let part = |(index, (start, &channels))| {
        let part = Part { index, start, channels, gradients: Arc::clone(&gradients) };
        Tensor::from_dispatch(<Dispatch as Parts>::part(weight.clone().into_dispatch(), part))
    };
    starts.zip(channels).enumerate().map(part).collect()
}

/// One of the parts.
#[derive(Clone, Debug)]
struct Part {
    index: usize,
    start: usize,
    channels: usize,
    /// Of every part, as far as they are known.
    gradients: Arc<Mutex<Vec<Option<FloatTensor<Flex>>>>>,
}

#[backend_extension(Flex, Autodiff)]
trait Parts: Backend {
    fn part(weight: FloatTensor<Self>, part: Part) -> FloatTensor<Self>;
}

impl Parts for Flex {
    fn part(weight: FloatTensor<Self>, part: Part) -> FloatTensor<Self> {
        let weight = weight.to_contiguous();
        let [to, from, height, width] = weight.shape().dims();
        let Part { start, channels, .. } = part;
        let taps = height * width;
        let mut own = vec![0.0; to * channels * taps];
        own.par_chunks_mut(channels * taps).zip(values(&weight).par_chunks(from * taps)).for_each(
            |(own, row)| {
                own.copy_from_slice(&row[start * taps..][..channels * taps]);
            },
        );
        tensor(own, [to, channels, height, width])
    }
}

impl<C: CheckpointStrategy> Parts for Autodiff<Flex, C> {
    fn part(weight: FloatTensor<Self>, part: Part) -> FloatTensor<Self> {
        match Joining.prepare::<C>([weight.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(part.clone(), Flex::part(weight.into_primitive(), part)),
            OpsKind::UnTracked(prep) => prep.finish(Flex::part(weight.into_primitive(), part)),
        }
    }
}

#[derive(Debug)]
struct Joining;

impl Backward<Flex, 1> for Joining {
    type State = Part;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [weight] = ops.parents;
        let Part { index, gradients, .. } = ops.state;
        let mut gradients = gradients.lock().unwrap_or_else(PoisonError::into_inner);
        gradients[index] = Some(grads.consume::<Flex>(&ops.node).to_contiguous());
        if gradients.iter().any(Option::is_none) {
            return;
        }
        let parts: Vec<FloatTensor<Flex>> = gradients.iter_mut().filter_map(Option::take).collect();
        if let Some(weight) = weight {
            grads.register::<Flex>(weight.id, joined(&parts));
        }
    }
}

/// Parts side by side.
fn joined(parts: &[FloatTensor<Flex>]) -> FloatTensor<Flex> {
    let shapes: Vec<[usize; 4]> = parts.iter().map(|part| part.shape().dims()).collect();
    let [to, _, height, width] = shapes[0];
    let all = shapes.iter().map(|[_, channels, ..]| channels).sum();
    let mut whole = vec![0.0; to * all * height * width];
    whole.par_chunks_mut(all * height * width).enumerate().for_each(|(row, whole)| {
        let mut rest = whole;
        for (part, [_, channels, ..]) in parts.iter().zip(&shapes) {
            let (own, others) = rest.split_at_mut(channels * height * width);
            own.copy_from_slice(&values(part)[row * own.len()..][..own.len()]);
            rest = others;
        }
    });
    tensor(whole, [to, all, height, width])
}
