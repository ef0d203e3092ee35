//! PFENet's feature enrichment module (Tian et al. 2020), which SCL, ASGNet and CAPL use too.
//!
//! For each of four grids (bins), coarse ones after fine ones: a map is merged from the query and what is known of the
//! support at that size, the map of the grid before flows in through a 1x1, two 3x3 refine it. All four, brought to the
//! query's size, make two scores per pixel.

use burn::{
    module::Module,
    nn::conv::Conv2d,
    tensor::{Device, Tensor, activation::relu, module::adaptive_avg_pool2d},
};

use super::mask::tiled;
use crate::{
    bridge::{self, ConvGeometry},
    config::ConfigError,
    nn::{Conv, Dropout2d, upsample},
    weights::Rename,
};

/// Channels of every map inside.
pub const CHANNELS: usize = 256;
/// Sides of the grids at 473 pixels.
pub const BINS: [f64; 4] = [60.0, 30.0, 15.0, 8.0];

/// The sides of the grids for a map of `[h, w]`. Values up to 1 are shares of the map's side, larger ones are sides.
pub fn grids(bins: &[f64], [height, width]: [usize; 2]) -> Vec<[usize; 2]> {
    let side = |bin: f64, side: usize| {
        if bin <= 1.0 { ((side as f64 * bin) as usize).max(1) } else { bin as usize }
    };
    bins.iter().map(|&bin| [side(bin, height), side(bin, width)]).collect()
}

/// Refuses bins that are no sides.
pub fn validate_bins(bins: &[f64]) -> Result<(), ConfigError> {
    let good = |bin: &f64| bin.is_finite() && *bin > 0.0 && *bin <= 512.0;
    if (1..=8).contains(&bins.len()) && bins.iter().all(good) {
        return Ok(());
    }
    Err(ConfigError::new("method.bins", format!("{bins:?}"), "1 to 8 sides up to 512, or shares up to 1"))
}

/// One input of a merge.
pub enum Part {
    /// A map `[n, c, h, w]`, at the grid's size.
    Map(Tensor<4>),
    /// The same vector everywhere, `[n, c]`.
    Vector(Tensor<2>),
}

impl Part {
    fn channels(&self) -> usize {
        match self {
            Self::Map(map) => map.dims()[1],
            Self::Vector(vectors) => vectors.dims()[1],
        }
    }
}

/// A 1x1 convolution without bias of all parts, one after the other along the channels. A vector costs as much as one
/// pixel.
pub fn merge(conv: &Conv2d, parts: Vec<Part>) -> Tensor<4> {
    let mut from = 0;
    let mut sum: Option<Tensor<4>> = None;
    for part in parts {
        let to = from + part.channels();
        let share = share(conv, from, part);
        from = to;
        sum = Some(match sum {
            None => share,
            Some(sum) => sum + share,
        });
    }
    assert_eq!(from, conv.weight.dims()[1], "channels of all parts");
    sum.expect("there are parts")
}

/// What one part adds to a [`merge`] in which it begins at channel `from`: a map, or one pixel for a vector. Merges that
/// have a part in common can share it.
pub fn share(conv: &Conv2d, from: usize, part: Part) -> Tensor<4> {
    let channels = part.channels();
    let own = conv.weight.val().slice_dim(1, from..from + channels);
    match part {
        Part::Map(map) => bridge::conv2d(map, own, ConvGeometry::pointwise()),
        Part::Vector(vectors) => {
            let [to, ..] = own.dims();
            let vectors = vectors.matmul(own.reshape([to, channels]).transpose());
            tiled(vectors, [1, 1])
        }
    }
}

/// Two 3x3 convolutions without bias, a ReLU after each.
#[derive(Module, Debug)]
pub struct TwoConvs {
    /// The first.
    pub first: Conv2d,
    /// The second.
    pub second: Conv2d,
}

impl TwoConvs {
    fn new(device: &Device) -> Self {
        let conv = || Conv::new(CHANNELS, CHANNELS, 3).init(device);
        Self { first: conv(), second: conv() }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = relu(bridge::conv(&self.first, x));
        relu(bridge::conv(&self.second, x))
    }
}

/// 3x3, ReLU, channel dropout, 1x1 with bias: two scores per pixel.
#[derive(Module, Debug)]
pub struct TwoScores {
    /// The 3x3.
    pub conv: Conv2d,
    /// In training.
    pub dropout: Dropout2d,
    /// The 1x1.
    pub out: Conv2d,
}

