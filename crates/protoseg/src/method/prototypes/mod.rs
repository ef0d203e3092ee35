//! Prototypes without training: class means on the features of a frozen encoder, compared by the cosine in a space that
//! is whitened by the covariance within the base classes. Beyond the paper.
//!
//! | what | where |
//! |---|---|
//! | counts, sums and second moments of the base classes | [`moments`] |
//! | the whitened space | [`whitening`] |
//! | several prototypes for one class | [`mod@kmeans`] |
//! | rows of base and taught classes, and which of the background's step back | `rows` |
//! | a head trained on the same features, whose answer is multiplied with this one | [`head`] |
//!
//! A model without base classes has a bank of generic background rows instead, and nothing is whitened: the supports
//! alone say what the class is, the bank what the rest of the world looks like.

pub mod head;
pub mod kmeans;
pub mod moments;
mod rows;
pub mod whitening;

use std::fmt;

use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor, TensorData},
};
use protoseg_core::{IGNORE, RowMap, ScoreGrid, add_image_prior};
use protoseg_kernels::{
    Precision,
    channels_last::{Panels, StageRows, best_rows, transpose, unit_pixels},
};
use rand::Rng;
use serde::{Deserialize, Serialize};

use self::{
    head::{Head, HeadSettings, head_sums},
    kmeans::kmeans,
    whitening::Whitening,
};
use super::{
    BaseClasses, FeatureShape, Images, Losses, Rows,
    capl::{self, Options, Preset},
    cosine::unit,
    pooling::class_sums,
    support_sums::{Clusters, Pooled, SupportSums},
};
use crate::{config::ConfigError, network::Network, once::get_or_make};

/// What a cosine is multiplied by before the softmax.
const SCALE: f32 = 20.0;
/// The same in a product with a head that knows a background: the head tells the background better than its prototypes do.
const PRODUCT_SCALE: f32 = 10.0;
/// Groups of pixels that a support of a model without base classes is remembered by: of its class, and of the rest.
const OWN_GROUPS: usize = 3;
/// Coarse maps know what a thing is, fine ones where: this much each counts in a model without base classes. Ten classes
/// of MSRC, one at a time, 1 and 5 shots: 47.2 and 65.6 IoU with all the same, 57.2 and 69.8 with these and a larger bank.
const EMPHASIS: [f32; 3] = [0.8, 1.0, 1.25];
const REST_GROUPS: usize = 16;

/// The method with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prototypes {
    /// Number of prototypes of each base class.
    pub base_rows: Vec<usize>,
    /// Whether the first base class is the background.
    pub has_background: bool,
    /// The share of the mean variance that is added to every direction before whitening; without it nothing is whitened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrinkage: Option<f64>,
    /// How much each of the joined maps counts, finest first, where nothing is whitened; empty for all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emphasis: Vec<f32>,
    /// Groups of pixels of its class that a support is remembered by, each a prototype; 0 for one mean over all supports.
    pub own_groups: usize,
    /// Groups of background pixels that a support is remembered by.
    pub rest_groups: usize,
    /// Whether classes that an image does not seem to show are made less likely in it ([`protoseg_core::add_image_prior`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub image_prior: bool,
    /// The trained head, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadSettings>,
}

/// What the method adds to the encoder. Only the head is trained.
#[derive(Module, Debug)]
pub struct PrototypesWeights {
    /// Prototypes of the base classes, `[rows, d]`.
    pub base: Param<Tensor<2>>,
    /// How much each channel counts where nothing is whitened, `[1, d]`.
    pub emphasis: Option<Param<Tensor<2>>>,
    /// The whitened space.
    pub whitening: Option<Whitening>,
    /// The trained head.
    pub head: Option<Head>,
}

/// How such a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Cosines of features as they are.
    Cosine,
    /// Cosines in the whitened space.
    Whitened,
    /// The trained head alone.
    Head,
    /// The product of the whitened answer and the head's.
    Product,
}

