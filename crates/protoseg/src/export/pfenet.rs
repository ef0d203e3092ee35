//! PFENet: the query, the mean vector of the supports and a prior from features that are never trained, compared on
//! several grids.

use burn::nn::conv::Conv2d;
use protoseg_core::GridPlacement;

use super::{
    ExportError,
    builder::{Builder, Value},
    few_shot::{Conv, Episode, Map, masked_means, run, tiled},
    ops::Size,
};
use crate::{
    method::{
        fem::{self, Fem, TwoConvs},
        pfenet::{MidConv, Pfenet, TINY_AREA},
        prior,
    },
    model::Model,
    network::{Section, Tap},
};

/// `[batch, 2, h, w]` on the grid of the map.
pub(super) fn scores(
    builder: &mut Builder,
    model: &Model,
    settings: &Pfenet,
    episode: &Episode,
) -> Result<Value, ExportError> {
    let weights = model.network().method.pfenet();
    let (layer3, query, support) =
        mid_maps(builder, model, episode, [&weights.down_query, &weights.down_supp])?;
    let size = layer3.size();
    let mask = episode.mask_on(builder, size);
    let vectors = masked_means(builder, &support, &mask, TINY_AREA);
    let vector = builder.reduce("ReduceMean", "vector", &vectors, &[0]);
    let prior = match settings.prior {
        true => {
            let priors = prior_maps(builder, model, episode, &layer3, &mask)?;
            let mean = builder.reduce("ReduceMean", "prior.mean", &priors, &[1]);
            Some(builder.reshape("prior", &mean, &[-1, 1, size[0] as i64, size[1] as i64]))
        }
        false => None,
    };
    let enrichment = Enrichment::new(builder, &weights.fem, size);
    let merge = enrichment.merge(builder, "grid", &weights.init_merge, &fem::grids(&settings.bins, size));
    let merged = merge.of(builder, &query, &vector, prior.as_ref());
    Ok(enrichment.of(builder, merged, None).scores)
}

/// The third layer's map, and layers 3 and 2 of queries and of supports, each through its own convolution.
pub(super) fn mid_maps(
    builder: &mut Builder,
    model: &Model,
    episode: &Episode,
    [down_query, down_supp]: [&MidConv; 2],
) -> Result<(Map, Value, Value), ExportError> {
    let mut maps = episode.maps(builder, model, &Section::Maps(vec![Tap::Stage(2), Tap::Stage(3)]))?;
    let mid = builder.concat("mid", &[&maps[1].value, &maps[0].value], 1);
    let [query, support] = episode.split(builder, "mid", &mid);
    let query = Conv::new(builder, "down_query", &down_query.conv).relu(builder, &query);
    let support = Conv::new(builder, "down_supp", &down_supp.conv).relu(builder, &support);
    Ok((maps.remove(1), query, support))
}

/// The best cosine of each place of a query with any place of a support, stretched from 0 to 1: `[batch, shots, h * w, 1]`.
/// Both are maps of the last layer; the supports' come from what the mask leaves of the layer before and are masked once
/// more.
pub(super) fn prior_maps(
    builder: &mut Builder,
    model: &Model,
    episode: &Episode,
    layer3: &Map,
    mask: &Value,
) -> Result<Value, ExportError> {
    let [query, support] = episode.split(builder, "layer3", &layer3.value);
    let support = builder.binary("Mul", "layer3.masked", &support, mask);
    let value = builder.concat("layer3.all", &[&query, &support], 0);
    let last = run(builder, model, &Section::LastLayer, &Map { value, shape: layer3.shape })?.remove(0);
    let [query, support] = episode.split(builder, "layer4", &last.value);
    let mask = episode.mask_on(builder, last.size());
    let support = builder.binary("Mul", "layer4.masked", &support, &mask);

    let dim = last.shape[2] as i64;
    let [height, width] = last.size();
    let query = builder.reshape("prior.query.cells", &query, &[-1, 1, dim, (height * width) as i64]);
    let query = builder.transpose("prior.query", &query, &[0, 1, 3, 2]);
    let support = builder.reshape("prior.support", &support, &[1, -1, dim, (height * width) as i64]);
    let products = builder.binary("MatMul", "prior.products", &query, &support);
    let query_norms = builder.reduce("ReduceL2", "prior.query.norms", &query, &[3]);
    let support_norms = builder.reduce("ReduceL2", "prior.support.norms", &support, &[2]);
    let norms = builder.binary("Mul", "prior.norms", &query_norms, &support_norms);
    let tiny = builder.scalar(prior::TINY as f32);
    let norms = builder.binary("Add", "prior.norms.some", &norms, &tiny);
    let cosines = builder.binary("Div", "prior.cosines", &products, &norms);
    let best = builder.reduce("ReduceMax", "prior.best", &cosines, &[3]);
    let least = builder.reduce("ReduceMin", "prior.least", &best, &[2]);
    let most = builder.reduce("ReduceMax", "prior.most", &best, &[2]);
    let range = builder.binary("Sub", "prior.range", &most, &least);
    let range = builder.binary("Add", "prior.range.some", &range, &tiny);
    let above = builder.binary("Sub", "prior.above", &best, &least);
    Ok(builder.binary("Div", "prior.stretched", &above, &range))
}

/// The feature enrichment module.
pub(super) struct Enrichment {
    alpha: Vec<Conv>,
    beta: Vec<[Conv; 2]>,
    res1: Conv,
    res2: [Conv; 2],
    cls: [Conv; 2],
    /// Of the map that is enriched.
    size: [usize; 2],
}

