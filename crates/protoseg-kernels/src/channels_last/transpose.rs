//! From channels last to channels first, and back.

use rayon::prelude::*;

/// Rows and columns that are turned at a time: both sides of a block stay in the nearest cache.
const BLOCK: usize = 16;

/// `[rows, columns]` to `[columns, rows]`.
pub fn transpose(matrix: &[f32], columns: usize) -> Vec<f32> {
    let rows = matrix.len() / columns.max(1);
    let mut out = vec![0.0; matrix.len()];
    out.par_chunks_mut((BLOCK * rows).max(1)).enumerate().for_each(|(block, out)| {
        let first = block * BLOCK;
        for start in (0..rows).step_by(BLOCK) {
            let end = rows.min(start + BLOCK);
            for (column, line) in (first..).zip(out.chunks_exact_mut(rows)) {
                for (row, value) in (start..end).zip(&mut line[start..end]) {
                    *value = matrix[row * columns + column];
                }
            }
        }
    });
    out
}
