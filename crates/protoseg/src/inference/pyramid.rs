//! The parts of heads that see the whole image: PSPNet's pyramid, by the shortcut of [`crate::decoder::Ppm`], and the mean of
//! DeepLab's atrous pyramid.

use protoseg_kernels::channels_last::{Finish, Panels, average_pool, multiply};

use super::layers::Folded;
use crate::decoder::{PYRAMID_BINS, PYRAMID_TAPS, pyramid_spread};

/// What the pyramid adds to the convolution behind it.
#[derive(Debug)]
pub struct Pyramid {
    shape: [usize; 3],
    /// Channels behind that convolution.
    to: usize,
    levels: Vec<Level>,
    /// `[pixels, position and tap]`: where the value of a position under a tap lands on the map.
    spread: Vec<f32>,
}

#[derive(Debug)]
struct Level {
    bins: usize,
    branch: Folded,
    /// `[channels of the branch, taps * to]`
    taps: Panels,
}

impl Pyramid {
    /// `branches` are the convolutions at each level; `taps(tap, level, channel, to)` is the weight of the convolution behind,
    /// batch-norm included.
    pub fn new(
        shape: [usize; 3],
        to: usize,
        branches: Vec<Folded>,
        taps: impl Fn(usize, usize, usize, usize) -> f32 + Sync,
    ) -> Self {
        let [height, width, _] = shape;
        let levels = branches.into_iter().zip(PYRAMID_BINS).enumerate().map(|(level, (branch, bins))| {
            let taps = Panels::new(branch.to(), PYRAMID_TAPS * to, |channel, column| {
                taps(column / to, level, channel, column % to)
            });
            Level { bins, branch, taps }
        });
        Self { shape, to, levels: levels.collect(), spread: pyramid_spread(height, width) }
    }

    pub fn run(&self, input: &[f32], out: &mut [f32]) {
        let [.., channels] = self.shape;
        let means = average_pool(self.shape, &PYRAMID_BINS, input);
        let entries = self.spread.len() * self.to / out.len();
        // [position, tap, to] of all levels, one behind the other.
        let mut mixed = vec![0.0; entries * self.to];
        let (mut means, mut rest) = (&means[..], &mut mixed[..]);
        for Level { bins, branch, taps } in &self.levels {
            let positions = bins * bins;
            let (own, behind) = means.split_at(positions * channels);
            let (mixed, others) = rest.split_at_mut(positions * taps.outer);
            (means, rest) = (behind, others);
            multiply(&branch.run(own), taps, Finish::default(), mixed, taps.outer);
        }
        let mixed = Panels::new(entries, self.to, |entry, to| mixed[entry * self.to + to]);
        multiply(&self.spread, &mixed, Finish::default(), out, self.to);
    }

    /// Multiply-accumulates as written (branches, and a convolution of the upsampled pyramid) and as computed.
    pub fn macs(&self) -> (u64, u64) {
        let [height, width, _] = self.shape;
        let positions = |level: &Level| level.bins * level.bins;
        let branches: usize = self.levels.iter().map(|level| positions(level) * level.branch.macs()).sum();
        let written: usize = self.levels.iter().map(|level| level.taps.inner * level.taps.outer).sum();
        let mixed: usize =
            self.levels.iter().map(|level| positions(level) * level.taps.inner * level.taps.outer).sum();
        let spread = self.spread.len() * self.to;
        ((branches + written * height * width) as u64, (branches + mixed + spread) as u64)
    }

    pub fn weight_bytes(&self) -> usize {
        let levels: usize = self.levels.iter().map(|level| level.branch.bytes() + level.taps.bytes()).sum();
        levels + size_of_val(&self.spread[..])
    }
}

/// The mean of the image through a convolution, the same at every pixel.
#[derive(Debug)]
pub struct Context {
    shape: [usize; 3],
    conv: Folded,
}

impl Context {
    pub fn new(shape: [usize; 3], conv: Folded) -> Self {
        Self { shape, conv }
    }

    /// Pixels of `out` are `stride` apart.
    pub fn run(&self, input: &[f32], out: &mut [f32], stride: usize) {
        let context = self.conv.run(&average_pool(self.shape, &[1], input));
        for pixel in out.chunks_mut(stride) {
            pixel[..context.len()].copy_from_slice(&context);
        }
    }

    pub fn macs(&self) -> u64 {
        self.conv.macs() as u64
    }

    pub fn weight_bytes(&self) -> usize {
        self.conv.bytes()
    }
}
