//! The project's folder: settings, strokes and the pack. Everything is written beside its place and renamed. Another
//! thread writes a change while its answer is made. The answer waits for it: a kill loses what was not answered.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use protoseg::{
    ClassPack,
    data::{Lock, mask::encode_values_png_fast, mask::read_index_mask, read_text, write_atomic},
};
use serde::{Deserialize, Serialize};

use super::{paint::Paint, project::Class};
use crate::error::{Answer, Failure};

/// A project that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// Another studio has it.
    #[error("the project `{}` is open in another studio: {holder}\nhint: close that one first", path.display())]
    Taken {
        /// The project's folder.
        path: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// A file of it cannot be read or written.
    #[error("`{}` cannot be used: {source}", path.display())]
    Files {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Its settings are damaged.
    #[error("`{}` cannot be read: {reason}\nhint: strokes are in the folder beside it; move this file away to begin with new classes", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The model cannot be taught.
    #[error(transparent)]
    Model(#[from] protoseg::model::ModelError),
    /// What was painted cannot be registered.
    #[error(transparent)]
    Register(#[from] protoseg::register::RegisterError),
}

/// The settings' file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    pub schema: String,
    /// Fingerprint of the model; strokes stay if it is another.
    pub model: String,
    pub classes: Vec<Class>,
    /// Names of photos in the order of their numbers.
    pub photos: Vec<String>,
}

const SCHEMA: &str = "protoseg.studio-project/1";

/// A project's folder, which nobody else has open.
#[derive(Debug)]
pub struct ProjectFiles {
    folder: PathBuf,
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    _lock: Lock,
}

#[derive(Debug, Default)]
struct Shared {
    dirty: Mutex<Dirty>,
    change: Condvar,
}

/// What is not written yet.
#[derive(Debug, Default)]
struct Dirty {
    settings: Option<Settings>,
    strokes: BTreeMap<u32, Option<Arc<Paint>>>,
    pack: Option<ClassPack>,
    is_writing: bool,
    error: Option<String>,
    stopped: bool,
}

impl Dirty {
    fn is_clean(&self) -> bool {
        self.settings.is_none() && self.strokes.is_empty()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProjectFiles {
    /// Opens or makes a project.
    pub fn open(folder: &Path) -> Result<(Self, Settings), ProjectError> {
        let files = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ProjectError::Files { path, source }
        };
        for part in ["", "strokes", "packs", "photos"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(files(&part))?;
        }
        let path = folder.join("project.json");
        let lock = Lock::try_take(&path).map_err(files(&path))?;
        let lock = lock.map_err(|holder| ProjectError::Taken { path: folder.to_path_buf(), holder })?;
        let settings = match path.exists() {
            true => {
                let wrong = |reason: String| ProjectError::Settings { path: path.clone(), reason };
                let text = read_text(&path).map_err(|error| wrong(error.to_string()))?;
                let settings: Settings =
                    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
                if settings.schema != SCHEMA {
                    return Err(wrong(format!("expected `{SCHEMA}`, got `{}`", settings.schema)));
                }
                settings
            }
            false => Settings::default(),
        };
        let shared = Arc::new(Shared::default());
        let writer = std::thread::spawn({
            let (shared, folder) = (Arc::clone(&shared), folder.to_path_buf());
            move || write_on(&shared, &folder)
        });
        let writer = Mutex::new(Some(writer));
        Ok((Self { folder: folder.to_path_buf(), shared, writer, _lock: lock }, settings))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was painted on the photos: their numbers and paints. Ids that are not `known` become unpainted.
    pub fn read_strokes(&self, known: impl Fn(u8) -> bool) -> io::Result<BTreeMap<u32, Arc<Paint>>> {
        let mut paints = BTreeMap::new();
        for entry in fs::read_dir(self.folder.join("strokes"))? {
            let path = entry?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let (Some(id), Some("png")) = (id, path.extension().and_then(|ending| ending.to_str())) else {
                continue;
            };
            let Ok(map) = read_index_mask(&path) else { continue };
            let pixels: Vec<u8> = map.data.iter().map(|&label| u8::try_from(label).unwrap_or(0)).collect();
            let paint = Paint::from_pixels(map.width, map.height, &pixels);
            let paint = paint.map(|id| if known(id) { id } else { 0 });
            if !paint.is_empty() {
                paints.insert(id, Arc::new(paint));
            }
        }
        Ok(paints)
    }

    /// Waits until all changes before are on the disk. If that failed, it is tried again.
    pub fn settle(&self) -> Answer<()> {
        let mut dirty = self.shared.lock();
        if dirty.error.take().is_some() {
            self.shared.change.notify_all();
        }
        while !(dirty.is_clean() || dirty.error.is_some()) || dirty.is_writing {
            dirty = self.shared.change.wait(dirty).unwrap_or_else(PoisonError::into_inner);
        }
        match &dirty.error {
            Some(error) => {
                let error = format!("the project cannot be saved: {error}");
                Err(Failure::new(axum::http::StatusCode::INSUFFICIENT_STORAGE, error)
                    .hint("make room on the disk"))
            }
            None => Ok(()),
        }
    }

    /// Has changes written.
    pub fn save(&self, settings: Option<Settings>, strokes: Vec<(u32, Option<Arc<Paint>>)>, pack: ClassPack) {
        let mut dirty = self.shared.lock();
        let settings = settings.map(|settings| Settings { schema: SCHEMA.to_string(), ..settings });
        dirty.settings = settings.or(dirty.settings.take());
        dirty.strokes.extend(strokes);
        dirty.pack = Some(pack);
        self.shared.change.notify_all();
    }

    /// Writes what is left and ends.
    pub fn close(&self) {
        self.shared.lock().stopped = true;
        self.shared.change.notify_all();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

fn write_on(shared: &Shared, folder: &Path) {
    let mut dirty = shared.lock();
    loop {
        let has_work = (!dirty.is_clean() || dirty.pack.is_some()) && dirty.error.is_none();
        if !has_work {
            if dirty.stopped {
                return;
            }
            dirty = shared.change.wait(dirty).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let (settings, strokes) = (dirty.settings.clone(), dirty.strokes.clone());
        // The pack follows from the strokes: it may wait until nothing else does.
        let pack = if dirty.is_clean() { dirty.pack.take() } else { None };
        dirty.is_writing = pack.is_none();
        drop(dirty);
        let written = match &pack {
            Some(pack) => {
                // It can be made again at any time.
                let _ = pack.save(folder.join("packs/studio.pack"));
                Ok(())
            }
            None => write(folder, settings.as_ref(), &strokes),
        };
        dirty = shared.lock();
        dirty.is_writing = false;
        match written {
            Ok(()) if pack.is_none() => {
                // Nothing came meanwhile: changes wait for this.
                dirty.settings = None;
                dirty.strokes.retain(|id, paint| {
                    let is_same = strokes.get(id).is_some_and(|old| match (old, &*paint) {
                        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                        (None, None) => true,
                        _ => false,
                    });
                    !is_same
                });
            }
            Ok(()) => {}
            Err(error) => dirty.error = Some(error),
        }
        shared.change.notify_all();
    }
}

fn write(
    folder: &Path,
    settings: Option<&Settings>,
    strokes: &BTreeMap<u32, Option<Arc<Paint>>>,
) -> Result<(), String> {
    if let Some(settings) = settings {
        let json = serde_json::to_vec_pretty(settings).map_err(|error| error.to_string())?;
        write_atomic(&folder.join("project.json"), &json).map_err(|error| error.to_string())?;
    }
    for (id, paint) in strokes {
        let path = folder.join(format!("strokes/{id}.png"));
        match paint {
            Some(paint) => {
                let png = encode_values_png_fast(paint.width, paint.height, &paint.pixels());
                write_atomic(&path, &png).map_err(|error| error.to_string())?;
            }
            None if path.exists() => fs::remove_file(&path).map_err(|error| error.to_string())?,
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protoseg::Model;

    use super::*;

    #[test]
    fn what_is_saved_is_read_again_and_nobody_else_opens_it() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("p");
        let pack = ClassPack::new(&Model::builtin());
        let (files, settings) = ProjectFiles::open(&project).unwrap();
        assert!(settings.classes.is_empty());
        assert!(matches!(ProjectFiles::open(&project), Err(ProjectError::Taken { .. })));
        let class = Class { id: 7, name: "duck".into(), color: [1, 2, 3], hidden: false, base: false };
        let settings = Settings { classes: vec![class], photos: vec!["a.png".into()], ..Settings::default() };
        let paint = Arc::new(Paint::from_pixels(2, 2, &[0, 7, 254, 9]));
        files.save(Some(settings.clone()), vec![(4, Some(paint)), (5, None)], pack.clone());
        files.settle().unwrap();
        files.close();
        drop(files);
        let (files, again) = ProjectFiles::open(&project).unwrap();
        assert_eq!((again.classes, again.photos), (settings.classes, settings.photos));
        let strokes = files.read_strokes(|id| id != 9).unwrap();
        assert_eq!(strokes[&4].pixels(), [0, 7, 254, 0], "an id without a class is left out");
        assert!(project.join("packs/studio.pack").exists());
        files.save(None, vec![(4, None)], pack);
        files.settle().unwrap();
        assert!(files.read_strokes(|_| true).unwrap().is_empty());
        files.close();
    }

    #[test]
    fn a_disk_that_cannot_be_written_is_told_and_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("p");
        let pack = ClassPack::new(&Model::builtin());
        let (files, _) = ProjectFiles::open(&project).unwrap();
        let strokes = project.join("strokes");
        fs::remove_dir(&strokes).unwrap();
        fs::write(&strokes, "in the way").unwrap();
        files.save(None, vec![(1, Some(Arc::new(Paint::from_pixels(1, 1, &[3]))))], pack);
        assert_eq!(files.settle().unwrap_err().status(), 507);
        fs::remove_file(&strokes).unwrap();
        fs::create_dir(&strokes).unwrap();
        files.settle().unwrap();
        assert!(strokes.join("1.png").exists());
        files.close();
    }
}
