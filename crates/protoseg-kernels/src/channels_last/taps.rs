//! 3x3 convolutions of stride 1 that are dilated so far that most taps lie beside the map: for each tap a product of the
//! pixels it reaches, on the map as it lies.

use std::ops::Range;

use rayon::prelude::*;

use super::panels::{Block, Finish, Panels, share};
use crate::{ConvShape, simd::fast};

/// Output rows of a task: enough of them for a tap's weights to be worth fetching.
const ROWS: usize = 4;

/// The middle tap, which reaches every pixel, comes first.
const ORDER: [usize; 9] = [4, 0, 1, 2, 3, 5, 6, 7, 8];

/// Whether this kernel is faster than copying windows.
pub fn suits(shape: &ConvShape) -> bool {
    shape.is_same_3x3() && shape.dilation > 1 && 2 * products(shape) < 9 * shape.in_plane()
}

/// Products of a channel pair and an image.
pub fn products(shape: &ConvShape) -> usize {
    let line = |side| -> usize { (0..3).map(|tap| reached(shape, tap, side).len()).sum() };
    line(shape.height) * line(shape.width)
}

/// The outputs along a side whose tap lies on the map.
fn reached(shape: &ConvShape, tap: usize, side: usize) -> Range<usize> {
    let shift = shape.dilation.min(side);
    [shift..side, 0..side, 0..side - shift][tap].clone()
}

/// `taps` are `[from, to]` each, row by row.
pub fn run(
    shape: &ConvShape,
    input: &[f32],
    taps: &[Panels],
    finish: Finish,
    out: &mut [f32],
    stride: usize,
) {
    let &ConvShape { from, height, width, dilation, .. } = shape;
    let rows = share(shape.batch * height, ROWS);
    out.par_chunks_mut(rows * width * stride).enumerate().for_each(|(index, out)| {
        let lines = index * rows..(shape.batch * height).min((index + 1) * rows);
        for tap in ORDER {
            let (down, right) = (tap / 3, tap % 3);
            let columns = reached(shape, right, width);
            for (line, row) in lines.clone().zip(0..) {
                if columns.is_empty() || !reached(shape, down, height).contains(&(line % height)) {
                    continue;
                }
                let source =
                    (line + down * dilation - dilation) * width + columns.start + right * dilation - dilation;
                let first = (row * width + columns.start) * stride;
                let end = out.len().min(first + columns.len() * stride);
                fast(Block {
                    left: &input[source * from..][..columns.len() * from],
                    left_stride: from,
                    rows: columns.len(),
                    right: taps[tap].view(),
                    from: 0,
                    depth: from,
                    accumulate: tap != ORDER[0],
                    finish: Finish { bias: finish.bias, ..Finish::default() },
                    out: &mut out[first..end],
                    stride,
                });
            }
        }
        let add = finish.add.map(|add| &add[lines.start * width * stride..]);
        for (pixel, out) in out.chunks_mut(stride).enumerate() {
            let out = &mut out[..shape.to];
            if let Some(add) = add {
                out.iter_mut().zip(&add[pixel * stride..]).for_each(|(out, add)| *out += add);
            }
            finish.activation.apply(out);
        }
    });
}
