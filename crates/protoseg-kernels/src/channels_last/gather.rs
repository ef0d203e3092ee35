//! Any convolution: every window becomes a row, a matrix product does the rest, a few rows at a time.

use rayon::prelude::*;

use super::panels::{Block, Finish, Panels, share};
use crate::{ConvShape, scratch::Scratch, simd::fast};

/// Most values of a block of rows: 512 KiB.
const BLOCK: usize = 1 << 17;

pub fn run(
    shape: &ConvShape,
    input: &[f32],
    weight: &Panels,
    finish: Finish,
    out: &mut [f32],
    stride: usize,
) {
    let length = weight.inner;
    let pixels = shape.batch * shape.out_plane();
    let block = share(pixels, (BLOCK / length.max(1)).max(6));
    out.par_chunks_mut((block * stride).max(1)).enumerate().for_each_init(
        || Scratch::new(block * length),
        |rows, (index, out)| {
            let first = index * block;
            let count = block.min(pixels - first);
            let rows = &mut rows[..count * length];
            for (pixel, row) in (first..).zip(rows.chunks_exact_mut(length)) {
                window(shape, input, pixel, row);
            }
            fast(Block {
                left: rows,
                left_stride: length,
                rows: count,
                right: weight.view(),
                from: 0,
                depth: length,
                accumulate: false,
                finish: Finish { add: finish.add.map(|add| &add[first * stride..]), ..finish },
                out,
                stride,
            });
        },
    );
}

/// The values under the kernel at an output pixel, `[kernel, kernel, from]`.
pub fn window(shape: &ConvShape, input: &[f32], pixel: usize, row: &mut [f32]) {
    let &ConvShape { from, height, width, kernel, stride, dilation, padding, .. } = shape;
    let (image, place) = (pixel / shape.out_plane(), pixel % shape.out_plane());
    let (out_y, out_x) = (place / shape.out_width(), place % shape.out_width());
    for (ky, line) in row.chunks_exact_mut(kernel * from).enumerate() {
        let y = (out_y * stride + ky * dilation).checked_sub(padding).filter(|&y| y < height);
        let Some(y) = y else {
            line.fill(0.0);
            continue;
        };
        let map_line = &input[(image * height + y) * width * from..][..width * from];
        // Taps kx with 0 <= left + kx * dilation - padding < width.
        let left = out_x * stride;
        let first = padding.saturating_sub(left).div_ceil(dilation).min(kernel);
        let end = (width + padding).saturating_sub(left).div_ceil(dilation).clamp(first, kernel);
        line[..first * from].fill(0.0);
        line[end * from..].fill(0.0);
        if first == end {
            continue;
        }
        let start = (left + first * dilation - padding) * from;
        if dilation == 1 {
            line[first * from..end * from].copy_from_slice(&map_line[start..][..(end - first) * from]);
        } else {
            let values = map_line[start..].chunks(from).step_by(dilation);
            for (tap, values) in line[first * from..end * from].chunks_exact_mut(from).zip(values) {
                tap.copy_from_slice(values);
            }
        }
    }
}
