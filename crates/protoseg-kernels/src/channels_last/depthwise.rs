//! Convolutions of every channel by itself: lanes are channels, and nothing is summed across them.

use rayon::prelude::*;

use super::panels::{Finish, LANES, Lanes, read, share, write};
use crate::{
    ConvShape,
    simd::{Simd, Work, fast},
};

/// Most output rows of a task.
const ROWS: usize = 4;

/// The taps of every channel.
#[derive(Clone, Debug)]
pub struct Depthwise {
    /// `[panel][kernel * kernel][lane]`
    taps: Vec<Lanes>,
}

impl Depthwise {
    /// `weight` is `[channels, kernel, kernel]`.
    pub fn new(shape: &ConvShape, weight: &[f32]) -> Self {
        let count = shape.kernel * shape.kernel;
        let mut taps = vec![[0.0; LANES]; count * shape.to.div_ceil(LANES)];
        for (channel, weight) in weight.chunks_exact(count).enumerate() {
            let panel = &mut taps[channel / LANES * count..];
            panel.iter_mut().zip(weight).for_each(|(lanes, &tap)| lanes[channel % LANES] = tap);
        }
        Self { taps }
    }

    pub fn weight_bytes(&self) -> usize {
        size_of_val(&self.taps[..])
    }

    pub fn run(&self, shape: &ConvShape, input: &[f32], finish: Finish, out: &mut [f32], stride: usize) {
        let lines = shape.batch * shape.out_height();
        let rows = share(lines, ROWS);
        let row_len = shape.out_width() * stride;
        out.par_chunks_mut((rows * row_len).max(1)).enumerate().for_each(|(index, out)| {
            let first = index * rows;
            let finish = Finish { add: finish.add.map(|add| &add[first * row_len..]), ..finish };
            fast(Band { shape, taps: &self.taps, input, finish, first, out, stride });
        });
    }
}

/// Some output rows, from `first` of all the batch's on.
struct Band<'a> {
    shape: &'a ConvShape,
    taps: &'a [Lanes],
    input: &'a [f32],
    finish: Finish<'a>,
    first: usize,
    out: &'a mut [f32],
    stride: usize,
}

impl Work for Band<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let &ConvShape { from, height, width, kernel, stride, dilation, padding, .. } = self.shape;
        let (out_height, out_width) = (self.shape.out_height(), self.shape.out_width());
        let on_map = |out: usize, tap: usize, side: usize| {
            (out * stride + tap * dilation).checked_sub(padding).filter(|&place| place < side)
        };
        for (pixel, out) in self.out.chunks_mut(self.stride).enumerate() {
            let (line, x) = (self.first + pixel / out_width, pixel % out_width);
            let (image, y) = (line / out_height, line % out_height);
            for (panel, taps) in self.taps.chunks_exact(kernel * kernel).enumerate() {
                let lanes_here = LANES.min(from - panel * LANES);
                let mut sums = self.finish.bias.map_or([0.0; LANES], |bias| bias[panel]);
                for (ky, taps) in taps.chunks_exact(kernel).enumerate() {
                    let Some(iy) = on_map(y, ky, height) else { continue };
                    for (kx, taps) in taps.iter().enumerate() {
                        let Some(ix) = on_map(x, kx, width) else { continue };
                        let mut values = [0.0; LANES];
                        let place = ((image * height + iy) * width + ix) * from + panel * LANES;
                        read(&mut values, &self.input[place..], lanes_here);
                        for lane in 0..LANES {
                            sums[lane] = S::mul_add(values[lane], taps[lane], sums[lane]);
                        }
                    }
                }
                if let Some(add) = self.finish.add {
                    let mut more = [0.0; LANES];
                    read(&mut more, &add[pixel * self.stride + panel * LANES..], lanes_here);
                    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                }
                self.finish.activation.apply(&mut sums);
                write(&mut out[panel * LANES..], &sums, lanes_here);
            }
        }
    }
}
