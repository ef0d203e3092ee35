//! What all systems with a frozen encoder and a decoder of their own must do, on networks of a few channels.

use burn::tensor::{Distribution, Tensor};
use protoseg_core::RowMap;

use super::{
    BaseClasses, Episodes, Method, TrainingBatch, Vision,
    asgnet::Asgnet,
    canet::Canet,
    scl::{Base, Scl},
};
use crate::{
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig, Stem},
    network::Network,
    train::{OptimizerSettings, Trainer, TrainerConfig},
    weights::collect,
};

const SHARES: [f64; 3] = [1.0, 0.5, 0.25];

fn systems() -> [Method; 5] {
    let bins = SHARES.to_vec();
    [
        Method::Canet(Canet { iterations: 2, history: 1.0 }),
        Method::Scl(Scl { bins: bins.clone(), ..Scl::new(Base::Pfenet) }),
        Method::Scl(Scl { bins: bins.clone(), prior: false, ..Scl::new(Base::Pfenet) }),
        Method::Scl(Scl {
            scales: vec![0.7, 1.0, 1.3],
            iterations: 2,
            history: 1.0,
            ..Scl::new(Base::Canet)
        }),
        Method::Asgnet(Asgnet { bins, seed_area: 4.0, ..Asgnet::default() }),
    ]
}

fn network(method: &Method) -> Network {
    let resnet = ResNetConfig { width: 0.125, stem: Stem::Classic, ..ResNetConfig::new(10) };
    let config = method.published_network(EncoderConfig::ResNet(resnet));
    method.episodic().unwrap().validate_encoder(&config.encoder).unwrap();
    cpu().seed(5);
    config.init(method, &cpu()).unwrap()
}

/// The class is a bright square on noise, somewhere else in every image.
fn images(count: usize, [height, width]: [usize; 2]) -> (Tensor<4>, Vec<RowMap>) {
    let labels = (0..count).map(|index| {
        let own = |at: usize| {
            let (y, x) = (at / width, at % width);
            let (top, left) = (4 + 2 * index, 20usize.saturating_sub(3 * index));
            u16::from((top..top + 24).contains(&y) && (left..left + 24).contains(&x))
        };
        RowMap::new(width, height, (0..height * width).map(own).collect())
    });
    let labels: Vec<RowMap> = labels.collect();
    let noise = Tensor::random([count, 3, height, width], Distribution::Normal(0.0, 0.3), &cpu());
    (noise + super::mask::masks(&labels, 1, [height, width], &cpu()).mul_scalar(3.0), labels)
}

#[test]
fn every_layer_of_its_own_learns_and_the_frozen_encoder_stays() {
    for method in systems() {
        let (queries, query_labels) = images(2, [49, 49]);
        let (supports, support_labels) = images(4, [49, 49]);
        let batch = TrainingBatch::Episodes(Episodes {
            queries,
            query_labels: &query_labels,
            supports: supports.reshape([2, 2, 3, 49, 49]),
            support_labels: &support_labels,
            classes: None,
        });
        let optimizer = OptimizerSettings {
            lr: 1.0,
            head_factor: 1.0,
            weight_decay: 0.0,
            ..OptimizerSettings::reference()
        };
        let base = BaseClasses { count: 1, has_background: true };
        let network = network(&method);
        let before = collect(&network);
        let mut trainer = Trainer::new(network, TrainerConfig::new(method.clone(), base, optimizer, 100, 3));
        assert!(trainer.step(&batch).loss.is_finite());
        for ((name, before), (_, after)) in before.iter().zip(collect(&trainer.network())) {
            let same = *before == after;
            assert_eq!(same, name.starts_with("encoder."), "{}: {name}", method.name());
        }
    }
}

#[test]
fn scores_have_the_size_of_the_queries_whatever_the_shots_and_sizes() {
    for method in systems() {
        let network = network(&method);
        for shots in 1..=3 {
            let (queries, _) = images(2, [45, 53]);
            let (supports, support_labels) = images(2 * shots, [41, 46]);
            let episodes = Episodes {
                queries,
                query_labels: &[],
                supports: supports.reshape([2, shots, 3, 41, 46]),
                support_labels: &support_labels,
                classes: None,
            };
            let scores = method.episodic().unwrap().score(&Vision::new(&network), &episodes);
            assert_eq!(scores.dims(), [2, 2, 45, 53], "{}", method.name());
            let values: Vec<f32> = scores.try_into_vec_as().unwrap();
            assert!(values.iter().all(|value| value.is_finite()), "{} at {shots} shots", method.name());
        }
    }
}

#[test]
fn a_support_of_its_own_makes_another_answer() {
    for method in systems() {
        let network = network(&method);
        let (queries, _) = images(1, [49, 49]);
        let score = |seed: usize| {
            let (supports, labels) = images(1 + seed, [49, 49]);
            let supports = supports.slice_dim(0, seed..seed + 1).unsqueeze();
            let episodes = Episodes {
                queries: queries.clone(),
                query_labels: &[],
                supports,
                support_labels: &labels[seed..],
                classes: None,
            };
            let scores = method.episodic().unwrap().score(&Vision::new(&network), &episodes);
            scores.try_into_vec_as::<f32>().unwrap()
        };
        assert_ne!(score(0), score(1), "{}", method.name());
    }
}

#[test]
fn other_encoders_are_refused_by_name() {
    let resnet = |layers, output_stride| {
        EncoderConfig::ResNet(ResNetConfig { layers, output_stride, ..ResNetConfig::new(50) })
    };
    for method in systems() {
        let stops = matches!(method, Method::Canet(_) | Method::Scl(Scl { on: Base::Canet, .. }));
        let episodic = method.episodic().unwrap();
        let (good, bad) = if stops { (3, 4) } else { (4, 3) };
        assert!(episodic.validate_encoder(&resnet(good, 8)).is_ok());
        for wrong in [resnet(bad, 8), resnet(good, 32), EncoderConfig::parse("vgg16").unwrap()] {
            let error = episodic.validate_encoder(&wrong).unwrap_err().to_string();
            assert!(error.contains("`encoder` must be a ResNet"), "{error}");
        }
    }
}
