//! ASGNet (Li et al. 2021): a class as several centres, each place of the query guided by the one that fits it best.
//!
//! The encoder is frozen. Layers 3 and 2, concatenated, go through a 1x1 of 256 channels without ReLU that queries and
//! supports share. The support's cells gather around [`seeds`] in its mask ([`clustering`]); a small mask has one centre,
//! its average. The centres of all shots make one list: that is the rule for several shots. Each place of the query
//! takes the centre with the best cosine as its guide, and the sum of all cosines as probability. The
//! [`fem`] sees query, guide and probability on four grids.
//!
//! No gradient flows through the centres, as published: the 1x1 learns by the query alone.
//!
//! - The masks that seeds and cells are read from differ: the seeds' is resized by nearest neighbour, the cells' is where
//!   bilinear resizing leaves exactly 1.
//! - Published code also has a decoder without grids (`pyramid: False`), which no published model uses. It is not here.
//! - Published code lets the frozen encoder's batch-norm drift; here it stays.
//!
//! Published training: 473 pixels, SGD at 0.025 (the code's 0.0025 is multiplied by 10 for every layer), poly 0.9,
//! momentum 0.9, weight decay 1e-4, batches of 4, 200 epochs; on COCO 641 pixels, 0.05, batches of 8, 50 epochs.
//!
//! Shapes: maps `[n, 256, h, w]`, centres `[1 to 5 per shot, 256]`, guide `[n, 256, h, w]`, probability `[n, 1, h, w]`.

pub mod clustering;
pub mod seeds;

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor, TensorData, activation::relu},
};
use protoseg_core::RowMap;
use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::{
    BaseClasses, Encoded, Episodes, Episodic, FeatureShape, Frozen, Losses, Maps, Method, Vision,
    episodic::encode_all,
    fem::{self, CHANNELS, Enriched, Fem, Part},
    mask::{FOREGROUND, masked_average, masks},
    pfenet::{encode_query, fem_inner_loss, needs_dilated_resnet},
};
use crate::{
    bridge::{self, PixelTargets, pixel_loss},
    config::ConfigError,
    encoder::{EncoderConfig, Tensors},
    network::Network,
    nn::{Conv, Dropout2d, upsample},
    weights::{
        Rename,
        few_shot::{Published, rename_by, rename_semseg, semseg_resnet},
    },
};

/// Added to the area under a mask.
const TINY_AREA: f64 = 5e-4;
/// Below this, a norm counts as this.
const TINY_NORM: f64 = 1e-7;
/// A resized mask is 1 up to rounding.
const ROUNDING: f32 = 1e-4;

/// ASGNet's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asgnet {
    /// Sides of the grids, or shares of the map's side.
    pub bins: Vec<f64>,
    /// The most centres of one support.
    pub max_seeds: usize,
    /// Cells of the map per centre.
    pub seed_area: f64,
    /// Iterations of clustering in use.
    pub iterations: usize,
    /// Iterations of clustering in training.
    pub training_iterations: usize,
}

impl Default for Asgnet {
    fn default() -> Self {
        Self {
            bins: fem::BINS.to_vec(),
            max_seeds: 5,
            seed_area: 100.0,
            iterations: 5,
            training_iterations: 10,
        }
    }
}

/// What ASGNet adds to its encoder.
#[derive(Module, Debug)]
pub struct AsgnetWeights {
    /// Layers 3 and 2 of queries and supports.
    pub down: Conv2d,
    /// After it, in training.
    pub dropout: Dropout2d,
    /// Per grid: query, guide, probability.
    pub corr_conv: Vec<Conv2d>,
    /// The rest.
    pub fem: Fem,
}

/// What the centres of a class say about every place of a query.
#[derive(Clone, Debug)]
pub struct Guide {
    /// The centre that fits best, `[n, 256, h, w]`.
    pub centres: Tensor<4>,
    /// The sum of the cosines with all of them, `[n, 1, h, w]`.
    pub probability: Tensor<4>,
}

impl Asgnet {
    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> AsgnetWeights {
        let pointwise = |from| Conv::new(from, CHANNELS, 1).init(device);
        AsgnetWeights {
            down: pointwise(shape.stages[3] + shape.stages[2]),
            dropout: Dropout2d::new(0.5),
            corr_conv: self.bins.iter().map(|_| pointwise(2 * CHANNELS + 1)).collect(),
            fem: Fem::new(self.bins.len(), true, device),
        }
    }

