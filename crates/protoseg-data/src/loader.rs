//! Makes batches on several threads. The batches do not depend on the number of threads.
//!
//! A batch depends only on (seed, epoch, batch). The order of an epoch is a shuffle by (seed, epoch), and every
//! sample has its own random stream by (seed, epoch, index). A run can therefore continue at any batch.
//!
//! Each thread makes a whole batch at a time and writes the samples straight to their places, so nothing is copied
//! afterwards. Threads work ahead by [`LoaderOptions::prefetch`] batches (at least one each) and then wait. No more
//! than these batches and the one handed out are in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use protoseg_core::seed;
use rand_chacha::ChaCha8Rng;

/// The random stream of one sample.
pub type SampleRng = ChaCha8Rng;

/// What to do when a sample cannot be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// End the epoch with the error, at the batch that would have held the sample.
    #[default]
    Stop,
    /// Use another sample instead, drawn by (seed, epoch, index). [`Batch::skipped`] lists the samples left out.
    Skip,
}

/// How batches are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    pub batch_size: usize,
    pub seed: u64,
    /// Whether to shuffle every epoch; otherwise the order is that of the items.
    pub shuffle: bool,
    /// Whether to leave out a last batch that is not full.
    pub drop_last: bool,
    /// Number of threads; at least one is used.
    pub workers: usize,
    /// Number of batches made ahead; at least one per thread.
    pub prefetch: usize,
    pub on_error: OnError,
}

/// A batch and its place in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<B, E> {
    pub epoch: u64,
    pub index: usize,
    pub items: B,
    /// Index of each item that could not be made, with the error; another item takes its place.
    pub skipped: Vec<(usize, E)>,
}

/// Why an epoch ends early.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError<E> {
    #[error("{error}")]
    Item { index: usize, error: E },
    #[error("{attempts} samples in a row could not be loaded; the last one: {error}")]
    TooManySkipped { attempts: usize, error: E },
    #[error("a loader thread panicked\nhint: this is a bug in the program; its message is printed above")]
    Panicked,
}

/// Why options are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderOptionsError {
    #[error("there is nothing to load\nhint: check that the split has images that the rules keep")]
    NoItems,
    #[error("the batch size must be at least 1, got `0`\nhint: give a larger one")]
    NoBatch,
    #[error(
        "`{items}` images do not fill one batch of `{batch_size}`\nhint: lower the batch size, or keep the last batch"
    )]
    TooFew { items: usize, batch_size: usize },
}

/// How many other samples are tried in place of one that fails.
const MAX_ATTEMPTS: usize = 16;
/// First number in the path of a random stream, one per purpose.
const ORDER: u64 = 0;
const SAMPLE: u64 = 1;
const REPLACEMENT: u64 = 2;

type Start<B> = dyn Fn(usize) -> B + Send + Sync;
type Fill<S, B, E> = dyn Fn(&mut B, usize, &S, &mut SampleRng) -> Result<(), E> + Send + Sync;

/// Makes batches `B` from items `S` with a given function, which may read, augment and so on.
pub struct Loader<S, B, E> {
    items: Arc<Vec<S>>,
    maker: Arc<Maker<S, B, E>>,
    options: LoaderOptions,
    /// Items that an epoch visits.
    per_epoch: usize,
}

/// How a batch is made.
struct Maker<S, B, E> {
    start: Box<Start<B>>,
    fill: Box<Fill<S, B, E>>,
}

impl<S, T, E> Loader<S, Vec<T>, E>
where
    S: Send + Sync + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    /// Batches that are lists of what `make` returns.
    pub fn new(
        items: Vec<S>,
        options: LoaderOptions,
        make: impl Fn(&S, &mut SampleRng) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, LoaderOptionsError> {
        Self::collating(items, options, Vec::with_capacity, move |batch, _, item, rng| {
            batch.push(make(item, rng)?);
            Ok(())
        })
    }
}

