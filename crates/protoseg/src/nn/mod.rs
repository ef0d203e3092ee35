//! The layers that every network of this crate is made of, where Burn's own differ from what published weights
//! expect.

mod batch_norm;
mod bicubic;
mod conv_norm;
mod conv_weights;
mod dropout2d;
mod layer_norm;
mod resize;
mod tokens;
mod unit;

pub use batch_norm::BatchNorm;
pub use conv_norm::ConvNorm;
pub use dropout2d::Dropout2d;
pub use layer_norm::LayerNorm;
pub use resize::{resize_centred, resize_centred_weights, upsample, upsample_weights};
pub use tokens::Tokens;
pub use unit::unit_pixels;

pub(crate) use batch_norm::NormSettings;
pub(crate) use conv_norm::Conv;
pub(crate) use conv_weights::ConvWeights;
pub(crate) use tokens::{PlacedTokens, Rotary};
