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
/// `output`, whose results may be deleted.
pub fn collect(folders: &[PathBuf], output: &Path, settings: &Settings) -> Result<Vec<Part>> {
    let mut parts: HashMap<String, Part> = HashMap::new();
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
        let records = earlier.resume(folder, settings)?;
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
    if parts.is_empty() && !folders.is_empty() {
        bail!("no image is done in any of these folders\nhint: predict the parts first, with --shard");
    }
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.sort_by(|a, b| a.record.name.cmp(&b.record.name));
    Ok(parts)
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
