//! The program through its real binary.

mod bench;
mod data;
mod docs;
mod import;
mod novel;
mod run;
mod train;