impl Answer {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Cosine, Self::Whitened, Self::Head, Self::Product];

    /// `cosine`, `whitened`, `head` or `product`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::Whitened => "whitened",
            Self::Head => "head",
            Self::Product => "product",
        }
    }

    /// The way of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.name() == name)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a model of this method registers classes and scores images.
#[derive(Clone, Debug, PartialEq)]
pub struct PrototypeUsage {
    settings: Prototypes,
    answer: Answer,
    image_prior: bool,
}

impl Prototypes {
    /// Of a model without base classes, with this many rows of generic background: everything is taught.
    pub fn taught(background_rows: usize) -> Self {
        Self {
            base_rows: vec![background_rows],
            has_background: true,
            shrinkage: None,
            emphasis: EMPHASIS.to_vec(),
            own_groups: OWN_GROUPS,
            rest_groups: REST_GROUPS,
            image_prior: false,
            head: None,
        }
    }

    /// Of a model with base classes, each with this many prototypes.
    pub fn learned(base_rows: Vec<usize>, has_background: bool, shrinkage: f64) -> Self {
        let shrinkage = Some(shrinkage);
        let emphasis = Vec::new();
        let (own_groups, rest_groups, image_prior, head) = (0, 0, true, None);
        Self { base_rows, has_background, shrinkage, emphasis, own_groups, rest_groups, image_prior, head }
    }

    /// Number of prototypes of all base classes.
    fn rows(&self) -> usize {
        self.base_rows.iter().sum()
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let most = usize::from(u16::MAX);
        if self.base_rows.is_empty() || self.base_rows.contains(&0) || self.rows() >= most {
            let got = format!("{:?}", self.base_rows);
            return Err(ConfigError::new(
                "base_rows",
                got,
                "at least one row per base class, fewer than 65535",
            ));
        }
        if let Some(shrinkage) = self.shrinkage.filter(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(ConfigError::new("shrinkage", shrinkage, "a number above 0"));
        }
        if self.own_groups > 64 || self.rest_groups > 256 {
            let got = format!("{} and {}", self.own_groups, self.rest_groups);
            return Err(ConfigError::new("own_groups, rest_groups", got, "at most 64 and 256"));
        }
        if self.emphasis.iter().any(|&weight| !(weight.is_finite() && weight > 0.0)) {
            let got = format!("{:?}", self.emphasis);
            return Err(ConfigError::new("emphasis", got, "numbers above 0"));
        }
        self.head.as_ref().map_or(Ok(()), HeadSettings::validate)
    }

    pub(super) fn init(&self, shape: &FeatureShape, device: &Device) -> PrototypesWeights {
        PrototypesWeights {
            base: Param::from_tensor(Tensor::zeros([self.rows(), shape.dim], device)),
            emphasis: self.emphasis(shape, device),
            whitening: self.shrinkage.map(|_| Whitening::empty(shape.dim, device)),
            head: self.head.as_ref().map(|head| head.init(shape.dim, device)),
        }
    }

    /// How much each channel counts, if not all the same.
    fn emphasis(&self, shape: &FeatureShape, device: &Device) -> Option<Param<Tensor<2>>> {
        let joined = shape.stages.len().checked_sub(self.emphasis.len())?;
        let channels = shape.stages[joined..].iter().zip(&self.emphasis);
        let values: Vec<f32> = channels.flat_map(|(&count, &weight)| vec![weight; count]).collect();
        let fits = !values.is_empty() && values.len() == shape.dim;
        fits.then(|| Param::from_tensor(Tensor::from_data(TensorData::new(values, [1, shape.dim]), device)))
    }

    /// The losses of the head on a batch of features.
    ///
    /// # Panics
    /// If there is no head.
    pub(super) fn losses(
        &self,
        network: &Network,
        base: BaseClasses,
        batch: &Images<'_>,
        rng: &mut impl Rng,
    ) -> Losses {
        let settings = self.head.as_ref().expect("only a head is trained");
        let head = network.method.prototypes().head.as_ref().expect("settings and weights agree");
        head.losses(&settings.capl, batch.images.clone(), batch.labels, base, rng)
    }

