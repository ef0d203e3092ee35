//! Several pieces of work at the same time: while one waits for a file or computes alone, another uses the cores.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use rayon::prelude::*;

/// The most pieces at the same time. More would need more memory and gain nothing.
const MOST: usize = 4;

/// Does pieces `0..count`. Results are in order, whatever the threads did. The error is that of the first piece that
/// failed, among those that were begun.
pub(super) fn run<T: Send, E: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let workers = rayon::current_num_threads().clamp(2, MOST).min(count);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = || {
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                break;
            }
            let result = work(piece);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            done.push((piece, result));
        }
        done
    };
    let mut all: Vec<(usize, Result<T, E>)> = match rayon::current_thread_index() {
        None => on_threads(workers, worker),
        // Called within a pool: threads of our own would leave it, and take those of the global pool.
        Some(_) => (0..workers).into_par_iter().with_max_len(1).flat_map_iter(|_| worker()).collect(),
    };
    all.sort_by_key(|(piece, _)| *piece);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Workers outside rayon's pool: they wait for the pool's work without taking another piece into their own.
fn on_threads<T: Send>(workers: usize, worker: impl Fn() -> Vec<T> + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(&worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        workers.into_iter().flat_map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_is_told() {
        assert_eq!(run(100, |piece| Ok::<_, ()>(piece * 2)).unwrap()[99], 198);
        assert!(run(0, Ok::<usize, ()>).unwrap().is_empty());
        let error = run(1000, |piece| if piece >= 7 { Err(piece) } else { Ok(()) }).unwrap_err();
        assert_eq!(error, 7);
    }

    #[test]
    fn work_within_a_pool_stays_there() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let is_inside = |_| Ok::<_, ()>(pool.current_thread_index().is_some());
        let inside = pool.install(|| run(20, is_inside)).unwrap();
        assert_eq!(inside, [true; 20]);
        assert_eq!(run(20, is_inside).unwrap(), [false; 20]);
    }
}
