//! PFENet's training-free prior: how alike each place of the query is to the most alike place of the support.
//!
//! Both maps are of the encoder's last layer. Features of the support are masked, so places beside the class score
//! zero. The best cosine of each place of the query is stretched so that every image has a 0 and (nearly) a 1.

use burn::tensor::Tensor;

use super::mask::{for_every_shot, mean_over_shots};

/// Added to norms and to the range.
const TINY: f64 = 1e-7;

/// The prior of one query for one support each: `[n, d, h, w]` and masked `[n, d, h', w']` -> `[n, 1, h, w]`.
pub fn prior(queries: Tensor<4>, supports: Tensor<4>) -> Tensor<4> {
    let [n, dim, height, width] = queries.dims();
    let [.., support_height, support_width] = supports.dims();
    let query = queries.reshape([n, dim, height * width]);
    let support = supports.reshape([n, dim, support_height * support_width]);
    let norm = |map: Tensor<3>| map.square().sum_dim(1).sqrt();
    let norms = norm(support.clone()).swap_dims(1, 2).matmul(norm(query.clone())).add_scalar(TINY);
    let cosines = support.swap_dims(1, 2).matmul(query) / norms;
    let best = cosines.max_dim(1);
    let least = best.clone().min_dim(2);
    let most = best.clone().max_dim(2);
    let stretched = (best - least.clone()) / (most - least).add_scalar(TINY);
    stretched.reshape([n, 1, height, width])
}

/// The mean over the shots of the priors: queries `[episodes, ..]`, supports `[episodes * shots, ..]`.
pub fn mean_prior(queries: Tensor<4>, supports: Tensor<4>, shots: usize) -> Tensor<4> {
    mean_over_shots(prior(for_every_shot(queries, shots), supports), shots)
}
