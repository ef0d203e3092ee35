//! PANet against its golden data: VGG-16, prototypes, scores, losses, and a training step.

use burn::tensor::Tensor;
use protoseg::{
    config::NetworkConfig,
    decoder::DecoderKind,
    device::cpu,
    encoder::{EncoderConfig, VggConfig},
    method::{BaseClasses, Episodes, Method, TrainingBatch, Vision, panet::Panet},
    network::Network,
    train::{OptimizerSettings, Trainer, TrainerConfig},
    weights::{TensorFile, load_encoder},
};
use protoseg_testing::{Golden, assert_close, read_keys, shared, write_generated};
use rand::SeedableRng;

use crate::fixture::{label_maps, tensor, values};

/// torchvision's number of the layer that PANet calls `features.BLOCK.LAYER`.
fn torchvision_name(panet: &str) -> String {
    let parts: Vec<&str> = panet.strip_prefix("encoder.backbone.features.").unwrap().split('.').collect();
    let [block, layer, kind] = parts[..] else { unreachable!() };
    let first = [0, 5, 10, 17, 24][block.parse::<usize>().unwrap() / 2];
    format!("features.{}.{kind}", first + layer.parse::<usize>().unwrap())
}

/// PANet's network with the golden data's weights.
fn network() -> Network {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vgg16.safetensors");
    write_generated(&read_keys(&shared("golden/fs_panet_keys.tsv")), torchvision_name, &file);
    let encoder = EncoderConfig::Vgg16(VggConfig { output_stride: 8 });
    let loaded = load_encoder(&TensorFile::open(&file).unwrap(), &encoder, &cpu()).unwrap();
    let config =
        NetworkConfig { encoder, decoder: DecoderKind::Identity, dim: 512, ..NetworkConfig::pspnet(50) };
    Network { encoder: loaded, ..config.init(&method(), &cpu()).unwrap() }
}

fn method() -> Method {
    Method::Panet(Panet::default())
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn scores_and_losses_are_the_golden_ones() {
    let golden = Golden::read(&shared("golden/fs_panet.safetensors"));
    let (query_labels, support_labels) =
        (label_maps(&golden, "query_mask"), label_maps(&golden, "support_mask"));
    let episodes = Episodes {
        queries: tensor(&golden, "query_image"),
        query_labels: &query_labels,
        supports: tensor(&golden, "support_image"),
        support_labels: &support_labels,
        classes: None,
    };
    let (network, method) = (network(), method());
    let scores = method.episodic().unwrap().score(&Vision::new(&network), &episodes);
    assert_close("scores", &values(scores), golden.values("logits"), 1e-3);
    let base = BaseClasses { count: 1, has_background: true };
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let losses = method.losses(&Vision::new(&network), base, &TrainingBatch::Episodes(episodes), &mut rng);
    let scalar = |tensor: Tensor<1>| values(tensor);
    assert_close("alignment", &scalar(losses.aux.unwrap()), golden.values("align_loss"), 1e-4);
    let main = scalar(losses.main)[0];
    assert_close("total", &scalar(losses.total), &[main + golden.values("align_loss")[0]], 1e-4);
}

/// The trainer knows nothing of PANet but that it turns episodes into losses.
#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn episodes_are_learned_from() {
    let golden = Golden::read(&shared("golden/fs_panet.safetensors"));
    let (query_labels, support_labels) =
        (label_maps(&golden, "query_mask"), label_maps(&golden, "support_mask"));
    let batch = TrainingBatch::Episodes(Episodes {
        queries: tensor(&golden, "query_image"),
        query_labels: &query_labels,
        supports: tensor(&golden, "support_image"),
        support_labels: &support_labels,
        classes: None,
    });
    let base = BaseClasses { count: 1, has_background: true };
    let optimizer = OptimizerSettings { lr: 1e-3, head_factor: 1.0, ..OptimizerSettings::reference() };
    let mut trainer = Trainer::new(network(), TrainerConfig::new(method(), base, optimizer, 100, 3));
    let losses: Vec<f32> = (0..3).map(|_| trainer.step(&batch).loss).collect();
    assert!(losses.iter().all(|loss| loss.is_finite()) && losses[2] < losses[0], "{losses:?}");
}
