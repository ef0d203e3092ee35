//! Vision transformers beside `transformers` and `timm`: small ones with weights by a formula here,
//! `benches/peers/vit_parity.py` makes those of published sizes.

use std::{collections::HashMap, fs, path::Path};

use burn::tensor::{Tensor, TensorData};
use protoseg::{
    Image, Model, Segmenter, Support,
    device::cpu,
    encoder::{EncoderConfig, Positions, VitConfig},
    network::Tap,
    weights::{TensorFile, WeightsError, load_encoder, read_encoder_config},
};
use protoseg_testing::{Golden, assert_close};
use safetensors::{Dtype, tensor::TensorView};

use crate::fixture::{tensor, values};

const WIDTH: usize = 64;
const DEPTH: usize = 4;

/// `by_formula` of `vit_parity.py`.
fn by_formula(name: &str, shape: &[usize]) -> Vec<f32> {
    let seed: u64 = name.bytes().map(u64::from).sum();
    let is_shifted = shape.len() == 1 && (name.ends_with("weight") || name.ends_with("lambda1"));
    let shift = if is_shifted { 1.0 } else { 0.0 };
    let value = |place: u64| {
        let mixed = ((place + 1) * 2_654_435_761 + seed * 40503) % (1 << 32);
        let mixed = (mixed ^ (mixed >> 15)) * 2_246_822_519 % (1 << 32);
        let mixed = mixed ^ (mixed >> 13);
        (mixed as f64 / (1u64 << 32) as f64 - 0.5) as f32 * 0.5 + shift
    };
    (0..shape.iter().product::<usize>() as u64).map(value).collect()
}

/// Names and shapes of `transformers`.
fn tensors(kind: &str) -> Vec<(String, Vec<usize>)> {
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: &str, shape: &[usize]| all.push((name.to_string(), shape.to_vec()));
    let (patch, blocks) = if kind == "dinov3" { (16, "model.layer") } else { (14, "encoder.layer") };
    add("embeddings.cls_token", &[1, 1, WIDTH]);
    match kind {
        "dinov3" => {
            add("embeddings.mask_token", &[1, 1, WIDTH]);
            add("embeddings.patch_embeddings.weight", &[WIDTH, 3, patch, patch]);
            add("embeddings.patch_embeddings.bias", &[WIDTH]);
        }
        _ => {
            add("embeddings.mask_token", &[1, WIDTH]);
            add("embeddings.position_embeddings", &[1, 10, WIDTH]);
            add("embeddings.patch_embeddings.projection.weight", &[WIDTH, 3, patch, patch]);
            add("embeddings.patch_embeddings.projection.bias", &[WIDTH]);
        }
    }
    if kind != "dinov2" {
        add("embeddings.register_tokens", &[1, 4, WIDTH]);
    }
    let [up, down] = if kind == "dinov3" { ["up_proj", "down_proj"] } else { ["fc1", "fc2"] };
    for block in 0..DEPTH {
        let mut add = |name: &str, shape: &[usize]| add(&format!("{blocks}.{block}.{name}"), shape);
        for norm in ["norm1", "norm2"] {
            add(&format!("{norm}.weight"), &[WIDTH]);
            add(&format!("{norm}.bias"), &[WIDTH]);
        }
        for part in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            add(&format!("attention.{part}.weight"), &[WIDTH, WIDTH]);
            if kind != "dinov3" || part != "k_proj" {
                add(&format!("attention.{part}.bias"), &[WIDTH]);
            }
        }
        add("layer_scale1.lambda1", &[WIDTH]);
        add("layer_scale2.lambda1", &[WIDTH]);
        add(&format!("mlp.{up}.weight"), &[4 * WIDTH, WIDTH]);
        add(&format!("mlp.{up}.bias"), &[4 * WIDTH]);
        add(&format!("mlp.{down}.weight"), &[WIDTH, 4 * WIDTH]);
        add(&format!("mlp.{down}.bias"), &[WIDTH]);
    }
    let norm = if kind == "dinov3" { "norm" } else { "layernorm" };
    add(&format!("{norm}.weight"), &[WIDTH]);
    add(&format!("{norm}.bias"), &[WIDTH]);
    all
}

/// Writes a file of weights by the formula, without those that `is_left_out`.
fn write(kind: &str, path: &Path, is_left_out: impl Fn(&str) -> bool) {
    let mut tensors = tensors(kind);
    tensors.retain(|(name, _)| !is_left_out(name));
    write_tensors(tensors, path);
}

/// Writes a file of weights by the formula, with other shapes of some.
fn write_with(kind: &str, path: &Path, shapes: &[(&str, Vec<usize>)]) {
    let mut tensors = tensors(kind);
    for (name, shape) in &mut tensors {
        if let Some((_, other)) = shapes.iter().find(|(changed, _)| changed == name) {
            *shape = other.clone();
        }
    }
    write_tensors(tensors, path);
}

