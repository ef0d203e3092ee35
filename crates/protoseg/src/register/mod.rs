//! Registration: a few labelled images of new classes become a classifier of old and new ones. No gradient.

mod check;
mod remarks;
mod report;
mod supports;

use burn::tensor::Tensor;
use protoseg_core::{ClassError, Classes, IGNORE, RowMap, SUPPORT_ROW};
use protoseg_data::{DataError, Support, fit_image};
use rayon::prelude::*;

pub use check::SupportPicture;
pub use report::{ClassReport, Near};
pub use supports::SupportSet;

use self::{
    check::{Checker, SeenSupport},
    remarks::Remarks,
    supports::ClassSources,
};
use crate::{
    class_pack::{ClassPack, PackClass, PackError, Shot},
    method::{Rows, Usage, support_sums::SupportSums},
    model::{Model, ModelError},
    rough::{Hint, clean_mask},
};

/// A classifier of base and novel classes, ready for any image.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// What pixels are compared with.
    pub rows: Rows,
    /// What the rows are.
    pub classes: Classes,
}

/// Classes that cannot be registered or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A support cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The pack cannot take the class, or is another model's.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The model cannot register classes.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The names do not make a classifier.
    #[error(transparent)]
    Classes(#[from] ClassError),
    /// None of a class's supports shows it at the network's resolution.
    #[error(
        "novel class `{class}` has no support in which a pixel of it is seen\n\
         hint: give it a mask that covers about 8 x 8 pixels or more at the model's input size"
    )]
    NoPixels {
        /// The class.
        class: String,
    },
    /// One support does not show its class at the network's resolution.
    #[error(
        "support `{support}` shows too little of its class: none of its {pixels} pixels is left at the model's input \
         size of {size}\nhint: choose an image that shows more of it"
    )]
    TooSmall {
        /// The support.
        support: String,
        /// Pixels of its mask.
        pixels: u64,
        /// Side of the model's canvas.
        size: usize,
    },
    /// What the model sees of a support cannot be compared with anything.
    #[error(
        "the model sees nothing in support `{support}`: its features are zero, or not numbers\n\
         hint: the model's weights are damaged; train or download it again"
    )]
    SeesNothing {
        /// The support.
        support: String,
    },
    /// The model has a class of that name.
    #[error("class `{class}` is one of the model's own")]
    Known {
        /// The class.
        class: String,
    },
    /// The same class was given twice.
    #[error("class `{class}` is given twice\nhint: give all its supports at once")]
    GivenTwice {
        /// The class.
        class: String,
    },
    /// No class was given.
    #[error("no class is given")]
    Nothing,
    /// A data set has nothing to teach.
    #[error(
        "no training image of data set `{dataset}` shows a class that the model does not know\n\
         hint: its classes are {classes}"
    )]
    NothingNew {
        /// The data set.
        dataset: String,
        /// Its classes.
        classes: String,
    },
}

/// What the pixels of a support that nobody labelled are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Background: the class is nowhere else in the image.
    Background,
    /// Unknown.
    Ignore,
}

/// How classes are registered.
#[derive(Clone, Debug)]
pub struct Registration {
    usage: Usage,
    known: KnownClass,
    rest: Rest,
    refine: bool,
    clean_strokes: bool,
}

/// What happens to a class that is already in the pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KnownClass {
    /// It is refused.
    #[default]
    Refuse,
    /// Its supports are replaced.
    Replace,
    /// It keeps its supports and gets more.
    Extend,
}

/// What a registration is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterStage {
    /// Looking at supports; counted in supports.
    Looking,
    /// Checking how good they are; counted in classes.
    Checking,
}

/// What the supports of a class have taught.
struct Learned {
    name: String,
    shots: Vec<Shot>,
    kept: Vec<SeenSupport>,
    remarks: Remarks,
}

impl Learned {
    fn new(class: &ClassSources) -> Self {
        let (name, remarks) = (class.name().to_string(), Remarks::new(class.warnings()));
        Self { name, shots: Vec::new(), kept: Vec::new(), remarks }
    }

