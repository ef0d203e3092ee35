//! One step after another: roles, losses, gradients, new weights.

use burn::{
    module::Module,
    optim::{GradientsParams, ModuleOptimizer},
    tensor::{Device, Tensor},
};
use protoseg_core::{LabelMap, seed};

use super::{Recipe, batch_losses};
use crate::{
    network::Network,
    prototype::{
        fake::{FakeRoles, fake_support_start, present_classes},
        method::Parts,
        options::Options,
    },
};

/// What a step was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Counted from 1.
    pub step: usize,
    /// The encoder's rate.
    pub rate: f64,
    pub loss: f32,
    pub main_loss: f32,
}

/// A network in training.
pub struct Trainer {
    /// On an autodiff device. Taken out during a step only.
    network: Option<Network>,
    optimizer: ModuleOptimizer,
    recipe: Recipe,
    parts: Parts,
    options: Options,
    n_base: usize,
    background: Option<u16>,
    seed: u64,
    step: usize,
}

impl Trainer {
    /// `network` lives on any device; it is moved to its autodiff side. `background` is the row that stands apart when
    /// roles are drawn, if any.
    pub fn new(
        network: Network,
        n_base: usize,
        background: Option<u16>,
        parts: Parts,
        options: Options,
        recipe: Recipe,
        seed: u64,
    ) -> Self {
        let optimizer = recipe.optimizer();
        let network = Some(network.train());
        Self { network, optimizer, recipe, parts, options, n_base, background, seed, step: 0 }
    }

    /// The network as it predicts now, without gradients.
    pub fn network(&self) -> Network {
        self.network.as_ref().expect("a network is between steps").valid()
    }

    /// Learns from one batch, `[batch, 3, height, width]` with labels of that size. Everything random in it depends on
    /// the trainer's seed and the step alone.
    pub fn step(&mut self, images: Tensor<4>, labels: &[LabelMap]) -> StepReport {
        let network = self.network.take().expect("a network is between steps");
        self.step += 1;
        let device: Device = images.device().autodiff();
        let images = images.to_device(&device);
        let [batch, _, height, width] = images.dims();
        let mut rng = seed::stream(self.seed, &[self.step as u64]);
        device.seed(self.seed.wrapping_add(self.step as u64));

        let support = &labels[fake_support_start(batch, self.options.fake_support)..];
        let stride = network.encoder.output_stride();
        let map = [height, width].map(|side| side.div_ceil(stride));
        let present = present_classes(support, map);
        let roles = FakeRoles::draw(&present, self.background, &self.options, &mut rng);
        let losses = batch_losses(&network, images, labels, self.n_base, &roles, self.parts, &self.options);
        let report = StepReport {
            step: self.step,
            rate: self.recipe.rate(self.step),
            loss: losses.total.clone().into_scalar(),
            main_loss: losses.main.into_scalar(),
        };
        let grads = GradientsParams::from_grads(losses.total.backward(), &network);
        self.network = Some(self.optimizer.step(report.rate, network, grads));
        report
    }
}