    /// The best way that the model has.
    pub fn usage(&self) -> PrototypeUsage {
        let best = Answer::ALL.into_iter().rfind(|&answer| self.has(answer)).unwrap_or(Answer::Cosine);
        PrototypeUsage { settings: self.clone(), answer: best, image_prior: self.image_prior }
    }

    fn has(&self, answer: Answer) -> bool {
        match answer {
            Answer::Cosine => true,
            Answer::Whitened => self.shrinkage.is_some(),
            Answer::Head => self.head.is_some(),
            Answer::Product => self.shrinkage.is_some() && self.head.is_some(),
        }
    }

    /// Length of what is remembered of a pixel with features of `dim` values: those, and the head's.
    pub fn remembered(&self, dim: usize) -> usize {
        dim + self.head.as_ref().map_or(0, |head| head.dim)
    }
}

impl PrototypesWeights {
    /// Features or prototypes `[n, d]` in the space they are compared in, not of unit length.
    fn space(&self, rows: Tensor<2>, whitened: bool) -> Tensor<2> {
        match (&self.whitening, &self.emphasis) {
            (Some(whitening), _) if whitened => whitening.apply(rows),
            (_, Some(emphasis)) => rows * emphasis.val(),
            _ => rows,
        }
    }

    /// The pixels of features `[batch, d, h, w]` in the space they are compared in, `[batch * h * w, d]`, each of unit
    /// length.
    fn unit_pixels(&self, features: Tensor<4>, whitened: bool) -> Vec<f32> {
        let [_, dim, height, width] = features.dims();
        let values: Vec<f32> = features.try_into_vec_as().expect("features are f32");
        let mut pixels = transposed(&values, dim * height * width, height * width);
        let vector = |tensor: Tensor<2>| -> Vec<f32> { tensor.try_into_vec_as().expect("weights are f32") };
        match (&self.whitening, &self.emphasis) {
            (Some(whitening), _) if whitened => {
                pixels = whitening.apply_to(&pixels);
                unit_pixels(&mut pixels, dim, None);
            }
            (_, Some(emphasis)) => unit_pixels(&mut pixels, dim, Some(&vector(emphasis.val()))),
            _ => unit_pixels(&mut pixels, dim, None),
        }
        pixels
    }
}

impl PrototypeUsage {
    /// How the model answers.
    pub fn answer(&self) -> Answer {
        self.answer
    }

    /// Answering like this, if the model can.
    pub fn with_answer(self, answer: Answer) -> Option<Self> {
        self.settings.has(answer).then_some(Self { answer, ..self })
    }

    /// With or without the image prior.
    pub fn with_image_prior(self, image_prior: bool) -> Self {
        Self { image_prior, ..self }
    }

    /// With the head used by a preset of CAPL, if there is a head.
    pub fn with_head_preset(mut self, preset: Preset) -> Option<Self> {
        let options = &mut self.settings.head.as_mut()?.capl.options;
        *options = Options { novel_rows: options.novel_rows, ..preset.options() };
        Some(self)
    }

    /// Every answer that the model has without the image prior, and its own use last.
    pub fn all(&self) -> Vec<Self> {
        let plain = self.clone().with_image_prior(false);
        let mut all: Vec<Self> =
            Answer::ALL.into_iter().filter_map(|answer| plain.clone().with_answer(answer)).collect();
        if !all.contains(self) {
            all.push(self.clone());
        }
        all
    }

    /// The answer of this name, with `+prior` after it if the image prior takes part; none if the model cannot give it.
    pub fn named(&self, name: &str) -> Option<Self> {
        let (answer, image_prior) = match name.strip_suffix("+prior") {
            Some(answer) => (answer, true),
            None => (name, false),
        };
        Some(self.clone().with_answer(Answer::named(answer)?)?.with_image_prior(image_prior))
    }

