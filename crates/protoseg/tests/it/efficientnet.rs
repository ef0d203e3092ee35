//! EfficientNet-Lite0 with its ImageNet weights gives the golden maps, through Burn and in use.

use burn::tensor::{Tensor, TensorData};
use protoseg::{
    config::NetworkConfig,
    decoder::DecoderKind,
    device::cpu,
    encoder::EncoderConfig,
    inference::Extractor,
    method::{Method, capl::Capl},
    weights::{TensorFile, load_encoder, read_encoder_config},
};
use protoseg_testing::{Golden, assert_close, shared};

use crate::fixture::values;

/// The top left corner of the golden picture, normalised as the encoder's table entry says.
fn picture(config: &EncoderConfig, [height, width]: [usize; 2]) -> Tensor<4> {
    let golden = Golden::read(&shared("golden/transforms.safetensors"));
    let [_, full_width, _] = golden.shape("image")[..] else { panic!("a picture has three axes") };
    let bytes = golden.bytes("image");
    let preprocess = config.preprocess(height);
    let value = |channel: usize, y: usize, x: usize| {
        let value = f32::from(bytes[(y * full_width + x) * 3 + channel]);
        (value - preprocess.mean[channel]) / preprocess.std[channel]
    };
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
    let planes = (0..3).flat_map(|channel| pixels.clone().map(move |(y, x)| value(channel, y, x)));
    Tensor::from_data(TensorData::new(planes.collect::<Vec<f32>>(), [1, 3, height, width]), &cpu())
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn efficientnet_lite0_gives_the_golden_maps() {
    let golden = Golden::read(&shared("golden/efficientnet_lite0.safetensors"));
    let file = TensorFile::open(&shared("weights/efficientnet-lite0-imagenet.safetensors")).unwrap();
    let config = read_encoder_config(&file).unwrap();
    assert_eq!(config, EncoderConfig::parse("efficientnet-lite0").unwrap());
    let encoder = load_encoder(&file, &config, &cpu()).unwrap();

    let method = Method::Capl(Capl::reference(2));
    let [_, dim] = config.channels();
    let network =
        NetworkConfig { encoder: config.clone(), decoder: DecoderKind::Identity, dim, dropout: 0.0 };
    let mut network = network.init(&method, &cpu()).unwrap();
    network.encoder = encoder.clone();

    for size in [[96, 128], [97, 113]] {
        let [height, width] = size;
        let image = picture(&config, size);
        let maps = encoder.forward(image.clone());
        let block = |number: usize| format!("{height}x{width}.block{number}");
        for (number, map) in [0, 2, 4, 10, 15].into_iter().zip(&maps) {
            let name = block(number);
            if [4, 10, 15].contains(&number) {
                assert_close(&name, &values(map.clone()), golden.values(&name), 1e-3);
            }
            let means = values(map.clone().mean_dim(3).mean_dim(2));
            let name = format!("{name}_mean");
            assert_close(&name, &means, golden.values(&name), 1e-3);
        }
        let used = Extractor::new(&network, size).unwrap().features(image);
        assert_close("in use", &values(used), golden.values(&block(15)), 1e-3);
    }
}
