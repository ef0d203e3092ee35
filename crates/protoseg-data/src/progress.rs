//! Progress of long work. The library counts; the caller displays.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Called after every item with the number done and the total.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Ignores progress.
pub fn quiet(_: usize, _: usize) {}

/// Counts items that several threads finish.
pub(crate) struct Counter<'a> {
    done: AtomicUsize,
    total: usize,
    progress: Progress<'a>,
}

impl<'a> Counter<'a> {
    pub fn new(total: usize, progress: Progress<'a>) -> Self {
        Self { done: AtomicUsize::new(0), total, progress }
    }

    pub fn step(&self) {
        (self.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1, self.total);
    }
}