    /// The opposite of [`Self::named`].
    pub fn name(&self) -> &'static str {
        match (self.answer, self.image_prior) {
            (answer, false) => answer.name(),
            (Answer::Cosine, true) => "cosine+prior",
            (Answer::Whitened, true) => "whitened+prior",
            (Answer::Head, true) => "head+prior",
            (Answer::Product, true) => "product+prior",
        }
    }

    /// Adds the image prior, if it takes part, to the scores of an image, which one grid or several tiles cover.
    pub(super) fn finish(&self, grids: &mut [ScoreGrid]) {
        if self.image_prior {
            add_image_prior(grids, self.settings.has_background.then_some(0));
        }
    }

    /// What a cosine is multiplied by.
    pub(crate) fn scale(&self) -> f32 {
        match self.answer {
            Answer::Product if self.settings.has_background => PRODUCT_SCALE,
            _ => SCALE,
        }
    }

    /// Whether cosines are those of the whitened space.
    pub(crate) fn is_whitened(&self) -> bool {
        matches!(self.answer, Answer::Whitened | Answer::Product)
    }

    /// Whether cosines with rows take part.
    pub(crate) fn compares_rows(&self) -> bool {
        self.answer != Answer::Head
    }

    /// Whether the image prior takes part.
    pub(crate) fn has_image_prior(&self) -> bool {
        self.image_prior
    }

    /// Whether the first base class is the background.
    pub(crate) fn has_background(&self) -> bool {
        self.settings.has_background
    }

    /// CAPL's settings and weights, if the head takes part.
    pub(crate) fn head<'a>(&self, weights: &'a PrototypesWeights) -> Option<(capl::Usage, &'a Head)> {
        let takes_part = matches!(self.answer, Answer::Head | Answer::Product);
        let settings = self.settings.head.as_ref().filter(|_| takes_part)?;
        Some((settings.capl.usage(), weights.head.as_ref()?))
    }

    pub(super) fn remember(
        &self,
        weights: &PrototypesWeights,
        features: Tensor<4>,
        labels: &RowMap,
        own: u16,
        n_base: usize,
    ) -> SupportSums {
        let remembered = match &weights.head {
            Some(head) => Tensor::cat(vec![features.clone(), head.features(features.clone())], 1),
            None => features.clone(),
        };
        let sums = class_sums(remembered, labels, own, n_base);
        let Prototypes { own_groups, rest_groups, has_background, .. } = self.settings;
        let clusters = if own_groups + rest_groups > 0 && !sums.is_empty() {
            let pixels = Pixels::new(features, labels);
            let own = pixels.groups(own, own_groups);
            let rest = if has_background { pixels.groups(0, rest_groups) } else { Vec::new() };
            let beaten_by =
                if has_background { self.beaten_by(weights, &pixels, &own, &rest) } else { Vec::new() };
            Clusters { own: pixels.pool(&own), rest: pixels.pool(&rest), beaten_by }
        } else {
            Clusters::default()
        };
        SupportSums { novel: own, sums, clusters }
    }

    /// How many pixels of the class each of the model's background rows is nearer to than any row of this support.
    fn beaten_by(
        &self,
        weights: &PrototypesWeights,
        pixels: &Pixels,
        own: &[Vec<usize>],
        rest: &[Vec<usize>],
    ) -> Vec<(u16, f32)> {
        let members: Vec<usize> = own.concat();
        let background = self.settings.base_rows[0];
        if members.is_empty() {
            return Vec::new();
        }
        let device = weights.base.val().device();
        let tensor = |values: Vec<f32>| -> Tensor<2> {
            let count = values.len() / pixels.dim;
            Tensor::from_data(TensorData::new(values, [count, pixels.dim]), &device)
        };
        let means = |groups: &[Vec<usize>]| -> Vec<f32> {
            let pooled = pixels.pool(groups);
            pooled.iter().flat_map(|group| group.sum.iter().map(|sum| sum / group.count)).collect()
        };
        let rows =
            vec![weights.base.val().slice_dim(0, 0..background), tensor([means(own), means(rest)].concat())];
        let rows = unit(weights.space(Tensor::cat(rows, 0), self.is_whitened()));
        let count = rows.dims()[0];
        let values: Vec<f32> = members.iter().flat_map(|&pixel| pixels.at(pixel)).copied().collect();
        let pixels = weights.space(tensor(values), self.is_whitened());
        let cosines: Vec<f32> = pixels.matmul(rows.transpose()).try_into_vec_as().expect("features are f32");
        let mut won = vec![0.0f32; background];
        for cosines in cosines.chunks_exact(count) {
            let best = protoseg_core::best(cosines).0;
            if best < background {
                won[best] += 1.0;
            }
        }
        (0u16..).zip(won).filter(|(_, won)| *won > 0.0).collect()
    }

    pub(super) fn register(
        &self,
        weights: &PrototypesWeights,
        n_base: usize,
        n_novel: usize,
        supports: &[SupportSums],
    ) -> Result<Rows, usize> {
        let mut rows =
            rows::register(&self.settings, weights, n_base, n_novel, supports, self.is_whitened())?;
        if let Some((usage, head)) = self.head(weights) {
            let dim = weights.base.val().dims()[1];
            let supports = head_sums(supports, dim);
            rows.head = Some(usage.register(&head.capl, n_base, n_novel, &supports)?);
        }
        Ok(rows)
    }

    /// What of features `[batch, d, h, w]` every classifier of this usage needs.
    pub(super) fn look(&self, weights: &PrototypesWeights, features: Tensor<4>) -> Looked {
        let [batch, _, height, width] = features.dims();
        let head = self.head(weights).map(|(_, head)| head.features(features.clone()));
        let pixels = self.compares_rows().then(|| weights.unit_pixels(features, self.is_whitened()));
        Looked { size: [batch, height, width], pixels, head }
    }

    /// Whether maps before they are joined are all that it compares.
    pub(super) fn compares_stages(&self) -> bool {
        self.answer == Answer::Cosine
    }

    /// Scores of maps before they are joined: the same as those of joined ones, for a fraction of the products.
    pub(super) fn score_stages(
        &self,
        weights: &PrototypesWeights,
        rows: &Rows,
        maps: &StageMaps,
        precision: Precision,
    ) -> ScoreGrid {
        let by_stage = get_or_make(&rows.by_stage, || {
            let vector =
                |tensor: Tensor<2>| -> Vec<f32> { tensor.try_into_vec_as().expect("weights are f32") };
            let channels: Vec<usize> = maps.0.iter().map(|(_, [.., channels])| *channels).collect();
            let emphasis = match &weights.emphasis {
                Some(emphasis) => vector(emphasis.val()),
                None => vec![1.0; channels.iter().sum()],
            };
            let vectors = vector(rows.vectors.clone());
            StageRows::new(&vectors, &channels, &emphasis, &rows.ends(), self.scale())
                .with_precision(precision)
        });
        let [height, width, _] = maps.0[0].1;
        let borrowed: Vec<(&[f32], [usize; 3])> =
            maps.0.iter().map(|(map, shape)| (&map[..], *shape)).collect();
        ScoreGrid::new(rows.n_classes(), height, width, by_stage.scores(&borrowed))
    }

    /// Scores `[batch, classes, h, w]`. Scores are logarithms of what a softmax makes of them, so those of a product are
    /// sums.
    pub(super) fn score(
        &self,
        weights: &PrototypesWeights,
        n_base: usize,
        rows: &Rows,
        looked: &Looked,
    ) -> Tensor<4> {
        let parts = self.head(weights).zip(rows.head.clone()).zip(looked.head.clone());
        let head =
            parts.map(|(((usage, head), rows), features)| usage.score(&head.capl, n_base, rows, features));
        let device = weights.base.val().device();
        let cosines =
            looked.pixels.as_ref().map(|pixels| cosines(pixels, looked.size, rows, self.scale(), &device));
        match (head, cosines) {
            (Some(head), Some(cosines)) => head + cosines,
            (Some(scores), None) | (None, Some(scores)) => scores,
            (None, None) => unreachable!("an answer has a part"),
        }
    }
}

