//! How methods look at images: through encoder and decoder, by whatever computes them best.

use burn::tensor::Tensor;

use crate::{
    inference::Programs,
    network::{Network, Section, Tap},
    nn::ConvWeights,
};

/// A network to look through. Layers that are fixed run as programs of kernels, those that learn by operations of Burn,
/// with gradients.
#[derive(Clone, Copy, Debug)]
pub struct Vision<'a> {
    network: &'a Network,
    /// For encoder and decoder, if they are fixed.
    programs: Option<&'a Programs>,
}

impl<'a> Vision<'a> {
    /// Everything by operations of Burn, with gradients if the network is on an autodiff device.
    pub fn new(network: &'a Network) -> Self {
        Self { network, programs: None }
    }

    /// Encoder and decoder as programs. Their weights must not change while `programs` lives.
    pub(crate) fn fixed(network: &'a Network, programs: &'a Programs) -> Self {
        Self { network, programs: Some(programs) }
    }

    /// The network.
    pub fn network(&self) -> &'a Network {
        self.network
    }

    /// F of images: `[images, 3, height, width]` -> `[images, d, h, w]`.
    pub fn features(&self, images: Tensor<4>) -> Tensor<4> {
        self.run(&Section::Features, images).swap_remove(0)
    }

    /// Maps inside the encoder, `[images, channels, h, w]` each.
    pub fn maps(&self, images: Tensor<4>, taps: &[Tap]) -> Vec<Tensor<4>> {
        self.run(&Section::Maps(taps.to_vec()), images)
    }

    /// The encoder's last map, from that before it.
    pub fn last_layer(&self, before: Tensor<4>) -> Tensor<4> {
        self.run(&Section::LastLayer, before).swap_remove(0)
    }

    fn run(&self, section: &Section, input: Tensor<4>) -> Vec<Tensor<4>> {
        let [_, channels, height, width] = input.dims();
        let program = self.programs.and_then(|programs| {
            programs.get(|| (self.network, ConvWeights::default()), section, [height, width, channels])
        });
        match program {
            None => self.network.run_section(section, input),
            Some(program) if input.device().is_autodiff() => {
                program.maps(input.inner()).into_iter().map(Tensor::from_inner).collect()
            }
            Some(program) => program.maps(input),
        }
    }
}
