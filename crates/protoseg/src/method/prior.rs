//! PFENet's training-free prior: how alike each place of the query is to the most alike place of the support.
//!
//! Both maps are of the encoder's last layer. Features of the support are masked, so places outside the class score
//! zero. The best cosine of each place of the query is stretched so that every image has a 0 and (nearly) a 1.

use burn::tensor::{Int, Tensor, TensorData};

use super::mask::{for_every_shot, mean_over_shots};

/// Added to norms and to the range.
pub(crate) const TINY: f64 = 1e-7;

/// The prior of one query for one support each: `[n, d, h, w]` and masked `[n, d, h', w']` -> `[n, 1, h, w]`.
pub fn prior(queries: Tensor<4>, supports: Tensor<4>) -> Tensor<4> {
    let [n, dim, height, width] = queries.dims();
    let [.., support_height, support_width] = supports.dims();
    let of = |maps: &Tensor<4>, image: usize, cells: usize| {
        maps.clone().slice_dim(0, image..image + 1).reshape([dim, cells])
    };
    let priors = (0..n).map(|image| {
        let query = of(&queries, image, height * width);
        let support = of(&supports, image, support_height * support_width);
        let best = best_cosines(query, support);
        let least = best.clone().min();
        let range = (best.clone().max() - least.clone()).add_scalar(TINY);
        ((best - least.unsqueeze()) / range.unsqueeze()).reshape([1, 1, height, width])
    });
    Tensor::cat(priors.collect(), 0)
}

/// The best cosine of every cell of the query with any cell of the support: `[d, q]` and `[d, s]` -> `[1, q]`. Cells of
/// the support that are zero, those outside the mask, have cosine zero with everything; they are not multiplied.
fn best_cosines(query: Tensor<2>, support: Tensor<2>) -> Tensor<2> {
    let norm = |map: Tensor<2>| map.square().sum_dim(0).sqrt();
    let norms = norm(support.clone());
    let lengths: Vec<f32> = norms.clone().try_into_vec_as().expect("maps are f32");
    let inside: Vec<i32> =
        (0..).zip(&lengths).filter(|(_, length)| **length > 0.0).map(|(at, _)| at).collect();
    let (kept, device) = (inside.len(), query.device());
    if kept == 0 {
        return norm(query).zeros_like();
    }
    let inside = Tensor::<1, Int>::from_data(TensorData::new(inside, [kept]), &device);
    let norms = norms.select(1, inside.clone()).transpose().matmul(norm(query.clone())).add_scalar(TINY);
    let best = (support.select(1, inside).transpose().matmul(query) / norms).max_dim(0);
    if kept < lengths.len() { best.clamp_min(0.0) } else { best }
}

/// The mean over the shots of the priors: queries `[episodes, ..]`, supports `[episodes * shots, ..]`.
pub fn mean_prior(queries: Tensor<4>, supports: Tensor<4>, shots: usize) -> Tensor<4> {
    mean_over_shots(prior(for_every_shot(queries, shots), supports), shots)
}
