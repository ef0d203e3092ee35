//! Where weights of convolutions come from.

use burn::{
    module::{Param, ParamId},
    tensor::{Tensor, TensorData},
};

/// Weights of convolutions for whoever needs each of them once: those that a network has not read from its file yet are in
/// memory no longer than that takes.
#[derive(Default)]
pub(crate) struct ConvWeights(Option<Box<dyn Fn(ParamId) -> TensorData>>);

impl ConvWeights {
    /// `read` gives the values of a weight that the network does not hold.
    pub fn read_by(read: impl Fn(ParamId) -> TensorData + 'static) -> Self {
        Self(Some(Box::new(read)))
    }

    /// The values of a weight.
    pub fn of(&self, weight: &Param<Tensor<4>>) -> Vec<f32> {
        let data = match &self.0 {
            Some(read) if !weight.is_initialized() => read(weight.id),
            _ => weight.val().into_data(),
        };
        data.try_into_vec().expect("weights are f32")
    }
}
