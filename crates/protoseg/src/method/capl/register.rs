//! Equations (1), (3) and (4): novel prototypes from supports, and SCE (support contextual enrichment), which lets the
//! supports' context refine the base prototypes.
//!
//! Paper: `p^i = g_sup p_cls^i + (1 - g_sup) p_sup^i` for every base class i that occurs in a support, with
//! `p_sup^i` pooled over all supports. The reference pools per novel class and normalises on the way: rows d, e and f
//! of [`Options`].
//!
//! Supports may also be of a base class, to refine it: then they alone are its p_sup. Beyond the paper.

use burn::tensor::{Tensor, TensorData};

use super::{
    gate::{GammaMlp, Gate},
    options::{ContextPool, Normalise, Options, ShotMean},
};
use crate::method::{
    cosine::unit,
    support_sums::{Mean, SupportSums, by_class},
};

/// How base rows are enriched.
#[derive(Clone, Copy)]
pub struct Sce<'a> {
    /// G_sup.
    pub gate: Gate,
    /// Its network, if it has one.
    pub mlp: Option<&'a GammaMlp>,
}

/// The registered classifier, `[base + novel, d]`.
///
/// - `learned`: the learned base rows P_cls, `[base, d]`
/// - `n_novel`: number of novel rows; rows `base ..` of the result, in order
/// - `sce`: how base rows are enriched; without it they stay as learned
///
/// A novel class without a pixel is returned as the error: its index among the novel classes.
pub fn register(
    learned: Tensor<2>,
    n_novel: usize,
    supports: &[SupportSums],
    sce: Option<Sce<'_>>,
    options: &Options,
) -> Result<Tensor<2>, usize> {
    let n_base = learned.dims()[0];
    let of = by_class(supports, n_base + n_novel);
    let refines = of[..n_base].iter().any(|supports| !supports.is_empty());
    let base = match sce {
        None if !refines => learned.clone(),
        _ => enrich(learned.clone(), &of, supports, sce, options),
    };
    let mut novel = Vec::new();
    for (index, supports) in of[n_base..].iter().enumerate() {
        novel.extend(novel_prototype(n_base + index, supports, options.shot_mean).ok_or(index)?);
    }
    let rows = if n_novel == 0 {
        base
    } else {
        let dim = base.dims()[1];
        let novel = Tensor::from_data(TensorData::new(novel, [n_novel, dim]), &base.device());
        Tensor::cat(vec![base, novel], 0)
    };
    Ok(match options.normalise {
        Normalise::Reference => unit(rows),
        Normalise::Nothing => rows,
    })
}

/// (1): the mean feature of a novel class over its supports.
fn novel_prototype(row: usize, supports: &[&SupportSums], shot_mean: ShotMean) -> Option<Vec<f32>> {
    let shots = supports.iter().flat_map(|support| &support.sums).filter(|sum| usize::from(sum.row) == row);
    let mut mean = Mean::default();
    for shot in shots.filter(|shot| shot.count > 0.0) {
        match shot_mean {
            ShotMean::Pooled => mean.add(&shot.sum, shot.count),
            ShotMean::PerImage => {
                let own: Vec<f32> = shot.sum.iter().map(|sum| sum / shot.count).collect();
                mean.add(&own, 1.0);
            }
        }
    }
    mean.get()
}

/// (3) and (4). Without SCE only base classes that have supports of their own change. `of` has the supports of each class.
fn enrich(
    learned: Tensor<2>,
    of: &[Vec<&SupportSums>],
    supports: &[SupportSums],
    sce: Option<Sce<'_>>,
    options: &Options,
) -> Tensor<2> {
    let [n_base, dim] = learned.dims();
    let rows: Vec<f32> = learned.try_to_vec_as().expect("prototypes are f32");
    let mut context = Vec::with_capacity(n_base * dim);
    let mut occurs = Vec::with_capacity(n_base);
    for (row, learned) in rows.chunks(dim).enumerate() {
        let pooled = pooled(row, of[row].iter().copied()).or_else(|| match options.context_pool {
            _ if sce.is_none() => None,
            ContextPool::AllSupports => pooled(row, supports.iter()),
            ContextPool::PerClass => pooled_per_class(row, learned, &of[n_base..]),
        });
        occurs.push(f32::from(u8::from(pooled.is_some())));
        context.extend(pooled.unwrap_or_else(|| learned.to_vec()));
    }
    let device = learned.device();
    let context = Tensor::<2>::from_data(TensorData::new(context, [n_base, dim]), &device);
    let (old, new) = match options.normalise {
        Normalise::Reference => (unit(learned), unit(context)),
        Normalise::Nothing => (learned, context),
    };
    let mixed = mix(old.clone(), new, sce.unwrap_or(Sce { gate: Gate::UNTRAINED, mlp: None }));
    let occurs = Tensor::<2>::from_data(TensorData::new(occurs, [n_base, 1]), &device);
    mixed * occurs.clone() + old * (occurs.neg().add_scalar(1.0))
}

