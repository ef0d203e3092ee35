//! What one batch costs: cross-entropy on the prediction of the classifier that (8) forms, and its companions (row i).

use burn::tensor::{Int, Tensor, TensorData, activation::log_softmax};
use protoseg_core::{IGNORE, LabelMap};

use crate::{
    network::Network,
    nn::upsample,
    prototype::{
        cosine::scores,
        fake::{FakeRoles, fake_support_start, form_classifier},
        fusion::image_prototypes,
        method::Parts,
        options::Options,
    },
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
    labels: &[LabelMap],
    n_base: usize,
    roles: &FakeRoles,
    parts: Parts,
    options: &Options,
) -> Losses {
    let [batch, _, height, width] = images.dims();
    let size = [height, width];
    let targets = Targets::new(labels, &images.device());
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
    let cost =
        |prototypes: Tensor<3>| targets.cross_entropy(upsample(scores(features.clone(), prototypes), size));
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
    let aux =
        aux.filter(|_| weights.aux != 0.0).zip(network.aux_classifier.as_ref()).map(|(embedding, rows)| {
            targets.cross_entropy(upsample(scores(embedding, rows.val().unsqueeze()), size))
        });
    let total = match &aux {
        Some(aux) => main.clone() + aux.clone().mul_scalar(weights.aux),
        None => main.clone(),
    };
    Losses { main, aux, total }
}

/// Mean cross-entropy of `scores` (`[batch, classes, height, width]`) over the labelled pixels; zero without any.
pub fn cross_entropy(scores: Tensor<4>, labels: &[LabelMap]) -> Tensor<1> {
    Targets::new(labels, &scores.device()).cross_entropy(scores)
}

/// Labels as tensors, made once for the several predictions that are compared with them.
struct Targets {
    /// The row each pixel should have; 0 where it is ignored.
    rows: Tensor<4, Int>,
    /// One where a pixel counts, over the number of pixels that do.
    weights: Tensor<4>,
}

impl Targets {
    fn new(labels: &[LabelMap], device: &burn::tensor::Device) -> Self {
        let (height, width) = (labels[0].height, labels[0].width);
        let shape = [labels.len(), 1, height, width];
        let pixels = || labels.iter().flat_map(|label| label.data.iter());
        let counted = pixels().filter(|&&label| label != IGNORE).count().max(1) as f32;
        let rows = pixels().map(|&label| if label == IGNORE { 0 } else { i64::from(label) }).collect();
        let weights = pixels().map(|&label| if label == IGNORE { 0.0 } else { 1.0 / counted }).collect();
        Self {
            rows: Tensor::from_data(TensorData::new::<i64, _>(rows, shape), device),
            weights: Tensor::from_data(TensorData::new::<f32, _>(weights, shape), device),
        }
    }

    fn cross_entropy(&self, scores: Tensor<4>) -> Tensor<1> {
        let own = log_softmax(scores, 1).gather(1, self.rows.clone());
        (own * self.weights.clone()).sum().neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu;

    #[test]
    fn cross_entropy_of_two_pixels_by_hand() {
        // Pixel 0: scores (1, 3), label 1. Pixel 1 is ignored. Pixel 2: (0, 0), label 0.
        let scores = Tensor::<1>::from_floats([1.0, 9.0, 0.0, 3.0, -9.0, 0.0], &cpu()).reshape([1, 2, 1, 3]);
        let labels = [LabelMap::new(3, 1, vec![1, IGNORE, 0])];
        let loss: f32 = cross_entropy(scores, &labels).into_scalar();
        let expected = ((1.0 + (-2f32).exp()).ln() + 2f32.ln()) / 2.0;
        assert!((loss - expected).abs() < 1e-6, "{loss} {expected}");
    }

    #[test]
    fn a_batch_without_labels_costs_nothing() {
        let labels = [LabelMap::new(1, 1, vec![IGNORE])];
        let loss: f32 = cross_entropy(Tensor::ones([1, 2, 1, 1], &cpu()), &labels).into_scalar();
        assert_eq!(loss, 0.0);
    }
}
