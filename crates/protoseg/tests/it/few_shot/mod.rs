//! The published systems for episodes against their golden data.
//!
//! Driven by what lies in the folder `PROTOSEG_GOLDEN` (by default `../shared/golden`): every `fs_*.safetensors` there is
//! compared, with the shots, size, depth and seed that its metadata says. A file that no system claims fails.

mod asgnet;
mod canet;
mod capl;
mod compare;
mod cwt;
mod hsnet;
mod mining;
mod panet;
mod pfenet;
mod repri;
mod scl;
mod scl_canet;
mod stats;

use std::{collections::HashMap, env, fs, path::PathBuf};

use burn::tensor::Tensor;
use protoseg::{
    core::RowMap,
    device::cpu,
    method::{Episodes, Episodic, Method, Vision},
    network::Network,
    weights::{TensorFile, import_few_shot},
};
use protoseg_testing::{Golden, assert_close, generated_weights, read_keys, shared, write_tensors};
use serde::Deserialize;

use crate::fixture::{label_maps, tensor, values};

/// A system's name in golden files, and its comparison.
type System = (&'static str, fn(&GoldenCase));

/// All of them.
const SYSTEMS: &[System] = &[
    ("capl", capl::check),
    ("cwt", cwt::check),
    ("hsnet", hsnet::check),
    ("mining", mining::check),
    ("panet", panet::check),
    ("pfenet", pfenet::check),
    ("repri", repri::check),
    ("canet", canet::check),
    ("scl (PFENet)", scl::check),
    ("scl (CANet)", scl_canet::check),
    ("asgnet", asgnet::check),
];

macro_rules! one_test_per_system {
    ($($test:ident: $which:literal,)*) => {
        $(
            #[test]
            #[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
            fn $test() {
                check_all($which);
            }
        )*
    };
}

one_test_per_system! {
    capl_is_the_golden_one: "capl",
    hsnet_is_the_golden_one: "hsnet",
    panet_is_the_golden_one: "panet",
    pfenet_is_the_golden_one: "pfenet",
    canet_is_the_golden_one: "canet",
    scl_on_pfenet_is_the_golden_one: "scl (PFENet)",
    scl_on_canet_is_the_golden_one: "scl (CANet)",
    asgnet_is_the_golden_one: "asgnet",
    repri_is_the_golden_one: "repri",
    cwt_is_the_golden_one: "cwt",
    mining_is_the_golden_one: "mining",
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs ../shared beside the repository")]
fn every_golden_file_is_of_a_system() {
    let strangers: Vec<PathBuf> =
        files().into_iter().filter(|(_, golden)| system(golden).is_none()).map(|(path, _)| path).collect();
    assert!(strangers.is_empty(), "no system claims {strangers:?}");
}

/// A golden file with the network that its numbers are of.
pub struct GoldenCase {
    pub name: String,
    pub golden: Golden,
    pub method: Method,
    pub network: Network,
    query_labels: Vec<RowMap>,
    support_labels: Vec<RowMap>,
}

impl GoldenCase {
    fn read(path: &std::path::Path, golden: Golden) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("checkpoint.safetensors");
        write_weights(path, &golden, &file);
        let checkpoint = TensorFile::open(&file).unwrap();
        let (_, method, network) =
            import_few_shot(&checkpoint, &cpu()).unwrap().expect("the file is recognised");
        let bins =
            golden.metadata.get("bins").map(|bins| bins.split(',').map(|bin| bin.parse().unwrap()).collect());
        let method = match bins {
            Some(bins) => with_bins(method, bins),
            None => method,
        };
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            method,
            network,
            query_labels: label_maps(&golden, "query_mask"),
            support_labels: label_maps(&golden, "support_mask"),
            golden,
        }
    }

    /// All episodes with all shots.
    pub fn episodes(&self) -> Episodes<'_> {
        Episodes {
            queries: self.tensor("query_image"),
            query_labels: &self.query_labels,
            supports: self.tensor("support_image"),
            support_labels: &self.support_labels,
            classes: None,
        }
    }

    /// Supports per query.
    pub fn shots(&self) -> usize {
        self.golden.shape("support_image")[1]
    }

    /// Labels of all supports' `shot`, one per episode.
    pub fn support_labels_of(&self, shot: usize) -> Vec<RowMap> {
        self.support_labels.iter().skip(shot).step_by(self.shots()).cloned().collect()
    }

    /// The images of all supports' `shot`, `[episodes, 1, 3, height, width]`.
    pub fn supports_of(&self, shot: usize) -> Tensor<5> {
        self.tensor::<5>("support_image").slice_dim(1, shot..shot + 1)
    }

    pub fn query_labels(&self) -> &[RowMap] {
        &self.query_labels
    }

    pub fn episodic(&self) -> &dyn Episodic {
        self.method.episodic().unwrap()
    }

    pub fn vision(&self) -> Vision<'_> {
        Vision::new(&self.network)
    }

    pub fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        tensor(&self.golden, name)
    }

    /// Compares with a golden tensor.
    #[track_caller]
    pub fn assert<const D: usize>(&self, name: &str, got: Tensor<D>, tolerance: f32) {
        assert_eq!(got.dims().as_slice(), self.golden.shape(name), "{}: shape of {name}", self.name);
        self.assert_values(name, &values(got), tolerance);
    }

    /// Compares with the values of a golden tensor.
    #[track_caller]
    pub fn assert_values(&self, name: &str, got: &[f32], tolerance: f32) {
        assert_close(&format!("{}: {name}", self.name), got, self.golden.values(name), tolerance);
    }
}

