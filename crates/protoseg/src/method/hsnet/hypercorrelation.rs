//! Hypercorrelations: how alike every cell of the query is to every cell of the support, by every block of a stage.
//!
//! Features are signed (they are taken before the last ReLU of a block), those of the support are masked, and each is
//! divided by its norm + 1e-5. Negative cosines are zero. Blocks of a stage are channels.

use burn::tensor::Tensor;
use protoseg_core::RowMap;

use crate::method::{
    Maps,
    mask::{FOREGROUND, masks},
};

/// Added to norms.
pub(crate) const TINY_NORM: f64 = 1e-5;

/// Cosines of all pairs of cells, at least 0: `[n, d, h, w]` and masked `[n, d, h', w']` -> `[n, h * w, h' * w']`.
pub fn correlate(queries: Tensor<4>, supports: Tensor<4>) -> Tensor<3> {
    let queries: Tensor<3> = unit(queries.flatten(2, 3));
    let supports: Tensor<3> = unit(supports.flatten(2, 3));
    queries.swap_dims(1, 2).matmul(supports).clamp_min(0.0)
}

/// The correlations of one stage, one channel per block: `[n * query cells, blocks, h', w']`, cells in rows.
pub fn hypercorrelation(queries: &[Tensor<4>], supports: &[Tensor<4>]) -> Tensor<4> {
    let [n, _, query_height, query_width] = queries[0].dims();
    let [.., height, width] = supports[0].dims();
    let cells = n * query_height * query_width;
    let blocks = queries
        .iter()
        .zip(supports)
        .map(|(query, support)| correlate(query.clone(), support.clone()).reshape([cells, 1, height, width]));
    Tensor::cat(blocks.collect(), 1)
}

/// Maps of supports under their masks, each at its own size.
pub fn masked(supports: &Maps, labels: &[RowMap]) -> Maps {
    let mut last: Option<Tensor<4>> = None;
    let masked = supports.iter().map(|map| {
        let [.., height, width] = map.dims();
        let mask = last.take().filter(|mask| mask.dims()[2..] == [height, width]);
        let mask = mask.unwrap_or_else(|| masks(labels, FOREGROUND, [height, width], &map.device()));
        last = Some(mask.clone());
        map.clone() * mask
    });
    masked.collect()
}

/// Vectors along the second axis divided by their norm.
fn unit(cells: Tensor<3>) -> Tensor<3> {
    let norms = cells.clone().square().sum_dim(1).sqrt().add_scalar(TINY_NORM);
    cells / norms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_testing::assert_close;

    #[test]
    fn opposite_cells_and_cells_beside_the_mask_have_nothing_in_common() {
        let queries = Tensor::<1>::from_floats([3.0, 0.0, 4.0, 2.0], &cpu()).reshape([1, 2, 1, 2]);
        // (3, 4), (-3, -4), nothing.
        let supports =
            Tensor::<1>::from_floats([3.0, -3.0, 0.0, 4.0, -4.0, 0.0], &cpu()).reshape([1, 2, 1, 3]);
        let cosines = correlate(queries, supports).try_into_vec_as::<f32>().unwrap();
        assert_close("cosines", &cosines, &[1.0, 0.0, 0.0, 0.8, 0.0, 0.0], 1e-5);
    }

    #[test]
    fn the_norm_has_a_little_added_to_it() {
        let one = Tensor::<4>::full([1, 1, 1, 1], 1e-5, &cpu());
        let cosine = correlate(one.clone(), one).try_into_vec_as::<f32>().unwrap();
        assert_close("cosine", &cosine, &[0.25], 1e-6);
    }
}
