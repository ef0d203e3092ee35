//! What a pyramid of small maps adds to the convolution after it, by the shortcut of [`crate::graph::pyramid`].

use protoseg_kernels::channels_last::{Finish, Panels, multiply};

use crate::graph::pyramid::{TAPS, spread_rows};

/// Channels of small maps mixed for every tap, then spread over the large map.
#[derive(Debug)]
pub struct Spread {
    /// `[height, width]` of the large map.
    size: [usize; 2],
    /// Channels after the convolution.
    to: usize,
    levels: Vec<Level>,
    /// `[pixels, position and tap]`: where the value of a position under a tap lands on the map.
    spread: Vec<f32>,
}

#[derive(Debug)]
struct Level {
    /// `bins` x `bins` positions.
    positions: usize,
    /// `[channels of the small map, taps * to]`
    taps: Panels,
}

impl Spread {
    /// `levels` are the side of each small map and the weight of the convolution on it,
    /// `[channels, tap and output channel]`, batch-norm included.
    pub fn new(size: [usize; 2], to: usize, levels: Vec<(usize, Panels)>) -> Self {
        let [height, width] = size;
        let bins: Vec<usize> = levels.iter().map(|(bins, _)| *bins).collect();
        let levels = levels.into_iter().map(|(bins, taps)| Level { positions: bins * bins, taps });
        Self { size, to, levels: levels.collect(), spread: spread_rows(&bins, height, width) }
    }

    pub fn run(&self, maps: &[&[f32]], out: &mut [f32]) {
        let entries = self.entries();
        // [position, tap, to] of all levels, one after the other.
        let mut mixed = vec![0.0; entries * self.to];
        let mut rest = &mut mixed[..];
        for (Level { positions, taps }, map) in self.levels.iter().zip(maps) {
            let (mixed, others) = rest.split_at_mut(positions * taps.outer);
            rest = others;
            multiply(map, taps, Finish::default(), mixed, taps.outer);
        }
        let mixed = Panels::new(entries, self.to, |entry, to| mixed[entry * self.to + to]);
        multiply(&self.spread, &mixed, Finish::default(), out, self.to);
    }

    /// Positions and taps of all levels.
    fn entries(&self) -> usize {
        self.levels.iter().map(|level| level.positions * TAPS).sum()
    }

    /// Multiply-accumulates as written (a convolution of the upsampled maps) and as computed.
    pub fn macs(&self) -> (u64, u64) {
        let [height, width] = self.size;
        let written: usize = self.levels.iter().map(|level| level.taps.inner * level.taps.outer).sum();
        let mixed: usize =
            self.levels.iter().map(|level| level.positions * level.taps.inner * level.taps.outer).sum();
        let spread = self.spread.len() * self.to;
        ((written * height * width) as u64, (mixed + spread) as u64)
    }

    pub fn weight_bytes(&self) -> usize {
        let levels: usize = self.levels.iter().map(|level| level.taps.bytes()).sum();
        levels + size_of_val(&self.spread[..])
    }
}
