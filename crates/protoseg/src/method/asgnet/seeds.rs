//! Where the clusters of a support begin: cells of its mask that are far from the rest and from each other.

use protoseg_core::RowMap;

use crate::method::mask::FOREGROUND;

/// The seeds `[row, column]` of a label map on the grid of a map: one per `area` cells of the mask, rounded, at most
/// `most`; none if that is one or less.
///
/// The next seed is the cell that is farthest from every cell beside the mask and from every seed before it, the first
/// of several in reading order. Cells outside the mask's bounding box do not count.
pub fn seeds(label: &RowMap, size: [usize; 2], area: f64, most: usize) -> Vec<[usize; 2]> {
    let mask = nearest_mask(label, size);
    let cells = mask.iter().filter(|&&own| own).count();
    let count = (cells as f64 / area).round_ties_even().min(most as f64) as usize;
    if count <= 1 {
        return Vec::new();
    }
    let mut inside = Inside::new(&mask, size[1]);
    (0..count).map(|_| inside.take_farthest()).collect()
}

/// How many of the seeds published code uses: it keeps them in a table padded with zeros and counts the rows, or the
/// columns, that are not zero.
pub fn counted(seeds: &[[usize; 2]]) -> usize {
    let count = |axis: usize| seeds.iter().filter(|seed| seed[axis] != 0).count();
    count(0).max(count(1))
}

/// The class on another grid, as OpenCV's nearest neighbour has it.
fn nearest_mask(label: &RowMap, [height, width]: [usize; 2]) -> Vec<bool> {
    let at = |row: usize, column: usize| {
        let (y, x) = (row * label.height / height, column * label.width / width);
        label.data[y * label.width + x] == FOREGROUND
    };
    (0..height).flat_map(|row| (0..width).map(move |column| (row, column))).map(|(y, x)| at(y, x)).collect()
}

/// A mask inside its bounding box.
struct Inside {
    top: usize,
    left: usize,
    width: usize,
    cells: Vec<bool>,
}

impl Inside {
    /// Of a mask that is not empty.
    fn new(mask: &[bool], width: usize) -> Self {
        let own = || mask.iter().enumerate().filter(|(_, own)| **own).map(|(at, _)| (at / width, at % width));
        let (top, bottom) = own().fold((usize::MAX, 0), |(least, most), (y, _)| (least.min(y), most.max(y)));
        let (left, right) = own().fold((usize::MAX, 0), |(least, most), (_, x)| (least.min(x), most.max(x)));
        let lines = mask.chunks_exact(width).skip(top).take(bottom + 1 - top);
        let cells = lines.flat_map(|line| line[left..=right].iter().copied()).collect();
        Self { top, left, width: right + 1 - left, cells }
    }

    /// The cell farthest from all that are not of the mask, which then is not of the mask either.
    fn take_farthest(&mut self) -> [usize; 2] {
        let distances = self.squared_distances();
        // The first of several: later ones must be larger.
        let best =
            (0..distances.len()).fold(0, |best, at| if distances[at] > distances[best] { at } else { best });
        self.cells[best] = false;
        [self.top + best / self.width, self.left + best % self.width]
    }

    /// Squared Euclidean distance of every cell to the nearest that is not of the mask: first along columns, then along
    /// rows.
    fn squared_distances(&self) -> Vec<usize> {
        let (width, height) = (self.width, self.cells.len() / self.width);
        if self.cells.iter().all(|&own| own) {
            // SciPy, which published code calls, measures from one cell above the first.
            return (0..self.cells.len()).map(|at| (at / width + 1).pow(2) + (at % width).pow(2)).collect();
        }
        let far = width + height;
        let mut along = vec![far; self.cells.len()];
        for x in 0..width {
            let mut step = |y: usize, before: usize| {
                let at = y * width + x;
                along[at] = if self.cells[at] { along[at].min(before + 1) } else { 0 };
                along[at]
            };
            (0..height).fold(far, |before, y| step(y, before));
            (0..height).rev().fold(far, |before, y| step(y, before));
        }
        let nearest = |at: usize| {
            let (line, x) = (&along[at / width * width..][..width], at % width);
            line.iter().enumerate().map(|(other, down)| other.abs_diff(x).pow(2) + down.pow(2)).min()
        };
        (0..self.cells.len()).map(|at| nearest(at).expect("lines have cells")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(lines: &[&str]) -> RowMap {
        let data = lines.iter().flat_map(|line| line.bytes().map(|byte| u16::from(byte == b'#')));
        RowMap::new(lines[0].len(), lines.len(), data.collect())
    }

    #[test]
    fn the_first_seed_is_the_deepest_cell_and_the_next_is_far_from_it() {
        let map = label(&["........", ".######.", ".#####..", ".######.", "........"]);
        // The box is 3 x 6, its only hole at row 2, column 6. The left corners are farthest from it; after the first of them
        // is taken, [3, 3] is the square root of 8 away from it and of 10 from the hole.
        assert_eq!(seeds(&map, [5, 8], 6.0, 2), [[1, 1], [3, 3]]);
        assert_eq!(seeds(&map, [5, 8], 6.0, 5).len(), 3);
        assert!(seeds(&map, [5, 8], 17.0, 5).is_empty(), "one cluster is no cluster");
    }

    #[test]
    fn a_full_box_begins_at_its_last_cell() {
        let map = label(&["....", ".##.", ".##.", "...."]);
        assert_eq!(seeds(&map, [4, 4], 2.0, 5), [[2, 2], [1, 1]]);
    }

    #[test]
    fn a_grid_takes_the_pixel_at_the_floor_of_its_place() {
        let map = label(&["#.#.#"]);
        assert_eq!(nearest_mask(&map, [1, 2]), [true, true]);
        assert_eq!(nearest_mask(&map, [1, 3]), [true, false, false]);
    }

    #[test]
    fn seeds_in_the_first_row_and_column_are_miscounted_as_published() {
        assert_eq!(counted(&[[0, 3], [0, 0], [2, 0]]), 1);
        assert_eq!(counted(&[[1, 3], [0, 2]]), 2);
    }
}
