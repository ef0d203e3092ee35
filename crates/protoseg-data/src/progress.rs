//! How far long work has come. The library counts; whoever calls it shows.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Told after every item: how many are done, and of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// For those who do not want to know.
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
