//! A picture on the canvas and our answer to it, to compare other runtimes with.

use std::{collections::HashMap, path::Path, sync::Arc};

use burn::tensor::{Tensor, TensorData};
use protoseg_core::{GridPlacement, IGNORE, Image, Preprocess, RowMap, ScoreMap, best};
use protoseg_data::Benchmark;

use super::ExportError;
use crate::{
    episode::{EncodedImage, answer, inside},
    model::{Model, ModelError},
    segmenter::Segmenter,
    weights::write_safetensors,
};

/// The scene of the built-in world that samples show.
const SCENE: usize = 3;
/// Supports of an episode.
const SUPPORTS: usize = 2;
/// Scores of two classes that differ by less than this are a tie: runtimes may round either way.
pub const TIE: f32 = 2e-3;

/// A picture as the input of a file, and what the library makes of it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// In pixels.
    pub height: usize,
    /// In pixels.
    pub width: usize,
    /// `[height, width, 3]`
    pub image: Vec<u8>,
    /// `[height, width]`
    pub labels: Vec<u16>,
    /// `[classes, height, width]`
    pub scores: Vec<f32>,
    n_classes: usize,
    /// Inputs beside the image.
    pub more: Vec<(String, TensorData)>,
}

/// How far two answers to a picture are the same.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Agreement {
    /// All pixels.
    pub pixels: usize,
    /// Those with another class.
    pub different: usize,
    /// Those of them where our two best scores are closer than [`TIE`].
    pub ties: usize,
    /// Between scores of any class at any pixel.
    pub largest_difference: f32,
}

impl Agreement {
    /// Scores may differ by this much.
    pub const MOST: f32 = 1e-3;

    /// Whether labels are the same but for ties, and scores but for rounding.
    pub fn is_same(&self) -> bool {
        self.different == self.ties && self.largest_difference <= Self::MOST
    }
}

impl Sample {
    /// A scene of the built-in world and the segmenter's answer. It is not square, so that a canvas with the shape of the
    /// picture is not either.
    pub fn new(segmenter: &Segmenter) -> Result<Self, ExportError> {
        let (scene, _) = Benchmark::open("scenes", None)?.dataset.load(SCENE)?;
        let scene = scene.cut(0, 0, scene.width, scene.height * 3 / 4);
        Ok(Self::of(segmenter, &scene))
    }

    /// A picture, brought onto the canvas and rounded to bytes, and the segmenter's answer to that.
    pub fn of(segmenter: &Segmenter, picture: &Image) -> Self {
        let model = segmenter.model();
        let preprocess = model.preprocess();
        let canvas = preprocess.image(picture);
        let (height, width) = (canvas.height, canvas.width);
        let image = bytes(&canvas.data, preprocess);
        let planes = normalised(&image, preprocess);
        let tensor = Tensor::from_data(TensorData::new(planes, [1, 3, height, width]), model.device());
        let grid = segmenter.grid_of(&segmenter.see(tensor));
        let map = ScoreMap::of_canvas(grid, preprocess.grid, width, height);
        Self::answered(image, &map)
    }

    /// An episode of three scenes and the model's answer. The class is what lies left of the middle of the first support,
    /// and above the middle of the second, whose right edge has no label.
    pub fn of_episode(model: &Model) -> Result<Self, ModelError> {
        let method = model.episodic()?;
        let preprocess = model.preprocess();
        let scenes = Benchmark::open("scenes", None).expect("the built-in world is there");
        let picture = |index: usize| {
            let canvas = preprocess.image(&scenes.dataset.load(index).expect("a scene can be drawn").0);
            (bytes(&canvas.data, preprocess), canvas.height, canvas.width)
        };
        let (image, height, width) = picture(SCENE);
        let tensor = |image: &[u8]| {
            let planes = normalised(image, preprocess);
            Tensor::from_data(TensorData::new(planes, [1, 3, height, width]), model.device())
        };
        let maps = method.encode(&model.vision(), tensor(&image));
        let query = EncodedImage::new(Arc::new(maps), inside(model, width, height));
        let label = |support: usize, x: usize, y: usize| match support {
            0 => u16::from(2 * x < width),
            _ if 8 * x >= 7 * width => IGNORE,
            _ => u16::from(2 * y < height),
        };
        let (mut images, mut masks, mut supports) = (Vec::new(), Vec::new(), Vec::new());
        for support in 0..SUPPORTS {
            let (image, ..) = picture(SCENE + 1 + support);
            let labels = (0..width * height).map(|at| label(support, at % width, at / width)).collect();
            let labels = RowMap::new(width, height, labels);
            masks
                .extend(labels.data.iter().map(|&label| if label == IGNORE { u8::MAX } else { label as u8 }));
            let maps = method.encode_supports(&model.vision(), tensor(&image), std::slice::from_ref(&labels));
            supports.push(EncodedImage::new(Arc::new(maps), labels));
            images.extend(image);
        }
        let grid = answer(model, method, &query, &supports.iter().collect::<Vec<_>>());
        let map = ScoreMap::of_canvas(grid, GridPlacement::Corners, width, height);
        let more = vec![
            ("support_images".to_string(), TensorData::new(images, [SUPPORTS, height, width, 3])),
            ("support_masks".to_string(), TensorData::new(masks, [SUPPORTS, height, width])),
        ];
        Ok(Self { more, ..Self::answered(image, &map) })
    }

