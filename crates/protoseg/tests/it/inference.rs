//! The extractor as it is used gives what the network gives, for every encoder, head and stride.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Distribution, Tensor},
};
use protoseg::{
    config::NetworkConfig,
    decoder::DecoderKind,
    device::cpu,
    encoder::{
        EfficientNetLiteConfig, EncoderConfig, MobileNetV2Config, MobileNetV3Config, ResNetConfig, Stem,
        StrideOn, VggConfig,
    },
    inference::Extractor,
    method::{Method, capl::Capl},
    network::Network,
};
use protoseg_testing::assert_close_relative;

use crate::fixture::values;

fn method() -> Method {
    Method::Capl(Capl::reference(4))
}

/// Gives every batch-norm statistics of its own: fresh ones would hide a wrong fold.
struct Shake;

impl ModuleMapper for Shake {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if D != 1 {
            return param;
        }
        param.map(|tensor| {
            let noise = tensor.random_like(Distribution::Uniform(0.5, 1.5));
            tensor * noise.clone() + noise.sub_scalar(1.0).mul_scalar(0.2)
        })
    }
}

fn shaken(config: &NetworkConfig) -> Network {
    let device = cpu();
    device.seed(5);
    config.init(&method(), &device).unwrap().map(&mut Shake)
}

fn compare(config: &NetworkConfig, size: [usize; 2], what: &str) {
    let network = shaken(config);
    let images = Tensor::<4>::random([2, 3, size[0], size[1]], Distribution::Normal(0.0, 1.0), &cpu());
    let expected = network.features(images.clone());
    let fixed = Extractor::new(&network, size).unwrap();
    let got = fixed.features(images.clone());
    assert_eq!(got.dims(), expected.dims(), "{what}");
    let got = values(got);
    assert_close_relative(what, &got, &values(expected), 1e-3);
    assert_eq!(got, values(fixed.features(images)), "{what}: a second run in the same buffers");
}

#[test]
fn every_network_is_the_same_in_use() {
    let resnet = |depth, output_stride, stem, stride_on| {
        EncoderConfig::ResNet(ResNetConfig {
            stem,
            stride_on,
            output_stride,
            width: 0.25,
            ..ResNetConfig::new(depth)
        })
    };
    let encoders = [
        resnet(10, 8, Stem::Deep, StrideOn::Conv3x3),
        resnet(50, 8, Stem::Classic, StrideOn::First1x1),
        resnet(50, 16, Stem::Deep, StrideOn::Conv3x3),
        resnet(18, 32, Stem::Classic, StrideOn::Conv3x3),
    ];
    let decoders = [
        DecoderKind::PspNet,
        DecoderKind::PspBottleneck,
        DecoderKind::DeepLabV3,
        DecoderKind::Fcn,
        DecoderKind::Project,
    ];
    for encoder in encoders {
        for decoder in decoders {
            let what = format!("{decoder:?} on {encoder:?}");
            let config =
                NetworkConfig { encoder: encoder.clone(), decoder, dim: 24, ..NetworkConfig::pspnet(10) };
            compare(&config, [65, 97], &what);
        }
    }
}

#[test]
fn joined_maps_are_the_same_in_use() {
    let resnet = ResNetConfig { output_stride: 32, width: 0.25, ..ResNetConfig::new(50) };
    for encoder in [
        EncoderConfig::ResNet(resnet.clone()),
        EncoderConfig::ResNet(ResNetConfig { output_stride: 8, ..resnet }),
        EncoderConfig::Vgg16(VggConfig { output_stride: 16 }),
        EncoderConfig::EfficientNetLite(EfficientNetLiteConfig { variant: 0, output_stride: 32 }),
        EncoderConfig::MobileNetV2(MobileNetV2Config { output_stride: 32 }),
        EncoderConfig::MobileNetV3(MobileNetV3Config { large: true, output_stride: 32 }),
    ] {
        let what = format!("joined maps of {encoder:?}");
        compare(&NetworkConfig::stages(encoder), [65, 97], &what);
    }
}

#[test]
fn vgg_is_the_same_in_use() {
    for output_stride in [8, 16] {
        let encoder = EncoderConfig::Vgg16(VggConfig { output_stride });
        let config =
            NetworkConfig { encoder, decoder: DecoderKind::Project, dim: 24, ..NetworkConfig::pspnet(10) };
        compare(&config, [33, 49], &format!("VGG at stride {output_stride}"));
    }
}

#[test]
fn networks_of_inverted_residuals_are_the_same_in_use() {
    let decoders = [
        DecoderKind::PspNet,
        DecoderKind::PspBottleneck,
        DecoderKind::DeepLabV3,
        DecoderKind::Fcn,
        DecoderKind::Project,
        DecoderKind::Identity,
    ];
    for output_stride in [8, 16, 32] {
        for encoder in [
            EncoderConfig::EfficientNetLite(EfficientNetLiteConfig { variant: 0, output_stride }),
            EncoderConfig::MobileNetV2(MobileNetV2Config { output_stride }),
            EncoderConfig::MobileNetV3(MobileNetV3Config { large: false, output_stride }),
        ] {
            for decoder in decoders {
                let dim = if decoder == DecoderKind::Identity { encoder.channels()[1] } else { 24 };
                let config =
                    NetworkConfig { encoder: encoder.clone(), decoder, dim, ..NetworkConfig::pspnet(10) };
                compare(&config, [65, 97], &format!("{decoder:?} on {encoder:?}"));
            }
        }
    }
}

#[test]
fn a_profile_names_every_layer_and_its_work() {
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    let config = NetworkConfig { encoder, dim: 16, ..NetworkConfig::pspnet(10) };
    let network = config.init(&method(), &cpu()).unwrap();
    let fixed = Extractor::new(&network, [65, 65]).unwrap();
    let steps = fixed.profile(Tensor::zeros([1, 3, 65, 65], &cpu()));
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert!(names.contains(&"layer4.0.conv2") && names.contains(&"decoder.ppm"), "{names:?}");
    let written: u64 = steps.iter().map(|step| step.macs).sum();
    assert_eq!(written, network.macs([65, 65]).plain);
    assert_eq!(fixed.speedup(&steps, 1, 1), 1.0);
    let [two, many] = [2, 1 << 20].map(|threads| fixed.speedup(&steps, 1, threads));
    assert!(1.5 < two && two <= 2.0 && 2.0 < many && many < 1e4, "{two} {many}");
}
