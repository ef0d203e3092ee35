//! The packs of a server: files of one folder, each with its classifier, known by name.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use protoseg::{
    ClassPack, Model, Segmenter, Support,
    class_pack::PackError,
    data::create_dir,
    method::Usage,
    register::{ClassReport, KnownClass, RegisterError, Registration, SupportSet},
};

use crate::{
    error::{Answer, Failure},
    limits,
};

/// All packs of a server.
pub struct Packs {
    model: Model,
    usage: Usage,
    folder: PathBuf,
    packs: RwLock<BTreeMap<String, Arc<Pack>>>,
    /// The model's own classes, and none beside them.
    empty: Arc<Pack>,
    /// Changes, one after the other.
    changes: Mutex<()>,
}

/// A pack with its classifier.
pub struct Pack {
    pub pack: ClassPack,
    pub segmenter: Segmenter,
    /// Follows from what it holds: another one after each change.
    pub version: String,
}

/// Packs that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacksError {
    /// One of them.
    #[error("cannot use pack `{}`: {source}", path.display())]
    Pack {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<RegisterError>,
    },
    /// The folder.
    #[error(transparent)]
    Folder(#[from] protoseg::data::DataError),
    /// The model cannot be taught.
    #[error(transparent)]
    Model(#[from] protoseg::model::ModelError),
}

impl Packs {
    /// All packs of a folder, which is made if it is not there.
    pub fn open(model: Model, folder: &Path) -> Result<Self, PacksError> {
        create_dir(folder)?;
        let usage = model.usage()?;
        let wrong = |path: &Path| {
            let path = path.to_path_buf();
            |source: RegisterError| PacksError::Pack { path, source: Box::new(source) }
        };
        let empty = classify(&model, &usage, ClassPack::new(&model)).map_err(wrong(folder))?;
        let packs = Self {
            model,
            usage,
            folder: folder.to_path_buf(),
            packs: RwLock::default(),
            empty: Arc::new(empty),
            changes: Mutex::default(),
        };
        let reading = |source| protoseg::data::DataError::reading(folder, source);
        for entry in std::fs::read_dir(folder).map_err(reading)? {
            let path = entry.map_err(reading)?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|name| is_name(name));
            let (Some(name), Some("pack")) = (name, path.extension().and_then(|ending| ending.to_str()))
            else {
                continue;
            };
            let pack = ClassPack::load(&path).map_err(|error| wrong(&path)(error.into()))?;
            let pack = packs.classify(pack).map_err(wrong(&path))?;
            packs.put(name, pack);
        }
        Ok(packs)
    }

    fn put(&self, name: &str, pack: Pack) -> Arc<Pack> {
        let pack = Arc::new(pack);
        let mut packs = self.packs.write().unwrap_or_else(PoisonError::into_inner);
        packs.insert(name.to_string(), Arc::clone(&pack));
        pack
    }

    fn classify(&self, pack: ClassPack) -> Result<Pack, RegisterError> {
        classify(&self.model, &self.usage, pack)
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Names and packs.
    pub fn all(&self) -> Vec<(String, Arc<Pack>)> {
        let packs = self.packs.read().unwrap_or_else(PoisonError::into_inner);
        packs.iter().map(|(name, pack)| (name.clone(), Arc::clone(pack))).collect()
    }

    /// The pack of a name.
    pub fn get(&self, name: &str) -> Answer<Arc<Pack>> {
        let packs = self.packs.read().unwrap_or_else(PoisonError::into_inner);
        packs.get(name).cloned().ok_or_else(|| {
            Failure::missing(format!("there is no pack `{}`", name.escape_debug()))
                .hint("register a class in it first")
        })
    }

    /// A pack without classes.
    pub fn empty(&self) -> Arc<Pack> {
        Arc::clone(&self.empty)
    }

    /// The pack of a name, or an empty one.
    pub fn get_or_empty(&self, name: &str) -> Answer<Arc<Pack>> {
        match self.get(name) {
            Err(_) if is_name(name) => Ok(self.empty()),
            pack => pack,
        }
    }

    /// Changes a pack, or makes it, and writes its file.
    pub fn change<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut ClassPack) -> Answer<T>,
    ) -> Answer<(Arc<Pack>, T)> {
        if !is_name(name) {
            return Err(Failure::unfit("a pack's name has 1 to 64 letters, digits, `-`, `_` or `.`"));
        }
        let _change: MutexGuard<'_, ()> = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.get(name).ok();
        if before.is_none() && self.all().len() >= limits::PACKS {
            return Err(Failure::conflict(format!("a server has at most {} packs", limits::PACKS)));
        }
        let mut pack = before.map_or_else(|| ClassPack::new(&self.model), |before| before.pack.clone());
        let answer = change(&mut pack)?;
        let pack = self.classify(pack).map_err(of_register)?;
        let path = self.folder.join(format!("{name}.pack"));
        let saved = ClassPack::lock(&path, |_| ()).and_then(|_lock| pack.pack.save(&path));
        saved.map_err(|error| Failure::internal(error.to_string()))?;
        Ok((self.put(name, pack), answer))
    }

    /// Teaches a class from one support. What the same image taught of it before is replaced; with `replace`, all of it.
    pub fn register(
        &self,
        name: &str,
        class: &str,
        support: Support,
        replace: bool,
    ) -> Answer<(Arc<Pack>, ClassReport)> {
        self.change(name, |pack| {
            forget(pack, |own, image| own == class && image == support.name())?;
            let known = if replace { KnownClass::Replace } else { KnownClass::Extend };
            let reports = self.run(pack, known, vec![(class.to_string(), support)])?;
            reports.into_iter().next().ok_or_else(|| Failure::internal("nothing was registered"))
        })
    }

    /// Teaches classes, after all that images for which `is_old` taught of any class was taken out. A pack stays as it is if
    /// there is nothing to teach and nothing to take out.
    pub fn replace(
        &self,
        name: &str,
        is_old: impl Fn(&str) -> bool,
        supports: Vec<(String, Support)>,
    ) -> Answer<Arc<Pack>> {
        let before = self.get_or_empty(name)?;
        let mut shots = before.pack.classes().iter().flat_map(|class| &class.shots);
        if supports.is_empty() && !shots.any(|shot| is_old(&shot.image)) {
            return Ok(before);
        }
        let (pack, ()) = self.change(name, |pack| {
            forget(pack, |_, image| is_old(image))?;
            if !supports.is_empty() {
                self.run(pack, KnownClass::Extend, supports)?;
            }
            Ok(())
        })?;
        Ok(pack)
    }

    fn run(
        &self,
        pack: &mut ClassPack,
        known: KnownClass,
        supports: Vec<(String, Support)>,
    ) -> Answer<Vec<ClassReport>> {
        let mut set = SupportSet::new();
        for (class, support) in supports {
            set.add(&class, [support]).map_err(of_register)?;
        }
        let registration =
            Registration::new(&self.model).map_err(|error| Failure::internal(error.to_string()))?;
        let registration = registration.known(known).refine(true);
        registration.run(&self.model, pack, &set, &|_, _, _| ()).map_err(of_register)
    }

    /// Takes a class out.
    pub fn remove(&self, name: &str, class: &str) -> Answer<Arc<Pack>> {
        self.get(name)?;
        let (pack, ()) = self.change(name, |pack| {
            pack.remove(class).map(drop).map_err(|error| Failure::missing(error.to_string()))
        })?;
        Ok(pack)
    }
}

