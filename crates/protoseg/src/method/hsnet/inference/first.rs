//! The cosines of a stage and its first 4D convolution, together.
//!
//! A row of the result needs a few rows of support cells. Their cosines with all query cells are one product per block
//! of the encoder; what the next row needs of them is kept. Cells beside the mask have no cosines and are left out.

use protoseg_kernels::{
    Activation,
    channels_last::{Finish, Panels, multiply},
    pairs::{GroupNorm, Padded, group_norm_planes, unit_panels, unit_rows, weigh_rows},
};
use rayon::prelude::*;

use super::{
    block::{CellMaps, both_biases, norm},
    weight,
};
use crate::method::hsnet::{centre_pivot::PivotBlock, hypercorrelation::TINY_NORM};

/// A query's maps of one stage, ready to be compared.
pub struct QueryStage {
    grid: Padded,
    /// One per block, `[channels, padded cells]`.
    units: Vec<Panels>,
}

impl QueryStage {
    /// From `[channels, height, width]` per block.
    pub fn new(maps: &[&[f32]], [height, width]: [usize; 2], padding: usize) -> Self {
        let grid = Padded { height, width, padding };
        Self { grid, units: maps.iter().map(|map| unit_panels(map, grid, TINY_NORM as f32)).collect() }
    }
}

/// A support's maps of one stage, where its mask is.
pub struct SupportStage {
    size: [usize; 2],
    /// Cells under the mask that come before each row, and after the last.
    before_row: Vec<usize>,
    /// The place of each cell among those under the mask.
    place: Vec<Option<usize>>,
    /// One per block, `[cells under the mask, channels]`.
    units: Vec<Vec<f32>>,
}

impl SupportStage {
    /// From `[channels, height, width]` per block, and the mask on the same grid.
    pub fn new(maps: &[&[f32]], size: [usize; 2], mask: &[f32]) -> Self {
        let cells: Vec<(usize, f32)> =
            mask.iter().copied().enumerate().filter(|&(_, share)| share > 0.0).collect();
        let mut place = vec![None; mask.len()];
        cells.iter().enumerate().for_each(|(index, &(cell, _))| place[cell] = Some(index));
        let before = |row: usize| cells.partition_point(|&(cell, _)| cell < row * size[1]);
        let units = maps.iter().map(|map| unit_rows(map, mask.len(), &cells, TINY_NORM as f32)).collect();
        Self { size, before_row: (0..=size[0]).map(before).collect(), place, units }
    }
}

/// The first block of a squeeze.
pub struct FirstBlock {
    kernel: usize,
    stride: usize,
    /// Over the query's cells, `[blocks of the encoder, taps, channels]`.
    over_query: Vec<f32>,
    /// Over the support's cells, the same.
    over_support: Vec<f32>,
    bias: Vec<f32>,
    norm: GroupNorm,
}

impl FirstBlock {
    pub fn new(block: &PivotBlock) -> Self {
        let [to, from, kernel, _] = block.conv1.weight.dims();
        let taps = kernel * kernel;
        let turned = |conv| {
            let weight = weight(conv);
            let value = |at: usize| {
                let (c, tap, o) = (at / to / taps, at / to % taps, at % to);
                weight[(o * from + c) * taps + tap]
            };
            (0..from * taps * to).map(value).collect()
        };
        Self {
            kernel,
            stride: block.conv2.stride[0],
            over_query: turned(&block.conv1),
            over_support: turned(&block.conv2),
            bias: both_biases(block),
            norm: norm(block),
        }
    }

    /// Zeros that a query's map needs around it.
    pub fn padding(&self) -> usize {
        self.kernel / 2
    }

    pub fn run(&self, query: &QueryStage, support: &SupportStage) -> CellMaps {
        let after = support.size.map(|side| side.div_ceil(self.stride));
        let own = self.bias.len() * query.grid.whole_len();
        let mut planes = vec![0.0; after[0] * after[1] * own];
        let mut band = Band::new(self, query, support);
        for (row, planes) in planes.chunks_exact_mut(after[1] * own).enumerate() {
            band.move_to(row * self.stride);
            planes.par_chunks_exact_mut(own).enumerate().for_each(|(column, out)| {
                let (starts, weight) = self.terms(&band, [row * self.stride, column * self.stride]);
                weigh_rows(&band.cosines, &starts, &weight, &self.bias, out);
            });
        }
        let values = group_norm_planes(&self.norm, &planes, query.grid);
        CellMaps { values, support: after, query: [query.grid.height, query.grid.width] }
    }

