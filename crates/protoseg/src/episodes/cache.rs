//! Encoded images that later episodes need again, up to a number of bytes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use protoseg_core::ClassId;

use crate::episode::EncodedImage;

/// A sample as a query, or as a support of a class.
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
    images: HashMap<Key, (u64, Arc<EncodedImage>)>,
}

impl Cache {
    pub fn new(budget: usize) -> Self {
        Self { budget, kept: Mutex::default() }
    }

    /// The image as it was kept, or made anew. It is made without a lock: two threads may make the same image, which
    /// then comes out the same.
    pub fn get<E>(
        &self,
        key: Key,
        make: impl FnOnce() -> Result<EncodedImage, E>,
    ) -> Result<Arc<EncodedImage>, E> {
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
    fn look(&mut self, key: Key) -> Option<Arc<EncodedImage>> {
        self.uses += 1;
        let (last, image) = self.images.get_mut(&key)?;
        *last = self.uses;
        Some(Arc::clone(image))
    }

    fn keep(&mut self, key: Key, image: Arc<EncodedImage>, budget: usize) {
        let bytes = image.bytes();
        if bytes > budget || self.images.contains_key(&key) {
            return;
        }
        while self.bytes + bytes > budget {
            let oldest = self.images.iter().min_by_key(|(_, (last, _))| *last).map(|(key, _)| *key);
            let Some((_, image)) = oldest.and_then(|key| self.images.remove(&key)) else { break };
            self.bytes -= image.bytes();
        }
        self.bytes += bytes;
        self.images.insert(key, (self.uses, image));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_was_used_last_stays_within_the_budget() {
        let image = || EncodedImage::blank(100);
        let made = Cell::new(0);
        let cache = Cache::new(2 * image().bytes());
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
