//! A square cut out of a picture. A picture that is too small is first padded on both sides.

use super::Window;

/// Where a picture lies relative to a square of `size` pixels cut out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The part of the picture that the square shows.
    pub window: Window,
    /// Column and row in the square where that part starts; the rest of the square is padding.
    pub at: (usize, usize),
}

impl Placement {
    /// `offset` is the square's corner in the padded picture; it is at most [`Placement::freedom`].
    pub fn new((width, height): (usize, usize), size: usize, offset: (usize, usize)) -> Self {
        let (left, x, width) = place(width, size, offset.0);
        let (top, y, height) = place(height, size, offset.1);
        Self { window: Window { left, top, width, height }, at: (x, y) }
    }

    /// The largest column and row at which a square can start.
    pub fn freedom((width, height): (usize, usize), size: usize) -> (usize, usize) {
        (width.saturating_sub(size), height.saturating_sub(size))
    }
}

/// The first index shown, where it lands, and how many are shown. The smaller half of the padding comes first.
fn place(length: usize, size: usize, offset: usize) -> (usize, usize, usize) {
    if length < size {
        assert_eq!(offset, 0, "{length} pixels are too few to choose among crops of {size}");
        (0, (size - length) / 2, length)
    } else {
        assert!(offset <= length - size, "a crop of {size} at {offset} leaves the {length} pixels");
        (offset, 0, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_picture_lies_in_the_middle_and_a_large_one_is_cut() {
        let placement = Placement::new((4, 20), 9, (0, 3));
        assert_eq!(placement.at, (2, 0));
        assert_eq!(placement.window, Window { left: 0, top: 3, width: 4, height: 9 });
        assert_eq!(Placement::freedom((4, 20), 9), (0, 11));
    }

    #[test]
    #[should_panic(expected = "a crop of 9 at 12 leaves the 20 pixels")]
    fn a_crop_outside_the_picture_is_refused() {
        Placement::new((20, 20), 9, (12, 0));
    }
}