/// (4): `g old + (1 - g) new`, or the other way round for a swapped gate.
pub fn mix(old: Tensor<2>, new: Tensor<2>, sce: Sce<'_>) -> Tensor<2> {
    let weight = sce.gate.weight(old.clone(), new.clone(), sce.mlp);
    let rest = weight.clone().neg().add_scalar(1.0);
    if sce.gate.is_swapped() { new * weight + old * rest } else { old * weight + new * rest }
}

/// Mean over the pixels of a base class in these supports.
fn pooled<'a>(row: usize, supports: impl Iterator<Item = &'a SupportSums>) -> Option<Vec<f32>> {
    let mut mean = Mean::default();
    for sum in supports.flat_map(|support| &support.sums).filter(|sum| usize::from(sum.row) == row) {
        mean.add(&sum.sum, sum.count);
    }
    mean.get()
}

/// The reference's row e: a mean for each novel class over its own supports, the raw learned row standing in where the
/// base class does not occur, then the mean of those.
fn pooled_per_class(row: usize, learned: &[f32], of_novel: &[Vec<&SupportSums>]) -> Option<Vec<f32>> {
    let means: Vec<Option<Vec<f32>>> =
        of_novel.iter().map(|supports| pooled(row, supports.iter().copied())).collect();
    if means.iter().all(Option::is_none) {
        return None;
    }
    let mut mean = Mean::default();
    for class in &means {
        mean.add(class.as_deref().unwrap_or(learned), 1.0);
    }
    mean.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        method::{capl::options::Preset, support_sums::ClassSum},
    };
    use proptest::prelude::*;
    use protoseg_testing::assert_close;

    fn support(novel: u16, sums: &[(u16, [f32; 2], f32)]) -> SupportSums {
        let sums = sums.iter().map(|&(row, sum, count)| ClassSum { row, sum: sum.to_vec(), count });
        SupportSums::new(novel, sums.collect())
    }

    fn learned() -> Tensor<2> {
        Tensor::from_floats([[0.0, 2.0], [5.0, 0.0]], &cpu())
    }

    fn run(supports: &[SupportSums], gate: Option<Gate>, options: &Options) -> Vec<f32> {
        let sce = gate.map(|gate| Sce { gate, mlp: None });
        register(learned(), 2, supports, sce, options).unwrap().try_into_vec_as().unwrap()
    }

    #[track_caller]
    fn close(got: &[f32], expected: &[f32]) {
        assert_close("rows", got, expected, 1e-6);
    }

    /// Two base rows, two novel; base row 0 occurs in supports of both novel classes, row 1 in none.
    fn supports() -> Vec<SupportSums> {
        vec![
            support(2, &[(2, [6.0, 8.0], 2.0), (0, [3.0, 0.0], 1.0)]),
            support(2, &[(2, [0.0, 12.0], 1.0)]),
            support(3, &[(3, [-1.0, 0.0], 1.0), (0, [9.0, 24.0], 3.0)]),
        ]
    }

    #[test]
    fn paper_by_hand() {
        // Novel 2: mean of (3, 4) and (0, 12). Row 0: pooled (12, 24) / 4 = (3, 6), halfway to (0, 2) = (1.5, 4).
        let rows = run(&supports(), Some(Gate::Constant(0.5)), &Preset::Paper.options());
        close(&rows, &[1.5, 4.0, 5.0, 0.0, 1.5, 8.0, -1.0, 0.0]);
    }

    #[test]
    fn reference_by_hand() {
        // Novel 2: (6, 20) / 3. Row 0: the mean of (3, 0) and (3, 8) is (3, 4) -> (0.6, 0.8); with (0, 1): (0.3, 0.9).
        let rows = run(&supports(), Some(Gate::Constant(0.5)), &Preset::Reference.options());
        let unit = |x: f32, y: f32| [x / x.hypot(y), y / x.hypot(y)];
        let expected = [unit(0.3, 0.9), [1.0, 0.0], unit(6.0, 20.0), [-1.0, 0.0]].concat();
        close(&rows, &expected);
    }

    #[test]
    fn the_references_missing_context_is_the_raw_learned_row() {
        // Row 0 occurs for novel 2 only: the mean of (4, 0) and the raw row (0, 2) is (2, 1).
        let supports =
            [support(2, &[(2, [1.0, 0.0], 1.0), (0, [4.0, 0.0], 1.0)]), support(3, &[(3, [1.0, 0.0], 1.0)])];
        let rows = run(&supports, Some(Gate::Constant(0.0)), &Preset::Reference.options());
        let norm = 5f32.sqrt();
        close(&rows[..2], &[2.0 / norm, 1.0 / norm]);
    }

    #[test]
    fn balanced_pools_over_all_supports_and_normalises() {
        // (12, 24) / 4 = (3, 6); gate 0 takes it whole.
        let rows = run(&supports(), Some(Gate::Constant(0.0)), &Preset::Balanced.options());
        let norm = 45f32.sqrt();
        close(&rows[..2], &[3.0 / norm, 6.0 / norm]);
    }

    #[test]
    fn swapped_gate_weighs_the_new_prototype() {
        let mut options = Preset::Paper.options();
        options.context_pool = ContextPool::AllSupports;
        let supports =
            [support(2, &[(2, [1.0, 0.0], 1.0), (0, [3.0, 4.0], 1.0)]), support(3, &[(3, [1.0, 0.0], 1.0)])];
        // cos((0, 2), (3, 4)) = 0.8.
        close(&run(&supports, Some(Gate::Cosine), &options)[..2], &[0.6, 2.4]);
        close(&run(&supports, Some(Gate::CosineSwapped), &options)[..2], &[2.4, 3.6]);
    }

    #[test]
    fn absent_classes_stay_as_learned() {
        for preset in Preset::ALL {
            let options = preset.options();
            let enriched = run(&supports(), Some(Gate::Constant(0.3)), &options);
            let plain = run(&supports(), None, &options);
            close(&enriched[2..4], &plain[2..4]);
        }
    }

    #[test]
    fn supports_of_a_base_class_refine_it_with_or_without_sce() {
        // Row 1 is (5, 0); its own support says (0, 3), and that of a novel class, which does not count, (9, 9).
        let supports = [
            support(1, &[(1, [0.0, 6.0], 2.0)]),
            support(2, &[(2, [1.0, 0.0], 1.0), (1, [9.0, 9.0], 1.0)]),
            support(3, &[(3, [1.0, 0.0], 1.0)]),
        ];
        let half = 0.5f32.sqrt();
        for preset in [Preset::Reference, Preset::Balanced] {
            for gate in [None, Some(Gate::Constant(0.5))] {
                let rows = run(&supports, gate, &preset.options());
                close(&rows[..4], &[0.0, 1.0, half, half]);
            }
        }
    }

    #[test]
    fn a_novel_class_without_pixels_is_named() {
        let sce = None;
        let supports = [support(2, &[(2, [1.0, 0.0], 1.0)])];
        assert_eq!(register(learned(), 2, &supports, sce, &Preset::Paper.options()).unwrap_err(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn order_of_supports_does_not_matter(rotate in 0usize..3, swap: bool) {
            for preset in Preset::ALL {
                let mut order = supports();
                order.rotate_left(rotate);
                if swap {
                    order.swap(0, 1);
                }
                let gate = Some(Gate::Cosine);
                prop_assert_eq!(run(&order, gate, &preset.options()), run(&supports(), gate, &preset.options()));
            }
        }
    }
}