fn classify(model: &Model, usage: &Usage, pack: ClassPack) -> Result<Pack, RegisterError> {
    let segmenter = Segmenter::builder(model).pack(&pack).usage(usage.clone()).build()?;
    let bytes = pack.to_bytes()?;
    let version = format!("protoseg-{}", &blake3::hash(&bytes).to_hex()[..12]);
    Ok(Pack { pack, segmenter, version })
}

/// Takes out what images taught of classes, both named to `is_old`.
fn forget(pack: &mut ClassPack, is_old: impl Fn(&str, &str) -> bool) -> Answer<()> {
    let names: Vec<String> = pack.classes().iter().map(|class| class.name.clone()).collect();
    let forget = |name: &String| -> Result<(), PackError> {
        let mut own = pack.remove(name)?;
        own.shots.retain(|shot| !is_old(name, &shot.image));
        if own.shots.is_empty() { Ok(()) } else { pack.add(own) }
    };
    names.iter().try_for_each(forget).map_err(|error| Failure::internal(error.to_string()))
}

pub fn of_register(error: RegisterError) -> Failure {
    Failure::unfit(error.to_string())
}

/// Whether a name can be that of a pack: a plain file name.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use protoseg::Image;

    use super::*;

    fn support(name: &str, seed: usize) -> Support {
        let pixel = |at: usize| ((at * (7 + seed)) % 251) as u8;
        let image = Image::new(96, 64, (0..96 * 64 * 3).map(pixel).collect());
        let mask: Vec<bool> = (0..96 * 64).map(|at| at % 96 > 40).collect();
        Support::from_mask(name, image, &mask).unwrap()
    }

    #[test]
    fn a_server_has_so_many_packs_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let packs = Packs::open(Model::builtin(), folder.path()).unwrap();
        let (first, _) = packs.register("pond", "duck", support("a", 1), false).unwrap();
        {
            let mut all = packs.packs.write().unwrap();
            all.extend((1..limits::PACKS).map(|number| (format!("p{number}"), Arc::clone(&first))));
        }
        let refused = packs.register("one-more", "duck", support("a", 1), false).err().unwrap();
        assert_eq!(refused.status(), 409);
        assert!(packs.register("pond", "duck", support("b", 2), false).is_ok(), "what is there can learn");
    }

    #[test]
    fn a_replacement_reaches_every_class_and_nothing_is_written_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let packs = Packs::open(Model::builtin(), folder.path()).unwrap();
        let both = ["duck", "swan"].map(|class| (class.to_string(), support("a", 1)));
        let first = packs.replace("pond", |_| false, both.to_vec()).unwrap();
        assert_eq!(first.pack.classes().len(), 2);
        let second =
            packs.replace("pond", |image| image == "a", vec![("swan".into(), support("a", 2))]).unwrap();
        let names: Vec<&str> = second.pack.classes().iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["swan"]);
        let third = packs.replace("pond", |image| image == "a", Vec::new()).unwrap();
        assert!(third.pack.classes().is_empty());
        assert!(first.version != second.version && second.version != third.version);
        packs.replace("new", |image| image == "a", Vec::new()).unwrap();
        assert!(!folder.path().join("new.pack").exists());
    }

    #[test]
    fn a_change_is_on_the_disk_and_has_a_version_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let packs = Packs::open(Model::builtin(), folder.path()).unwrap();
        let (first, report) = packs.register("pond", "duck", support("a", 1), false).unwrap();
        assert_eq!((report.shots, first.pack.classes().len()), (1, 1));
        let (second, report) = packs.register("pond", "duck", support("b", 2), false).unwrap();
        assert_eq!(report.shots, 2);
        assert_ne!(first.version, second.version);
        let (again, report) = packs.register("pond", "duck", support("b", 2), false).unwrap();
        assert_eq!((report.shots, &again.version), (2, &second.version), "the same image counts once");
        let opened = Packs::open(Model::builtin(), folder.path()).unwrap();
        assert_eq!(opened.get("pond").unwrap().version, again.version);
        assert_eq!(packs.remove("pond", "swan").err().map(|error| error.status().as_u16()), Some(404));
        assert!(packs.remove("pond", "duck").unwrap().pack.classes().is_empty());
        for wrong in ["../evil", "", ".hidden", "a/b", "a b"] {
            assert!(packs.register(wrong, "duck", support("a", 1), false).is_err(), "{wrong}");
        }
    }
}
