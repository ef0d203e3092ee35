//! Training.

use std::{
    io,
    path::{Path, PathBuf},
};

use protoseg::{
    recipes,
    train::{Event, Outcome, Plan, Recorder, Run, RunFolder, Shown, Watch},
};
use pyo3::{prelude::*, types::PyDict};
use serde::Deserialize;
use toml::{Table, Value};

use crate::{
    error::{Failure, input, internal},
    to_python,
    work::{self, Steps},
};

/// What pickle makes a result from again: a function, and the fields in order.
type Reduced<'py> = (Bound<'py, PyAny>, (PathBuf, usize, bool, Option<PathBuf>, Option<PathBuf>));

/// How a run of training ended.
#[pyclass(frozen, module = "protoseg", get_all)]
pub struct TrainingResult {
    /// The run's folder.
    folder: PathBuf,
    /// Steps that are done.
    step: usize,
    /// Whether all steps are done. If not, `resume=True` goes on.
    finished: bool,
    /// The best model by validation, if the run is finished.
    best: Option<PathBuf>,
    /// The model after the last step, if the run is finished.
    last: Option<PathBuf>,
}

#[pymethods]
impl TrainingResult {
    fn __repr__(&self) -> String {
        let how = if self.finished { "finished" } else { "stopped" };
        format!("<TrainingResult {how} after step {}: {}>", self.step, self.folder.display())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let Self { folder, step, finished, best, last } = slf.get();
        let restore = slf.py().get_type::<Self>().getattr("_restore")?;
        Ok((restore, (folder.clone(), *step, *finished, best.clone(), last.clone())))
    }

    #[staticmethod]
    fn _restore(
        folder: PathBuf,
        step: usize,
        finished: bool,
        best: Option<PathBuf>,
        last: Option<PathBuf>,
    ) -> Self {
        Self { folder, step, finished, best, last }
    }
}

/// Trains a model in the folder `out`, as `protoseg train` does.
///
/// `recipe` is a name of `recipes()` or a `.toml` file. `data` is a data set as `Dataset` takes it. `settings` change
/// single values of the recipe, by the names that the recipe uses: `{"training.epochs": 3}`. `callback` is called with a
/// dictionary for every event: `event` is start, step, epoch, validation, checkpoint, warning or end. If it returns
/// False, the run is saved and stops. On an exception and on Ctrl-C the run is saved, too, before they are raised.
/// `resume` goes on with such a run; `force` starts a new one in its place.
#[pyfunction]
#[pyo3(signature = (out, data = None, *, recipe = None, settings = None, root = None, callback = None, resume = false, force = false))]
#[allow(clippy::too_many_arguments)] // keywords of Python
pub fn train(
    py: Python<'_>,
    out: PathBuf,
    data: Option<PathBuf>,
    recipe: Option<PathBuf>,
    settings: Option<&Bound<'_, PyDict>>,
    root: Option<PathBuf>,
    callback: Option<Py<PyAny>>,
    resume: bool,
    force: bool,
) -> Result<TrainingResult, Failure> {
    let settings = settings.map(read_settings).transpose()?.unwrap_or_default();
    let is_planned = data.is_some() || recipe.is_some() || !settings.is_empty();
    if resume && (is_planned || force) {
        return Err(input(
            "a run goes on as it was planned\nhint: give only `out` and `callback` with `resume`",
        ));
    }
    work::run(py, None, |steps| {
        let look = |done: usize, total: usize| steps.done(done, total);
        let run = match resume {
            true => Run::resume(&out, &look)?,
            false => {
                let plan = make_plan(recipe.as_deref(), data.as_deref(), root, settings)?;
                let start = if force { Run::restart } else { Run::start };
                start(plan, &out, &look)?
            }
        };
        let recorder = Recorder::start(&run, concat!("Python package ", env!("CARGO_PKG_VERSION")))?;
        let mut watch = Follow { recorder, callback: callback.as_ref(), steps, is_over: false };
        let outcome = run.train(&mut watch)?;
        let folder = RunFolder::new(&out);
        let (step, finished) = match outcome {
            Outcome::Finished(end) => (end.step, true),
            Outcome::Stopped { step } => (step, false),
        };
        let model = |path: PathBuf| finished.then_some(path);
        let (best, last) = (model(folder.best()), model(folder.last()));
        Ok(TrainingResult { folder: out, step, finished, best, last })
    })?
}

/// Records a run and tells Python of it.
struct Follow<'a> {
    recorder: Recorder,
    callback: Option<&'a Py<PyAny>>,
    steps: &'a Steps<'a>,
    /// The callback has asked to stop.
    is_over: bool,
}

impl Watch for Follow<'_> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.recorder.event(event)?;
        // After an exception nothing more is told.
        let Some(callback) = self.callback.filter(|_| !self.steps.is_ended()) else { return Ok(()) };
        let told = Python::attach(|py| -> PyResult<bool> {
            let answer = callback.bind(py).call1((to_python(py, event)?,))?;
            Ok(answer.extract::<bool>().is_ok_and(|goes_on| !goes_on))
        });
        match told {
            Ok(is_over) => self.is_over |= is_over,
            Err(error) => self.steps.end(error),
        }
        Ok(())
    }

    fn shown(&mut self, epoch: usize, samples: &[Shown]) -> io::Result<()> {
        self.recorder.shown(epoch, samples)
    }

    fn stop(&self) -> bool {
        self.is_over || self.steps.is_ended()
    }
}

/// The recipe, with what is set otherwise.
fn make_plan(
    recipe: Option<&Path>,
    data: Option<&Path>,
    root: Option<PathBuf>,
    settings: Table,
) -> Result<Plan, Failure> {
    let named = recipe.and_then(|recipe| recipes::training(recipe.to_str()?));
    let mut plan = match (recipe, named) {
        (Some(name), Some(text)) => Plan::parse(text, name)?,
        (Some(path), None) => Plan::read(path)?,
        (None, _) => Plan::default(),
    };
    if let Some(data) = data {
        plan.data.source = data.to_string_lossy().into_owned();
    }
    plan.data.root = root.or(plan.data.root);
    let mut table = Table::try_from(&plan).map_err(internal)?;
    merge(&mut table, settings);
    let plan = Plan::deserialize(table).map_err(|error| {
        input(format!("the settings are not those of a plan: {}", error.to_string().trim_end()))
    })?;
    plan.check()?;
    Ok(plan)
}

/// Settings by dotted names or in dictionaries within dictionaries.
fn read_settings(settings: &Bound<'_, PyDict>) -> Result<Table, Failure> {
    let py = settings.py();
    let keywords = PyDict::new(py);
    // A path becomes its text.
    keywords.set_item("default", py.get_type::<pyo3::types::PyString>())?;
    let json: String = py.import("json")?.call_method("dumps", (settings,), Some(&keywords))?.extract()?;
    let flat: Table = serde_json::from_str(&json).map_err(|error| {
        input(format!("the settings cannot be used: {error}\nhint: leave out what is None"))
    })?;
    let mut table = Table::new();
    for (name, value) in flat {
        let nest = |value: Value, part: &str| Value::Table(Table::from_iter([(part.to_string(), value)]));
        if let Value::Table(inner) = name.rsplit('.').fold(value, nest) {
            merge(&mut table, inner);
        }
    }
    Ok(table)
}

/// Puts the values of `from` into `table`, table by table.
fn merge(table: &mut Table, from: Table) {
    for (name, value) in from {
        match (table.get_mut(&name), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => drop(table.insert(name, value)),
        }
    }
}
