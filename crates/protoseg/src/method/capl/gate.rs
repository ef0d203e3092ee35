//! G: one scalar per class that weighs its learned prototype against a new one.

use std::fmt;

use burn::{
    module::{Initializer, Module, Param},
    tensor::{
        Device, Tensor,
        activation::{relu, sigmoid},
    },
};
use serde::{Deserialize, Serialize};

use crate::method::cosine::cosine_of_rows;

/// Which G.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// A trained network of both prototypes.
    Mlp,
    /// Their cosine.
    #[serde(rename = "cos")]
    Cosine,
    /// Their cosine, weighing the other of the two.
    #[serde(rename = "cos-swapped")]
    CosineSwapped,
    /// The same for every class.
    Constant(f64),
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mlp => f.write_str("mlp"),
            Self::Cosine => f.write_str("cos"),
            Self::CosineSwapped => f.write_str("cos-swapped"),
            Self::Constant(value) => write!(f, "constant({value})"),
        }
    }
}

impl Gate {
    /// What stands for the support gate of a model that never trained one.
    pub const UNTRAINED: Self = Self::Constant(0.5);

    /// The weight of each class: `learned` and `new` are `[.., classes, d]`, the result `[.., classes, 1]`. `mlp` is
    /// the network of [`Gate::Mlp`].
    pub fn weight<const D: usize>(
        self,
        learned: Tensor<D>,
        new: Tensor<D>,
        mlp: Option<&GammaMlp>,
    ) -> Tensor<D> {
        match self {
            Self::Mlp => mlp.expect("a model with an MLP gate carries its weights").forward(learned, new),
            Self::Cosine | Self::CosineSwapped => cosine_of_rows(learned, new),
            Self::Constant(value) => {
                let mut shape = learned.dims();
                shape[D - 1] = 1;
                Tensor::full(shape, value, &learned.device())
            }
        }
    }

    /// Whether the weight goes to the other prototype than the equation says.
    pub fn is_swapped(self) -> bool {
        self == Self::CosineSwapped
    }
}

/// `sigmoid(W2 relu(W1 [learned; new]))` with W1: 2d -> d without bias, W2: d -> 1 with bias.
#[derive(Module, Debug)]
pub struct GammaMlp {
    /// W1, `[d, 2d]` as PyTorch stores it.
    pub hidden: Param<Tensor<2>>,
    /// W2, `[1, d]`.
    pub out: Param<Tensor<2>>,
    /// Of W2.
    pub bias: Param<Tensor<1>>,
}

impl GammaMlp {
    /// With fresh weights.
    pub fn new(dim: usize, device: &Device) -> Self {
        let uniform = |fan_in: usize| {
            let bound = 1.0 / (fan_in as f64).sqrt();
            Initializer::Uniform { min: -bound, max: bound }
        };
        Self {
            hidden: uniform(2 * dim).init([dim, 2 * dim], device),
            out: uniform(dim).init([1, dim], device),
            bias: uniform(dim).init([1], device),
        }
    }

    /// The weight of each pair of rows: `[.., n, d]` twice -> `[.., n, 1]`.
    pub fn forward<const D: usize>(&self, learned: Tensor<D>, new: Tensor<D>) -> Tensor<D> {
        let shape = learned.dims();
        let dim = shape[D - 1];
        let classes: usize = shape[..D - 1].iter().product();
        let pairs = Tensor::cat(vec![learned, new], D - 1).reshape([classes, 2 * dim]);
        let hidden = relu(pairs.matmul(self.hidden.val().transpose()));
        let weight = sigmoid(hidden.matmul(self.out.val().transpose()) + self.bias.val().unsqueeze());
        let mut out = shape;
        out[D - 1] = 1;
        weight.reshape(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::module::ParamId;
    use protoseg_testing::assert_close;

    fn rows(values: [[f32; 2]; 2]) -> Tensor<2> {
        Tensor::from_floats(values, &cpu())
    }

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        tensor.try_into_vec_as().unwrap()
    }

    #[test]
    fn cosine_gate_of_two_classes_by_hand() {
        let learned = rows([[3.0, 4.0], [1.0, 0.0]]);
        let new = rows([[4.0, 3.0], [-2.0, 0.0]]);
        // (12 + 12) / 25 and -1.
        let weight = values(Gate::Cosine.weight(learned, new, None));
        assert_close("weight", &weight, &[0.96, -1.0], 1e-6);
    }

    #[test]
    fn constant_gate_is_the_same_for_every_class() {
        let learned = rows([[3.0, 4.0], [1.0, 0.0]]);
        assert_eq!(values(Gate::Constant(0.25).weight(learned.clone(), learned, None)), [0.25, 0.25]);
    }

    #[test]
    fn mlp_gate_by_hand() {
        let param = |values: [[f32; 4]; 2]| {
            Param::initialized(ParamId::new(), Tensor::<2>::from_floats(values, &cpu()))
        };
        let mlp = GammaMlp {
            hidden: param([[1.0, 0.0, 0.0, 1.0], [-1.0, 0.0, 0.0, 0.0]]),
            out: Param::initialized(ParamId::new(), Tensor::from_floats([[2.0, 5.0]], &cpu())),
            bias: Param::initialized(ParamId::new(), Tensor::from_floats([-1.0], &cpu())),
        };
        // Class 0: relu(3 + 3), relu(-3) -> 2 * 6 - 1 = 11. Class 1: relu(-1 + 0), relu(1) -> 5 - 1 = 4.
        let weight = values(Gate::Mlp.weight(
            rows([[3.0, 4.0], [-1.0, 0.0]]),
            rows([[4.0, 3.0], [2.0, 0.0]]),
            Some(&mlp),
        ));
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        assert_close("weight", &weight, &[sigmoid(11.0), sigmoid(4.0)], 1e-6);
    }
}
