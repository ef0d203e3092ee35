//! Turns scores on a coarse grid into one answer per pixel, without ever storing full-size scores of all classes.

use std::ops::Range;

use crate::{GridPlacement, Preprocess, RowMap};

/// Scores of every class at every position of a grid. The scores of one position are stored next to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreGrid {
    pub classes: usize,
    pub width: usize,
    pub height: usize,
    /// `[height, width, classes]`
    data: Vec<f32>,
}

/// For each pixel of a line, the grid position before it and the weight of the next position.
type Places = Vec<(usize, f32)>;

/// Scores of a picture's pixels. They come from one grid that covers the picture, or from overlapping tiles.
#[derive(Clone, Debug)]
pub struct ScoreMap {
    pub width: usize,
    pub height: usize,
    pub classes: usize,
    tiles: Vec<Tile>,
}

#[derive(Clone, Debug)]
struct Tile {
    grid: ScoreGrid,
    across: Reach,
    down: Reach,
}

/// Scores of a whole picture on a canvas of its own.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    pub grid: ScoreGrid,
    pub preprocess: &'a Preprocess,
    /// Whether the picture was mirrored before it was placed on the canvas.
    pub is_mirrored: bool,
}

/// The pixels that a tile covers along one axis.
#[derive(Clone, Debug)]
struct Reach {
    pixels: Range<usize>,
    places: Places,
    /// The tile's weight at each pixel. The weights of all tiles add up to one.
    weights: Vec<f32>,
}

/// Scores that differ by no more are the same. Within a photo they differ by more than a hundred times this.
const FLAT: f32 = 1e-3;

impl ScoreGrid {
    /// Makes a grid from scores in the order `[height, width, classes]`.
    pub fn new(classes: usize, height: usize, width: usize, data: Vec<f32>) -> Self {
        assert_eq!(data.len(), classes * height * width, "{classes} scores on {height} x {width}");
        Self { classes, width, height, data }
    }

    /// The scores of each position, row by row.
    pub fn positions(&self) -> impl Iterator<Item = &[f32]> {
        self.data.chunks_exact(self.classes.max(1))
    }

    /// Adds an offset to all scores of each class.
    pub fn add_to_each(&mut self, offsets: &[f32]) {
        assert_eq!(offsets.len(), self.classes, "an offset for every class");
        for scores in self.data.chunks_exact_mut(self.classes.max(1)) {
            scores.iter_mut().zip(offsets).for_each(|(score, offset)| *score += offset);
        }
    }

    /// The grid resized bilinearly, with corners aligned.
    pub fn upsample(&self, width: usize, height: usize) -> Self {
        let mut data = Vec::with_capacity(width * height * self.classes);
        ScoreMap::stretched(self.clone(), width, height).for_rows(|_, scores| data.extend_from_slice(scores));
        Self { classes: self.classes, width, height, data }
    }
}

impl ScoreMap {
    /// Whether all scores are numbers. Those of a model with damaged weights may not be.
    pub fn is_finite(&self) -> bool {
        self.tiles.iter().all(|tile| tile.grid.data.iter().all(|score| score.is_finite()))
    }

    /// Whether every position has the same scores, but for rounding: whatever the picture shows, the answer is one.
    pub fn is_flat(&self) -> bool {
        let first = self.tiles.first().and_then(|tile| tile.grid.positions().next()).unwrap_or_default();
        let mut positions = self.tiles.iter().flat_map(|tile| tile.grid.positions());
        positions.all(|scores| scores.iter().zip(first).all(|(a, b)| (a - b).abs() <= FLAT))
    }

    /// Stretches a grid over a picture, with corners aligned.
    pub fn stretched(grid: ScoreGrid, width: usize, height: usize) -> Self {
        let (across, down) = (corners(grid.width, width), corners(grid.height, height));
        Self::one(grid, across, down)
    }

