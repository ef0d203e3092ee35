//! One step after another: losses, gradients, new weights. The method says what a loss is.

use std::thread;

use burn::{
    module::{Module, ParamGroup},
    optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer},
    store::RecordError,
    tensor::{Bytes, Device},
};
use protoseg_core::seed;

use super::{OptimizerSettings, layers::encoder_layers};
use crate::{
    bridge::is_cpu,
    inference::Programs,
    method::{BaseClasses, Frozen, Method, TrainingBatch, Vision},
    network::Network,
    weights::with_ids_by_name,
};

/// Everything that stays the same from step to step.
#[derive(Clone, Debug)]
pub struct TrainerConfig {
    /// The method, which turns batches into losses.
    pub method: Method,
    /// The classes that are learned.
    pub base: BaseClasses,
    /// How weights are moved.
    pub optimizer: OptimizerSettings,
    /// Steps of the whole run.
    pub steps: usize,
    /// Everything random follows from it.
    pub seed: u64,
    /// Shares of a batch that go through the network one after the other on each device; their gradients are averaged.
    pub accumulate: usize,
    /// Replicas beyond the network's own device. Each learns from its own shares, with batch statistics and fake roles
    /// of its own.
    pub more_devices: Vec<Device>,
    /// The encoder's batch-norm keeps its running statistics, its scale and its shift.
    pub freeze_batch_norm: bool,
    /// Only this many of the encoder's last layers learn; without a number, all of them.
    pub train_last: Option<usize>,
    /// Recompute what is cheap in the backward pass instead of keeping it.
    pub gradient_checkpointing: bool,
}

impl TrainerConfig {
    /// One device, the whole batch at once, nothing frozen.
    pub fn new(
        method: Method,
        base: BaseClasses,
        optimizer: OptimizerSettings,
        steps: usize,
        seed: u64,
    ) -> Self {
        Self {
            method,
            base,
            optimizer,
            steps,
            seed,
            accumulate: 1,
            more_devices: Vec::new(),
            freeze_batch_norm: false,
            train_last: None,
            gradient_checkpointing: false,
        }
    }

    /// In how many shares a batch is learned.
    fn shares(&self) -> usize {
        self.accumulate * (1 + self.more_devices.len())
    }
}

/// What a step was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Counted from 1.
    pub step: usize,
    /// The encoder's rate.
    pub rate: f64,
    /// What is minimised.
    pub loss: f32,
    /// The method's main term.
    pub main_loss: f32,
    /// Its second term, unweighted.
    pub aux_loss: Option<f32>,
}

/// A network in training.
pub struct Trainer {
    /// On an autodiff device. Taken out during a step only.
    network: Option<Network>,
    optimizer: ModuleOptimizer,
    config: TrainerConfig,
    step: usize,
    /// Of the parts that are frozen.
    programs: Programs,
}

impl Trainer {
    /// `network` lives on any device; it is moved to its autodiff side.
    pub fn new(network: Network, config: TrainerConfig) -> Self {
        // Burn's optimisers know parameters by id: ids from names are the same in the process that resumes.
        let mut network = with_ids_by_name(network).train();
        if config.freeze_batch_norm {
            let batch_norm = ParamGroup::from_regex("^encoder[.].*bn").expect("the pattern is well formed");
            network = network.freeze_group(batch_norm);
        }
        let frozen = match config.method.frozen() {
            Frozen::Nothing => None,
            Frozen::Encoder => Some("^encoder[.]"),
            Frozen::Extractor => Some("^(encoder|decoder)[.]"),
        };
        if let Some(pattern) = frozen {
            let group = ParamGroup::from_regex(pattern).expect("the pattern is well formed");
            network = network.freeze_group(group);
        }
        let layers = encoder_layers(&network);
        if let Some(last) = config.train_last {
            let first = layers.len().saturating_sub(last);
            network = layers[..first].iter().cloned().fold(network, Module::freeze_group);
        }
        let optimizer = config.optimizer.optimizer(&layers);
        Self { network: Some(network), optimizer, config, step: 0, programs: Programs::default() }
    }

    fn current(&self) -> &Network {
        self.network.as_ref().expect("a network is between steps")
    }

    /// The network as it predicts now, without gradients.
    pub fn network(&self) -> Network {
        self.current().valid()
    }

    /// Steps done.
    pub fn steps(&self) -> usize {
        self.step
    }

    /// What the optimiser remembers.
    pub fn optimizer_state(&self) -> Result<Bytes, RecordError> {
        self.optimizer.into_bytes()
    }

    /// Goes on after `step` steps with the weights that the trainer was made with and this memory.
    pub fn resume(mut self, step: usize, optimizer: Bytes) -> Result<Self, RecordError> {
        self.optimizer = self.optimizer.from_bytes(optimizer)?;
        self.step = step;
        Ok(self)
    }

