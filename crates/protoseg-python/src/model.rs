//! Models.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use protoseg::{
    Precision, Segmenter,
    core::{ClassRole, EpisodeStyle, SupportDraw, count},
    device,
    episodes::{EpisodePlan, EpisodeSource},
    register::{KnownClass, RegisterStage, Registration, Rest, SupportSet},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyMapping, PyString, PyType},
};

use crate::{
    dataset::Dataset,
    error::{Failure, input},
    evaluation::{self, Evaluation},
    image::Source,
    pack::ClassPack,
    prediction::{Prediction, check_share},
    report::Report,
    stream::{Predictions, Queue},
    support::{Given, gather},
    to_python,
    work::{self, lock},
};

/// Overlap of neighbouring tiles, unless another is given.
const OVERLAP: f64 = 0.25;
/// Supports per class that are taken from a data set without folds.
const MOST_SHOTS: usize = 10;

/// A segmentation model. `Model()` is the model in the box; `Model.load(path)` reads another.
///
/// A model never changes: classes that it is taught are kept in a `ClassPack`.
#[pyclass(frozen, module = "protoseg")]
pub struct Model {
    pub inner: protoseg::Model,
    origin: Origin,
    device: String,
    /// The segmenter that was used last: making one looks at all weights.
    last: Mutex<Option<(Use, Arc<Segmenter>)>>,
}

/// Where a model is from, which is all that is pickled of those in the package.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Box,
    Demo,
    Other,
}

/// How a model is used on images.
#[derive(Clone)]
pub struct Use {
    pack: Option<Arc<protoseg::ClassPack>>,
    overlap: Option<f64>,
    is_fast: bool,
    looks_twice: bool,
    pub abstain: Option<f64>,
}

impl Use {
    fn new(
        pack: Option<&Bound<'_, ClassPack>>,
        abstain: Option<f64>,
        tiles: Option<Tiles>,
        [is_fast, looks_twice]: [bool; 2],
    ) -> Result<Self, Failure> {
        abstain.map_or(Ok(()), |least| check_share("abstain", least))?;
        let overlap = match tiles {
            None | Some(Tiles::Switch(false)) => None,
            Some(Tiles::Switch(true)) => Some(OVERLAP),
            Some(Tiles::Overlap(share)) if (0.0..=0.5).contains(&share) => Some(share),
            Some(Tiles::Overlap(share)) => {
                return Err(input(format!("`tiles` must be True, or an overlap from 0 to 0.5, got {share}")));
            }
        };
        if looks_twice && overlap.is_some() {
            return Err(input("`second_look` and `tiles` cannot be used together"));
        }
        let pack = pack.map(|pack| Arc::clone(&pack.get().inner));
        Ok(Self { pack, overlap, is_fast, looks_twice, abstain })
    }

    /// Whether the same segmenter serves both.
    fn is_like(&self, other: &Self) -> bool {
        let is_same_pack = match (&self.pack, &other.pack) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        };
        let own = (self.overlap, self.is_fast, self.looks_twice);
        is_same_pack && own == (other.overlap, other.is_fast, other.looks_twice)
    }
}

/// `tiles` of a prediction.
#[derive(FromPyObject)]
pub enum Tiles {
    Switch(bool),
    Overlap(f64),
}

impl Model {
    fn new(inner: protoseg::Model, origin: Origin, device: &str) -> Self {
        Self { inner, origin, device: device.to_string(), last: Mutex::new(None) }
    }