    /// Uses a grid that covers the canvas on which a picture of `width` x `height` was placed. Every pixel of the
    /// picture is looked up at its place on the canvas.
    pub fn on_canvas(grid: ScoreGrid, preprocess: &Preprocess, width: usize, height: usize) -> Self {
        Self::on_canvas_at(grid, preprocess, (width, height), (width, height))
    }

    /// The same for the pixels of a smaller or larger copy of the picture, `to` wide and high.
    pub fn on_canvas_at(
        grid: ScoreGrid,
        preprocess: &Preprocess,
        (width, height): (usize, usize),
        to: (usize, usize),
    ) -> Self {
        let (content, canvas) = (preprocess.content(width, height), preprocess.canvas_size(width, height));
        let across = content_places(grid.width, preprocess.grid, canvas.0, content.0, to.0);
        let down = content_places(grid.height, preprocess.grid, canvas.1, content.1, to.1);
        Self::one(grid, across, down)
    }

    /// Uses a grid that covers a canvas of `width` x `height`, for every pixel of the canvas.
    pub fn of_canvas(grid: ScoreGrid, placement: GridPlacement, width: usize, height: usize) -> Self {
        let across = content_places(grid.width, placement, width, width, width);
        let down = content_places(grid.height, placement, height, height, height);
        Self::one(grid, across, down)
    }

    fn one(grid: ScoreGrid, across: Places, down: Places) -> Self {
        let (width, height, classes) = (across.len(), down.len(), grid.classes);
        let whole =
            |places: Places| Reach { pixels: 0..places.len(), weights: vec![1.0; places.len()], places };
        let tile = Tile { grid, across: whole(across), down: whole(down) };
        Self { width, height, classes, tiles: vec![tile] }
    }

    /// The mean of several looks at a picture of `width` x `height`.
    pub fn of_looks(looks: Vec<Look<'_>>, width: usize, height: usize) -> Self {
        let classes = looks.first().map_or(0, |look| look.grid.classes);
        let weight = 1.0 / looks.len().max(1) as f32;
        let tiles = looks.into_iter().map(|look| {
            let map = Self::on_canvas(look.grid, look.preprocess, width, height);
            let mut tile = map.tiles.into_iter().next().expect("a grid is one tile");
            tile.down.weights.fill(weight);
            if look.is_mirrored {
                tile.across.places.reverse();
            }
            tile
        });
        Self { width, height, classes, tiles: tiles.collect() }
    }

    /// Joins the tiles of a [`Tiling`]. Each tile has its own grid over its own canvas, and `grids` holds them row by
    /// row. Where tiles overlap, a tile's weight at a pixel grows with the pixel's distance from the tile's edge.
    pub fn tiled(grids: Vec<ScoreGrid>, tiling: &Tiling, preprocess: &Preprocess) -> Self {
        let reaches = |starts: &[usize], side: usize, whole: usize| -> Vec<Reach> {
            let ramp = |at: usize| (at + 1).min(side - at) as f32;
            let mut total = vec![0.0f32; whole];
            for start in starts {
                (0..side).for_each(|at| total[start + at] += ramp(at));
            }
            let reach = |&start: &usize| Reach {
                pixels: start..start + side,
                places: Places::new(),
                weights: (0..side).map(|at| ramp(at) / total[start + at]).collect(),
            };
            starts.iter().map(reach).collect()
        };
        let across = reaches(&tiling.lefts, tiling.width, tiling.picture.0);
        let down = reaches(&tiling.tops, tiling.height, tiling.picture.1);
        let classes = grids.first().map_or(0, |grid| grid.classes);
        let content = preprocess.content(tiling.width, tiling.height);
        let canvas = preprocess.canvas_size(tiling.width, tiling.height);
        let order = down.iter().flat_map(|down| across.iter().map(move |across| (across, down)));
        let tiles = grids.into_iter().zip(order).map(|(grid, (across, down))| {
            let places = |reach: &Reach, positions, canvas, content| Reach {
                places: content_places(positions, preprocess.grid, canvas, content, reach.pixels.len()),
                ..reach.clone()
            };
            let across = places(across, grid.width, canvas.0, content.0);
            let down = places(down, grid.height, canvas.1, content.1);
            Tile { grid, across, down }
        });
        Self { width: tiling.picture.0, height: tiling.picture.1, classes, tiles: tiles.collect() }
    }