/// Maps of an encoder's stages, each with its `[height, width, channels]`, finest first. Joined, they would be the
/// features.
#[derive(Clone, Debug)]
pub struct StageMaps(Vec<(Vec<f32>, [usize; 3])>);

impl StageMaps {
    pub(crate) fn new(maps: &[(&[f32], [usize; 3])]) -> Self {
        Self(maps.iter().map(|(map, shape)| (map.to_vec(), *shape)).collect())
    }

    pub(super) fn values(&self) -> usize {
        self.0.iter().map(|(map, _)| map.len()).sum()
    }
}

/// What every classifier of one usage needs of an image.
#[derive(Clone, Debug)]
pub struct Looked {
    /// Batch, height and width of the grid.
    size: [usize; 3],
    /// In the space that they are compared in, at unit length, `[positions, d]`; not for the head alone.
    pixels: Option<Vec<f32>>,
    /// The head's features, if it takes part.
    head: Option<Tensor<4>>,
}

impl Looked {
    pub(super) fn values(&self) -> usize {
        let head = self.head.as_ref().map_or(0, |head| head.dims().iter().product());
        self.pixels.as_ref().map_or(0, Vec::len) + head
    }
}

/// Scores `[batch, classes, h, w]`: `scale` times the cosine with the class's best row.
fn cosines(
    pixels: &[f32],
    [batch, height, width]: [usize; 3],
    rows: &Rows,
    scale: f32,
    device: &Device,
) -> Tensor<4> {
    let panels = get_or_make(&rows.panels, || {
        let [count, dim] = rows.vectors.dims();
        let vectors: Vec<f32> = rows.vectors.clone().try_into_vec_as().expect("prototypes are f32");
        Panels::new(dim, count, |channel, row| vectors[row * dim + channel])
    });
    let ends = rows.ends();
    let scores = best_rows(pixels, panels, &ends, scale);
    let classes = ends.len();
    let scores = transposed(&scores, height * width * classes, classes);
    Tensor::from_data(TensorData::new(scores, [batch, classes, height, width]), device)
}

