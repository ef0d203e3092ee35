//! Labelled data sets.

use std::{path::PathBuf, sync::Arc};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2, PyUntypedArray};
use protoseg::{Image, core::IdMap, data::Benchmark};
use pyo3::{exceptions::PyIndexError, prelude::*, types::PyDict};

use crate::{
    error::{Failure, input},
    image::from_array,
    view, work,
};

/// What pickle makes a data set from again: a function, and the source and root that it is given.
type Reduced<'py> = (Bound<'py, PyAny>, (String, Option<PathBuf>));

/// What pickle makes a sample from again: a function, and the name and the arrays that it is given.
type ReducedSample<'py> = (Bound<'py, PyAny>, (String, Bound<'py, PyAny>, Bound<'py, PyAny>));

/// A labelled data set: a folder in one of the layouts of docs/formats.md, a `.toml` file, or a benchmark by name with
/// its folder. `scenes` is in the package.
#[pyclass(frozen, module = "protoseg")]
pub struct Dataset {
    source: String,
    root: Option<PathBuf>,
    benchmark: Benchmark,
}

impl Dataset {
    pub fn benchmark(&self) -> &Benchmark {
        &self.benchmark
    }

    /// The same data set once more, for those who keep it.
    pub fn open(&self) -> Result<Benchmark, Failure> {
        Ok(Benchmark::open(&self.source, self.root.as_deref())?)
    }

    fn load(&self, py: Python<'_>, index: usize) -> Result<Sample, Failure> {
        let (image, labels) = work::run(py, None, |_| self.benchmark.dataset.load(index))??;
        let name = self.benchmark.dataset.samples()[index].name.clone();
        Ok(Sample { name, image: Arc::new(image), labels })
    }
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (source, *, root = None))]
    fn new(py: Python<'_>, source: PathBuf, root: Option<PathBuf>) -> Result<Self, Failure> {
        let source = source.to_string_lossy().into_owned();
        let benchmark = work::run(py, None, |_| Benchmark::open(&source, root.as_deref()))??;
        Ok(Self { source, root, benchmark })
    }

    #[getter]
    fn name(&self) -> &str {
        self.benchmark.dataset.name()
    }

    /// Names of the classes by their ids in the labels.
    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let classes = PyDict::new(py);
        let table = self.benchmark.dataset.classes();
        for class in table.classes() {
            classes.set_item(class.id.0, &class.name)?;
        }
        Ok(classes)
    }

    /// Names of the novel classes of every fold; empty lists if nothing says which are novel.
    #[getter]
    fn folds(&self) -> Vec<Vec<String>> {
        let table = self.benchmark.dataset.classes();
        let name = |&id| table.name(id).unwrap_or_default().to_string();
        self.benchmark.folds.iter().map(|fold| fold.novel().iter().map(name).collect()).collect()
    }

    /// Number of samples of every split.
    #[getter]
    fn splits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let splits = PyDict::new(py);
        for split in self.benchmark.dataset.splits() {
            splits.set_item(&split.name, split.samples.len())?;
        }
        Ok(splits)
    }

    /// The indices of the samples of a split, to take them by.
    fn split(&self, name: &str) -> Result<Vec<usize>, Failure> {
        Ok(self.benchmark.dataset.split(name)?.samples.clone())
    }

    fn __len__(&self) -> usize {
        self.benchmark.dataset.samples().len()
    }

    /// A sample by its place, from the end if that is negative, or by its name.
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> Result<Sample, Failure> {
        let samples = self.benchmark.dataset.samples();
        if let Ok(name) = index.extract::<String>() {
            return match samples.iter().position(|sample| sample.name == name) {
                Some(index) => self.load(py, index),
                None => Err(input(format!("data set `{}` has no sample `{name}`", self.name()))),
            };
        }
        let asked: i64 = index.extract()?;
        let place = if asked < 0 { asked + samples.len() as i64 } else { asked };
        match usize::try_from(place).ok().filter(|&place| place < samples.len()) {
            Some(place) => self.load(py, place),
            None => Err(PyIndexError::new_err(format!(
                "there is no sample {asked}: data set `{}` has {}",
                self.name(),
                samples.len()
            ))
            .into()),
        }
    }

    fn __repr__(&self) -> String {
        let dataset = &self.benchmark.dataset;
        let splits: Vec<String> =
            dataset.splits().iter().map(|split| format!("{} {}", split.name, split.samples.len())).collect();
        format!(
            "<Dataset {}: {} samples ({}), {} classes>",
            dataset.name(),
            dataset.samples().len(),
            splits.join(", "),
            dataset.classes().foreground().count()
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let dataset = slf.get();
        let restore = slf.py().get_type::<Self>().getattr("_restore")?;
        Ok((restore, (dataset.source.clone(), dataset.root.clone())))
    }

    #[staticmethod]
    fn _restore(py: Python<'_>, source: PathBuf, root: Option<PathBuf>) -> Result<Self, Failure> {
        Self::new(py, source, root)
    }
}

/// An image of a data set with its labels.
#[pyclass(frozen, module = "protoseg")]
pub struct Sample {
    name: String,
    image: Arc<Image>,
    labels: IdMap,
}

#[pymethods]
impl Sample {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// (height, width, 3), uint8, read-only.
    #[getter]
    fn image<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view::image(py, &self.image)
    }

    /// Class ids: (height, width), uint16. 65535 is "no label".
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shape = [self.labels.height, self.labels.width];
        Ok(PyArray1::from_slice(py, &self.labels.data).reshape(shape)?.into_any())
    }

    fn __repr__(&self) -> String {
        format!("<Sample {}: {} x {}>", self.name, self.image.width, self.image.height)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<ReducedSample<'py>> {
        let (py, sample) = (slf.py(), slf.get());
        let restore = py.get_type::<Self>().getattr("_restore")?;
        Ok((restore, (sample.name.clone(), sample.image(py)?, sample.labels(py)?)))
    }

    #[staticmethod]
    fn _restore(
        name: String,
        image: &Bound<'_, PyUntypedArray>,
        labels: PyReadonlyArray2<'_, u16>,
    ) -> Result<Self, Failure> {
        let labels = labels.as_array();
        let (height, width) = labels.dim();
        let labels = IdMap::new(width, height, labels.iter().copied().collect());
        Ok(Self { name, image: Arc::new(from_array(image)?), labels })
    }
}
