//! What a model makes of an image.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use numpy::{PyArray1, PyArrayMethods};
use protoseg::{
    Image,
    data::{
        mask::{encode_gray_png, encode_palette_png, encode_picture_png, encode_values_png_fast},
        write_whole,
    },
    picture::CocoDocument,
};
use pyo3::{
    exceptions::{PyAttributeError, PyKeyError, PyTypeError},
    prelude::*,
    pyclass::CompareOp,
    types::{PyBytes, PyDict},
};

use crate::{
    error::{Failure, input, not_finite},
    image::to_array,
    to_python, view, work,
};

/// What a model makes of one image. numpy takes it for the (height, width) array of its class ids, and what it lacks
/// itself (`dtype`, `max`, `astype`, ...) is that array's.
///
/// Everything is computed when it is first asked for. Arrays share memory with the prediction and are read-only:
/// `np.array(prediction)` is a copy to write to.
#[pyclass(frozen, module = "protoseg")]
pub struct Prediction {
    inner: Arc<protoseg::Prediction>,
    image: Arc<Image>,
    path: Option<PathBuf>,
}

impl Prediction {
    /// For workers: labels are computed here, so that threads of Python need not wait for a worker to see them.
    pub fn new(
        prediction: protoseg::Prediction,
        image: Image,
        path: Option<PathBuf>,
        abstain: Option<f64>,
    ) -> Result<Self, Failure> {
        if !prediction.is_finite() {
            return Err(not_finite());
        }
        let prediction = match abstain {
            Some(least) => prediction.abstain_below(least),
            None => prediction,
        };
        prediction.labels();
        Ok(Self { inner: Arc::new(prediction), image: Arc::new(image), path })
    }

    fn row(&self, class: &str) -> Result<u16, Failure> {
        let rows = self.inner.classes().rows();
        match rows.iter().position(|row| row.name == class) {
            Some(row) => Ok(row as u16),
            None => {
                let known: Vec<String> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
                Err(PyKeyError::new_err(format!(
                    "there is no class `{class}`\nhint: the classes are {}",
                    known.join(", ")
                ))
                .into())
            }
        }
    }

    fn coco(&self, file_name: &str) -> CocoDocument {
        let mut document = CocoDocument::new(self.inner.classes());
        document.push(file_name, self.inner.width(), self.inner.height(), &self.inner.regions());
        document
    }

    fn encode(&self, kind: &str) -> Option<Vec<u8>> {
        let Self { inner, image, .. } = self;
        let (width, height) = (inner.width(), inner.height());
        Some(match kind {
            "index" => encode_gray_png(inner.labels()),
            // A PNG's palette holds 256 colours; with more classes the file has numbers only.
            "palette" => encode_palette_png(inner.labels(), inner.palette().colors())
                .unwrap_or_else(|| encode_gray_png(inner.labels())),
            "confidence" => encode_values_png_fast(width, height, &inner.confidence_u8()),
            "overlay" => encode_picture_png(&inner.overlay(image)),
            _ => return None,
        })
    }
}

