//! Weighted sums of rows.

use crate::simd::{LANES, Simd, Work, fast, unrolled};

/// A map with zeros after each row, and before and after all of them: a shift by up to `padding` cells in both
/// directions is a shift in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded {
    pub height: usize,
    pub width: usize,
    /// Zeros after each row, and rows of them before the first and after the last.
    pub padding: usize,
}

impl Padded {
    /// From a row to the next.
    pub fn pitch(&self) -> usize {
        self.width + self.padding
    }

    /// Values from the first cell to the zeros after the last row.
    pub fn len(&self) -> usize {
        self.height * self.pitch()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`Self::len`] in whole vectors.
    pub fn whole_len(&self) -> usize {
        self.len().next_multiple_of(LANES)
    }

    /// Zeros before the first cell.
    pub fn margin(&self) -> usize {
        self.padding * (self.pitch() + 1)
    }

    /// Values of the map with all its zeros.
    pub fn span(&self) -> usize {
        (self.whole_len() + 2 * self.margin()).next_multiple_of(LANES)
    }
}

/// Vectors of a tile.
const VECTORS: usize = 2;

/// `out[c][i] = bias[c] + sum over t of weight[t][c] * values[starts[t] + i]`: `weight` is `[starts, channels]`, `out`
/// is `[channels, length]`, and `length` is in whole vectors.
pub fn weigh_rows(values: &[f32], starts: &[usize], weight: &[f32], bias: &[f32], out: &mut [f32]) {
    let channels = bias.len();
    let length = out.len() / channels.max(1);
    assert_eq!(weight.len(), starts.len() * channels, "{} rows of {channels} weights", starts.len());
    assert!(out.len() == channels * length && length.is_multiple_of(LANES), "{length} values a channel");
    let last = starts.iter().max().copied().unwrap_or(0);
    assert!(starts.is_empty() || last + length <= values.len(), "the last row ends in the values");
    fast(Sum { values, starts, weight, bias, out, channels, length });
}

struct Sum<'a> {
    values: &'a [f32],
    starts: &'a [usize],
    weight: &'a [f32],
    bias: &'a [f32],
    out: &'a mut [f32],
    channels: usize,
    length: usize,
}

impl Work for Sum<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let mut place = 0;
        while place < self.length {
            // Few values of all rows at a time: they stay in the nearest cache from one group of channels to the next.
            place += if S::WIDE && place + VECTORS * LANES <= self.length {
                self.channels::<S, VECTORS>(place)
            } else {
                self.channels::<S, 1>(place)
            };
        }
    }
}

impl Sum<'_> {
    /// `P` vectors of all channels; returns how many values those are.
    #[inline(always)]
    fn channels<S: Simd, const P: usize>(&mut self, place: usize) -> usize {
        let mut channel = 0;
        while channel < self.channels {
            // SAFETY: `weigh_rows` has checked the lengths; the tile's channels and values exist.
            channel += unsafe {
                match self.channels - channel {
                    8.. if S::WIDE => self.tile::<S, 8, P>(channel, place),
                    4.. => self.tile::<S, 4, P>(channel, place),
                    _ => self.tile::<S, 1, P>(channel, place),
                }
            };
        }
        P * LANES
    }

    /// `P` vectors of `R` channels; returns `R`.
    ///
    /// # Safety
    /// `channel + R` is at most `self.channels`, `place + P * LANES` at most `self.length`, and every row from its
    /// start on has `self.length` values.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const P: usize>(
        &mut self,
        channel: usize,
        place: usize,
    ) -> usize {
        let mut sums = [[S::splat(0.0); P]; R];
        unrolled!(r in 0..R, at most 12, {
            let bias = S::splat(self.bias[channel + r]);
            unrolled!(p in 0..P, at most 2, { sums[r][p] = bias });
        });
        let mut weight = self.weight.as_ptr().wrapping_add(channel);
        for &start in self.starts {
            // SAFETY: the row has `self.length` values from its start on.
            let row = unsafe { self.values.as_ptr().add(start + place) };
            let values: [S::Vector; P] = std::array::from_fn(|p| {
                // SAFETY: as above.
                S::load(unsafe { &*row.add(p * LANES).cast() })
            });
            unrolled!(r in 0..R, at most 12, {
                // SAFETY: there is a weight for every row and channel.
                let weight = S::splat(unsafe { *weight.add(r) });
                unrolled!(p in 0..P, at most 2, { sums[r][p] = S::mul_add_all(weight, values[p], sums[r][p]) });
            });
            weight = weight.wrapping_add(self.channels);
        }
        unrolled!(r in 0..R, at most 12, {
            let out = &mut self.out[(channel + r) * self.length + place..][..P * LANES];
            unrolled!(p in 0..P, at most 2, {
                S::store(sums[r][p], out[p * LANES..].first_chunk_mut().expect("a whole vector"));
            });
        });
        R
    }
}
