//! What runs wrote into a folder: a line for the settings, then one for each image that is done.
//!
//! The lines are written as images are finished, so they survive whatever ends a run. `--resume` finds there what is
//! left to do, and `--force` which files it may delete.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Component, Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::UNIX_EPOCH,
};

use anyhow::{Result, bail};
use protoseg::{picture::ClassRegion, prediction::Area};
use protoseg_data::{DataError, Lock, read_bytes, write_whole};
use serde::{Deserialize, Serialize};

use crate::output::{lossy_path, masks::FOLDERS, quoted};

const FILE: &str = ".protoseg-predict.jsonl";
pub const SUMMARY_FILE: &str = "predictions.json";
pub const COCO_FILE: &str = "coco.json";
pub const GALLERY_FILE: &str = "index.html";
/// Files of a whole folder.
const FOLDER_FILES: [&str; 3] = [SUMMARY_FILE, COCO_FILE, GALLERY_FILE];

/// Everything that results depend on, besides the images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub schema: String,
    /// Fingerprints.
    pub model: String,
    pub pack: Option<String>,
    /// Which parts of the method act, and how.
    pub usage: String,
    /// Overlap of the tiles.
    pub tiles: Option<f64>,
    /// Whether products were rounded.
    #[serde(default)]
    pub fast: bool,
    /// Whether images were looked at twice.
    #[serde(default)]
    pub second_look: bool,
    pub abstain: Option<f64>,
    pub write: Vec<String>,
    /// Which part of how many, if the run is one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<(usize, usize)>,
}

impl Settings {
    pub const SCHEMA: &str = "protoseg.predict.ledger/1";

    /// The first thing in which two differ.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let differences = [
            (self.schema != other.schema, "version of protoseg"),
            (self.model != other.model, "model"),
            (self.pack != other.pack, "--pack"),
            (self.usage != other.usage, "way to use the model (such as --preset)"),
            (self.tiles != other.tiles, "--tile or --overlap"),
            (self.fast != other.fast, "--fast"),
            (self.second_look != other.second_look, "--second-look"),
            (self.abstain != other.abstain, "--abstain"),
            (self.write != other.write, "--write"),
            (self.shard != other.shard, "--shard"),
        ];
        differences.into_iter().find_map(|(differs, what)| differs.then_some(what))
    }
}

/// An image that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    /// As the user wrote it.
    #[serde(serialize_with = "lossy_path")]
    pub image: PathBuf,
    pub source: Source,
    pub width: usize,
    pub height: usize,
    /// Of the network and the classifier.
    pub seconds: f64,
    pub classes: Vec<Area>,
    /// Pixels without a class.
    pub abstained: u64,
    /// As seen from the folder.
    pub files: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<ClassRegion>,
}

impl Record {
    /// Whether all files are there, made of the image as it is now.
    pub fn is_complete(&self, folder: &Path, image: &Path) -> bool {
        self.has_files(folder) && Source::of(image) == self.source
    }

    /// Whether all its results are in their folder.
    pub fn has_files(&self, folder: &Path) -> bool {
        self.files.iter().all(|file| folder.join(file).is_file())
    }
}

/// Where an image came from, and how to see that it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Letters that are not Unicode are replaced.
    pub path: String,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u64,
}

impl Source {
    /// Of a file as it is now. What cannot be asked stays empty.
    pub fn of(path: &Path) -> Self {
        let about = fs::metadata(path).ok();
        let modified =
            about.as_ref().and_then(|about| about.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        Self {
            path: path.canonicalize().as_deref().unwrap_or(path).to_string_lossy().into_owned(),
            bytes: about.map_or(0, |about| about.len()),
            modified: modified.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0)),
        }
    }
}

/// Takes a folder for one run.
pub fn lock(folder: &Path) -> Result<Lock> {
    match Lock::try_take(&folder.join(FILE)) {
        Ok(Ok(lock)) => Ok(lock),
        Ok(Err(holder)) => bail!(
            "`{}` is in use by {holder}\nhint: wait for it, or choose another folder with -o",
            folder.display()
        ),
        Err(error) => bail!(
            "cannot write `{}`: {error}\nhint: check the folder's permissions and the free space",
            folder.display()
        ),
    }
}

/// Whether a run wrote results into a folder.
pub fn has_results(folder: &Path) -> bool {
    folder.join(FILE).exists() || folder.join(SUMMARY_FILE).exists()
}

/// What earlier runs left in a folder.
#[derive(Debug)]
pub struct Earlier {
    settings: Settings,
    records: Vec<Record>,
}

