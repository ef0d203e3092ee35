//! The studio: photos of a folder, strokes on them, and what the model makes of both.

mod background;
mod check;
mod export;
mod features;
mod files;
mod labels;
mod magic;
mod paint;
mod photos;
mod project;
mod routes;
mod state;
mod strokes;
mod thumbnails;

pub use files::ProjectError;
pub use photos::decode as decode_photo;
pub use routes::{query, read_mask, router};
pub use state::{Studio, StudioOptions};
