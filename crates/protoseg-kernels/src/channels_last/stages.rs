//! Maps of several stages joined to one: every pixel of each at unit length, all on the grid of the first, and the
//! joined pixel at unit length again.

use rayon::prelude::*;

/// Below this, a squared norm counts as this: a pixel of zeros stays one.
pub(super) const TINY: f32 = 1e-24;

/// Joins maps `[height, width, channels]`, each with its shape, to `[height, width, all channels]` on the grid of the
/// first. Smaller maps are resized bilinearly, with the centres of their areas matched (`align_corners = false`).
pub fn join_stages(maps: &[(&[f32], [usize; 3])], out: &mut [f32]) {
    let Some(&(_, [height, width, _])) = maps.first() else { return };
    let all: usize = maps.iter().map(|(_, [.., channels])| channels).sum();
    assert_eq!(out.len(), height * width * all, "a map of {height} x {width} x {all}");
    let stages: Vec<Stage> =
        maps.iter().map(|&(map, shape)| Stage::new(map, shape, [height, width])).collect();
    out.par_chunks_mut((width * all).max(1)).enumerate().for_each(|(y, line)| {
        for (x, pixel) in line.chunks_exact_mut(all).enumerate() {
            let mut rest = &mut *pixel;
            for stage in &stages {
                let (own, others) = rest.split_at_mut(stage.channels);
                stage.look_up(y, x, own);
                rest = others;
            }
            let scale = 1.0 / square_sum(pixel).max(TINY).sqrt();
            pixel.iter_mut().for_each(|value| *value *= scale);
        }
    });
}

/// A stage's map, and where the pixels of the joined map lie on it.
struct Stage<'a> {
    map: &'a [f32],
    width: usize,
    channels: usize,
    /// One over the norm of each pixel.
    scales: Vec<f32>,
    rows: Vec<Place>,
    columns: Vec<Place>,
}

/// The positions before and after a place along one axis, and the share of the second.
pub(super) type Place = (usize, usize, f32);

impl<'a> Stage<'a> {
    fn new(map: &'a [f32], [height, width, channels]: [usize; 3], to: [usize; 2]) -> Self {
        assert_eq!(map.len(), height * width * channels, "a map of {height} x {width} x {channels}");
        let scale = |pixel: &[f32]| 1.0 / square_sum(pixel).max(TINY).sqrt();
        let scales = map.par_chunks_exact(channels.max(1)).map(scale).collect();
        Self { map, width, channels, scales, rows: places(height, to[0]), columns: places(width, to[1]) }
    }

    fn look_up(&self, y: usize, x: usize, out: &mut [f32]) {
        let (above, below, down) = self.rows[y];
        let (left, right, along) = self.columns[x];
        let corner = |y: usize, x: usize, share: f32| {
            let position = y * self.width + x;
            (&self.map[position * self.channels..][..self.channels], share * self.scales[position])
        };
        let (first, weight) = corner(above, left, (1.0 - down) * (1.0 - along));
        if down == 0.0 && along == 0.0 {
            out.iter_mut().zip(first).for_each(|(out, &value)| *out = weight * value);
            return;
        }
        let (second, second_weight) = corner(above, right, (1.0 - down) * along);
        let (third, third_weight) = corner(below, left, down * (1.0 - along));
        let (fourth, fourth_weight) = corner(below, right, down * along);
        for ((((out, a), b), c), d) in out.iter_mut().zip(first).zip(second).zip(third).zip(fourth) {
            *out = weight * a + second_weight * b + third_weight * c + fourth_weight * d;
        }
    }
}

/// Where `to` areas of equal size have their centres on a line of `from` areas.
pub(super) fn places(from: usize, to: usize) -> Vec<Place> {
    let step = from as f64 / to.max(1) as f64;
    let last = from as f64 - 1.0;
    let place = |new: usize| {
        let centre = ((new as f64 + 0.5) * step - 0.5).clamp(0.0, last.max(0.0));
        let before = (centre as usize).min(from.saturating_sub(1));
        (before, (before + 1).min(from.saturating_sub(1)), (centre - before as f64) as f32)
    };
    (0..to).map(place).collect()
}

/// Eight sums at a time, so that the compiler can use vectors.
#[inline(always)]
pub(super) fn square_sum(values: &[f32]) -> f32 {
    let (blocks, rest) = values.as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for block in blocks {
        sums.iter_mut().zip(block).for_each(|(sum, value)| *sum += value * value);
    }
    sums.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stages_by_hand() {
        // A 1 x 2 map of two channels beside a 1 x 1 map of one: (3, 4), (0, 2) and (-5).
        let mut out = [0.0; 6];
        join_stages(&[(&[3.0, 4.0, 0.0, 2.0], [1, 2, 2]), (&[-5.0], [1, 1, 1])], &mut out);
        let half = 0.5f32.sqrt();
        let expected = [0.6 * half, 0.8 * half, -half, 0.0, half, -half];
        assert!(out.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{out:?}");
    }

    #[test]
    fn areas_are_matched_by_their_centres() {
        // Two positions on four: centres at -0.25, 0.25, 0.75, 1.25 of the old grid.
        assert_eq!(places(2, 4), [(0, 1, 0.0), (0, 1, 0.25), (0, 1, 0.75), (1, 1, 0.0)]);
        assert_eq!(places(3, 3), [(0, 1, 0.0), (1, 2, 0.0), (2, 2, 0.0)]);
    }

    #[test]
    fn a_pixel_of_zeros_stays_zero() {
        let mut out = [1.0; 3];
        join_stages(&[(&[0.0, 0.0], [1, 1, 2]), (&[0.0], [1, 1, 1])], &mut out);
        assert_eq!(out, [0.0; 3]);
    }
}
