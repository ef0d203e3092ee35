//! Matrix products whose right side is constant: it is packed once, the left side is read as it lies, and what
//! follows the product is done before its result leaves the registers.

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    Activation, Precision,
    scratch::Scratch,
    simd::{Simd, Work, fast, fast_pairs, has_pairs, has_tiles, pair_of, prefetch, unrolled},
    tiles::{self, Right},
};

pub use crate::simd::LANES;

// A literal: with the constant, rustc 1.95 fails on closures that capture a `Finish`.
pub type Lanes = [f32; 16];

/// Rows of the right side that are multiplied in one go: their part of a panel stays in the nearest cache. Less of
/// it would mean sums that are stored and fetched again more often. Machines without wide registers have 32 KiB of that
/// cache: with 512 rows, a product of 3,600 x 512 x 512 took 28 ms there, and 22 with 256.
const fn depth<S: Simd>() -> usize {
    if S::WIDE { 512 } else { 256 }
}
/// Lines of panels that stay in the nearest cache beside what else is used, 16 KiB.
const SMALL: usize = 256;
/// Most rows of the left side that one task multiplies: with [`depth`] columns they stay in the second cache.
const ROWS: usize = 48;

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Products {
    /// In single precision.
    Plain,
    /// Of numbers rounded to bfloat16, two of them in a lane.
    Pairs,
    /// Of numbers rounded to bfloat16, by tiles.
    Tiles,
}

impl Products {
    /// What this machine does fastest with this precision and a matrix of `inner` rows and `outer` columns.
    pub fn of(precision: Precision, inner: usize, outer: usize) -> Self {
        // Below, most of a tile would be zeros.
        let fills_tiles = inner >= 32 && outer >= 24;
        match precision {
            Precision::Fast if has_tiles() && fills_tiles => Self::Tiles,
            // A CPU that has both (Sapphire Rapids) took 50 ms per photo with pairs in the model in the box, and 34 without.
            Precision::Fast if has_pairs() && !has_tiles() => Self::Pairs,
            _ => Self::Plain,
        }
    }
}

/// A vector of a panel, which is a line of the caches.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Line(pub Lanes);

/// A matrix, `[inner, outer]`, cut into panels of [`LANES`] columns: `[panel][row][lane]`, the last one filled with
/// zeros. With pairs, a lane holds the numbers of two rows. With tiles it does too, there is an even number of panels, and
/// their rows are a multiple of 32.
#[derive(Clone, Debug)]
pub struct Panels {
    pub inner: usize,
    pub outer: usize,
    products: Products,
    data: Vec<Line>,
}

impl Panels {
    /// `value(row, column)` gives the matrix.
    pub fn new(inner: usize, outer: usize, value: impl Fn(usize, usize) -> f32 + Sync) -> Self {
        let mut panels = Self::zeros(inner, outer);
        panels.data.par_chunks_mut(inner.max(1)).enumerate().for_each(|(panel, rows)| {
            for (row, Line(lanes)) in rows.iter_mut().enumerate() {
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

    /// The matrix as the right side of a product.
    pub(crate) fn view(&self) -> PanelsView<'_> {
        let &Self { inner, outer, products, ref data } = self;
        PanelsView { inner, outer, products, data }
    }

    pub(crate) fn zeros(inner: usize, outer: usize) -> Self {
        let data = vec![Line([0.0; LANES]); inner * outer.div_ceil(LANES)];
        Self { inner, outer, products: Products::Plain, data }
    }

    /// The same matrix for such products. Those that round it round the left side in the same way; sums are in single
    /// precision.
    pub(crate) fn with_products(self, products: Products) -> Self {
        assert_eq!(self.products, Products::Plain, "a matrix is brought into its form once");
        let panels = self.data.chunks(self.inner.max(1));
        let data = match products {
            Products::Plain => return self,
            Products::Pairs => panels.flat_map(|panel| panel.chunks(2).map(pair_lines)).collect(),
            Products::Tiles => {
                let lines = self.inner.div_ceil(tiles::DEPTH) * LANES;
                let empty = (!panels.len().is_multiple_of(2)).then_some(&[][..]);
                let filled = |panel: &[Line]| {
                    let mut panel: Vec<Line> = panel.chunks(2).map(pair_lines).collect();
                    panel.resize(lines, Line([0.0; LANES]));
                    panel
                };
                panels.chain(empty).flat_map(filled).collect()
            }
        };
        Self { products, data, ..self }
    }

    pub(crate) fn products(&self) -> Products {
        self.products
    }

    /// The right side of products by tiles.
    pub(super) fn tiles(&self) -> Option<Right<'_>> {
        self.view().tiles()
    }

    pub(crate) fn panels_mut(&mut self) -> impl Iterator<Item = &mut [Line]> {
        self.data.chunks_mut(self.inner.max(1))
    }
}

/// The lines of [`Panels`], wherever they lie.
#[derive(Clone, Copy, Debug)]
pub struct PanelsView<'a> {
    pub inner: usize,
    pub outer: usize,
    products: Products,
    data: &'a [Line],
}

impl<'a> PanelsView<'a> {
    /// A matrix for products in single precision.
    pub fn of_lines(data: &'a [Line], inner: usize, outer: usize) -> Self {
        assert_eq!(data.len(), inner * outer.div_ceil(LANES), "lines of {inner} x {outer}");
        Self { inner, outer, products: Products::Plain, data }
    }