    /// The seeds of a support on a map's grid.
    pub fn seeds(&self, label: &RowMap, size: [usize; 2]) -> Vec<[usize; 2]> {
        seeds::seeds(label, size, self.seed_area, self.max_seeds)
    }

    /// The centres `[count, 256]` of one support `[1, 256, h, w]`, without gradient. Fewer than two seeds give one
    /// centre, the masked average.
    pub fn centres(
        &self,
        map: Tensor<4>,
        label: &RowMap,
        seeds: &[[usize; 2]],
        iterations: usize,
    ) -> Tensor<2> {
        let map = map.detach();
        let ([_, dim, height, width], device) = (map.dims(), map.device());
        let mask = masks(std::slice::from_ref(label), FOREGROUND, [height, width], &device);
        let seeds = &seeds[..seeds::counted(seeds)];
        let inside: Vec<f32> = mask.clone().try_into_vec_as().expect("masks are f32");
        let cells: Vec<usize> = (0..inside.len()).filter(|&at| inside[at] > 1.0 - ROUNDING).collect();
        if seeds.len() <= 1 || cells.is_empty() {
            return masked_average(map, mask, TINY_AREA);
        }
        let features: Vec<f32> = map.try_into_vec_as().expect("maps are f32");
        let centres = clustering::cluster(&features, [height, width], &cells, seeds, iterations).concat();
        Tensor::from_data(TensorData::new(centres, [seeds.len(), dim]), &device)
    }

    /// The guide of every query by the centres of all its shots.
    pub fn guide(&self, encoded: &Encoded<'_>, iterations: usize) -> Guide {
        let guides = (0..encoded.len()).map(|index| {
            let episode = encoded.episode(index);
            let map = &episode.supports[0];
            let [.., height, width] = map.dims();
            let centres = episode.support_labels.iter().enumerate().map(|(shot, label)| {
                let own = map.clone().slice_dim(0, shot..shot + 1);
                self.centres(own, label, &self.seeds(label, [height, width]), iterations)
            });
            allocate(&episode.queries[0], Tensor::cat(centres.collect(), 0))
        });
        let (centres, probability): (Vec<_>, Vec<_>) =
            guides.map(|guide| (guide.centres, guide.probability)).unzip();
        Guide { centres: Tensor::cat(centres, 0), probability: Tensor::cat(probability, 0) }
    }

    /// Queries `[n, 256, h, w]` enriched by their guides.
    pub fn enrich(&self, network: &Network, query: &Tensor<4>, guide: &Guide, inner: bool) -> Enriched {
        let weights = network.method.asgnet();
        let [.., height, width] = query.dims();
        let size = [height, width];
        let merged = fem::grids(&self.bins, size).into_iter().zip(&weights.corr_conv).map(|(grid, conv)| {
            let parts = vec![
                Part::Map(fem::pooled(query.clone(), grid)),
                Part::Map(fem::pooled(guide.centres.clone(), grid)),
                Part::Map(upsample(guide.probability.clone(), grid)),
            ];
            relu(fem::merge(conv, parts))
        });
        weights.fem.forward(merged.collect(), size, inner, None)
    }
}

/// What centres `[count, 256]` say about one query `[1, 256, h, w]`.
pub fn allocate(query: &Tensor<4>, centres: Tensor<2>) -> Guide {
    let [_, dim, height, width] = query.dims();
    let pixels = query.clone().reshape([dim, height * width]);
    let norm = |squares: Tensor<2>| squares.clamp_min(TINY_NORM * TINY_NORM).sqrt();
    let lengths = norm(pixels.clone().square().sum_dim(0));
    let units = centres.clone() / norm(centres.clone().square().sum_dim(1));
    let cosines = units.matmul(pixels) / lengths;
    let best = cosines.clone().argmax(0).flatten::<1>(0, 1);
    Guide {
        centres: centres.select(0, best).transpose().reshape([1, dim, height, width]),
        probability: cosines.sum_dim(0).reshape([1, 1, height, width]),
    }
}

