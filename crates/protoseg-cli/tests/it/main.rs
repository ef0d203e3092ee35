//! The program through its real binary.

mod attacks;
mod bench;
mod data;
mod docs;
mod experiment;
mod export;
mod faults;
mod few_shot;
mod import;
mod novel;
mod predict;
mod run;
mod studio;
mod supports;
mod train;
mod weights;
mod without_training;
