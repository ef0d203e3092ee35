//! PFENet: the query, the mean vector of the supports and a prior from features that are never trained, compared on
//! several grids.

use protoseg_core::GridPlacement;

use super::{
    ExportError,
    builder::{Builder, Value},
    few_shot::{Conv, Episode, Map, masked_mean, run, tiled},
    ops::Size,
};
use crate::{
    method::{
        fem::{self, Fem, TwoConvs},
        pfenet::{Pfenet, TINY_AREA},
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
    let maps = episode.maps(builder, model, &Section::Maps(vec![Tap::Stage(2), Tap::Stage(3)]))?;
    let [layer2, layer3] = [&maps[0], &maps[1]];
    let size = layer3.size();
    let mid = builder.concat("mid", &[&layer3.value, &layer2.value], 1);
    let [query, support] = episode.split(builder, "mid", &mid);
    let query = Conv::new(builder, "down_query", &weights.down_query.conv).relu(builder, &query);
    let support = Conv::new(builder, "down_supp", &weights.down_supp.conv).relu(builder, &support);
    let mask = episode.mask_on(builder, size);
    let vector = masked_mean(builder, &support, &mask, TINY_AREA);
    let prior = match settings.prior {
        true => Some(prior_map(builder, model, episode, layer3, &mask)?),
        false => None,
    };

    let mut merged = Vec::new();
    for (i, (grid, conv)) in fem::grids(&settings.bins, size).into_iter().zip(&weights.init_merge).enumerate()
    {
        let name = format!("grid{i}");
        let pooled = match grid == size {
            true => query.clone(),
            false => builder.average_pool(&format!("{name}.pooled"), &query, size, grid),
        };
        let mut parts = vec![pooled.clone(), tiled(builder, &format!("{name}.vector"), &vector, &pooled)];
        if let Some(prior) = &prior {
            parts.push(resized(builder, &format!("{name}.prior"), prior, size, grid));
        }
        let parts = builder.concat(&name, &parts.iter().collect::<Vec<_>>(), 1);
        merged.push((Conv::new(builder, &format!("{name}.merge"), conv).relu(builder, &parts), grid));
    }
    Ok(enrich(builder, &weights.fem, merged, size))
}

/// The best cosine of each place of the query with any place of a support, stretched from 0 to 1 and averaged over the
/// shots: `[batch, 1, h, w]`. Both are maps of the last layer; the supports' come from what the mask leaves of the layer
/// before and are masked once more.
fn prior_map(
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
    let stretched = builder.binary("Div", "prior.stretched", &above, &range);
    let mean = builder.reduce("ReduceMean", "prior.mean", &stretched, &[1]);
    Ok(builder.reshape("prior", &mean, &[-1, 1, height as i64, width as i64]))
}

/// The feature enrichment module.
fn enrich(builder: &mut Builder, fem: &Fem, merged: Vec<(Value, [usize; 2])>, size: [usize; 2]) -> Value {
    let mut whole = Vec::new();
    let mut before: Option<(Value, [usize; 2])> = None;
    for (i, (mut map, grid)) in merged.into_iter().enumerate() {
        let name = format!("fem{i}");
        if let Some((before, before_grid)) = before {
            let up = resized(builder, &format!("{name}.up"), &before, before_grid, size);
            let flowing = resized(builder, &format!("{name}.flowing"), &up, size, grid);
            let both = builder.concat(&format!("{name}.both"), &[&map, &flowing], 1);
            let flowed =
                Conv::new(builder, &format!("{name}.alpha"), &fem.alpha_conv[i - 1]).relu(builder, &both);
            map = builder.binary("Add", &format!("{name}.flowed"), &map, &flowed);
        }
        map = refined(builder, &format!("{name}.beta"), &fem.beta_conv[i], &map);
        whole.push(resized(builder, &format!("{name}.whole"), &map, grid, size));
        before = Some((map, grid));
    }
    let joined = builder.concat("fem", &whole.iter().collect::<Vec<_>>(), 1);
    let x = Conv::new(builder, "res1", &fem.res1).relu(builder, &joined);
    let x = refined(builder, "res2", &fem.res2, &x);
    let x = Conv::new(builder, "cls.conv", &fem.cls.conv).relu(builder, &x);
    Conv::new(builder, "cls.out", &fem.cls.out).of(builder, &x)
}

/// Two convolutions, added to what they refine.
fn refined(builder: &mut Builder, name: &str, convs: &TwoConvs, x: &Value) -> Value {
    let first = Conv::new(builder, &format!("{name}.first"), &convs.first).relu(builder, x);
    let second = Conv::new(builder, &format!("{name}.second"), &convs.second).relu(builder, &first);
    builder.binary("Add", name, &second, x)
}

/// A map of `from` at the size `to`, corners on corners.
fn resized(builder: &mut Builder, name: &str, x: &Value, from: [usize; 2], to: [usize; 2]) -> Value {
    if from == to { x.clone() } else { builder.resize(name, x, &Size::Fixed(to), GridPlacement::Corners) }
}