impl<S, B, E> Loader<S, B, E>
where
    S: Send + Sync + 'static,
    B: Send + 'static,
    E: Send + 'static,
{
    /// Batches of any type. `start` makes one for a number of samples; `fill` writes one sample to its place, in
    /// ascending order of places. If `fill` fails, it may be called again for the same place with another item.
    pub fn collating(
        items: Vec<S>,
        options: LoaderOptions,
        start: impl Fn(usize) -> B + Send + Sync + 'static,
        fill: impl Fn(&mut B, usize, &S, &mut SampleRng) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<Self, LoaderOptionsError> {
        let (n, batch_size) = (items.len(), options.batch_size);
        match () {
            () if n == 0 => Err(LoaderOptionsError::NoItems),
            () if batch_size == 0 => Err(LoaderOptionsError::NoBatch),
            () if options.drop_last && n < batch_size => {
                Err(LoaderOptionsError::TooFew { items: n, batch_size })
            }
            () => {
                let maker = Maker { start: Box::new(start), fill: Box::new(fill) };
                Ok(Self { items: Arc::new(items), maker: Arc::new(maker), options, per_epoch: n })
            }
        }
    }

    /// The same with epochs of the first `count` items in their order, or of all if there are fewer.
    pub fn take(self, count: usize) -> Result<Self, LoaderOptionsError> {
        let (per_epoch, batch_size) = (count.min(self.items.len()), self.options.batch_size);
        if per_epoch == 0 || (self.options.drop_last && per_epoch < batch_size) {
            return Err(LoaderOptionsError::TooFew { items: per_epoch, batch_size });
        }
        Ok(Self { per_epoch, ..self })
    }

    pub fn batches_per_epoch(&self) -> usize {
        match self.options.drop_last {
            true => self.per_epoch / self.options.batch_size,
            false => self.per_epoch.div_ceil(self.options.batch_size),
        }
    }

    /// The batches of an epoch, starting at `start_batch`. Threads start at once and stop when the iterator is
    /// dropped.
    pub fn epoch(&self, epoch: u64, start_batch: usize) -> Epoch<B, E> {
        let options = self.options;
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        if options.shuffle {
            seed::shuffle(&mut order, &mut seed::stream(options.seed, &[ORDER, epoch]));
        }
        order.truncate(self.per_epoch);
        let (workers, end) = (options.workers.max(1), self.batches_per_epoch());
        let start = start_batch.min(end);
        let state =
            State { next: start, emitted: start, ready: VecDeque::new(), stop: false, panicked: false };
        let window = options.prefetch.max(workers);
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), window, end });
        let order = Arc::new(order);
        let workers = (0..workers).map(|_| {
            let (shared, order) = (Arc::clone(&shared), Arc::clone(&order));
            let (items, maker) = (Arc::clone(&self.items), Arc::clone(&self.maker));
            std::thread::spawn(move || {
                let guard = PanicGuard(&shared);
                while let Some(batch) = shared.take() {
                    let places = order.chunks(options.batch_size).nth(batch).unwrap_or_default();
                    shared.put(batch, maker.make(&items, places, options, epoch));
                }
                drop(guard);
            })
        });
        let workers = workers.collect();
        Epoch { shared, workers, epoch, batch: start, done: false }
    }
}

/// A finished batch and the items that failed in it.
type Made<B, E> = Result<(B, Vec<(usize, E)>), LoadError<E>>;

impl<S, B, E> Maker<S, B, E> {
    fn make(&self, items: &[S], indices: &[usize], options: LoaderOptions, epoch: u64) -> Made<B, E> {
        let (mut batch, mut skipped) = ((self.start)(indices.len()), Vec::new());
        for (place, &index) in indices.iter().enumerate() {
            skipped.extend(self.fill_place(&mut batch, place, items, index, options, epoch)?);
        }
        Ok((batch, skipped))
    }

