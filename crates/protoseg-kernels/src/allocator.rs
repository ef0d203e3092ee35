//! Freed memory is kept for a while.
//!
//! The binary allocates with mimalloc, which gives freed memory back to the system after a second. A training step takes
//! longer than that and needs gigabytes: fresh pages for every step, cleared by the system, cost a good part of it (docs/performance.md).

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

/// `mi_option_purge_delay` of mimalloc 2 and 3; the crate has no name for it.
const PURGE_DELAY: mi_option_t = 15;
const MILLISECONDS: c_long = 60_000;

/// Lets mimalloc keep freed memory for a minute, unless `MIMALLOC_PURGE_DELAY` says otherwise. Without effect in programs that
/// allocate with something else. Call it before threads start.
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
