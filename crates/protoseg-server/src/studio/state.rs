//! A studio in memory: what people make, and what the model makes of it. After a change only sums of the touched photos
//! are formed anew, and the classifier from all sums; photos are then labelled from what was seen of them.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use protoseg::{
    ClassPack, Model, Segmenter,
    class_pack::{PackClass, Shot},
    core::{IGNORE, RowMap, SUPPORT_ROW},
    method::Usage,
    picture::thumbnail_size,
    register::RegisterError,
};
use rayon::prelude::*;
use serde::Serialize;

use super::{
    check::Checks,
    features::{Features, Hand},
    files::{ProjectError, ProjectFiles, Settings},
    labels, magic,
    paint::{NONE, Paint, UNPAINTED},
    photos::{Photo, Photos},
    project::{Class, Project, Step, Touched},
    strokes::{Mode, Stroke, Tool, draw},
    thumbnails::Thumbnails,
};
use crate::{
    error::{Answer, Failure},
    events::Events,
    limits,
};

/// How a studio is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StudioOptions {
    /// The folder of photos.
    pub folder: PathBuf,
    /// The project's folder.
    pub project: PathBuf,
    /// What pages call the model.
    pub model_name: String,
    /// What names the model in a command, with a space after it; empty for the model in the box.
    pub model_flag: String,
    /// Memory for what was seen of photos, in bytes.
    pub memory: usize,
}

impl StudioOptions {
    /// For the photos of a folder, with the project in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let project = folder.join("protoseg-studio");
        let (model_name, model_flag) = ("box".to_string(), String::new());
        Self { folder, project, model_name, model_flag, memory: limits::FEATURES }
    }
}

/// A studio.
pub struct Studio {
    pub model: Model,
    pub usage: Usage,
    pub options: StudioOptions,
    pub photos: Photos,
    pub features: Features,
    pub thumbnails: Thumbnails,
    pub events: Events,
    pub checks: Checks,
    files: ProjectFiles,
    fingerprint: String,
    /// Without a class, for this model.
    empty: ClassPack,
    made: Mutex<Made>,
    taught: RwLock<Arc<Taught>>,
    /// Requests that people wait for; work in the background stands back for them.
    in_work: AtomicUsize,
}

/// What people made, and what the model remembers of it.
struct Made {
    project: Project,
    /// Of each painted photo, by class.
    shots: BTreeMap<u32, Vec<(u8, Shot)>>,
    last_change: Instant,
}

/// The classifier of one revision.
pub struct Taught {
    pub revision: u32,
    pub segmenter: Segmenter,
    pub pack: ClassPack,
    /// The class of each row; 0 for the background.
    pub ids: Vec<u8>,
}

/// What a stroke did.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Painted {
    /// Labels from now on are of this revision.
    pub revision: u32,
    /// Pixels that it covers.
    pub pixels: u64,
    /// Time it took.
    pub milliseconds: f64,
    /// Left, top, right and bottom of what it covers.
    #[serde(rename = "box")]
    pub bounds: [usize; 4],
}

/// Labels of a photo, or why there are none yet.
pub enum Labels {
    /// As the page reads them.
    Ready(Vec<u8>),
    /// The photo was not looked at yet.
    Waiting,
    /// The page has them already.
    Known,
}