    /// The right side of products by tiles.
    fn tiles(self) -> Option<Right<'a>> {
        if self.products != Products::Tiles {
            return None;
        }
        let len = self.data.len() * LANES;
        // SAFETY: lines are arrays of sixteen values that fill their alignment, so one follows the other.
        let data = unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast(), len) };
        Some(Right { data, inner: self.inner, outer: self.outer })
    }

    /// Vectors of a panel: its rows, or pairs of them.
    fn lines(self) -> usize {
        if self.products == Products::Pairs { self.inner.div_ceil(2) } else { self.inner }
    }
}

/// Values from the beginning of a line of the caches on, as lines.
pub fn as_lines(values: &mut [f32]) -> &mut [Line] {
    // SAFETY: a line is sixteen values of any kind.
    let (before, lines, _) = unsafe { values.align_to_mut() };
    assert!(before.is_empty(), "values that begin a line");
    lines
}

/// How many rows further on the next ones are asked for where they lie far apart: the machine does not see them coming.
const NEXT: usize = 16;

/// Panels of a matrix of `outer` columns, whose rows lie in `values`, `stride` apart: as many as fill `lines`.
pub(super) fn pack_rows(values: &[f32], stride: usize, outer: usize, lines: &mut [Line]) {
    let inner = lines.len() / outer.div_ceil(LANES);
    for (panel, lines) in lines.chunks_exact_mut(inner).enumerate() {
        let columns = panel * LANES..outer.min((panel + 1) * LANES);
        for (Line(lanes), row) in lines.iter_mut().zip(values.chunks(stride)) {
            let row = &row[columns.clone()];
            prefetch(row.as_ptr().wrapping_add(NEXT * stride));
            match row.first_chunk() {
                Some(row) => *lanes = *row,
                None => (0..LANES).for_each(|lane| lanes[lane] = row.get(lane).copied().unwrap_or(0.0)),
            }
        }
    }
}

/// Panels of a matrix of `inner` rows, whose columns lie in `values`, `stride` apart, times a number: as many as fill
/// `lines`.
pub(super) fn pack_columns(values: &[f32], stride: usize, inner: usize, times: f32, lines: &mut [Line]) {
    let mut columns = values.chunks(stride);
    for lines in lines.chunks_exact_mut(inner) {
        for lane in 0..LANES {
            match columns.next() {
                Some(column) => {
                    for (line, value) in lines.iter_mut().zip(&column[..inner]) {
                        line.0[lane] = times * value;
                    }
                    let next = column.as_ptr().wrapping_add(NEXT * stride);
                    (0..inner).step_by(LANES).for_each(|line| prefetch(next.wrapping_add(line)));
                }
                None => lines.iter_mut().for_each(|line| line.0[lane] = 0.0),
            }
        }
    }
}

/// One or two rows of a panel, rounded to bfloat16.
fn pair_lines(rows: &[Line]) -> Line {
    let second = |lane: usize| rows.get(1).map_or(0.0, |second| second.0[lane]);
    Line(std::array::from_fn(|lane| pair_of(rows[0].0[lane], second(lane))))
}

/// Values in lanes, the last ones filled with zeros.
pub fn lanes(values: &[f32]) -> Vec<Lanes> {
    let part = |part: &[f32]| std::array::from_fn(|lane| part.get(lane).copied().unwrap_or(0.0));
    values.chunks(LANES).map(part).collect()
}

