//! Encoders (backbones): image -> feature maps. Encoder + decoder = the paper's F.
//!
//! One file per family; `table.rs` lists them.

#[macro_use]
mod families;
mod convnext;
mod efficientnet_lite;
mod inverted_residual;
mod mobilenet;
mod mobilenet_v3;
pub(crate) mod resnet;
mod table;
mod vgg;
mod vit;

pub use convnext::{ConvNext, ConvNextBlock, ConvNextConfig, ConvNextStage};
pub use efficientnet_lite::EfficientNetLiteConfig;
pub use inverted_residual::{InvertedResidual, InvertedResiduals};
pub use mobilenet::MobileNetV2Config;
pub use mobilenet_v3::{MobileNetV3, MobileNetV3Block, MobileNetV3Config, SqueezeExcite};
pub use resnet::{Basic, Block, Bottleneck, ResNet, ResNetConfig, Stem, StrideOn};
pub use table::{Encoder, EncoderConfig, Rename};
pub use vgg::{Vgg, VggConfig};
pub use vit::{Positions, Vit, VitBlock, VitConfig};

pub(crate) use table::{Family, Settings, Tensors};
