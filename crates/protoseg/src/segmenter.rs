//! Use: an image alone goes in, every pixel gets one of all classes.

use std::sync::Arc;

use burn::tensor::Tensor;
use protoseg_core::{Classes, GridPlacement, Image, Look, ScoreGrid, ScoreMap, Tiling};
use protoseg_data::{Progress, quiet};

use crate::{
    bridge::transposed,
    class_pack::ClassPack,
    method::{Seen, Usage, prototypes::StageMaps},
    model::Model,
    nn::{resize_centred, upsample},
    picture::Palette,
    prediction::Prediction,
    register::{Classifier, RegisterError},
};

/// A model with a classifier and the way to use it.
#[derive(Clone, Debug)]
pub struct Segmenter {
    model: Model,
    classifier: Classifier,
    usage: Usage,
    palette: Arc<Palette>,
    /// Share by which neighbouring tiles overlap; images are not cut into tiles without it.
    overlap: Option<f64>,
    /// The model of the second look, if there is one ([`Model::for_second_look`]).
    second: Option<Model>,
    /// What scores are divided by before the softmax.
    temperature: f64,
}

/// An image as the network takes it, for every look at it; nothing for tiles.
#[derive(Clone, Debug)]
pub struct Prepared(Vec<Tensor<4>>);

/// What a usage has seen of an image in each look at it.
pub(crate) struct Looks(Vec<Seen>);

/// Makes a [`Segmenter`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SegmenterBuilder<'a> {
    model: &'a Model,
    pack: Option<&'a ClassPack>,
    usage: Option<Usage>,
    overlap: Option<f64>,
    looks_twice: bool,
}

impl<'a> SegmenterBuilder<'a> {
    /// With the classes of this pack beside the model's own.
    pub fn pack(self, pack: &'a ClassPack) -> Self {
        Self { pack: Some(pack), ..self }
    }

    /// Used like this; by default as the model was trained.
    pub fn usage(self, usage: Usage) -> Self {
        Self { usage: Some(usage), ..self }
    }

    /// Looks at images in tiles of the canvas's size, at full resolution. Tiles overlap by this share, from 0 to 0.5.
    pub fn tiles(self, overlap: f64) -> Self {
        Self { overlap: Some(overlap.clamp(0.0, 0.5)), ..self }
    }

    /// Looks at every image a second time, mirrored and on a canvas that is a third larger, and takes the mean of the
    /// scores: somewhat better for about three times the work. Images that are cut into tiles are looked at once.
    pub fn second_look(self, looks_twice: bool) -> Self {
        Self { looks_twice, ..self }
    }

    /// Forms the classifier. Fails if the pack is another model's.
    pub fn build(self) -> Result<Segmenter, RegisterError> {
        let usage = match self.usage {
            Some(usage) => usage,
            None => self.model.usage()?,
        };
        let segmenter = match self.pack {
            Some(pack) => {
                pack.check(self.model)?;
                let classifier = pack.classifier(self.model, &usage)?;
                let palette = Palette::new(&classifier.classes).with_pack(pack);
                let segmenter = Segmenter::with_classifier(self.model, classifier, usage);
                Segmenter { palette: Arc::new(palette), ..segmenter }
            }
            None => Segmenter::with_classifier(self.model, self.model.base_classifier(&usage), usage),
        };
        let second = self.looks_twice.then(|| self.model.for_second_look()).transpose()?;
        Ok(Segmenter { overlap: self.overlap, second, ..segmenter })
    }
}