    /// What results call it.
    fn name(&self) -> &'static str {
        match self.origin {
            Origin::Box => protoseg::Model::BUILTIN,
            Origin::Demo => "the model of the demo",
            Origin::Other => "a model",
        }
    }

    /// A segmenter for this use, made once for many images.
    fn segmenter(&self, used: &Use) -> Result<Arc<Segmenter>, Failure> {
        if let Some((known, segmenter)) = &*lock(&self.last)
            && known.is_like(used)
        {
            return Ok(Arc::clone(segmenter));
        }
        let model = match used.is_fast {
            true => self.inner.with_precision(Precision::Fast),
            false => self.inner.clone(),
        };
        let mut builder = Segmenter::builder(&model).second_look(used.looks_twice);
        if let Some(pack) = &used.pack {
            builder = builder.pack(pack);
        }
        if let Some(overlap) = used.overlap {
            builder = builder.tiles(overlap);
        }
        let segmenter = Arc::new(builder.build()?);
        *lock(&self.last) = Some((used.clone(), Arc::clone(&segmenter)));
        Ok(segmenter)
    }

    /// Base rows and all rows of its classifier, as masks name them.
    fn rows(&self) -> (u16, u16) {
        let classes = self.inner.classes();
        (classes.n_base() as u16, classes.rows().len() as u16)
    }

    fn load_supports(&self, class: &str, given: Vec<Given>) -> Result<Vec<protoseg::Support>, Failure> {
        let (n_base, known) = self.rows();
        let load = |(place, given): (usize, Given)| given.load(class, place, n_base, known);
        Ok(given.into_iter().enumerate().map(load).collect::<Result<_, _>>()?)
    }

    /// Registers a set of supports beside the classes of a pack.
    fn teach(
        &self,
        py: Python<'_>,
        rules: &Rules<'_, '_>,
        gather: impl FnOnce() -> Result<SupportSet, Failure> + Send,
    ) -> Result<ClassPack, Failure> {
        let before = rules.pack.map(|pack| Arc::clone(&pack.get().inner));
        let (known, rest, refine) = (rules.known()?, rules.rest()?, rules.refine);
        let taught = work::run(py, rules.progress, |steps| {
            let set = gather()?;
            let mut pack = match before {
                Some(pack) => pack.as_ref().clone(),
                None => protoseg::ClassPack::new(&self.inner),
            };
            let mut registration = Registration::new(&self.inner)?.known(known).refine(refine);
            if let Some(rest) = rest {
                registration = registration.rest(rest);
            }
            let reports =
                registration.run(&self.inner, &mut pack, &set, &|stage, done, total| match stage {
                    RegisterStage::Looking => steps.done(done, 2 * total),
                    RegisterStage::Checking => steps.done(total + done, 2 * total),
                })?;
            Ok::<_, Failure>((pack, reports))
        })?;
        let (pack, classes) = taught?;
        let report = Some(Py::new(py, Report { classes })?);
        Ok(ClassPack { report, ..ClassPack::new(pack) })
    }
}

/// How classes are registered.
struct Rules<'a, 'py> {
    pack: Option<&'a Bound<'py, ClassPack>>,
    known: &'a str,
    rest: Option<&'a str>,
    refine: bool,
    progress: Option<&'a Py<PyAny>>,
}

impl Rules<'_, '_> {
    fn known(&self) -> Result<KnownClass, Failure> {
        match self.known {
            "refuse" => Ok(KnownClass::Refuse),
            "replace" => Ok(KnownClass::Replace),
            "extend" => Ok(KnownClass::Extend),
            other => Err(input(format!("`known` must be refuse, replace or extend, got `{other}`"))),
        }
    }

    fn rest(&self) -> Result<Option<Rest>, Failure> {
        match self.rest {
            None => Ok(None),
            Some("background") => Ok(Some(Rest::Background)),
            Some("ignore") => Ok(Some(Rest::Ignore)),
            Some(other) => Err(input(format!("`rest` must be background or ignore, got `{other}`"))),
        }
    }
}

#[pymethods]
impl Model {
    /// The model in the box: EfficientNet-Lite0 with ImageNet weights, no class but the background.
    #[new]
    #[pyo3(signature = (*, device = "cpu"))]
    fn in_the_box(py: Python<'_>, device: &str) -> Result<Self, Failure> {
        let opened = device::open(device)?;
        let model = work::run(py, None, |_| protoseg::Model::builtin_on(&opened))??;
        Ok(Self::new(model, Origin::Box, device))
    }

    /// Reads a model file, such as one that `protoseg train`, `protoseg new` or `protoseg import` wrote.
    #[classmethod]
    #[pyo3(signature = (path, *, device = "cpu"))]
    fn load(cls: &Bound<'_, PyType>, path: PathBuf, device: &str) -> Result<Self, Failure> {
        let opened = device::open(device)?;
        let model = work::run(cls.py(), None, |_| protoseg::Model::load_on(path, &opened))??;
        Ok(Self::new(model, Origin::Other, device))
    }

    /// The model of the demo, which knows 15 classes of the data set `scenes`.
    #[classmethod]
    fn demo(cls: &Bound<'_, PyType>) -> PyResult<Self> {
        let model = work::run(cls.py(), None, |_| protoseg::Model::builtin_scenes())?;
        Ok(Self::new(model, Origin::Demo, "cpu"))
    }

    /// Writes the model to a file, whole or not at all; with `half`, in half the size.
    #[pyo3(signature = (path, *, half = false))]
    fn save(&self, py: Python<'_>, path: PathBuf, half: bool) -> Result<(), Failure> {
        Ok(work::run(py, None, |_| if half { self.inner.save_half(path) } else { self.inner.save(path) })??)
    }