    fn answered(image: Vec<u8>, map: &ScoreMap) -> Self {
        let ScoreMap { width, height, classes: n_classes, .. } = *map;
        let mut scores = vec![0.0; n_classes * height * width];
        map.for_rows(|y, row| {
            for (x, pixel) in row.chunks_exact(n_classes).enumerate() {
                for (class, &score) in pixel.iter().enumerate() {
                    scores[(class * height + y) * width + x] = score;
                }
            }
        });
        Self { height, width, image, labels: map.labels().data, scores, n_classes, more: Vec::new() }
    }

    /// With these inputs beside the image ([`OnnxFile::rows`](super::OnnxFile::rows)).
    #[must_use]
    pub fn with_inputs(self, more: &[(String, TensorData)]) -> Self {
        Self { more: more.to_vec(), ..self }
    }

    /// Writes all inputs, `labels` and `scores` to a safetensors file, with a batch of one in front.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ExportError> {
        let Self { height, width, n_classes, .. } = *self;
        let labels: Vec<i32> = self.labels.iter().map(|&label| i32::from(label)).collect();
        let own = [
            ("image", TensorData::new(self.image.clone(), [1, height, width, 3])),
            ("labels", TensorData::new(labels, [1, height, width])),
            ("scores", TensorData::new(self.scores.clone(), [1, n_classes, height, width])),
        ];
        let own = own.into_iter().map(|(name, data)| (name.to_string(), data));
        let tensors = own.chain(self.more.iter().cloned()).collect();
        Ok(write_safetensors(path.as_ref(), tensors, HashMap::new())?)
    }

    /// Our answer beside that of another runtime.
    ///
    /// # Panics
    /// If the other answer is of another size.
    pub fn compare(&self, labels: &[i32], scores: &[f32]) -> Agreement {
        let pixels = self.height * self.width;
        assert_eq!((labels.len(), scores.len()), (pixels, self.scores.len()), "answers of one size");
        let (mut different, mut ties) = (0, 0);
        for (pixel, (&own, &other)) in self.labels.iter().zip(labels).enumerate() {
            if i32::from(own) != other {
                different += 1;
                ties += usize::from(self.margin(pixel) < TIE);
            }
        }
        // NaN is no small difference.
        let larger = |most: f32, (a, b): (&f32, &f32)| {
            let difference = (a - b).abs();
            if most.is_nan() || difference <= most { most } else { difference }
        };
        let largest_difference = self.scores.iter().zip(scores).fold(0.0, larger);
        Agreement { pixels, different, ties, largest_difference }
    }

    /// How far the best class of a pixel is ahead.
    fn margin(&self, pixel: usize) -> f32 {
        let pixels = self.height * self.width;
        let mut scores: Vec<f32> = self.scores.iter().skip(pixel).step_by(pixels).copied().collect();
        let (first, highest) = best(&scores);
        scores.swap_remove(first);
        highest - best(&scores).1
    }
}

/// Planes `[3, height, width]` of normalised values as pixels `[height, width, 3]` of bytes.
fn bytes(planes: &[f32], preprocess: &Preprocess) -> Vec<u8> {
    let pixels = planes.len() / 3;
    let value = |at: usize| {
        let (pixel, channel) = (at / 3, at % 3);
        let value = planes[channel * pixels + pixel] * preprocess.std[channel] + preprocess.mean[channel];
        value.round().clamp(0.0, 255.0) as u8
    };
    (0..planes.len()).map(value).collect()
}

/// The opposite.
fn normalised(bytes: &[u8], preprocess: &Preprocess) -> Vec<f32> {
    let pixels = bytes.len() / 3;
    let value = |at: usize| {
        let (channel, pixel) = (at / pixels, at % pixels);
        (f32::from(bytes[pixel * 3 + channel]) - preprocess.mean[channel]) / preprocess.std[channel]
    };
    (0..bytes.len()).map(value).collect()
}
