//! The Python module: the library's front door for Python, and the command line as a function.
//!
//! Arrays come in with one copy and go out with none, but for probabilities. Work runs without the GIL on threads of its own ([`work`]).
//! Objects never change once they are made, so they can be shared between threads of Python.

mod dataset;
mod error;
mod evaluation;
mod image;
mod model;
mod pack;
mod prediction;
mod report;
mod stream;
mod support;
mod table;
mod train;
mod view;
mod work;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use pyo3::prelude::*;
use serde::Serialize;

/// Native part of the package `protoseg`. Import that instead.
#[pymodule]
mod _protoseg {
    #[pymodule_export]
    use super::{
        dataset::{Dataset, Sample},
        decode_image,
        evaluation::Evaluation,
        main,
        model::Model,
        pack::ClassPack,
        prediction::Prediction,
        read_image, recipes,
        report::Report,
        stream::Predictions,
        train::{TrainingResult, train},
        view::View,
    };

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;
        protoseg_cli::keep_freed_memory();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Carries out a command of the command line and returns its exit code. `args` begin with the program's name.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| protoseg_cli::run(args))
}

/// Reads an image file as a (height, width, 3) array of uint8, as `predict` reads it: turned by its EXIF orientation.
#[pyfunction]
fn read_image<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let image = work::run(py, None, |_| protoseg::read_image(path))?.map_err(error::Failure::from)?;
    image::to_array(py, image)
}

/// The same for the bytes of an image file, such as one from an object store. `name` is for errors.
#[pyfunction]
#[pyo3(signature = (data, name = "image"))]
fn decode_image<'py>(py: Python<'py>, data: &[u8], name: &str) -> PyResult<Bound<'py, PyAny>> {
    let decode = |_: &work::Steps<'_>| protoseg::data::picture::decode_image(data, Path::new(name));
    let image = work::run(py, None, decode)?.map_err(error::Failure::from)?;
    image::to_array(py, image)
}

/// Names of the recipes for training that come with the package.
#[pyfunction]
fn recipes() -> Vec<&'static str> {
    protoseg::recipes::training_names().collect()
}

/// Plain data as Python has it: dictionaries, lists, numbers and strings.
fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(|error| error::internal(error.to_string()))?;
    py.import("json")?.call_method1("loads", (json,))
}
