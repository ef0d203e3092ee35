//! Which classes an image shows, from its own scores: classes that win nowhere for sure are made less likely everywhere.
//!
//! The shares of the classes in an image are unknown. They are estimated from the scores by expectation-maximisation
//! (Saerens, Latinne and Decaestecker 2002): the mean probability of a class over the image is its share, and the
//! logarithm of its share is added to its scores, which gives new probabilities.

use crate::ScoreGrid;

/// Rounds of estimation. After two, most is gained.
pub const IMAGE_PRIOR_ROUNDS: usize = 5;
/// Added to every share, so that a class which seems absent can still win where its score is high.
pub const IMAGE_PRIOR_LEAST_SHARE: f32 = 1e-4;

/// Adds the logarithms of the classes' shares to the scores of an image, which one grid or several tiles cover.
///
/// A background is not compared with things: its scores stay as they are, and the shares of things are relative to the
/// largest of them.
pub fn add_image_prior(grids: &mut [ScoreGrid], background: Option<usize>) {
    let classes = grids.first().map_or(0, |grid| grid.classes);
    let positions: usize = grids.iter().map(|grid| grid.width * grid.height).sum();
    if classes < 2 || positions == 0 {
        return;
    }
    // e^(score - highest score of the position), to be weighted by the prior.
    let likely: Vec<f32> = grids.iter().flat_map(|grid| grid.positions().flat_map(likelihoods)).collect();
    let mut prior = vec![1.0f32; classes];
    let mut weighted = vec![0.0f32; classes];
    for _ in 0..IMAGE_PRIOR_ROUNDS {
        let mut shares = vec![0.0f64; classes];
        for likely in likely.chunks_exact(classes) {
            let mut sum = 0.0;
            for ((to, likely), prior) in weighted.iter_mut().zip(likely).zip(&prior) {
                *to = likely * prior;
                sum += *to;
            }
            let scale = 1.0 / sum;
            shares.iter_mut().zip(&weighted).for_each(|(share, value)| *share += f64::from(value * scale));
        }
        let share = |share: &f64| (share / positions as f64) as f32 + IMAGE_PRIOR_LEAST_SHARE;
        prior = shares.iter().map(share).collect();
        if let Some(background) = background {
            let things = prior.iter().enumerate().filter(|(row, _)| *row != background);
            let largest = things.map(|(_, share)| *share).fold(IMAGE_PRIOR_LEAST_SHARE, f32::max);
            prior.iter_mut().for_each(|share| *share /= largest);
            prior[background] = 1.0;
        }
    }
    let offsets: Vec<f32> = prior.iter().map(|share| share.ln()).collect();
    for grid in grids {
        grid.add_to_each(&offsets);
    }
}

fn likelihoods(scores: &[f32]) -> impl Iterator<Item = f32> + '_ {
    let highest = crate::best(scores).1;
    scores.iter().map(move |score| (score - highest).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four positions: three are surely the first class; the last is unsure between the first and the third.
    fn grid() -> ScoreGrid {
        let scores = [[9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [2.0, 0.0, 2.2]];
        ScoreGrid::new(3, 1, 4, scores.concat())
    }

    fn winners(grids: &[ScoreGrid]) -> Vec<usize> {
        grids.iter().flat_map(|grid| grid.positions().map(|scores| crate::best(scores).0)).collect()
    }

    #[test]
    fn an_unsure_position_follows_the_rest_of_the_image() {
        let mut grids = [grid()];
        assert_eq!(winners(&grids), [0, 0, 0, 2]);
        add_image_prior(&mut grids, None);
        assert_eq!(winners(&grids), [0, 0, 0, 0]);
    }

    #[test]
    fn a_sure_position_keeps_its_class() {
        let mut grids = [ScoreGrid::new(2, 1, 3, vec![9.0, 0.0, 9.0, 0.0, 0.0, 9.0])];
        add_image_prior(&mut grids, None);
        assert_eq!(winners(&grids), [0, 0, 1]);
    }

    #[test]
    fn a_background_takes_nothing_from_the_only_thing() {
        // The last position is a thing or background, nearly a tie.
        let mut grids = [grid()];
        add_image_prior(&mut grids, Some(0));
        let scores: Vec<Vec<f32>> = grids[0].positions().map(<[f32]>::to_vec).collect();
        assert_eq!(scores[3][0], 2.0, "the background's scores stay");
        assert!((scores[3][2] - 2.2).abs() < 1e-6, "the most likely thing's too");
        assert!(scores[3][1] < -1.0, "others are less likely");
    }

    #[test]
    fn tiles_of_an_image_share_one_estimate() {
        let scores = [[9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [9.0, 0.0, 0.0]];
        let mut tiles =
            [ScoreGrid::new(3, 1, 3, scores.concat()), ScoreGrid::new(3, 1, 1, vec![2.0, 0.0, 2.2])];
        add_image_prior(&mut tiles, None);
        assert_eq!(winners(&tiles), [0, 0, 0, 0]);
        add_image_prior(&mut [], None);
    }
}
