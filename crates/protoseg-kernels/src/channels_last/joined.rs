//! Layers that are computed together, some rows at a time: the wide map inside an inverted residual block is never
//! stored as a whole, so that it stays in the nearest caches.

use rayon::prelude::*;

use super::{
    Kernel, PackedConv,
    depthwise::Band,
    panels::{Block, Finish, multiply_block, share},
};
use crate::{ConvShape, scratch::Scratch, simd::fast};

/// Bytes of the rows of the wide map that are kept at a time, as far as two rows of the result allow: half of the
/// second cache.
const KEPT: usize = 1 << 19;
/// Bytes of a wide map that is worth it. Milliseconds of blocks of EfficientNet-Lite0 at 473 with one thread, apart
/// and joined: 21 MB 5.5 and 3.4, 8 MB 3.3 and 2.8 (3x3) or 1.9 and 2.0 (5x5 of stride 2), 7 MB 1.4 and 1.2; 3.3 MB
/// 1.8 and 1.9, and nothing gained below.
const WORTH: usize = 6 << 20;
/// Most rows of the result that one task computes. Where tasks meet, rows of the wide map are computed twice.
const ROWS: usize = 32;

/// A convolution of every channel by itself between products: the first widens the map, if there is one; the last
/// makes the result.
#[derive(Clone, Debug)]
pub struct JoinedConvs {
    widen: Option<PackedConv>,
    depthwise: PackedConv,
    narrow: PackedConv,
}

impl JoinedConvs {
    /// The layers as one if that pays; `widen` gives the input of `depthwise`, and that the input of `narrow`.
    pub fn new(widen: Option<&PackedConv>, depthwise: &PackedConv, narrow: &PackedConv) -> Option<Self> {
        let is_product = |conv: &PackedConv| matches!(conv.kernel, Kernel::Rows(_));
        let is_chain = matches!(depthwise.kernel, Kernel::Depthwise(_))
            && is_product(narrow)
            && widen.is_none_or(is_product);
        let wide = depthwise.shape.input_len() * size_of::<f32>();
        (is_chain && depthwise.shape.batch == 1 && wide >= WORTH).then(|| Self {
            widen: widen.cloned(),
            depthwise: depthwise.clone(),
            narrow: narrow.clone(),
        })
    }

    /// The layers, in order.
    pub fn layers(&self) -> impl Iterator<Item = &PackedConv> {
        self.widen.iter().chain([&self.depthwise, &self.narrow])
    }

    /// The result of the last layer, with `add` added before its activation.
    pub fn run(&self, input: &[f32], add: Option<&[f32]>, out: &mut [f32]) {
        let first = self.layers().next().expect("there are layers").shape();
        assert_eq!(input.len(), first.input_len(), "input of {first:?}");
        assert_eq!(out.len(), self.narrow.shape.output_len(), "output of {:?}", self.narrow.shape);
        assert!(add.is_none_or(|add| add.len() == out.len()), "as much to add as there is");
        let rows = share(self.depthwise.shape.out_height(), ROWS);
        let row_len = self.depthwise.shape.out_width() * self.narrow.shape.to;
        out.par_chunks_mut((rows * row_len).max(1)).enumerate().for_each(|(index, out)| {
            let add = add.map(|add| &add[index * rows * row_len..][..out.len()]);
            Task { layers: self, input, first: index * rows, add, out }.run();
        });
    }
}

/// Some rows of the result, from `first` on.
struct Task<'a> {
    layers: &'a JoinedConvs,
    input: &'a [f32],
    first: usize,
    add: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl Task<'_> {
    fn run(self) {
        let JoinedConvs { widen, depthwise, narrow } = self.layers;
        let row_len = depthwise.shape.out_width() * narrow.shape.to;
        let count = self.out.len() / row_len;
        let rows = rows_at_a_time(&depthwise.shape).min(count);
        let channels = depthwise.shape.to;
        let mut wide = widen.as_ref().map(|widen| Wide::new(widen, &depthwise.shape, rows));
        let mut filtered = Scratch::new(rows * depthwise.shape.out_width() * channels);
        for (index, out) in self.out.chunks_mut(rows * row_len).enumerate() {
            let first = self.first + index * rows;
            let rows_now = out.len() / row_len;
            let filtered = &mut filtered[..rows_now * depthwise.shape.out_width() * channels];
            match &mut wide {
                Some(wide) => {
                    let (shape, input) = wide.rows(self.input, first, rows_now);
                    filter(depthwise, &shape, input, 0, filtered);
                }
                None => filter(depthwise, &depthwise.shape, self.input, first, filtered),
            }
            let add = self.add.map(|add| &add[index * rows * row_len..][..out.len()]);
            product(narrow, filtered, add, out, narrow.shape.to);
        }
    }
}

