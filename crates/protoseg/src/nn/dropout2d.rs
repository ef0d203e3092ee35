//! Dropout of whole channels.

use burn::{
    module::{Flag, Module, Param},
    tensor::{Distribution, Tensor},
};

/// Sets whole channels of an image's map to zero while training and scales the others by `1 / (1 - p)`. Burn's
/// dropout drops single values, which convolutions with overlapping windows fill in from their neighbours.
#[derive(Module, Debug)]
pub struct Dropout2d {
    /// How often a channel is dropped.
    pub p: f64,
    /// Whether it acts at all.
    pub training: Param<Flag>,
}

impl Dropout2d {
    /// Drops channels with this probability.
    pub fn new(p: f64) -> Self {
        assert!((0.0..1.0).contains(&p), "dropout probability {p} is not in [0, 1)");
        Self { p, training: Param::from_bool(true) }
    }

    /// The maps, some of their channels zero.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let device = input.device();
        if self.p == 0.0 || !device.is_autodiff() || !self.training.is_enabled() {
            return input;
        }
        let [batch, channels, _, _] = input.dims();
        let keep = 1.0 - self.p;
        let kept = Tensor::random([batch, channels, 1, 1], Distribution::Bernoulli(keep), &device);
        input * kept.div_scalar(keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;

    #[test]
    fn whole_channels_are_dropped_and_the_rest_scaled() {
        let device = cpu().autodiff();
        let out = Dropout2d::new(0.5).forward(Tensor::<4>::ones([4, 64, 3, 3], &device));
        let values = out.try_into_vec_as::<f32>().unwrap();
        let channels: Vec<&[f32]> = values.chunks(9).collect();
        assert!(channels.iter().all(|c| c.iter().all(|&v| v == c[0]) && (c[0] == 0.0 || c[0] == 2.0)));
        let dropped = channels.iter().filter(|c| c[0] == 0.0).count();
        assert!((64..192).contains(&dropped), "{dropped} of 256 dropped at p = 0.5");
    }

    #[test]
    fn nothing_happens_outside_training() {
        let out = Dropout2d::new(0.5).forward(Tensor::<4>::ones([1, 8, 2, 2], &cpu()));
        assert_eq!(out.sum().into_scalar::<f32>(), 32.0);
    }
}
