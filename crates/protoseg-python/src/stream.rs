//! Predictions of many images, several at a time, in the order of the images.
//!
//! A worker is asked for one image more whenever one is taken. No worker ever waits, so that those who take predictions
//! can use the same threads meanwhile.

use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
};

use protoseg::{Segmenter, data::find_pictures};
use pyo3::{exceptions::PyUserWarning, prelude::*, sync::MutexExt, types::PyIterator};

use crate::{
    error::{Failure, internal},
    image::{Source, path},
    prediction::Prediction,
    work::{PATIENCE, panic_message, pool},
};

/// The images that are still to come.
pub enum Queue {
    Files(VecDeque<PathBuf>),
    Python(Py<PyIterator>),
}

impl Queue {
    /// The images of a folder, or those that an iterable gives.
    pub fn new(images: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        match path(images) {
            Some(folder) => Ok(Self::Files(find_pictures(&folder)?.into())),
            None => Ok(Self::Python(images.try_iter()?.unbind())),
        }
    }

    fn next(&mut self, py: Python<'_>) -> Option<Result<Source, Failure>> {
        match self {
            Self::Files(files) => files.pop_front().map(|path| Ok(Source::File(path))),
            Self::Python(images) => {
                let image = images.bind(py).clone().next()?;
                Some(image.map_err(Failure::from).and_then(|image| Source::new(&image)))
            }
        }
    }
}

/// Iterates over predictions.
#[pyclass(frozen, module = "protoseg")]
pub struct Predictions {
    segmenter: Arc<Segmenter>,
    abstain: Option<f64>,
    skips: bool,
    is_dropped: Arc<AtomicBool>,
    state: Mutex<State>,
}

struct State {
    queue: Queue,
    /// Images that were given to workers.
    asked: usize,
    /// Predictions that were taken.
    taken: usize,
    is_over: bool,
    done: BTreeMap<usize, Result<Prediction, Failure>>,
    sender: Sender<(usize, Result<Prediction, Failure>)>,
    receiver: Receiver<(usize, Result<Prediction, Failure>)>,
}

impl Predictions {
    pub fn new(segmenter: Arc<Segmenter>, queue: Queue, abstain: Option<f64>, skips: bool) -> Self {
        let (sender, receiver) = channel();
        let done = BTreeMap::new();
        let state = State { queue, asked: 0, taken: 0, is_over: false, done, sender, receiver };
        let (is_dropped, state) = (Arc::new(AtomicBool::new(false)), Mutex::new(state));
        Self { segmenter, abstain, skips, is_dropped, state }
    }

    /// Gives images to workers until enough are on their way.
    fn ask(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let pool = pool()?;
        // One in work and one to come for every thread.
        let most = 2 * pool.current_num_threads();
        while !state.is_over && state.asked - state.taken < most {
            let place = state.asked;
            let Some(source) = state.queue.next(py) else {
                state.is_over = true;
                break;
            };
            state.asked += 1;
            let source = match source {
                Ok(source) => source,
                Err(failure) => {
                    state.done.insert(place, Err(failure));
                    continue;
                }
            };
            let (sender, is_dropped) = (state.sender.clone(), Arc::clone(&self.is_dropped));
            let (segmenter, abstain) = (Arc::clone(&self.segmenter), self.abstain);
            pool.spawn(move || {
                if !is_dropped.load(Ordering::Relaxed) {
                    let work = AssertUnwindSafe(|| predict(&segmenter, source, abstain));
                    let made = catch_unwind(work)
                        .unwrap_or_else(|panic| Err(internal(panic_message(&*panic)).into()));
                    // Nobody may be left to take it.
                    let _ = sender.send((place, made));
                }
            });
        }
        Ok(())
    }
}

fn predict(segmenter: &Segmenter, source: Source, abstain: Option<f64>) -> Result<Prediction, Failure> {
    let path = source.path().map(PathBuf::from);
    let image = source.read()?;
    let prediction = segmenter.predict(&image);
    Ok(Prediction::new(prediction, image, path, abstain)?.with_labels())
}

impl State {
    /// The prediction whose turn it is, as soon as it is there.
    fn take(&mut self, py: Python<'_>) -> PyResult<Option<Result<Prediction, Failure>>> {
        while self.taken < self.asked {
            if let Some(made) = self.done.remove(&self.taken) {
                self.taken += 1;
                return Ok(Some(made));
            }
            let receiver = &mut self.receiver;
            match py.detach(move || receiver.recv_timeout(PATIENCE)) {
                Ok((place, made)) => drop(self.done.insert(place, made)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Err(internal("a worker is gone")),
            }
        }
        Ok(None)
    }
}

#[pymethods]
impl Predictions {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Prediction>, Failure> {
        // Another thread of Python may be in here without the GIL.
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        loop {
            self.ask(py, &mut state)?;
            match state.take(py)? {
                None => return Ok(None),
                Some(Err(failure)) if self.skips => {
                    let error = PyErr::from(failure);
                    // Ctrl-C and the like are no fault of an image.
                    if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
                        return Err(error.into());
                    }
                    let text = format!("left out: {}", error.value(py));
                    PyErr::warn(
                        py,
                        &py.get_type::<PyUserWarning>(),
                        &std::ffi::CString::new(text.replace('\0', "")).unwrap_or_default(),
                        1,
                    )?;
                }
                Some(made) => return made.map(Some),
            }
        }
    }
}

impl Drop for Predictions {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
    }
}