    /// As a class of a pack that keeps what it had `before`. What is given again is counted once.
    fn finish(self, before: Option<PackClass>) -> (PackClass, Vec<SeenSupport>, Remarks) {
        let Self { name, mut shots, kept, remarks } = self;
        let mut remarks = remarks.finish(&name);
        let color = before.as_ref().and_then(|before| before.color);
        for shot in before.into_iter().flat_map(|before| before.shots) {
            match shots.contains(&shot) {
                true => remarks.warnings.push(format!(
                    "support `{}` of `{name}` is in the pack already and is counted once",
                    shot.image
                )),
                false => shots.push(shot),
            }
        }
        (PackClass { name, color, shots }, kept, remarks)
    }
}

/// Side of the square that pictures of supports are fitted into.
const PICTURE: usize = 240;
/// Features of this many supports are kept in memory for the check; for more, they are computed again.
const KEPT: usize = 64;
/// Up to this many supports in all are drawn. How many are predicted is the check's business.
const DRAWN: usize = 1000;

impl Registration {
    /// As the model was made; a class that is already in the pack is refused. Unlabelled pixels are background if the
    /// model knows nothing else, and unknown if it has base classes.
    pub fn new(model: &Model) -> Result<Self, ModelError> {
        let classes = model.classes();
        let is_taught = classes.has_background() && classes.n_base() == 1;
        let rest = if is_taught { Rest::Background } else { Rest::Ignore };
        Ok(Self {
            usage: model.usage()?,
            known: KnownClass::Refuse,
            rest,
            refine: false,
            clean_strokes: false,
        })
    }

    /// With unlabelled pixels of supports as background, or unknown. Without a background in the model they stay unknown.
    #[must_use]
    pub fn rest(self, rest: Rest) -> Self {
        Self { rest, ..self }
    }

    /// With other parts of the method. What is kept in a pack does not depend on it, only the report does.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// Whether supports of the model's own classes are taken, to refine them, or refused.
    #[must_use]
    pub fn refine(self, refine: bool) -> Self {
        Self { refine, ..self }
    }

    /// Whether the thing under a scribble is found first ([`crate::rough`]), so that all of it is learned from. The rest
    /// of the image stays unknown: there may be more of the class.
    #[must_use]
    pub fn clean_strokes(self, clean_strokes: bool) -> Self {
        Self { clean_strokes, ..self }
    }

    /// Decides what happens to classes that are already in the pack.
    #[must_use]
    pub fn known(self, known: KnownClass) -> Self {
        Self { known, ..self }
    }