    /// Calls `row` for each row of pixels with its number and its scores, `[width, classes]`.
    pub fn for_rows(&self, row: impl FnMut(usize, &[f32])) {
        self.for_rows_in(0..self.height, row);
    }

    /// The same for some of the rows. Rows do not depend on each other, so several threads can share them.
    pub fn for_rows_in(&self, rows: Range<usize>, mut row: impl FnMut(usize, &[f32])) {
        let classes = self.classes;
        let mut scores = vec![0.0f32; self.width * classes];
        let mut line = Vec::new();
        for y in rows {
            scores.fill(0.0);
            for Tile { grid, across, down } in self.tiles.iter().filter(|t| t.down.pixels.contains(&y)) {
                let at = y - down.pixels.start;
                let (upper, share) = down.places[at];
                let lower = (upper + 1).min(grid.height - 1);
                let positions = grid.width * classes;
                let upper = &grid.data[upper * positions..][..positions];
                let lower = &grid.data[lower * positions..][..positions];
                let weight = down.weights[at];
                line.clear();
                line.extend(upper.iter().zip(lower).map(|(a, b)| weight * (a + share * (b - a))));
                let pixels = scores[across.pixels.start * classes..].chunks_exact_mut(classes);
                for ((pixel, &(left, share)), weight) in pixels.zip(&across.places).zip(&across.weights) {
                    let right = (left + 1).min(grid.width - 1);
                    let (left, right) =
                        (&line[left * classes..][..classes], &line[right * classes..][..classes]);
                    for ((score, a), b) in pixel.iter_mut().zip(left).zip(right) {
                        *score += weight * (a + share * (b - a));
                    }
                }
            }
            row(y, &scores);
        }
    }

    /// The class with the highest score at every pixel. If two scores are equal, the lower row wins.
    pub fn labels(&self) -> RowMap {
        RowMap::new(self.width, self.height, self.labels_in(0..self.height))
    }

    /// The same for some of the rows, line by line.
    pub fn labels_in(&self, rows: Range<usize>) -> Vec<u16> {
        if let [tile] = &self.tiles[..] {
            return tile.labels(rows);
        }
        let mut labels = Vec::with_capacity(self.width * rows.len());
        self.for_rows_in(rows, |_, scores| {
            labels.extend(scores.chunks_exact(self.classes).map(|pixel| best(pixel).0 as u16));
        });
        labels
    }
}

impl Tile {
    /// The best class of every pixel of some rows, for a single tile that covers the whole picture.
    ///
    /// Between four grid positions, a class's score lies between its lowest and its highest score at these positions.
    /// Only classes whose highest score reaches the largest of all lowest scores can win there: a few among a
    /// thousand.
    fn labels(&self, rows: Range<usize>) -> Vec<u16> {
        let Self { grid, across, down } = self;
        let classes = grid.classes;
        let line_len = grid.width * classes;
        let mut labels = Vec::with_capacity(across.places.len() * rows.len());
        let mut candidates: Vec<Vec<u16>> = vec![Vec::new(); grid.width];
        let mut line = vec![0.0; line_len];
        let (mut least, mut most) = (vec![0.0; line_len], vec![0.0; line_len]);
        let mut of = None;
        for &(upper, share) in &down.places[rows] {
            let lower = (upper + 1).min(grid.height - 1);
            let above = &grid.data[upper * line_len..][..line_len];
            let below = &grid.data[lower * line_len..][..line_len];
            if of != Some(upper) {
                of = Some(upper);
                for (i, (&a, &b)) in above.iter().zip(below).enumerate() {
                    (least[i], most[i]) = if a < b { (a, b) } else { (b, a) };
                }
                for (left, candidates) in candidates.iter_mut().enumerate() {
                    let right = (left + 1).min(grid.width - 1);
                    let (left, right) = (left * classes, right * classes);
                    let sides = [left..left + classes, right..right + classes];
                    let least = sides.clone().map(|side| &least[side]);
                    contenders(least, sides.map(|side| &most[side]), candidates);
                }
            }
            line.iter_mut().zip(above).zip(below).for_each(|((to, a), b)| *to = a + share * (b - a));
            labels.extend(across.places.iter().map(|&(left, share)| {
                if let [only] = candidates[left][..] {
                    return only;
                }
                let right = (left + 1).min(grid.width - 1);
                let (from, to) = (&line[left * classes..][..classes], &line[right * classes..][..classes]);
                let mut best = (0, f32::NEG_INFINITY);
                for &class in &candidates[left] {
                    let (a, b) = (from[usize::from(class)], to[usize::from(class)]);
                    let score = a + share * (b - a);
                    if score > best.1 {
                        best = (class, score);
                    }
                }
                best.0
            }));
        }
        labels
    }
}

