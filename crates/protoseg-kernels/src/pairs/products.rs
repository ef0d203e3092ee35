//! Sums of products with parts of one matrix.

use rayon::prelude::*;

use crate::{
    channels_last::Panels,
    channels_last::panels::{Block, Finish, share},
    simd::fast,
};

/// Most rows of a task: those of all terms stay in the second cache.
const ROWS: usize = 48;

/// `out += sum over terms of left right[from..from + depth]`. A term is `[rows, depth]` and where its part of `right`
/// begins.
pub fn add_products(terms: &[(&[f32], usize)], depth: usize, right: &Panels, out: &mut [f32]) {
    let rows = out.len() / right.outer.max(1);
    assert_eq!(out.len(), rows * right.outer, "rows of {}", right.outer);
    for &(left, from) in terms {
        assert_eq!(left.len(), rows * depth, "{rows} rows of {depth}");
        assert!(from + depth <= right.inner, "{depth} of {} rows from {from} on", right.inner);
    }
    let block = share(rows, ROWS);
    out.par_chunks_mut((block * right.outer).max(1)).enumerate().for_each(|(index, out)| {
        let first = index * block;
        let rows = out.len() / right.outer;
        for &(left, from) in terms {
            fast(Block {
                left: &left[first * depth..][..rows * depth],
                left_stride: depth,
                rows,
                right: right.view(),
                from,
                depth,
                accumulate: true,
                finish: Finish::default(),
                out,
                stride: right.outer,
            });
        }
    });
}
