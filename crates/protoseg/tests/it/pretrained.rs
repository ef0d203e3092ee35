//! Encoders of others: the real ImageNet ResNet-50 beside the repository.

use burn::tensor::{Distribution, Tensor};
use protoseg::{
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig, Stem, StrideOn},
    weights::{TensorFile, load_encoder, read_encoder_config},
};
use protoseg_testing::shared;

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn the_imagenet_resnet_says_what_it_is_and_loads() {
    let path = shared("weights/resnet50-imagenet.safetensors");
    let checkpoint = TensorFile::open(&path).unwrap();
    let config = read_encoder_config(&checkpoint).unwrap();
    let expected =
        ResNetConfig { stem: Stem::Classic, stride_on: StrideOn::First1x1, ..ResNetConfig::new(50) };
    assert_eq!(config, EncoderConfig::ResNet(expected));
    let encoder = load_encoder(&checkpoint, &config, &cpu()).unwrap();
    let image = Tensor::random([1, 3, 65, 65], Distribution::Normal(0.0, 1.0), &cpu());
    let last = encoder.forward(image).pop().unwrap();
    assert_eq!(last.dims(), [1, 2048, 9, 9]);
    let mean: f32 = last.mean().into_scalar();
    assert!(mean > 0.05 && mean < 5.0, "trained features have a sane scale, not {mean}");
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn a_wrong_encoder_is_refused_with_one_list() {
    let path = shared("weights/resnet50-imagenet.safetensors");
    let checkpoint = TensorFile::open(&path).unwrap();
    // Deeper, and with the deep stem: tensors are missing, unexpected and of other shapes at once.
    let config = EncoderConfig::ResNet(ResNetConfig::new(101));
    let error = load_encoder(&checkpoint, &config, &cpu()).unwrap_err().to_string();
    assert!(error.contains("resnet50-imagenet.safetensors"), "{error}");
    assert!(error.contains("missing:\n  layer3.10.bn1.bias"), "{error}");
    assert!(error.contains("mis-shaped:"), "{error}");
    assert!(error.contains("conv1.weight: [64, 3, 7, 7], expected [64, 3, 3, 3]"), "{error}");
    assert!(error.contains("more"), "a long list is cut: {error}");
}