#[pymethods]
impl Prediction {
    /// The id of the most probable class of every pixel: (height, width), uint16. 65535 is "no label".
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view::labels(py, &self.inner)
    }

    /// The probability of that class at every pixel: (height, width), float32.
    #[getter]
    fn confidence<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        work::run(py, None, |_| self.inner.confidence().len())?;
        view::confidence(py, &self.inner)
    }

    /// Names of the classes; a class's place is its id.
    #[getter]
    fn classes(&self) -> Vec<&str> {
        self.inner.classes().rows().iter().map(|class| class.name.as_str()).collect()
    }

    /// The colour of every class, (red, green, blue) from 0 to 255.
    #[getter]
    fn colors(&self) -> Vec<(u8, u8, u8)> {
        self.inner.palette().colors().iter().map(|&[red, green, blue]| (red, green, blue)).collect()
    }

    /// The image: (height, width, 3), uint8.
    #[getter]
    fn image<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view::image(py, &self.image)
    }

    /// The file that the image was read from, if it was.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// (height, width).
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.inner.height(), self.inner.width())
    }

    /// Number of pixels without a label; 0 unless `abstain` was given.
    #[getter]
    fn abstained(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.inner.abstained())
    }

    /// Where a class is: (height, width), bool.
    fn mask<'py>(&self, py: Python<'py>, name: &str) -> Result<Bound<'py, PyAny>, Failure> {
        let row = self.row(name)?;
        let mask: Vec<bool> =
            py.detach(|| self.inner.labels().data.iter().map(|&label| label == row).collect());
        Ok(PyArray1::from_vec(py, mask).reshape([self.inner.height(), self.inner.width()])?.into_any())
    }

    /// The probability of every class at every pixel: (classes, height, width), float32.
    fn probabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let planes = work::run(py, None, |_| self.inner.probabilities())?;
        let shape = [planes.len(), self.inner.height(), self.inner.width()];
        let flat = work::run(py, None, |_| planes.concat())?;
        Ok(PyArray1::from_vec(py, flat).reshape(shape)?.into_any())
    }

    /// The image with its classes painted over it and a legend below: a (height, width, 3) array of uint8.
    fn overlay<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let overlay = work::run(py, None, |_| self.inner.overlay(&self.image))?;
        to_array(py, overlay)
    }

    /// The classes that occur, largest first: class, id, pixels and share of the image.
    fn areas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let areas = py.detach(|| self.inner.areas());
        to_python(py, &areas)
    }

    /// The region of every class as a COCO document, as `protoseg predict` writes it. Its `annotations` are what
    /// pycocotools' `loadRes` takes.
    #[pyo3(signature = (file_name = None))]
    fn to_coco<'py>(&self, py: Python<'py>, file_name: Option<String>) -> PyResult<Bound<'py, PyAny>> {
        let name = file_name
            .or_else(|| self.path.as_ref().map(|path| path.display().to_string()))
            .unwrap_or_default();
        let document = work::run(py, None, |_| self.coco(&name))?;
        to_python(py, &document)
    }

    /// The classes that occur, as a pandas DataFrame.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("pandas")?.call_method1("DataFrame", (self.areas(py)?,))
    }

    /// The region of every class but the background as `supervision.Detections`.
    fn to_supervision<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("protoseg._interop")?.call_method1("to_supervision", (slf,))
    }

    /// The same prediction without labels where the confidence is below `least`, from 0 to 1.
    fn abstain_below(&self, py: Python<'_>, least: f64) -> Result<Self, Failure> {
        check_share("least", least)?;
        let inner = work::run(py, None, |_| {
            let inner = self.inner.as_ref().clone().abstain_below(least);
            inner.labels();
            inner
        })?;
        Ok(Self { inner: Arc::new(inner), image: Arc::clone(&self.image), path: self.path.clone() })
    }

    /// A PNG: `index` (class ids as gray values), `palette`, `confidence` or `overlay`, with the same bytes as the file
    /// that `protoseg predict` writes.
    #[pyo3(signature = (kind = "index"))]
    fn to_png<'py>(&self, py: Python<'py>, kind: &str) -> Result<Bound<'py, PyBytes>, Failure> {
        let png = match kind {
            // Nothing that would need a worker.
            "index" | "palette" => py.detach(|| self.encode(kind)),
            _ => work::run(py, None, |_| self.encode(kind))?,
        };
        match png {
            Some(png) => Ok(PyBytes::new(py, &png)),
            None => Err(input(format!(
                "there is no kind `{kind}`\nhint: choose among index, palette, confidence, overlay"
            ))),
        }
    }

    /// Writes such a PNG, whole or not at all.
    #[pyo3(signature = (path, kind = "index"))]
    fn save(&self, py: Python<'_>, path: PathBuf, kind: &str) -> Result<(), Failure> {
        let png = self.to_png(py, kind)?;
        let png = png.as_bytes();
        Ok(py.detach(|| write_whole(&path, png))?)
    }

    fn _repr_png_<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>, Failure> {
        self.to_png(py, "overlay")
    }

    /// numpy's array interface to the labels, version 3.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        view::interface(py, &self.inner.labels().data, "u2", &[self.inner.height(), self.inner.width()])
    }

    /// For those who do not know that interface.
    #[pyo3(signature = (dtype = None, *, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let labels = self.labels(py)?;
        match dtype {
            Some(dtype) if !labels.getattr("dtype")?.eq(dtype)? => match copy {
                Some(false) => Err(input("labels of another dtype are a copy")),
                _ => Ok(labels.call_method1("astype", (dtype,))?),
            },
            _ if copy == Some(true) => Ok(labels.call_method0("copy")?),
            _ => Ok(labels),
        }
    }

    /// What a prediction lacks itself is its labels'.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let found = if name.starts_with('_') { None } else { self.labels(py)?.getattr_opt(name)? };
        found.ok_or_else(|| PyAttributeError::new_err(format!("a prediction has no attribute `{name}`")))
    }

    /// The height, as of an array.
    fn __len__(&self) -> usize {
        self.inner.height()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.labels(py)?.try_iter()?.into_any())
    }

    fn __contains__(&self, py: Python<'_>, label: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.labels(py)?.contains(label)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.labels(py)?.get_item(index)
    }

    /// As numpy compares arrays: pixel by pixel.
    fn __richcmp__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.labels(py)?.rich_compare(other, op)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let areas = py.detach(|| self.inner.areas());
        let areas: Vec<String> =
            areas.iter().map(|area| format!("{} {:.1} %", area.class, 100.0 * area.share)).collect();
        let (width, height) = (self.inner.width(), self.inner.height());
        Ok(format!("<Prediction {width} x {height}: {}>", areas.join(", ")))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a prediction cannot be pickled: it holds the image and the scores of all classes\n\
             hint: send its arrays, as with `np.asarray(prediction)`",
        ))
    }
}

/// Refuses what is no share.
pub fn check_share(name: &str, value: f64) -> Result<(), Failure> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(input(format!("`{name}` must be from 0 to 1, got {value}"))),
    }
}
