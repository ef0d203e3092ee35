//! What people have painted on one photo: an id per pixel, kept as runs, so that hundreds of states take little memory.

/// The id of a pixel that nobody painted.
pub const UNPAINTED: u8 = 0;
/// The id of a pixel that is none of the classes.
pub const NONE: u8 = 254;

/// Ids of all pixels of a photo, line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paint {
    pub width: usize,
    pub height: usize,
    /// Ids and the numbers of pixels that they go on for.
    runs: Vec<(u8, u32)>,
}

impl Paint {
    /// From an id per pixel.
    pub fn from_pixels(width: usize, height: usize, pixels: &[u8]) -> Self {
        let runs = pixels.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect();
        Self { width, height, runs }
    }

    /// An id per pixel.
    pub fn pixels(&self) -> Vec<u8> {
        let mut pixels = Vec::with_capacity(self.width * self.height);
        for &(id, length) in &self.runs {
            pixels.resize(pixels.len() + length as usize, id);
        }
        pixels
    }

    /// Ids that occur, but for unpainted pixels, with their numbers of pixels.
    pub fn counts(&self) -> Vec<(u8, u64)> {
        let mut counts = [0u64; 256];
        self.runs.iter().for_each(|&(id, length)| counts[usize::from(id)] += u64::from(length));
        (1..=255u8).map(|id| (id, counts[usize::from(id)])).filter(|(_, count)| *count > 0).collect()
    }

    /// Whether nothing is painted.
    pub fn is_empty(&self) -> bool {
        self.runs.iter().all(|(id, _)| *id == UNPAINTED)
    }

    /// With other ids.
    pub fn map(&self, id: impl Fn(u8) -> u8) -> Self {
        let mut runs: Vec<(u8, u32)> = Vec::with_capacity(self.runs.len());
        for &(old, length) in &self.runs {
            match runs.last_mut() {
                Some((last, sum)) if *last == id(old) => *sum += length,
                _ => runs.push((id(old), length)),
            }
        }
        Self { runs, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_every_pixel() {
        let pixels = [0, 0, 3, 3, 254, 0, 0, 0, 3];
        let paint = Paint::from_pixels(3, 3, &pixels);
        assert_eq!(paint.pixels(), pixels);
        assert_eq!(paint.counts(), [(3, 3), (254, 1)]);
        let without = paint.map(|id| if id == 3 { UNPAINTED } else { id });
        assert_eq!(without, Paint::from_pixels(3, 3, &[0, 0, 0, 0, 254, 0, 0, 0, 0]));
        assert!(!without.is_empty() && Paint::from_pixels(4, 2, &[0; 8]).is_empty());
    }
}
