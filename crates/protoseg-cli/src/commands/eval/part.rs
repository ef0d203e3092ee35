//! What one part of an evaluation has counted, as a file.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use protoseg::{
    evaluate::{Counts, Evaluation, SupportSource},
    model::Model,
};
use protoseg_data::{Benchmark, read_bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The file of a part, in its folder.
pub const FILE: &str = "counts.json";
const SCHEMA: &str = "protoseg.eval-part/1";

/// One of several parts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    schema: String,
    part: usize,
    of: usize,
    /// What was evaluated: parts of one evaluation have the same.
    key: Value,
    counts: Counts,
}

impl Part {
    pub fn new(part: usize, of: usize, key: Value, counts: Counts) -> Self {
        Self { schema: SCHEMA.to_string(), part, of, key, counts }
    }

    fn read(path: &Path) -> Result<Self> {
        match serde_json::from_slice(&read_bytes(path)?) {
            Ok(part) => Ok(part),
            Err(error) => bail!("`{}` cannot be read: {error}\nhint: make that part again", path.display()),
        }
    }
}

/// How many images the file has counted, if it is there and is this very part.
pub fn counted(path: &Path, (part, of): (usize, usize), key: &Value) -> Option<usize> {
    let there = Part::read(path).ok()?;
    let is_same = there.schema == SCHEMA && (there.part, there.of) == (part, of) && there.key == *key;
    let counts = serde_json::to_value(there.counts).ok().filter(|_| is_same)?;
    usize::try_from(counts["images"].as_u64()?).ok()
}

/// All that the counts depend on, besides the part.
pub fn key(model: &Model, benchmark: &Benchmark, plan: &Evaluation) -> Value {
    let supports = match &plan.supports {
        SupportSource::Drawn { seeds, min_pixels } => json!({ "seeds": seeds, "min_pixels": min_pixels }),
        SupportSource::Listed(list) => json!({ "list": list }),
    };
    let usages = plan.usages.iter().map(|usage| format!("{} {}", usage.variant(), usage.preset()));
    json!({
        "model": model.fingerprint(),
        "data": benchmark.dataset.name(),
        "samples": benchmark.dataset.samples().len(),
        "fold": plan.fold,
        "protocol": plan.protocol,
        "shots": plan.shots,
        "supports": supports,
        "usages": usages.collect::<Vec<_>>(),
        "size": plan.size,
        "limit": plan.limit,
        "second_look": plan.second_look,
    })
}

/// The counts of all parts of one evaluation, each of them once.
pub fn read_all(folders: &[PathBuf], key: &Value) -> Result<Vec<Counts>> {
    let mut parts: Vec<Part> = Vec::new();
    for folder in folders {
        let path = folder.join(FILE);
        if !path.exists() {
            bail!(
                "`{}` has no `{FILE}`\nhint: name the output folders of `protoseg eval --shard`",
                folder.display()
            );
        }
        let part = Part::read(&path)?;
        if part.schema != SCHEMA || part.key != *key || parts.first().is_some_and(|first| first.of != part.of)
        {
            bail!(
                "`{}` is not a part of this evaluation\n\
                 hint: give every part and the merge the same model, data and options",
                path.display()
            );
        }
        if parts.iter().any(|other| other.part == part.part) {
            bail!(
                "part {} is given twice, the second time by `{}`\nhint: name every part once",
                part.part,
                folder.display()
            );
        }
        parts.push(part);
    }
    let of = parts.first().map_or(0, |part| part.of);
    if let Some(missing) = (1..=of).find(|at| parts.iter().all(|part| part.part != *at)) {
        bail!("part {missing} of {of} is missing\nhint: name the folders of all parts");
    }
    parts.sort_by_key(|part| part.part);
    Ok(parts.into_iter().map(|part| part.counts).collect())
}
