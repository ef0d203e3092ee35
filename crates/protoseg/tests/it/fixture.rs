//! The reference's network with generated weights, imported through the same door as a real checkpoint.

use burn::tensor::{Tensor, TensorData};
use protoseg::{
    config::NetworkConfig,
    core::{Classes, Image, Preprocess, RowMap},
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    method::{
        Method,
        capl::{Ablation, Capl, Options},
        support_sums::SupportSums,
    },
    model::{Manifest, Model, Training},
};
use protoseg_testing::{Golden, read_keys, shared, write_generated};

/// `n_base` rows named by number, the first a background, then `n_novel`.
pub fn numbered_classes(n_base: usize, n_novel: usize) -> Classes {
    let base: Vec<String> =
        (0..n_base).map(|i| if i == 0 { "background".to_string() } else { format!("base {i}") }).collect();
    let novel: Vec<String> = (0..n_novel).map(|i| format!("novel {i}")).collect();
    Classes::new(&base, &novel).unwrap()
}

/// The label maps of a golden tensor `[.., height, width]`, in order.
pub fn label_maps(golden: &Golden, name: &str) -> Vec<RowMap> {
    let shape = golden.shape(name);
    let [height, width] = shape[shape.len() - 2..] else { unreachable!() };
    golden.bytes(name).chunks(height * width).map(|labels| RowMap::from_u8(width, height, labels)).collect()
}

/// The reference's PSPNet-50 with generated weights.
pub fn generated_model(size: usize) -> Model {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("reference.safetensors");
    let mut keys = read_keys(&shared("golden/pspnet50_keys.tsv"));
    keys.retain(|(name, _)| !name.ends_with("num_batches_tracked"));
    write_generated(&keys, str::to_string, &checkpoint);
    Model::import(&checkpoint, numbered_classes(16, 5), size, &cpu()).unwrap()
}

pub fn tensor<const D: usize>(golden: &Golden, name: &str) -> Tensor<D> {
    let data = TensorData::new(golden.values(name).to_vec(), golden.shape(name).to_vec());
    Tensor::from_data(data, &cpu())
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as().unwrap()
}

/// A network small enough for tests in milliseconds, d = 16.
pub fn tiny_config() -> NetworkConfig {
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    NetworkConfig { encoder, dim: 16, ..NetworkConfig::pspnet(10) }
}

/// CAPL with as many rows as the options ask for.
pub fn capl(classes: &Classes, ablation: Ablation, options: &Options) -> Capl {
    let rows = if options.novel_rows { classes.rows().len() } else { classes.n_base() };
    Capl::new(ablation, options.clone(), rows, true)
}

/// A model with random weights.
pub fn tiny_model(network: NetworkConfig, classes: Classes, method: Capl, size: usize) -> Model {
    let device = cpu();
    device.seed(11);
    let training = Training { origin: "random weights".to_string(), seed: Some(11), ..Training::default() };
    let manifest = Manifest {
        format: Manifest::FORMAT,
        network,
        classes,
        method: Method::Capl(method),
        preprocess: Preprocess::imagenet(size),
        training,
    };
    Model::random(manifest, &device).unwrap()
}

/// What registration keeps of an image of the class with the label `own`.
pub fn remember(model: &Model, own: u16, image: &Image, labels: &RowMap) -> SupportSums {
    model.remember(model.features(image), labels, own, &model.usage().unwrap())
}