    /// Names of the classes that it knows without a pack.
    #[getter]
    fn classes(&self) -> Vec<&str> {
        let classes = self.inner.classes();
        classes.rows()[..classes.n_base()].iter().map(|class| class.name.as_str()).collect()
    }

    /// A short name for its weights and preprocessing. A pack fits the model whose fingerprint it carries.
    #[getter]
    fn fingerprint(&self, py: Python<'_>) -> PyResult<String> {
        work::run(py, None, |_| self.inner.fingerprint())
    }

    /// Number of trainable parameters.
    #[getter]
    fn parameters(&self) -> usize {
        self.inner.parameters()
    }

    /// Side of the square that images are fitted into.
    #[getter]
    fn size(&self) -> usize {
        self.inner.preprocess().size
    }

    /// The method, by name.
    #[getter]
    fn method(&self) -> String {
        self.inner.manifest().method.name()
    }

    /// Whether it answers one query from its supports (`find`) rather than keeping classes (`register`, `predict`).
    #[getter]
    fn is_few_shot(&self) -> bool {
        self.inner.usage().is_err()
    }

    /// What its file says of it: network, classes, method, preprocessing and training.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.inner.manifest())
    }

    /// The same weights for images of another size. Packs of this model do not fit it.
    fn with_size(&self, size: usize) -> Result<Self, Failure> {
        Ok(Self::new(self.inner.with_canvas(size)?, Origin::Other, &self.device))
    }

    /// Teaches a class, or several in a dictionary, and returns a pack with it beside the classes of `pack`. No weight
    /// changes. The pack's `report` says how good the supports are.
    ///
    /// A support is a pair of an image and a mask, or a `Support`. Images and masks are arrays, PIL images or paths. A
    /// folder or a list of files, as `protoseg register` reads it, stands for all supports of a class.
    ///
    /// `known` says what happens to a class that `pack` has: refuse, replace or extend. `rest` says what the pixels
    /// beside the class are: background, or ignore for unknown; by default background if the model knows no class, else
    /// unknown. `refine` allows supports of the model's own classes. `progress` is called with the steps that are done,
    /// and their number.
    #[pyo3(signature = (classes, supports = None, *, pack = None, known = "refuse", rest = None, refine = false, progress = None))]
    #[allow(clippy::too_many_arguments)] // keywords of Python
    fn register(
        &self,
        py: Python<'_>,
        classes: &Bound<'_, PyAny>,
        supports: Option<&Bound<'_, PyAny>>,
        pack: Option<&Bound<'_, ClassPack>>,
        known: &str,
        rest: Option<&str>,
        refine: bool,
        progress: Option<Py<PyAny>>,
    ) -> Result<ClassPack, Failure> {
        let mut given: Vec<(String, Vec<Given>)> = Vec::new();
        if let Ok(name) = classes.cast::<PyString>() {
            let Some(supports) = supports else {
                return Err(input(format!(
                    "class `{name}` has no support\nhint: give a list of pairs: [(image, mask)]"
                )));
            };
            let name = name.to_string();
            given.push((name.clone(), gather(&name, supports)?));
        } else {
            let classes = classes.cast::<PyMapping>().map_err(PyErr::from)?;
            if supports.is_some() {
                return Err(input(
                    "supports are given twice\nhint: give the name of a class and its supports, or a dictionary",
                ));
            }
            for item in classes.items()? {
                let (name, supports): (String, Bound<'_, PyAny>) = item.extract()?;
                given.push((name.clone(), gather(&name, &supports)?));
            }
        }
        let rules = Rules { pack, known, rest, refine, progress: progress.as_ref() };
        self.teach(py, &rules, || {
            let mut set = SupportSet::new();
            for (class, given) in given {
                set.add(&class, self.load_supports(&class, given)?)?;
            }
            Ok(set)
        })
    }

    /// Teaches the classes of a labelled data set that the model does not know, from at most `shots` images each. If the
    /// data set has folds, these are the novel classes of `fold`, drawn by the benchmark's rules. The other keywords are
    /// those of `register`.
    #[pyo3(signature = (dataset, *, shots = None, fold = 0, seed = 123, pack = None, known = "refuse", rest = None, progress = None))]
    #[allow(clippy::too_many_arguments)] // keywords of Python
    fn register_dataset(
        &self,
        py: Python<'_>,
        dataset: &Bound<'_, Dataset>,
        shots: Option<usize>,
        fold: usize,
        seed: u64,
        pack: Option<&Bound<'_, ClassPack>>,
        known: &str,
        rest: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> Result<ClassPack, Failure> {
        if shots == Some(0) {
            return Err(input("`shots` must be at least 1, got 0"));
        }
        let rules = Rules { pack, known, rest, refine: false, progress: progress.as_ref() };
        let dataset = dataset.get();
        self.teach(py, &rules, || {
            let benchmark = dataset.open()?;
            let has_novel = !benchmark.fold(fold)?.novel().is_empty();
            let (usual, min_pixels) =
                if has_novel { (1, benchmark.min_support_pixels) } else { (MOST_SHOTS, 1) };
            let draw = SupportDraw { n_shots: shots.unwrap_or(usual), seed, min_pixels };
            let mut set = SupportSet::new();
            match has_novel {
                true => set.add_drawn(benchmark, fold, draw)?,
                false => set.add_labelled(benchmark, draw, &self.inner)?,
            }
            if let Some(shots) = shots {
                set.expect(shots);
            }
            Ok(set)
        })
    }

    /// What the model, with the classes of `pack`, makes of an image: an array, a PIL image or a path.
    ///
    /// Pixels below a confidence of `abstain` get no label. `tiles` looks at large images in pieces at full resolution;
    /// a number is the share by which they overlap. `fast` multiplies in lower precision. `second_look` looks at the
    /// image again, mirrored and larger: somewhat better for about three times the work.
    #[pyo3(signature = (image, pack = None, *, abstain = None, tiles = None, fast = false, second_look = false))]
    #[allow(clippy::too_many_arguments)] // keywords of Python
    fn predict(
        &self,
        py: Python<'_>,
        image: &Bound<'_, PyAny>,
        pack: Option<&Bound<'_, ClassPack>>,
        abstain: Option<f64>,
        tiles: Option<Tiles>,
        fast: bool,
        second_look: bool,
    ) -> Result<Prediction, Failure> {
        let used = Use::new(pack, abstain, tiles, [fast, second_look])?;
        let source = Source::new(image)?;
        work::run(py, None, |steps| {
            let path = source.path().map(PathBuf::from);
            let image = source.read()?;
            let segmenter = self.segmenter(&used)?;
            let prepared = segmenter.prepare(&image);
            let prediction =
                segmenter.predict_prepared(&image, prepared, &|done, total| steps.done(done, total));
            Prediction::new(prediction, image, path, used.abstain)
        })?
    }

    /// The predictions of many images, in order, several at a time: a folder, which is searched, or anything that gives
    /// images. Each comes with its `path`. A file that cannot be read raises its error when its turn comes, and the
    /// iteration can go on; with `on_error="skip"` it is left out with a warning. The other keywords are those of
    /// `predict`.
    #[pyo3(signature = (
        images, pack = None, *, abstain = None, tiles = None, fast = false, second_look = false, on_error = "raise"
    ))]
    #[allow(clippy::too_many_arguments)] // keywords of Python
    fn predict_many(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        pack: Option<&Bound<'_, ClassPack>>,
        abstain: Option<f64>,
        tiles: Option<Tiles>,
        fast: bool,
        second_look: bool,
        on_error: &str,
    ) -> Result<Predictions, Failure> {
        let skips = match on_error {
            "raise" => false,
            "skip" => true,
            other => return Err(input(format!("`on_error` must be raise or skip, got `{other}`"))),
        };
        let used = Use::new(pack, abstain, tiles, [fast, second_look])?;
        let queue = Queue::new(images)?;
        let segmenter = work::run(py, None, |_| self.segmenter(&used))??;
        Ok(Predictions::new(segmenter, queue, used.abstain, skips))
    }

    /// Where the class that the supports show is in an image. For few-shot systems, which keep no classes; id 1 is the
    /// class.
    #[pyo3(name = "find")]
    fn find_class(
        &self,
        py: Python<'_>,
        name: &str,
        image: &Bound<'_, PyAny>,
        supports: &Bound<'_, PyAny>,
    ) -> Result<Prediction, Failure> {
        let (source, given) = (Source::new(image)?, gather(name, supports)?);
        work::run(py, None, |_| {
            let path = source.path().map(PathBuf::from);
            let query = source.read()?;
            let load = |(place, given): (usize, Given)| given.load(name, place, 0, 0);
            let supports = given.into_iter().enumerate().map(load).collect::<Result<Vec<_>, _>>()?;
            let prediction = self.inner.find(name, &query, &supports)?;
            Prediction::new(prediction, query, path, None)
        })?
    }

    /// Scores the model on a labelled data set, as `protoseg eval` does.
    ///
    /// With a pack, or on a data set without folds, it is what the model knows and what the pack adds. On a fold, its
    /// novel classes are taught from `shots` drawn supports each, once per seed. For a model without base classes, every
    /// class is taught by itself. `limit` evaluates fewer images; `progress` is called with the images that are done, and
    /// their number.
    #[pyo3(signature = (dataset, pack = None, *, fold = None, shots = vec![1, 5], seeds = vec![123], protocol = "exact", limit = None, progress = None))]
    #[allow(clippy::too_many_arguments)] // keywords of Python
    fn evaluate(
        &self,
        py: Python<'_>,
        dataset: &Bound<'_, Dataset>,
        pack: Option<&Bound<'_, ClassPack>>,
        fold: Option<usize>,
        shots: Vec<usize>,
        seeds: Vec<u64>,
        protocol: &str,
        limit: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> Result<Evaluation, Failure> {
        let plan = evaluation::Request {
            model: &self.inner,
            name: self.name().to_string(),
            pack: pack.map(|pack| Arc::clone(&pack.get().inner)),
            fold,
            shots,
            seeds,
            protocol: protocol.to_string(),
            limit,
        };
        let dataset = dataset.get();
        work::run(py, progress.as_ref(), |steps| plan.run(dataset.benchmark(), steps))?
    }

    /// Asks a few-shot system episodes of a labelled data set, as `protoseg episodes` does, and returns its class mIoU
    /// and FB-IoU.
    ///
    /// The episodes ask for the novel classes of `fold`, by default of the fold that the model was trained on. They are
    /// drawn and scored in a published `style`: pfenet, hsnet or panet. `shots` are the numbers of supports per episode,
    /// all on the same episodes. `episodes` per run, `runs`, the `seed` of the first run and `min_pixels`, the fewest
    /// pixels of its class in an image, are by default the style's. `progress` is called with the episodes that are done,
    /// and their number.
    #[pyo3(signature = (dataset, *, fold = None, style = "pfenet", shots = vec![1, 5], episodes = None, runs = None, seed = None, min_pixels = None, progress = None))]
    #[allow(clippy::too_many_arguments)] // keywords of Python
    fn evaluate_episodes(
        &self,
        py: Python<'_>,
        dataset: &Bound<'_, Dataset>,
        fold: Option<usize>,
        style: &str,
        shots: Vec<usize>,
        episodes: Option<usize>,
        runs: Option<usize>,
        seed: Option<u64>,
        min_pixels: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> Result<Evaluation, Failure> {
        let style: EpisodeStyle = style
            .parse()
            .map_err(|error: <EpisodeStyle as std::str::FromStr>::Err| input(error.to_string()))?;
        let fold = fold.or(self.inner.manifest().training.fold).unwrap_or(0);
        let source = EpisodeSource::Drawn { episodes, runs, seed, min_pixels };
        let plan = EpisodePlan { shots, source, ..EpisodePlan::published(fold, style) };
        let dataset = dataset.get();
        work::run(py, progress.as_ref(), |steps| {
            evaluation::ask_episodes(&self.inner, self.name(), &plan, dataset.benchmark(), steps)
        })?
    }

    fn __repr__(&self) -> String {
        let classes = self.inner.classes();
        let named = classes.names(ClassRole::Base).count();
        let knows = match named {
            0 => "no class of its own".to_string(),
            named => count(named, "class"),
        };
        format!(
            "<Model {}, {}, {} px, {knows}>",
            self.inner.config().describe(),
            self.inner.manifest().method.name(),
            self.inner.preprocess().size
        )
    }

    #[allow(clippy::type_complexity)] // pickle's form
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> Result<(Bound<'py, PyAny>, (&'static str, String, Bound<'py, PyBytes>)), Failure> {
        let (py, model) = (slf.py(), slf.get());
        let (kind, bytes) = match model.origin {
            Origin::Box => ("box", Vec::new()),
            Origin::Demo => ("demo", Vec::new()),
            Origin::Other => ("file", work::run(py, None, |_| model.inner.to_bytes())??),
        };
        let restore = py.get_type::<Self>().getattr("_restore")?;
        Ok((restore, (kind, model.device.clone(), PyBytes::new(py, &bytes))))
    }

    #[classmethod]
    fn _restore(cls: &Bound<'_, PyType>, kind: &str, device: &str, bytes: Vec<u8>) -> Result<Self, Failure> {
        let py = cls.py();
        match kind {
            "box" => Self::in_the_box(py, device),
            "demo" => Ok(Self::demo(cls)?),
            _ => {
                let opened = device::open(device)?;
                let model = work::run(py, None, |_| protoseg::Model::from_bytes(bytes, &opened))??;
                Ok(Self::new(model, Origin::Other, device))
            }
        }
    }
}
