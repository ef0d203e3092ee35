//! Draws episodes from the images of a split, which are given by their counts of pixels.

use rand_chacha::ChaCha8Rng;

use super::{Episode, EpisodeError, EpisodeStyle, error::MAX_EPISODES};
use crate::{ClassId, ClassTable, Fold, ImageStats, seed, support_draw::MAX_SHOTS};

/// What to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpisodeDraw {
    pub style: EpisodeStyle,
    pub n_shots: usize,
    pub n_episodes: usize,
    pub seed: u64,
    /// The fewest pixels of its class that query and supports must hold ([`EpisodeStyle::min_pixels`]).
    pub min_pixels: u64,
    /// Whether class and query are drawn too ([`EpisodeStyle::draws_queries`]).
    pub draws_queries: bool,
}

/// Draws the episodes of one run. Queries and supports both come from these images, as in the papers. Indices in the
/// result are places in `stats`.
///
/// Every episode has its own random stream: the class is drawn first, then the query, then one support after the
/// other. So fewer episodes are the beginning of more, and fewer shots of an episode are the beginning of more.
pub fn draw_episodes(
    table: &ClassTable,
    fold: &Fold,
    stats: &[ImageStats],
    draw: EpisodeDraw,
) -> Result<Vec<Episode>, EpisodeError> {
    if !(1..=MAX_SHOTS).contains(&draw.n_shots) {
        return Err(EpisodeError::Shots { got: draw.n_shots });
    }
    if !(1..=MAX_EPISODES).contains(&draw.n_episodes) {
        return Err(EpisodeError::Episodes { got: draw.n_episodes });
    }
    if fold.novel().is_empty() {
        return Err(EpisodeError::NoNovel { fold: fold.index });
    }
    let pools = Pools::new(table, fold, stats, draw)?;
    let one = |episode: usize| {
        let mut rng = seed::stream(draw.seed, &[episode as u64]);
        let (class, query) = match (draw.draws_queries, draw.style) {
            (true, _) => pools.draw_query(&mut rng),
            (false, EpisodeStyle::Hsnet) => pools.next_pair(episode),
            (false, _) => pools.next_image(episode, &mut rng),
        };
        let supports = pools.draw_supports(class, query, draw, &mut rng);
        Episode { class: pools.classes[class].0, query, supports }
    };
    Ok((0..draw.n_episodes).map(one).collect())
}

/// The images that can be part of an episode.
struct Pools {
    /// Every novel class in ascending order of id, with the images that hold enough of it, in the list's order.
    classes: Vec<(ClassId, Vec<usize>)>,
    /// Every image that holds enough of a novel class, with the places in `classes` of those it holds.
    images: Vec<(usize, Vec<usize>)>,
    /// Every pair of an image and a place in `classes`, in the order of images.
    pairs: Vec<(usize, usize)>,
}

impl Pools {
    fn new(
        table: &ClassTable,
        fold: &Fold,
        stats: &[ImageStats],
        draw: EpisodeDraw,
    ) -> Result<Self, EpisodeError> {
        let least = draw.min_pixels.max(1);
        let mut classes: Vec<(ClassId, Vec<usize>)> =
            fold.novel().iter().map(|&id| (id, Vec::new())).collect();
        let (mut images, mut pairs) = (Vec::new(), Vec::new());
        for (image, stats) in stats.iter().enumerate() {
            let mut shown = Vec::new();
            for (place, (class, pool)) in classes.iter_mut().enumerate() {
                if stats.pixels(*class) >= least {
                    pool.push(image);
                    pairs.push((image, place));
                    shown.push(place);
                }
            }
            if !shown.is_empty() {
                images.push((image, shown));
            }
        }
        // Any image of a class may become its query, and the others must still suffice.
        let needed = if draw.style.has_distinct_supports() { draw.n_shots + 1 } else { 2 };
        if let Some((class, pool)) = classes.iter().find(|(_, pool)| pool.len() < needed) {
            return Err(EpisodeError::TooFewImages {
                class: table.name(*class).map_or_else(|| class.to_string(), str::to_string),
                got: pool.len(),
                needed,
                n_shots: draw.n_shots,
                min_pixels: least,
            });
        }
        Ok(Self { classes, images, pairs })
    }

    /// A class, then an image of it.
    fn draw_query(&self, rng: &mut ChaCha8Rng) -> (usize, usize) {
        let class = seed::below(rng, self.classes.len());
        let pool = &self.classes[class].1;
        (class, pool[seed::below(rng, pool.len())])
    }

    /// The next pair of an image and a class, from the start again after the last.
    fn next_pair(&self, episode: usize) -> (usize, usize) {
        let (image, class) = self.pairs[episode % self.pairs.len()];
        (class, image)
    }

    /// The next image, from the start again after the last, and one of its classes.
    fn next_image(&self, episode: usize, rng: &mut ChaCha8Rng) -> (usize, usize) {
        let (image, shown) = &self.images[episode % self.images.len()];
        (shown[seed::below(rng, shown.len())], *image)
    }

    /// Images of the class other than the query, drawn until there are enough. Pools are large enough for this to end.
    fn draw_supports(
        &self,
        class: usize,
        query: usize,
        draw: EpisodeDraw,
        rng: &mut ChaCha8Rng,
    ) -> Vec<usize> {
        let pool = &self.classes[class].1;
        let mut supports = Vec::with_capacity(draw.n_shots);
        while supports.len() < draw.n_shots {
            let drawn = pool[seed::below(rng, pool.len())];
            let is_taken = draw.style.has_distinct_supports() && supports.contains(&drawn);
            if drawn != query && !is_taken {
                supports.push(drawn);
            }
        }
        supports
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
