//! Matrix products, on the `gemm` crate.

use gemm::Parallelism;

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
