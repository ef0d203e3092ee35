//! Weights of others: which files can be read, and how their tensors' names become ours.
//!
//! A file is first listed ([`Checkpoint`]: names, shapes, types), then its names are translated and compared with what
//! the network needs, and only then are values read. So a file that does not fit is refused with one list of all that
//! is wrong, and nothing it claims is believed before it has been compared with what is expected.

mod assign;
mod checkpoint;
mod encoder;
mod error;
mod gfsseg;
mod pickle;
mod write;

pub use assign::{Rename, assign};
pub use checkpoint::Checkpoint;
pub use encoder::{load_encoder, read_encoder_config};
pub use error::WeightsError;
pub use gfsseg::import_gfsseg;
pub use write::write_tensor;

pub(crate) use assign::{collect, for_each, shapes, with_ids_by_name};
pub(crate) use write::{TEMPORARY, write_safetensors};