    /// Which stretches of cosines make the result at a support cell, and their weights.
    fn terms(&self, band: &Band, [y, x]: [usize; 2]) -> (Vec<usize>, Vec<f32>) {
        let (half, taps, channels) = (self.padding(), self.kernel * self.kernel, self.bias.len());
        let (pitch, span) = (band.query.grid.pitch(), band.query.grid.span());
        let (mut starts, mut weights) = (Vec::new(), Vec::new());
        let mut add = |start: usize, all: &[f32], tap: usize| {
            for block in 0..band.query.units.len() {
                starts.push(start + block * span);
                weights.extend(&all[(block * taps + tap) * channels..][..channels]);
            }
        };
        for tap in 0..taps {
            let (down, right) = (tap / self.kernel, tap % self.kernel);
            let other = (y + down).checked_sub(half).zip((x + right).checked_sub(half));
            if let Some(start) = other.and_then(|(y, x)| band.start([y, x])) {
                add(start, &self.over_support, tap);
            }
            if let Some(start) = band.start([y, x]) {
                add(start + down * pitch + right - half * (pitch + 1), &self.over_query, tap);
            }
        }
        (starts, weights)
    }
}

/// The cosines of some rows of support cells with all query cells.
struct Band<'a> {
    query: &'a QueryStage,
    support: &'a SupportStage,
    half: usize,
    /// `[cells under the mask in these rows, blocks of the encoder, padded query cells]`
    cosines: Vec<f32>,
    /// The rows that are there.
    start: usize,
    end: usize,
}

impl<'a> Band<'a> {
    fn new(block: &FirstBlock, query: &'a QueryStage, support: &'a SupportStage) -> Self {
        let half = block.padding();
        let rows = support.size[0];
        let cells = |middle: usize| {
            let (start, end) = (middle.saturating_sub(half), rows.min(middle + half + 1));
            support.before_row[end] - support.before_row[start]
        };
        let most = (0..rows).step_by(block.stride).map(cells).max().unwrap_or(0);
        let cosines = vec![0.0; most * query.units.len() * query.grid.span()];
        Self { query, support, half, cosines, start: 0, end: 0 }
    }

    /// Values of one support cell.
    fn cell_len(&self) -> usize {
        self.query.units.len() * self.query.grid.span()
    }

    /// Goes on to the rows around `middle`.
    fn move_to(&mut self, middle: usize) {
        let Self { query, support, .. } = *self;
        let before = &support.before_row;
        let start = middle.saturating_sub(self.half);
        let end = support.size[0].min(middle + self.half + 1);
        // What is there already.
        let kept = before[self.end.clamp(start, end)] - before[start];
        let len = self.cell_len();
        if kept > 0 && start > self.start {
            let from = (before[start] - before[self.start]) * len;
            self.cosines.copy_within(from..from + kept * len, 0);
        }
        let (first, new) = (before[start] + kept, before[end] - before[start] - kept);
        if new > 0 {
            let grid = &query.grid;
            let finish = Finish { activation: Activation::Relu, ..Finish::default() };
            for (block, (right, left)) in query.units.iter().zip(&support.units).enumerate() {
                let from = kept * len + block * grid.span() + grid.margin();
                let out = &mut self.cosines[from..][..(new - 1) * len + grid.len()];
                let left = &left[first * right.inner..][..new * right.inner];
                multiply(left, right, finish, out, len);
            }
        }
        (self.start, self.end) = (start, end);
    }

    /// Where the cosines of a support cell begin, unless it is beside the mask or the grid.
    fn start(&self, [y, x]: [usize; 2]) -> Option<usize> {
        let [height, width] = self.support.size;
        if y >= height || x >= width {
            return None;
        }
        let place = self.support.place[y * width + x]? - self.support.before_row[self.start];
        Some(place * self.cell_len() + self.query.grid.margin())
    }
}
