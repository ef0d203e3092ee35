//! Memory for intermediate results, kept from call to call: a training step would otherwise ask the system for
//! gigabytes of fresh pages, and have them cleared, again and again.

use std::{
    ops::{Deref, DerefMut},
    sync::Mutex,
};

/// Buffers that wait for their next use.
static IDLE: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

/// Most that wait: a convolution in training holds three at a time, layers that are joined in use three per thread,
/// products by tiles one or two more.
fn kept() -> usize {
    4 * rayon::current_num_threads().max(1)
}

/// A buffer is not used for what would leave most of it idle, unless it is small.
const MOST_TIMES: usize = 4;
const SMALL: usize = 1 << 14;

/// Values of a line of the caches.
const LINE: usize = 16;

/// `len` values that hold anything until they are written, from the beginning of a line of the caches on.
pub struct Scratch {
    values: Vec<f32>,
    start: usize,
    len: usize,
}

impl Scratch {
    pub fn new(len: usize) -> Self {
        let needed = len + LINE;
        let mut idle = IDLE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fits = needed..=MOST_TIMES * needed.max(SMALL);
        let fitting = idle.iter().enumerate().filter(|(_, values)| fits.contains(&values.len()));
        let smallest = fitting.min_by_key(|(_, values)| values.len()).map(|(index, _)| index);
        let values = smallest.map(|index| idle.remove(index));
        drop(idle);
        let values = values.unwrap_or_else(|| vec![0.0; needed]);
        // An address that cannot be aligned, of which Rust leaves the possibility, is taken as it is.
        let start = values.as_ptr().align_offset(LINE * size_of::<f32>());
        Self { start: if start < LINE { start } else { 0 }, values, len }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        idle.push(std::mem::take(&mut self.values));
        // The one that waited longest has the least chance of being used again.
        let unused = (idle.len() > kept()).then(|| idle.remove(0));
        drop(idle);
        drop(unused);
    }
}

impl Deref for Scratch {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.start..][..self.len]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..][..self.len]
    }
}
