//! From scores on the features' grid to labels where a protocol compares them with the truth.

use protoseg_core::{IGNORE, Preprocess, Protocol, RowMap, ScoreGrid, ScoreMap};

use crate::segmenter::Segmenter;

/// The truth as the protocol sees it.
pub(super) fn target(truth: &RowMap, protocol: Protocol) -> RowMap {
    match protocol {
        Protocol::Reference => on_square(truth),
        _ => truth.clone(),
    }
}

/// Scores of a grid's picture as the protocol looks them up; `target` has the size that is compared at.
pub(super) fn scores(
    grid: ScoreGrid,
    protocol: Protocol,
    preprocess: &Preprocess,
    target: &RowMap,
) -> ScoreMap {
    let (width, height) = (target.width, target.height);
    match protocol {
        Protocol::Exact | Protocol::B => ScoreMap::on_canvas(grid, preprocess, width, height),
        Protocol::Reference => {
            let canvas = grid.upsample(preprocess.size, preprocess.size);
            ScoreMap::stretched(canvas, width, height)
        }
    }
}

/// The same of what a segmenter makes of its looks at a picture. The reference's protocol knows one look.
pub(super) fn scores_of_looks(
    segmenter: &Segmenter,
    mut grids: Vec<ScoreGrid>,
    protocol: Protocol,
    target: &RowMap,
) -> ScoreMap {
    match protocol {
        Protocol::Reference => scores(grids.swap_remove(0), protocol, segmenter.model().preprocess(), target),
        _ => segmenter.join(grids, target.width, target.height),
    }
}

/// A label map at the top left of a square of its longer side; nothing is compared in the rest.
fn on_square(label: &RowMap) -> RowMap {
    let side = label.width.max(label.height);
    let mut data = vec![IGNORE; side * side];
    for (to, from) in data.chunks_exact_mut(side.max(1)).zip(label.data.chunks_exact(label.width.max(1))) {
        to[..label.width].copy_from_slice(from);
    }
    RowMap::new(side, side, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_compares_on_a_square() {
        let truth = RowMap::new(2, 1, vec![3, 4]);
        assert_eq!(target(&truth, Protocol::Reference).data, [3, 4, IGNORE, IGNORE]);
        assert_eq!(target(&truth, Protocol::Exact), truth);
    }
}