/// The matrix of every image, of `length` values in rows of `columns`, with rows and columns exchanged.
fn transposed(images: &[f32], length: usize, columns: usize) -> Vec<f32> {
    let mut images = images.chunks_exact(length.max(1)).map(|image| transpose(image, columns));
    let mut all = images.next().unwrap_or_default();
    images.for_each(|image| all.extend_from_slice(&image));
    all
}

/// Features of one image, pixel by pixel, with their labels.
struct Pixels {
    dim: usize,
    /// `[positions, d]`, each of unit length.
    units: Vec<f32>,
    labels: Vec<u16>,
}

impl Pixels {
    fn new(features: Tensor<4>, labels: &RowMap) -> Self {
        let [_, dim, height, width] = features.dims();
        let labels = labels.resize_nearest(width, height).data;
        let pixels = unit(features.reshape([dim, height * width]).transpose());
        Self { dim, units: pixels.try_into_vec_as().expect("features are f32"), labels }
    }

    fn at(&self, pixel: usize) -> &[f32] {
        &self.units[pixel * self.dim..][..self.dim]
    }

    /// The pixels with a label, in at most `count` groups of similar ones.
    fn groups(&self, label: u16, count: usize) -> Vec<Vec<usize>> {
        debug_assert_ne!(label, IGNORE);
        let members: Vec<usize> =
            (0..self.labels.len()).filter(|&pixel| self.labels[pixel] == label).collect();
        if count == 0 {
            return Vec::new();
        }
        let points: Vec<f32> = members.iter().flat_map(|&pixel| self.at(pixel)).copied().collect();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (pixel, group) in members.into_iter().zip(kmeans(&points, self.dim, count)) {
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(pixel);
        }
        groups
    }

    /// Sums and sizes of groups.
    fn pool(&self, groups: &[Vec<usize>]) -> Vec<Pooled> {
        let pool = |group: &Vec<usize>| {
            let mut sum = vec![0.0; self.dim];
            for &pixel in group {
                sum.iter_mut().zip(self.at(pixel)).for_each(|(sum, value)| *sum += value);
            }
            Pooled { sum, count: group.len() as f32 }
        };
        groups.iter().map(pool).collect()
    }
}
