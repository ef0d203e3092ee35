//! Small pictures for pages.

use protoseg_core::Image;

/// A picture whose longer side is at most `side`. Smaller pictures stay as they are. Each pixel is the mean of the area
/// that it stands for.
pub fn thumbnail(picture: &Image, side: usize) -> Image {
    let (width, height) = thumbnail_size(picture.width, picture.height, side);
    if (width, height) == (picture.width, picture.height) {
        return picture.clone();
    }
    let across = areas(picture.width, width);
    let mut data = Vec::with_capacity(3 * width * height);
    // One more than a row has: pixels are read four numbers at a time, as vectors have them.
    let mut sums = vec![0.0; 3 * picture.width + 1];
    for (top, weights) in areas(picture.height, height) {
        sums.fill(0.0);
        let rows = picture.data[3 * picture.width * top..].chunks_exact(3 * picture.width);
        for (row, weight) in rows.zip(weights) {
            sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += weight * f32::from(value));
        }
        for (left, weights) in &across {
            let mut pixel = [0.5; 4];
            for (sums, weight) in sums[3 * left..].windows(4).step_by(3).zip(weights) {
                pixel.iter_mut().zip(sums).for_each(|(pixel, sum)| *pixel += weight * sum);
            }
            data.extend(pixel[..3].iter().map(|&value| value as u8));
        }
    }
    Image::new(width, height, data)
}

/// Width and height of a [`thumbnail`] of a picture of this size.
pub fn thumbnail_size(width: usize, height: usize, side: usize) -> (usize, usize) {
    let longer = width.max(height);
    if longer <= side {
        return (width, height);
    }
    let fit = |length: usize| ((length * side + longer / 2) / longer).max(1);
    (fit(width), fit(height))
}

/// For each of `to` pixels, the first of the `from` pixels that it covers, and the share of each in it.
fn areas(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let area = |at: usize| {
        // Counted in parts of a pixel, `to` to each.
        let (start, end) = (at * from, (at + 1) * from);
        let pixels = start / to..end.div_ceil(to);
        let part = |pixel: usize| end.min((pixel + 1) * to) - start.max(pixel * to);
        (pixels.start, pixels.map(|pixel| part(pixel) as f32 / from as f32).collect())
    };
    (0..to).map(area).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thumbnail_keeps_shape_and_colour_and_never_grows() {
        let half = |width: usize, height: usize| {
            let pixel = |at: usize| if at % width < width / 2 { [200, 40, 0] } else { [0, 80, 255] };
            Image::new(width, height, (0..width * height).flat_map(pixel).collect())
        };
        for (width, height) in [(1000, 500), (4001, 2000), (130, 65)] {
            let small = thumbnail(&half(width, height), 100);
            assert_eq!((small.width, small.height), (100, 50), "{width} x {height}");
            assert_eq!((&small.data[..3], &small.data[297..300]), (&[200, 40, 0][..], &[0, 80, 255][..]));
        }
        assert_eq!(thumbnail(&half(40, 20), 100), half(40, 20));
        let line = thumbnail(&half(5000, 1), 100);
        assert_eq!((line.width, line.height), (100, 1));
    }

    #[test]
    fn pixels_are_means_of_their_areas() {
        let column =
            |values: &[u8]| Image::new(1, values.len(), values.iter().flat_map(|&v| [v; 3]).collect());
        assert_eq!(thumbnail(&column(&[0, 100, 200, 100]), 2), column(&[50, 150]));
        // Two thirds of a pixel and one third of the next.
        assert_eq!(thumbnail(&column(&[0, 90, 180]), 2), column(&[30, 150]));
        for (from, to) in [(500, 320), (4001, 320), (7, 3), (100_000, 320)] {
            let is_whole = |weights: &[f32]| (weights.iter().sum::<f32>() - 1.0).abs() < 1e-4;
            assert!(areas(from, to).iter().all(|(_, weights)| is_whole(weights)));
            assert!(areas(from, to).iter().all(|(first, weights)| first + weights.len() <= from));
        }
    }
}
