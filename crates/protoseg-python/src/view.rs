//! What the library holds, seen by numpy without a copy.

use std::sync::Arc;

use protoseg::{Image, Prediction};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

/// Where an array's values lie, for numpy. numpy keeps this object as long as the array lives, and this object keeps the
/// values, which never change.
#[pyclass(frozen, module = "protoseg._protoseg", name = "_View")]
pub struct View(Viewed);

enum Viewed {
    Labels(Arc<Prediction>),
    Confidence(Arc<Prediction>),
    Image(Arc<Image>),
}

#[pymethods]
impl View {
    /// numpy's array interface, version 3.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &self.0 {
            Viewed::Labels(of) => interface(py, &of.labels().data, "u2", &[of.height(), of.width()]),
            Viewed::Confidence(of) => interface(py, of.confidence(), "f4", &[of.height(), of.width()]),
            Viewed::Image(image) => interface(py, &image.data, "u1", &[image.height, image.width, 3]),
        }
    }
}

/// The labels of a prediction, which must be computed.
pub fn labels<'py>(py: Python<'py>, of: &Arc<Prediction>) -> PyResult<Bound<'py, PyAny>> {
    array(py, Viewed::Labels(Arc::clone(of)))
}

/// The confidence of a prediction, which must be computed.
pub fn confidence<'py>(py: Python<'py>, of: &Arc<Prediction>) -> PyResult<Bound<'py, PyAny>> {
    array(py, Viewed::Confidence(Arc::clone(of)))
}

pub fn image<'py>(py: Python<'py>, of: &Arc<Image>) -> PyResult<Bound<'py, PyAny>> {
    array(py, Viewed::Image(Arc::clone(of)))
}

fn array(py: Python<'_>, viewed: Viewed) -> PyResult<Bound<'_, PyAny>> {
    py.import("numpy")?.call_method1("asarray", (View(viewed),))
}

/// Values as numpy finds them: read-only, line by line.
pub fn interface<'py, T>(
    py: Python<'py>,
    values: &[T],
    kind: &str,
    shape: &[usize],
) -> PyResult<Bound<'py, PyDict>> {
    let order = if cfg!(target_endian = "big") { '>' } else { '<' };
    let interface = PyDict::new(py);
    interface.set_item("version", 3)?;
    interface.set_item("typestr", format!("{order}{kind}"))?;
    interface.set_item("shape", PyTuple::new(py, shape)?)?;
    interface.set_item("data", (values.as_ptr() as usize, true))?;
    Ok(interface)
}
