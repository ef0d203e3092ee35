//! Matrices of any strides in tiles.

use std::ops::Range;

use rayon::prelude::*;

use super::{DEPTH, Left};
use crate::{
    channels_last::LANES,
    scratch::Scratch,
    simd::{Simd, TILE, Work, fast_pairs},
};

/// Numbers in sixteen lines of a matrix along which products are summed: neighbours in a line `along` apart, lines
/// `across`, one of them 1.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    pub data: &'a [f32],
    /// How many there are to sum along.
    pub depth: usize,
    /// How many lines.
    pub count: usize,
    pub along: usize,
    pub across: usize,
}

impl Columns<'_> {
    /// Tiles of up to sixteen lines from `first` on: `[step][part]`, each `[line][pair]` if `lines_first`, else
    /// `[pair][line]`.
    #[inline(always)]
    fn fill<S: Simd>(
        &self,
        first: usize,
        steps: Range<usize>,
        parts: usize,
        lines_first: bool,
        to: &mut [f32],
    ) {
        let count = LANES.min(self.count.saturating_sub(first));
        for (step, to) in steps.zip(to.chunks_exact_mut(parts * TILE)) {
            let depth = step * DEPTH..self.depth.min((step + 1) * DEPTH);
            let (rounded, rest) = to.split_at_mut(TILE);
            let rounded: &mut [f32; TILE] = rounded.first_chunk_mut().expect("a tile");
            let mut unused = [0.0; TILE];
            let rest: &mut [f32; TILE] = rest.first_chunk_mut().unwrap_or(&mut unused);
            let is_turned = if self.along == 1 {
                for line in 0..LANES {
                    let values = if line < count {
                        &self.data[(first + line) * self.across..][depth.clone()]
                    } else {
                        &[]
                    };
                    let place = line * LANES..(line + 1) * LANES;
                    S::split_pairs(values, array(&mut rounded[place.clone()]), array(&mut rest[place]));
                }
                !lines_first
            } else {
                for pair in 0..LANES {
                    let row = |at: usize| {
                        let at = depth.start + 2 * pair + at;
                        if at < depth.end && count > 0 {
                            &self.data[at * self.along + first..][..count]
                        } else {
                            &[]
                        }
                    };
                    let place = pair * LANES..(pair + 1) * LANES;
                    let two = [row(0), row(1)];
                    S::pair_lines(two, array(&mut rounded[place.clone()]), array(&mut rest[place]));
                }
                lines_first
            };
            if is_turned {
                S::turn_tile(rounded);
                if parts > 1 {
                    S::turn_tile(rest);
                }
            }
        }
    }
}

#[inline(always)]
fn array(line: &mut [f32]) -> &mut [f32; LANES] {
    line.first_chunk_mut().expect("a line of a tile")
}

/// Rows of the left side, from `first` on.
pub struct MatrixRows<'a> {
    pub lines: Columns<'a>,
    pub first: usize,
}

impl Left for MatrixRows<'_> {
    #[inline(always)]
    fn fill<S: Simd>(&self, first: usize, _rows: usize, steps: Range<usize>, parts: usize, to: &mut [f32]) {
        self.lines.fill::<S>(self.first + first, steps, parts, true, to);
    }
}

/// All columns of the right side as panels of tiles.
pub fn pack(lines: Columns, parts: usize, threads: usize) -> Scratch {
    let steps = lines.depth.div_ceil(DEPTH);
    let panels = lines.count.div_ceil(2 * LANES) * 2;
    let panel_len = (steps * parts * TILE).max(1);
    let mut data = Scratch::new(panels * steps * parts * TILE);
    let fill = |(panel, to): (usize, &mut [f32])| {
        fast_pairs(Fill { lines, first: panel * LANES, steps: 0..steps, parts, to });
    };
    if threads > 1 {
        data.par_chunks_mut(panel_len).enumerate().for_each(fill);
    } else {
        data.chunks_mut(panel_len).enumerate().for_each(fill);
    }
    data
}

struct Fill<'a, 'b> {
    lines: Columns<'a>,
    first: usize,
    steps: Range<usize>,
    parts: usize,
    to: &'b mut [f32],
}

impl Work for Fill<'_, '_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        self.lines.fill::<S>(self.first, self.steps, self.parts, false, self.to);
    }
}