/// How many rows of the result are computed at a time: pairs, as the depthwise kernel likes them.
fn rows_at_a_time(shape: &ConvShape) -> usize {
    let row = (shape.width + shape.padding + shape.padding_after) * shape.from * size_of::<f32>();
    let overlap = shape.dilation * (shape.kernel - 1) + 1 - shape.stride;
    let fitting = (KEPT / row).saturating_sub(overlap) / shape.stride;
    (fitting / 2 * 2).max(2)
}

/// Rows of the wide map with the zeros around it, computed as they are needed.
struct Wide<'a> {
    widen: &'a PackedConv,
    shape: &'a ConvShape,
    /// `[rows, width with zeros, channels]`
    values: Scratch,
    /// The rows that are there, counted from the first row of zeros.
    start: usize,
    end: usize,
}

impl<'a> Wide<'a> {
    /// For up to `rows` rows of the result at a time.
    fn new(widen: &'a PackedConv, shape: &'a ConvShape, rows: usize) -> Self {
        let mut values = Scratch::new(seen_rows(shape, rows) * row_len(shape));
        values.fill(0.0);
        Self { widen, shape, values, start: 0, end: 0 }
    }

    /// What `rows` rows of the result from `first` on see: the depthwise convolution of it, and its input.
    fn rows(&mut self, input: &[f32], first: usize, rows: usize) -> (ConvShape, &[f32]) {
        let shape = self.shape;
        let (row_len, seen) = (row_len(shape), seen_rows(shape, rows));
        let start = first * shape.stride;
        // What the rows before this have left.
        let kept = self.end.saturating_sub(start).min(seen);
        if kept > 0 && start > self.start {
            let from = (start - self.start) * row_len;
            self.values.copy_within(from..from + kept * row_len, 0);
        }
        for row in kept..seen {
            let values = &mut self.values[row * row_len..][..row_len];
            match (start + row).checked_sub(shape.padding).filter(|&y| y < shape.height) {
                Some(y) => {
                    let columns = shape.padding * shape.from..(shape.padding + shape.width) * shape.from;
                    let line = shape.width * self.widen.shape.from;
                    product(self.widen, &input[y * line..][..line], None, &mut values[columns], shape.from);
                }
                None => values.fill(0.0),
            }
        }
        (self.start, self.end) = (start, start + seen);
        let shape = ConvShape {
            height: seen,
            width: shape.width + shape.padding + shape.padding_after,
            padding: 0,
            padding_after: 0,
            ..*shape
        };
        (shape, &self.values[..seen * row_len])
    }
}

/// Rows of a map, with its zeros, that `rows` rows of the result see.
fn seen_rows(shape: &ConvShape, rows: usize) -> usize {
    (rows - 1) * shape.stride + shape.dilation * (shape.kernel - 1) + 1
}

/// Values of a row of a map with its zeros.
fn row_len(shape: &ConvShape) -> usize {
    (shape.width + shape.padding + shape.padding_after) * shape.from
}

/// One thread's depthwise convolution.
fn filter(conv: &PackedConv, shape: &ConvShape, input: &[f32], first: usize, out: &mut [f32]) {
    let Kernel::Depthwise(depthwise) = &conv.kernel else {
        unreachable!("it was depthwise when it was joined")
    };
    let finish = conv.finish();
    fast(Band { shape, taps: depthwise.taps(), input, finish, first, out, stride: shape.to });
}

/// One thread's product. Rows of `out` and `add` are `stride` apart.
pub(super) fn product(conv: &PackedConv, left: &[f32], add: Option<&[f32]>, out: &mut [f32], stride: usize) {
    let Kernel::Rows(right) = &conv.kernel else { unreachable!("it was a product when it was joined") };
    multiply_block(Block {
        left,
        left_stride: right.inner,
        rows: left.len() / right.inner,
        right: right.view(),
        from: 0,
        depth: right.inner,
        accumulate: false,
        finish: Finish { add, ..conv.finish() },
        out,
        stride,
    });
}
