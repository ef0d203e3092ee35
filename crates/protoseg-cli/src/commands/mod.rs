//! One file a verb.

pub mod data_check;
pub mod data_prepare;
pub mod data_show;
pub mod data_supports;
pub mod import;
pub mod info;
pub mod train;
