//! What an episode costs: multiply-accumulates from its images to its answer, as the systems are published, whatever is
//! shared or left out here.
//!
//! Convolutions and products of many cells are counted. Averages under masks, and cosines with one or two prototypes,
//! are not: they are small beside these.

use burn::{module::Param, nn::conv::Conv2d, tensor::Tensor};

use super::{
    Method,
    canet::Comparison,
    cwt::transformer::Transformer,
    fem::{self, Fem},
    hsnet::{HsnetWeights, centre_pivot::PivotBlock, learner::STAGES},
    scl::SclWeights,
};
use crate::network::{Network, Section, Tap};

/// Multiply-accumulates of one episode at this side and number of shots; none for methods without episodes.
pub fn episode_macs(network: &Network, method: &Method, side: usize, shots: usize) -> Option<u64> {
    // ASGNet's last layer is in checkpoints and never used.
    let section = match method {
        Method::Capl(_) => return None,
        Method::Asgnet(_) => Section::Maps(vec![Tap::Stage(3)]),
        Method::Hsnet(_) => Section::Maps(STAGES.map(Tap::Blocks).to_vec()),
        _ => Section::Features,
    };
    let (image, maps) = network.section_cost(&section, side);
    let [height, width, dim] = maps[0];
    let cells = height * width;
    let shots = shots as u64;
    let images = 1 + shots;
    let weights = &network.method;
    let at = |conv: &Conv2d| over(&conv.weight, cells);
    // Every cell of the query's last map with every cell of the support's.
    let prior = |used| if used { (dim * cells * cells) as u64 } else { 0 };
    let enrich = |fem, merges, bins| enrichment(fem, merges, bins, [height, width]);
    let head = match method {
        Method::Capl(_) | Method::Prototypes(_) | Method::Panet(_) | Method::Mining(_) => 0,
        Method::Pfenet(pfenet) => {
            let weights = weights.pfenet();
            at(&weights.down_query.conv)
                + shots * (at(&weights.down_supp.conv) + prior(pfenet.prior))
                + enrich(&weights.fem, &weights.init_merge, &pfenet.bins)
        }
        Method::Canet(canet) => {
            let weights = weights.canet();
            let (once, pass) = comparison(&weights.comparison, cells);
            images * at(&weights.feature.conv) + once + canet.iterations as u64 * pass
        }
        Method::Scl(scl) => {
            // Every support is passed over, and with several shots once more with the vectors of each.
            let passes = shots + if shots > 1 { shots * shots } else { 0 };
            match weights.scl() {
                SclWeights::Pfenet(weights) => {
                    let query = prior(scl.prior) + enrich(&weights.fem, &weights.init_merge, &scl.bins);
                    at(&weights.down_query.conv)
                        + shots * (at(&weights.down_supp.conv) + query)
                        + passes * enrich(&weights.fem, &weights.supp_init_merge, &scl.bins)
                }
                SclWeights::Canet(weights) => {
                    let (once, pass) = comparison(&weights.comparison, cells);
                    let [first, own] = [&weights.comparison.residual1, &weights.supp_residual1];
                    let on_supports = once + pass - at(&first.first) + at(&own.first);
                    let on_query = shots * (once + scl.iterations as u64 * pass);
                    let scales: f64 = scl.scales.iter().map(|scale| scale * scale).sum();
                    images * at(&weights.feature.conv)
                        + (scales * on_query as f64) as u64
                        + passes * on_supports
                }
            }
        }
        Method::CaplFewShot(capl) => weights
            .capl_few_shot()
            .enrichment
            .as_ref()
            .map_or(0, |own| images * at(&own.mid) + enrich(&own.fem, &own.init_merge, &capl.bins)),
        Method::Hsnet(_) => shots * hsnet(weights.hsnet(), &maps),
        Method::Asgnet(asgnet) => {
            let weights = weights.asgnet();
            images * at(&weights.down) + enrich(&weights.fem, &weights.corr_conv, &asgnet.bins)
        }
        // There and back in every step: one row, with supports and query.
        Method::Repri(repri) => 2 * repri.steps as u64 * images * (cells * dim) as u64,
        Method::Cwt(cwt) => {
            let Transformer { w_qkvs, fc, .. } = &weights.cwt().transformer;
            let fit = 2 * cwt.steps as u64 * shots * (2 * cells * dim) as u64;
            let attention = 2 * (2 * cwt.heads * dim * cells) as u64;
            fit + over(&w_qkvs.weight, cells + 2) + attention + over(&fc.weight, 2)
        }
    };
    Some(images * image + head)
}

