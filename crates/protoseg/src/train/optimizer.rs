//! How weights are moved. The reference's way: SGD with momentum and weight decay, everything but the encoder at ten
//! times the rate, and a rate that falls polynomially from step to step. A small network that starts from random
//! weights and has minutes, not days, learns several times as fast with AdamW, a warm-up and a cosine.

use std::f64::consts::PI;

use burn::{
    module::ParamGroup,
    optim::{
        AdamWConfig, LearningRate, ModuleOptimizer, Optimizer, SgdConfig, decay::WeightDecayConfig,
        momentum::MomentumConfig,
    },
    tensor::{Device, Tensor},
};
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// The rule that turns gradients into new weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// With momentum; weight decay is part of the gradient.
    #[default]
    Sgd,
    /// Loshchilov and Hutter 2019, with PyTorch's constants; weight decay is apart from the gradient. `momentum` is its
    /// beta 1.
    AdamW,
}

/// How the rate falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// `(1 - step / steps)^power`
    #[default]
    Poly,
    /// Half a cosine, from 1 to the floor: long near both ends.
    Cosine,
    /// It does not fall.
    Constant,
    /// Multiplied by `factor` after each of the milestones.
    Step,
}

/// How weights are moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerSettings {
    /// Rate of the encoder at the first step.
    pub lr: f64,
    /// The rate of everything else, over the encoder's.
    pub head_factor: f64,
    /// The rate of each layer of the encoder, over that of the layer after it. The last one has the encoder's rate.
    #[serde(skip_serializing_if = "is_one")]
    pub layer_decay: f64,
    /// Of SGD; beta 1 of AdamW.
    pub momentum: f64,
    /// Of every parameter.
    pub weight_decay: f64,
    /// Exponent of the rate's fall.
    pub power: f64,
    /// The rule.
    #[serde(rename = "kind")]
    pub optimizer: OptimizerKind,
    /// How the rate falls.
    pub schedule: Schedule,
    /// Over these first steps the rate rises evenly to where the schedule has it.
    pub warmup_steps: usize,
    /// SGD looks one step ahead.
    #[serde(skip_serializing_if = "is_false")]
    pub nesterov: bool,
    /// Of schedule `step`: steps, or below 1 shares of the run, after which the rate is multiplied by `factor`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<f64>,
    /// Of schedule `step`.
    #[serde(skip_serializing_if = "is_a_tenth")]
    pub factor: f64,
    /// The encoder's rate at the end of schedule `cosine`.
    #[serde(skip_serializing_if = "is_zero")]
    pub floor: f64,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_a_tenth(value: &f64) -> bool {
    *value == 0.1
}

fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self::reference()
    }
}

impl OptimizerSettings {
    /// The reference's.
    pub fn reference() -> Self {
        Self {
            lr: 0.01,
            head_factor: 10.0,
            layer_decay: 1.0,
            momentum: 0.9,
            weight_decay: 1e-4,
            power: 0.9,
            optimizer: OptimizerKind::Sgd,
            schedule: Schedule::Poly,
            warmup_steps: 0,
            nesterov: false,
            milestones: Vec::new(),
            factor: 0.1,
            floor: 0.0,
        }
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let above_zero = [("optimizer.lr", self.lr), ("optimizer.head_factor", self.head_factor)];
        for (key, value) in above_zero {
            if !(value > 0.0 && value.is_finite()) {
                return Err(ConfigError::new(key, value, "a number above 0"));
            }
        }
        if !(self.layer_decay > 0.0 && self.layer_decay <= 1.0) {
            let expected = "a number above 0 and up to 1";
            return Err(ConfigError::new("optimizer.layer_decay", self.layer_decay, expected));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(ConfigError::new("optimizer.momentum", self.momentum, "a number from 0 to below 1"));
        }
        if !(0.0..=1.0).contains(&self.weight_decay) {
            let expected = "a number from 0 to 1";
            return Err(ConfigError::new("optimizer.weight_decay", self.weight_decay, expected));
        }
        if !(0.0..=10.0).contains(&self.power) {
            return Err(ConfigError::new("optimizer.power", self.power, "a number from 0 to 10"));
        }
        if !(self.factor > 0.0 && self.factor <= 1.0) {
            return Err(ConfigError::new("optimizer.factor", self.factor, "a number above 0 and up to 1"));
        }
        if !(0.0..=self.lr).contains(&self.floor) {
            return Err(ConfigError::new("optimizer.floor", self.floor, "a rate from 0 to `lr`"));
        }
        if self.milestones.iter().any(|&at| !(at > 0.0 && at.is_finite())) {
            let expected = "steps of 1 or more, or shares of the run below 1";
            return Err(ConfigError::new("optimizer.milestones", format!("{:?}", self.milestones), expected));
        }
        if self.nesterov && (self.optimizer != OptimizerKind::Sgd || self.momentum == 0.0) {
            return Err(ConfigError::new("optimizer.nesterov", true, "false without SGD and its momentum"));
        }
        Ok(())
    }

