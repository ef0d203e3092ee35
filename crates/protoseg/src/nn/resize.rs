//! Bilinear resizing of feature and score maps.

use burn::tensor::{
    Tensor,
    module::interpolate,
    ops::{InterpolateMode, InterpolateOptions},
};

/// `input` at another size, bilinear with `align_corners = true`: the corner values stay in the corners.
pub fn upsample(input: Tensor<4>, size: [usize; 2]) -> Tensor<4> {
    let [_, _, height, width] = input.dims();
    if [height, width] == size {
        return input;
    }
    interpolate(
        input,
        InterpolateOptions::new(InterpolateMode::Bilinear).with_align_corners(true).with_output_size(size),
    )
}
