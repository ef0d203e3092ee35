//! Encoders (backbones): image -> feature maps. Encoder + decoder = the paper's F.
//!
//! One file per family; `table.rs` lists them.

#[macro_use]
mod families;
mod efficientnet_lite;
mod inverted_residual;
mod mobilenet;
pub(crate) mod resnet;
mod table;
mod vgg;

pub use efficientnet_lite::EfficientNetLiteConfig;
pub use inverted_residual::{InvertedResidual, InvertedResiduals};
pub use mobilenet::MobileNetV2Config;
pub use resnet::{Basic, Block, Bottleneck, ResNet, ResNetConfig, Stem, StrideOn};
pub use table::{Encoder, EncoderConfig, Rename};
pub use vgg::{Vgg, VggConfig};

pub(crate) use table::{Family, Settings, Tensors};
