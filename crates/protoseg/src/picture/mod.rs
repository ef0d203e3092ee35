//! What labels look like: colours of classes, painted pictures with legends, and regions as COCO writes them.

pub mod chart;
mod overlay;
mod palette;
mod regions;
pub mod svg;

pub use overlay::{Legend, draw_legend, paste};
pub use palette::{Palette, hex};
pub use regions::{ClassRegion, CocoDocument};