impl Segmenter {
    /// A segmenter of the model's own classes, used as it was trained, unless the builder is told otherwise.
    pub fn builder(model: &Model) -> SegmenterBuilder<'_> {
        SegmenterBuilder { model, pack: None, usage: None, overlap: None, looks_twice: false }
    }

    /// With a classifier that is already there.
    pub fn with_classifier(model: &Model, classifier: Classifier, usage: Usage) -> Self {
        let palette = Arc::new(Palette::new(&classifier.classes));
        let temperature = model.calibration(&usage).map_or(1.0, |calibration| calibration.temperature);
        Self { model: model.clone(), classifier, usage, palette, overlap: None, second: None, temperature }
    }

    /// The same with this model's second look ([`Model::for_second_look`]).
    pub(crate) fn with_second(self, second: Option<Model>) -> Self {
        Self { second, ..self }
    }

    /// What the model makes of an image.
    pub fn predict(&self, image: &Image) -> Prediction {
        self.predict_prepared(image, self.prepare(image), &quiet)
    }

    /// Makes an image ready for the network. Another thread can do this while the network is busy.
    pub fn prepare(&self, image: &Image) -> Prepared {
        // Tiles are prepared one by one: all of them together would take too much memory.
        Prepared(if self.overlap.is_none() { self.canvases(image) } else { Vec::new() })
    }

    /// What the model makes of an image that is ready. `progress` is told after each tile how many of how many are
    /// done; without tiles there is one.
    pub fn predict_prepared(&self, image: &Image, prepared: Prepared, progress: Progress<'_>) -> Prediction {
        let scores = self.score_prepared(image, prepared, progress);
        Prediction::new(scores, Arc::clone(&self.palette), self.temperature)
    }

    /// What the model makes of each of these images, one after the other, as they are asked for.
    pub fn predict_each<'a, I>(&'a self, images: I) -> impl Iterator<Item = (Image, Prediction)> + 'a
    where
        I: IntoIterator<Item = Image>,
        I::IntoIter: 'a,
    {
        images.into_iter().map(|image| {
            let prediction = self.predict(&image);
            (image, prediction)
        })
    }

    /// What the rows of its classifier are.
    pub fn classes(&self) -> &Classes {
        &self.classifier.classes
    }

    /// Its classes with their colours.
    pub fn palette(&self) -> &Palette {
        &self.palette
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Which parts of the method act.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// What scores are divided by before the softmax that confidences come from.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    pub(crate) fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// Scores of every pixel of an image at its own size.
    pub fn score(&self, image: &Image) -> ScoreMap {
        self.score_prepared(image, self.prepare(image), &quiet)
    }

    fn score_prepared(&self, image: &Image, prepared: Prepared, progress: Progress<'_>) -> ScoreMap {
        match self.overlap {
            None => {
                let grids = self.grids(&self.see_each(prepared.0));
                progress(1, 1);
                self.join(grids, image.width, image.height)
            }
            Some(overlap) => self.score_tiles(image, overlap, progress),
        }
    }

    fn score_tiles(&self, image: &Image, overlap: f64, progress: Progress<'_>) -> ScoreMap {
        let preprocess = self.model.preprocess();
        let tiling = Tiling::new(image.width, image.height, preprocess.size, overlap);
        let count = tiling.corners().count();
        let score = |(place, (left, top)): (usize, (usize, usize))| {
            let tile = image.cut(left, top, tiling.width, tiling.height);
            let grid = self.raw_grid(&self.see(self.model.canvas(&tile)));
            progress(place + 1, count);
            grid
        };
        let mut grids: Vec<ScoreGrid> = tiling.corners().enumerate().map(score).collect();
        self.usage.finish(&mut grids);
        ScoreMap::tiled(grids, &tiling, preprocess)
    }

    /// Scores on the grid of the features (`[1, d, h, w]`).
    pub fn grid(&self, features: Tensor<4>) -> ScoreGrid {
        self.grid_of(&self.look(features))
    }

    /// What its usage needs of an image on the canvas, `[1, 3, height, width]`: computed once for all segmenters of the
    /// same usage.
    pub fn see(&self, canvas: Tensor<4>) -> Seen {
        self.see_through(&self.model, canvas)
    }

    /// The same on the canvas of `model`, this one or that of the second look.
    fn see_through(&self, model: &Model, canvas: Tensor<4>) -> Seen {
        let compares_stages = self.usage.compares_stages();
        match compares_stages.then(|| model.stage_extractor(canvas.dims())).flatten() {
            Some(extractor) => Seen::Stages(extractor.look(canvas, StageMaps::new)),
            None => self.look(model.canvas_features(canvas)),
        }
    }

    /// What its usage needs of an image, in every look at it.
    pub(crate) fn looks(&self, image: &Image) -> Looks {
        self.see_each(self.canvases(image))
    }

    /// The same of features that are there, one map for each look.
    pub(crate) fn looks_of(&self, features: &[Tensor<4>]) -> Looks {
        Looks(features.iter().map(|features| self.look(features.clone())).collect())
    }

    /// The models of its looks.
    fn models(&self) -> impl Iterator<Item = &Model> {
        std::iter::once(&self.model).chain(&self.second)
    }

    fn canvases(&self, image: &Image) -> Vec<Tensor<4>> {
        let second = self.second.as_ref().map(|second| second.canvas(&image.mirrored()));
        std::iter::once(self.model.canvas(image)).chain(second).collect()
    }

    fn see_each(&self, canvases: Vec<Tensor<4>>) -> Looks {
        Looks(self.models().zip(canvases).map(|(model, canvas)| self.see_through(model, canvas)).collect())
    }

    /// Scores on the grid of every look.
    pub(crate) fn grids(&self, looks: &Looks) -> Vec<ScoreGrid> {
        let mut grids: Vec<ScoreGrid> = looks.0.iter().map(|seen| self.raw_grid(seen)).collect();
        self.usage.finish(&mut grids);
        grids
    }

    /// Scores of an image of this size, from those of its looks.
    pub(crate) fn join(&self, grids: Vec<ScoreGrid>, width: usize, height: usize) -> ScoreMap {
        let looks = grids.into_iter().zip(self.models()).enumerate().map(|(place, (grid, model))| Look {
            grid,
            preprocess: model.preprocess(),
            is_mirrored: place > 0,
        });
        ScoreMap::of_looks(looks.collect(), width, height)
    }

    /// What the model makes of an image that it has seen ([`Self::see`]). The image is `size` wide and high; the answer
    /// is for a copy of it that is `at` wide and high. At its own size it is the answer of [`Self::predict`].
    pub fn predict_seen(&self, seen: &Seen, size: (usize, usize), at: (usize, usize)) -> Prediction {
        let scores = ScoreMap::on_canvas_at(self.grid_of(seen), self.model.preprocess(), size, at);
        Prediction::new(scores, Arc::clone(&self.palette), self.temperature)
    }

    /// What its usage needs of the features (`[1, d, h, w]`).
    pub(crate) fn look(&self, features: Tensor<4>) -> Seen {
        self.usage.look(self.model.network(), features)
    }

    /// Scores on the grid of what [`Self::see`] has seen.
    pub fn grid_of(&self, seen: &Seen) -> ScoreGrid {
        let mut grid = self.raw_grid(seen);
        self.usage.finish(std::slice::from_mut(&mut grid));
        grid
    }

    /// Scores on the grid before the last step, which needs the whole image.
    fn raw_grid(&self, seen: &Seen) -> ScoreGrid {
        if let Seen::Stages(maps) = seen {
            let (network, precision) = (self.model.network(), self.model.precision());
            return self.usage.score_stages(network, &self.classifier.rows, maps, precision);
        }
        let scores = self.grid_scores(seen);
        let [_, classes, height, width] = scores.dims();
        let scores = transposed(scores.reshape([classes, height * width]));
        ScoreGrid::new(classes, height, width, scores)
    }

    /// Scores of an image on the network's input canvas, `[classes, height, width]`. The image's own part of it is at the
    /// top left ([`protoseg_core::Preprocess::content`]).
    pub fn canvas_scores(&self, image: &Image) -> Tensor<3> {
        self.scores_of(self.model.canvas(image)).squeeze_dim(0)
    }

    /// Scores of images that are already on the canvas, `[batch, 3, height, width]`, at that size:
    /// `[batch, classes, height, width]`. An image prior is not among them.
    pub fn scores_of(&self, canvas: Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = canvas.dims();
        let scores = self.grid_scores(&self.look(self.model.canvas_features(canvas)));
        match self.model.preprocess().grid {
            GridPlacement::Corners => upsample(scores, [height, width]),
            GridPlacement::Centres => resize_centred(scores, [height, width]),
        }
    }

    /// Scores of every position: `[batch, classes, h, w]`.
    fn grid_scores(&self, seen: &Seen) -> Tensor<4> {
        let Classifier { rows, classes } = &self.classifier;
        self.usage.score(self.model.network(), classes.n_base(), rows, seen)
    }
}
