//! Cross-entropy of upsampled scores.

use std::sync::Arc;

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
    tensor::{DType, Int, Tensor, TensorData, activation::log_softmax},
};
use protoseg_core::{IGNORE, RowMap};
use protoseg_kernels::{PixelLossRule, PixelLossShape, UNJUDGED};

use super::{is_cpu, tensor, values};
use crate::nn::upsample;

const _: () = assert!(IGNORE == UNJUDGED);

/// The labels of a batch, to be judged by, several times.
#[derive(Clone, Debug)]
pub(crate) struct PixelTargets {
    /// `[batch, height, width]`
    labels: Arc<Vec<u16>>,
    size: [usize; 2],
    rule: PixelLossRule,
}

impl PixelTargets {
    pub fn new(labels: &[RowMap]) -> Self {
        let size = [labels[0].height, labels[0].width];
        let labels = labels.iter().flat_map(|label| label.data.iter().copied()).collect();
        Self { labels: Arc::new(labels), size, rule: PixelLossRule::default() }
    }

    /// With this share of every pixel's target on the classes that it is not of, evenly.
    pub fn smoothed(mut self, share: f32) -> Self {
        self.rule.smoothing = share;
        self
    }

    /// With pixels of each class counting this much; the mean is over the weights.
    pub fn weighed(mut self, weights: &[f32]) -> Self {
        self.rule.weights = weights.to_vec();
        self
    }
}

/// Mean cross-entropy of `scores` (`[batch, classes, h, w]`), upsampled to the labels' size, over the labelled
/// pixels; zero without any.
pub(crate) fn pixel_loss(scores: Tensor<4>, judged: &PixelTargets) -> Tensor<1> {
    if !is_cpu(&scores.device()) || scores.dtype() != DType::F32 {
        return plain(scores, judged);
    }
    Tensor::from_dispatch(<Dispatch as LossKernels>::judge(scores.into_dispatch(), judged.clone()))
}

/// The same by operations that every device has.
fn plain(scores: Tensor<4>, judged: &PixelTargets) -> Tensor<1> {
    let [batch, classes, ..] = scores.dims();
    let [height, width] = judged.size;
    let (device, shape) = (scores.device(), [batch, 1, height, width]);
    let PixelTargets { labels, rule, .. } = judged;
    let weight = |&label: &u16| match label {
        IGNORE => 0.0,
        label => rule.weights.get(usize::from(label)).copied().unwrap_or(1.0),
    };
    let total = labels.iter().map(weight).sum::<f32>();
    let total = if total > 0.0 { total } else { 1.0 };
    let rows = labels.iter().map(|&label| if label == IGNORE { 0 } else { i64::from(label) }).collect();
    let weights = labels.iter().map(|label| weight(label) / total).collect();
    let rows = Tensor::<4, Int>::from_data(TensorData::new::<i64, _>(rows, shape), &device);
    let weights = Tensor::<4>::from_data(TensorData::new::<f32, _>(weights, shape), &device);
    let logs = log_softmax(upsample(scores, judged.size), 1);
    let own = logs.clone().gather(1, rows);
    let target = if rule.smoothing > 0.0 && classes > 1 {
        let others = rule.smoothing / (classes - 1) as f32;
        own.mul_scalar(1.0 - rule.smoothing - others) + logs.sum_dim(1).mul_scalar(others)
    } else {
        own
    };
    (target * weights).sum().neg()
}

#[backend_extension(Flex, Autodiff)]
trait LossKernels: Backend {
    fn judge(scores: FloatTensor<Self>, judged: PixelTargets) -> FloatTensor<Self>;
}

impl LossKernels for Flex {
    fn judge(scores: FloatTensor<Self>, judged: PixelTargets) -> FloatTensor<Self> {
        run(scores, &judged).0
    }
}

/// The loss, and its gradient in the scores.
fn run(scores: FloatTensor<Flex>, judged: &PixelTargets) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
    let scores = scores.to_contiguous();
    let dims: [usize; 4] = scores.shape().dims();
    let [batch, classes, height, width] = dims;
    let shape = PixelLossShape { batch, classes, grid: [height, width], size: judged.size };
    let out = protoseg_kernels::pixel_loss_by(&shape, values(&scores), &judged.labels, &judged.rule);
    (tensor(vec![out.loss as f32], [1]), tensor(out.grad, dims))
}

impl<C: CheckpointStrategy> LossKernels for Autodiff<Flex, C> {
    fn judge(scores: FloatTensor<Self>, judged: PixelTargets) -> FloatTensor<Self> {
        match Judgement.prepare::<C>([scores.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (loss, grad) = run(scores.into_primitive(), &judged);
                prep.finish(grad, loss)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::judge(scores.into_primitive(), judged)),
        }
    }
}

#[derive(Debug)]
struct Judgement;

impl Backward<Flex, 1> for Judgement {
    /// The gradient for a loss that counts once.
    type State = FloatTensor<Flex>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let factor = values(&grads.consume::<Flex>(&ops.node).to_contiguous())[0];
        if let [Some(node)] = ops.parents {
            let dims: [usize; 4] = ops.state.shape().dims();
            let scaled = values(&ops.state).iter().map(|grad| factor * grad).collect();
            grads.register::<Flex>(node.id, tensor(scaled, dims));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::tensor::Distribution;
    use protoseg_testing::assert_close;

    #[test]
    fn the_kernel_and_plain_operations_agree_forward_and_backward() {
        let device = cpu().autodiff();
        device.seed(3);
        let scores = Tensor::<4>::random([2, 5, 4, 3], Distribution::Normal(0.0, 4.0), &device);
        let label = |seed: usize| {
            let labels = (0..13 * 17).map(|i| match (i * 7 + seed) % 6 {
                5 => IGNORE,
                label => label as u16,
            });
            RowMap::new(13, 17, labels.collect())
        };
        let judged = PixelTargets::new(&[label(0), label(3)]);
        for judged in
            [judged.clone(), judged.clone().smoothed(0.1), judged.weighed(&[1.0, 0.5, 2.0, 1.0, 7.0])]
        {
            let run = |loss: fn(Tensor<4>, &PixelTargets) -> Tensor<1>| {
                let scores = scores.clone().detach().require_grad();
                let loss = loss(scores.clone(), &judged).mul_scalar(0.4);
                let grads = loss.backward();
                (loss.into_scalar::<f32>(), scores.grad(&grads).unwrap())
            };
            let (ours, theirs) = (run(pixel_loss), run(plain));
            assert!((ours.0 - theirs.0).abs() < 1e-5, "{} {}", ours.0, theirs.0);
            let values = |grad: Tensor<4>| grad.try_into_vec_as::<f32>().unwrap();
            assert_close("gradient", &values(ours.1), &values(theirs.1), 1e-6);
        }
    }
}