    /// Fills one place with its item, or with another if that fails; returns the items that failed.
    fn fill_place(
        &self,
        batch: &mut B,
        place: usize,
        items: &[S],
        index: usize,
        options: LoaderOptions,
        epoch: u64,
    ) -> Result<Vec<(usize, E)>, LoadError<E>> {
        let mut skipped = Vec::new();
        let mut rng = seed::stream(options.seed, &[SAMPLE, epoch, index as u64]);
        let mut chosen = index;
        loop {
            match (self.fill)(batch, place, &items[chosen], &mut rng) {
                Ok(()) => return Ok(skipped),
                Err(error) if options.on_error == OnError::Stop => {
                    return Err(LoadError::Item { index: chosen, error });
                }
                Err(error) if skipped.len() + 1 == MAX_ATTEMPTS => {
                    return Err(LoadError::TooManySkipped { attempts: MAX_ATTEMPTS, error });
                }
                Err(error) => skipped.push((chosen, error)),
            }
            let path = [REPLACEMENT, epoch, index as u64, skipped.len() as u64];
            rng = seed::stream(options.seed, &path);
            chosen = seed::below(&mut rng, items.len());
        }
    }
}

/// What the threads and the consumer share.
struct Shared<B, E> {
    state: Mutex<State<B, E>>,
    /// Notified whenever the state changes.
    changed: Condvar,
    /// How many batches may be in work beyond the last one handed out.
    window: usize,
    end: usize,
}

struct State<B, E> {
    /// The next batch to work on.
    next: usize,
    /// The next batch to hand out.
    emitted: usize,
    /// Finished batches, starting at `emitted`.
    ready: VecDeque<Option<Made<B, E>>>,
    stop: bool,
    panicked: bool,
}

impl<B, E> Shared<B, E> {
    fn lock(&self) -> MutexGuard<'_, State<B, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<B, E>>) -> MutexGuard<'a, State<B, E>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch to work on, as soon as there is room for it.
    fn take(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.stop || state.next >= self.end {
                return None;
            }
            if state.next < state.emitted + self.window {
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.wait(state);
        }
    }

    fn put(&self, batch: usize, made: Made<B, E>) {
        let mut state = self.lock();
        let slot = batch - state.emitted;
        if state.ready.len() <= slot {
            state.ready.resize_with(slot + 1, || None);
        }
        state.ready[slot] = Some(made);
        self.changed.notify_all();
    }

    /// The next batch in order; `None` at the end.
    fn next(&self) -> Option<Made<B, E>> {
        let mut state = self.lock();
        loop {
            if state.emitted >= self.end {
                return None;
            }
            if let Some(made) = state.ready.front_mut().and_then(Option::take) {
                state.ready.pop_front();
                state.emitted += 1;
                self.changed.notify_all();
                return Some(made);
            }
            if state.panicked {
                return Some(Err(LoadError::Panicked));
            }
            state = self.wait(state);
        }
    }
}

/// Notifies the consumer when a thread dies, so that it does not wait for ever.
struct PanicGuard<'a, B, E>(&'a Shared<B, E>);

impl<B, E> Drop for PanicGuard<'_, B, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().panicked = true;
            self.0.changed.notify_all();
        }
    }
}

/// The batches of one epoch, in order.
pub struct Epoch<B, E> {
    shared: Arc<Shared<B, E>>,
    workers: Vec<JoinHandle<()>>,
    epoch: u64,
    batch: usize,
    done: bool,
}

impl<B, E> Iterator for Epoch<B, E> {
    type Item = Result<Batch<B, E>, LoadError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.shared.next()? {
            Ok((items, skipped)) => {
                let index = self.batch;
                self.batch += 1;
                Some(Ok(Batch { epoch: self.epoch, index, items, skipped }))
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }
}

impl<B, E> Drop for Epoch<B, E> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // The thread itself and the iterator have already reported the panic.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
#[path = "loader_tests.rs"]
mod tests;
