//! One file a verb.

pub mod bench;
pub mod calibrate;
pub mod classes;
pub mod completions;
pub mod data_check;
pub mod data_draw;
pub mod data_prepare;
pub mod data_show;
pub mod data_supports;
pub mod demo;
pub mod episodes;
pub mod eval;
pub mod experiment;
pub mod export;
pub mod import;
pub mod info;
pub mod new;
pub mod predict;
pub mod register;
pub mod segment;
pub mod serve;
mod shard;
pub mod studio;
mod support_words;
pub mod train;
mod usage;
pub mod weights;
