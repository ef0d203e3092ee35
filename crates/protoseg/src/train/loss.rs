//! What one batch costs: cross-entropy on the prediction of the classifier that (8) forms, and its companions (row i).

use burn::tensor::Tensor;
use protoseg_core::RowMap;

use crate::{
    bridge::{PixelTargets, pixel_loss},
    method::capl::{
        cosine::scores,
        fake::{FakeRoles, fake_support_start, form_classifier},
        fusion::image_prototypes,
        method::Parts,
        options::Options,
    },
    network::Network,
};

/// The losses of one batch, each a tensor of one value.
pub struct Losses {
    /// The weighted sum of the cross-entropies on the final and on the SCE-only prediction.
    pub main: Tensor<1>,
    /// Cross-entropy on the auxiliary head's prediction, unweighted.
    pub aux: Option<Tensor<1>>,
    /// What is minimised.
    pub total: Tensor<1>,
}

/// The losses of `images` (`[batch, 3, height, width]`) with their `labels` (rows, of the images' size), of which the last
/// half is the fake support with these `roles`.
pub fn batch_losses(
    network: &Network,
    images: Tensor<4>,
    labels: &[RowMap],
    n_base: usize,
    roles: &FakeRoles,
    parts: Parts,
    options: &Options,
) -> Losses {
    let batch = images.dims()[0];
    let judged = PixelTargets::new(labels);
    let (features, aux) = network.features_and_aux(images);

    let support = fake_support_start(batch, options.fake_support);
    let formed = form_classifier(
        network.classifier.val(),
        features.clone().slice_dim(0, support..batch),
        &labels[support..],
        roles,
        parts,
        parts.sce.map(|gate| network.sce(gate)),
        options,
    );
    let cost = |prototypes: Tensor<3>| pixel_loss(scores(features.clone(), prototypes), &judged);
    let weights = options.loss;
    let main = match parts.dqce {
        None => cost(formed.unsqueeze()).mul_scalar(weights.full + weights.sce_only),
        Some(gate) => {
            let learned = network.learned_base(n_base);
            let dqce = Some(network.dqce(gate));
            let adapted = image_prototypes(formed.clone(), learned, features.clone(), dqce, options);
            let full = cost(adapted).mul_scalar(weights.full);
            if weights.sce_only == 0.0 {
                full
            } else {
                full + cost(formed.unsqueeze()).mul_scalar(weights.sce_only)
            }
        }
    };
    let aux = aux
        .filter(|_| weights.aux != 0.0)
        .zip(network.aux_classifier.as_ref())
        .map(|(embedding, rows)| pixel_loss(scores(embedding, rows.val().unsqueeze()), &judged));
    let total = match &aux {
        Some(aux) => main.clone() + aux.clone().mul_scalar(weights.aux),
        None => main.clone(),
    };
    Losses { main, aux, total }
}

/// Mean cross-entropy of `scores` (`[batch, classes, h, w]`), upsampled to the labels' size, over the labelled pixels; zero
/// without any.
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
