//! Methods: one published method per file or folder.

pub mod capl;