/// The classes that may win somewhere between two positions, given their lowest and highest score at each.
fn contenders(least: [&[f32]; 2], most: [&[f32]; 2], into: &mut Vec<u16>) {
    let lower = |a: f32, b: f32| if a < b { a } else { b };
    let sure = least[0].iter().zip(least[1]).fold(f32::NEG_INFINITY, |best, (&a, &b)| best.max(lower(a, b)));
    // Interpolation rounds, so a class that is slightly below may still tie.
    let bar = sure - 1e-5 * sure.abs().max(1.0);
    into.clear();
    let reach = most[0].iter().zip(most[1]).enumerate();
    into.extend(reach.filter(|(_, (a, b))| **a >= bar || **b >= bar).map(|(class, _)| class as u16));
}

/// The highest score and its index; the first one if several are equal.
pub fn best(scores: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (row, &score) in scores.iter().enumerate() {
        if score > best.1 {
            best = (row, score);
        }
    }
    best
}

/// Places `to` pixels along a line of `from` grid positions: the first pixel on the first position, the last on the
/// last.
fn corners(from: usize, to: usize) -> Places {
    let step = (from as f64 - 1.0) / (to.max(2) as f64 - 1.0);
    (0..to).map(|pixel| place(pixel as f64 * step, from)).collect()
}

/// Places the `length` pixels of a picture's line along a grid that covers a canvas of `size` pixels. The line was
/// resized to the first `content` pixels of that canvas.
fn content_places(
    from: usize,
    placement: GridPlacement,
    size: usize,
    content: usize,
    length: usize,
) -> Places {
    let on_grid = |canvas: f64| match placement {
        GridPlacement::Corners => canvas * (from as f64 - 1.0) / (size.max(2) as f64 - 1.0),
        GridPlacement::Centres => {
            ((canvas + 0.5) * from as f64 / size as f64 - 0.5).clamp(0.0, (from as f64 - 1.0).max(0.0))
        }
    };
    let resized = content as f64 / length.max(1) as f64;
    let last = content.saturating_sub(1) as f64;
    (0..length)
        .map(|pixel| {
            let canvas = ((pixel as f64 + 0.5) * resized - 0.5).clamp(0.0, last);
            place(on_grid(canvas), from)
        })
        .collect()
}

fn place(at: f64, from: usize) -> (usize, f32) {
    let before = (at as usize).min(from.saturating_sub(2));
    (before, (at - before as f64) as f32)
}

/// How a large picture is cut into equal, overlapping tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Width and height of the picture.
    picture: (usize, usize),
    /// Width and height of every tile.
    pub width: usize,
    pub height: usize,
    lefts: Vec<usize>,
    tops: Vec<usize>,
}