fn with_bins(method: Method, bins: Vec<f64>) -> Method {
    match method {
        Method::Pfenet(pfenet) => Method::Pfenet(protoseg::method::pfenet::Pfenet { bins, ..pfenet }),
        Method::CaplFewShot(capl) => {
            Method::CaplFewShot(protoseg::method::capl_few_shot::CaplFewShot { bins, ..capl })
        }
        Method::Scl(scl) => Method::Scl(protoseg::method::scl::Scl { bins, ..scl }),
        Method::Asgnet(asgnet) => Method::Asgnet(protoseg::method::asgnet::Asgnet { bins, ..asgnet }),
        other => panic!("{} has no bins", other.name()),
    }
}

fn files() -> Vec<(PathBuf, Golden)> {
    let folder = env::var_os("PROTOSEG_GOLDEN").map_or_else(|| shared("golden"), PathBuf::from);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let is_golden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("fs_") && name.ends_with(".safetensors")
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| is_golden(path)).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), Golden::read(&path))).collect()
}

fn system(golden: &Golden) -> Option<System> {
    let which = golden.metadata.get("which")?;
    SYSTEMS.iter().copied().find(|(name, _)| which.starts_with(name))
}

fn check_all(which: &str) {
    let mut found = 0;
    for (path, golden) in files() {
        if let Some((name, check)) = system(&golden)
            && name == which
        {
            check(&GoldenCase::read(&path, golden));
            found += 1;
        }
    }
    assert!(found > 0 || env::var_os("PROTOSEG_GOLDEN").is_some(), "there is no golden file of {which}");
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Adjust {
    Scale(f32),
    Set(Vec<f32>),
}

/// The checkpoint that a golden file's numbers are of: every key's values by formula, then adjusted.
fn write_weights(path: &std::path::Path, golden: &Golden, to: &std::path::Path) {
    let seed = golden.metadata.get("seed").map_or("", String::as_str);
    let adjust: HashMap<String, Adjust> = match golden.metadata.get("adjust") {
        Some(json) => serde_json::from_str(json).unwrap(),
        None => HashMap::new(),
    };
    let tensors = keys(path, golden).into_iter().map(|(name, shape)| {
        let mut values = generated_weights(&format!("{seed}{name}"), &shape);
        match adjust.get(&name) {
            Some(Adjust::Scale(scale)) => values.iter_mut().for_each(|value| *value *= scale),
            Some(Adjust::Set(set)) => values.clone_from(set),
            None => {}
        }
        (name, shape, values)
    });
    write_tensors(tensors, to);
}

type Keys = Vec<(String, Vec<usize>)>;

/// The keys of a golden file's network: those of the list beside it, or of the list of its system at the depth that its
/// metadata says.
fn keys(path: &std::path::Path, golden: &Golden) -> Keys {
    let own = path.with_file_name(format!("{}_keys.tsv", path.file_stem().unwrap().to_string_lossy()));
    if own.exists() {
        return read_keys(&own);
    }
    let which = &golden.metadata["which"];
    let list = match which.as_str() {
        "scl (CANet)" => "scl_canet",
        other => other.split(' ').next().unwrap(),
    };
    let beside = path.with_file_name(format!("fs_{list}_keys.tsv"));
    let keys =
        read_keys(&if beside.exists() { beside } else { shared(&format!("golden/fs_{list}_keys.tsv")) });
    let meta = |key: &str| golden.metadata.get(key).map_or("", String::as_str);
    match (meta("backbone"), meta("layers")) {
        ("vgg16", _) if list == "hsnet" => hsnet_vgg16(keys),
        ("resnet101", _) | (_, "101") => resnet101(keys, list == "hsnet"),
        _ => keys,
    }
}

/// A list of ResNet-50's keys, with 23 blocks in layer 3.
fn resnet101(keys: Keys, is_hsnet: bool) -> Keys {
    let mut all = Keys::new();
    for (name, mut shape) in keys {
        if is_hsnet && name.starts_with("hpn_learner.encoder_layer3.0.conv") && shape.len() == 4 {
            shape[1] = 23;
        }
        if let Some((before, rest)) = name.split_once("layer3.5.") {
            let more = (6..23).map(|block| (format!("{before}layer3.{block}.{rest}"), shape.clone()));
            all.extend(more);
        }
        all.push((name, shape));
    }
    all
}

/// HSNet's keys with torchvision's VGG-16 in the place of its ResNet.
fn hsnet_vgg16(keys: Keys) -> Keys {
    const CONVS: [(usize, usize); 13] = [
        (0, 64),
        (2, 64),
        (5, 128),
        (7, 128),
        (10, 256),
        (12, 256),
        (14, 256),
        (17, 512),
        (19, 512),
        (21, 512),
        (24, 512),
        (26, 512),
        (28, 512),
    ];
    let mut from = 3;
    let mut all = Keys::new();
    for (layer, channels) in CONVS {
        all.push((format!("backbone.features.{layer}.weight"), vec![channels, from, 3, 3]));
        all.push((format!("backbone.features.{layer}.bias"), vec![channels]));
        from = channels;
    }
    for (name, mut shape) in keys.into_iter().filter(|(name, _)| !name.starts_with("backbone.")) {
        for (stage, maps) in [(4, 1), (3, 3), (2, 3)] {
            let first = format!("hpn_learner.encoder_layer{stage}.0.conv");
            if name.starts_with(&first) && shape.len() == 4 {
                shape[1] = maps;
            }
        }
        all.push((name, shape));
    }
    all
}
