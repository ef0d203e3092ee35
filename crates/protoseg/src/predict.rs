//! Use: an image alone goes in, every pixel gets one of all classes.

use burn::tensor::Tensor;
use protoseg_core::Image;

use crate::{
    model::Model,
    prototype::{gamma::Gate, options::Options},
    register::PrototypeBank,
};

impl Model {
    /// Scores on the network's input canvas, `[1, classes, size, size]`. The image's own part of it is at the top left
    /// ([`protoseg_core::Preprocess::content`]). With `dqce` the base prototypes follow the image first.
    pub fn scores(
        &self,
        image: &Image,
        bank: &PrototypeBank,
        dqce: Option<Gate>,
        options: &Options,
    ) -> Tensor<4> {
        self.scores_of(self.canvas(image), bank, dqce, options)
    }

    /// The same for images that are already on the canvas, `[batch, 3, size, size]`.
    pub fn scores_of(
        &self,
        canvas: Tensor<4>,
        bank: &PrototypeBank,
        dqce: Option<Gate>,
        options: &Options,
    ) -> Tensor<4> {
        let [_, _, height, width] = canvas.dims();
        let features = self.network.features(canvas);
        self.network.scores(features, bank.rows.clone(), bank.n_base, dqce, options, [height, width])
    }
}
