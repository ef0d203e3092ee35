//! Three stages at once: items are read, worked on one by one, and written.

use std::{
    panic::resume_unwind,
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

/// Takes items `0..count` through the stages. `work` runs on this thread and may drop an item. Returns what `write`
/// made of each item, by its number. The first failure to write ends everything, and so does a panic of any stage.
pub fn run<R: Send, W: Send, D: Send, E: Send>(
    count: usize,
    read: impl Fn(usize) -> R + Sync,
    mut work: impl FnMut(usize, R) -> Option<W>,
    write: impl Fn(usize, W) -> Result<D, E> + Sync,
) -> Result<Vec<(usize, D)>, E> {
    let next = AtomicUsize::new(0);
    let ended = AtomicBool::new(false);
    let (to_work, ready) = sync_channel(READERS);
    let (to_write, worked) = sync_channel(WRITERS);
    thread::scope(|scope| {
        for _ in 0..READERS {
            let (to_work, next, read) = (to_work.clone(), &next, &read);
            scope.spawn(move || read_items(count, next, read, &to_work));
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
        for (item, value) in ready {
            if ended.load(Ordering::Relaxed) {
                break;
            }
            if let Some(value) = work(item, value)
                && to_write.send((item, value)).is_err()
            {
                break;
            }
        }
        drop(to_write);
        let mut all = Vec::with_capacity(count);
        for writer in writers {
            all.extend(writer.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        all.sort_by_key(|(item, _)| *item);
        Ok(all)
    })
}

/// A writer that ends before the work does has failed: this tells, whether it returned or panicked.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn read_items<R>(
    count: usize,
    next: &AtomicUsize,
    read: impl Fn(usize) -> R,
    to_work: &SyncSender<(usize, R)>,
) {
    loop {
        let item = next.fetch_add(1, Ordering::Relaxed);
        if item >= count || to_work.send((item, read(item))).is_err() {
            return;
        }
    }
}

fn write_items<W, D, E>(
    worked: &Mutex<Receiver<(usize, W)>>,
    write: impl Fn(usize, W) -> Result<D, E>,
) -> Result<Vec<(usize, D)>, E> {
    let mut written = Vec::new();
    loop {
        let received = worked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((item, value)) = received else { return Ok(written) };
        written.push((item, write(item, value)?));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn every_item_comes_through_in_order_and_may_be_dropped() {
        let odd = |item: usize, value: usize| (item % 2 == 1).then_some(value + 1);
        let done = run(9, |item| 10 * item, odd, |_, value| Ok::<_, String>(2 * value)).unwrap();
        assert_eq!(done, [(1, 22), (3, 62), (5, 102), (7, 142)]);
        assert_eq!(run(0, |item| item, |_, value| Some(value), |_, _| Ok::<_, String>(())).unwrap(), []);
    }

    #[test]
    fn a_failure_to_write_ends_the_work_early() {
        let mut worked = 0;
        let work = |_, value: usize| {
            worked += 1;
            Some(value)
        };
        let failed = run(1000, |item| item, work, |item, _| Err::<(), _>(format!("item {item}")));
        assert!(failed.unwrap_err().starts_with("item "));
        assert!(worked < 20, "{worked} items were worked on after the failure");
    }

    #[test]
    fn a_panic_of_a_writer_is_passed_on() {
        let write = |item: usize, _| {
            assert_ne!(item, 3, "the disk is on fire");
            Ok::<_, String>(())
        };
        let panic = catch_unwind(|| run(50, |item| item, |_, value| Some(value), write)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("the disk is on fire"), "{message}");
    }
}
