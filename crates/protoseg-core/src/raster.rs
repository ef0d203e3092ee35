//! Pictures and label maps in memory.

use std::marker::PhantomData;

/// The label of a pixel that losses, pooling and metrics must skip. Files write it as 255 (or whatever the data set
/// declares). Readers turn it into this value, so that a classifier may have more than 255 rows.
pub const IGNORE: u16 = u16::MAX;

/// The label of the class that a support teaches, until the class has a row. It differs from [`IGNORE`] and from
/// every class of a model.
pub const SUPPORT_ROW: u16 = IGNORE - 1;

/// An RGB picture with 8 bits per channel, rows from the top, channels interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub width: usize,
    pub height: usize,
    /// `height * width * 3` bytes.
    pub data: Vec<u8>,
}

impl Image {
    pub fn new(width: usize, height: usize, data: Vec<u8>) -> Self {
        assert_eq!(
            data.len(),
            width * height * 3,
            "an RGB image of {width} x {height} needs {} bytes",
            width * height * 3
        );
        Self { width, height, data }
    }

    /// A part of the picture.
    pub fn cut(&self, left: usize, top: usize, width: usize, height: usize) -> Self {
        let rows = self.data.chunks_exact(3 * self.width.max(1)).skip(top).take(height);
        Self::new(width, height, rows.flat_map(|row| &row[3 * left..][..3 * width]).copied().collect())
    }

    /// The picture with left and right exchanged.
    pub fn mirrored(&self) -> Self {
        let rows = self.data.chunks_exact(3 * self.width.max(1));
        let data = rows.flat_map(|row| row.chunks_exact(3).rev().flatten()).copied().collect();
        Self::new(self.width, self.height, data)
    }
}

/// One label per pixel. `L` says what the numbers mean: [`IdMap`] holds the ids in a data set's files, [`RowMap`] the
/// rows of a classifier. Only [`Remap`](crate::Remap) turns one into the other. [`IGNORE`] means "no label" in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelMap<L> {
    pub width: usize,
    pub height: usize,
    /// `height * width` labels, line by line from the top.
    pub data: Vec<u16>,
    meaning: PhantomData<L>,
}

/// Marks labels that are ids, as a data set's files write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileIds {}

/// Marks labels that are rows of a classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassRows {}

/// Labels as ids, as in the files of a data set.
pub type IdMap = LabelMap<FileIds>;

/// Labels as rows of a classifier.
pub type RowMap = LabelMap<ClassRows>;

impl<L> LabelMap<L> {
    pub fn new(width: usize, height: usize, data: Vec<u16>) -> Self {
        assert_eq!(
            data.len(),
            width * height,
            "a label map of {width} x {height} needs {} labels",
            width * height
        );
        Self { width, height, data, meaning: PhantomData }
    }

    /// Makes a map from 8-bit labels in which 255 means "ignore".
    pub fn from_u8(width: usize, height: usize, labels: &[u8]) -> Self {
        let widen = |&label: &u8| {
            if label == 255 { IGNORE } else { u16::from(label) }
        };
        Self::new(width, height, labels.iter().map(widen).collect())
    }

    /// The labels that occur, in ascending order, without [`IGNORE`].
    pub fn present(&self) -> Vec<u16> {
        let mut seen = vec![false; usize::from(IGNORE) + 1];
        self.data.iter().for_each(|&label| seen[usize::from(label)] = true);
        (0..IGNORE).filter(|&label| seen[usize::from(label)]).collect()
    }

    /// The map resized by nearest neighbour, as PyTorch's `interpolate(mode = "nearest")` does it: source index
    /// `floor(i * in / out)`, with the ratio in single precision.
    pub fn resize_nearest(&self, width: usize, height: usize) -> Self {
        self.pick(&nearest_indices(self.width, width), &nearest_indices(self.height, height))
    }

    /// The labels at the centres of `width` x `height` equal areas.
    pub fn at_centres(&self, width: usize, height: usize) -> Self {
        self.pick(&centre_indices(self.width, width), &centre_indices(self.height, height))
    }

    fn pick(&self, columns: &[usize], rows: &[usize]) -> Self {
        let mut data = Vec::with_capacity(columns.len() * rows.len());
        for y in rows {
            let row = &self.data[y * self.width..][..self.width];
            data.extend(columns.iter().map(|&x| row[x]));
        }
        Self::new(columns.len(), rows.len(), data)
    }
}

/// The pixel at the centre of each of `to` equal parts of a line.
fn centre_indices(from: usize, to: usize) -> Vec<usize> {
    (0..to).map(|i| ((2 * i + 1) * from / (2 * to)).min(from.saturating_sub(1))).collect()
}

fn nearest_indices(from: usize, to: usize) -> Vec<usize> {
    let ratio = from as f32 / to as f32;
    (0..to).map(|i| ((i as f32 * ratio) as usize).min(from - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_in_8_bits_becomes_ignore_in_16() {
        let map = IdMap::from_u8(3, 1, &[0, 255, 254]);
        assert_eq!(map.data, [0, IGNORE, 254]);
        assert_eq!(map.present(), [0, 254]);
    }

    #[test]
    fn nearest_takes_the_floor_of_the_scaled_index() {
        let map = IdMap::new(4, 1, vec![10, 11, 12, 13]);
        assert_eq!(map.resize_nearest(2, 1).data, [10, 12]);
        assert_eq!(map.resize_nearest(3, 1).data, [10, 11, 12]);
        assert_eq!(map.at_centres(2, 1).data, [11, 13]);
        assert_eq!(map.at_centres(4, 1).data, [10, 11, 12, 13]);
        assert_eq!(map.resize_nearest(8, 1).data, [10, 10, 11, 11, 12, 12, 13, 13]);
    }
}
