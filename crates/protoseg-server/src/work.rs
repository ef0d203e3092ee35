//! Work for the processor, away from the threads that answer requests. A few jobs run at a time, a few more wait, and
//! whoever comes then is asked to come again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

use crate::error::{Answer, Failure};

/// The queue of a server.
#[derive(Clone, Debug)]
pub struct Work {
    running: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
}

/// Counts one that waits, while it lives.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Work {
    /// With this many jobs at a time, and this many that wait.
    pub fn new(at_a_time: usize, most_waiting: usize) -> Self {
        let running = Arc::new(Semaphore::new(at_a_time.max(1)));
        Self { running, waiting: Arc::default(), most_waiting }
    }

    /// Jobs that run or wait.
    pub fn length(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Runs a job. If too many wait already, the request fails at once.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(Arc::clone(&self.waiting));
        if before >= self.most_waiting {
            return Err(Failure::busy());
        }
        let permit = Arc::clone(&self.running).acquire_owned().await.map_err(|_| Failure::busy())?;
        // A client that leaves ends its request, but not a job that has begun.
        blocking(move || {
            let _held = (permit, waiting);
            job()
        })
        .await
    }
}

/// Runs something short that may wait for a lock or a disk.
pub async fn blocking<T: Send + 'static>(job: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    match tokio::task::spawn_blocking(job).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::internal("the server failed at this request").hint("see what it printed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_says_so_and_a_panic_is_one_request_s() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let work = Work::new(1, 2);
        let (started, wait) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let job = move || {
            started.0.send(()).unwrap();
            let _ = wait.1.recv();
            Ok(1)
        };
        let first = runtime.spawn({
            let work = work.clone();
            async move { work.run(job).await }
        });
        started.1.recv().unwrap();
        let second = runtime.spawn({
            let work = work.clone();
            async move { work.run(|| Ok(2)).await }
        });
        while work.length() < 2 {
            std::thread::yield_now();
        }
        let third = runtime.block_on(work.run(|| Ok(3)));
        assert_eq!(third.unwrap_err().status(), 503);
        drop(wait.0);
        assert_eq!(runtime.block_on(first).unwrap(), Ok(1));
        assert_eq!(runtime.block_on(second).unwrap(), Ok(2));
        let failed = runtime.block_on(work.run::<()>(|| panic!("no")));
        assert_eq!(failed.unwrap_err().status(), 500);
        assert_eq!(runtime.block_on(work.run(|| Ok(4))), Ok(4));
        assert_eq!(work.length(), 0);
    }
}
