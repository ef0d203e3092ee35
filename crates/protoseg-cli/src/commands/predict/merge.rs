//! Results of several folders in one.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use protoseg_data::{create_dir, read_bytes, write_whole};

use serde::Deserialize;

use super::{
    ledger::{Earlier, Record, SUMMARY_FILE, Settings, is_result},
    plural,
};
use crate::output::note;

/// Results and the folder they are in.
pub struct Part {
    folder: PathBuf,
    record: Record,
}

/// How a run ended, as its summary says.
#[derive(Deserialize)]
struct Ended {
    /// Images that could not be read.
    failed: usize,
    /// Images that were not tried.
    left: usize,
}

/// All results of the folders, by the names of their images. All must be finished and made in the same way, and none is
/// `output`, whose results may be deleted. Of parts that `--shard` made, all must be there, each of them once.
pub fn collect(folders: &[PathBuf], output: &Path, settings: &Settings) -> Result<Vec<Part>> {
    let mut parts: HashMap<String, Part> = HashMap::new();
    let mut shards = Vec::new();
    for folder in folders {
        if folder.canonicalize().ok().is_some_and(|folder| output.canonicalize().ok() == Some(folder)) {
            bail!(
                "`{}` is both a part and the output folder\nhint: choose another folder with -o",
                folder.display()
            );
        }
        let Some(earlier) = Earlier::read(folder)? else {
            bail!(
                "`{}` has no results\nhint: name the output folders of `protoseg predict --shard`",
                folder.display()
            );
        };
        let shard = earlier.shard();
        let records = earlier.resume(folder, &Settings { shard, ..settings.clone() })?;
        if let Some(shard) = shard {
            refuse_other(&shards, shard, folder)?;
            shards.push(shard);
        }
        // The summary is the last thing that a run writes.
        let summary = folder.join(SUMMARY_FILE);
        let ended = if summary.exists() { serde_json::from_slice(&read_bytes(&summary)?).ok() } else { None };
        match ended {
            Some(Ended { failed, left: 0 }) if failed > 0 => {
                note(format_args!("{} of `{}` could not be read", plural(failed, "image"), folder.display()))
            }
            Some(Ended { left: 0, .. }) => {}
            _ => bail!(
                "the run in `{}` is not finished\nhint: finish it with its own command and --resume",
                folder.display()
            ),
        }
        for record in records {
            let of_results = record.files.iter().all(|file| is_result(file));
            if !of_results || !record.has_files(folder) {
                bail!(
                    "results of `{}` are missing in `{}`\nhint: finish that part with --resume",
                    record.name,
                    folder.display()
                );
            }
            match parts.get(&record.name) {
                Some(other) if other.record.image != record.image => bail!(
                    "`{}` and `{}` would be written to the same files\n\
                     hint: give every part the same images",
                    other.record.image.display(),
                    record.image.display()
                ),
                Some(_) => {}
                None => {
                    parts.insert(record.name.clone(), Part { folder: folder.clone(), record });
                }
            }
        }
    }
    refuse_missing(&shards)?;
    if parts.is_empty() && !folders.is_empty() {
        bail!("no image is done in any of these folders\nhint: predict the parts first, with --shard");
    }
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.sort_by(|a, b| a.record.name.cmp(&b.record.name));
    Ok(parts)
}

/// Refuses a part of another number of parts, and one that is given already.
fn refuse_other(shards: &[(usize, usize)], (part, of): (usize, usize), folder: &Path) -> Result<()> {
    if shards.first().is_some_and(|first| first.1 != of) {
        bail!(
            "`{}` is not a part of this prediction\n\
             hint: give every part the same images, and the same number of parts with --shard",
            folder.display()
        );
    }
    if shards.iter().any(|other| other.0 == part) {
        bail!(
            "part {part} is given twice, the second time by `{}`\nhint: name every part once",
            folder.display()
        );
    }
    Ok(())
}

fn refuse_missing(shards: &[(usize, usize)]) -> Result<()> {
    let of = shards.first().map_or(0, |first| first.1);
    match (1..=of).find(|at| shards.iter().all(|other| other.0 != *at)) {
        Some(missing) => bail!("part {missing} of {of} is missing\nhint: name the folders of all parts"),
        None => Ok(()),
    }
}

impl Part {
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Copies the files to another folder.
    pub fn copy(&self, to: &Path) -> Result<()> {
        for file in &self.record.files {
            let to = to.join(file);
            let parent = to.parent().ok_or_else(|| anyhow!("`{}` is no file", to.display()))?;
            create_dir(parent)?;
            write_whole(&to, &read_bytes(&self.folder.join(file))?)?;
        }
        Ok(())
    }
}