impl Earlier {
    /// Nothing if there was no earlier run. A last line that was cut short does not count.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = read_bytes(&path)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let settings = lines.next().and_then(|line| serde_json::from_str(line).ok());
        let Some(settings) = settings else {
            bail!(
                "`{}` is not from this version of protoseg\nhint: choose another folder with -o",
                path.display()
            );
        };
        let records: Vec<Record> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        // Of an image that was done again, the last record counts.
        let mut seen = HashSet::new();
        let mut records: Vec<Record> =
            records.into_iter().rev().filter(|record| seen.insert(record.name.clone())).collect();
        records.reverse();
        Ok(Some(Self { settings, records }))
    }

    /// Which part of how many the run was.
    pub fn shard(&self) -> Option<(usize, usize)> {
        self.settings.shard
    }

    /// The images that are done, if the run had the same settings.
    pub fn resume(self, folder: &Path, settings: &Settings) -> Result<Vec<Record>> {
        if let Some(what) = self.settings.difference(settings) {
            bail!(
                "the results in `{}` were made with another {what}\n\
                 hint: repeat the command that made them, or replace them with --force",
                folder.display()
            );
        }
        Ok(self.records)
    }

    /// Deletes the files of the run, and folders that are empty without them. Nothing else: a file that the list names
    /// must be where results go.
    pub fn clear(&self, folder: &Path) -> Result<()> {
        let Ok(root) = folder.canonicalize() else { return Ok(()) };
        let of_images = self.records.iter().flat_map(|record| &record.files).filter(|file| is_result(file));
        let of_folder = FOLDER_FILES.iter().chain([&FILE]).map(Path::new);
        for file in of_images.map(PathBuf::as_path).chain(of_folder) {
            let path = root.join(file);
            // A link to elsewhere is not followed.
            let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
            if parent.is_none_or(|parent| !parent.starts_with(&root)) {
                continue;
            }
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => bail!(
                    "cannot delete `{}`: {error}\nhint: check the folder's permissions",
                    folder.join(file).display()
                ),
                _ => {}
            }
            // Fails, as it should, for folders that hold something.
            let above = Path::new(file).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            above.take_while(|above| fs::remove_dir(root.join(above)).is_ok()).for_each(drop);
        }
        Ok(())
    }
}

/// Whether a file, as seen from its folder, is where results go.
pub fn is_result(file: &Path) -> bool {
    let mut parts = file.components();
    let in_folder =
        matches!(parts.next(), Some(Component::Normal(first)) if FOLDERS.iter().any(|kind| first == *kind));
    in_folder && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// The list of this run.
pub struct Ledger {
    path: PathBuf,
    settings: Settings,
    kept: Vec<Record>,
    /// Open from the first image on.
    file: Mutex<Option<File>>,
}

impl Ledger {
    /// Goes on after images that are done already.
    pub fn new(folder: &Path, settings: Settings, kept: Vec<Record>) -> Self {
        Self { path: folder.join(FILE), settings, kept, file: Mutex::new(None) }
    }

    /// The images that were done before.
    pub fn kept(&self) -> &[Record] {
        &self.kept
    }

    /// Begins the list, before the first result is written.
    pub fn open(&self) -> Result<(), DataError> {
        let mut text = self.line(&self.settings)?;
        for record in &self.kept {
            text += &self.line(record)?;
        }
        write_whole(&self.path, text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&self.path).map_err(|source| self.writing(source))?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    /// Adds an image that is done.
    pub fn push(&self, record: &Record) -> Result<(), DataError> {
        let line = self.line(record)?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.as_mut().map_or(Ok(()), |file| file.write_all(line.as_bytes()));
        written.map_err(|source| self.writing(source))
    }

    fn line(&self, value: &impl Serialize) -> Result<String, DataError> {
        let text =
            serde_json::to_string(value).map_err(io::Error::from).map_err(|source| self.writing(source))?;
        Ok(text + "\n")
    }

    fn writing(&self, source: io::Error) -> DataError {
        DataError::Write { path: self.path.clone(), source }
    }
}

/// Refuses to write where results or files of others are, unless told to.
pub fn refuse_overwrite(folder: &Path) -> Result<()> {
    if has_results(folder) {
        bail!(
            "`{}` has results already\n\
             hint: go on with --resume, replace them with --force, or choose another folder with -o",
            folder.display()
        );
    }
    match FOLDER_FILES.iter().map(|file| folder.join(file)).find(|file| file.exists()) {
        Some(file) => bail!(
            "`{}` is there already\nhint: choose another folder with -o, or overwrite it with --force",
            file.display()
        ),
        None => Ok(()),
    }
}

/// The command that was run, with `--resume`.
pub fn resume_command() -> String {
    let args = crate::ARGUMENTS.get().into_iter().flatten();
    let args = args.filter(|arg| *arg != "--force" && *arg != "--resume");
    let args: Vec<String> = args.map(|arg| quoted(Path::new(arg))).collect();
    format!("protoseg {} --resume", args.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_where_results_go_may_be_deleted() {
        for file in ["index/a.png", "gallery/input/inner/b.jpg", "probability/a/003-duck.png"] {
            assert!(is_result(Path::new(file)), "{file}");
        }
        for file in ["a.png", "/etc/passwd", "index/../../a.png", "../index/a.png", "photos/a.png", ""] {
            assert!(!is_result(Path::new(file)), "{file}");
        }
    }
}
