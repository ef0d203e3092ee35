//! The allocator of the program, which keeps freed memory for a while.
//!
//! A training step allocates and frees gigabytes. The system's allocator gives them back every time and pays for it in
//! page faults. mimalloc gives freed memory back after a second, which is less than a step takes, so the delay is set
//! to a minute (docs/performance.md).
#![allow(unsafe_code)] // one option of mimalloc has no safe setter

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay` of mimalloc 2 and 3; the crate has no name for it.
const PURGE_DELAY: mi_option_t = 15;
const MILLISECONDS: c_long = 60_000;

/// Lets mimalloc keep freed memory for a minute, unless `MIMALLOC_PURGE_DELAY` says otherwise. Call it before threads
/// start.
pub fn keep_freed_memory() {
    // SAFETY: the option exists and takes any number; no other thread reads options yet.
    unsafe { mi_option_set_default(PURGE_DELAY, MILLISECONDS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::mi_option_get;

    #[test]
    fn the_option_is_the_delay_that_it_is_taken_for() {
        // SAFETY: the option exists.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "mimalloc's own delay, unless MIMALLOC_PURGE_DELAY is set");
        keep_freed_memory();
        assert_eq!(delay(), MILLISECONDS);
    }
}
