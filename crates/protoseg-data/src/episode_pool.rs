//! Which images can be part of a training episode, and how one is drawn for a query.

use std::collections::HashMap;

use protoseg_core::{ClassId, ClassTable, EpisodeError, ImageStats, seed};
use rand_chacha::rand_core::RngCore;

/// The images that show enough of each class.
#[derive(Clone, Debug)]
pub struct EpisodePool {
    /// Each class with the images that hold enough of it, in the order they were given.
    classes: Vec<(ClassId, Vec<usize>)>,
    /// For each image the places in `classes` of those that it holds enough of.
    shown: HashMap<usize, Vec<usize>>,
    /// The keys of `shown` in the order they were given.
    queries: Vec<usize>,
}

/// The class of an episode and its supports, as indices into the data set's samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnEpisode {
    pub class: ClassId,
    pub supports: Vec<usize>,
}

impl EpisodePool {
    /// A pool of these images, given by index and counts, for episodes of `classes`. An image counts for a class if it
    /// holds at least `min_pixels` of it.
    pub fn new<'a>(
        classes: &[ClassId],
        images: impl IntoIterator<Item = (usize, &'a ImageStats)>,
        min_pixels: u64,
    ) -> Self {
        let mut pool = Self {
            classes: classes.iter().map(|&class| (class, Vec::new())).collect(),
            shown: HashMap::new(),
            queries: Vec::new(),
        };
        for (index, stats) in images {
            let mut shown = Vec::new();
            for (place, (class, images)) in pool.classes.iter_mut().enumerate() {
                if stats.pixels(*class) >= min_pixels.max(1) {
                    images.push(index);
                    shown.push(place);
                }
            }
            if !shown.is_empty() {
                pool.queries.push(index);
                pool.shown.insert(index, shown);
            }
        }
        pool
    }

    /// Refuses a class with too few images for an episode: a query and `n_shots` others.
    pub fn check(&self, table: &ClassTable, n_shots: usize, min_pixels: u64) -> Result<(), EpisodeError> {
        let needed = n_shots + 1;
        match self.classes.iter().find(|(_, images)| images.len() < needed) {
            None => Ok(()),
            Some((class, images)) => Err(EpisodeError::TooFewImages {
                class: table.name(*class).map_or_else(|| class.to_string(), str::to_string),
                got: images.len(),
                needed,
                n_shots,
                min_pixels,
            }),
        }
    }

    /// The images that can be queries.
    pub fn queries(&self) -> &[usize] {
        &self.queries
    }

    /// Every pair of an image and a class that it holds enough of, in the order of images.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, ClassId)> + '_ {
        self.queries.iter().flat_map(move |&query| {
            self.shown[&query].iter().map(move |&place| (query, self.classes[place].0))
        })
    }

    /// A class that the query shows, and distinct other images of it. The pool was [checked](Self::check) for as many.
    ///
    /// # Panics
    /// If `query` is not among [`Self::queries`].
    pub fn draw(&self, query: usize, n_shots: usize, rng: &mut impl RngCore) -> DrawnEpisode {
        let shown = &self.shown[&query];
        let class = self.classes[shown[seed::below(rng, shown.len())]].0;
        let supports = self.draw_supports(class, query, n_shots, rng).expect("the pool was checked");
        DrawnEpisode { class, supports }
    }

    /// Distinct images of a class other than the query; nothing if there are too few.
    pub fn draw_supports(
        &self,
        class: ClassId,
        query: usize,
        n_shots: usize,
        rng: &mut impl RngCore,
    ) -> Option<Vec<usize>> {
        let (_, images) = self.classes.iter().find(|(other, _)| *other == class)?;
        let others = images.len() - usize::from(images.contains(&query));
        if others < n_shots {
            return None;
        }
        let mut supports = Vec::with_capacity(n_shots);
        while supports.len() < n_shots {
            let drawn = images[seed::below(rng, images.len())];
            if drawn != query && !supports.contains(&drawn) {
                supports.push(drawn);
            }
        }
        Some(supports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(counts: &[(u16, u64)]) -> ImageStats {
        let counts = counts.iter().map(|&(id, pixels)| (ClassId(id), pixels)).collect();
        ImageStats { counts, ..ImageStats::default() }
    }

    /// Enough of class 1 in images 10, 11, 12, 13, of class 2 in 11 and 14; too little of it in 12.
    fn pool() -> EpisodePool {
        let images = [
            (10, image(&[(1, 50)])),
            (11, image(&[(1, 50), (2, 70)])),
            (12, image(&[(1, 90), (2, 49)])),
            (13, image(&[(1, 50)])),
            (14, image(&[(2, 50)])),
            (15, image(&[(0, 900)])),
        ];
        let images: Vec<_> = images.iter().map(|(index, stats)| (*index, stats)).collect();
        EpisodePool::new(&[ClassId(1), ClassId(2)], images, 50)
    }

    #[test]
    fn queries_show_enough_of_a_class_and_supports_are_others_of_it() {
        let pool = pool();
        assert_eq!(pool.queries(), [10, 11, 12, 13, 14]);
        assert_eq!(pool.pairs().filter(|pair| pair.0 == 11).count(), 2);
        let mut seen = Vec::new();
        for seed in 0..200 {
            let drawn = pool.draw(11, 1, &mut seed::stream(seed, &[]));
            match drawn.class {
                ClassId(1) => assert!([10, 12, 13].contains(&drawn.supports[0])),
                _ => assert_eq!(drawn.supports, [14]),
            }
            seen.push(drawn.class);
        }
        let ones = seen.iter().filter(|&&class| class == ClassId(1)).count();
        assert!((70..130).contains(&ones), "{ones} of 200");
        let three = pool.draw_supports(ClassId(1), 10, 3, &mut seed::stream(1, &[])).unwrap();
        let mut sorted = three.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [11, 12, 13]);
        assert_eq!(pool.draw_supports(ClassId(1), 10, 4, &mut seed::stream(1, &[])), None);
        assert_eq!(pool.draw(10, 1, &mut seed::stream(7, &[])), pool.draw(10, 1, &mut seed::stream(7, &[])));
    }

    #[test]
    fn a_class_with_too_few_images_is_named_with_its_numbers() {
        let table = ClassTable::from_names(&["background", "cow", "duck"], &[255]).unwrap();
        assert_eq!(pool().check(&table, 1, 50), Ok(()));
        let error = pool().check(&table, 2, 50).unwrap_err().to_string();
        assert!(error.contains("`duck`") && error.contains("got `2`, expected at least `3`"), "{error}");
    }
}