/// What is done to the sums of a product before they are stored: `activation(sum + bias + add)`, each part if it is
/// there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finish<'a> {
    /// One value per column, in lanes.
    pub bias: Option<&'a [Lanes]>,
    /// Laid out as the result.
    pub add: Option<&'a [f32]>,
    /// Whether what is there where the result goes is added, too. Only [`multiply`] does that, of a matrix without tiles.
    pub onto: bool,
    pub activation: Activation,
}

/// `out = finish(left right)`: as many rows of `left` as there are in `out`, whose rows are `stride` apart.
pub fn multiply(left: &[f32], right: &Panels, finish: Finish, out: &mut [f32], stride: usize) {
    assert!(stride >= right.outer, "rows of {} columns cannot be {stride} apart", right.outer);
    let rows = out.len().div_ceil(stride.max(1));
    assert_eq!(left.len(), rows * right.inner, "{rows} rows of {}", right.inner);
    let block = share(rows, if right.tiles().is_some() { tiles::ROWS } else { ROWS });
    out.par_chunks_mut((block * stride).max(1)).enumerate().for_each(|(index, out)| {
        let first = index * block;
        let rows = block.min(rows - first);
        multiply_block(Block {
            left: &left[first * right.inner..][..rows * right.inner],
            left_stride: right.inner,
            rows,
            right: right.view(),
            from: 0,
            depth: right.inner,
            accumulate: false,
            finish: Finish { add: finish.add.map(|add| &add[first * stride..]), ..finish },
            out,
            stride,
        });
    });
}

/// How many of `all` things a task should take so that every thread gets the same, and none more than `most` at a
/// time.
pub fn share(all: usize, most: usize) -> usize {
    let each = all.div_ceil(rayon::current_num_threads()).max(1);
    each.div_ceil(each.div_ceil(most.max(1)))
}

/// The share of the busiest of so many threads in work that consists of so many equal things.
pub fn busiest(things: usize, threads: usize) -> f64 {
    let things = things.max(1);
    things.div_ceil(threads.max(1)) as f64 / things as f64
}

/// One thread's product, by the instructions that suit its right side.
pub fn multiply_block(block: Block) {
    match block.right.products {
        Products::Plain => fast(block),
        _ => fast_pairs(Rounded(block)),
    }
}

/// One thread's product.
pub struct Block<'a> {
    /// `[rows, depth]`, rows `left_stride` apart: they may overlap.
    pub left: &'a [f32],
    pub left_stride: usize,
    pub rows: usize,
    pub right: PanelsView<'a>,
    /// The first of the `depth` rows of `right` that take part.
    pub from: usize,
    pub depth: usize,
    /// Whether `out` holds sums to go on from.
    pub accumulate: bool,
    pub finish: Finish<'a>,
    pub out: &'a mut [f32],
    pub stride: usize,
}

/// An activation applied to sums in registers.
macro_rules! activate {
    ($S:ty, $activation:expr, $sums:ident, $R:expr, $P:expr) => {
        let activation: Activation = $activation;
        if activation != Activation::None {
            let zero = <$S>::splat(0.0);
            unrolled!(r in 0..$R, at most 12, {
                unrolled!(p in 0..$P, at most 2, { $sums[r][p] = <$S>::max($sums[r][p], zero) });
            });
        }
        if activation == Activation::Relu6 {
            let six = <$S>::splat(6.0);
            unrolled!(r in 0..$R, at most 12, {
                unrolled!(p in 0..$P, at most 2, { $sums[r][p] = <$S>::min($sums[r][p], six) });
            });
        }
    };
}
pub(crate) use activate;

impl Work for Block<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        assert_eq!(self.right.products, Products::Plain, "others have their own instructions");
        if self.rows > 0 && self.right.outer > 0 {
            self.check();
            self.tiles::<S, false>();
        }
    }
}

/// A product with a matrix of pairs or tiles. The left side is brought into the same form first.
pub struct Rounded<'a>(pub Block<'a>);

