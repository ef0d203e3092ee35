//! Regions of a picture as runs of pixels in rows, and how polygons fill them.
//!
//! A pixel belongs to a polygon if its centre (x + 0.5, y + 0.5) lies inside, by the even-odd rule: a ray from the
//! centre crosses the outline an odd number of times. A loop inside a loop is therefore a hole. A centre exactly on
//! an edge belongs to the area to the right of or below the edge. Polygons that share an edge thus share no pixel and
//! leave no gap. Coordinates are pixel edges, as COCO and the drawing tools write them: (0, 0) is the outer corner of
//! the first pixel. The parts of one instance are united. COCO's own code draws the outline on a grid that is five
//! times finer; the two differ only in pixels that the outline cuts.

/// Pixels `start..end` of row `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub y: usize,
    pub start: usize,
    pub end: usize,
}

/// Most runs that the shapes of a picture may be made of. A small file can describe far more: they would fill the memory.
pub(crate) const MAX_RUNS: usize = 8 << 20;

/// A shape of too many runs to be kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has over {MAX_RUNS} pieces of rows")]
pub struct TooManyRuns;

/// A set of pixels: runs in ascending order that neither touch nor overlap within a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    runs: Vec<Run>,
}

impl Region {
    /// The union of runs in any order.
    pub fn from_runs(mut runs: Vec<Run>) -> Self {
        runs.retain(|run| run.start < run.end);
        runs.sort_unstable();
        let mut united: Vec<Run> = Vec::with_capacity(runs.len());
        for run in runs {
            match united.last_mut() {
                Some(last) if last.y == run.y && run.start <= last.end => last.end = last.end.max(run.end),
                _ => united.push(run),
            }
        }
        Self { runs: united }
    }

    /// The pixels of a `width` x `height` picture that lie in any of the polygons. Each polygon is a list of (x, y)
    /// corners. It may extend beyond the picture and is closed automatically. Corners must be finite.
    pub fn from_polygons<P: AsRef<[(f64, f64)]>>(
        polygons: &[P],
        width: usize,
        height: usize,
    ) -> Result<Self, TooManyRuns> {
        let mut runs = Vec::new();
        for polygon in polygons {
            fill_polygon(polygon.as_ref(), width, height, &mut runs)?;
        }
        Ok(Self::from_runs(runs))
    }

