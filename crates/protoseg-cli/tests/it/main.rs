//! The program through its real binary.

mod import;
mod run;