impl Episodic for Asgnet {
    fn name(&self) -> &'static str {
        "asgnet"
    }

    fn validate(&self) -> Result<(), ConfigError> {
        fem::validate_bins(&self.bins)?;
        if !(1..=100).contains(&self.max_seeds) {
            return Err(ConfigError::new("method.max_seeds", self.max_seeds, "from 1 to 100"));
        }
        if !(self.seed_area.is_finite() && self.seed_area > 0.0) {
            return Err(ConfigError::new("method.seed_area", self.seed_area, "a number of cells above 0"));
        }
        for (key, iterations) in
            [("method.iterations", self.iterations), ("method.training_iterations", self.training_iterations)]
        {
            if iterations > 1000 {
                return Err(ConfigError::new(key, iterations, "from 0 to 1000"));
            }
        }
        Ok(())
    }

    fn validate_encoder(&self, encoder: &EncoderConfig) -> Result<(), ConfigError> {
        needs_dilated_resnet(encoder)
    }

    fn frozen(&self) -> Frozen {
        Frozen::Encoder
    }

    fn encode(&self, vision: &Vision<'_>, images: Tensor<4>) -> Maps {
        let weights = vision.network().method.asgnet();
        let mut maps = encode_query(vision, images, false);
        maps[0] = weights.dropout.forward(bridge::conv(&weights.down, maps[0].clone()));
        maps
    }

    fn supports_as_queries(&self) -> bool {
        true
    }

    fn answer(&self, network: &Network, encoded: &Encoded<'_>) -> Tensor<4> {
        let guide = self.guide(encoded, self.iterations);
        upsample(self.enrich(network, &encoded.queries[0], &guide, false).scores, encoded.size)
    }

    /// Cross-entropy of the result, and the mean of that of the grids.
    fn losses(
        &self,
        vision: &Vision<'_>,
        _: BaseClasses,
        episodes: &Episodes<'_>,
        _: &mut dyn RngCore,
    ) -> Losses {
        let encoded = encode_all(self, vision, episodes);
        let guide = self.guide(&encoded, self.training_iterations);
        let enriched = self.enrich(vision.network(), &encoded.queries[0], &guide, true);
        let targets = PixelTargets::new(episodes.query_labels);
        let main = pixel_loss(enriched.scores, &targets);
        let aux = fem_inner_loss(enriched.inner, &targets);
        Losses { total: main.clone() + aux.clone(), main, aux: Some(aux) }
    }
}

/// ASGNet in a checkpoint of its authors.
pub(crate) fn published(tensors: &dyn Tensors) -> Option<Result<Published, String>> {
    tensors.shape("corr_conv.0.0.weight")?;
    Some(semseg_resnet(tensors).map(|resnet| {
        let method = Method::Asgnet(Asgnet::default());
        Published { network: method.published_network(EncoderConfig::ResNet(resnet)), method, rename }
    }))
}

fn rename(name: &str) -> Rename {
    const OWN: [(&str, &str); 1] = [("down_conv.0.", "down.")];
    fem::rename(name).or_else(|| rename_by(&OWN, name)).unwrap_or_else(|| rename_semseg(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_testing::assert_close;

    #[test]
    fn every_place_is_guided_by_the_centre_of_its_direction() {
        // Places (2, 0) and (0, 3); centres (1, 1), (1, 0) and (0, 5).
        let query = Tensor::<4>::from_floats([[[[2.0, 0.0]], [[0.0, 3.0]]]], &cpu());
        let centres = Tensor::<2>::from_floats([[1.0, 1.0], [1.0, 0.0], [0.0, 5.0]], &cpu());
        let guide = allocate(&query, centres);
        let values = |map: Tensor<4>| map.try_into_vec_as::<f32>().unwrap();
        assert_eq!(values(guide.centres), [1.0, 0.0, 0.0, 5.0]);
        let sum = 0.5f32.sqrt() + 1.0;
        assert_close("probability", &values(guide.probability), &[sum, sum], 1e-6);
    }

    #[test]
    fn a_mask_of_one_centre_is_its_average() {
        let map = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 6.0], &cpu()).reshape([1, 1, 2, 2]);
        let label = RowMap::new(2, 2, vec![0, 1, 0, 1]);
        let asgnet = Asgnet::default();
        let centre = asgnet.centres(map, &label, &asgnet.seeds(&label, [2, 2]), 5);
        assert_close("centre", &centre.try_into_vec_as::<f32>().unwrap(), &[8.0 / 2.0005], 1e-6);
    }
}
