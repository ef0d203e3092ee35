//! Batch normalisation with PyTorch's running statistics.
//!
//! Burn's own layer keeps the biased batch variance in its running average; PyTorch, and so every published
//! checkpoint, keeps the unbiased one (n / (n - 1)). Field names are PyTorch's, so
//! that weights load without a rename.

use burn::{
    module::{Flag, Initializer, Module, Param, RunningState},
    tensor::{Device, Tensor},
};

use crate::bridge::{Then, norm_eval, norm_train};

/// What published networks set differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NormSettings {
    /// Added to the variance before its root is taken.
    pub epsilon: f64,
    /// Share of the newest batch in the running statistics.
    pub momentum: f64,
}

impl Default for NormSettings {
    /// PyTorch's.
    fn default() -> Self {
        Self { epsilon: 1e-5, momentum: 0.1 }
    }
}

/// Normalises each channel of `[batch, channels, height, width]`: by the batch's statistics while training (an
/// autodiff device and `training` enabled), else by the running ones.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Scale per channel.
    pub weight: Param<Tensor<1>>,
    /// Shift per channel.
    pub bias: Param<Tensor<1>>,
    /// Mean per channel over the batches so far.
    pub running_mean: RunningState<Tensor<1>>,
    /// Unbiased variance per channel over the batches so far.
    pub running_var: RunningState<Tensor<1>>,
    /// Cleared by [`Module::freeze`]: a frozen layer neither uses nor updates batch statistics.
    pub training: Param<Flag>,
    epsilon: f64,
    momentum: f64,
}

impl BatchNorm {
    /// With scale 1 and shift 0.
    pub fn new(channels: usize, device: &Device) -> Self {
        let NormSettings { epsilon, momentum } = NormSettings::default();
        Self {
            weight: Initializer::Ones.init([channels], device),
            bias: Initializer::Zeros.init([channels], device),
            running_mean: RunningState::new(Tensor::zeros([channels], device)),
            running_var: RunningState::new(Tensor::ones([channels], device)),
            training: Param::from_bool(true),
            epsilon,
            momentum,
        }
    }

    pub(crate) fn with(self, NormSettings { epsilon, momentum }: NormSettings) -> Self {
        Self { epsilon, momentum, ..self }
    }

    /// The normalised maps.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.forward_then(input, Then::default())
    }

    /// The running statistics as `y = scale x + shift`, one of each per channel.
    pub(crate) fn scale_and_shift(&self) -> (Vec<f32>, Vec<f32>) {
        let variance = self.running_var.value();
        let scale =
            self.weight.val().to_device(&variance.device()) / variance.add_scalar(self.epsilon).sqrt();
        let shift = self.bias.val() - self.running_mean.value() * scale.clone();
        let values = |tensor: Tensor<1>| tensor.try_into_vec_as().expect("statistics are f32");
        (values(scale), values(shift))
    }

    /// Normalised, then what follows the layer, in one pass over memory where a kernel does both.
    pub(crate) fn forward_then(&self, input: Tensor<4>, then: Then) -> Tensor<4> {
        if input.device().is_autodiff() && self.training.is_enabled() {
            self.forward_train(input, then)
        } else {
            let device = input.device();
            let mean = self.running_mean.value().to_device(&device);
            let var = self.running_var.value().to_device(&device);
            norm_eval(input, [self.weight.val(), self.bias.val(), mean, var], self.epsilon, then)
        }
    }

    fn forward_train(&self, input: Tensor<4>, then: Then) -> Tensor<4> {
        let [batch, _, height, width] = input.dims();
        let n = (batch * height * width) as f64;
        // One value per channel has no unbiased variance; its biased one, zero, is kept as it is.
        let unbiased = n / (n - 1.0).max(1.0);
        let (output, mean, variance) =
            norm_train(input, self.weight.val(), self.bias.val(), self.epsilon, then);
        update(&self.running_mean, mean, self.momentum);
        update(&self.running_var, variance.mul_scalar(unbiased), self.momentum);
        output
    }
}

fn update(running: &RunningState<Tensor<1>>, batch: Tensor<1>, momentum: f64) {
    let batch = batch.detach();
    let old = running.value_sync().to_device(&batch.device());
    running.update((old.mul_scalar(1.0 - momentum) + batch.mul_scalar(momentum)).detach());
    // Without this, whoever reads or saves the module next would see the value from one step earlier.
    running.value_sync();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;

    #[test]
    fn running_variance_is_unbiased() {
        let device = cpu().autodiff();
        let norm = BatchNorm::new(1, &device);
        // Mean 2.5, biased variance 1.25, unbiased 5/3.
        let x = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0], &device).reshape([1, 1, 2, 2]);
        norm.forward(x);
        let mean: f32 = norm.running_mean.value().into_scalar();
        let var: f32 = norm.running_var.value().into_scalar();
        assert!((mean - 0.25).abs() < 1e-6, "{mean}");
        assert!((var - (0.9 + 0.1 * 5.0 / 3.0)).abs() < 1e-6, "{var}");
    }

    #[test]
    fn a_frozen_layer_keeps_its_statistics() {
        let device = cpu().autodiff();
        let norm = BatchNorm::new(1, &device).freeze();
        let x = Tensor::<4>::full([1, 1, 2, 2], 3.0, &device);
        let out: f32 = norm.forward(x).mean().into_scalar();
        assert!((out - 3.0 / (1.0f32 + 1e-5).sqrt()).abs() < 1e-5, "{out}");
        assert_eq!(norm.running_mean.value().into_scalar::<f32>(), 0.0);
    }

    #[test]
    fn a_single_value_per_channel_stays_finite() {
        let device = cpu().autodiff();
        let norm = BatchNorm::new(2, &device);
        let out = norm.forward(Tensor::<4>::full([1, 2, 1, 1], 7.0, &device));
        assert!(out.into_data().iter::<f32>().all(f32::is_finite));
        assert!(norm.running_var.value().into_data().iter::<f32>().all(f32::is_finite));
    }
}
