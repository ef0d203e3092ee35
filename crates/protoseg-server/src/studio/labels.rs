//! Labels as the page reads them: `PSL1`, width, height and revision, an id per pixel, and a confidence per pixel.

/// The bytes of an answer. `width` and `height` fit in 16 bits: sides are limited.
pub fn encode(size: (usize, usize), revision: u32, ids: &[u8], confidence: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + ids.len() + confidence.len());
    bytes.extend_from_slice(b"PSL1");
    bytes.extend_from_slice(&(size.0 as u16).to_le_bytes());
    bytes.extend_from_slice(&(size.1 as u16).to_le_bytes());
    bytes.extend_from_slice(&revision.to_le_bytes());
    bytes.extend_from_slice(ids);
    bytes.extend_from_slice(confidence);
    bytes
}

/// The pixels of a smaller copy, each the nearest of the picture.
pub fn nearest(pixels: &[u8], size: (usize, usize), to: (usize, usize)) -> Vec<u8> {
    let at = |from: usize, to: usize| (0..to).map(move |i| ((2 * i + 1) * from / (2 * to)).min(from - 1));
    let columns: Vec<usize> = at(size.0, to.0).collect();
    let mut small = Vec::with_capacity(to.0 * to.1);
    for y in at(size.1, to.1) {
        let row = &pixels[y * size.0..][..size.0];
        small.extend(columns.iter().map(|&x| row[x]));
    }
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_contract() {
        let bytes = encode((2, 1), 258, &[7, 254], &[9, 255]);
        assert_eq!(bytes, [b'P', b'S', b'L', b'1', 2, 0, 1, 0, 2, 1, 0, 0, 7, 254, 9, 255]);
        assert_eq!(nearest(&[1, 2, 3, 4, 5, 6, 7, 8], (4, 2), (2, 1)), [6, 8]);
        assert_eq!(nearest(&[1, 2, 3, 4], (4, 1), (4, 1)), [1, 2, 3, 4]);
    }
}
