//! 1x1 convolutions of stride 1: one matrix product per image, on the maps as they lie.

use rayon::prelude::*;

use crate::{
    ConvShape,
    matmul::{Matrix, multiply},
};

/// `Y = W X`
pub fn forward(shape: &ConvShape, input: &[f32], weight: &[f32]) -> Vec<f32> {
    let w = Matrix::new(weight, shape.to, shape.from);
    each_image(shape, w, input)
}

/// `dX = W^T dY`
pub fn input_grad(shape: &ConvShape, grad: &[f32], weight: &[f32]) -> Vec<f32> {
    let w = Matrix::new(weight, shape.to, shape.from).transposed();
    each_image(shape, w, grad)
}

/// `mix` times the map of each image.
fn each_image(shape: &ConvShape, mix: Matrix, maps: &[f32]) -> Vec<f32> {
    let plane = shape.in_plane();
    let (to, from) = (mix.rows(), mix.columns());
    let mut out = vec![0.0; shape.batch * to * plane];
    if out.is_empty() {
        return out;
    }
    let one = |out: &mut [f32], map: &[f32], threads| {
        multiply(out, plane, mix, Matrix::new(map, from, plane), false, threads);
    };
    let threads = rayon::current_num_threads();
    // Whole images to each thread need no meeting points; few images share all threads in turn.
    if shape.batch.is_multiple_of(threads) || shape.batch >= 4 * threads {
        out.par_chunks_mut(to * plane)
            .zip(maps.par_chunks(from * plane))
            .for_each(|(out, map)| one(out, map, 1));
    } else {
        for (out, map) in out.chunks_mut(to * plane).zip(maps.chunks(from * plane)) {
            one(out, map, threads);
        }
    }
    out
}

/// `dW = sum over images of dY X^T`, images in their order; threads divide the rows.
pub fn weight_grad(shape: &ConvShape, input: &[f32], grad: &[f32]) -> Vec<f32> {
    let &ConvShape { from, to, .. } = shape;
    let plane = shape.in_plane();
    let mut weight = vec![0.0; to * from];
    let rows = to.div_ceil(rayon::current_num_threads()).max(1);
    weight.par_chunks_mut((rows * from).max(1)).enumerate().for_each(|(part, weight)| {
        let rows_here = weight.len() / from;
        for image in 0..shape.batch {
            let grad = &grad[(image * to + part * rows) * plane..][..rows_here * plane];
            let map = &input[image * from * plane..][..from * plane];
            let dy = Matrix::new(grad, rows_here, plane);
            let x = Matrix::new(map, from, plane);
            multiply(weight, from, dy, x.transposed(), image > 0, 1);
        }
    });
    weight
}