/// Counts a request in work.
pub struct InWork<'a>(&'a AtomicUsize);

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Studio {
    /// Opens the photos and the project. Strokes of an earlier time are registered again.
    pub fn open(model: Model, options: StudioOptions) -> Result<Arc<Self>, ProjectError> {
        let usage = model.usage()?;
        let (files, settings) = ProjectFiles::open(&options.project)?;
        let of_folder = |source| ProjectError::Files { path: options.folder.clone(), source };
        let photos = Photos::open(&options.folder, files.folder(), &settings.photos).map_err(of_folder)?;
        let classes = classes(&model, settings.classes);
        let of_project = |source| ProjectError::Files { path: options.project.clone(), source };
        let paints = files
            .read_strokes(|id| id == NONE || classes.iter().any(|class| class.id == id))
            .map_err(of_project)?
            .into_iter()
            .filter(|(id, paint)| {
                let size = photos.get(*id).ok().and_then(|photo| photos.size(&photo).ok());
                size == Some((paint.width, paint.height))
            })
            .collect();
        let project = Project::new(classes, paints);
        let eye = Segmenter::with_classifier(&model, model.base_classifier(&usage), usage.clone());
        let empty = ClassPack::new(&model);
        let taught = Taught { revision: 0, segmenter: eye.clone(), pack: empty.clone(), ids: Vec::new() };
        let studio = Self {
            fingerprint: model.fingerprint(),
            features: Features::new(&model, eye, options.memory),
            thumbnails: Thumbnails::default(),
            events: Events::default(),
            checks: Checks::default(),
            made: Mutex::new(Made { project, shots: BTreeMap::new(), last_change: Instant::now() }),
            taught: RwLock::new(Arc::new(taught)),
            in_work: AtomicUsize::new(0),
            model,
            usage,
            options,
            photos,
            files,
            empty,
        };
        studio.register_all()?;
        studio.features.enqueue(studio.photos.part(0, usize::MAX).iter().map(|photo| photo.id));
        Ok(Arc::new(studio))
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers all strokes, after the start.
    fn register_all(&self) -> Result<(), ProjectError> {
        let mut made = self.made();
        let all: Vec<(u32, Arc<Paint>)> =
            made.project.paints.iter().map(|(id, paint)| (*id, Arc::clone(paint))).collect();
        let classes = Arc::clone(&made.project.classes);
        let look = |(id, paint): &(u32, Arc<Paint>)| -> Option<(u32, Vec<(u8, Shot)>)> {
            let photo = self.photos.get(*id).ok()?;
            let image = self.photos.read(&photo).ok()?;
            let features = self.model.features(&image);
            let hand = Hand::new(image, features);
            Some((*id, self.remember(&photo, &hand, paint, &classes)))
        };
        made.shots = all.par_iter().filter_map(look).collect();
        self.teach(&mut made)?;
        self.save(&made, true, Vec::new());
        Ok(())
    }

    /// Says that somebody waits, while this lives.
    pub fn in_work(&self) -> InWork<'_> {
        self.in_work.fetch_add(1, Ordering::Relaxed);
        InWork(&self.in_work)
    }

    /// Whether somebody waits.
    pub fn is_asked(&self) -> bool {
        self.in_work.load(Ordering::Relaxed) > 0
    }

    /// The classifier of now.
    pub fn taught(&self) -> Arc<Taught> {
        Arc::clone(&self.taught.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the project.
    pub fn project<T>(&self, look: impl FnOnce(&Project) -> T) -> T {
        look(&self.made().project)
    }

    /// When the last change was.
    pub fn last_change(&self) -> Instant {
        self.made().last_change
    }

    /// What the model's background is called, if it has one.
    pub fn background(&self) -> Option<&str> {
        let classes = self.model.classes();
        classes.has_background().then(|| classes.rows()[0].name.as_str())
    }

    /// What the pack keeps of a painted photo, for each of its classes.
    fn remember(&self, photo: &Photo, hand: &Hand, paint: &Paint, classes: &[Class]) -> Vec<(u8, Shot)> {
        let pixels = paint.pixels();
        let counts = paint.counts();
        let remember = |(own, count): (u8, u64)| -> Option<(u8, Shot)> {
            let table = self.label_table(own, classes)?;
            let labels = pixels.iter().map(|&id| table[usize::from(id)]).collect();
            let labels = RowMap::new(paint.width, paint.height, labels);
            let sums = self.model.remember_strokes(hand.features.clone(), &labels, SUPPORT_ROW, &self.usage);
            let shot = Shot::new(photo.file_name(), count, sums).filter(Shot::is_usable)?;
            Some((own, shot))
        };
        counts.into_iter().filter_map(remember).collect()
    }

    /// What each painted id is in a support of the class `own`. "None of the classes" is a support of the background;
    /// there is no such support without a background.
    pub fn label_table(&self, own: u8, classes: &[Class]) -> Option<[u16; 256]> {
        let model = self.model.classes();
        let background = model.has_background().then_some(0u16);
        // A model that knows nothing but a background is told that other things are no part of a class, too.
        let of_others = background.filter(|_| model.n_base() == 1);
        let mut table = [IGNORE; 256];
        if own == NONE {
            background?;
        } else {
            for class in classes.iter().filter(|class| class.id != own) {
                let row = model.rows()[..model.n_base()].iter().position(|base| base.name == class.name);
                table[usize::from(class.id)] = row.map(|row| row as u16).or(of_others).unwrap_or(IGNORE);
            }
            table[usize::from(NONE)] = background.unwrap_or(IGNORE);
        }
        table[usize::from(UNPAINTED)] = IGNORE;
        table[usize::from(own)] = SUPPORT_ROW;
        Some(table)
    }

    /// The pack of these shots, without one of them if one is left out.
    fn pack(
        &self,
        classes: &[Class],
        shots: &BTreeMap<u32, Vec<(u8, Shot)>>,
        left_out: Option<(u8, u32)>,
    ) -> Result<ClassPack, RegisterError> {
        let mut pack = self.empty.clone();
        let of = |own: u8| -> Vec<Shot> {
            let all = shots
                .iter()
                .flat_map(|(photo, shots)| shots.iter().map(move |(id, shot)| (*id, *photo, shot)));
            let all = all.filter(|(id, photo, _)| *id == own && left_out != Some((*id, *photo)));
            all.map(|(_, _, shot)| shot.clone()).collect()
        };
        let named = classes.iter().map(|class| (class.id, class.name.as_str(), Some(class.color)));
        let none = self.background().map(|name| (NONE, name, None));
        for (id, name, color) in named.chain(none) {
            let shots = of(id);
            if !shots.is_empty() {
                pack.add(PackClass { name: name.to_string(), color, shots })?;
            }
        }
        Ok(pack)
    }

    /// The classifier of a pack.
    fn classify(&self, pack: ClassPack, classes: &[Class], revision: u32) -> Result<Taught, RegisterError> {
        let classifier = pack.classifier(&self.model, &self.usage)?;
        let segmenter = Segmenter::with_classifier(&self.model, classifier, self.usage.clone());
        let id = |name: &str| classes.iter().find(|class| class.name == name).map_or(0, |class| class.id);
        let ids = segmenter.classes().rows().iter().map(|class| id(&class.name)).collect();
        Ok(Taught { revision, segmenter, pack, ids })
    }

    /// Forms the classifier of now.
    fn teach(&self, made: &mut Made) -> Result<(), RegisterError> {
        let project = &made.project;
        let pack = self.pack(&project.classes, &made.shots, None)?;
        let taught = self.classify(pack, &project.classes, project.revision)?;
        *self.taught.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(taught);
        made.last_change = Instant::now();
        Ok(())
    }

    /// The classifiers that leave one painted photo of a class out each, with class and photo. None for the only photo of
    /// a class.
    pub fn left_out(&self) -> (u32, Vec<(u8, u32, bool)>) {
        let made = self.made();
        let mut pairs: Vec<(u8, u32)> = Vec::new();
        for (photo, shots) in &made.shots {
            pairs.extend(shots.iter().filter(|(id, _)| *id != NONE).map(|(id, _)| (*id, *photo)));
        }
        let is_only = |own: u8| pairs.iter().filter(|(id, _)| *id == own).count() < 2;
        let all = pairs.iter().map(|&(id, photo)| (id, photo, is_only(id))).collect();
        (made.project.revision, all)
    }

    /// The classifier without what one photo taught of a class, if the project is still of this revision.
    pub fn without(&self, class: u8, photo: u32, revision: u32) -> Option<Taught> {
        let made = self.made();
        let classes = Arc::clone(&made.project.classes);
        if made.project.revision != revision {
            return None;
        }
        let pack = self.pack(&classes, &made.shots, Some((class, photo))).ok()?;
        drop(made);
        self.classify(pack, &classes, revision).ok()
    }

    /// Carries out a change: `change` says which step, or takes one back.
    fn commit(&self, change: impl FnOnce(&mut Project) -> Answer<Touched>) -> Answer<(u32, Touched)> {
        let mut made = self.made();
        self.files.settle()?;
        let touched = change(&mut made.project)?;
        let classes = Arc::clone(&made.project.classes);
        for &id in &touched.photos {
            let shots = match made.project.paints.get(&id).cloned() {
                Some(paint) => {
                    let photo = self.photos.get(id)?;
                    // A photo that is gone teaches nothing until it is there again; its paint stays.
                    let hand = self.features.hand(id, || self.photos.read(&photo));
                    hand.map_or(Vec::new(), |hand| self.remember(&photo, &hand, &paint, &classes))
                }
                None => Vec::new(),
            };
            match shots.is_empty() {
                true => made.shots.remove(&id),
                false => made.shots.insert(id, shots),
            };
        }
        self.teach(&mut made).map_err(|error| Failure::unfit(error.to_string()))?;
        let strokes = touched.photos.iter().map(|id| (*id, made.project.paints.get(id).cloned())).collect();
        self.save(&made, touched.classes, strokes);
        let revision = made.project.revision;
        drop(made);
        self.events.send("revision", &serde_json::json!({ "revision": revision }));
        Ok((revision, touched))
    }

    fn save(&self, made: &Made, with_settings: bool, strokes: Vec<(u32, Option<Arc<Paint>>)>) {
        let settings = with_settings.then(|| self.settings(&made.project));
        self.files.save(settings, strokes, self.taught().pack.clone());
    }

    fn settings(&self, project: &Project) -> Settings {
        Settings {
            model: self.fingerprint.clone(),
            classes: project.classes.to_vec(),
            photos: self.photos.names(),
            ..Settings::default()
        }
    }

    /// Width and height of a photo.
    pub fn size(&self, photo: &Photo) -> Answer<(usize, usize)> {
        self.photos.size(photo).map_err(Failure::unfit)
    }

    /// Paints a stroke and registers it.
    pub fn stroke(&self, id: u32, stroke: &Stroke) -> Answer<Painted> {
        let start = Instant::now();
        stroke.check()?;
        let photo = self.photos.get(id)?;
        let (width, height) = self.size(&photo)?;
        let mut mask = draw(stroke, width, height)?;
        if stroke.tool == Tool::Magic {
            mask = self.magic(&photo, &mask, stroke)?;
        }
        let label = match stroke.mode {
            Mode::Add => self.project(|project| project.class(stroke.class).map(|class| class.id))?,
            Mode::Not => NONE,
            Mode::Erase => UNPAINTED,
        };
        self.paint(&photo, mask, label, start)
    }

    /// Paints what is not black in a mask.
    pub fn paint_mask(&self, id: u32, class: u8, mask: Vec<bool>) -> Answer<Painted> {
        let photo = self.photos.get(id)?;
        let label = self.project(|project| project.class(class).map(|class| class.id))?;
        self.paint(&photo, mask, label, Instant::now())
    }

    fn paint(&self, photo: &Photo, mask: Vec<bool>, label: u8, start: Instant) -> Answer<Painted> {
        let size = self.size(photo)?;
        if mask.len() != size.0 * size.1 {
            return Err(Failure::unfit("the mask does not have the size of the photo"));
        }
        // Decoded before the lock is taken.
        self.features.hand(photo.id, || self.photos.read(photo)).map_err(Failure::unfit)?;
        let (revision, _) =
            self.commit(|project| Ok(project.change(project.paint(photo.id, size, &mask, label))))?;
        let (pixels, bounds) = extent(&mask, size.0);
        Ok(Painted { revision, pixels, milliseconds: 1000.0 * start.elapsed().as_secs_f64(), bounds })
    }

    /// The thing under a rough stroke, and under what was painted of it before.
    fn magic(&self, photo: &Photo, rough: &[bool], stroke: &Stroke) -> Answer<Vec<bool>> {
        let hand = self.features.hand(photo.id, || self.photos.read(photo)).map_err(Failure::unfit)?;
        let paint = self.project(|project| project.paints.get(&photo.id).cloned());
        let own = match stroke.mode {
            Mode::Add => stroke.class,
            Mode::Not => NONE,
            Mode::Erase => UNPAINTED,
        };
        let hints = magic::hints(rough, paint.map(|paint| paint.pixels()).as_deref(), own);
        Ok(hand.parts(&self.model).clean_mask(&self.model, &hints))
    }

    /// Takes the last change back, or makes it again. Also says which photo it was on.
    pub fn step(&self, back: bool) -> Answer<(u32, Option<u32>)> {
        let (revision, touched) =
            self.commit(|project| if back { project.undo() } else { project.redo() })?;
        Ok((revision, touched.photos.first().copied()))
    }

    /// Carries out a change of classes.
    pub fn change_classes(&self, step: impl FnOnce(&Project) -> Answer<Step>) -> Answer<u32> {
        let (revision, _) = self.commit(|project| {
            let step = step(project)?;
            Ok(project.change(step))
        })?;
        Ok(revision)
    }

    /// Adds a photo.
    pub fn add_photo(&self, name: &str, bytes: &[u8]) -> Answer<Arc<Photo>> {
        let photo = self.photos.add(name, bytes)?;
        let made = self.made();
        self.save(&made, true, Vec::new());
        drop(made);
        self.features.enqueue([photo.id]);
        self.events.send("photos", &serde_json::json!({ "total": self.photos.len() }));
        Ok(photo)
    }

    /// What the model sees in a photo, on a copy whose longer side is at most `side`.
    pub fn labels(&self, id: u32, side: usize, known: Option<u32>) -> Answer<Labels> {
        let photo = self.photos.get(id)?;
        let taught = self.taught();
        if known == Some(taught.revision) {
            return Ok(Labels::Known);
        }
        let Some(seen) = self.features.get(id).map_err(Failure::unfit)? else { return Ok(Labels::Waiting) };
        let size = self.size(&photo)?;
        let at = thumbnail_size(size.0, size.1, side.clamp(1, limits::LABEL_SIDE));
        let prediction = taught.segmenter.predict_seen(&seen, size, at);
        let confidence = prediction.confidence_u8();
        let ids = taught.ids_of(&prediction.labels().data);
        Ok(Labels::Ready(labels::encode(at, taught.revision, &ids, &confidence)))
    }

    /// What is painted on a photo, on a copy whose longer side is at most `side`.
    pub fn painted(&self, id: u32, side: usize) -> Answer<Vec<u8>> {
        let photo = self.photos.get(id)?;
        let size = self.size(&photo)?;
        let at = thumbnail_size(size.0, size.1, side.clamp(1, limits::LABEL_SIDE));
        let (revision, paint) = self.project(|project| (project.revision, project.paints.get(&id).cloned()));
        let pixels = match paint {
            Some(paint) => labels::nearest(&paint.pixels(), size, at),
            None => vec![UNPAINTED; at.0 * at.1],
        };
        Ok(labels::encode(at, revision, &pixels, &[]))
    }

    /// The folder of the project.
    pub fn folder(&self) -> &std::path::Path {
        self.files.folder()
    }

    /// Waits until all changes are on the disk.
    pub fn settle(&self) -> Answer<()> {
        self.files.settle()
    }

    /// Ends work in the background and writes what is left.
    pub fn close(&self) {
        self.features.stop();
        self.events.end();
        self.files.close();
    }
}

impl Taught {
    /// Whether there is anything to tell apart.
    pub fn knows_classes(&self) -> bool {
        !self.pack.classes().is_empty() || self.ids.len() > 1
    }

    /// Ids of classes for rows of the classifier; 255 where there is none.
    pub fn ids_of(&self, rows: &[u16]) -> Vec<u8> {
        rows.iter().map(|&row| self.ids.get(usize::from(row)).copied().unwrap_or(u8::MAX)).collect()
    }
}

/// The classes of the model, then those of the project. A class of the project that the model has as well is its own.
fn classes(model: &Model, saved: Vec<Class>) -> Vec<Class> {
    let rows = &model.classes().rows()[..model.classes().n_base()];
    let skipped = usize::from(model.classes().has_background());
    let base: Vec<&str> = rows.iter().skip(skipped).map(|class| class.name.as_str()).collect();
    let mut classes = saved;
    classes.iter_mut().for_each(|class| class.base = base.contains(&class.name.as_str()));
    classes.retain(|class| (1..=limits::CLASSES as u8).contains(&class.id));
    let mut project = Project::new(classes, BTreeMap::new());
    for name in base {
        if let Ok((step, id)) = project.add_class(name, None, None) {
            project.change(step);
            let mut all = project.classes.to_vec();
            all.iter_mut().filter(|class| class.id == id).for_each(|class| class.base = true);
            project.classes = Arc::new(all);
        }
    }
    project.classes.to_vec()
}

/// Number of pixels of a mask, and left, top, right and bottom of what it covers.
fn extent(mask: &[bool], width: usize) -> (u64, [usize; 4]) {
    let (mut pixels, mut bounds) = (0u64, [usize::MAX, usize::MAX, 0, 0]);
    for (y, row) in mask.chunks_exact(width.max(1)).enumerate() {
        let Some(first) = row.iter().position(|is| *is) else { continue };
        let last = row.iter().rposition(|is| *is).unwrap_or(first);
        pixels += row.iter().filter(|is| **is).count() as u64;
        bounds = [bounds[0].min(first), bounds[1].min(y), bounds[2].max(last + 1), y + 1];
    }
    (pixels, if pixels == 0 { [0; 4] } else { bounds })
}