    /// Adds all classes of a set to a pack and says how good their supports are. If anything fails, the pack stays as
    /// it was. `progress` hears how many supports or classes are done, of how many.
    pub fn run(
        &self,
        model: &Model,
        pack: &mut ClassPack,
        set: &SupportSet,
        progress: &dyn Fn(RegisterStage, usize, usize),
    ) -> Result<Vec<ClassReport>, RegisterError> {
        if set.classes().is_empty() {
            return Err(RegisterError::Nothing);
        }
        pack.check(model)?;
        let (mut new, kept_classes) = self.with_room(model, pack, set)?;
        let all: Vec<(usize, usize)> = (0..)
            .zip(set.classes())
            .flat_map(|(class, sources)| (0..sources.len()).map(move |index| (class, index)))
            .collect();
        let total = all.len();
        let mut learned: Vec<Learned> = set.classes().iter().map(Learned::new).collect();
        // As many at a time as there are threads: supports share nothing.
        for (done, part) in (0..).step_by(threads()).zip(all.chunks(threads())) {
            progress(RegisterStage::Looking, done, total);
            let look = |&(class, index): &(usize, usize)| -> Result<_, RegisterError> {
                let support = set.classes()[class].load(index, model, self.rest)?;
                let seen = self.look(model, &support, total <= DRAWN)?;
                Ok((class, support, seen))
            };
            let looked: Vec<Result<_, RegisterError>> = part.par_iter().map(look).collect();
            for (place, looked) in (done..).zip(looked) {
                let (class, support, seen) = looked?;
                let learned = &mut learned[class];
                learned.remarks.look(&support);
                learned.shots.push(seen.shot.clone());
                if place < KEPT {
                    learned.kept.push(seen);
                }
            }
        }
        let mut seen: Vec<(Vec<SeenSupport>, Remarks)> = Vec::new();
        for (learned, before) in learned.into_iter().zip(kept_classes) {
            let (class, kept, remarks) = learned.finish(before);
            new.add(class)?;
            seen.push((kept, remarks));
        }
        progress(RegisterStage::Looking, total, total);
        let count = set.classes().len();
        let checker = Checker::new(model, &new, &self.usage, total, count)?;
        let (predicts, leaves_one_out) = (checker.predicts(), checker.leaves_one_out());
        let check = |(class, (seen, mut remarks)): (&ClassSources, (Vec<SeenSupport>, Remarks))| {
            let wanted = match (leaves_one_out, predicts) {
                (_, false) => seen.len(),
                (true, true) => class.len(),
                (false, true) => seen.len().max(1),
            };
            // Those that were not kept are looked at one by one: features are large.
            let again = (seen.len()..wanted).map(|index| {
                let support = class.load(index, model, self.rest)?;
                self.look(model, &support, total <= DRAWN)
            });
            let supports = seen.into_iter().map(Ok).chain(again);
            if !predicts {
                let note = format!("with {count} classes given at once, their supports are not predicted");
                remarks.notes.push(note);
            } else if !leaves_one_out && class.len() > 1 {
                let note = format!("with {total} supports in all, they are not predicted from one another");
                remarks.notes.push(note);
            }
            let check = checker.check(class.name(), supports)?;
            Ok::<_, RegisterError>(ClassReport::new(new.class(class.name())?, check, remarks))
        };
        let mut reports = Vec::new();
        let mut classes = set.classes().iter().zip(seen);
        while reports.len() < count {
            progress(RegisterStage::Checking, reports.len(), count);
            let part: Vec<_> = classes.by_ref().take(threads()).collect();
            let checked: Vec<Result<_, RegisterError>> = part.into_par_iter().map(check).collect();
            for report in checked {
                reports.push(report?);
            }
        }
        progress(RegisterStage::Checking, count, count);
        *pack = new;
        Ok(reports)
    }

    /// The pack without the classes that are to change, and what those that are to be extended have, class by class of
    /// the set. Names of the model's own classes are refused unless they are to be refined, and those in the pack if
    /// nothing is to happen to them.
    fn with_room(
        &self,
        model: &Model,
        pack: &ClassPack,
        set: &SupportSet,
    ) -> Result<(ClassPack, Vec<Option<PackClass>>), RegisterError> {
        let (mut room, mut kept) = (pack.clone().knowing(model), Vec::new());
        let classes = model.classes();
        for class in set.classes().iter().map(|class| class.name()) {
            if !self.refine && classes.rows()[..classes.n_base()].iter().any(|base| base.name == class) {
                return Err(RegisterError::Known { class: class.to_string() });
            }
            if !room.has(class) {
                kept.push(None);
                continue;
            }
            if self.known == KnownClass::Refuse {
                return Err(PackError::Twice(class.to_string()).into());
            }
            let before = room.remove(class)?;
            kept.push(Some(before).filter(|_| self.known == KnownClass::Extend));
        }
        Ok((room, kept))
    }

