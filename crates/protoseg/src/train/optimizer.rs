//! The reference's optimiser: SGD with momentum and weight decay, everything but the encoder at ten times the rate, and a
//! rate that falls polynomially from step to step.

use burn::{
    module::ParamGroup,
    optim::{
        LearningRate, ModuleOptimizer, Optimizer, Sgd, SgdConfig, SgdState, decay::WeightDecayConfig,
        momentum::MomentumConfig,
    },
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// How weights are moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Rate of the encoder at the first step.
    pub lr: f64,
    /// The rate of everything else, over the encoder's.
    pub head_factor: f64,
    pub momentum: f64,
    /// Of every parameter.
    pub weight_decay: f64,
    /// Exponent of the rate's fall.
    pub power: f64,
}

impl Default for Recipe {
    fn default() -> Self {
        Self::reference()
    }
}

impl Recipe {
    /// The reference's.
    pub fn reference() -> Self {
        Self { lr: 0.01, head_factor: 10.0, momentum: 0.9, weight_decay: 1e-4, power: 0.9 }
    }

    pub fn validate(&self) -> Result<(), ConfigError> {
        let above_zero = [("optimizer.lr", self.lr), ("optimizer.head_factor", self.head_factor)];
        for (key, value) in above_zero {
            if !(value > 0.0 && value.is_finite()) {
                return Err(ConfigError::new(key, value, "a number above 0"));
            }
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(ConfigError::new("optimizer.momentum", self.momentum, "a number from 0 to below 1"));
        }
        if !(0.0..=1.0).contains(&self.weight_decay) {
            return Err(ConfigError::new(
                "optimizer.weight_decay",
                self.weight_decay,
                "a number from 0 to 1",
            ));
        }
        if !(0.0..=10.0).contains(&self.power) {
            return Err(ConfigError::new("optimizer.power", self.power, "a number from 0 to 10"));
        }
        Ok(())
    }

    /// Rate of the encoder at a step of `steps`, counted from 1: `lr (1 - step / steps)^power`.
    pub fn rate(&self, step: usize, steps: usize) -> f64 {
        let left = 1.0 - step as f64 / steps as f64;
        self.lr * left.max(0.0).powf(self.power)
    }

    pub(super) fn optimizer(&self) -> ModuleOptimizer {
        let sgd = || {
            SgdConfig::new()
                // PyTorch's momentum has no dampening; Burn's default is 0.1.
                .with_momentum(Some(MomentumConfig::new().with_momentum(self.momentum).with_dampening(0.0)))
                .with_weight_decay(Some(WeightDecayConfig::new(self.weight_decay as f32)))
                .build()
        };
        let encoder = ParamGroup::from_regex("^encoder[.]").expect("the pattern is well formed");
        ModuleOptimizer::from(Scaled { sgd: sgd(), factor: self.head_factor }).with_group(
            encoder,
            Scaled { sgd: sgd(), factor: 1.0 },
            None,
        )
    }
}

/// SGD at a multiple of the rate it is given.
#[derive(Clone)]
struct Scaled {
    sgd: Sgd,
    factor: f64,
}

impl Optimizer for Scaled {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        self.sgd.step(lr * self.factor, tensor, grad, state)
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        Sgd::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_polynomially_to_zero() {
        let recipe = Recipe::reference();
        assert!((recipe.rate(1, 100) - 0.01 * 0.99f64.powf(0.9)).abs() < 1e-12);
        assert!((recipe.rate(50, 100) - 0.01 * 0.5f64.powf(0.9)).abs() < 1e-12);
        assert_eq!(recipe.rate(100, 100), 0.0);
        assert_eq!(recipe.rate(101, 100), 0.0);
    }
}
