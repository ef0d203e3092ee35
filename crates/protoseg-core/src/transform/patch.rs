//! Rectangles in a picture, and the pixels in them.

/// Red, green and blue on the 0..255 scale, and one unused lane. A pixel is then one vector load, which is worth the
/// extra quarter of memory.
pub type Pixel = [f32; 4];

/// A rectangle inside a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub left: usize,
    pub top: usize,
    pub width: usize,
    pub height: usize,
}

impl Window {
    /// The whole picture.
    pub fn whole(width: usize, height: usize) -> Self {
        Self { left: 0, top: 0, width, height }
    }

    /// Index after the last column.
    pub fn right(&self) -> usize {
        self.left + self.width
    }

    /// Index after the last row.
    pub fn bottom(&self) -> usize {
        self.top + self.height
    }

    /// The window with `margin` more pixels on every side, as far as a picture of this size has them.
    pub fn grow(&self, margin: usize, width: usize, height: usize) -> Self {
        let (left, top) = (self.left.saturating_sub(margin), self.top.saturating_sub(margin));
        let (right, bottom) = ((self.right() + margin).min(width), (self.bottom() + margin).min(height));
        Self { left, top, width: right - left, height: bottom - top }
    }

    /// The window cut into pieces of at most `side` pixels per side.
    pub fn tiles(self, side: usize) -> impl Iterator<Item = Self> {
        let columns = move || (self.left..self.right()).step_by(side);
        (self.top..self.bottom()).step_by(side).flat_map(move |top| {
            let height = side.min(self.bottom() - top);
            columns().map(move |left| Self { left, top, width: side.min(self.right() - left), height })
        })
    }

    /// Where the window lies after a picture of this width is flipped left to right.
    pub fn flip(&self, width: usize) -> Self {
        Self { left: width - self.right(), ..*self }
    }
}

/// A transform that makes one window of its result, row by row. Whatever is the same for every row has been computed
/// beforehand.
pub trait Rows {
    fn window(&self) -> Window;

    /// Makes row `i` of the window; `out` is as wide as the window.
    fn row(&mut self, i: usize, out: &mut [Pixel]);
}

/// The pixels of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    pub window: Window,
    /// Rows from the top.
    pub data: Vec<Pixel>,
}

impl Patch {
    pub fn empty() -> Self {
        Self { window: Window::whole(0, 0), data: Vec::new() }
    }

    /// Stores what a transform makes, reusing this patch's memory.
    pub fn fill(&mut self, mut rows: impl Rows) {
        self.window = rows.window();
        self.data.resize(self.window.width * self.window.height, Pixel::default());
        if self.window.width > 0 {
            let each = self.data.chunks_exact_mut(self.window.width).enumerate();
            each.for_each(|(i, out)| rows.row(i, out));
        }
    }

    /// A row by its number in the picture.
    pub fn row(&self, y: usize) -> &[Pixel] {
        &self.data[(y - self.window.top) * self.window.width..][..self.window.width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_up_to_the_border() {
        let window = Window { left: 1, top: 5, width: 3, height: 2 };
        assert_eq!(window.grow(2, 9, 8), Window { left: 0, top: 3, width: 6, height: 5 });
    }

    #[test]
    fn tiles_cover_a_window_once() {
        let window = Window { left: 2, top: 1, width: 7, height: 5 };
        let tiles: Vec<Window> = window.tiles(3).collect();
        assert_eq!(tiles.len(), 6);
        assert_eq!(tiles[5], Window { left: 8, top: 4, width: 1, height: 2 });
        assert_eq!(tiles.iter().map(|tile| tile.width * tile.height).sum::<usize>(), 35);
    }

    #[test]
    fn a_window_flipped_twice_is_itself() {
        let window = Window { left: 1, top: 5, width: 3, height: 2 };
        assert_eq!(window.flip(9).left, 5);
        assert_eq!(window.flip(9).flip(9), window);
    }
}