impl Work for Rounded<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self(block) = self;
        if block.rows == 0 || block.right.outer == 0 {
            return;
        }
        block.check();
        if let Some(right) = block.right.tiles() {
            let Block { left, left_stride, rows, from, depth, accumulate, finish, out, stride, .. } = block;
            assert!(from == 0 && depth == right.inner && !accumulate, "tiles are multiplied as a whole");
            return tiles::Tiled { left, left_stride, rows, right, finish, out, stride }.run::<S>();
        }
        assert!(block.from % 2 == 0, "a product begins with a whole pair");
        let depth = block.depth.div_ceil(2);
        let mut left = Scratch::new(block.rows * depth);
        for row in 0..block.rows {
            let values = &block.left[row * block.left_stride..][..block.depth];
            S::round_pairs(values, &mut left[row * depth..][..depth]);
        }
        Block { left: &left, left_stride: depth, from: block.from / 2, depth, ..block }.tiles::<S, true>();
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
    /// The whole product, tile by tile. [`Self::check`] passed; with pairs, depths are counted in pairs.
    #[inline(always)]
    fn tiles<S: Simd, const PAIRED: bool>(mut self) {
        let panels = self.right.outer.div_ceil(LANES);
        // A product of no depth still has a bias.
        for start in (0..self.depth.max(1)).step_by(depth::<S>()) {
            let end = self.depth.min(start + depth::<S>());
            // If all panels stay in the nearest cache, rows of the result are written from end to end.
            let is_small = (end - start) * panels <= SMALL;
            for first in (0..self.rows).step_by(if is_small { 12 } else { self.rows }) {
                let rows = if is_small { first..self.rows.min(first + 12) } else { 0..self.rows };
                let mut panel = 0;
                while panel < panels {
                    // Two panels share each value of the left side, if their sums fit in registers.
                    panel += if S::WIDE && panel + 1 < panels {
                        self.panels::<S, PAIRED, 2>(rows.clone(), panel, start, end)
                    } else {
                        self.panels::<S, PAIRED, 1>(rows.clone(), panel, start, end)
                    };
                }
            }
        }
    }

    /// Every value that a tile reads or writes exists.
    fn check(&self) {
        let &Self { left, left_stride, rows, right, from, depth, ref finish, ref out, stride, .. } = self;
        let panels = right.outer.div_ceil(LANES);
        let reach = (rows - 1) * stride + right.outer;
        assert!(
            left.len() >= (rows - 1) * left_stride + depth,
            "{rows} rows of {depth}, {left_stride} apart"
        );
        assert!(from + depth <= right.inner);
        let is_tiled = right.tiles().is_some();
        assert!(is_tiled || right.data.len() == panels * right.lines());
        assert!(stride >= right.outer && out.len() >= reach, "{rows} rows, {stride} apart");
        assert!(finish.add.is_none_or(|add| add.len() >= reach), "{rows} rows to add, {stride} apart");
        assert!(finish.bias.is_none_or(|bias| bias.len() >= panels), "{panels} panels of bias");
    }

    /// Some rows times `P` panels; returns `P`.
    #[inline(always)]
    fn panels<S: Simd, const PAIRED: bool, const P: usize>(
        &mut self,
        rows: Range<usize>,
        panel: usize,
        start: usize,
        end: usize,
    ) -> usize {
        let mut row = rows.start;
        while row < rows.end {
            // Twelve wide or six double registers of sums keep the machine busy; what is left over is halved.
            let tile = Tile { row, panel, start, end };
            // SAFETY: `check` passed, there are `P` panels from this one on and as many rows as the tile has.
            row += unsafe {
                match rows.end - row {
                    left if S::WIDE && left >= 12 => self.tile::<S, PAIRED, 12, P>(tile),
                    12.. | 6 | 11 => self.tile::<S, PAIRED, 6, P>(tile),
                    9 | 10 | 5 => self.tile::<S, PAIRED, 5, P>(tile),
                    7 | 8 | 4 => self.tile::<S, PAIRED, 4, P>(tile),
                    3 => self.tile::<S, PAIRED, 3, P>(tile),
                    2 => self.tile::<S, PAIRED, 2, P>(tile),
                    _ => self.tile::<S, PAIRED, 1, P>(tile),
                }
            };
        }
        P
    }

    /// `R` rows times `P` panels; returns `R`.
    ///
    /// # Safety
    /// [`Self::check`] passed, and the rows, panels and depth of the tile are some of this block's.
    #[inline(always)]
    unsafe fn tile<S: Simd, const PAIRED: bool, const R: usize, const P: usize>(
        &mut self,
        tile: Tile,
    ) -> usize {
        let Tile { row, panel, start, end } = tile;
        // Only the last panel can be narrower than the others.
        let last_width = LANES.min(self.right.outer - (panel + P - 1) * LANES);
        let width = |p: usize| if p + 1 == P { last_width } else { LANES };
        let corner = row * self.stride + panel * LANES;
        let mut sums = [[S::splat(0.0); P]; R];
        let is_first = !self.accumulate && start == 0;
        if !is_first || self.finish.onto {
            let out = self.out.as_ptr().wrapping_add(corner);
            unrolled!(r in 0..R, at most 12, {
                unrolled!(p in 0..P, at most 2, {
                    // SAFETY: `check` saw the end of the last row.
                    sums[r][p] = unsafe { read_vector::<S>(out.add(r * self.stride + p * LANES), width(p)) };
                });
            });
        }
        if let (true, Some(bias)) = (is_first, self.finish.bias) {
            unrolled!(p in 0..P, at most 2, {
                let bias = S::load(&bias[panel + p]);
                unrolled!(r in 0..R, at most 12, { sums[r][p] = S::add(sums[r][p], bias) });
            });
        }
        let left = self.left.as_ptr().wrapping_add(row * self.left_stride);
        let lines = self.right.lines();
        let right = self.right.data.as_ptr().wrapping_add(panel * lines + self.from);
        let out = self.out.as_ptr().wrapping_add(corner);
        unrolled!(r in 0..R, at most 12, {
            unrolled!(p in 0..P, at most 2, { prefetch(out.wrapping_add(r * self.stride + p * LANES)) });
        });
        for i in start..end {
            prefetch(left.wrapping_add(R * self.left_stride + i * LANES));
            let taps: [S::Vector; P] = std::array::from_fn(|p| {
                // SAFETY: `i` is below the depth, and the panel is one of this matrix.
                S::load(unsafe { &(*right.add(p * lines + i)).0 })
            });
            unrolled!(r in 0..R, at most 12, {
                // SAFETY: the row is one of this block, and `i` is below its length.
                let value = S::splat(unsafe { *left.add(r * self.left_stride + i) });
                unrolled!(p in 0..P, at most 2, {
                    sums[r][p] = if PAIRED {
                        S::dot_pairs(value, taps[p], sums[r][p])
                    } else {
                        S::mul_add_all(value, taps[p], sums[r][p])
                    };
                });
            });
        }
        if end == self.depth {
            if let Some(add) = self.finish.add {
                let add = add.as_ptr().wrapping_add(corner);
                unrolled!(r in 0..R, at most 12, {
                    unrolled!(p in 0..P, at most 2, {
                        // SAFETY: `check` saw the end of the last row.
                        let more = unsafe { read_vector::<S>(add.add(r * self.stride + p * LANES), width(p)) };
                        sums[r][p] = S::add(sums[r][p], more);
                    });
                });
            }
            activate!(S, self.finish.activation, sums, R, P);
        }
        let out = self.out.as_mut_ptr().wrapping_add(corner);
        unrolled!(r in 0..R, at most 12, {
            unrolled!(p in 0..P, at most 2, {
                // SAFETY: `check` saw the end of the last row, and `out` is borrowed mutably.
                unsafe { write_vector::<S>(out.add(r * self.stride + p * LANES), sums[r][p], width(p)) };
            });
        });
        R
    }
}

/// `width` values, at most [`LANES`].
///
/// # Safety
/// They can be read.
#[inline(always)]
pub unsafe fn read_vector<S: Simd>(from: *const f32, width: usize) -> S::Vector {
    if width == LANES {
        // SAFETY: the caller's promise.
        S::load(unsafe { &*from.cast() })
    } else {
        // SAFETY: the caller's promise.
        S::load_first(unsafe { std::slice::from_raw_parts(from, width) }, width)
    }
}

/// `width` values, at most [`LANES`].
///
/// # Safety
/// They can be written.
#[inline(always)]
pub unsafe fn write_vector<S: Simd>(to: *mut f32, from: S::Vector, width: usize) {
    if width == LANES {
        // SAFETY: the caller's promise.
        S::store(from, unsafe { &mut *to.cast() });
    } else {
        // SAFETY: the caller's promise.
        S::store_first(from, unsafe { std::slice::from_raw_parts_mut(to, width) }, width);
    }
}
