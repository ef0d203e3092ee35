//! What labels look like: colours of classes, painted pictures with legends, and regions as COCO writes them.

pub(crate) mod chart;
mod colors;
mod overlay;
mod palette;
mod regions;
mod sheet;
mod support_sheet;
pub(crate) mod svg;
mod thumbnail;

pub use colors::class_color;
pub(crate) use overlay::{draw_legend, paste};
pub use palette::{Palette, hex};
pub use regions::{ClassRegion, CocoDocument};
pub use sheet::name_sheet;
pub use support_sheet::support_sheet;
pub use thumbnail::{thumbnail, thumbnail_size};
