//! Features of a frozen encoder, computed once and kept on disk: a head then learns in minutes.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    sync::{Mutex, PoisonError},
};

use half::f16;
use protoseg_core::{IGNORE, RowMap};

/// Features of images with 16 bits per value, in a temporary file that goes when this does.
pub(super) struct FeatureCache {
    dim: usize,
    file: Mutex<File>,
    images: Vec<CachedImage>,
    end: u64,
}

struct CachedImage {
    offset: u64,
    /// On the grid, without what lies beside the picture on the canvas.
    labels: RowMap,
}

/// A part of an image on the grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crop {
    pub left: usize,
    pub top: usize,
    pub side: usize,
    /// Left and right exchanged.
    pub flip: bool,
}

impl FeatureCache {
    pub fn new(dim: usize) -> io::Result<Self> {
        Ok(Self { dim, file: Mutex::new(tempfile::tempfile()?), images: Vec::new(), end: 0 })
    }

    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// `[width, height]` of an image on the grid.
    pub fn size(&self, image: usize) -> [usize; 2] {
        let labels = &self.images[image].labels;
        [labels.width, labels.height]
    }

    /// Adds an image: features `[d, height, width]` of the whole canvas, of which the first `content` columns and rows
    /// are kept with their labels.
    pub fn add(&mut self, features: &[f32], labels: &RowMap, content: (usize, usize)) -> io::Result<()> {
        let (width, height) = (content.0.min(labels.width), content.1.min(labels.height));
        let mut bytes = Vec::with_capacity(self.dim * width * height * size_of::<f16>());
        for plane in features.chunks_exact(labels.width * labels.height) {
            for line in plane.chunks_exact(labels.width).take(height) {
                bytes.extend(line[..width].iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()));
            }
        }
        let rows = labels.data.chunks_exact(labels.width).take(height);
        let labels = RowMap::new(width, height, rows.flat_map(|row| row[..width].to_vec()).collect());
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes)?;
        self.images.push(CachedImage { offset: self.end, labels });
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// A part of an image, `[d, side, side]`, appended to `features`, and its labels. Beyond the picture its edge is
    /// repeated, without labels.
    pub fn read(&self, image: usize, crop: Crop, features: &mut Vec<f32>) -> io::Result<RowMap> {
        let CachedImage { offset, labels } = &self.images[image];
        let [width, height] = [labels.width, labels.height];
        let mut bytes = vec![0; self.dim * width * height * size_of::<f16>()];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(*offset))?;
            file.read_exact(&mut bytes)?;
        }
        let place = |at: usize| if crop.flip { crop.side - 1 - at } else { at };
        let columns: Vec<usize> = (0..crop.side).map(|x| crop.left + place(x)).collect();
        let rows: Vec<usize> = (0..crop.side).map(|y| crop.top + y).collect();
        let (values, _) = bytes.as_chunks::<2>();
        features.reserve(self.dim * crop.side * crop.side);
        for plane in values.chunks_exact(width * height) {
            for &y in &rows {
                let line = &plane[y.min(height - 1) * width..][..width];
                features.extend(columns.iter().map(|&x| f16::from_le_bytes(line[x.min(width - 1)]).to_f32()));
            }
        }
        let label = |(&y, &x): (&usize, &usize)| {
            if y < height && x < width { labels.data[y * width + x] } else { IGNORE }
        };
        let data = rows.iter().flat_map(|y| columns.iter().map(move |x| (y, x))).map(label).collect();
        Ok(RowMap::new(crop.side, crop.side, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_image_come_back_as_they_were() {
        // A canvas of 3 x 2 with two channels, of which two columns are picture.
        let features: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let labels = RowMap::new(3, 2, vec![0, 1, 9, 2, 3, 9]);
        let mut cache = FeatureCache::new(2).unwrap();
        cache.add(&features, &labels, (2, 2)).unwrap();
        assert_eq!((cache.len(), cache.size(0)), (1, [2, 2]));
        let mut read = Vec::new();
        let whole = Crop { left: 0, top: 0, side: 2, flip: false };
        let got = cache.read(0, whole, &mut read).unwrap();
        assert_eq!(read, [0.0, 1.0, 3.0, 4.0, 6.0, 7.0, 9.0, 10.0]);
        assert_eq!(got.data, [0, 1, 2, 3]);
        read.clear();
        let beyond = cache.read(0, Crop { left: 1, top: 0, side: 2, flip: true }, &mut read).unwrap();
        assert_eq!(read, [1.0, 1.0, 4.0, 4.0, 7.0, 7.0, 10.0, 10.0]);
        assert_eq!(beyond.data, [IGNORE, 1, IGNORE, 3]);
    }
}
