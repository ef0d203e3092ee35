//! Any convolution: every window becomes a column, a matrix product does the rest. Columns are made for a few
//! output rows at a time, so that the copy is small. At kernel 1 and stride 2 the columns are the map at half its
//! size.

use rayon::prelude::*;

use crate::{
    ConvShape,
    matmul::{Matrix, multiply},
};

/// Most values of a block of columns: 2 MiB, so that a block stays in the caches between copy and product.
const BLOCK: usize = 1 << 19;

pub fn forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut output = vec![0.0; shape.output_len()];
    let w = Matrix::new(weight, shape.to, column_len(shape));
    each_image(shape, &mut output, shape.to * shape.out_plane(), |image, output, threads| {
        let map = &input[image * shape.from * shape.in_plane()..][..shape.from * shape.in_plane()];
        each_block(shape, |block, columns| {
            gather(shape, &block, map, columns);
            let columns = Matrix::new(columns, column_len(shape), block.pixels());
            multiply(&mut output[block.start()..], shape.out_plane(), w, columns, false, threads);
        });
    });
    output
}

pub fn input_grad(shape: &ConvShape, grad: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut input = vec![0.0; shape.input_len()];
    let w = Matrix::new(weight, shape.to, column_len(shape)).transposed();
    each_image(shape, &mut input, shape.from * shape.in_plane(), |image, map, threads| {
        let grad = &grad[image * shape.to * shape.out_plane()..][..shape.to * shape.out_plane()];
        each_block(shape, |block, columns| {
            let dy = Matrix::strided(&grad[block.start()..], shape.to, block.pixels(), shape.out_plane());
            multiply(columns, block.pixels(), w, dy, false, threads);
            scatter(shape, &block, columns, map);
        });
    });
    input
}

/// Each image gives its own sum; they are added in the order of the images.
pub fn weight_grad(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; shape.batch * shape.weight_len()];
    each_image(shape, &mut sums, shape.weight_len(), |image, sum, threads| {
        let map = &input[image * shape.from * shape.in_plane()..][..shape.from * shape.in_plane()];
        let grad = &grad[image * shape.to * shape.out_plane()..][..shape.to * shape.out_plane()];
        each_block(shape, |block, columns| {
            gather(shape, &block, map, columns);
            let columns = Matrix::new(columns, column_len(shape), block.pixels());
            let dy = Matrix::strided(&grad[block.start()..], shape.to, block.pixels(), shape.out_plane());
            multiply(sum, column_len(shape), dy, columns.transposed(), block.first_row > 0, threads);
        });
    });
    let (weight, others) = sums.split_at_mut(shape.weight_len());
    for other in others.chunks(shape.weight_len().max(1)) {
        for (sum, value) in weight.iter_mut().zip(other) {
            *sum += value;
        }
    }
    sums.truncate(shape.weight_len());
    sums
}

/// Values of one column.
fn column_len(shape: &ConvShape) -> usize {
    shape.from * shape.kernel * shape.kernel
}

/// Calls `work(image, its part of out, threads it may use)`: images side by side, or one after the other with all
/// threads where there are few.
fn each_image(
    shape: &ConvShape,
    out: &mut [f32],
    part: usize,
    work: impl Fn(usize, &mut [f32], usize) + Sync + Send,
) {
    let threads = rayon::current_num_threads();
    if shape.batch.is_multiple_of(threads) || shape.batch >= 4 * threads {
        out.par_chunks_mut(part.max(1)).enumerate().for_each(|(image, out)| work(image, out, 1));
    } else {
        out.chunks_mut(part.max(1)).enumerate().for_each(|(image, out)| work(image, out, threads));
    }
}

/// Some rows of the output.
struct Block {
    first_row: usize,
    rows: usize,
    out_width: usize,
}

impl Block {
    fn start(&self) -> usize {
        self.first_row * self.out_width
    }

    fn pixels(&self) -> usize {
        self.rows * self.out_width
    }
}

/// Calls `work` for blocks of output rows with a buffer for their columns.
fn each_block(shape: &ConvShape, mut work: impl FnMut(Block, &mut [f32])) {
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let row_len = (column_len(shape) * out_width).max(1);
    let rows = (BLOCK / row_len).clamp(1, out_height.max(1));
    let mut columns = vec![0.0; rows * row_len];
    for first_row in (0..out_height).step_by(rows) {
        let block = Block { first_row, rows: rows.min(out_height - first_row), out_width };
        let len = column_len(shape) * block.pixels();
        work(block, &mut columns[..len]);
    }
}

/// Writes `columns`, `[from * kernel * kernel, pixels of the block]`.
fn gather(shape: &ConvShape, block: &Block, map: &[f32], columns: &mut [f32]) {
    each_line(shape, block, |line, source| {
        let line = &mut columns[line];
        let Some(Line { start, skip, len }) = source else { return line.fill(0.0) };
        line[..skip].fill(0.0);
        line[skip + len..].fill(0.0);
        let values = map[start..].iter().step_by(shape.stride);
        line[skip..skip + len].iter_mut().zip(values).for_each(|(to, from)| *to = *from);
    });
}

/// Adds `columns` to the map where they were taken from.
fn scatter(shape: &ConvShape, block: &Block, columns: &[f32], map: &mut [f32]) {
    each_line(shape, block, |line, source| {
        let Some(Line { start, skip, len }) = source else { return };
        let values = map[start..].iter_mut().step_by(shape.stride);
        values.zip(&columns[line][skip..skip + len]).for_each(|(to, from)| *to += *from);
    });
}

/// Where the values of one tap for one output row lie in the map: `len` of them from `start` on, a stride apart, after
/// `skip` that lie in the padding.
struct Line {
    start: usize,
    skip: usize,
    len: usize,
}

/// Calls `visit(range in the columns, where it comes from)` for each tap and output row.
fn each_line(shape: &ConvShape, block: &Block, mut visit: impl FnMut(std::ops::Range<usize>, Option<Line>)) {
    let &ConvShape { from, height, width, kernel, stride, dilation, padding, .. } = shape;
    let mut at = 0;
    for c in 0..from {
        for ky in 0..kernel {
            for kx in 0..kernel {
                // Outputs x with 0 <= x * stride + shift - padding < width.
                let shift = kx * dilation;
                let skip = padding.saturating_sub(shift).div_ceil(stride).min(block.out_width);
                let end = (width + padding).saturating_sub(shift).div_ceil(stride).min(block.out_width);
                for row in block.first_row..block.first_row + block.rows {
                    let y = (row * stride + ky * dilation).checked_sub(padding).filter(|&y| y < height);
                    let line = y.filter(|_| end > skip).map(|y| Line {
                        start: (c * height + y) * width + skip * stride + shift - padding,
                        skip,
                        len: end - skip,
                    });
                    visit(at..at + block.out_width, line);
                    at += block.out_width;
                }
            }
        }
    }
}
