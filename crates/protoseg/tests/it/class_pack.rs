//! Class packs: a set of classes in a file, whatever the way it came about.

use std::fs;

use proptest::prelude::*;
use protoseg::{
    class_pack::{ClassPack, PackClass, PackError, Shot},
    config::NetworkConfig,
    core::Classes,
    decoder::DecoderKind,
    encoder::{EncoderConfig, ResNetConfig},
    method::{
        capl::{Ablation, Capl, Preset},
        support_sums::{Clusters, Pooled},
    },
    model::Model,
};

use crate::fixture::{tiny_model, values};

const DIM: usize = 8;

fn model() -> Model {
    let encoder = EncoderConfig::ResNet(ResNetConfig { width: 0.125, ..ResNetConfig::new(10) });
    let network = NetworkConfig { encoder, decoder: DecoderKind::Fcn, dim: DIM, ..NetworkConfig::pspnet(10) };
    let classes = Classes::new(&["background", "cow", "grass"], &["swan", "duck"]).unwrap();
    tiny_model(network, classes, Capl::new(Ablation::Capl, Preset::Reference.options(), 5, false), 33)
}

fn pooled(seed: usize) -> Pooled {
    let sum = (0..DIM).map(|i| ((seed * 31 + i * 17) % 23) as f32 - 11.0 + 0.1 * i as f32).collect();
    Pooled { sum, count: 1.0 + (seed % 5) as f32 }
}

fn class(name: &str, seed: usize, shots: usize) -> PackClass {
    let shot = |shot: usize| Shot {
        image: format!("{name}-{shot}.jpg"),
        pixels: 100 + shot as u64,
        own: pooled(seed + shot),
        context: vec![((shot % 3) as u16, pooled(seed + 7 * shot))],
        clusters: Clusters::default(),
    };
    PackClass { name: name.to_string(), color: None, shots: (0..shots).map(shot).collect() }
}

const NAMES: [&str; 4] = ["duck", "boat", "swan", "aeroplane"];

#[test]
fn rows_follow_the_model_s_own_names_then_the_alphabet() {
    let model = model();
    let mut pack = ClassPack::new(&model);
    for (seed, name) in NAMES.iter().enumerate() {
        pack.add(class(name, seed, 2)).unwrap();
    }
    let names: Vec<&str> = pack.by_row(&model).iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["swan", "duck", "aeroplane", "boat"]);
    let usage = model.usage().unwrap().with_preset(Preset::Balanced);
    let classifier = pack.classifier(&model, &usage).unwrap();
    assert_eq!((classifier.rows.vectors.dims(), classifier.classes.n_novel()), ([7, DIM], 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn the_way_to_a_pack_does_not_show(order in Just([0usize, 1, 2, 3]).prop_shuffle(), cut in 0usize..4, again in 0usize..4) {
        let model = model();
        let all = || {
            let mut pack = ClassPack::new(&model);
            (0..4).for_each(|i| pack.add(class(NAMES[i], i, 3)).unwrap());
            pack
        };
        let (mut first, mut second) = (ClassPack::new(&model), ClassPack::new(&model));
        for (place, &i) in order.iter().enumerate() {
            let mut shots = class(NAMES[i], i, 3);
            shots.shots.rotate_left(place % 3);
            if place < cut { first.add(shots).unwrap() } else { second.add(shots).unwrap() }
        }
        first.merge(second).unwrap();
        let removed = first.remove(NAMES[again]).unwrap();
        first.add(removed).unwrap();
        prop_assert_eq!(&first, &all());
        for preset in Preset::ALL {
            let usage = model.usage().unwrap().with_preset(preset);
            let rows = |pack: &ClassPack| values(pack.classifier(&model, &usage).unwrap().rows.vectors);
            prop_assert_eq!(rows(&first), rows(&all()));
        }
    }
}

#[test]
fn files_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.pack");
    let mut pack = ClassPack::new(&model());
    pack.add(class("duck", 1, 2)).unwrap();
    pack.save(&path).unwrap();
    assert_eq!(ClassPack::load(&path).unwrap(), pack);

    let whole = fs::read(&path).unwrap();
    let text = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len(), "the header's length stays");
        let at = whole.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut changed = whole.clone();
        changed[at..at + from.len()].copy_from_slice(to.as_bytes());
        fs::write(&path, changed).unwrap();
        ClassPack::load(&path).unwrap_err().to_string()
    };
    assert!(text("\\\"format\\\":2", "\\\"format\\\":9").contains("formats up to 2, got `9`"));
    assert!(text("\\\"pixels\\\"", "\\\"pixelz\\\"").contains("pixelz"));
    assert!(text("\\\"count\\\":3.0", "\\\"count\\\":0.0").contains("no positions"));
    assert!(text("[0,", "{0,").contains("not a class pack"));
    let mut changed = whole.clone();
    let end = changed.len();
    changed[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, changed).unwrap();
    assert!(ClassPack::load(&path).unwrap_err().to_string().contains("my.pack"));
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(ClassPack::load(&path).is_err());
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let mut pack = ClassPack::new(&model());
    pack.add(class("duck", 1, 1)).unwrap();
    pack.add(class("boat", 2, 1)).unwrap();
    assert!(matches!(pack.add(class("duck", 3, 1)), Err(PackError::Twice(_))));
    assert!(matches!(pack.add(class(" ", 3, 1)), Err(PackError::Name(_))));
    assert!(matches!(pack.add(class("swan", 3, 0)), Err(PackError::NoShots { .. })));
    assert!(matches!(pack.rename("duck", "boat"), Err(PackError::Twice(_))));
    assert!(pack.remove("goose").unwrap_err().to_string().contains("`boat`, `duck`"));
    pack.rename("duck", "duck").unwrap();
    assert_eq!(pack.classes().len(), 2);
}