    /// Rate of the encoder at a step of `steps`, counted from 1.
    pub fn rate(&self, step: usize, steps: usize) -> f64 {
        let done = (step as f64 / steps as f64).min(1.0);
        let fallen = match self.schedule {
            Schedule::Poly => (1.0 - done).powf(self.power),
            Schedule::Cosine => {
                let cosine = 0.5 * (1.0 + (PI * done).cos());
                if self.floor == 0.0 { cosine } else { cosine + (1.0 - cosine) * self.floor / self.lr }
            }
            Schedule::Constant => 1.0,
            Schedule::Step => {
                let is_past = |at: &&f64| step as f64 > if **at < 1.0 { **at * steps as f64 } else { **at };
                self.factor.powi(self.milestones.iter().filter(is_past).count() as i32)
            }
        };
        let risen = (step as f64 / self.warmup_steps.max(1) as f64).min(1.0);
        self.lr * risen * fallen
    }

    /// The rule for a network whose encoder has these layers.
    pub(crate) fn optimizer(&self, layers: &[ParamGroup]) -> ModuleOptimizer {
        match self.optimizer {
            OptimizerKind::Sgd => self.grouped(
                SgdConfig::new()
                    // PyTorch's momentum has no dampening; Burn's default is 0.1.
                    .with_momentum(Some(
                        MomentumConfig::new()
                            .with_momentum(self.momentum)
                            .with_dampening(0.0)
                            .with_nesterov(self.nesterov),
                    ))
                    .with_weight_decay(Some(WeightDecayConfig::new(self.weight_decay as f32)))
                    .build(),
                layers,
            ),
            OptimizerKind::AdamW => self.grouped(
                AdamWConfig::new()
                    .with_beta_1(self.momentum as f32)
                    // PyTorch's; Burn's default is 1e-5.
                    .with_epsilon(1e-8)
                    .with_weight_decay(self.weight_decay as f32)
                    .build(),
                layers,
            ),
        }
    }

    /// One rule at several rates: those of the encoder's layers, and that of everything else.
    fn grouped<O: Optimizer + 'static>(&self, rule: O, layers: &[ParamGroup]) -> ModuleOptimizer {
        let scaled = |factor: f64| Scaled { rule: rule.clone(), factor };
        let encoder = ParamGroup::from_regex("^encoder[.]").expect("the pattern is well formed");
        let optimizer =
            ModuleOptimizer::from(scaled(self.head_factor)).with_group(encoder, scaled(1.0), None);
        if self.layer_decay == 1.0 {
            return optimizer;
        }
        layers.iter().rev().enumerate().fold(optimizer, |optimizer, (behind, layer)| {
            optimizer.with_group(layer.clone(), scaled(self.layer_decay.powi(behind as i32)), None)
        })
    }
}

/// A rule at a multiple of the rate it is given.
#[derive(Clone)]
struct Scaled<O> {
    rule: O,
    factor: f64,
}

impl<O: Optimizer> Optimizer for Scaled<O> {
    type State<const D: usize> = O::State<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        self.rule.step(lr * self.factor, tensor, grad, state)
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        O::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::{module::Param, nn::LinearConfig, optim::GradientsParams};

    #[test]
    fn the_rate_falls_polynomially_to_zero() {
        let recipe = OptimizerSettings::reference();
        assert!((recipe.rate(1, 100) - 0.01 * 0.99f64.powf(0.9)).abs() < 1e-12);
        assert!((recipe.rate(50, 100) - 0.01 * 0.5f64.powf(0.9)).abs() < 1e-12);
        assert_eq!(recipe.rate(100, 100), 0.0);
        assert_eq!(recipe.rate(101, 100), 0.0);
    }

