//! Memory for intermediate results, kept from call to call: a training step would otherwise ask the system for
//! gigabytes of fresh pages, and have them cleared, again and again.

use std::{
    ops::{Deref, DerefMut},
    sync::Mutex,
};

/// Buffers that wait for their next use.
static IDLE: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

/// Most that wait: a convolution in training holds three at a time, layers that are joined in use three per thread.
fn kept() -> usize {
    3 * rayon::current_num_threads().max(1)
}

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
        let mut idle = IDLE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The smallest that is large enough, else the largest, which is let go for a larger one.
        idle.sort_by_key(Vec::len);
        let fitting = idle.iter().position(|values| values.len() >= len + LINE);
        let values = match fitting {
            Some(index) => idle.remove(index),
            None => {
                drop(idle.pop());
                drop(idle);
                vec![0.0; len + LINE]
            }
        };
        // An address that cannot be aligned, of which Rust leaves the possibility, is taken as it is.
        let start = values.as_ptr().align_offset(LINE * size_of::<f32>());
        Self { start: if start < LINE { start } else { 0 }, values, len }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if idle.len() < kept() {
            idle.push(std::mem::take(&mut self.values));
        }
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