/// Maps on the grids, after their first merge.
pub(super) type Merged = Vec<(Value, [usize; 2])>;

/// What the module makes of its grids.
pub(super) struct Enriched {
    /// `[n, 2, h, w]`
    pub scores: Value,
    /// The map of every grid, which flows to the next.
    pub grids: Vec<Value>,
}

impl Enrichment {
    pub fn new(builder: &mut Builder, fem: &Fem, size: [usize; 2]) -> Self {
        let two = |builder: &mut Builder, name: &str, convs: &TwoConvs| {
            let first = Conv::new(builder, &format!("{name}.first"), &convs.first);
            [first, Conv::new(builder, &format!("{name}.second"), &convs.second)]
        };
        let alpha = fem.alpha_conv.iter().enumerate();
        let alpha = alpha.map(|(i, conv)| Conv::new(builder, &format!("fem{}.alpha", i + 1), conv)).collect();
        let beta = fem.beta_conv.iter().enumerate();
        let beta = beta.map(|(i, convs)| two(builder, &format!("fem{i}.beta"), convs)).collect();
        Self {
            alpha,
            beta,
            res1: Conv::new(builder, "res1", &fem.res1),
            res2: two(builder, "res2", &fem.res2),
            cls: [Conv::new(builder, "cls.conv", &fem.cls.conv), Conv::new(builder, "cls.out", &fem.cls.out)],
            size,
        }
    }

    /// The first merge on these grids.
    pub fn merge(&self, builder: &mut Builder, name: &str, convs: &[Conv2d], grids: &[[usize; 2]]) -> Merge {
        let convs = convs.iter().enumerate();
        let convs = convs.map(|(i, conv)| Conv::new(builder, &format!("{name}{i}.merge"), conv));
        Merge { name: name.to_string(), convs: convs.collect(), grids: grids.to_vec(), size: self.size }
    }

    /// With `before`, its maps flow to the next grid in place of this pass's own.
    pub fn of(&self, builder: &mut Builder, merged: Merged, before: Option<&[Value]>) -> Enriched {
        let size = self.size;
        let (mut whole, mut grids) = (Vec::new(), Vec::new());
        let sizes: Vec<[usize; 2]> = merged.iter().map(|(_, grid)| *grid).collect();
        for (i, (mut map, grid)) in merged.into_iter().enumerate() {
            let name = format!("fem{i}");
            if i > 0 {
                let flows: &Value = before.map_or(&grids[i - 1], |before| &before[i - 1]);
                let up = resized(builder, &format!("{name}.up"), flows, sizes[i - 1], size);
                let flowing = resized(builder, &format!("{name}.flowing"), &up, size, grid);
                let both = builder.concat(&format!("{name}.both"), &[&map, &flowing], 1);
                let flowed = self.alpha[i - 1].relu(builder, &both);
                map = builder.binary("Add", &format!("{name}.flowed"), &map, &flowed);
            }
            map = refined(builder, &format!("{name}.refined"), &self.beta[i], &map);
            whole.push(resized(builder, &format!("{name}.whole"), &map, grid, size));
            grids.push(map);
        }
        let joined = builder.concat("fem", &whole.iter().collect::<Vec<_>>(), 1);
        let x = self.res1.relu(builder, &joined);
        let x = refined(builder, "res2", &self.res2, &x);
        let x = self.cls[0].relu(builder, &x);
        Enriched { scores: self.cls[1].of(builder, &x), grids }
    }
}

/// Convolutions that merge a map with vectors and a prior, one for each grid.
pub(super) struct Merge {
    name: String,
    convs: Vec<Conv>,
    grids: Vec<[usize; 2]>,
    size: [usize; 2],
}

impl Merge {
    /// Of maps `[n, 256, h, w]`, vectors `[n or 1, d, 1, 1]` and priors `[n, 1, h, w]`.
    pub fn of(&self, builder: &mut Builder, map: &Value, vectors: &Value, prior: Option<&Value>) -> Merged {
        let mut merged = Vec::new();
        for (i, (&grid, conv)) in self.grids.iter().zip(&self.convs).enumerate() {
            let name = format!("{}{i}", self.name);
            let pooled = match grid == self.size {
                true => map.clone(),
                false => builder.average_pool(&format!("{name}.pooled"), map, self.size, grid),
            };
            let mut parts = vec![pooled.clone(), tiled(builder, &format!("{name}.vector"), vectors, &pooled)];
            if let Some(prior) = prior {
                parts.push(resized(builder, &format!("{name}.prior"), prior, self.size, grid));
            }
            let parts = builder.concat(&name, &parts.iter().collect::<Vec<_>>(), 1);
            merged.push((conv.relu(builder, &parts), grid));
        }
        merged
    }
}

/// Two convolutions, added to what they refine.
fn refined(builder: &mut Builder, name: &str, [first, second]: &[Conv; 2], x: &Value) -> Value {
    let inner = first.relu(builder, x);
    let refined = second.relu(builder, &inner);
    builder.binary("Add", name, &refined, x)
}

/// A map of `from` at the size `to`, corners on corners.
fn resized(builder: &mut Builder, name: &str, x: &Value, from: [usize; 2], to: [usize; 2]) -> Value {
    if from == to { x.clone() } else { builder.resize(name, x, &Size::Fixed(to), GridPlacement::Corners) }
}
