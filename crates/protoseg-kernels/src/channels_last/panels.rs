//! Matrix products whose right side is constant: it is packed once, the left side is read as it lies, and what follows the
//! product is done before its result leaves the registers.

use rayon::prelude::*;

use crate::{
    Activation,
    simd::{Simd, Work, fast},
};

/// Columns of a panel.
pub const LANES: usize = 16;
// A literal: with the constant, rustc 1.95 fails on closures that capture a `Finish`.
pub type Lanes = [f32; 16];

/// Rows of the right side that are multiplied in one go: their part of a panel stays in the nearest cache. Less of it would
/// mean sums that are stored and fetched again more often.
const DEPTH: usize = 512;
/// Most rows of the left side that one task multiplies: with [`DEPTH`] columns they stay in the second cache.
const ROWS: usize = 48;

/// A matrix, `[inner, outer]`, cut into panels of [`LANES`] columns: `[panel][row][lane]`, the last one filled with zeros.
#[derive(Clone, Debug)]
pub struct Panels {
    pub inner: usize,
    pub outer: usize,
    data: Vec<Lanes>,
}

impl Panels {
    /// `value(row, column)` gives the matrix.
    pub fn new(inner: usize, outer: usize, value: impl Fn(usize, usize) -> f32 + Sync) -> Self {
        let mut panels = Self::zeros(inner, outer);
        panels.data.par_chunks_mut(inner.max(1)).enumerate().for_each(|(panel, rows)| {
            for (row, lanes) in rows.iter_mut().enumerate() {
                let columns = panel * LANES..outer.min((panel + 1) * LANES);
                for (lane, column) in lanes.iter_mut().zip(columns) {
                    *lane = value(row, column);
                }
            }
        });
        panels
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&self.data[..])
    }

    pub(super) fn zeros(inner: usize, outer: usize) -> Self {
        Self { inner, outer, data: vec![[0.0; LANES]; inner * outer.div_ceil(LANES)] }
    }

    pub(super) fn panels_mut(&mut self) -> impl Iterator<Item = &mut [Lanes]> {
        self.data.chunks_mut(self.inner.max(1))
    }
}

/// Values in lanes, the last ones filled with zeros.
pub fn lanes(values: &[f32]) -> Vec<Lanes> {
    let part = |part: &[f32]| std::array::from_fn(|lane| part.get(lane).copied().unwrap_or(0.0));
    values.chunks(LANES).map(part).collect()
}

/// What is done to the sums of a product before they are stored: `activation(sum + bias + add)`, each part if it is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finish<'a> {
    /// One value per column, in lanes.
    pub bias: Option<&'a [Lanes]>,
    /// Laid out as the result.
    pub add: Option<&'a [f32]>,
    pub activation: Activation,
}

/// `out = finish(left right)`: as many rows of `left` as there are in `out`, whose rows are `stride` apart.
pub fn multiply(left: &[f32], right: &Panels, finish: Finish, out: &mut [f32], stride: usize) {
    assert!(stride >= right.outer, "rows of {} columns cannot be {stride} apart", right.outer);
    let rows = out.len().div_ceil(stride.max(1));
    assert_eq!(left.len(), rows * right.inner, "{rows} rows of {}", right.inner);
    let block = share(rows, ROWS);
    out.par_chunks_mut((block * stride).max(1)).enumerate().for_each(|(index, out)| {
        let first = index * block;
        let rows = block.min(rows - first);
        fast(Block {
            left: &left[first * right.inner..][..rows * right.inner],
            rows,
            right,
            from: 0,
            depth: right.inner,
            accumulate: false,
            finish: Finish { add: finish.add.map(|add| &add[first * stride..]), ..finish },
            out,
            stride,
        });
    });
}

/// How many of `all` things a task should take so that every thread gets the same, and none more than `most` at a time.
pub fn share(all: usize, most: usize) -> usize {
    let each = all.div_ceil(rayon::current_num_threads()).max(1);
    each.div_ceil(each.div_ceil(most.max(1)))
}

