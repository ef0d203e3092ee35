//! The image transforms of the reference's training, equal to what OpenCV computes, one per file.
//!
//! Each makes the [`Rows`] of one [`Window`] of its result from a window of its source, so that a caller who needs a
//! crop pays only for the crop. Pictures stay in single precision between the steps, as in the reference. Labels are
//! only picked, never mixed.

mod blur;
mod crop;
mod normalise;
mod patch;
mod resize;
mod rotate;

pub use blur::Blur;
pub use crop::Placement;
pub use normalise::{Normalise, planes_row};
pub use patch::{Patch, Pixel, Rows, Window};
pub use resize::{Axis, Bilinear, nearest};
pub use rotate::Rotation;
