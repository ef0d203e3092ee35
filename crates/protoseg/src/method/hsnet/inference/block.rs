//! Centre-pivot 4D convolutions after the first: channels of a pair lie together.

use burn::{module::Param, tensor::Tensor};
use protoseg_kernels::{
    Activation,
    channels_last::{PackedConv, Panels},
    pairs::{GroupNorm, add_products, group_norm},
};

use super::{bias, weight};
use crate::{
    bridge::ConvGeometry,
    method::hsnet::centre_pivot::{self, EPSILON, GROUPS, PivotBlock},
};

/// Values for pairs of cells.
pub struct CellMaps {
    /// `[support cells, query cells, channels]`
    pub values: Vec<f32>,
    /// `[height, width]` of the support's grid.
    pub support: [usize; 2],
    /// `[height, width]` of the query's.
    pub query: [usize; 2],
}

impl CellMaps {
    /// Values of one support cell.
    pub fn cell_len(&self) -> usize {
        self.values.len() / (self.support[0] * self.support[1])
    }

    /// The map of one support cell, `[query cells, channels]`.
    pub fn cell(&self, cell: usize) -> &[f32] {
        &self.values[cell * self.cell_len()..][..self.cell_len()]
    }

    /// The mean over the support's cells, `[query cells, channels]`.
    pub fn mean(&self) -> Vec<f32> {
        let mut cells = self.values.chunks_exact(self.cell_len());
        let mut mean = cells.next().expect("there is a cell").to_vec();
        for cell in cells {
            mean.iter_mut().zip(cell).for_each(|(sum, value)| *sum += value);
        }
        let count = (self.support[0] * self.support[1]) as f32;
        mean.iter_mut().for_each(|sum| *sum /= count);
        mean
    }
}

/// A 4D convolution, group normalisation, ReLU, packed for queries of one size.
pub struct Block {
    /// Over the query's cells, at one support cell. Its bias is that of both.
    over_query: PackedConv,
    /// Over the support's cells: `[taps * channels before, channels after]`.
    over_support: Panels,
    kernel: usize,
    stride: usize,
    norm: GroupNorm,
}

impl Block {
    pub fn new(block: &PivotBlock, [height, width]: [usize; 2]) -> Self {
        let [to, from, kernel, _] = block.conv1.weight.dims();
        let shape = ConvGeometry::of(&block.conv1).shape([1, from, height, width], to, kernel);
        let taps = kernel * kernel;
        let second = weight(&block.conv2);
        let over_support = Panels::new(taps * from, to, |row, o| {
            let (tap, c) = (row / from, row % from);
            second[(o * from + c) * taps + tap]
        });
        let over_query = PackedConv::new(shape, &weight(&block.conv1), &both_biases(block), Activation::None);
        Self { over_query, over_support, kernel, stride: block.conv2.stride[0], norm: norm(block) }
    }

    pub fn run(&self, maps: &CellMaps) -> CellMaps {
        let support = maps.support.map(|side| side.div_ceil(self.stride));
        let (from, to) = (self.over_query.shape().from, self.over_query.shape().to);
        let query = maps.query[0] * maps.query[1];
        let mut values = vec![0.0; support[0] * support[1] * query * to];
        let taps = centre_pivot::taps(maps.support, self.kernel, self.stride);
        for ((cell, taps), out) in taps.iter().enumerate().zip(values.chunks_exact_mut(query * to)) {
            let (y, x) = (cell / support[1] * self.stride, cell % support[1] * self.stride);
            self.over_query.run(maps.cell(y * maps.support[1] + x), None, out, to);
            let terms: Vec<(&[f32], usize)> = taps
                .iter()
                .enumerate()
                .filter_map(|(before, tap)| Some((maps.cell(before), (*tap)? * from)))
                .collect();
            add_products(&terms, from, &self.over_support, out);
        }
        group_norm(&self.norm, &mut values);
        CellMaps { values, support, query: maps.query }
    }
}

/// The two convolutions' biases, added.
pub fn both_biases(block: &PivotBlock) -> Vec<f32> {
    bias(&block.conv1).into_iter().zip(bias(&block.conv2)).map(|(a, b)| a + b).collect()
}

/// A block's normalisation.
pub fn norm(block: &PivotBlock) -> GroupNorm {
    let values = |param: &Param<Tensor<1>>| param.val().try_into_vec_as().expect("weights are f32");
    GroupNorm {
        groups: GROUPS,
        weight: values(&block.norm.weight),
        bias: values(&block.norm.bias),
        epsilon: EPSILON,
    }
}
