//! Vectors of length 1, laid out for a product.

use rayon::prelude::*;

use super::rows::Padded;
use crate::{
    channels_last::{Panels, panels::Line},
    simd::{LANES, Simd, Work, fast},
};

/// Cells whose norms a task computes.
const CELLS: usize = 256;
/// Channels that are turned at a time.
const CHANNELS: usize = 16;

/// The vectors of a map `[channels, height, width]`, each divided by its norm + `tiny`, as the columns of a matrix with
/// columns of zeros after each row of the map.
pub fn unit_panels(map: &[f32], grid: Padded, tiny: f32) -> Panels {
    let cells = grid.height * grid.width;
    let channels = map.len() / cells.max(1);
    assert_eq!(map.len(), channels * cells, "a map of {cells} cells");
    let norms = norms(map, cells);
    let mut panels = Panels::zeros(channels, grid.len());
    let mut parts: Vec<_> = panels.panels_mut().enumerate().collect();
    parts.par_iter_mut().for_each(|(panel, lines)| {
        // The cell of each column; columns of zeros have none.
        let cell: [Option<usize>; LANES] = std::array::from_fn(|lane| {
            let (y, x) = ((*panel * LANES + lane) / grid.pitch(), (*panel * LANES + lane) % grid.pitch());
            (y < grid.height && x < grid.width).then_some(y * grid.width + x)
        });
        let scale = cell.map(|cell| cell.map_or(0.0, |cell| 1.0 / (norms[cell] + tiny)));
        let cell = cell.map(|cell| cell.unwrap_or(0));
        fast(Scale { map, cells, cell, scale, lines });
    });
    panels
}

struct Scale<'a, 'b> {
    map: &'a [f32],
    cells: usize,
    cell: [usize; LANES],
    scale: [f32; LANES],
    lines: &'b mut [Line],
}

impl Work for Scale<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let first = self.cell[0];
        let together = self.cell.iter().zip(first..).all(|(&cell, next)| cell == next);
        for (plane, Line(lanes)) in self.map.chunks_exact(self.cells).zip(self.lines) {
            if together {
                let values = plane[first..].first_chunk::<LANES>().expect("the cells lie on the map");
                (0..LANES).for_each(|lane| lanes[lane] = values[lane] * self.scale[lane]);
            } else {
                (0..LANES).for_each(|lane| lanes[lane] = plane[self.cell[lane]] * self.scale[lane]);
            }
        }
    }
}

/// Some cells of a map `[channels, cells]`, each given with a weight (of its mask) that its vector is multiplied with
/// before it is divided by its norm + `tiny`: `[cells, channels]`.
pub fn unit_rows(map: &[f32], all_cells: usize, cells: &[(usize, f32)], tiny: f32) -> Vec<f32> {
    let channels = map.len() / all_cells.max(1);
    assert_eq!(map.len(), channels * all_cells, "a map of {all_cells} cells");
    let mut rows = vec![0.0; cells.len() * channels];
    rows.par_chunks_mut((CHANNELS * channels).max(1)).zip(cells.par_chunks(CHANNELS)).for_each(
        |(rows, cells)| {
            for (start, planes) in (0..).step_by(CHANNELS).zip(map.chunks(CHANNELS * all_cells)) {
                for (row, &(cell, _)) in rows.chunks_exact_mut(channels).zip(cells) {
                    let values = planes.chunks_exact(all_cells).map(|plane| plane[cell]);
                    row[start..].iter_mut().zip(values).for_each(|(to, value)| *to = value);
                }
            }
            for (row, &(_, weight)) in rows.chunks_exact_mut(channels).zip(cells) {
                let square: f64 = row.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
                let scale = weight / (weight * square.sqrt() as f32 + tiny);
                row.iter_mut().for_each(|value| *value *= scale);
            }
        },
    );
    rows
}

/// The norm of each cell's vector.
fn norms(map: &[f32], cells: usize) -> Vec<f32> {
    let mut norms = vec![0.0; cells];
    norms.par_chunks_mut(CELLS).enumerate().for_each(|(part, norms)| {
        let mut squares = [0.0; CELLS];
        fast(Squares { map, cells, first: part * CELLS, sums: &mut squares[..norms.len()] });
        norms.iter_mut().zip(squares).for_each(|(norm, square)| *norm = square.sqrt() as f32);
    });
    norms
}

struct Squares<'a, 'b> {
    map: &'a [f32],
    cells: usize,
    first: usize,
    sums: &'b mut [f64],
}

impl Work for Squares<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for plane in self.map.chunks_exact(self.cells) {
            for (sum, &value) in self.sums.iter_mut().zip(&plane[self.first..]) {
                *sum += f64::from(value) * f64::from(value);
            }
        }
    }
}