impl TwoScores {
    fn new(device: &Device) -> Self {
        Self {
            conv: Conv::new(CHANNELS, CHANNELS, 3).init(device),
            dropout: Dropout2d::new(0.1),
            out: Conv::new(CHANNELS, 2, 1).bias().init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.dropout.forward(relu(bridge::conv(&self.conv, x)));
        bridge::conv(&self.out, x)
    }
}

/// The module without its first merge, which differs from system to system.
#[derive(Module, Debug)]
pub struct Fem {
    /// 1x1 of a grid's map and the one before, from the second grid on.
    pub alpha_conv: Vec<Conv2d>,
    /// Refines each grid's map.
    pub beta_conv: Vec<TwoConvs>,
    /// Scores of each grid, for an auxiliary loss; none where there is none.
    pub inner_cls: Vec<TwoScores>,
    /// 1x1 of all grids' maps.
    pub res1: Conv2d,
    /// Refines their sum.
    pub res2: TwoConvs,
    /// The result.
    pub cls: TwoScores,
}

/// What the module makes of its grids.
pub struct Enriched {
    /// `[n, 2, h, w]`
    pub scores: Tensor<4>,
    /// `[n, 2, bin, bin]` for every grid, if asked for.
    pub inner: Vec<Tensor<4>>,
    /// The map of every grid at its own size, which flows to the next.
    pub grids: Vec<Tensor<4>>,
}

impl Fem {
    /// For as many grids as `bins`, with or without the scores of each.
    pub fn new(bins: usize, inner: bool, device: &Device) -> Self {
        let pointwise = |from| Conv::new(from, CHANNELS, 1).init(device);
        Self {
            alpha_conv: (1..bins).map(|_| pointwise(2 * CHANNELS)).collect(),
            beta_conv: (0..bins).map(|_| TwoConvs::new(device)).collect(),
            inner_cls: (0..if inner { bins } else { 0 }).map(|_| TwoScores::new(device)).collect(),
            res1: pointwise(bins * CHANNELS),
            res2: TwoConvs::new(device),
            cls: TwoScores::new(device),
        }
    }

    /// `merged` are the grids' maps after their first merge and its ReLU, `size` is the query map's. With `inner` the
    /// scores of each grid are computed too. Where `before` is given, its maps flow to the next grid in place of this
    /// pass's own.
    pub fn forward(
        &self,
        merged: Vec<Tensor<4>>,
        size: [usize; 2],
        inner: bool,
        before: Option<&[Tensor<4>]>,
    ) -> Enriched {
        let (mut grids, mut inners, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for (index, merged) in merged.into_iter().enumerate() {
            let [.., height, width] = merged.dims();
            let mut map = merged;
            if index > 0 {
                let previous = match before {
                    Some(before) => before[index - 1].clone(),
                    None => Tensor::clone(&grids[index - 1]),
                };
                // As published: first to the query's size, then to this grid's.
                let flowing = upsample(upsample(previous, size), [height, width]);
                let alpha = &self.alpha_conv[index - 1];
                let flowed = merge(alpha, vec![Part::Map(map.clone()), Part::Map(flowing)]);
                map = map + relu(flowed);
            }
            map = self.beta_conv[index].forward(map.clone()) + map;
            if inner {
                inners.push(self.inner_cls[index].forward(map.clone()));
            }
            whole.push(Part::Map(upsample(map.clone(), size)));
            grids.push(map);
        }
        let x = relu(merge(&self.res1, whole));
        let x = self.res2.forward(x.clone()) + x;
        Enriched { scores: self.cls.forward(x), inner: inners, grids }
    }
}

/// A map on a grid: means over its cells.
pub fn pooled(map: Tensor<4>, grid: [usize; 2]) -> Tensor<4> {
    let [.., height, width] = map.dims();
    if [height, width] == grid { map } else { adaptive_avg_pool2d(map, grid) }
}

/// A tensor of the module in published checkpoints, the first merges included, under `fem` and `init_merge`: numbered by
/// their place in sequences of convolutions, ReLUs and dropouts.
pub(crate) fn rename(name: &str) -> Option<Rename> {
    let (layer, rest) = name.split_once('.')?;
    let ours = match layer {
        "res1" => format!("fem.res1.{}", rest.strip_prefix("0.")?),
        "res2" => format!("fem.res2.{}", two_convs(rest)?),
        "cls" => format!("fem.cls.{}", two_scores(rest)?),
        "alpha_conv" | "beta_conv" | "inner_cls" => {
            let (grid, rest) = rest.split_once('.')?;
            let rest = match layer {
                "alpha_conv" => rest.strip_prefix("0.")?.to_string(),
                "beta_conv" => two_convs(rest)?,
                _ => two_scores(rest)?,
            };
            format!("fem.{layer}.{grid}.{rest}")
        }
        "init_merge" | "supp_init_merge" | "corr_conv" => {
            let (grid, rest) = rest.split_once('.')?;
            format!("{layer}.{grid}.{}", rest.strip_prefix("0.")?)
        }
        _ => return None,
    };
    Some(Rename::to(ours))
}

fn two_convs(rest: &str) -> Option<String> {
    let first = rest.strip_prefix("0.").map(|rest| format!("first.{rest}"));
    first.or_else(|| Some(format!("second.{}", rest.strip_prefix("2.")?)))
}

fn two_scores(rest: &str) -> Option<String> {
    let conv = rest.strip_prefix("0.").map(|rest| format!("conv.{rest}"));
    conv.or_else(|| Some(format!("out.{}", rest.strip_prefix("3.")?)))
}
