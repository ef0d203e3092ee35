//! Predictions of many images, several at a time, in the order of the images.
//!
//! One image more is laid on the desk whenever a prediction is taken. There is a worker for every thread, which takes one
//! image after another and goes home when none is left. So no worker ever waits, and those who take predictions can use
//! the same threads meanwhile. Were every image a task of its own, a thread that waits within one image would begin another.

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
    desk: Arc<Desk>,
    skips: bool,
    state: Mutex<State>,
}

/// Where workers find images.
struct Desk {
    segmenter: Arc<Segmenter>,
    abstain: Option<f64>,
    is_dropped: AtomicBool,
    pile: Mutex<Pile>,
    sender: Sender<(usize, Result<Prediction, Failure>)>,
}

struct Pile {
    images: VecDeque<(usize, Source)>,
    workers: usize,
}

struct State {
    queue: Queue,
    /// Images that were laid on the desk.
    asked: usize,
    /// Predictions that were taken.
    taken: usize,
    is_over: bool,
    done: BTreeMap<usize, Result<Prediction, Failure>>,
    receiver: Receiver<(usize, Result<Prediction, Failure>)>,
}

impl Predictions {
    pub fn new(segmenter: Arc<Segmenter>, queue: Queue, abstain: Option<f64>, skips: bool) -> Self {
        let (sender, receiver) = channel();
        let done = BTreeMap::new();
        let state = Mutex::new(State { queue, asked: 0, taken: 0, is_over: false, done, receiver });
        let pile = Mutex::new(Pile { images: VecDeque::new(), workers: 0 });
        let desk = Desk { segmenter, abstain, is_dropped: AtomicBool::new(false), pile, sender };
        Self { desk: Arc::new(desk), skips, state }
    }

    /// Lays images on the desk until enough are on their way.
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
            match source {
                Ok(source) => {
                    let mut pile = self.desk.pile.lock().unwrap_or_else(PoisonError::into_inner);
                    pile.images.push_back((place, source));
                    if pile.workers < pool.current_num_threads() {
                        pile.workers += 1;
                        let desk = Arc::clone(&self.desk);
                        pool.spawn(move || desk.work());
                    }
                }
                Err(failure) => drop(state.done.insert(place, Err(failure))),
            }
        }
        Ok(())
    }
}

impl Desk {
    /// Takes one image after another until none is left.
    fn work(&self) {
        while let Some((place, source)) = self.next() {
            let work = AssertUnwindSafe(|| predict(&self.segmenter, source, self.abstain));
            let made =
                catch_unwind(work).unwrap_or_else(|panic| Err(internal(panic_message(&*panic)).into()));
            // Nobody may be left to take it.
            let _ = self.sender.send((place, made));
        }
    }

    /// The next image for a worker. One that gets none goes home.
    fn next(&self) -> Option<(usize, Source)> {
        let mut pile = self.pile.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = !self.is_dropped.load(Ordering::Relaxed);
        let next = is_wanted.then(|| pile.images.pop_front()).flatten();
        if next.is_none() {
            pile.workers -= 1;
        }
        next
    }
}

fn predict(segmenter: &Segmenter, source: Source, abstain: Option<f64>) -> Result<Prediction, Failure> {
    let path = source.path().map(PathBuf::from);
    let image = source.read()?;
    let prediction = segmenter.predict(&image);
    Prediction::new(prediction, image, path, abstain)
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
        self.desk.is_dropped.store(true, Ordering::Relaxed);
    }
}