    /// Learns from one batch. Everything random in it depends on the trainer's seed and the step alone.
    pub fn step(&mut self, batch: &TrainingBatch<'_>) -> StepReport {
        let network = self.network.take().expect("a network is between steps");
        self.step += 1;
        let shares = self.shares(batch);
        let learned = self.learn_shares(&network, shares);

        let scale = 1.0 / learned.len() as f32;
        let mean = |value: fn(&ShareReport) -> Option<f32>| {
            learned.iter().map(|(_, report)| value(report)).sum::<Option<f32>>().map(|sum| sum * scale)
        };
        let report = StepReport {
            step: self.step,
            rate: self.config.optimizer.rate(self.step, self.config.steps),
            loss: mean(|report| Some(report.loss)).unwrap_or(f32::NAN),
            main_loss: mean(|report| Some(report.main_loss)).unwrap_or(f32::NAN),
            aux_loss: mean(|report| report.aux_loss),
        };
        let mut sum = GradientsAccumulator::new();
        for (grads, _) in learned {
            sum.accumulate(&network, grads);
        }
        self.network = Some(self.optimizer.step(report.rate, network, sum.grads()));
        report
    }

    /// Equal parts of the batch in order, each with its device.
    fn shares<'a>(&self, batch: &TrainingBatch<'a>) -> Vec<Share<'a>> {
        let count = self.config.shares();
        let all = batch.len();
        assert!(all.is_multiple_of(count), "a batch of {all} in {count} shares");
        let size = all / count;
        let devices = std::iter::once(batch.device()).chain(self.config.more_devices.iter().cloned());
        let places = devices.flat_map(|device| std::iter::repeat_n(device, self.config.accumulate));
        let share = |(index, device): (usize, Device)| {
            let start = index * size;
            Share { index, start, batch: batch.slice(start..start + size), device }
        };
        places.enumerate().map(share).collect()
    }

    /// Gradients of every share, in the order of the shares. Devices work side by side, the shares of one in turn.
    fn learn_shares(&self, network: &Network, shares: Vec<Share>) -> Vec<(GradientsParams, ShareReport)> {
        if self.config.more_devices.is_empty() {
            return shares.into_iter().map(|share| self.learn(network, share)).collect();
        }
        let home = self.home(network);
        let mut shares = shares.into_iter();
        let by_device: Vec<Vec<Share>> = std::iter::from_fn(|| {
            let own: Vec<Share> = shares.by_ref().take(self.config.accumulate).collect();
            (!own.is_empty()).then_some(own)
        })
        .collect();
        thread::scope(|scope| {
            let replicas: Vec<_> = by_device
                .into_iter()
                .map(|own| {
                    let replica = network.clone().fork(&own[0].device.clone().autodiff());
                    let home = &home;
                    scope.spawn(move || -> Vec<_> {
                        own.into_iter()
                            .map(|share| {
                                let (grads, report) = self.learn(&replica, share);
                                (grads.to_device(home, &replica), report)
                            })
                            .collect()
                    })
                })
                .collect();
            let join =
                |replica: thread::ScopedJoinHandle<_>| replica.join().expect("a replica's thread ended");
            replicas.into_iter().flat_map(join).collect()
        })
    }

    /// The device that the weights are on.
    fn home(&self, network: &Network) -> Device {
        network.devices().into_iter().next().expect("a network has parameters")
    }

    fn learn(&self, network: &Network, share: Share) -> (GradientsParams, ShareReport) {
        let config = &self.config;
        let mut device = share.device.autodiff();
        if config.gradient_checkpointing {
            device = device.gradient_checkpointing();
        }
        // Of the device's generator, from which dropout draws.
        device.seed(config.seed.wrapping_add((self.step as u64) << 16).wrapping_add(share.start as u64));
        let mut rng = seed::stream(config.seed, &[self.step as u64, share.index as u64]);
        let batch = share.batch.to_device(&device);
        let vision = match config.method.frozen() {
            Frozen::Nothing => Vision::new(network),
            _ if !is_cpu(&device) => Vision::new(network),
            _ => Vision::fixed(network, &self.programs),
        };
        let losses = config.method.losses(&vision, config.base, &batch, &mut rng);
        let report = ShareReport {
            loss: losses.total.clone().into_scalar(),
            main_loss: losses.main.into_scalar(),
            aux_loss: losses.aux.map(|aux| aux.into_scalar()),
        };
        let mean = losses.total.div_scalar(config.shares() as f32);
        (GradientsParams::from_grads(mean.backward(), network), report)
    }
}

/// A part of a batch that goes through the network at once.
struct Share<'a> {
    /// Which part.
    index: usize,
    /// The place of its first image in the batch.
    start: usize,
    batch: TrainingBatch<'a>,
    device: Device,
}

struct ShareReport {
    loss: f32,
    main_loss: f32,
    aux_loss: Option<f32>,
}
