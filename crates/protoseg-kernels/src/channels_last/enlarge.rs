//! Bilinear resizing with corners on corners.

use rayon::prelude::*;

/// `[height, width, channels]` at the size `to`.
pub fn enlarge(map: &[f32], [height, width]: [usize; 2], to: [usize; 2]) -> Vec<f32> {
    let channels = map.len() / (height * width).max(1);
    if [height, width] == to {
        return map.to_vec();
    }
    let columns: Vec<_> = (0..to[1]).map(|x| place(x, width, to[1])).collect();
    let mut out = vec![0.0; to[0] * to[1] * channels];
    out.par_chunks_mut((to[1] * channels).max(1)).enumerate().for_each(|(y, line)| {
        let (above, down) = place(y, height, to[0]);
        let below = (above + 1).min(height - 1);
        let rows = [above, below].map(|y| &map[y * width * channels..][..width * channels]);
        for (pixel, &(left, right)) in line.chunks_exact_mut(channels).zip(&columns) {
            let beside = (left + 1).min(width - 1);
            let [a, b] = [left, beside].map(|x| &rows[0][x * channels..][..channels]);
            let [c, d] = [left, beside].map(|x| &rows[1][x * channels..][..channels]);
            for ((((value, a), b), c), d) in pixel.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                let (upper, lower) = (a + (b - a) * right, c + (d - c) * right);
                *value = upper + (lower - upper) * down;
            }
        }
    });
    out
}

/// The old place before a new one, and how far beyond it the new one is.
fn place(new: usize, from: usize, to: usize) -> (usize, f32) {
    let place = new as f64 * (from as f64 - 1.0) / (to.max(2) as f64 - 1.0);
    let before = (place as usize).min(from - 1);
    (before, (place - before as f64) as f32)
}
