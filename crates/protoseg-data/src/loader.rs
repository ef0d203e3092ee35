//! Batches made by many threads, the same whatever their number.
//!
//! What a batch holds depends on (seed, epoch, batch) alone: the order of an epoch is a shuffle by (seed, epoch),
//! and every sample draws from a random stream of its own, by (seed, epoch, index). So a run can start again at any
//! batch. Threads work ahead by [`LoaderOptions::prefetch`] batches and then wait: at most `(prefetch + 1) *
//! batch_size` finished samples are held.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use protoseg_core::seed;
use rand_chacha::ChaCha8Rng;

/// The random stream of one sample.
pub type SampleRng = ChaCha8Rng;

/// What happens when a sample cannot be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The epoch ends with the error, at the batch that would have held the sample.
    #[default]
    Stop,
    /// Another sample, drawn by (seed, epoch, index), takes its place; the batch says so in [`Batch::skipped`].
    Skip,
}

/// How batches are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    pub batch_size: usize,
    pub seed: u64,
    /// Another order each epoch; otherwise the order of the items.
    pub shuffle: bool,
    /// Leave out a last batch that is not full.
    pub drop_last: bool,
    /// Threads; at least one is used.
    pub workers: usize,
    /// Batches made ahead; at least one.
    pub prefetch: usize,
    pub on_error: OnError,
}

/// A batch with its place in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T, E> {
    pub epoch: u64,
    pub index: usize,
    pub items: Vec<T>,
    /// Items that could not be made, by index, with why; others stand in their place.
    pub skipped: Vec<(usize, E)>,
}

/// Why an epoch ends early.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError<E> {
    #[error("{error}")]
    Item { index: usize, error: E },
    #[error("{attempts} samples in a row could not be loaded, the last because: {error}")]
    TooManySkipped { attempts: usize, error: E },
    #[error("a loader thread panicked\nhint: this is a fault in the program; its message stands above")]
    Panicked,
}

/// Options that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoaderOptionsError {
    #[error("there is nothing to load\nhint: check that the split has images that the rules keep")]
    NoItems,
    #[error("the batch size is `0`\nhint: give at least 1")]
    NoBatch,
    #[error(
        "`{items}` images do not fill one batch of `{batch_size}`\nhint: lower the batch size, or keep the last batch"
    )]
    TooFew { items: usize, batch_size: usize },
}

/// Other samples are tried in the place of one that fails at most this often.
const MAX_ATTEMPTS: usize = 16;
/// First step of a random stream's path, one a purpose.
const ORDER: u64 = 0;
const SAMPLE: u64 = 1;
const REPLACEMENT: u64 = 2;

type Make<S, T, E> = dyn Fn(&S, &mut SampleRng) -> Result<T, E> + Send + Sync;

/// Makes batches of `T` from items `S` with a function that reads, augments and whatever else.
pub struct Loader<S, T, E> {
    items: Arc<Vec<S>>,
    make: Arc<Make<S, T, E>>,
    options: LoaderOptions,
}

impl<S, T, E> Loader<S, T, E>
where
    S: Send + Sync + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    pub fn new(
        items: Vec<S>,
        options: LoaderOptions,
        make: impl Fn(&S, &mut SampleRng) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, LoaderOptionsError> {
        let (n, batch_size) = (items.len(), options.batch_size);
        match () {
            () if n == 0 => Err(LoaderOptionsError::NoItems),
            () if batch_size == 0 => Err(LoaderOptionsError::NoBatch),
            () if options.drop_last && n < batch_size => {
                Err(LoaderOptionsError::TooFew { items: n, batch_size })
            }
            () => Ok(Self { items: Arc::new(items), make: Arc::new(make), options }),
        }
    }

    pub fn batches_per_epoch(&self) -> usize {
        match self.options.drop_last {
            true => self.items.len() / self.options.batch_size,
            false => self.items.len().div_ceil(self.options.batch_size),
        }
    }

    /// The batches of an epoch from `start_batch` on. Threads start at once and stop when the iterator is dropped.
    pub fn epoch(&self, epoch: u64, start_batch: usize) -> Epoch<T, E> {
        let options = self.options;
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        if options.shuffle {
            seed::shuffle(&mut order, &mut seed::stream(options.seed, &[ORDER, epoch]));
        }
        let n_batches = self.batches_per_epoch();
        let end = (n_batches * options.batch_size).min(order.len());
        let start = start_batch.saturating_mul(options.batch_size).min(end);
        let window = options.prefetch.max(1) * options.batch_size;
        let state =
            State { next: start, emitted: start, ready: VecDeque::new(), stop: false, panicked: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), window, end });
        let order = Arc::new(order);
        let workers = (0..options.workers.max(1)).map(|_| {
            let (shared, order) = (Arc::clone(&shared), Arc::clone(&order));
            let (items, make) = (Arc::clone(&self.items), Arc::clone(&self.make));
            std::thread::spawn(move || {
                let guard = PanicGuard(&shared);
                while let Some(place) = shared.take() {
                    let made = make_item(&items, &*make, options, epoch, order[place]);
                    shared.put(place, made);
                }
                drop(guard);
            })
        });
        let workers = workers.collect();
        Epoch { shared, workers, epoch, batch: start_batch, batch_size: options.batch_size, done: false }
    }
}

