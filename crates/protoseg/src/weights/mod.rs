//! Weights of others: which files can be read, and how their tensors' names become ours.
//!
//! A file is first listed ([`TensorFile`]: names, shapes, types), then its names are translated and compared with what
//! the network needs, and only then are values read. So a file that does not fit is refused with one list of all that
//! is wrong, and nothing it claims is believed before it has been compared with what is expected.

mod assign;
mod encoder;
mod error;
pub(crate) mod few_shot;
mod gfsseg;
mod pickle;
mod tensor_file;
mod write;

pub use crate::encoder::Rename;
pub use assign::assign;
pub use encoder::{load_encoder, read_encoder_config};
pub use error::WeightsError;
pub use few_shot::import_few_shot;
pub use gfsseg::import_gfsseg;
pub use tensor_file::TensorFile;
pub use write::write_tensor;

pub(crate) use assign::{Checkpoint, assign_fitting, collect, for_each, shapes, with_ids_by_name};
pub(crate) use write::{serialize, write_checked, write_safetensors};
