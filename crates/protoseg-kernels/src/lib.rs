//! What training and use spend their time on, for CPUs: slices in, slices out.
//!
//! Maps are `[batch, channels, height, width]` in training, and `[batch, height, width, channels]` in use
//! ([`channels_last`]); weights `[to, from / groups, kernel, kernel]`; all `f32` and contiguous. [`mod@reference`]
//! states the meaning of every kernel in naive loops; the others are its fast equals, to rounding. Work is cut into
//! parts by sizes and the number of threads alone, and nothing is summed across parts in the order they finish: the
//! same input gives the same bits on the same machine.

mod activation;
pub mod channels_last;
mod conv;
mod depthwise;
mod im2col;
mod margin;
mod matmul;
mod norm;
pub mod pairs;
mod peak;
mod pixel_loss;
mod planes;
mod pointwise;
mod precision;
pub mod reference;
mod rows;
mod scratch;
mod simd;
mod tiles;
mod winograd;

pub use activation::Activation;
pub use conv::{ConvShape, conv_forward, conv_input_grad, conv_weight_grad};
pub use margin::{MarginShape, margin_grad};
pub use norm::{NormGrads, NormShape, Normalised, norm_apply, norm_backward, norm_forward};
pub use peak::peak_flops;
pub use pixel_loss::{PixelLoss, PixelLossRule, PixelLossShape, UNJUDGED, pixel_loss, pixel_loss_by};
pub use precision::Precision;
pub use rows::{add_weighted, dots};

#[cfg(test)]
mod tests;
