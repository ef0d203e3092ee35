//! Bilinear resizing of feature and score maps.

use burn::tensor::{Device, Tensor, TensorData};

/// `input` at another size, bilinear with `align_corners = true`: the corner values stay in the corners.
///
/// Bilinear interpolation is linear in either direction, so it is two products with small matrices. They and their
/// gradients run at the speed of matrix products; Burn's interpolation took a sixth of a training step of a small
/// network.
pub fn upsample(input: Tensor<4>, size: [usize; 2]) -> Tensor<4> {
    let [batch, channels, height, width] = input.dims();
    if [height, width] == size {
        return input;
    }
    let device = input.device();
    let columns = weights(width, size[1], &device).transpose();
    let wide = input.reshape([batch * channels * height, width]).matmul(columns);
    let wide = wide.reshape([batch, channels, height, size[1]]);
    weights(height, size[0], &device).unsqueeze::<4>().matmul(wide)
}

/// `input` at another size, bilinear with `align_corners = false`: pixels are areas, and their centres are matched.
pub fn resize_centred(input: Tensor<4>, size: [usize; 2]) -> Tensor<4> {
    let [batch, channels, height, width] = input.dims();
    if [height, width] == size {
        return input;
    }
    let device = input.device();
    let matrix = |from, to| {
        let weights = resize_centred_weights(from, to).concat();
        Tensor::<2>::from_data(TensorData::new(weights, [to, from]), &device)
    };
    let wide = input.reshape([batch * channels * height, width]).matmul(matrix(width, size[1]).transpose());
    let wide = wide.reshape([batch, channels, height, size[1]]);
    matrix(height, size[0]).unsqueeze::<4>().matmul(wide)
}

/// `[to][from]`: the share of each old position in each new one in [`resize_centred`].
pub fn resize_centred_weights(from: usize, to: usize) -> Vec<Vec<f32>> {
    let step = from as f64 / to as f64;
    let last = from as f64 - 1.0;
    let line = |new: usize| {
        let centre = ((new as f64 + 0.5) * step - 0.5).clamp(0.0, last);
        (0..from).map(|old| (1.0 - (centre - old as f64).abs()).max(0.0) as f32).collect()
    };
    (0..to).map(line).collect()
}

/// `[to][from]`: the share of each old position in each new one in [`upsample`].
pub fn upsample_weights(from: usize, to: usize) -> Vec<Vec<f32>> {
    let step = (from as f64 - 1.0) / (to.max(2) as f64 - 1.0);
    let share = |new: usize, old: usize| (1.0 - (new as f64 * step - old as f64).abs()).max(0.0) as f32;
    (0..to).map(|new| (0..from).map(|old| share(new, old)).collect()).collect()
}

/// The same as a matrix `[to, from]`.
fn weights(from: usize, to: usize, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(upsample_weights(from, to).concat(), [to, from]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use burn::tensor::{
        Distribution,
        module::interpolate,
        ops::{InterpolateMode, InterpolateOptions},
    };
    use protoseg_testing::assert_close;

    #[test]
    fn centred_resizing_is_interpolation_without_aligned_corners() {
        let device = cpu();
        device.seed(3);
        for ([height, width], size) in [([13, 13], [97, 97]), ([3, 5], [7, 33]), ([1, 4], [6, 9])] {
            let normal = Distribution::Normal(0.0, 1.0);
            let input = Tensor::<4>::random([2, 3, height, width], normal, &device);
            let options = InterpolateOptions::new(InterpolateMode::Bilinear)
                .with_align_corners(false)
                .with_output_size(size);
            let values = |tensor: Tensor<4>| tensor.try_into_vec_as::<f32>().unwrap();
            let ours = values(resize_centred(input.clone(), size));
            assert_close("resized", &ours, &values(interpolate(input, options)), 1e-5);
        }
    }

    #[test]
    fn the_same_as_interpolation_forward_and_backward() {
        let device = cpu().autodiff();
        device.seed(3);
        let normal = Distribution::Normal(0.0, 1.0);
        for ([height, width], size) in
            [([16, 16], [121, 121]), ([3, 5], [7, 33]), ([1, 4], [6, 9]), ([6, 6], [3, 2]), ([2, 2], [1, 1])]
        {
            let input = Tensor::<4>::random([2, 3, height, width], normal, &device);
            let target = Tensor::<4>::random([2, 3, size[0], size[1]], normal, &device);
            let run = |ours: bool| {
                let x = input.clone().detach().require_grad();
                let options = InterpolateOptions::new(InterpolateMode::Bilinear)
                    .with_align_corners(true)
                    .with_output_size(size);
                let y = if ours { upsample(x.clone(), size) } else { interpolate(x.clone(), options) };
                let grads = (y.clone() * target.clone()).sum().backward();
                (y.inner(), x.grad(&grads).unwrap())
            };
            let (ours, theirs) = (run(true), run(false));
            let values = |map: Tensor<4>| map.try_into_vec_as::<f32>().unwrap();
            let what = format!("{height} x {width} to {size:?}");
            assert_close(&what, &values(ours.0), &values(theirs.0), 1e-5);
            assert_close(&format!("grad of {what}"), &values(ours.1), &values(theirs.1), 1e-3);
        }
    }
}
