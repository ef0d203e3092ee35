//! Maps of images that later episodes need again, up to a number of bytes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use protoseg_core::ClassId;

use crate::method::Maps;

/// A sample, and the class that its maps depend on, if they do.
pub(super) type Key = (usize, Option<ClassId>);

/// Keeps what was used last.
#[derive(Debug)]
pub(super) struct Cache {
    budget: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    /// Number of uses so far.
    uses: u64,
    /// With the number of the last use.
    images: HashMap<Key, (u64, Arc<Maps>)>,
}

impl Cache {
    pub fn new(budget: usize) -> Self {
        Self { budget, kept: Mutex::default() }
    }

    /// The image as it was kept, or made anew. It is made without a lock: two threads may make the same image, which
    /// then comes out the same.
    pub fn get<E>(&self, key: Key, make: impl FnOnce() -> Result<Maps, E>) -> Result<Arc<Maps>, E> {
        if let Some(image) = self.kept().look(key) {
            return Ok(image);
        }
        let image = Arc::new(make()?);
        self.kept().keep(key, Arc::clone(&image), self.budget);
        Ok(image)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn look(&mut self, key: Key) -> Option<Arc<Maps>> {
        self.uses += 1;
        let (last, image) = self.images.get_mut(&key)?;
        *last = self.uses;
        Some(Arc::clone(image))
    }

    fn keep(&mut self, key: Key, image: Arc<Maps>, budget: usize) {
        let bytes = bytes_of(&image);
        if bytes > budget || self.images.contains_key(&key) {
            return;
        }
        while self.bytes + bytes > budget {
            let oldest = self.images.iter().min_by_key(|(_, (last, _))| *last).map(|(key, _)| *key);
            let Some((_, image)) = oldest.and_then(|key| self.images.remove(&key)) else { break };
            self.bytes -= bytes_of(&image);
        }
        self.bytes += bytes;
        self.images.insert(key, (self.uses, image));
    }
}

fn bytes_of(maps: &Maps) -> usize {
    let values: usize = maps.iter().map(|map| map.dims().iter().product::<usize>()).sum();
    values * size_of::<f32>()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::device::cpu;
    use burn::tensor::Tensor;

    #[test]
    fn what_was_used_last_stays_within_the_budget() {
        let image = || vec![Tensor::zeros([1, 5, 4, 5], &cpu())];
        let made = Cell::new(0);
        let cache = Cache::new(2 * 400);
        let get = |sample: usize| {
            let make = || {
                made.set(made.get() + 1);
                Ok::<_, ()>(image())
            };
            cache.get((sample, None), make).unwrap();
            made.get()
        };
        assert_eq!([get(0), get(1), get(0), get(1)], [1, 2, 2, 2]);
        assert_eq!([get(0), get(2)], [2, 3], "image 1 was used longest ago");
        assert_eq!([get(0), get(1)], [3, 4]);
        let none = Cache::new(0);
        none.get((0, None), || Ok::<_, ()>(image())).unwrap();
        assert_eq!(none.kept().bytes, 0);
    }
}
