//! What a result depends on, as a short name: whatever is the same has the same name, whatever changed has another.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use protoseg_data::Benchmark;
use serde_json::Value;

use crate::model::Model;

/// Part of every name. It changes when training or evaluation give other numbers for the same plan.
const VERSION: &str = "protoseg.experiment/1";

/// The short name of a plan: 16 hexadecimal digits.
pub fn name_of(plan: &Value) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(VERSION.as_bytes());
    hash.update(plan.to_string().as_bytes());
    short(&hash)
}

/// Short names of files, each read once.
#[derive(Default)]
pub struct Files {
    names: HashMap<PathBuf, String>,
    builtin: Option<String>,
}

impl Files {
    /// The short name of a file's content.
    pub fn name(&mut self, path: &Path) -> io::Result<String> {
        if let Some(name) = self.names.get(path) {
            return Ok(name.clone());
        }
        let name = of_file(path)?;
        self.names.insert(path.to_path_buf(), name.clone());
        Ok(name)
    }

    /// The short name of the model in the box.
    pub fn builtin(&mut self) -> String {
        self.builtin.get_or_insert_with(|| format!("box {}", Model::builtin().fingerprint())).clone()
    }
}

fn of_file(path: &Path) -> io::Result<String> {
    let mut hash = blake3::Hasher::new();
    io::copy(&mut fs::File::open(path)?, &mut hash)?;
    Ok(short(&hash))
}

/// The short name of a data set: its classes, folds, rules and splits, and the name and size of every file. Content of
/// the same size is taken for the same, so that a large data set is known in a second.
pub fn of_data(benchmark: &Benchmark) -> String {
    let mut hash = blake3::Hasher::new();
    let dataset = benchmark.dataset.as_ref();
    let table = dataset.classes();
    let mut add = |text: String| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    add(dataset.name().to_string());
    for class in table.classes() {
        add(format!("{} {}", class.id.0, class.name));
    }
    add(format!("{:?} {:?}", table.background(), table.ignore()));
    add(format!("{:?} {:?}", benchmark.folds, benchmark.novel_pixels));
    add(format!("{} {} {:?}", benchmark.min_support_pixels, benchmark.train, benchmark.val));
    for split in dataset.splits() {
        add(format!("{} {:?}", split.name, split.samples));
    }
    let size = |path: &Path| fs::metadata(path).map_or(0, |of| of.len());
    for sample in dataset.samples() {
        let label = sample.label.as_deref().map_or(0, size);
        add(format!("{} {} {label}", sample.name, size(&sample.image)));
    }
    short(&hash)
}

fn short(hash: &blake3::Hasher) -> String {
    hash.finalize().to_hex()[..16].to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_plan_has_the_same_name_and_a_changed_one_another() {
        let plan = |epochs: usize| json!({ "method": "capl", "training": { "epochs": epochs } });
        assert_eq!(name_of(&plan(3)), name_of(&plan(3)));
        assert_ne!(name_of(&plan(3)), name_of(&plan(4)));
        assert_eq!(name_of(&plan(3)).len(), 16);
    }

    #[test]
    fn files_are_known_by_their_content() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
        for (path, text) in [(&a, "one"), (&b, "one"), (&c, "two")] {
            fs::write(path, text).unwrap();
        }
        assert_eq!(of_file(&a).unwrap(), of_file(&b).unwrap());
        assert_ne!(of_file(&a).unwrap(), of_file(&c).unwrap());
        assert!(of_file(&folder.path().join("d")).is_err());
    }

    #[test]
    fn data_sets_are_known_by_their_rules_too() {
        let mut scenes = Benchmark::open("scenes", None).unwrap();
        let before = of_data(&scenes);
        assert_eq!(of_data(&scenes), before);
        scenes.min_support_pixels += 1;
        assert_ne!(of_data(&scenes), before);
    }
}
