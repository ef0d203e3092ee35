//! One binary: linking is slow.

mod ablation;
mod class_pack;
mod efficientnet;
mod examples;
mod fixture;
mod golden;
mod inference;
mod model_file;
mod panet;
mod parity;
mod pretrained;
mod step;
mod torch_files;
mod training;