    /// The true pixels of a mask, given row by row.
    pub fn from_mask(mask: &[bool], width: usize) -> Self {
        let mut runs = Vec::new();
        for (y, row) in mask.chunks_exact(width.max(1)).enumerate() {
            let mut x = 0;
            while x < width {
                let start = x;
                while x < width && row[x] == row[start] {
                    x += 1;
                }
                if row[start] {
                    runs.push(Run { y, start, end: x });
                }
            }
        }
        Self { runs }
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Number of pixels.
    pub fn area(&self) -> u64 {
        self.runs.iter().map(|run| (run.end - run.start) as u64).sum()
    }
}

fn fill_polygon(
    corners: &[(f64, f64)],
    width: usize,
    height: usize,
    runs: &mut Vec<Run>,
) -> Result<(), TooManyRuns> {
    // Where the outline crosses the centre line of each row.
    let mut crossings: Vec<(usize, f64)> = Vec::new();
    for (index, &(x0, y0)) in corners.iter().enumerate() {
        let (x1, y1) = corners[(index + 1) % corners.len()];
        // Rows whose centre line y + 0.5 lies in low..high: half-open, so that each corner counts once.
        let (low, high) = (y0.min(y1), y0.max(y1));
        let first = first_centre(low, height);
        let last = first_centre(high, height);
        let slope = (x1 - x0) / (y1 - y0);
        if runs.len() + crossings.len() + last.saturating_sub(first) > MAX_RUNS {
            return Err(TooManyRuns);
        }
        crossings.extend((first..last).map(|y| (y, x0 + (y as f64 + 0.5 - y0) * slope)));
    }
    crossings.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    for pair in crossings.chunks_exact(2) {
        let (start, end) = (first_centre(pair[0].1, width), first_centre(pair[1].1, width));
        runs.push(Run { y: pair[0].0, start, end });
    }
    Ok(())
}

/// The first pixel whose centre is at or after `edge`, at most `limit`.
fn first_centre(edge: f64, limit: usize) -> usize {
    ((edge - 0.5).ceil().max(0.0) as usize).min(limit)
}

/// A circle as a polygon with corners one pixel apart, at most 720 of them.
pub(crate) fn circle_corners(center: (f64, f64), on_circle: (f64, f64)) -> Vec<(f64, f64)> {
    let radius = (on_circle.0 - center.0).hypot(on_circle.1 - center.1);
    let n = (radius * std::f64::consts::TAU).ceil().clamp(12.0, 720.0) as usize;
    let at = |index: usize| {
        let (sin, cos) = (index as f64 / n as f64 * std::f64::consts::TAU).sin_cos();
        (center.0 + radius * cos, center.1 + radius * sin)
    };
    (0..n).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_that_fills_the_memory_is_refused() {
        let zigzag: Vec<(f64, f64)> =
            (0..1000).map(|i| (f64::from(i % 64), f64::from(i % 2) * 1e6)).collect();
        assert_eq!(Region::from_polygons(&[&zigzag[..]], 64, 1_000_000), Err(TooManyRuns));
        assert!(Region::from_polygons(&[&zigzag[..]], 64, 1000).is_ok());
    }

    fn draw(polygons: &[&[(f64, f64)]], width: usize, height: usize) -> Vec<String> {
        let mut rows = vec![vec!['.'; width]; height];
        for run in Region::from_polygons(polygons, width, height).unwrap().runs() {
            rows[run.y][run.start..run.end].fill('#');
        }
        rows.into_iter().map(String::from_iter).collect()
    }

    #[test]
    fn whole_pixels_fill_exactly() {
        let square = [(1.0, 1.0), (4.0, 1.0), (4.0, 3.0), (1.0, 3.0)];
        assert_eq!(draw(&[&square], 5, 4), [".....", ".###.", ".###.", "....."]);
        let reversed: Vec<_> = square.iter().rev().copied().collect();
        assert_eq!(draw(&[&reversed], 5, 4), draw(&[&square], 5, 4));
    }

    #[test]
    fn a_pixel_belongs_by_its_centre() {
        let inside = [(0.4, 0.4), (1.6, 0.4), (1.6, 1.6), (0.4, 1.6)];
        assert_eq!(draw(&[&inside], 3, 3), ["##.", "##.", "..."]);
        let missing = [(0.6, 0.6), (1.4, 0.6), (1.4, 1.4), (0.6, 1.4)];
        assert_eq!(draw(&[&missing], 3, 3), ["...", "...", "..."]);
        let triangle = [(0.0, 0.0), (4.0, 0.0), (0.0, 4.0)];
        assert_eq!(draw(&[&triangle], 4, 4), ["###.", "##..", "#...", "...."]);
    }

    #[test]
    fn neighbours_share_no_pixel_and_leave_none() {
        let left = [(0.0, 0.0), (2.5, 0.0), (2.5, 2.5), (0.0, 2.5)];
        let right = [(2.5, 0.0), (5.0, 0.0), (5.0, 2.5), (2.5, 2.5)];
        let below = [(0.0, 2.5), (5.0, 2.5), (5.0, 5.0), (0.0, 5.0)];
        let areas =
            [&left, &right, &below].map(|part| Region::from_polygons(&[&part[..]], 5, 5).unwrap().area());
        assert_eq!(areas.iter().sum::<u64>(), 25);
        assert_eq!(Region::from_polygons(&[&left[..], &right[..], &below[..]], 5, 5).unwrap().area(), 25);
    }

    #[test]
    fn a_loop_in_one_outline_is_a_hole_and_parts_are_united() {
        let outline = [
            (0.0, 0.0),
            (5.0, 0.0),
            (5.0, 5.0),
            (0.0, 5.0),
            (0.0, 0.0),
            (1.0, 1.0),
            (4.0, 1.0),
            (4.0, 4.0),
            (1.0, 4.0),
            (1.0, 1.0),
        ];
        assert_eq!(draw(&[&outline], 5, 5), ["#####", "#...#", "#...#", "#...#", "#####"]);
        let parts: [&[(f64, f64)]; 2] = [
            &[(0.0, 0.0), (3.0, 0.0), (3.0, 1.0), (0.0, 1.0)],
            &[(1.0, 0.0), (5.0, 0.0), (5.0, 1.0), (1.0, 1.0)],
        ];
        assert_eq!(draw(&parts, 5, 1), ["#####"]);
    }

    #[test]
    fn what_leaves_the_picture_is_cut() {
        let huge = [(-1e9, -1e9), (1e9, -1e9), (1e9, 1e9), (-1e9, 1e9)];
        assert_eq!(Region::from_polygons(&[&huge[..]], 7, 3).unwrap().area(), 21);
        let outside = [(-5.0, 0.0), (-1.0, 0.0), (-1.0, 3.0)];
        assert_eq!(Region::from_polygons(&[&outside[..]], 7, 3).unwrap().area(), 0);
        assert_eq!(Region::from_polygons(&[&[(1.0, 1.0)][..], &[]], 7, 3).unwrap().area(), 0);
    }

    #[test]
    fn a_mask_becomes_its_runs() {
        let mask = [false, true, true, true, false, true].map(|x| x);
        let region = Region::from_mask(&mask, 3);
        assert_eq!(
            region.runs(),
            [Run { y: 0, start: 1, end: 3 }, Run { y: 1, start: 0, end: 1 }, Run { y: 1, start: 2, end: 3 }]
        );
        assert_eq!(region.area(), 4);
    }

    #[test]
    fn a_circle_has_its_area() {
        let corners = circle_corners((20.0, 20.0), (30.0, 20.0));
        let area = Region::from_polygons(&[corners], 40, 40).unwrap().area() as f64;
        assert!((area - 314.0).abs() < 6.0, "{area}");
    }
}
