//! One file a verb.

pub mod import;
pub mod info;
