//! What one batch costs: cross-entropy on the prediction of the classifier that (8) forms, and its companions (row i).

use burn::tensor::Tensor;
use protoseg_core::RowMap;

use super::{
    CaplWeights,
    ablation::Parts,
    fake::{FakeRoles, fake_support_start, form_classifier},
    fusion::image_prototypes,
    options::Options,
};
use crate::{
    bridge::{PixelTargets, pixel_loss},
    method::{Images, Losses, cosine::scores},
    network::Network,
};

/// The losses of a batch, of which the last half is the fake support with these `roles`. The main term is the weighted
/// sum of the cross-entropies on the final and on the SCE-only prediction; the second is that on the auxiliary head's.
pub fn batch_losses(
    network: &Network,
    batch: &Images<'_>,
    n_base: usize,
    roles: &FakeRoles,
    parts: Parts,
    options: &Options,
) -> Losses {
    let maps = network.features_and_aux(batch.images.clone());
    feature_losses(network.method.capl(), maps, batch.labels, n_base, roles, parts, options)
}

/// The same for features, and the auxiliary head's, that are already there.
pub(in crate::method) fn feature_losses(
    weights: &CaplWeights,
    (features, aux): (Tensor<4>, Option<Tensor<4>>),
    labels: &[RowMap],
    n_base: usize,
    roles: &FakeRoles,
    parts: Parts,
    options: &Options,
) -> Losses {
    let count = labels.len();
    let targets = PixelTargets::new(labels);
    let support = fake_support_start(count, options.fake_support);
    let formed = form_classifier(
        weights.classifier.val(),
        features.clone().slice_dim(0, support..count),
        &labels[support..],
        roles,
        parts,
        parts.sce.map(|gate| weights.sce(gate)),
        options,
    );
    let cost = |prototypes: Tensor<3>| pixel_loss(scores(features.clone(), prototypes), &targets);
    let shares = options.loss;
    let main = match parts.dqce {
        None => cost(formed.unsqueeze()).mul_scalar(shares.full + shares.sce_only),
        Some(gate) => {
            let learned = weights.learned_base(n_base);
            let dqce = Some(weights.dqce(gate));
            let adapted = image_prototypes(formed.clone(), learned, features.clone(), dqce, options);
            let full = cost(adapted).mul_scalar(shares.full);
            if shares.sce_only == 0.0 {
                full
            } else {
                full + cost(formed.unsqueeze()).mul_scalar(shares.sce_only)
            }
        }
    };
    let aux = aux
        .filter(|_| shares.aux != 0.0)
        .zip(weights.aux_classifier.as_ref())
        .map(|(embedding, rows)| pixel_loss(scores(embedding, rows.val().unsqueeze()), &targets));
    let total = match &aux {
        Some(aux) => main.clone() + aux.clone().mul_scalar(shares.aux),
        None => main.clone(),
    };
    Losses { main, aux, total }
}

/// Mean cross-entropy of `scores` (`[batch, classes, h, w]`), upsampled to the labels' size, over the labelled
/// pixels; zero without any.
pub fn cross_entropy(scores: Tensor<4>, labels: &[RowMap]) -> Tensor<1> {
    pixel_loss(scores, &PixelTargets::new(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;
    use protoseg_core::IGNORE;

    #[test]
    fn cross_entropy_of_two_pixels_by_hand() {
        // Pixel 0: scores (1, 3), label 1. Pixel 1 is ignored. Pixel 2: (0, 0), label 0.
        let scores = Tensor::<1>::from_floats([1.0, 9.0, 0.0, 3.0, -9.0, 0.0], &cpu()).reshape([1, 2, 1, 3]);
        let labels = [RowMap::new(3, 1, vec![1, IGNORE, 0])];
        let loss: f32 = cross_entropy(scores, &labels).into_scalar();
        let expected = ((1.0 + (-2f32).exp()).ln() + 2f32.ln()) / 2.0;
        assert!((loss - expected).abs() < 1e-6, "{loss} {expected}");
    }

    #[test]
    fn a_batch_without_labels_costs_nothing() {
        let labels = [RowMap::new(1, 1, vec![IGNORE])];
        let loss: f32 = cross_entropy(Tensor::ones([1, 2, 1, 1], &cpu()), &labels).into_scalar();
        assert_eq!(loss, 0.0);
    }
}
