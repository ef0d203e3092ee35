//! One binary: linking is slow.

mod ablation;
mod class_pack;
mod efficientnet;
mod episodes;
mod examples;
mod few_shot;
mod fixture;
mod from_encoder;
mod golden;
mod inference;
mod model_file;
mod mutations;
mod overfit;
mod parity;
mod pretrained;
mod step;
mod torch_files;
mod training;
mod vit;
