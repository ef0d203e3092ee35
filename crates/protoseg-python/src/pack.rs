//! Class packs.

use std::{path::PathBuf, sync::Arc};

use protoseg::core::count;
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyBytes, PyType},
};

use crate::{error::Failure, report::Report, work};

/// Classes that a model was taught. A pack never changes: its methods return other packs.
#[pyclass(frozen, eq, module = "protoseg")]
pub struct ClassPack {
    pub inner: Arc<protoseg::ClassPack>,
    pub report: Option<Py<Report>>,
}

impl PartialEq for ClassPack {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl ClassPack {
    pub fn new(pack: protoseg::ClassPack) -> Self {
        Self { inner: Arc::new(pack), report: None }
    }

    /// The same pack after a change.
    fn changed(
        &self,
        change: impl FnOnce(&mut protoseg::ClassPack) -> Result<(), protoseg::class_pack::PackError>,
    ) -> Result<Self, Failure> {
        let mut pack = self.inner.as_ref().clone();
        change(&mut pack)?;
        Ok(Self::new(pack))
    }
}

#[pymethods]
impl ClassPack {
    /// Reads a pack from a file, such as one that `protoseg register` wrote.
    #[classmethod]
    fn load(cls: &Bound<'_, PyType>, path: PathBuf) -> Result<Self, Failure> {
        Ok(Self::new(work::run(cls.py(), None, |_| protoseg::ClassPack::load(path))??))
    }

    /// Writes the pack to a file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> Result<(), Failure> {
        Ok(work::run(py, None, |_| self.inner.save(path))??)
    }

    /// Names of its classes, in order.
    #[getter]
    fn classes(&self) -> Vec<&str> {
        self.inner.classes().iter().map(|class| class.name.as_str()).collect()
    }

    /// Fingerprint of the model that it is for.
    #[getter]
    fn model(&self) -> &str {
        self.inner.model()
    }

    /// What registration said of the supports; None for a pack from a file.
    #[getter]
    fn report(&self, py: Python<'_>) -> Option<Py<Report>> {
        self.report.as_ref().map(|report| report.clone_ref(py))
    }

    /// The supports of a class: the name of each image and the pixels of the class in it.
    fn supports(&self, name: &str) -> Result<Vec<(&str, u64)>, Failure> {
        let class = self.inner.class(name).map_err(|error| PyKeyError::new_err(error.to_string()))?;
        Ok(class.shots.iter().map(|shot| (shot.image.as_str(), shot.pixels)).collect())
    }

    /// The pack without a class.
    fn without(&self, name: &str) -> Result<Self, Failure> {
        self.changed(|pack| pack.remove(name).map(drop))
    }

    /// The pack with another name for a class.
    fn renamed(&self, name: &str, new: &str) -> Result<Self, Failure> {
        self.changed(|pack| pack.rename(name, new))
    }

    /// The pack with a colour, (red, green, blue) from 0 to 255, for a class.
    fn recolored(&self, name: &str, color: [u8; 3]) -> Result<Self, Failure> {
        self.changed(|pack| pack.recolor(name, color))
    }

    /// The classes of both packs, which must be the same model's: `pack | other`.
    fn __or__(&self, other: &Bound<'_, Self>) -> Result<Self, Failure> {
        self.changed(|pack| pack.merge(other.get().inner.as_ref().clone()))
    }

    fn __len__(&self) -> usize {
        self.inner.classes().len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.inner.class(name).is_ok()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.classes().into_pyobject(py)?.try_iter()?.into_any())
    }

    fn __repr__(&self) -> String {
        let class = |class: &protoseg::class_pack::PackClass| {
            format!("{} ({})", class.name, count(class.shots.len(), "support"))
        };
        let classes: Vec<String> = self.inner.classes().iter().map(class).collect();
        format!("<ClassPack for model {}: {}>", self.inner.model(), classes.join(", "))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> Result<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,)), Failure> {
        let py = slf.py();
        let bytes = slf.get().inner.to_bytes()?;
        Ok((py.get_type::<Self>().getattr("_from_bytes")?, (PyBytes::new(py, &bytes),)))
    }

    #[staticmethod]
    fn _from_bytes(bytes: Vec<u8>) -> Result<Self, Failure> {
        Ok(Self::new(protoseg::ClassPack::from_bytes(bytes)?))
    }
}
