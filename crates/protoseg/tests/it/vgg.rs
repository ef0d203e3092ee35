//! VGG-16 through the golden data of PANet, whose extractor it is.

use burn::tensor::{
    Tensor, TensorData,
    module::interpolate,
    ops::{InterpolateMode, InterpolateOptions},
};
use protoseg::{
    device::cpu,
    encoder::{EncoderConfig, VggConfig},
    method::capl::cosine,
    weights::{TensorFile, load_encoder},
};
use protoseg_testing::{Golden, assert_close, read_keys, shared, write_generated};

use crate::fixture::{tensor, values};

/// torchvision's number of the layer that PANet calls `features.BLOCK.LAYER`.
fn torchvision_name(panet: &str) -> String {
    let parts: Vec<&str> = panet.strip_prefix("encoder.backbone.features.").unwrap().split('.').collect();
    let [block, layer, kind] = parts[..] else { unreachable!() };
    let first = [0, 5, 10, 17, 24][block.parse::<usize>().unwrap() / 2];
    format!("features.{}.{kind}", first + layer.parse::<usize>().unwrap())
}

#[test]
fn panet_on_vgg_gives_the_golden_scores() {
    let (Some(keys), Some(path)) =
        (shared("golden/fs_panet_keys.tsv"), shared("golden/fs_panet.safetensors"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vgg16.safetensors");
    write_generated(&read_keys(&keys), torchvision_name, &file);
    let config = EncoderConfig::Vgg16(VggConfig { output_stride: 8 });
    let encoder = load_encoder(&TensorFile::open(&file).unwrap(), &config, &cpu()).unwrap();

    let golden = Golden::read(&path);
    let features = |images: Tensor<4>| encoder.forward(images).pop().unwrap();
    let up = |map: Tensor<4>| {
        let options = InterpolateOptions::new(InterpolateMode::Bilinear);
        interpolate(map, options.with_align_corners(false).with_output_size([97, 97]))
    };
    let supports = tensor::<5>(&golden, "support_image");
    let masks = golden.bytes("support_mask");
    let mut scores = Vec::new();
    for episode in 0..2 {
        let mut prototypes: Vec<Tensor<2>> = Vec::new();
        for shot in 0..2 {
            let image: Tensor<4> =
                supports.clone().slice([episode..episode + 1, shot..shot + 1]).squeeze_dim(0);
            let pixels = up(features(image)).reshape([512, 97 * 97]);
            let mask = &masks[(2 * episode + shot) * 97 * 97..][..97 * 97];
            let of = |wanted: u8| {
                let mask: Vec<f32> = mask.iter().map(|&m| f32::from(u8::from(m == wanted))).collect();
                let area = mask.iter().sum::<f32>() + 1e-5;
                let mask = Tensor::<2>::from_data(TensorData::new(mask, [97 * 97, 1]), &cpu());
                pixels.clone().matmul(mask).div_scalar(area).transpose()
            };
            prototypes.push(Tensor::cat(vec![of(0), of(1)], 0));
        }
        let mean = (prototypes[0].clone() + prototypes[1].clone()).div_scalar(2.0);
        let query = tensor::<4>(&golden, "query_image").slice_dim(0, episode..episode + 1);
        // PANet's alpha is 20, ours 10.
        scores.push(up(cosine::scores(features(query), mean.unsqueeze()).mul_scalar(2.0)));
    }
    assert_close("PANet scores", &values(Tensor::cat(scores, 0)), golden.values("logits"), 1e-3);
}
