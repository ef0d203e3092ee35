//! Turns drawn shapes into one label per pixel, with one rule for every format that draws shapes.
//!
//! Where shapes of different classes overlap, the smaller one is on top (a cup on a table stays a cup). If they have
//! the same size, the one that comes first in the file is on top. Crowds lie beneath all others. Overlaps are
//! reported: [`Labels::overlapped`] counts their pixels.

use protoseg_core::{IGNORE, IdMap};

use crate::region::Region;

/// A region with its label: an id, or [`IGNORE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub label: u16,
    pub region: Region,
    /// Whether it lies beneath all others whatever its size, as a crowd does.
    pub beneath: bool,
}

/// Labels as read from a file, with what their reader noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// One id per pixel; ignored ids are already [`IGNORE`].
    pub map: IdMap,
    /// Pixels that shapes of two or more classes claim.
    pub overlapped: u64,
    /// Shapes that contain no pixel's centre, or have no area at all (points and lines).
    pub empty_shapes: u64,
}

impl From<IdMap> for Labels {
    fn from(map: IdMap) -> Self {
        Self { map, overlapped: 0, empty_shapes: 0 }
    }
}

/// Paints shapes, given in the order of their file, on a map filled with `rest` (the background's id, or [`IGNORE`]).
pub fn paint(width: usize, height: usize, rest: u16, shapes: &[Shape]) -> Labels {
    let mut order: Vec<(&Shape, u64)> = shapes.iter().map(|shape| (shape, shape.region.area())).collect();
    let empty_shapes = order.iter().filter(|(_, area)| *area == 0).count() as u64;
    // The last one painted is on top: among the smallest, the first in the file.
    order.reverse();
    order.sort_by_key(|(shape, area)| (!shape.beneath, std::cmp::Reverse(*area)));

    let mut map = IdMap::new(width, height, vec![rest; width * height]);
    let mut touched = vec![false; width * height];
    let mut clashed = vec![false; width * height];
    for (shape, _) in order {
        for run in shape.region.runs() {
            let pixels = run.y * width + run.start..run.y * width + run.end;
            for at in pixels {
                clashed[at] |= touched[at] && shape.label != IGNORE && map.data[at] != shape.label;
                touched[at] = shape.label != IGNORE;
                map.data[at] = shape.label;
            }
        }
    }
    let overlapped = clashed.iter().filter(|&&clash| clash).count() as u64;
    Labels { map, overlapped, empty_shapes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Run;

    fn row(label: u16, start: usize, end: usize) -> Shape {
        Shape { label, region: Region::from_runs(vec![Run { y: 0, start, end }]), beneath: false }
    }

    #[test]
    fn the_smaller_shape_is_on_top_whatever_the_order() {
        let (large, small) = (row(1, 0, 5), row(2, 3, 6));
        for shapes in [[large.clone(), small.clone()], [small, large]] {
            let labels = paint(7, 1, 0, &shapes);
            assert_eq!(labels.map.data, [1, 1, 1, 2, 2, 2, 0]);
            assert_eq!(labels.overlapped, 2);
        }
    }

    #[test]
    fn of_equal_shapes_the_first_is_on_top() {
        let labels = paint(4, 1, IGNORE, &[row(1, 0, 3), row(2, 0, 3)]);
        assert_eq!(labels.map.data, [1, 1, 1, IGNORE]);
    }

    #[test]
    fn crowds_lie_beneath_and_are_no_overlap() {
        let labels = paint(5, 1, 0, &[row(1, 0, 4), Shape { beneath: true, ..row(IGNORE, 3, 5) }]);
        assert_eq!(labels.map.data, [1, 1, 1, 1, IGNORE]);
        assert_eq!(labels.overlapped, 0);
    }

    #[test]
    fn what_is_drawn_to_be_ignored_follows_the_rule() {
        let labels = paint(5, 1, 0, &[row(1, 0, 4), row(IGNORE, 3, 5)]);
        assert_eq!(labels.map.data, [1, 1, 1, IGNORE, IGNORE]);
        assert_eq!(labels.overlapped, 0);
    }

    #[test]
    fn instances_of_one_class_do_not_overlap_it() {
        let labels = paint(5, 1, 0, &[row(1, 0, 4), row(1, 2, 5), row(3, 5, 5)]);
        assert_eq!(labels.map.data, [1; 5]);
        assert_eq!((labels.overlapped, labels.empty_shapes), (0, 1));
    }

    #[test]
    fn a_pixel_that_three_classes_claim_counts_once() {
        let labels = paint(4, 1, 0, &[row(1, 0, 4), row(2, 0, 3), row(3, 0, 2)]);
        assert_eq!(labels.map.data, [3, 3, 2, 1]);
        assert_eq!(labels.overlapped, 3);
    }
}
