//! Episodes in use: where in an image is the class that a few supports show?

use std::sync::Arc;

use burn::tensor::Tensor;
use protoseg_core::{Classes, Image, Preprocess, RowMap, SUPPORT_ROW, ScoreGrid, ScoreMap};
use protoseg_data::Support;

use crate::{
    bridge::transposed,
    method::Episodes,
    model::{Model, ModelError},
    picture::Palette,
    prediction::Prediction,
};

impl Model {
    /// Finds the class that the supports show in one image. For models of an episodic method; generalized ones register
    /// a class once instead ([`Model::register`]).
    ///
    /// Row 1 of the prediction is the class, row 0 everything else.
    ///
    /// # Panics
    /// If there is no support.
    pub fn find(&self, class: &str, query: &Image, supports: &[Support]) -> Result<Prediction, ModelError> {
        assert!(!supports.is_empty(), "a class is found by at least one support");
        let method = &self.manifest().method;
        let episodic = method.episodic().ok_or_else(|| ModelError::Generalized { method: method.name() })?;
        let preprocess = self.preprocess();
        let canvases: Vec<Tensor<4>> = supports.iter().map(|support| self.canvas(support.image())).collect();
        let labels: Vec<RowMap> = supports.iter().map(|support| mask(support, preprocess)).collect();
        let beside =
            preprocess.label(&RowMap::new(query.width, query.height, vec![0; query.width * query.height]));
        let episodes = Episodes {
            queries: self.canvas(query),
            query_labels: &[beside],
            classes: None,
            supports: Tensor::cat(canvases, 0).unsqueeze(),
            support_labels: &labels,
        };
        let scores = episodic.score(&self.vision(), &episodes);
        let [_, rows, height, width] = scores.dims();
        let grid = transposed(scores.reshape([rows, height * width]));
        let grid = ScoreGrid::new(rows, height, width, grid);
        let map = ScoreMap::on_canvas(grid, preprocess, query.width, query.height);
        let classes = Classes::new(&["background"], &[class])?;
        Ok(Prediction::new(map, Arc::new(Palette::new(&classes))))
    }
}

/// The labels of an episode: 1 where the class is, 0 in the rest of the picture, nothing beside it.
fn mask(support: &Support, preprocess: &Preprocess) -> RowMap {
    let labels = support.labels();
    let label = |&label: &u16| u16::from(label == SUPPORT_ROW);
    let whole = RowMap::new(labels.width, labels.height, labels.data.iter().map(label).collect());
    preprocess.label(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::NetworkConfig,
        decoder::DecoderKind,
        device::cpu,
        encoder::{EncoderConfig, ResNetConfig},
        method::{Method, panet::Panet},
        model::{Manifest, Training},
    };
    use protoseg_core::IGNORE;

    fn model(method: Method) -> Model {
        let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
        let manifest = Manifest {
            format: Manifest::FORMAT,
            network: NetworkConfig {
                dim: encoder.channels()[1],
                encoder,
                decoder: DecoderKind::Identity,
                ..NetworkConfig::pspnet(10)
            },
            classes: Classes::new(&["background", "cow"], &[]).unwrap(),
            method,
            preprocess: Preprocess::imagenet(65),
            training: Training::default(),
        };
        cpu().seed(3);
        Model::random(manifest, &cpu()).unwrap()
    }

    #[test]
    fn a_support_finds_itself() {
        // Left dark, right bright: the class is the right half.
        let bright = |at: usize| if at / 3 % 80 < 40 { 20 } else { 220 };
        let image = Image::new(80, 60, (0..80 * 60 * 3).map(bright).collect());
        let mask: Vec<bool> = (0..80 * 60).map(|at| at % 80 >= 40).collect();
        let support = Support::from_mask("photo", image.clone(), &mask).unwrap();
        let model = model(Method::Panet(Panet::default()));
        let prediction = model.find("duck", &image, std::slice::from_ref(&support)).unwrap();
        let labels = prediction.labels();
        assert_eq!((labels.width, labels.height), (80, 60));
        let right = labels.data.iter().zip(&mask).filter(|(label, own)| (**label == 1) == **own).count();
        assert!(right > 80 * 60 * 8 / 10, "{right} of {} pixels", 80 * 60);
        let error = model.usage().unwrap_err().to_string();
        assert!(error.contains("panet"), "{error}");
    }

    #[test]
    fn beside_the_picture_nothing_is_labelled() {
        let support = Support::from_mask("photo", Image::new(40, 20, vec![9; 2400]), &[true; 800]).unwrap();
        let labels = mask(&support, &Preprocess::imagenet(64));
        assert_eq!((labels.data[0], labels.data[63 * 64]), (1, IGNORE));
    }
}
