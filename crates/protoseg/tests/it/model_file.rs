//! The model file: all of a model, and nothing it could be fooled by.

use std::fs;

use protoseg::{
    core::{Classes, Image},
    method::capl::{Ablation, Preset},
    model::{Model, ModelError},
};
use protoseg_testing::Golden;

use crate::fixture::{capl, remember, tiny_config, tiny_model, values};

fn model() -> Model {
    let classes = Classes::new(&["background", "cow"], &["duck"]).unwrap();
    let method = capl(&classes, Ablation::Capl, &Preset::Balanced.options());
    tiny_model(tiny_config(), classes, method, 41)
}

#[test]
fn a_model_read_back_predicts_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let model = model();
    model.save(&path).unwrap();
    let again = Model::load(&path).unwrap();
    assert_eq!(again.manifest(), model.manifest());
    assert_eq!(Model::read_manifest(&path).unwrap(), *model.manifest());

    let image = Image::new(41, 30, (0..41 * 30 * 3).map(|i| (i % 255) as u8).collect());
    let label = protoseg::core::RowMap::new(41, 30, (0..41 * 30).map(|i| (i % 3) as u16).collect());
    let scores = |model: &Model| -> Vec<f32> {
        let sums = [remember(model, 2, &image, &label)];
        values(model.classifier(&["duck"], &sums, &model.usage().unwrap()).unwrap().rows.vectors)
    };
    assert_eq!(scores(&model), scores(&again));
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777,
        0o644
    );
    // Nothing but the model is left in the folder.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Features of a small picture on a canvas of this side, made by a program.
fn features(model: &Model, size: usize) -> Vec<f32> {
    let image = Image::new(41, 30, (0..41 * 30 * 3).map(|i| (i * 7 % 255) as u8).collect());
    let model = model.with_canvas(size).unwrap();
    assert!(model.extractor([size, size]).is_some(), "there is a kernel for every layer");
    values(model.features(&image))
}

#[test]
fn weights_of_a_file_are_read_again_for_another_canvas() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model().save(&path).unwrap();
    let kept = Model::from_bytes(fs::read(&path).unwrap(), &protoseg::device::cpu()).unwrap();
    let loaded = Model::load(&path).unwrap();
    for size in [41, 57, 41] {
        assert_eq!(features(&loaded, size), features(&kept, size), "{size}");
    }
    // All of it is still known, even if another file has taken the place of this one.
    let other = folder.path().join("other");
    fs::write(&other, "no model").unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(features(&loaded, 65), features(&kept, 65));
    assert_eq!(loaded.fingerprint(), kept.fingerprint());
    assert_eq!(loaded.to_bytes().unwrap(), kept.to_bytes().unwrap());
}

#[test]
#[should_panic(expected = "was written to while it was in use")]
fn weights_are_never_taken_from_a_file_that_was_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model().save(&path).unwrap();
    let loaded = Model::load(&path).unwrap();
    features(&loaded, 41);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end / 2..].iter_mut().step_by(4).for_each(|byte| *byte ^= 1);
    fs::write(&path, &bytes).unwrap();
    features(&loaded, 57);
}

#[test]
fn a_save_that_fails_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let model = model();
    model.save(&path).unwrap();
    let before = fs::read(&path).unwrap();
    let error = model.save(folder.path().join("no such folder/model.safetensors")).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("no such folder"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// The file with its manifest changed.
fn with_manifest(change: impl Fn(&mut serde_json::Value)) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model().save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + size]).unwrap();
    let text = header["__metadata__"]["protoseg"].as_str().unwrap();
    let mut manifest = serde_json::from_str(text).unwrap();
    change(&mut manifest);
    header["__metadata__"]["protoseg"] = manifest.to_string().into();
    let header = serde_json::to_vec(&header).unwrap();
    let changed = [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[8 + size..]].concat();
    fs::write(&path, changed).unwrap();
    (folder, path)
}

#[test]
fn a_manifest_that_lies_is_refused() {
    type Change = fn(&mut serde_json::Value);
    let lies: [(Change, &str); 11] = [
        (|m| m["format"] = 9.into(), "formats up to 2, got `9`"),
        (
            |m| m["network"]["dim"] = 1_000_000_000.into(),
            "`dim` must be an even number from 8 to 4096, got `1000000000`",
        ),
        (|m| m["method"]["rows"] = 2.into(), "classifier: [3, 16], expected [2, 16]"),
        (|m| m["network"]["encoder"]["depth"] = 51.into(), "`encoder.depth` must be"),
        (|m| m["classes"] = serde_json::json!([]), "no base class"),
        (|m| m["preprocess"]["size"] = 10_000_000.into(), "got `10000000`"),
        (|m| m["preprocess"]["std"] = serde_json::json!([0.0, 1.0, 1.0]), "deviation"),
        (|m| m["preprocess"]["mean"] = serde_json::json!([1e30, 1.0, 1.0]), "not usable numbers"),
        (|m| m["method"]["row"] = "dqce-mlp".into(), "`dqce-mlp` needs the network of a gate"),
        (|m| m["classes"][1]["name"] = "co\u{1b}[31mw".into(), "control characters"),
        (|m| m["surprise"] = 1.into(), "surprise"),
    ];
    for (change, words) in lies {
        let (_folder, path) = with_manifest(change);
        let error = Model::load(&path).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("model.safetensors"), "{error}\nlacks: {words}");
    }
}

#[test]
fn weights_that_are_not_numbers_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model().save(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // The last tensor of the file, whatever it is.
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = Model::load(&path).unwrap_err().to_string();
    assert!(error.contains("holds NaN") && error.contains("tensor `"), "{error}");
}

#[test]
fn a_truncated_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model().save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    for length in [0, 5, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(matches!(Model::load(&path), Err(ModelError::Weights(_))), "cut to {length} bytes");
    }
}

#[test]
fn names_of_tensors_are_the_modules_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model().save(&path).unwrap();
    let file = Golden::read(&path);
    for name in [
        "encoder.stem.0.conv.weight",
        "encoder.layer1.0.bn1.running_var",
        "decoder.projector.out.bias",
        "classifier",
    ] {
        assert!(file.names().any(|other| other == name), "{name}");
    }
}
