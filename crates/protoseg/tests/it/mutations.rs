//! Thousands of damaged models, packs and checkpoints: they are refused or read, and nothing panics.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::{Duration, Instant},
};

use protoseg::{
    ClassPack, Image, Model, Support,
    method::capl::{Ablation, Preset},
    weights::TensorFile,
};
use protoseg_testing::mutate;

use crate::fixture::{capl, numbered_classes, tiny_config, tiny_model};

/// Damaged copies of each file.
const COPIES: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(10);

fn survive(name: &str, whole: &[u8], read: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    for seed in 0..COPIES {
        fs::write(&path, mutate(whole, seed)).unwrap();
        let started = Instant::now();
        let answer = catch_unwind(AssertUnwindSafe(|| read(&path)));
        assert!(answer.is_ok(), "`{name}` with damage {seed} is not survived");
        assert!(started.elapsed() < PATIENCE, "`{name}` with damage {seed} takes {:?}", started.elapsed());
    }
}

fn tiny() -> Model {
    let classes = numbered_classes(3, 0);
    let method = capl(&classes, Ablation::Capl, &Preset::Reference.options());
    tiny_model(tiny_config(), classes, method, 33)
}

/// The header alone is damaged in half of the copies: the rest of a file is mostly numbers.
fn head_and_whole(bytes: &[u8]) -> [Vec<u8>; 2] {
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    [bytes[..header].to_vec(), bytes.to_vec()]
}

#[test]
fn damaged_models_are_refused_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    tiny().save(&path).unwrap();
    for bytes in head_and_whole(&fs::read(&path).unwrap()) {
        survive("m.safetensors", &bytes, |path| drop(Model::load(path)));
    }
}

#[test]
fn damaged_packs_are_refused_or_used() {
    let model = tiny();
    let image = Image::new(40, 30, (0..40 * 30 * 3).map(|at| (at * 7 % 251) as u8).collect());
    let mask: Vec<bool> = (0..40 * 30).map(|at| at % 40 > 12 && at / 40 > 9).collect();
    let mut pack = ClassPack::new(&model);
    model.register(&mut pack, "duck", [Support::from_mask("a".to_string(), image, &mask).unwrap()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.pack");
    pack.save(&path).unwrap();
    let usage = model.usage().unwrap();
    for bytes in head_and_whole(&fs::read(&path).unwrap()) {
        survive("p.pack", &bytes, |path| {
            // A pack that passes both checks can be used.
            if let Ok(pack) = ClassPack::load(path)
                && pack.check(&model).is_ok()
            {
                pack.classifier(&model, &usage).unwrap();
            }
        });
    }
}

#[test]
fn damaged_checkpoints_are_refused_or_read() {
    for name in ["tiny_zip.pth", "tiny_legacy.pth"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        survive(name, &fs::read(path).unwrap(), |path| {
            if let Ok(file) = TensorFile::open(path) {
                let names: Vec<String> = file.names().map(String::from).collect();
                names.iter().for_each(|name| drop(file.read(name)));
            }
        });
    }
}
