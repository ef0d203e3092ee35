//! Our kernels beside Burn's own operations, forward and backward.

use burn::tensor::{
    Distribution, Tensor,
    module::{self, batch_norm_train},
    ops::ConvOptions,
};
use protoseg_kernels::Activation;

use super::{ConvGeometry, Then, activate, conv2d, norm_train};
use crate::device::cpu;

fn noise<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &cpu().autodiff())
}

fn worst<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
    assert_eq!(a.dims(), b.dims());
    let worst = (a - b).abs().max().into_scalar::<f32>();
    assert!(!worst.is_nan());
    worst
}

#[test]
fn depthwise_convolutions_are_burn_s_with_groups() {
    cpu().autodiff().seed(11);
    // Kernel, stride, dilation, zeros before and after.
    for [kernel, stride, dilation, padding, padding_after] in
        [[3, 1, 1, 1, 1], [3, 2, 1, 0, 1], [5, 2, 1, 1, 2], [5, 1, 2, 4, 4], [3, 2, 1, 1, 1]]
    {
        let channels = 20;
        let (input, weight) = (noise([2, channels, 13, 11]), noise([channels, 1, kernel, kernel]));
        let geometry = ConvGeometry { stride, dilation, padding, padding_after, groups: channels };
        let run = |ours: bool| {
            let x = input.clone().detach().require_grad();
            let w = weight.clone().detach().require_grad();
            let y = if ours {
                conv2d(x.clone(), w.clone(), geometry)
            } else {
                let padding = [(padding, padding_after); 2];
                let options = ConvOptions::new_with_padding([stride; 2], padding, [dilation; 2], channels);
                module::conv2d(x.clone(), w.clone(), None, options)
            };
            let grads = (y.clone() * y.clone()).sum().backward();
            [y.inner(), x.grad(&grads).unwrap(), w.grad(&grads).unwrap()]
        };
        for ((ours, theirs), what) in run(true).into_iter().zip(run(false)).zip(["output", "input", "weight"])
        {
            let worst = worst(ours, theirs);
            assert!(worst < 2e-3, "{what} of {geometry:?} with kernel {kernel} differs by {worst}");
        }
    }
}

#[test]
fn normalisation_with_a_shortcut_and_an_activation_is_burn_s_in_steps() {
    cpu().autodiff().seed(12);
    let (input, shortcut) = (noise([3, 5, 7, 6]) * 3.0, noise([3, 5, 7, 6]));
    let (weight, bias) = (noise([5]) * 4.0, noise([5]) + 2.0);
    for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
        for with_shortcut in [false, true] {
            let run = |ours: bool| {
                let [x, add] = [&input, &shortcut].map(|tensor| tensor.clone().detach().require_grad());
                let [w, b] = [&weight, &bias].map(|tensor| tensor.clone().detach().require_grad());
                let then = Then { add: with_shortcut.then(|| add.clone()), activation };
                let y = if ours {
                    norm_train(x.clone(), w.clone(), b.clone(), 1e-3, then).0
                } else {
                    let normal = batch_norm_train(x.clone(), w.clone(), b.clone(), 1e-3).output;
                    let sum = if with_shortcut { normal + add.clone() } else { normal };
                    activate(sum, activation)
                };
                let grads = (y.clone() * input.clone()).sum().backward();
                let add = add.grad(&grads);
                assert_eq!(add.is_some(), with_shortcut);
                let maps = [Some(y.inner()), x.grad(&grads), add];
                let values = [w.grad(&grads).unwrap(), b.grad(&grads).unwrap()];
                (maps.into_iter().flatten().collect::<Vec<_>>(), values)
            };
            let (ours, theirs) = (run(true), run(false));
            for (ours, theirs) in ours.0.into_iter().zip(theirs.0) {
                let worst = worst(ours, theirs);
                assert!(worst < 1e-3, "{activation:?}, shortcut {with_shortcut}: {worst}");
            }
            for (ours, theirs) in ours.1.into_iter().zip(theirs.1) {
                let worst = worst(ours, theirs);
                assert!(worst < 5e-3, "{activation:?}, shortcut {with_shortcut}: {worst}");
            }
        }
    }
}