/// A layer's weights at so many places.
fn over<const D: usize>(weight: &Param<Tensor<D>>, places: usize) -> u64 {
    (weight.val().shape().num_elements() * places) as u64
}

/// The merges and the module after them.
fn enrichment(fem: &Fem, merges: &[Conv2d], bins: &[f64], [height, width]: [usize; 2]) -> u64 {
    let on_grids: u64 = fem::grids(bins, [height, width])
        .into_iter()
        .map(|[height, width]| height * width)
        .enumerate()
        .map(|(index, cells)| {
            let flowing =
                index.checked_sub(1).map_or(0, |before| over(&fem.alpha_conv[before].weight, cells));
            let two = &fem.beta_conv[index];
            over(&merges[index].weight, cells)
                + flowing
                + over(&two.first.weight, cells)
                + over(&two.second.weight, cells)
        })
        .sum();
    let whole = [&fem.res1, &fem.res2.first, &fem.res2.second, &fem.cls.conv, &fem.cls.out];
    on_grids + whole.into_iter().map(|conv| over(&conv.weight, height * width)).sum::<u64>()
}

/// Of CANet's decoder: what is done once, and what every pass does.
fn comparison(comparison: &Comparison, cells: usize) -> (u64, u64) {
    let Comparison { compare, residual1, residual2, residual3, aspp, fuse, out, .. } = comparison;
    let residuals =
        [residual1, residual2, residual3].into_iter().flat_map(|block| [&block.first, &block.second]);
    // The first of the ASPP sees the mean.
    let (mean, rest) = aspp.split_first().expect("it has five");
    let everywhere = residuals.chain(rest).chain([fuse, out]);
    let pass = everywhere.map(|conv| over(&conv.weight, cells)).sum::<u64>() + over(&mean.weight, 1);
    (over(&compare.weight, cells), pass)
}

/// Of one query and one support with these maps, those of stage 2 first.
fn hsnet(weights: &HsnetWeights, maps: &[[usize; 3]]) -> u64 {
    let correlations = maps.iter().map(|[height, width, dim]| (dim * (height * width).pow(2)) as u64);
    let sizes = STAGES.map(|stage| {
        let [height, width, _] = weights.of_stage(maps, stage)[0];
        [height, width]
    });
    let mut macs: u64 = correlations.sum();
    let mut left = 0;
    for (stage, [height, width]) in STAGES.into_iter().zip(sizes) {
        let mut support = [height, width];
        for block in weights.squeeze_of(stage) {
            support = support.map(|side| side.div_ceil(block.conv2.stride[0]));
            left = support[0] * support[1];
            macs += pivot(block, height * width * left);
        }
    }
    let [[height, width], middle, _]: [[usize; 2]; 3] = sizes;
    let mix = |blocks: &[PivotBlock], [height, width]: [usize; 2]| {
        blocks.iter().map(|block| pivot(block, height * width * left)).sum::<u64>()
    };
    let decode = |convs: &[Conv2d], cells| convs.iter().map(|conv| over(&conv.weight, cells)).sum::<u64>();
    macs + mix(&weights.mix43, middle)
        + mix(&weights.mix32, [height, width])
        + decode(&weights.decoder1, height * width)
        + decode(&weights.decoder2, (2 * width).pow(2))
}

fn pivot(block: &PivotBlock, pairs: usize) -> u64 {
    over(&block.conv1.weight, pairs) + over(&block.conv2.weight, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        encoder::{EncoderConfig, ResNetConfig, Stem},
        method::few_shot,
    };

    fn giga(name: &str, stem: Stem, side: usize, shots: usize) -> f64 {
        let method = few_shot(name).unwrap();
        let encoder = EncoderConfig::ResNet(ResNetConfig { stem, ..ResNetConfig::new(50) });
        let network = method.published_network(encoder).init(&method, &cpu()).unwrap();
        episode_macs(&network, &method, side, shots).unwrap() as f64 / 1e9
    }

    /// The numbers are PyTorch's (`torch.utils.flop_counter`) for the networks of benches/peers/fsseg.py.
    #[test]
    fn pytorch_counts_the_same() {
        let pfenet = |shots| giga("pfenet", Stem::Deep, 473, shots);
        let hsnet = |shots| giga("hsnet", Stem::Classic, 400, shots);
        for (ours, theirs) in
            [(pfenet(1), 230.319), (pfenet(2), 351.875), (hsnet(1), 59.533), (hsnet(2), 105.848)]
        {
            assert!((ours / theirs - 1.0).abs() < 0.005, "{ours} and {theirs}");
        }
    }
}
