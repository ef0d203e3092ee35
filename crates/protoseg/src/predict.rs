//! Use: an image alone goes in, every pixel gets one of all classes.

use burn::tensor::Tensor;
use protoseg_core::{Image, ScoreGrid, ScoreMap, Tiling};

use crate::{
    bridge::transposed,
    method::capl::{cosine::scores, fusion::image_prototypes, gate::Gate, options::Options},
    model::Model,
    nn::upsample,
    register::PrototypeBank,
};

/// A model with a classifier and the way to use it.
#[derive(Clone, Debug)]
pub struct Predictor<'a> {
    pub model: &'a Model,
    pub bank: PrototypeBank,
    /// With a gate the base prototypes follow each image first (DQCE).
    pub dqce: Option<Gate>,
    pub options: Options,
}

impl Predictor<'_> {
    /// Scores of every pixel of an image at its own size.
    pub fn predict(&self, image: &Image) -> ScoreMap {
        let grid = self.grid(self.model.features(image));
        ScoreMap::on_canvas(grid, &self.model.manifest.preprocess, image.width, image.height)
    }

    /// The same for a large image, in tiles that are as large as the network's canvas and overlap by this share.
    pub fn predict_tiled(&self, image: &Image, overlap: f64) -> ScoreMap {
        let preprocess = &self.model.manifest.preprocess;
        let tiling = Tiling::new(image.width, image.height, preprocess.size, overlap);
        let cut = |(left, top)| image.cut(left, top, tiling.width, tiling.height);
        let grids = tiling.corners().map(|corner| self.grid(self.model.features(&cut(corner)))).collect();
        ScoreMap::tiled(grids, &tiling, preprocess)
    }

    /// Scores on the grid of the features (`[1, d, h, w]`).
    pub fn grid(&self, features: Tensor<4>) -> ScoreGrid {
        let scores = self.model.grid_scores(features, &self.bank, self.dqce, &self.options);
        let [_, classes, height, width] = scores.dims();
        let scores = transposed(scores.reshape([classes, height * width]));
        ScoreGrid::new(classes, height, width, scores)
    }

    /// Scores on the network's input canvas, `[classes, size, size]`. The image's own part of it is at the top left
    /// ([`protoseg_core::Preprocess::content`]).
    pub fn canvas_scores(&self, image: &Image) -> Tensor<3> {
        let canvas = self.model.canvas(image);
        self.model.scores_of(canvas, &self.bank, self.dqce, &self.options).squeeze_dim(0)
    }
}

impl Model {
    /// F of an image, `[1, d, h, w]`.
    pub fn features(&self, image: &Image) -> Tensor<4> {
        self.canvas_features(self.canvas(image))
    }

    /// Scores of images that are already on the canvas, `[batch, 3, size, size]`, at that size:
    /// `[batch, classes, size, size]`.
    pub fn scores_of(
        &self,
        canvas: Tensor<4>,
        bank: &PrototypeBank,
        dqce: Option<Gate>,
        options: &Options,
    ) -> Tensor<4> {
        let [_, _, height, width] = canvas.dims();
        let features = self.canvas_features(canvas);
        upsample(self.grid_scores(features, bank, dqce, options), [height, width])
    }

    /// Scores of every position of `features` (`[batch, d, h, w]`) for every row of `bank`: `[batch, classes, h, w]`. With
    /// `dqce`, base rows follow each image first.
    fn grid_scores(
        &self,
        features: Tensor<4>,
        bank: &PrototypeBank,
        dqce: Option<Gate>,
        options: &Options,
    ) -> Tensor<4> {
        let learned = self.network().learned_base(bank.classes.n_base());
        let dqce = dqce.map(|gate| self.network().dqce(gate));
        let prototypes = image_prototypes(bank.rows.clone(), learned, features.clone(), dqce, options);
        scores(features, prototypes)
    }
}
