//! Writes a small model and a pack of one class, as first inputs of the targets that read them. It is a target itself, though
//! it tries nothing: what is built for the fuzzer cannot be linked without it.
#![no_main]

use std::{env, fs, path::Path};

use libfuzzer_sys::fuzz_target;
use protoseg::{
    ClassPack, Image, Model, Support,
    config::NetworkConfig,
    core::{Classes, Preprocess},
    device::cpu,
    encoder::{EncoderConfig, ResNetConfig},
    method::{
        Method,
        capl::{Ablation, Capl, Preset},
    },
    model::{Manifest, Training},
};

fuzz_target!(init: write(), |_bytes: &[u8]| {});

fn write() {
    let corpus = env::var_os("PROTOSEG_CORPUS").expect("the folder of all inputs");
    let corpus = Path::new(&corpus);
    for target in ["model", "pack"] {
        fs::create_dir_all(corpus.join(target)).expect("a folder");
    }
    let model = tiny();
    model.save(corpus.join("model/tiny.safetensors")).expect("a model");

    let image = Image::new(40, 30, (0..40 * 30 * 3).map(|at| (at * 7 % 251) as u8).collect());
    let mask: Vec<bool> = (0..40 * 30).map(|at| at % 40 > 12 && at / 40 > 9).collect();
    let support = Support::from_mask("a".to_string(), image, &mask).expect("a mask");
    let mut pack = ClassPack::new(&model);
    model.register(&mut pack, "duck", [support]).expect("a class");
    pack.save(corpus.join("pack/tiny.pack")).expect("a pack");
}

/// A small network with random weights.
fn tiny() -> Model {
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    let classes = Classes::new(&["background", "cow"], &[]).expect("two classes");
    let capl = Capl::new(Ablation::Capl, Preset::Balanced.options(), classes.n_base(), true);
    let manifest = Manifest {
        format: Manifest::FORMAT,
        network: NetworkConfig { encoder, dim: 16, ..NetworkConfig::pspnet(10) },
        classes,
        method: Method::Capl(capl),
        preprocess: Preprocess::imagenet(33),
        training: Training { origin: "random weights".to_string(), ..Training::default() },
    };
    Model::random(manifest, &cpu()).expect("a model")
}
