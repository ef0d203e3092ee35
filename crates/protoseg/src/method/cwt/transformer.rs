//! The classifier weight transformer: one block of attention from the two rows of a classifier to a query's cells.
//!
//! One projection W, without bias, makes queries of the rows, and keys and values of the cells, for all heads; every
//! head is as wide as a row. Only two rows ask, so the cells are never projected: q_h (X W_h^T)^T = (q_h W_h) X^T and
//! A (X W_h^T) = (A X) W_h^T give the same for less than a hundredth of the work.

use burn::{
    module::{Initializer, Module, Param},
    nn::{Dropout, DropoutConfig, LayerNorm, LayerNormConfig},
    tensor::{Device, Tensor, activation::softmax},
};

/// A matrix `[to, from]` as PyTorch stores it, perhaps with a bias.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[to, from]`
    pub weight: Param<Tensor<2>>,
    /// `[to]`
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    fn new([from, to]: [usize; 2], std: f64, bias: bool, device: &Device) -> Self {
        Self {
            weight: Initializer::Normal { mean: 0.0, std }.init([to, from], device),
            bias: bias.then(|| Initializer::Zeros.init([to], device)),
        }
    }
}

/// `[n, rows, d]` and `[n, cells, d]` -> `[n, rows, d]`.
#[derive(Module, Debug)]
pub struct Transformer {
    /// `[heads * d, d]`: queries, keys and values.
    pub w_qkvs: Linear,
    /// `[d, heads * d]` with bias.
    pub fc: Linear,
    /// After the sum with the rows.
    pub layer_norm: LayerNorm,
    /// Of attention, in training.
    pub attention_dropout: Dropout,
    /// Of what is added to the rows, in training.
    pub dropout: Dropout,
}

impl Transformer {
    /// With fresh weights.
    pub fn new(dim: usize, heads: usize, device: &Device) -> Self {
        let wide = heads * dim;
        Self {
            w_qkvs: Linear::new([dim, wide], (1.0 / dim as f64).sqrt(), false, device),
            fc: Linear::new([wide, dim], (2.0 / (wide + dim) as f64).sqrt(), true, device),
            layer_norm: LayerNormConfig::new(dim).init(device),
            attention_dropout: DropoutConfig::new(0.1).init(),
            dropout: DropoutConfig::new(0.5).init(),
        }
    }

    /// Rows that have looked at cells.
    pub fn forward(&self, rows: Tensor<3>, cells: Tensor<3>) -> Tensor<3> {
        let [n, count, dim] = rows.dims();
        let weight = self.w_qkvs.weight.val();
        let heads = weight.dims()[0] / dim;
        // [heads, to, from]
        let by_head = weight.reshape([heads, dim, dim]);
        // One product per head: [n, count, d] -> [heads, n * count, d].
        let asked = rows.clone().reshape([1, n * count, dim]).expand([heads, n * count, dim]);
        let queries = asked.matmul(by_head.clone().swap_dims(1, 2));
        let keys = queries.matmul(by_head.clone());
        let keys = keys.reshape([heads, n, count, dim]).swap_dims(0, 1).reshape([n, heads * count, dim]);
        let attention = keys.matmul(cells.clone().swap_dims(1, 2)).div_scalar((dim as f64).sqrt());
        let attention = self.attention_dropout.forward(softmax(attention, 2));
        let seen = attention.matmul(cells).reshape([n, heads, count, dim]).swap_dims(0, 1);
        let values = seen.reshape([heads, n * count, dim]).matmul(by_head.swap_dims(1, 2));
        // [heads, n, count, d] -> [n, count, heads * d]
        let values = values.reshape([heads, n, count, dim]).permute([1, 2, 0, 3]);
        let mixed = values.reshape([n * count, heads * dim]).matmul(self.fc.weight.val().transpose());
        let mixed = match &self.fc.bias {
            Some(bias) => mixed + bias.val().unsqueeze(),
            None => mixed,
        };
        let mixed = self.dropout.forward(mixed.reshape([n, count, dim]));
        self.layer_norm.forward(mixed + rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::tensor::Distribution;
    use protoseg_testing::assert_close;

    #[test]
    fn cells_need_not_be_projected() {
        let device = cpu();
        device.seed(4);
        let (n, count, dim, heads, places) = (2, 2, 8, 3, 5);
        let transformer = Transformer::new(dim, heads, &device);
        let normal = Distribution::Normal(0.0, 1.0);
        let rows = Tensor::<3>::random([n, count, dim], normal, &device);
        let cells = Tensor::<3>::random([n, places, dim], normal, &device);
        // As published: everything through the projection, head by head.
        let project = |x: Tensor<3>| x.matmul(transformer.w_qkvs.weight.val().transpose().unsqueeze());
        let (asked, known) = (project(rows.clone()), project(cells.clone()));
        let seen = (0..heads).map(|head| {
            let own = |x: &Tensor<3>| x.clone().slice_dim(2, head * dim..(head + 1) * dim);
            let scores = own(&asked).matmul(own(&known).swap_dims(1, 2)).div_scalar((dim as f64).sqrt());
            softmax(scores, 2).matmul(own(&known))
        });
        let seen = Tensor::cat(seen.collect(), 2);
        let mixed = seen.matmul(transformer.fc.weight.val().transpose().unsqueeze());
        let expected = transformer.layer_norm.forward(mixed + rows.clone());
        let values = |x: Tensor<3>| x.try_into_vec_as::<f32>().unwrap();
        assert_close("rows", &values(transformer.forward(rows, cells)), &values(expected), 1e-5);
    }
}
