//! One file a verb.

pub mod data_check;
pub mod data_prepare;
pub mod data_show;
pub mod import;
pub mod info;
