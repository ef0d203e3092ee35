//! `protoseg import` and `protoseg info` on a checkpoint with the reference's tensor names.

use std::path::{Path, PathBuf};

use protoseg_testing::{read_keys, shared, write_generated};

use crate::run::protoseg;

/// The reference's PSPNet-50 with 21 rows and generated weights; `change` may alter its tensors.
fn write_checkpoint(folder: &Path, change: impl Fn(&mut Vec<(String, Vec<usize>)>)) -> PathBuf {
    let mut keys = read_keys(&shared("golden/pspnet50_keys.tsv"));
    keys.retain(|(name, _)| !name.ends_with("num_batches_tracked"));
    change(&mut keys);
    let path = folder.join("reference épreuve.safetensors");
    write_generated(&keys, str::to_string, &path);
    path
}

fn names(prefix: &str, count: usize) -> String {
    (0..count).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(",")
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn an_imported_model_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = write_checkpoint(folder.path(), |_| {});
    let model = folder.path().join("my model.safetensors");
    let (checkpoint, model) = (checkpoint.to_str().unwrap(), model.to_str().unwrap());
    let base = format!("background,{}", names("b", 15));
    let novel = names("n", 5);
    let import = ["import", checkpoint, "--base", &base, "--novel", &novel, "--size", "473", "-o", model];
    let done = protoseg(import);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains(&format!("next: protoseg info '{model}'")), "{}", done.stdout);

    let info = protoseg(["info", model]);
    assert_eq!(info.code, 0, "{}", info.stderr);
    for words in [
        "PSPNet, ResNet-50 (deep stem, stride on the 3x3, output stride 8)",
        "162.5",
        "15: b0, b1",
        "5: n0, n1",
        "background     background",
        "longer side to 473 px",
        "reference épreuve.safetensors",
        "capl, options: reference",
        "million",
    ] {
        assert!(info.stdout.contains(words), "lacks `{words}`:\n{}", info.stdout);
    }
    let json = protoseg(["info", model, "--size", "97", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["schema"], "protoseg.info/1");
    assert_eq!(json["manifest"]["classes"][0]["role"], "background");
    assert_eq!(json["cost"]["size"], 97);
    // The sum over the reference's tensors, without running statistics and step counters.
    assert_eq!(json["parameters"], 49_934_785);

    // Runs never overwrite.
    let again = protoseg(import);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    assert_eq!(protoseg(import.into_iter().chain(["--force", "--json"])).code, 0);
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn what_does_not_fit_is_told_once_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.safetensors");
    let import = |checkpoint: &Path, base: &str| {
        let args = ["import", checkpoint.to_str().unwrap(), "--base", base, "--size", "97", "-o"];
        protoseg(args.into_iter().chain([model.to_str().unwrap()]))
    };
    let checkpoint = write_checkpoint(folder.path(), |_| {});
    let few = import(&checkpoint, "background,cow");
    assert_eq!(few.code, 1);
    assert!(few.stderr.contains("21 classifier rows") && few.stderr.contains("2 base"), "{}", few.stderr);
    let twice = import(&checkpoint, "cow,cow");
    assert!(twice.stderr.contains("`cow` is named twice"), "{}", twice.stderr);

    let damaged = write_checkpoint(folder.path(), |keys| {
        keys.retain(|(name, _)| name != "layer4.1.conv2.weight");
        keys.push(("extra.weight".to_string(), vec![3]));
        keys.iter_mut().find(|(name, _)| name == "cls.4.bias").unwrap().1 = vec![7];
    });
    let damaged = import(&damaged, &names("c", 21));
    assert_eq!(damaged.code, 1);
    for words in [
        "encoder.layer4.1.conv2.weight",
        "extra.weight",
        "cls.4.bias: [7], expected [512]",
        "1 missing",
        "1 unexpected",
    ] {
        assert!(damaged.stderr.contains(words), "lacks `{words}`:\n{}", damaged.stderr);
    }
    let missing = import(Path::new("nowhere.pth"), "cow");
    assert!(missing.stderr.contains("cannot read `nowhere.pth`"), "{}", missing.stderr);
    assert!(!model.exists());
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn info_on_something_else_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = write_checkpoint(folder.path(), |_| {});
    let info = protoseg(["info", checkpoint.to_str().unwrap()]);
    assert_eq!(info.code, 1);
    assert!(
        info.stderr.contains("not a protoseg model") && info.stderr.contains("protoseg import"),
        "{}",
        info.stderr
    );
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn a_few_shot_checkpoint_is_recognised_by_its_keys_and_needs_no_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, keys: &[(String, Vec<usize>)]| {
        write_generated(keys, |key| format!("module.{key}"), &path(name));
    };
    let import = |checkpoint: &str, model: &str| {
        let (checkpoint, model) = (path(checkpoint), path(model));
        protoseg(["import", checkpoint.to_str().unwrap(), "-o", model.to_str().unwrap()])
    };
    let mut keys = read_keys(&shared("golden/fs_mining_keys.tsv"));
    write("whole.safetensors", &keys);
    let done = import("whole.safetensors", "model.safetensors");
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("mining, a few-shot system"), "{}", done.stdout);
    assert!(done.stdout.contains("next: protoseg segment --model"), "{}", done.stdout);
    let info = protoseg(["info", path("model.safetensors").to_str().unwrap()]);
    assert!(info.stdout.contains("without layer4") && info.stdout.contains("mining"), "{}", info.stdout);

    keys.retain(|(name, _)| name != "backbone.layer2.1.conv2.weight");
    write("damaged.safetensors", &keys);
    let damaged = import("damaged.safetensors", "other.safetensors");
    assert_eq!(damaged.code, 1);
    assert!(damaged.stderr.contains("encoder.layer2.1.conv2.weight"), "{}", damaged.stderr);

    keys.retain(|(name, _)| name.contains("layer2"));
    write("strange.safetensors", &keys);
    let strange = import("strange.safetensors", "other.safetensors");
    assert_eq!(strange.code, 1);
    assert!(strange.stderr.contains("no few-shot system that is known"), "{}", strange.stderr);
    assert!(!path("other.safetensors").exists());
}
