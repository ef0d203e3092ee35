//! Episodes in use: where in an image is the class that a few supports show?

use std::sync::Arc;

use burn::tensor::Tensor;
use protoseg_core::{Classes, Image, RowMap, SUPPORT_ROW, ScoreGrid, ScoreMap};
use protoseg_data::Support;

use crate::{
    bridge::transposed,
    method::{Encoded, Episodic, Maps},
    model::{Model, ModelError},
    picture::Palette,
    prediction::Prediction,
};

/// The label of the class in an episode; 0 is everything else.
pub(crate) const FOREGROUND: u16 = 1;

impl Model {
    /// Finds the class that the supports show in one image. For models of an episodic method; generalized ones register
    /// a class once instead ([`Model::register`]).
    ///
    /// Row 1 of the prediction is the class, row 0 everything else.
    pub fn find(&self, class: &str, query: &Image, supports: &[Support]) -> Result<Prediction, ModelError> {
        let method = self.episodic()?;
        let classes = Classes::new(&["background"], &[class])?;
        if supports.is_empty() {
            return Err(ModelError::NoSupport { class: class.to_string() });
        }
        let encode = |support: &Support| {
            let encoded = EncodedImage::support(self, method, support.image(), &mask(support));
            match encoded.labels.data.contains(&FOREGROUND) {
                true => Ok(encoded),
                false => Err(ModelError::NoForeground {
                    class: class.to_string(),
                    support: support.name().to_string(),
                    pixels: support.pixels(),
                }),
            }
        };
        let supports = supports.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        let supports: Vec<&EncodedImage> = supports.iter().collect();
        let grid = answer(self, method, &EncodedImage::query(self, method, query), &supports);
        let map = ScoreMap::on_canvas(grid, self.preprocess(), query.width, query.height);
        Ok(Prediction::new(map, Arc::new(Palette::new(&classes)), 1.0))
    }

    /// The method of the model, if it answers episodes.
    pub(crate) fn episodic(&self) -> Result<&dyn Episodic, ModelError> {
        let method = &self.manifest().method;
        method.episodic().ok_or_else(|| ModelError::Generalized { method: method.name() })
    }
}

/// What a method keeps of one image.
#[derive(Debug)]
pub(crate) struct EncodedImage {
    maps: Arc<Maps>,
    /// On the canvas. Of a support: 1 is the class, 0 everything else. Of a query: 0 in the picture. Beside the picture
    /// there is no label.
    labels: RowMap,
}

impl EncodedImage {
    /// With labels on the canvas.
    pub fn new(maps: Arc<Maps>, labels: RowMap) -> Self {
        Self { maps, labels }
    }

    /// A query.
    pub fn query(model: &Model, method: &dyn Episodic, image: &Image) -> Self {
        let maps = method.encode(&model.vision(), model.canvas(image));
        Self::new(Arc::new(maps), inside(model, image.width, image.height))
    }

    /// A support with its mask, which has the size of the image.
    pub fn support(model: &Model, method: &dyn Episodic, image: &Image, mask: &RowMap) -> Self {
        let labels = model.preprocess().label(mask);
        let canvas = model.canvas(image);
        let maps = method.encode_supports(&model.vision(), canvas, std::slice::from_ref(&labels));
        Self::new(Arc::new(maps), labels)
    }
}

/// All that is known of a query: where on the canvas its picture is.
pub(crate) fn inside(model: &Model, width: usize, height: usize) -> RowMap {
    model.preprocess().label(&RowMap::new(width, height, vec![0; width * height]))
}

/// Scores of background and class on the query's canvas.
pub(crate) fn answer(
    model: &Model,
    method: &dyn Episodic,
    query: &EncodedImage,
    supports: &[&EncodedImage],
) -> ScoreGrid {
    let n_maps = supports[0].maps.len();
    let together = |map: usize| match supports {
        [one] => one.maps[map].clone(),
        all => Tensor::cat(all.iter().map(|support| support.maps[map].clone()).collect(), 0),
    };
    let labels: Vec<RowMap> = supports.iter().map(|support| support.labels.clone()).collect();
    let size = model.preprocess().size;
    let encoded = Encoded {
        queries: query.maps.to_vec(),
        query_labels: std::slice::from_ref(&query.labels),
        supports: (0..n_maps).map(together).collect(),
        support_labels: &labels,
        shots: supports.len(),
        size: [size, size],
    };
    let scores = method.answer(model.network(), &encoded);
    let [_, rows, height, width] = scores.dims();
    let scores = transposed(scores.reshape([rows, height * width]));
    ScoreGrid::new(rows, height, width, scores)
}

/// The mask of a support: 1 where the class is, 0 elsewhere.
fn mask(support: &Support) -> RowMap {
    let labels = support.labels();
    let label = |&label: &u16| if label == SUPPORT_ROW { FOREGROUND } else { 0 };
    RowMap::new(labels.width, labels.height, labels.data.iter().map(label).collect())
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
    use protoseg_core::{IGNORE, Preprocess};

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
        let model = model(Method::Panet(Panet::default()));
        let method = model.episodic().unwrap();
        let image = Image::new(40, 20, vec![9; 2400]);
        let support = Support::from_mask("photo", image.clone(), &[true; 800]).unwrap();
        let support = EncodedImage::support(&model, method, &image, &mask(&support));
        assert_eq!((support.labels.data[0], support.labels.data[63 * 65]), (1, IGNORE));
        let query = EncodedImage::query(&model, method, &image);
        assert_eq!((query.labels.data[0], query.labels.data[63 * 65]), (0, IGNORE));
    }

    #[test]
    fn supports_without_foreground_are_refused() {
        let model = model(Method::Panet(Panet::default()));
        let image = Image::new(400, 400, vec![9; 480_000]);
        let find = |supports: &[Support]| model.find("duck", &image, supports).unwrap_err().to_string();
        assert!(find(&[]).starts_with("class `duck` has no support"));
        let mut mask = vec![false; 160_000];
        let empty = Support::from_mask("photo", image.clone(), &mask).unwrap();
        let error = find(std::slice::from_ref(&empty));
        assert!(error.starts_with("support `photo` of class `duck` has no foreground"), "{error}");
        mask[401] = true;
        let tiny = Support::from_mask("photo", image.clone(), &mask).unwrap();
        assert!(find(&[tiny]).contains("got `1` pixels"), "one pixel of 400 is none of 65");
    }
}