/// A made item with those that failed in its place.
struct Made<T, E> {
    item: Result<T, LoadError<E>>,
    skipped: Vec<(usize, E)>,
}

fn make_item<S, T, E>(
    items: &[S],
    make: &Make<S, T, E>,
    options: LoaderOptions,
    epoch: u64,
    index: usize,
) -> Made<T, E> {
    let mut skipped = Vec::new();
    let mut rng = seed::stream(options.seed, &[SAMPLE, epoch, index as u64]);
    let mut chosen = index;
    loop {
        match make(&items[chosen], &mut rng) {
            Ok(item) => return Made { item: Ok(item), skipped },
            Err(error) if options.on_error == OnError::Stop => {
                return Made { item: Err(LoadError::Item { index: chosen, error }), skipped };
            }
            Err(error) if skipped.len() + 1 == MAX_ATTEMPTS => {
                let error = LoadError::TooManySkipped { attempts: MAX_ATTEMPTS, error };
                return Made { item: Err(error), skipped };
            }
            Err(error) => skipped.push((chosen, error)),
        }
        let path = [REPLACEMENT, epoch, index as u64, skipped.len() as u64];
        rng = seed::stream(options.seed, &path);
        chosen = seed::below(&mut rng, items.len());
    }
}

/// What threads and consumer share.
struct Shared<T, E> {
    state: Mutex<State<T, E>>,
    /// Told whenever anything in the state changes.
    changed: Condvar,
    /// Places that may be worked on beyond the last emitted.
    window: usize,
    end: usize,
}

struct State<T, E> {
    /// The next place to work on.
    next: usize,
    /// The next place to hand out.
    emitted: usize,
    /// Made items from `emitted` on.
    ready: VecDeque<Option<Made<T, E>>>,
    stop: bool,
    panicked: bool,
}

impl<T, E> Shared<T, E> {
    fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T, E>>) -> MutexGuard<'a, State<T, E>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The next place to work on, once there is room for it.
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

    fn put(&self, place: usize, made: Made<T, E>) {
        let mut state = self.lock();
        let slot = place - state.emitted;
        if state.ready.len() <= slot {
            state.ready.resize_with(slot + 1, || None);
        }
        state.ready[slot] = Some(made);
        self.changed.notify_all();
    }

    /// The next item in order; `None` at the end.
    fn next(&self) -> Option<Result<Made<T, E>, LoadError<E>>> {
        let mut state = self.lock();
        loop {
            if state.emitted >= self.end {
                return None;
            }
            if let Some(made) = state.ready.front_mut().and_then(Option::take) {
                state.ready.pop_front();
                state.emitted += 1;
                self.changed.notify_all();
                return Some(Ok(made));
            }
            if state.panicked {
                return Some(Err(LoadError::Panicked));
            }
            state = self.wait(state);
        }
    }
}

/// Tells the consumer when a thread dies, so that it does not wait for ever.
struct PanicGuard<'a, T, E>(&'a Shared<T, E>);

impl<T, E> Drop for PanicGuard<'_, T, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().panicked = true;
            self.0.changed.notify_all();
        }
    }
}

/// The batches of one epoch, in order.
pub struct Epoch<T, E> {
    shared: Arc<Shared<T, E>>,
    workers: Vec<JoinHandle<()>>,
    epoch: u64,
    batch: usize,
    batch_size: usize,
    done: bool,
}

impl<T, E> Iterator for Epoch<T, E> {
    type Item = Result<Batch<T, E>, LoadError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let (mut items, mut skipped) = (Vec::with_capacity(self.batch_size), Vec::new());
        while items.len() < self.batch_size {
            match self.shared.next() {
                None => break,
                Some(Ok(Made { item: Ok(item), skipped: failed })) => {
                    items.push(item);
                    skipped.extend(failed);
                }
                Some(Ok(Made { item: Err(error), .. }) | Err(error)) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        if items.is_empty() {
            self.done = true;
            return None;
        }
        let index = self.batch;
        self.batch += 1;
        Some(Ok(Batch { epoch: self.epoch, index, items, skipped }))
    }
}

impl<T, E> Drop for Epoch<T, E> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // A panic was already reported in the thread itself and by the iterator.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
#[path = "loader_tests.rs"]
mod tests;