    #[test]
    fn a_warm_up_rises_to_the_cosine_which_falls_to_zero() {
        let recipe = OptimizerSettings {
            lr: 1.0,
            schedule: Schedule::Cosine,
            warmup_steps: 10,
            ..OptimizerSettings::reference()
        };
        let cosine = |step: f64| 0.5 * (1.0 + (PI * step / 100.0).cos());
        assert!((recipe.rate(1, 100) - 0.1 * cosine(1.0)).abs() < 1e-12);
        assert!((recipe.rate(10, 100) - cosine(10.0)).abs() < 1e-12);
        assert!((recipe.rate(50, 100) - 0.5).abs() < 1e-12);
        assert_eq!(recipe.rate(100, 100), 0.0);
        assert_eq!(recipe.rate(101, 100), 0.0);
    }

    #[test]
    fn steps_a_floor_and_a_constant() {
        let reference = OptimizerSettings { lr: 1.0, ..OptimizerSettings::reference() };
        let constant = OptimizerSettings { schedule: Schedule::Constant, ..reference.clone() };
        assert_eq!([constant.rate(1, 10), constant.rate(10, 10)], [1.0, 1.0]);
        let milestones = vec![0.25, 60.0];
        let steps = OptimizerSettings { schedule: Schedule::Step, milestones, ..reference.clone() };
        let rates = [1, 25, 26, 60, 61, 100].map(|step| steps.rate(step, 100));
        assert!(rates.iter().zip([1.0, 1.0, 0.1, 0.1, 0.01, 0.01]).all(|(a, b)| (a - b).abs() < 1e-12));
        let floor = OptimizerSettings { schedule: Schedule::Cosine, floor: 0.2, ..reference };
        assert!((floor.rate(100, 100) - 0.2).abs() < 1e-12 && (floor.rate(50, 100) - 0.6).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        let text = toml::to_string(&OptimizerSettings::reference()).unwrap();
        assert!(
            ["nesterov", "milestones", "factor =", "floor", "layer_decay"]
                .iter()
                .all(|key| !text.contains(&format!("\n{key}"))),
            "{text}"
        );
    }

    /// Two steps of SGD with Nesterov's momentum on one weight, by hand.
    #[test]
    fn nesterov_is_pytorch_s() {
        let recipe =
            OptimizerSettings { nesterov: true, weight_decay: 0.0, ..OptimizerSettings::reference() };
        let mut optimizer = recipe.optimizer(&[]);
        let device = cpu().autodiff();
        let mut layer = LinearConfig::new(1, 1).with_bias(false).init(&device);
        layer.weight = Param::from_tensor(Tensor::from_floats([[2.0]], &device));
        let (mut weight, mut velocity) = (2f64, 0f64);
        for _ in 0..2 {
            let loss = layer.weight.val().square().sum();
            let grads = GradientsParams::from_grads(loss.backward(), &layer);
            layer = optimizer.step(0.001, layer, grads);
            let grad = 2.0 * weight;
            velocity = 0.9 * velocity + grad;
            weight -= 0.001 * 10.0 * (grad + 0.9 * velocity);
        }
        let got: f32 = layer.weight.val().into_scalar();
        assert!((f64::from(got) - weight).abs() < 1e-6, "{got} {weight}");
    }

    /// Two steps of AdamW on one weight, by hand.
    #[test]
    fn adamw_is_pytorch_s() {
        let recipe = OptimizerSettings {
            optimizer: OptimizerKind::AdamW,
            weight_decay: 0.1,
            ..OptimizerSettings::reference()
        };
        let mut optimizer = recipe.optimizer(&[]);
        let device = cpu().autodiff();
        let mut layer = LinearConfig::new(1, 1).with_bias(false).init(&device);
        layer.weight = Param::from_tensor(Tensor::from_floats([[2.0]], &device));
        let (mut weight, mut m, mut v) = (2f64, 0f64, 0f64);
        for step in 1..=2 {
            let loss = layer.weight.val().square().sum();
            let grads = GradientsParams::from_grads(loss.backward(), &layer);
            layer = optimizer.step(0.01, layer, grads);

            let (rate, grad) = (0.01 * 10.0, 2.0 * weight);
            (m, v) = (0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad * grad);
            let (m, v) = (m / (1.0 - 0.9f64.powi(step)), v / (1.0 - 0.999f64.powi(step)));
            weight = weight * (1.0 - rate * 0.1) - rate * m / (v.sqrt() + 1e-8);
        }
        let got: f32 = layer.weight.val().into_scalar();
        assert!((f64::from(got) - weight).abs() < 1e-5, "{got} {weight}");
    }
}