impl Tiling {
    /// The fewest evenly spread tiles of at most `side` pixels that overlap their neighbours by at least the share
    /// `overlap` of a tile (from 0 to 0.5).
    pub fn new(width: usize, height: usize, side: usize, overlap: f64) -> Self {
        let starts = |length: usize| -> Vec<usize> {
            let side = side.max(1);
            if length <= side {
                return vec![0];
            }
            let step = ((1.0 - overlap.clamp(0.0, 0.5)) * side as f64).max(1.0);
            let more = ((length - side) as f64 / step).ceil().max(1.0) as usize;
            (0..=more).map(|tile| tile * (length - side) / more).collect()
        };
        Self {
            picture: (width, height),
            width: width.min(side.max(1)),
            height: height.min(side.max(1)),
            lefts: starts(width),
            tops: starts(height),
        }
    }

    /// The top left corners of the tiles, row by row.
    pub fn corners(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.tops.iter().flat_map(|&top| self.lefts.iter().map(move |&left| (left, top)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protoseg_testing::assert_close;

    /// From one plane per class, `[classes, height, width]`.
    fn grid(classes: usize, height: usize, width: usize, planes: &[f32]) -> ScoreGrid {
        let positions = height * width;
        let data = (0..planes.len()).map(|i| planes[i % classes * positions + i / classes]);
        ScoreGrid::new(classes, height, width, data.collect())
    }

    fn rows(map: &ScoreMap) -> Vec<f32> {
        let mut all = Vec::new();
        map.for_rows(|_, scores| all.extend_from_slice(scores));
        all
    }

    #[test]
    fn stretching_by_hand() {
        // Two classes on a 2 x 1 grid; three pixels: the ends and the middle.
        let scores = grid(2, 1, 2, &[0.0, 4.0, 3.0, 1.0]);
        let map = ScoreMap::stretched(scores, 3, 1);
        assert_eq!(rows(&map), [0.0, 3.0, 2.0, 2.0, 4.0, 1.0]);
        assert_eq!(map.labels().data, [1, 0, 0]);
    }

    #[test]
    fn scores_are_flat_if_no_position_differs() {
        let of = |last: f32| ScoreMap::stretched(grid(2, 1, 2, &[0.5, 0.5, 3.0, last]), 3, 1);
        assert!(of(3.0).is_flat() && of(3.0 + 1e-4).is_flat());
        assert!(!of(3.1).is_flat() && !of(f32::NAN).is_flat());
    }

    #[test]
    fn a_picture_is_looked_up_where_it_lies_on_the_canvas() {
        // A canvas of 9 with a grid of 2: column c of the canvas scores c. The 16 x 16 picture became 8 x 8 at the
        // top left, so pixel x lies at (x + 0.5) / 2 - 0.5.
        let preprocess = Preprocess::imagenet(9);
        assert_eq!(preprocess.content(16, 16), (8, 8));
        let scores = grid(1, 2, 2, &[0.0, 8.0, 0.0, 8.0]);
        let scores = rows(&ScoreMap::on_canvas(scores, &preprocess, 16, 16));
        let expected: Vec<f32> = (0..16).map(|x| ((x as f32 + 0.5) / 2.0 - 0.5).clamp(0.0, 7.0)).collect();
        for row in scores.chunks(16) {
            assert_close("row", row, &expected, 1e-5);
        }
    }

    #[test]
    fn a_small_copy_is_looked_up_where_the_picture_lies() {
        let preprocess = Preprocess::imagenet(9);
        let scores = grid(1, 2, 2, &[0.0, 8.0, 0.0, 8.0]);
        let small = rows(&ScoreMap::on_canvas_at(scores, &preprocess, (16, 16), (4, 4)));
        assert_close("row", &small[..4], &[0.5, 2.5, 4.5, 6.5], 1e-5);
        assert_eq!(small.len(), 16);
    }

    #[test]
    fn positions_may_be_centres_of_areas() {
        // A canvas of 8 with a grid of 2: position 0 is the middle of pixels 0 to 3, position 1 that of 4 to 7.
        let preprocess = Preprocess { grid: GridPlacement::Centres, ..Preprocess::imagenet(8) };
        let scores = rows(&ScoreMap::on_canvas(grid(1, 1, 2, &[1.5, 5.5]), &preprocess, 8, 1));
        let expected: Vec<f32> = (0..8).map(|x| (x as f32).clamp(1.5, 5.5)).collect();
        assert_close("row", &scores, &expected, 1e-5);
    }

    #[test]
    fn looks_are_averaged_where_they_show_the_same() {
        // Brighter from left to right, at two sizes; the mirrored one from right to left.
        let (small, large) = (Preprocess::imagenet(8), Preprocess::imagenet(16));
        let ramp = |side: usize, at: fn(f32) -> f32| {
            let line: Vec<f32> = (0..side).map(|x| at(x as f32 / (side - 1) as f32)).collect();
            grid(1, side, side, &line.repeat(side))
        };
        let first = Look { grid: ramp(8, |x| x), preprocess: &small, is_mirrored: false };
        let again = |at| Look { grid: ramp(16, at), preprocess: &large, is_mirrored: true };
        let one = rows(&ScoreMap::of_looks(vec![first.clone()], 8, 8));
        let same = rows(&ScoreMap::of_looks(vec![first.clone(), again(|x| 1.0 - x)], 8, 8));
        assert_close("a mirrored copy", &same, &one, 0.02);
        let even = rows(&ScoreMap::of_looks(vec![first, again(|x| x)], 8, 8));
        assert_close("one against the other", &even, &[0.5; 64], 0.02);
    }

    #[test]
    fn tiles_cover_a_picture_evenly() {
        let tiling = Tiling::new(250, 90, 100, 0.25);
        assert_eq!((tiling.width, tiling.height), (100, 90));
        assert_eq!(tiling.corners().collect::<Vec<_>>(), [(0, 0), (75, 0), (150, 0)]);
        assert_eq!(Tiling::new(50, 90, 100, 0.25).corners().collect::<Vec<_>>(), [(0, 0)]);
    }

    proptest! {
        #[test]
        fn tiles_that_agree_give_what_they_agree_on(
            width in 1usize..90, height in 1usize..90, side in 8usize..40, overlap in 0f64..0.5,
        ) {
            let tiling = Tiling::new(width, height, side, overlap);
            let preprocess = Preprocess::imagenet(16);
            let grids = tiling.corners().map(|_| grid(2, 2, 2, &[1.5, 1.5, 1.5, 1.5, -3.0, -3.0, -3.0, -3.0]));
            let map = ScoreMap::tiled(grids.collect(), &tiling, &preprocess);
            prop_assert_eq!((map.width, map.height), (width, height));
            let scores = rows(&map);
            prop_assert_eq!(scores.len(), 2 * width * height);
            for pixel in scores.chunks(2) {
                assert_close("pixel", pixel, &[1.5, -3.0], 1e-4);
            }
        }

        #[test]
        fn labels_are_the_best_of_all_scores(
            seed in 0u32..1000, classes in 1usize..40, grid in (1usize..6, 1usize..6), size in (1usize..30, 1usize..30),
            levels in 2u32..2000,
        ) {
            // Few distinct values make ties, which the lower row wins.
            let score = |i: usize| ((i as u32 + seed).wrapping_mul(2_654_435_761) >> 8) % levels;
            let data = (0..classes * grid.0 * grid.1).map(|i| score(i) as f32 / 100.0).collect();
            let map = ScoreMap::stretched(ScoreGrid::new(classes, grid.0, grid.1, data), size.0, size.1);
            let expected: Vec<u16> = rows(&map).chunks(classes).map(|pixel| best(pixel).0 as u16).collect();
            prop_assert_eq!(map.labels().data, expected);
        }

        #[test]
        fn a_grid_of_the_pictures_size_is_the_picture(values in proptest::collection::vec(-9f32..9.0, 24)) {
            let scores = grid(2, 3, 4, &values);
            let same = scores.upsample(4, 3);
            assert_close("grid", &same.data, &scores.data, 1e-5);
        }
    }
}
