//! Errors of the library as Python exceptions, with the same words. Hints that name a part of the Python API are added
//! here.

use std::{error::Error, io};

use protoseg::{
    class_pack::PackError,
    config::ConfigError,
    data::{DataError, SupportSizeError},
    device::DeviceError,
    episodes::EpisodesError,
    evaluate::EvaluateError,
    from_encoder::FromEncoderError,
    model::ModelError,
    register::RegisterError,
    train::{PlanError, TrainError},
    weights::WeightsError,
};
use pyo3::prelude::*;

/// The exceptions of the package.
mod python {
    pyo3::import_exception!(protoseg._errors, InputError);
    pyo3::import_exception!(protoseg._errors, DataError);
    pyo3::import_exception!(protoseg._errors, MissingFileError);
    pyo3::import_exception!(protoseg._errors, ModelError);
    pyo3::import_exception!(protoseg._errors, PackError);
    pyo3::import_exception!(protoseg._errors, RegisterError);
    pyo3::import_exception!(protoseg._errors, EvaluateError);
    pyo3::import_exception!(protoseg._errors, TrainError);
    pyo3::import_exception!(protoseg._errors, InternalError);
}

/// An exception to raise. Errors of the library become one by `?`.
pub struct Failure(PyErr);

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

/// An argument that cannot be used.
pub fn input(message: impl Into<String>) -> Failure {
    Failure(python::InputError::new_err(message.into()))
}

/// A bug.
pub fn internal(reason: impl std::fmt::Display) -> PyErr {
    python::InternalError::new_err(format!("this is a bug: {reason}\nhint: please report it"))
}

/// A model whose scores are not numbers.
pub fn not_finite() -> Failure {
    Failure(python::ModelError::new_err(
        "the model's scores for this image are not numbers\n\
         hint: its weights are damaged, or far too large; train or download it again",
    ))
}

/// The words of an error and a hint in terms of Python.
fn with_hint(error: &dyn Error, hint: Option<&str>) -> String {
    hint.map_or_else(|| error.to_string(), |hint| format!("{error}\nhint: {hint}"))
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        let is_missing = matches!(&error, DataError::Missing { .. });
        let hint = match &error {
            DataError::NeedsRoot { .. } => Some("Dataset(NAME, root=FOLDER)"),
            _ => None,
        };
        let words = with_hint(&error, hint);
        Self(match is_missing {
            true => python::MissingFileError::new_err(words),
            false => python::DataError::new_err(words),
        })
    }
}

impl From<SupportSizeError> for Failure {
    fn from(error: SupportSizeError) -> Self {
        DataError::from(error).into()
    }
}

impl From<WeightsError> for Failure {
    fn from(error: WeightsError) -> Self {
        let is_missing =
            matches!(&error, WeightsError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound);
        Self(match is_missing {
            true => python::MissingFileError::new_err(error.to_string()),
            false => python::ModelError::new_err(error.to_string()),
        })
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        input(error.to_string())
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        input(error.to_string())
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let hint = match &error {
            ModelError::Weights(_) | ModelError::Config(_) => None,
            ModelError::NoManifest { .. } => {
                Some("make a model with `protoseg new --encoder`, `protoseg import` or `protoseg.train`")
            }
            ModelError::Episodic { .. } => Some("use `model.find`; `model.evaluate_episodes` evaluates it"),
            _ => None,
        };
        match error {
            ModelError::Weights(error) => error.into(),
            ModelError::Config(error) => error.into(),
            error => Self(python::ModelError::new_err(with_hint(&error, hint))),
        }
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        let hint = match &error {
            PackError::Twice(_) => Some(
                "give it more supports with `known=\"extend\"`, replace it with `known=\"replace\"`, or choose \
                 another name",
            ),
            PackError::Format { .. } => Some("make one with `model.register`"),
            _ => None,
        };
        match error {
            PackError::Weights(error @ WeightsError::Read { .. }) => error.into(),
            error => Self(python::PackError::new_err(with_hint(&error, hint))),
        }
    }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Data(error) => error.into(),
            RegisterError::Pack(error) => error.into(),
            RegisterError::Model(error) => error.into(),
            error => {
                let hint = match &error {
                    RegisterError::Known { .. } => {
                        Some("choose another name, or refine the model's class with `refine=True`")
                    }
                    _ => None,
                };
                Self(python::RegisterError::new_err(with_hint(&error, hint)))
            }
        }
    }
}

impl From<EvaluateError> for Failure {
    fn from(error: EvaluateError) -> Self {
        match error {
            EvaluateError::Data(error) => error.into(),
            EvaluateError::Register(error) => error.into(),
            EvaluateError::Model(error) => error.into(),
            error => {
                let hint = match &error {
                    EvaluateError::NotFed { .. } => Some("`model.evaluate_episodes` evaluates it"),
                    _ => None,
                };
                Self(python::EvaluateError::new_err(with_hint(&error, hint)))
            }
        }
    }
}

impl From<EpisodesError> for Failure {
    fn from(error: EpisodesError) -> Self {
        match error {
            EpisodesError::Data(error) => error.into(),
            EpisodesError::Model(error) => error.into(),
            EpisodesError::Shots { .. } | EpisodesError::Runs { .. } => input(error.to_string()),
            error => Self(python::EvaluateError::new_err(error.to_string())),
        }
    }
}

impl From<FromEncoderError> for Failure {
    fn from(error: FromEncoderError) -> Self {
        match error {
            FromEncoderError::Data(error) => error.into(),
            FromEncoderError::Model(error) => error.into(),
            error => Self(python::TrainError::new_err(error.to_string())),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Read(error) => error.into(),
            error => Self(python::TrainError::new_err(error.to_string())),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Plan(error) => error.into(),
            TrainError::Data(error) => error.into(),
            TrainError::Device(error) => error.into(),
            TrainError::Weights(error) => error.into(),
            TrainError::Model(error) => error.into(),
            TrainError::FromEncoder(error) => error.into(),
            TrainError::Register(error) => error.into(),
            error => {
                let hint = match &error {
                    TrainError::Exists { .. } => Some(
                        "continue it with `resume=True`, replace it with `force=True`, or choose another folder",
                    ),
                    TrainError::Config(error) if error.key == "data.source" => Some("choose one with `data`"),
                    _ => None,
                };
                Self(python::TrainError::new_err(with_hint(&error, hint)))
            }
        }
    }
}
