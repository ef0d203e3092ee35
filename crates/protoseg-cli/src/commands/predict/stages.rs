//! Three stages at once: items are read, worked on one by one, and written.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

/// Items that are read, and items that are written, at the same time, besides the one that is worked on.
const READERS: usize = 2;
const WRITERS: usize = 2;

/// Why not all items came through.
#[derive(Debug)]
pub enum Failure<E> {
    /// A stage said so.
    Error(E),
    /// A stage panicked on this item.
    Panic { item: usize, message: String },
}

/// Takes items `0..count` through the stages until `stop` says to stop. `work` runs on this thread and may drop an
/// item. Returns what `write` made of each item, by its number. The first failure ends everything, and so does a panic
/// of any stage. Items that are being written are finished in any case.
pub fn run<R: Send, W: Send, D: Send, E: Send>(
    count: usize,
    stop: impl Fn() -> bool + Sync,
    read: impl Fn(usize) -> R + Sync,
    mut work: impl FnMut(usize, R) -> Result<Option<W>, E>,
    write: impl Fn(usize, W) -> Result<D, E> + Sync,
) -> Result<Vec<(usize, D)>, Failure<E>> {
    let next = AtomicUsize::new(0);
    let ended = AtomicBool::new(false);
    let (to_work, ready) = sync_channel(READERS);
    let (to_write, worked) = sync_channel(WRITERS);
    thread::scope(|scope| {
        for _ in 0..READERS {
            let (to_work, next, stop, read) = (to_work.clone(), &next, &stop, &read);
            scope.spawn(move || read_items(count, next, stop, read, &to_work));
        }
        drop(to_work);
        // The writers alone own the receiver: when they are gone, sending fails instead of waiting for ever.
        let worked = Arc::new(Mutex::new(worked));
        let start_writer = |_| {
            let (worked, write, ended) = (Arc::clone(&worked), &write, SetOnDrop(&ended));
            scope.spawn(move || {
                let _ended = ended;
                write_items(&worked, write)
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(start_writer).collect();
        drop(worked);
        let mut failure = None;
        for (item, value) in ready {
            if ended.load(Ordering::Relaxed) || stop() {
                break;
            }
            let worked = value.and_then(|value| guard(item, || work(item, value)));
            match worked {
                Ok(None) => {}
                Ok(Some(value)) => {
                    // Where both writers are gone, they say why.
                    if to_write.send((item, value)).is_err() {
                        break;
                    }
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        drop(to_write);
        let mut all = Vec::with_capacity(count);
        for writer in writers {
            match writer.join().expect("a writer catches panics") {
                Ok(written) => all.extend(written),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        all.sort_by_key(|(item, _)| *item);
        failure.map_or(Ok(all), Err)
    })
}

/// A writer that ends before the work does has failed: this tells.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Read<R, E> = (usize, Result<R, Failure<E>>);

fn read_items<R, E>(
    count: usize,
    next: &AtomicUsize,
    stop: impl Fn() -> bool,
    read: impl Fn(usize) -> R,
    to_work: &SyncSender<Read<R, E>>,
) {
    loop {
        let item = next.fetch_add(1, Ordering::Relaxed);
        if item >= count || stop() || to_work.send((item, guard(item, || Ok(read(item))))).is_err() {
            return;
        }
    }
}

fn write_items<W, D, E>(
    worked: &Mutex<Receiver<(usize, W)>>,
    write: impl Fn(usize, W) -> Result<D, E>,
) -> Result<Vec<(usize, D)>, Failure<E>> {
    let mut written = Vec::new();
    loop {
        let received = worked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((item, value)) = received else { return Ok(written) };
        written.push((item, guard(item, || write(item, value))?));
    }
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
    fn every_item_comes_through_in_order_and_may_be_dropped() {
        let odd = |item: usize, value: usize| Ok((item % 2 == 1).then_some(value + 1));
        let done = run(9, NEVER, |item| 10 * item, odd, |_, value| Ok::<_, String>(2 * value)).unwrap();
        assert_eq!(done, [(1, 22), (3, 62), (5, 102), (7, 142)]);
        let none = run(0, NEVER, |item| item, |_, value| Ok(Some(value)), |_, _| Ok::<_, String>(()));
        assert_eq!(none.unwrap(), []);
    }

    #[test]
    fn a_failure_to_write_ends_the_work_early() {
        let mut worked = 0;
        let work = |_, value: usize| {
            worked += 1;
            Ok(Some(value))
        };
        let failed = run(1000, NEVER, |item| item, work, |item, _| Err::<(), _>(format!("item {item}")));
        assert!(matches!(failed, Err(Failure::Error(error)) if error.starts_with("item ")));
        assert!(worked < 20, "{worked} items were worked on after the failure");
    }

    #[test]
    fn a_failure_of_the_work_ends_it_and_what_was_worked_on_is_written() {
        let written = AtomicUsize::new(0);
        let work = |item: usize, value: usize| if item < 3 { Ok(Some(value)) } else { Err("no room") };
        let write = |_, _| {
            written.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let failed = run(50, NEVER, |item| item, work, write);
        assert!(matches!(failed, Err(Failure::Error("no room"))));
        assert!(written.into_inner() <= 3);
    }

    #[test]
    fn a_panic_of_any_stage_is_a_failure_that_names_the_item() {
        let fire = |stage: usize, at: usize| move |item: usize| assert!((stage, item) != (at, 3), "on fire");
        for at in 0..3 {
            let read = |item: usize| {
                fire(0, at)(item);
                item
            };
            let work = |item: usize, value: usize| {
                fire(1, at)(item);
                Ok(Some(value))
            };
            let write = |item: usize, _: usize| {
                fire(2, at)(item);
                Ok::<_, String>(())
            };
            match run(50, NEVER, read, work, write) {
                Err(Failure::Panic { item: 3, message }) => assert_eq!(message, "on fire"),
                other => panic!("stage {at}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_stop_finishes_what_is_in_work() {
        let worked = AtomicUsize::new(0);
        let work = |_, value: usize| {
            worked.fetch_add(1, Ordering::Relaxed);
            Ok(Some(value))
        };
        let stop = || worked.load(Ordering::Relaxed) >= 5;
        let done = run(1000, stop, |item| item, work, |item, _| Ok::<_, String>(item)).unwrap();
        assert_eq!(done.len(), 5);
    }
}
