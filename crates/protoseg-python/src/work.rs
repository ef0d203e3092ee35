//! Long work: without the GIL, on threads of its own, ended by Ctrl-C.
//!
//! The thread of Python waits and looks for signals meanwhile. Work that is to end early unwinds from the place where it
//! says how far it is; the library keeps nothing half changed across such a place.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    time::Duration,
};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::internal;

/// How often the waiting thread looks for Ctrl-C.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// The threads of this process. A forked process has none of its parent's threads, and gets its own.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// What work unwinds with when it is to end.
struct Ended;

/// Between work and whoever waits for it.
pub struct Steps<'a> {
    is_ended: AtomicBool,
    /// Why it is to end.
    reason: Mutex<Option<PyErr>>,
    /// A function of Python that is told how many steps of how many are done.
    progress: Option<&'a Py<PyAny>>,
}

impl Steps<'_> {
    /// Says how far the work is. Does not return if it is to end.
    pub fn done(&self, done: usize, total: usize) {
        if let Some(progress) = self.progress
            && let Err(error) = Python::attach(|py| progress.call1(py, (done, total)).map(drop))
        {
            self.end(error);
        }
        if self.is_ended() {
            resume_unwind(Box::new(Ended));
        }
    }

    /// Asks the work to end; the first reason counts.
    pub fn end(&self, reason: PyErr) {
        lock(&self.reason).get_or_insert(reason);
        self.is_ended.store(true, Ordering::Relaxed);
    }

    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}

/// Carries out work, and raises what ended it early: Ctrl-C, or an exception of `progress`.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Steps<'_>) -> T + Send,
) -> PyResult<T> {
    let pool = pool()?;
    let steps = Steps { is_ended: AtomicBool::new(false), reason: Mutex::new(None), progress };
    let guarded = || catch_unwind(AssertUnwindSafe(|| work(&steps)));
    let outcome = py.detach(|| {
        // Called by a function of Python that this very work calls: its thread must not wait for itself.
        if pool.current_thread_index().is_some() {
            return guarded();
        }
        let (sender, receiver) = channel();
        pool.in_place_scope(|scope| {
            scope.spawn(|_| drop(sender.send(guarded())));
            loop {
                match receiver.recv_timeout(PATIENCE) {
                    Ok(outcome) => return outcome,
                    Err(RecvTimeoutError::Disconnected) => return Err(Box::new("its thread is gone")),
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(error) = Python::attach(|py| py.check_signals()) {
                            steps.end(error);
                        }
                    }
                }
            }
        })
    });
    if let Some(reason) = lock(&steps.reason).take() {
        return Err(reason);
    }
    outcome.map_err(|panic| internal(panic_message(&*panic)))
}

/// The threads of this process.
pub fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut known = lock(&POOL);
    let process = std::process::id();
    match &*known {
        Some((owner, pool)) if *owner == process => Ok(Arc::clone(pool)),
        _ => {
            let pool = Arc::new(ThreadPoolBuilder::new().build().map_err(internal)?);
            // The parent's pool is not ended: its threads are not here to hear of it.
            std::mem::forget(known.replace((process, Arc::clone(&pool))));
            Ok(pool)
        }
    }
}

/// The value, also after a panic elsewhere: nothing here is left half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason").to_string()
}