    /// Features and sums of a support, and a small picture of it if one is wanted.
    fn look(
        &self,
        model: &Model,
        support: &Support,
        with_picture: bool,
    ) -> Result<SeenSupport, RegisterError> {
        let (image, preprocess) = (support.image(), model.preprocess());
        let content = preprocess.content(image.width, image.height);
        let features = model.features(image);
        let cleaned =
            (self.clean_strokes && support.is_part()).then(|| cleaned(model, features.clone(), support));
        let all = cleaned.as_ref().unwrap_or(support.labels());
        let labels = preprocess.label(all);
        let sums = match support.is_part() {
            true => model.remember_strokes(features.clone(), all, SUPPORT_ROW, &self.usage),
            false => model.remember(features.clone(), all, SUPPORT_ROW, &self.usage),
        };
        let shot =
            Shot::new(support.name(), support.pixels(), sums).ok_or_else(|| RegisterError::TooSmall {
                support: support.name().to_string(),
                pixels: support.pixels(),
                size: preprocess.size,
            })?;
        if !shot.is_usable() {
            return Err(RegisterError::SeesNothing { support: support.name().to_string() });
        }
        let picture = with_picture.then(|| fit_image(image.clone(), PICTURE));
        Ok(SeenSupport { features, labels, content, picture, shot, is_weak: support.is_weak() })
    }
}

/// The labels of a scribbled support with the whole thing under its scribbles.
fn cleaned(model: &Model, features: Tensor<4>, support: &Support) -> RowMap {
    let hint = |label: &u16| match *label {
        SUPPORT_ROW => Hint::Thing,
        IGNORE => Hint::Unknown,
        _ => Hint::Rest,
    };
    let mut labels = support.labels().clone();
    let hints: Vec<Hint> = labels.data.iter().map(hint).collect();
    let mask = clean_mask(support.image(), model, features, &hints);
    // What was labelled as something else stays that.
    let open = labels.data.iter_mut().zip(mask).filter(|(label, is_thing)| *is_thing && **label == IGNORE);
    open.for_each(|(label, _)| *label = SUPPORT_ROW);
    labels
}

fn threads() -> usize {
    rayon::current_num_threads()
}

impl Model {
    /// Teaches one class: adds it to the pack and says how good its supports are. No weight changes.
    pub fn register(
        &self,
        pack: &mut ClassPack,
        class: &str,
        supports: impl IntoIterator<Item = Support>,
    ) -> Result<ClassReport, RegisterError> {
        let mut set = SupportSet::new();
        set.add(class, supports)?;
        let reports = Registration::new(self)?.run(self, pack, &set, &|_, _, _| ())?;
        reports.into_iter().next().ok_or(RegisterError::Nothing)
    }

    /// What registration keeps of a support whose features (`[1, d, h, w]`) are known. `labels` are the image's: rows of
    /// base classes, and `own` where the class is.
    pub fn remember(&self, features: Tensor<4>, labels: &RowMap, own: u16, usage: &Usage) -> SupportSums {
        let [.., height, width] = features.dims();
        let preprocess = self.preprocess();
        let labels = preprocess.grid_label(labels, width, height);
        usage.remember(self.network(), features, &labels, own, self.classes().n_base())
    }

    /// The same for a support of which only strokes are labelled ([`protoseg_core::Preprocess::grid_strokes`]).
    pub fn remember_strokes(
        &self,
        features: Tensor<4>,
        labels: &RowMap,
        own: u16,
        usage: &Usage,
    ) -> SupportSums {
        let [.., height, width] = features.dims();
        let labels = self.preprocess().grid_strokes(labels, width, height);
        usage.remember(self.network(), features, &labels, own, self.classes().n_base())
    }

    /// The classifier that these supports make. `novel` names the classes of the rows after the base classes, in order;
    /// each needs at least one support.
    pub fn classifier<S: AsRef<str>>(
        &self,
        novel: &[S],
        supports: &[SupportSums],
        usage: &Usage,
    ) -> Result<Classifier, RegisterError> {
        let classes = self.classes().with_novel(novel)?;
        let rows = usage
            .register(self.network(), classes.n_base(), novel.len(), supports)
            .map_err(|index| RegisterError::NoPixels { class: novel[index].as_ref().to_string() })?;
        Ok(Classifier { rows, classes })
    }

    /// The classifier before any class is registered: the base classes as they were learned.
    pub fn base_classifier(&self, usage: &Usage) -> Classifier {
        self.classifier::<&str>(&[], &[], &usage.clone().without_context())
            .expect("without novel classes none can lack a support")
    }
}