fn write_tensors(tensors: Vec<(String, Vec<usize>)>, path: &Path) {
    let valued = |(name, shape): (String, Vec<usize>)| {
        let values = by_formula(&name, &shape);
        (name, shape, values)
    };
    write_values(tensors.into_iter().map(valued).collect(), path);
}

fn write_values(tensors: Vec<(String, Vec<usize>, Vec<f32>)>, path: &Path) {
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, shape, values)| {
            (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    let views: HashMap<String, TensorView> = views.collect();
    safetensors::serialize_to_file(views, None, path).unwrap();
}

/// The maps after each quarter of the blocks, by operations of Burn and by kernels.
fn maps(path: &Path, image: Tensor<4>) -> [Vec<Tensor<4>>; 2] {
    let file = TensorFile::open(path).unwrap();
    let encoder = load_encoder(&file, &read_encoder_config(&file).unwrap(), &cpu()).unwrap();
    let model = Model::from_encoder(path, &cpu()).unwrap();
    let taps: Vec<Tap> = (1..=4).map(Tap::Stage).collect();
    let [_, _, height, width] = image.dims();
    assert!(model.extractor([height, width]).is_some(), "there is a kernel for every step");
    [encoder.forward(image.clone()).split_off(1), model.vision().maps(image, &taps)]
}

/// The largest difference of all maps.
fn compare(
    name: &str,
    path: &Path,
    image: Tensor<4>,
    expected: impl Fn(usize) -> Vec<f32>,
    within: f32,
) -> f32 {
    let mut worst = 0f32;
    for (maps, by) in maps(path, image).into_iter().zip(["Burn", "kernels"]) {
        for (quarter, map) in maps.into_iter().enumerate() {
            let name = format!("{name}, map {} by {by}", quarter + 1);
            worst = worst.max(assert_close(&name, &values(map), &expected(quarter + 1), within));
        }
    }
    worst
}

#[test]
fn small_ones_give_the_maps_of_transformers() {
    let golden = Golden::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vit.safetensors"));
    let folder = tempfile::tempdir().unwrap();
    for (kind, patch) in [("dinov2", 14), ("registers", 14), ("dinov3", 16)] {
        let path = folder.path().join(format!("{kind}.safetensors"));
        write(kind, &path, |_| false);
        // The canvas is not square, and its grid is not the one that positions are of.
        let shape = [1, 3, 2 * patch, 4 * patch];
        let image: Vec<f32> = by_formula("input", &shape).into_iter().map(|value| 4.0 * value).collect();
        let image = Tensor::from_data(TensorData::new(image, shape), &cpu());
        compare(kind, &path, image, |quarter| golden.values(&format!("{kind}.map{quarter}")).to_vec(), 1e-4);
    }
}

/// DINOv3 as torch.hub has it, with the values of [`write`]: queries, keys and values in one, biases of keys that a mask
/// takes out, other names.
fn write_dinov3_of_hub(path: &Path) {
    let mut hub = vec![("rope_embed.periods".to_string(), vec![16], vec![1.0; 16])];
    for (name, shape) in tensors("dinov3") {
        let values = by_formula(&name, &shape);
        let third = |part: &str| {
            let name = name.replace("q_proj", part);
            if name.ends_with("k_proj.bias") { vec![0.7; WIDTH] } else { by_formula(&name, &shape) }
        };
        let theirs = name.replace("model.layer.", "blocks.").replace("layer_scale", "ls");
        let changes = [
            ("embeddings.patch_embeddings", "patch_embed.proj"),
            ("embeddings.register_tokens", "storage_tokens"),
            ("embeddings.", ""),
            ("attention.o_proj", "attn.proj"),
            ("attention.q_proj", "attn.qkv"),
            ("lambda1", "gamma"),
            ("up_proj", "fc1"),
            ("down_proj", "fc2"),
        ];
        let theirs = changes.iter().fold(theirs, |name, (from, to)| name.replace(from, to));
        if name.contains("k_proj") || name.contains("v_proj") {
            continue;
        }
        if !name.contains("q_proj") {
            hub.push((theirs, shape, values));
            continue;
        }
        let all: Vec<f32> = ["q_proj", "k_proj", "v_proj"].into_iter().flat_map(third).collect();
        let shape = [&[3 * WIDTH], &shape[1..]].concat();
        if name.ends_with("bias") {
            let mask = [vec![1.0; WIDTH], vec![0.0; WIDTH], vec![1.0; WIDTH]].concat();
            hub.push((format!("{theirs}_mask"), shape.clone(), mask));
        }
        hub.push((theirs, shape, all));
    }
    write_values(hub, path);
}

#[test]
fn dinov3_of_torch_hub_is_that_of_transformers() {
    let golden = Golden::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vit.safetensors"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.safetensors");
    write_dinov3_of_hub(&path);
    let shape = [1, 3, 32, 64];
    let image: Vec<f32> = by_formula("input", &shape).into_iter().map(|value| 4.0 * value).collect();
    let image = Tensor::from_data(TensorData::new(image, shape), &cpu());
    compare("hub", &path, image, |quarter| golden.values(&format!("dinov3.map{quarter}")).to_vec(), 1e-4);
}

