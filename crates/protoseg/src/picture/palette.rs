//! The name and colour of each row of a classifier.

use std::collections::BTreeSet;

use protoseg_core::{Classes, RowMap};

use super::colors::class_color;
use crate::class_pack::ClassPack;

/// The classes of a classifier with their colours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Palette {
    classes: Classes,
    /// One per row.
    colors: Vec<[u8; 3]>,
}

impl Palette {
    /// Black for the background, and for each class a colour that is far from those of the classes before it.
    pub fn new(classes: &Classes) -> Self {
        let background = classes.has_background().then_some([0; 3]);
        let colors = background.into_iter().chain((0..).map(class_color));
        Self { classes: classes.clone(), colors: colors.take(classes.rows().len()).collect() }
    }

    /// The same with the colours that were chosen for classes of a pack.
    pub fn with_pack(mut self, pack: &ClassPack) -> Self {
        for class in pack.classes() {
            let row = self.classes.rows().iter().position(|known| known.name == class.name);
            if let (Some(color), Some(row)) = (class.color, row) {
                self.colors[row] = color;
            }
        }
        self
    }

    /// The rows.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The colours, one per row.
    pub fn colors(&self) -> &[[u8; 3]] {
        &self.colors
    }

    /// The row of the background, which is not painted; not every data set has one.
    pub fn background(&self) -> Option<u16> {
        self.classes.has_background().then_some(0)
    }

    /// The name of a row.
    pub fn name(&self, row: u16) -> &str {
        self.classes.rows().get(usize::from(row)).map_or("unknown", |class| &class.name)
    }

    /// The colour of a row; white for one that is not there.
    pub fn color(&self, row: u16) -> [u8; 3] {
        self.colors.get(usize::from(row)).copied().unwrap_or([255; 3])
    }

    /// The rows that occur in these maps, without the background.
    pub(crate) fn present<'a>(&self, maps: impl IntoIterator<Item = &'a RowMap>) -> Vec<u16> {
        let mut present: BTreeSet<u16> = maps.into_iter().flat_map(RowMap::present).collect();
        present.retain(|&row| Some(row) != self.background());
        present.into_iter().collect()
    }
}

/// A colour as `#rrggbb`.
pub fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_background_the_first_class_is_not_black() {
        let with = Palette::new(&Classes::new(&["background", "cow"], &["duck"]).unwrap());
        assert_eq!(
            (with.background(), with.color(0), hex(with.color(1))),
            (Some(0), [0; 3], "#e9a012".into())
        );
        let without = Palette::new(&Classes::new(&["grass", "cow"], &["duck"]).unwrap());
        assert_eq!((without.background(), without.color(0)), (None, with.color(1)));
        assert_eq!((without.name(2), without.name(3), without.color(3)), ("duck", "unknown", [255; 3]));
    }
}
