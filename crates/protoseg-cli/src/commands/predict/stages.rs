//! Items that are taken through several stages, one item per thread.
//!
//! Reading, the network and writing of one image run one after the other on one thread of the pool, and there are as many
//! images in work as threads. The network's own loops are then shared only with threads that have nothing else to do:
//! folders take three quarters of the time that they take with a thread for every stage.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Why not all items came through.
#[derive(Debug)]
pub enum Failure<E> {
    /// A stage said so.
    Error(E),
    /// A stage panicked on this item.
    Panic { item: usize, message: String },
}

/// Calls `each` for items `0..count`, several at a time, until `stop` says to stop. Returns what it made of each item, by
/// its number; it may leave items out. The first failure ends everything, and so does a panic. Items in work are finished
/// in any case.
pub fn run<D: Send, E: Send>(
    count: usize,
    stop: impl Fn() -> bool + Sync,
    each: impl Fn(usize) -> Result<Option<D>, E> + Sync,
) -> Result<Vec<(usize, D)>, Failure<E>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let failure = Mutex::new(None);
    let take_items = || {
        while !stop() && lock(&failure).is_none() {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= count {
                return;
            }
            match guard(item, || each(item)) {
                Ok(None) => {}
                Ok(Some(value)) => lock(&done).push((item, value)),
                Err(error) => {
                    lock(&failure).get_or_insert(error);
                }
            }
        }
    };
    rayon::scope(|scope| {
        for _ in 0..rayon::current_num_threads() {
            scope.spawn(|_| take_items());
        }
    });
    if let Some(failure) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(failure);
    }
    let mut all = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|(item, _)| *item);
    Ok(all)
}

/// The value, also after a panic elsewhere: nothing here is left half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns a panic into a failure. Nothing of a stage is used after one panicked.
fn guard<T, E>(item: usize, stage: impl FnOnce() -> Result<T, E>) -> Result<T, Failure<E>> {
    match catch_unwind(AssertUnwindSafe(stage)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(panic) => Err(Failure::Panic { item, message: panic_message(&*panic) }),
    }
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: fn() -> bool = || false;

    #[test]
    fn every_item_comes_through_in_order_and_may_be_left_out() {
        let odd = |item: usize| Ok::<_, String>((item % 2 == 1).then_some(10 * item));
        assert_eq!(run(9, NEVER, odd).unwrap(), [(1, 10), (3, 30), (5, 50), (7, 70)]);
        assert_eq!(run(0, NEVER, odd).unwrap(), []);
    }

    #[test]
    fn a_failure_ends_the_work_early() {
        let worked = AtomicUsize::new(0);
        let failed = run(1000, NEVER, |item| {
            worked.fetch_add(1, Ordering::Relaxed);
            if item < 3 { Ok(Some(item)) } else { Err(format!("item {item}")) }
        });
        assert!(matches!(failed, Err(Failure::Error(error)) if error.starts_with("item ")));
        let most = 3 + rayon::current_num_threads();
        assert!(worked.into_inner() <= most, "more than {most} items were worked on");
    }

    #[test]
    fn a_panic_is_a_failure_that_names_the_item() {
        let failed = run(50, NEVER, |item| {
            assert_ne!(item, 3, "on fire");
            Ok::<_, String>(Some(item))
        });
        match failed {
            Err(Failure::Panic { item: 3, message }) => assert!(message.contains("on fire"), "{message}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stop_finishes_what_is_in_work() {
        let worked = AtomicUsize::new(0);
        let stop = || worked.load(Ordering::Relaxed) >= 5;
        let done = run(1000, stop, |item| {
            worked.fetch_add(1, Ordering::Relaxed);
            Ok::<_, String>(Some(item))
        });
        assert!((5..5 + rayon::current_num_threads()).contains(&done.unwrap().len()));
    }

    #[test]
    fn loops_within_an_item_share_the_pool() {
        use rayon::prelude::*;
        let sum = |item: usize| {
            Ok::<_, String>(Some((0..10_000usize).into_par_iter().map(|x| x % 7 + item).sum::<usize>()))
        };
        let done = run(40, NEVER, sum).unwrap();
        assert_eq!(done[39].1 - done[0].1, 390_000);
    }
}
