//! Convolutions of few channels, as of an image: the values that a window sees of a row lie together, and so do
//! those of the next window, a little further. They are multiplied as they lie, row by row of the kernel. Only
//! windows that reach over the left or the right border are copied.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    gather::window,
    panels::{Block, Finish, Panels, share},
};
use crate::{ConvShape, simd::fast};

/// Most output rows of a task.
const ROWS: usize = 8;
/// Outputs whose sums stay in the nearest cache from one row of the kernel to the next.
const PIXELS: usize = 48;
/// Most values that a window sees of a row. With more of them, fetching and storing sums again costs more than a copy.
const MOST: usize = 64;

/// Whether this kernel is the fast one.
pub fn suits(shape: &ConvShape) -> bool {
    shape.kernel > 1 && shape.dilation == 1 && shape.kernel * shape.from <= MOST
}

/// `weight` is `[kernel * kernel * from, to]`.
pub fn run(
    shape: &ConvShape,
    input: &[f32],
    weight: &Panels,
    finish: Finish,
    out: &mut [f32],
    stride: usize,
) {
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let rows = share(shape.batch * out_height, ROWS);
    let row_len = out_width * stride;
    out.par_chunks_mut((rows * row_len).max(1)).enumerate().for_each_init(
        || vec![0.0; weight.inner],
        |values, (index, out)| {
            for (row, out) in (index * rows..).zip(out.chunks_mut(row_len)) {
                let finish = Finish { add: finish.add.map(|add| &add[row * row_len..]), ..finish };
                let line = Line { shape, input, weight, finish, row, stride };
                let inside = line.inside();
                for x in (0..inside.start).chain(inside.end..out_width) {
                    window(shape, input, row * out_width + x, values);
                    line.multiply(values, 0..weight.inner, x..x + 1, true, true, out);
                }
                line.multiply_inside(inside, out);
            }
        },
    );
}

/// One row of outputs.
struct Line<'a> {
    shape: &'a ConvShape,
    input: &'a [f32],
    weight: &'a Panels,
    finish: Finish<'a>,
    /// Counted over all images.
    row: usize,
    stride: usize,
}

impl Line<'_> {
    /// The rows of the kernel that lie on the map, each with where it does.
    fn taps(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let &ConvShape { height, stride, padding, .. } = self.shape;
        let out_height = self.shape.out_height();
        let (image, y) = (self.row / out_height, self.row % out_height);
        (0..self.shape.kernel).filter_map(move |tap| {
            let y = (y * stride + tap).checked_sub(padding).filter(|&y| y < height)?;
            Some((tap, image * height + y))
        })
    }

    /// The outputs whose windows have all their columns, and at least one row, on the map.
    fn inside(&self) -> Range<usize> {
        let &ConvShape { width, kernel, stride, padding, .. } = self.shape;
        let out_width = self.shape.out_width();
        if self.taps().next().is_none() {
            return 0..0;
        }
        let first = padding.div_ceil(stride).min(out_width);
        let end = (width + padding).checked_sub(kernel).map_or(0, |room| room / stride + 1);
        first..end.clamp(first, out_width)
    }

    fn multiply_inside(&self, inside: Range<usize>, out: &mut [f32]) {
        let &ConvShape { from, width, kernel, stride, padding, .. } = self.shape;
        let (first, last) = (self.taps().next(), self.taps().next_back());
        for start in inside.clone().step_by(PIXELS) {
            let pixels = start..inside.end.min(start + PIXELS);
            for tap in self.taps() {
                let left = &self.input[(tap.1 * width + start * stride - padding) * from..];
                let depth = tap.0 * kernel * from..(tap.0 + 1) * kernel * from;
                self.multiply(left, depth, pixels.clone(), Some(tap) == first, Some(tap) == last, out);
            }
        }
    }

    /// Adds the products of windows with the part `depth` of the weight to the sums of `pixels`, or begins with the
    /// bias if these are the `first`; finishes the sums if they are the `last`.
    fn multiply(
        &self,
        left: &[f32],
        depth: Range<usize>,
        pixels: Range<usize>,
        first: bool,
        last: bool,
        out: &mut [f32],
    ) {
        let start = pixels.start * self.stride;
        let finish = Finish { add: self.finish.add.map(|add| &add[start..]), ..self.finish };
        fast(Block {
            left,
            left_stride: self.shape.stride * self.shape.from,
            rows: pixels.len(),
            right: self.weight.view(),
            from: depth.start,
            depth: depth.len(),
            accumulate: !first,
            finish: if last { finish } else { Finish { bias: finish.bias, ..Finish::default() } },
            out: &mut out[start..],
            stride: self.stride,
        });
    }
}