#[test]
fn a_file_says_which_one_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vit.safetensors");
    let read = |kind: &str| {
        write(kind, &path, |_| false);
        read_encoder_config(&TensorFile::open(&path).unwrap()).unwrap()
    };
    let dinov2 = VitConfig {
        width: WIDTH,
        depth: DEPTH,
        patch: 14,
        registers: 0,
        positions: Positions::Learned(3),
        gated: false,
    };
    assert_eq!(read("dinov2"), EncoderConfig::Vit(dinov2.clone()));
    assert_eq!(read("registers"), EncoderConfig::Vit(VitConfig { registers: 4, ..dinov2.clone() }));
    let dinov3 = VitConfig { patch: 16, registers: 4, positions: Positions::Rotary, ..dinov2 };
    assert_eq!(read("dinov3"), EncoderConfig::Vit(dinov3));
    // Shapes that cannot be are refused, whatever else is in the file.
    for (name, shape) in [
        ("embeddings.register_tokens", vec![4]),
        ("embeddings.register_tokens", vec![1, 4, 3]),
        ("embeddings.position_embeddings", vec![]),
        ("embeddings.position_embeddings", vec![1, 1 << 40, 0]),
        ("embeddings.patch_embeddings.projection.weight", vec![0, 3, 14, 14]),
        ("embeddings.patch_embeddings.projection.weight", vec![WIDTH, 3, 0, 0]),
        ("encoder.layer.0.mlp.fc1.weight", vec![]),
        ("encoder.layer.1.attention.q_proj.bias", vec![7]),
    ] {
        write_with("registers", &path, &[(name, shape.clone())]);
        let file = TensorFile::open(&path).unwrap();
        let loaded = read_encoder_config(&file).and_then(|config| load_encoder(&file, &config, &cpu()));
        assert!(loaded.is_err(), "{name} {shape:?}");
    }
    // A tensor that is missing is named, and so is one too many.
    write("dinov2", &path, |name| name.ends_with("2.mlp.fc1.bias"));
    let file = TensorFile::open(&path).unwrap();
    let error = load_encoder(&file, &read_encoder_config(&file).unwrap(), &cpu()).unwrap_err();
    assert!(
        matches!(error, WeightsError::Mismatch { .. }) && error.to_string().contains("blocks.2.fc1.bias"),
        "{error}"
    );
}

#[test]
fn a_model_of_one_goes_the_whole_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vit.safetensors");
    write("registers", &path, |_| false);
    let model = Model::from_encoder(&path, &cpu()).unwrap().with_canvas(112).unwrap();
    let saved = folder.path().join("m.safetensors");
    model.save(&saved).unwrap();
    let again = Model::load(&saved).unwrap();
    assert_eq!(again.fingerprint(), model.fingerprint());
    // A red square on gray.
    let pixel = |at: usize| {
        if (20..60).contains(&(at % 90)) && (10..50).contains(&(at / 90)) {
            [220, 30, 30]
        } else {
            [90, 90, 90]
        }
    };
    let image = Image::new(90, 70, (0..90 * 70).flat_map(pixel).collect());
    let mask: Vec<bool> = (0..90 * 70).map(|at| pixel(at)[0] == 220).collect();
    let mut pack = protoseg::ClassPack::new(&again);
    let support = Support::from_mask("square", image.clone(), &mask).unwrap();
    again.register(&mut pack, "square", [support]).unwrap();
    let prediction = Segmenter::builder(&again).pack(&pack).build().unwrap().predict(&image);
    assert_eq!((prediction.width(), prediction.height()), (90, 70));
    assert!(prediction.is_finite());
}

#[test]
#[ignore = "needs weights of transformers and timm: run `python benches/peers/vit_parity.py`"]
#[allow(clippy::print_stderr)]
fn vision_transformers_of_others_give_their_maps() {
    let folder = std::env::var_os("PROTOSEG_VITS").expect("PROTOSEG_VITS is not set");
    let mut cases: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    for path in cases.iter().filter(|path| !path.to_string_lossy().ends_with(".weights.safetensors")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let weights = path.with_file_name(format!("{}.weights.safetensors", name.split('.').next().unwrap()));
        let golden = Golden::read(path);
        let expected = |quarter: usize| golden.values(&format!("map{quarter}")).to_vec();
        let worst = compare(&name, &weights, tensor(&golden, "input"), expected, 1e-3);
        eprintln!("{name}: largest difference {worst:.1e}");
    }
}
