//! Transformed tiles or weights: for each place in a transformed tile a matrix.

use rayon::prelude::*;

use super::tile::{LANES, Lanes};
use crate::{matmul::Matrix, scratch::Scratch};

/// `[place][row][column]`, with the places a little apart: at a distance of whole pages, the same spot of every
/// place would compete for the same few lines of the cache.
pub struct Spectrum {
    values: Scratch,
    pub rows: usize,
    pub columns: usize,
    stride: usize,
}

impl Spectrum {
    /// Of unknown values.
    pub fn new(places: usize, rows: usize, columns: usize) -> Self {
        let stride = (rows * columns).next_multiple_of(LANES) | LANES;
        Self { values: Scratch::new(places * stride), rows, columns, stride }
    }

    pub fn matrix(&self, place: usize) -> Matrix<'_> {
        Matrix::new(&self.values[place * self.stride..], self.rows, self.columns)
    }

    pub fn places_mut(&mut self) -> impl IndexedParallelIterator<Item = &mut [f32]> {
        self.values.par_chunks_mut(self.stride)
    }

    /// One row of every place.
    pub fn row(&self, row: usize) -> Vec<&[f32]> {
        self.values.chunks(self.stride).map(|place| &place[row * self.columns..][..self.columns]).collect()
    }

    /// For each row, that row of every place.
    pub fn rows_mut(&mut self) -> Vec<Vec<&mut [f32]>> {
        let mut rows: Vec<Vec<&mut [f32]>> = (0..self.rows).map(|_| Vec::with_capacity(64)).collect();
        for place in self.values.chunks_mut(self.stride) {
            for (row, values) in rows.iter_mut().zip(place.chunks_mut(self.columns)) {
                row.push(values);
            }
        }
        rows
    }
}

/// Writes the lanes of each place to its row; the last chunk of a row may be short.
#[inline(always)]
pub fn store<const N: usize>(y: &[[Lanes; N]; N], row: &mut [&mut [f32]], chunk: usize) {
    for (lanes, row) in y.as_flattened().iter().zip(row) {
        let row = &mut row[chunk * LANES..];
        match row.first_chunk_mut() {
            Some(row) => *row = *lanes,
            None => row.copy_from_slice(&lanes[..row.len()]),
        }
    }
}

/// The opposite of [`store`].
#[inline(always)]
pub fn load<const N: usize>(x: &mut [[Lanes; N]; N], row: &[&[f32]], chunk: usize) {
    for (lanes, row) in x.as_flattened_mut().iter_mut().zip(row) {
        let row = &row[chunk * LANES..];
        match row.first_chunk() {
            Some(row) => *lanes = *row,
            None => lanes[..row.len()].copy_from_slice(row),
        }
    }
}
