//! Equation (8): what makes base training foresee registration. One half of a batch plays the supports. Of the base
//! classes in it, some become "fake novel" (their rows are replaced by pooled prototypes), the others "fake context"
//! (their rows are enriched by SCE); the classifier so formed must then segment the whole batch.

use burn::tensor::{Tensor, TensorData};
use protoseg_core::RowMap;
use rand::{Rng, seq::SliceRandom};

use super::{
    ablation::Parts,
    options::{FakeSupport, Normalise, Options},
    register::{Sce, mix},
};
use crate::method::{cosine::unit, pooling::masked_sums};

/// The roles drawn for one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FakeRoles {
    /// Rows replaced by their pooled prototypes.
    pub novel: Vec<u16>,
    /// Rows enriched by SCE.
    pub context: Vec<u16>,
}

impl FakeRoles {
    /// Draws roles for the classes `present` in the fake support. The row `apart` is never drawn, but enriched half of
    /// the time ([`BackgroundRule`](super::options::BackgroundRule)).
    pub fn draw(present: &[u16], apart: Option<u16>, rng: &mut impl Rng) -> Self {
        let mut context: Vec<u16> = present.iter().copied().filter(|&row| Some(row) != apart).collect();
        context.shuffle(rng);
        let novel = context.split_off(context.len().div_ceil(2));
        let enriched = rng.random_bool(0.5);
        context.extend(apart.filter(|row| enriched && present.contains(row)));
        Self { novel, context }
    }
}

/// Index of the first image of the fake support in a batch; the support reaches to the end.
pub fn fake_support_start(batch: usize, rule: FakeSupport) -> usize {
    match rule {
        FakeSupport::Ceil => batch / 2,
        FakeSupport::Floor => batch.div_ceil(2),
    }
}

/// The classes present in the fake support, on the features' grid, in rising order.
pub fn present_classes(labels: &[RowMap], [height, width]: [usize; 2]) -> Vec<u16> {
    let mut present: Vec<u16> =
        labels.iter().flat_map(|label| label.resize_nearest(width, height).present()).collect();
    present.sort_unstable();
    present.dedup();
    present
}

/// The classifier formed for one batch, `[rows, d]`.
///
/// - `learned`: P_cls, `[rows, d]`
/// - `features`: of the fake support, `[images, d, h, w]`; `labels`: theirs, at any size
/// - `parts`: which roles act; without SCE, context rows stay as learned
pub fn form_classifier(
    learned: Tensor<2>,
    features: Tensor<4>,
    labels: &[RowMap],
    roles: &FakeRoles,
    parts: Parts,
    sce: Option<Sce<'_>>,
    options: &Options,
) -> Tensor<2> {
    let (learned, features) = match options.normalise {
        Normalise::Reference => (unit(learned), unit_pixels(features)),
        Normalise::Nothing => (learned, features),
    };
    let novel: &[u16] = if parts.fake_novel { &roles.novel } else { &[] };
    let context: &[u16] = if sce.is_some() { &roles.context } else { &[] };
    let rows = [novel, context].concat();
    if rows.is_empty() {
        return learned;
    }
    let pooled = masked_sums(features, labels, &rows).mean();
    let mut values = Vec::new();
    if !novel.is_empty() {
        values.push(pooled.clone().slice_dim(0, 0..novel.len()));
    }
    if let Some(sce) = sce.filter(|_| !context.is_empty()) {
        let old = select(&learned, context).matmul(learned.clone());
        values.push(mix(old, pooled.slice_dim(0, novel.len()..rows.len()), sce));
    }
    let selection = select(&learned, &rows);
    let kept = selection.clone().sum_dim(0).transpose().neg().add_scalar(1.0);
    learned * kept + selection.transpose().matmul(Tensor::cat(values, 0))
}

/// Features at unit length per pixel.
fn unit_pixels(features: Tensor<4>) -> Tensor<4> {
    unit(features.permute([0, 2, 3, 1])).permute([0, 3, 1, 2])
}

/// `[rows.len(), all]` with a one at each row's place.
fn select(learned: &Tensor<2>, rows: &[u16]) -> Tensor<2> {
    let all = learned.dims()[0];
    let mut ones = vec![0f32; rows.len() * all];
    for (i, &row) in rows.iter().enumerate() {
        ones[i * all + usize::from(row)] = 1.0;
    }
    Tensor::from_data(TensorData::new(ones, [rows.len(), all]), &learned.device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::cpu,
        method::capl::{ablation::Ablation, gate::Gate, options::Preset},
    };
    use protoseg_core::IGNORE;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn half_of_the_classes_rounded_down_become_novel_and_the_background_never() {
        let mut enriched = 0;
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let roles = FakeRoles::draw(&[0, 2, 3, 5, 7, 9], Some(0), &mut rng);
            assert_eq!(roles.novel.len(), 2);
            assert!(!roles.novel.contains(&0));
            enriched += usize::from(roles.context.contains(&0));
            let mut all = [roles.novel, roles.context].concat();
            all.retain(|&row| row != 0);
            all.sort_unstable();
            assert_eq!(all, [2, 3, 5, 7, 9]);
        }
        assert!((70..130).contains(&enriched), "background enriched {enriched} times of 200");
    }

    #[test]
    fn without_a_background_every_row_may_be_drawn() {
        let drawn = (0..100).any(|seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            FakeRoles::draw(&[0, 1], None, &mut rng).novel == [0]
        });
        assert!(drawn);
    }

    #[test]
    fn an_odd_batch_gives_the_middle_image_to_either_half() {
        assert_eq!(fake_support_start(5, FakeSupport::Ceil), 2);
        assert_eq!(fake_support_start(5, FakeSupport::Floor), 3);
        assert_eq!(fake_support_start(4, FakeSupport::Ceil), fake_support_start(4, FakeSupport::Floor));
    }

    #[test]
    fn novel_rows_are_replaced_and_context_rows_mixed_by_hand() {
        // d = 2; class 1 on pixels (1, 3) and (3, 5), class 2 on (8, 0); row 0 absent.
        let learned = Tensor::<2>::from_floats([[7.0, 7.0], [0.0, 1.0], [2.0, 2.0]], &cpu());
        let features = Tensor::<1>::from_floats([1.0, 3.0, 8.0, 50.0, 3.0, 5.0, 0.0, 50.0], &cpu())
            .reshape([1, 2, 2, 2]);
        let labels = [RowMap::new(2, 2, vec![1, 1, 2, IGNORE])];
        let roles = FakeRoles { novel: vec![1], context: vec![2] };
        let parts = Ablation::Capl.training();
        let sce = Sce { gate: Gate::Constant(0.75), mlp: None };
        let out = form_classifier(
            learned.clone(),
            features.clone(),
            &labels,
            &roles,
            parts,
            Some(sce),
            &Preset::Paper.options(),
        );
        let out: Vec<f32> = out.try_into_vec_as().unwrap();
        assert_eq!(out, [7.0, 7.0, 2.0, 4.0, 3.5, 1.5]);

        let plus = Ablation::BaselinePlus.training();
        let out = form_classifier(learned, features, &labels, &roles, plus, None, &Preset::Paper.options());
        let out: Vec<f32> = out.try_into_vec_as().unwrap();
        assert_eq!(out, [7.0, 7.0, 2.0, 4.0, 2.0, 2.0]);
    }
}
