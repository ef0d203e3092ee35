//! Matrix products: by tiles where the CPU has them, else by the `gemm` crate.

use gemm::Parallelism;
use rayon::prelude::*;

use crate::{
    channels_last::{Finish, panels::share},
    simd::{fast_pairs, has_tiles},
    tiles::{self, Columns, MatrixRows, Right, Tiled},
};

/// Least rows, columns and depth of a product by tiles: below, most of a tile would be zeros.
const LEAST: usize = 16;
/// Least multiplications of one.
const WORTH: usize = 1 << 17;

/// A matrix in a slice: `rows` x `columns`, neighbours in a column `row_stride` apart and in a row `column_stride`.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows one after the other.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(data, rows, columns, columns)
    }

    /// Rows `row_stride` apart.
    pub fn strided(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        let needed = if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row_stride + columns };
        assert!(
            data.len() >= needed,
            "{rows} rows of {columns}, {row_stride} apart, in {} values",
            data.len()
        );
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// `out = a b`, or `out += a b`; rows of `out` are `row_stride` apart. `threads` share one product.
pub fn multiply(out: &mut [f32], row_stride: usize, a: Matrix, b: Matrix, accumulate: bool, threads: usize) {
    assert_eq!(a.columns, b.rows, "{} x {} times {} x {}", a.rows, a.columns, b.rows, b.columns);
    let (rows, columns) = (a.rows, b.columns);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(row_stride >= columns && out.len() >= (rows - 1) * row_stride + columns);
    let least = rows.min(columns).min(a.columns);
    if least >= LEAST && rows * columns * a.columns >= WORTH && has_tiles() {
        return multiply_tiles(out, row_stride, a, b, accumulate, threads);
    }
    let parallelism = if threads > 1 { Parallelism::Rayon(threads) } else { Parallelism::None };
    // SAFETY: `Matrix` holds only shapes whose last element lies in its slice, the same was just asserted of `out`,
    // and `out` is borrowed mutably, so it overlaps neither.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            a.columns,
            out.as_mut_ptr(),
            1,
            row_stride as isize,
            accumulate,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// The same by tiles. Numbers are split into two parts each, so that next to nothing is rounded.
fn multiply_tiles(
    out: &mut [f32],
    row_stride: usize,
    a: Matrix,
    b: Matrix,
    accumulate: bool,
    threads: usize,
) {
    const PARTS: usize = 2;
    let (rows, columns, depth) = (a.rows, b.columns, a.columns);
    let left = Columns { data: a.data, depth, count: rows, along: a.column_stride, across: a.row_stride };
    let right = Columns { data: b.data, depth, count: columns, along: b.row_stride, across: b.column_stride };
    let panels = tiles::pack(right, PARTS, threads);
    let right = Right { data: &panels, inner: depth, outer: columns, parts: PARTS };
    let task = |first: usize, rows: usize, out: &mut [f32]| {
        let left = MatrixRows { lines: left, first };
        fast_pairs(Tiled {
            left,
            rows,
            right,
            finish: Finish::default(),
            accumulate,
            out,
            stride: row_stride,
        });
    };
    let block = if threads > 1 { share(rows, tiles::ROWS) } else { tiles::ROWS.min(rows) };
    let rows_of = |index: usize| block.min(rows - index * block);
    let out = &mut out[..(rows - 1) * row_stride + columns];
    if threads > 1 {
        out.par_chunks_mut(block * row_stride)
            .enumerate()
            .for_each(|(index, out)| task(index * block, rows_of(index), out));
    } else {
        out.chunks_mut(block * row_stride)
            .enumerate()
            .for_each(|(index, out)| task(index * block, rows_of(index), out));
    }
}
