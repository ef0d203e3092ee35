//! What the model has seen of photos: computed once in the background, in the order in which people need it, and kept
//! as long as there is room. A photo that was let go is looked at again when somebody asks for it.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use protoseg::{Image, Model, Segmenter, method::Seen, rough::Parts, tensor::Tensor};

/// Photos whose whole features and pixels are kept: those that people paint on.
const IN_HAND: usize = 4;

/// All that was seen.
pub struct Features {
    eye: Segmenter,
    budget: usize,
    inner: Mutex<Inner>,
    wake: Condvar,
    hand: Mutex<VecDeque<(u32, Hand)>>,
}

/// A photo that somebody paints on.
#[derive(Clone)]
pub struct Hand {
    pub image: Arc<Image>,
    /// `[1, d, h, w]`
    pub features: Tensor<4>,
    parts: Arc<OnceLock<Parts>>,
}

impl Hand {
    pub fn new(image: Image, features: Tensor<4>) -> Self {
        Self { image: Arc::new(image), features, parts: Arc::default() }
    }

    /// What magic clicks choose from: made at the first of them, which changes make one after the other.
    pub fn parts(&self, model: &Model) -> &Parts {
        self.parts.get_or_init(|| Parts::new(&self.image, model, self.features.clone()))
    }
}

#[derive(Default)]
struct Inner {
    /// Asked for by somebody who waits.
    urgent: VecDeque<u32>,
    /// The rest.
    rest: BTreeSet<u32>,
    /// The photo that was asked for last.
    view: u32,
    seen: HashMap<u32, Kept>,
    bytes: usize,
    /// Bytes of the largest that was kept.
    largest: usize,
    clock: u64,
    done: HashSet<u32>,
    failed: HashMap<u32, String>,
    stopped: bool,
}

struct Kept {
    seen: Arc<Seen>,
    bytes: usize,
    used: u64,
}

impl Inner {
    /// Whether one more would not fit.
    fn is_full(&self, budget: usize) -> bool {
        !self.seen.is_empty() && self.bytes + self.largest > budget
    }

    /// The photo of the rest that is nearest to the view; of two, the one after it.
    fn nearest(&self) -> Option<u32> {
        let after = self.rest.range(self.view..).next().copied();
        let before = self.rest.range(..self.view).next_back().copied();
        after.into_iter().chain(before).min_by_key(|id| id.abs_diff(self.view))
    }
}

/// How far a photo is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    Waiting,
    Failed(String),
}

