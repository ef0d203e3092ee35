//! F for use: a network whose weights never change, for images of one size, on the CPU.
//!
//! The same map as [`Network::features`](crate::network::Network::features), several times as fast. Batch-norm is
//! folded into weights and biases, which are packed once; activations and shortcuts are part of the convolution
//! before them; maps keep the channels of a pixel together throughout and live in a few buffers that are used again
//! and again (`program.rs`). The kernels are those of [`protoseg_kernels::channels_last`]. A network with a layer that
//! has no kernel is refused by name ([`NoKernel`]) and runs through Burn's modules instead.

mod join;
mod lower;
mod program;
mod programs;
mod spread;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use burn::tensor::{Tensor, TensorData};
use protoseg_kernels::channels_last::transpose;

pub use protoseg_kernels::Precision;

use crate::{
    network::{Network, Section},
    nn::ConvWeights,
};
use program::{Program, Slots};

pub(crate) use programs::Programs;

/// A network ready for use.
#[derive(Debug)]
pub struct Extractor {
    program: Program,
    /// Buffers of finished runs.
    idle: Mutex<Vec<Slots>>,
}

/// A layer that the extractor has no kernel for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{layer}` is {what}, for which there is no kernel")]
pub struct NoKernel {
    /// Its name in the network.
    pub layer: String,
    what: &'static str,
}

impl NoKernel {
    fn new(layer: &str, what: &'static str) -> Self {
        Self { layer: layer.to_string(), what }
    }
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepProfile {
    /// The layer, by the name of its weights.
    pub name: String,
    /// What it does and how.
    pub kernel: String,
    /// Multiply-accumulates as the layer is written.
    pub macs: u64,
    /// Those that are computed: fewer by Winograd's algorithm or the pyramid shortcut.
    pub computed_macs: u64,
    /// What it took.
    pub time: Duration,
}

impl Extractor {
    /// F, for images of `[height, width]`. The network's weights are copied.
    pub fn new(network: &Network, [height, width]: [usize; 2]) -> Result<Self, NoKernel> {
        let weights = ConvWeights::default();
        Self::of(network, &weights, &Section::Features, [height, width, 3], Precision::Single)
    }

    /// A part of the network, for inputs of `[height, width, channels]`. Its convolutions' weights are taken from
    /// `weights`.
    pub(crate) fn of(
        network: &Network,
        weights: &ConvWeights,
        section: &Section,
        input: [usize; 3],
        precision: Precision,
    ) -> Result<Self, NoKernel> {
        let (graph, outputs) = network.section(section);
        let program = lower::lower(&graph, &outputs, input, precision, weights)?;
        Ok(Self { program, idle: Mutex::new(Vec::new()) })
    }

    /// `[height, width]` of the images.
    pub fn size(&self) -> [usize; 2] {
        self.program.input_size()
    }

    /// F of every image, `[batch, 3, height, width]` -> `[batch, d, h, w]`.
    pub fn features(&self, images: Tensor<4>) -> Tensor<4> {
        self.maps(images).swap_remove(0)
    }

    /// Every output for every input, `[batch, channels, height, width]` -> `[batch, d, h, w]` each.
    pub(crate) fn maps(&self, inputs: Tensor<4>) -> Vec<Tensor<4>> {
        let device = inputs.device();
        let [batch, ..] = inputs.dims();
        let inputs = inputs.into_data();
        let inputs = values(&inputs);
        let mut outputs: Vec<Vec<f32>> = self.program.output_shapes().map(|_| Vec::new()).collect();
        for input in inputs.chunks_exact(inputs.len() / batch) {
            let planes = self.run(
                input,
                |_, _| (),
                |maps| maps.iter().map(|(map, [.., channels])| transpose(map, *channels)).collect::<Vec<_>>(),
            );
            for (all, one) in outputs.iter_mut().zip(planes) {
                if all.is_empty() {
                    *all = one;
                    all.reserve_exact((batch - 1) * all.len());
                } else {
                    all.extend(one);
                }
            }
        }
        let shapes = self.program.output_shapes();
        let tensor = |(values, [height, width, channels]): (Vec<f32>, [usize; 3])| {
            Tensor::from_data(TensorData::new(values, [batch, channels, height, width]), &device)
        };
        outputs.into_iter().zip(shapes).map(tensor).collect()
    }

    /// What `look` makes of the outputs for one input, `[1, channels, height, width]`. They are `[h, w, d]` here, as the
    /// kernels leave them.
    pub(crate) fn look<T>(&self, input: Tensor<4>, look: impl FnOnce(&[(&[f32], [usize; 3])]) -> T) -> T {
        self.run(values(&input.into_data()), |_, _| (), look)
    }

    /// What each step of a run takes.
    pub fn profile(&self, image: Tensor<4>) -> Vec<StepProfile> {
        let image = image.into_data();
        let mut steps = Vec::new();
        let mut started = Instant::now();
        let watch = |step: &program::Step, before| {
            if before {
                started = Instant::now();
            } else {
                let (macs, computed_macs) = step.macs();
                let time = started.elapsed();
                steps.push(StepProfile {
                    name: step.name.clone(),
                    kernel: step.kernel(),
                    macs,
                    computed_macs,
                    time,
                });
            }
        };
        self.run(values(&image), watch, |_| ());
        steps
    }

    /// How many times as fast `threads` are as one thread, as far as that depends on how work is divided: a step takes as
    /// long as its busiest thread. `steps` are those of [`Self::profile`] with `measured` threads.
    pub fn speedup(&self, steps: &[StepProfile], measured: usize, threads: usize) -> f64 {
        let times = |threads: usize| -> f64 {
            let time = |(step, profile): (&program::Step, &StepProfile)| {
                profile.time.as_secs_f64() * step.busiest(threads) / step.busiest(measured)
            };
            self.program.steps().iter().zip(steps).map(time).sum()
        };
        times(1) / times(threads)
    }

    /// Bytes of packed weights, and of one run's buffers.
    pub fn bytes(&self) -> [usize; 2] {
        [self.program.weight_bytes(), self.program.slot_bytes()]
    }

    fn run<T>(
        &self,
        image: &[f32],
        watch: impl FnMut(&program::Step, bool),
        look: impl FnOnce(&[(&[f32], [usize; 3])]) -> T,
    ) -> T {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut slots = idle.unwrap_or_else(|| self.program.slots());
        let seen = look(&self.program.run(image, &mut slots, watch));
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
        seen
    }
}

/// The numbers of a tensor, where they lie.
fn values(data: &TensorData) -> &[f32] {
    data.as_slice().expect("inputs are f32")
}
