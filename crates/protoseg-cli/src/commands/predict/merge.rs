//! Results of several folders in one.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use protoseg_data::{create_dir, read_bytes, write_whole};

use super::ledger::{Earlier, Record, Settings, is_result};

/// Results and the folder they are in.
pub struct Part {
    folder: PathBuf,
    record: Record,
}

/// All results of the folders, by the names of their images. All must be complete and made in the same way.
pub fn collect(folders: &[PathBuf], settings: &Settings) -> Result<Vec<Part>> {
    let mut parts: HashMap<String, Part> = HashMap::new();
    for folder in folders {
        let Some(earlier) = Earlier::read(folder)? else {
            bail!(
                "`{}` has no results\nhint: name the output folders of `protoseg predict --shard`",
                folder.display()
            );
        };
        for record in earlier.resume(folder, settings)? {
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
