//! One binary: linking is slow.

mod fixture;
mod golden;
mod parity;
mod pretrained;
mod step;
mod torch_files;
mod vgg;