/// One thread's product.
pub struct Block<'a> {
    /// `[rows, depth]`
    pub left: &'a [f32],
    pub rows: usize,
    pub right: &'a Panels,
    /// The first of the `depth` rows of `right` that take part.
    pub from: usize,
    pub depth: usize,
    /// Whether `out` holds sums to go on from.
    pub accumulate: bool,
    pub finish: Finish<'a>,
    pub out: &'a mut [f32],
    pub stride: usize,
}

impl Work for Block<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        for start in (0..self.depth).step_by(DEPTH) {
            let end = self.depth.min(start + DEPTH);
            for panel in 0..self.right.outer.div_ceil(LANES) {
                let mut row = 0;
                while row < self.rows {
                    // Twelve wide or six double registers of sums keep the machine busy; what is left over is halved.
                    let tile = Tile { row, panel, start, end };
                    row += match self.rows - row {
                        left if S::WIDE && left >= 12 => self.tile::<S, 12>(tile),
                        12.. | 6 | 11 => self.tile::<S, 6>(tile),
                        9 | 10 | 5 => self.tile::<S, 5>(tile),
                        7 | 8 | 4 => self.tile::<S, 4>(tile),
                        3 => self.tile::<S, 3>(tile),
                        2 => self.tile::<S, 2>(tile),
                        _ => self.tile::<S, 1>(tile),
                    };
                }
            }
        }
    }
}

/// Where a tile's sums are, and which part of the depth is added to them.
#[derive(Clone, Copy)]
struct Tile {
    row: usize,
    panel: usize,
    start: usize,
    end: usize,
}

impl Block<'_> {
    /// `R` rows times one panel; returns `R`.
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(&mut self, Tile { row, panel, start, end }: Tile) -> usize {
        let width = LANES.min(self.right.outer - panel * LANES);
        let at = |r: usize| (row + r) * self.stride + panel * LANES;
        let mut sums = [[0.0; LANES]; R];
        if self.accumulate || start > 0 {
            for (r, sums) in sums.iter_mut().enumerate() {
                read(sums, &self.out[at(r)..], width);
            }
        } else if let Some(bias) = self.finish.bias {
            sums = [bias[panel]; R];
        }
        let lines: [&[f32]; R] =
            std::array::from_fn(|r| &self.left[(row + r) * self.depth + start..][..end - start]);
        let taps = &self.right.data[panel * self.right.inner + self.from..][start..end];
        let mut fast_sums = sums;
        for (i, taps) in taps.iter().enumerate() {
            for (sums, line) in fast_sums.iter_mut().zip(&lines) {
                let value = line[i];
                for (sum, &tap) in sums.iter_mut().zip(taps) {
                    *sum = S::mul_add(value, tap, *sum);
                }
            }
        }
        sums = fast_sums;
        if end == self.depth {
            if let Some(add) = self.finish.add {
                for (r, sums) in sums.iter_mut().enumerate() {
                    let mut more = [0.0; LANES];
                    read(&mut more, &add[at(r)..], width);
                    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                }
            }
            self.finish.activation.apply(sums.as_flattened_mut());
        }
        for (r, sums) in sums.iter().enumerate() {
            write(&mut self.out[at(r)..], sums, width);
        }
        R
    }
}

/// The first `width` values of `from`. Lane by lane where they are fewer than [`LANES`]: given two copies, the compiler
/// would make one of them, a slow call of `memmove` for every length.
#[inline(always)]
pub fn read(to: &mut Lanes, from: &[f32], width: usize) {
    if width == LANES {
        *to = *from.first_chunk().expect("as many values as lanes");
    } else {
        (0..LANES).filter(|&lane| lane < width).for_each(|lane| to[lane] = from[lane]);
    }
}

/// The opposite of [`read`].
#[inline(always)]
pub fn write(to: &mut [f32], from: &Lanes, width: usize) {
    if width == LANES {
        *to.first_chunk_mut().expect("as many values as lanes") = *from;
    } else {
        (0..LANES).filter(|&lane| lane < width).for_each(|lane| to[lane] = from[lane]);
    }
}