impl Features {
    /// Of a model, within a memory of `budget` bytes.
    pub fn new(model: &Model, eye: Segmenter, budget: usize) -> Self {
        debug_assert_eq!(eye.model().preprocess(), model.preprocess());
        Self { eye, budget, inner: Mutex::default(), wake: Condvar::new(), hand: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has photos looked at when nobody waits for others.
    pub fn enqueue(&self, ids: impl IntoIterator<Item = u32>) {
        self.lock().rest.extend(ids);
        self.wake.notify_all();
    }

    /// What was seen of a photo. If it was not looked at yet, it comes next.
    pub fn get(&self, id: u32) -> Result<Option<Arc<Seen>>, String> {
        let mut inner = self.lock();
        inner.clock += 1;
        let clock = inner.clock;
        inner.view = id;
        if let Some(kept) = inner.seen.get_mut(&id) {
            kept.used = clock;
            return Ok(Some(Arc::clone(&kept.seen)));
        }
        if let Some(error) = inner.failed.get(&id) {
            return Err(error.clone());
        }
        if inner.urgent.front() != Some(&id) {
            inner.urgent.retain(|other| *other != id);
            // The last that was asked for is what people look at now.
            inner.urgent.push_front(id);
            self.wake.notify_all();
        }
        Ok(None)
    }

    /// The same without a wish.
    pub fn peek(&self, id: u32) -> Option<Arc<Seen>> {
        self.lock().seen.get(&id).map(|kept| Arc::clone(&kept.seen))
    }

    /// How far a photo is.
    pub fn state(&self, id: u32) -> State {
        let inner = self.lock();
        match inner.failed.get(&id) {
            Some(error) => State::Failed(error.clone()),
            None if inner.seen.contains_key(&id) => State::Ready,
            None => State::Waiting,
        }
    }

    /// Photos that were looked at, and those that could not be.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.done.len(), inner.failed.len())
    }

    /// How many of all photos are looked at without being asked for: when memory is full, no more than were already.
    pub fn planned(&self, all: usize) -> usize {
        let inner = self.lock();
        if inner.is_full(self.budget) { (inner.done.len() + inner.failed.len()).min(all) } else { all }
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The next photo that somebody waits for.
    pub fn next_urgent(&self) -> Option<u32> {
        let mut inner = self.lock();
        while let Some(id) = inner.urgent.pop_front() {
            if !inner.seen.contains_key(&id) && !inner.failed.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    /// The next of the others, the nearest to the view first. When one more would not fit in memory, they wait until
    /// they are asked for.
    pub fn next(&self) -> Option<u32> {
        let mut inner = self.lock();
        if inner.is_full(self.budget) {
            return None;
        }
        while let Some(id) = inner.nearest() {
            inner.rest.remove(&id);
            if !inner.done.contains(&id) && !inner.failed.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    /// Looks at a photo.
    pub fn look(&self, image: &Image) -> Seen {
        self.eye.see(self.eye.model().canvas(image))
    }

    /// Keeps what was seen, or why nothing was.
    pub fn put(&self, id: u32, seen: Result<Seen, String>) {
        let mut inner = self.lock();
        inner.clock += 1;
        let seen = match seen {
            Ok(seen) => seen,
            Err(error) => {
                inner.failed.insert(id, error);
                return;
            }
        };
        let (bytes, used) = (seen.bytes(), inner.clock);
        inner.done.insert(id);
        inner.bytes += bytes;
        inner.largest = inner.largest.max(bytes);
        if let Some(before) = inner.seen.insert(id, Kept { seen: Arc::new(seen), bytes, used }) {
            inner.bytes -= before.bytes;
        }
        while inner.bytes > self.budget && inner.seen.len() > 1 {
            let oldest =
                inner.seen.iter().filter(|(other, _)| **other != id).min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { break };
            if let Some(gone) = inner.seen.remove(&oldest) {
                inner.bytes -= gone.bytes;
            }
        }
    }

    /// Waits until there may be something to do.
    pub fn wait(&self, time: Duration) {
        let inner = self.lock();
        if !inner.stopped && inner.urgent.is_empty() {
            drop(self.wake.wait_timeout(inner, time));
        }
    }

    /// Whether somebody waits for a photo, or the studio closes.
    pub fn is_wanted(&self) -> bool {
        let inner = self.lock();
        inner.stopped || !inner.urgent.is_empty()
    }

    /// Whether the studio closes.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Ends the work in the background.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Whether a photo is in hand.
    pub fn in_hand(&self, id: u32) -> Option<Hand> {
        let hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        hand.iter().find(|(other, _)| *other == id).map(|(_, hand)| hand.clone())
    }

    /// The pixels and whole features of a photo, which is in hand from now on.
    pub fn hand(&self, id: u32, read: impl FnOnce() -> Result<Image, String>) -> Result<Hand, String> {
        if let Some(hand) = self.in_hand(id) {
            return Ok(hand);
        }
        let image = read()?;
        let features = self.eye.model().features(&image);
        let hand = Hand::new(image, features);
        let mut all = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(other, _)| *other != id);
        all.push_front((id, hand.clone()));
        all.truncate(IN_HAND);
        Ok(hand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_to_the_view_follow_and_the_last_that_fits_ends_it() {
        let model = Model::builtin();
        let eye = Segmenter::builder(&model).build().unwrap();
        let image = Image::new(64, 64, vec![90; 64 * 64 * 3]);
        let bytes = eye.see(model.canvas(&image)).bytes();
        let features = Features::new(&model, eye, 3 * bytes + bytes / 2);
        features.enqueue(1..=1000);
        assert_eq!(features.next(), Some(1), "nobody looks at anything yet");
        assert!(features.get(500).unwrap().is_none());
        let near: Vec<u32> = (0..4).filter_map(|_| features.next()).collect();
        assert_eq!(near, [500, 501, 499, 502]);
        for id in near {
            features.put(id, Ok(features.look(&image)));
            let is_full = features.next().is_none();
            assert_eq!(is_full, features.bytes() + bytes > 3 * bytes + bytes / 2, "{id}");
            if is_full {
                break;
            }
        }
        assert_eq!(features.counts(), (3, 0), "nothing was let go");
        assert!([500, 501, 499].iter().all(|id| features.state(*id) == State::Ready));
        assert_eq!(features.planned(1000), 3, "no more are to come");
    }

    #[test]
    fn what_is_asked_for_comes_first_and_memory_stays_within_its_budget() {
        let model = Model::builtin();
        let eye = Segmenter::builder(&model).build().unwrap();
        let image = Image::new(64, 64, vec![90; 64 * 64 * 3]);
        let bytes = eye.see(model.canvas(&image)).bytes();
        let features = Features::new(&model, eye, 2 * bytes);
        features.enqueue([1, 2, 3, 4]);
        assert_eq!(features.next(), Some(1));
        assert!(features.get(3).unwrap().is_none());
        assert!(features.get(4).unwrap().is_none());
        assert_eq!(
            [features.next_urgent(), features.next_urgent(), features.next_urgent()],
            [Some(4), Some(3), None]
        );
        for id in [1, 3, 4] {
            features.put(id, Ok(features.look(&image)));
        }
        assert_eq!((features.bytes(), features.counts()), (2 * bytes, (3, 0)));
        assert_eq!(features.state(1), State::Waiting, "the oldest was let go");
        assert!(features.get(4).unwrap().is_some() && features.next().is_none(), "memory is full");
        features.put(2, Err("damaged".into()));
        assert_eq!(features.get(2).unwrap_err(), "damaged");
    }
}
