//! Bicubic resampling along one axis, as PyTorch does it: what position embeddings of another grid go through.

/// `[to, from]`: the share of each of `from` values in each of `to`.
///
/// Without smoothing, four neighbours count, with Keys' a = -0.75. With it, the filter (a = -0.5) is as wide as the step
/// from one result to the next, so that nothing is skipped where values become fewer.
pub(super) fn bicubic(from: usize, to: usize, smooths: bool) -> Vec<f32> {
    let scale = from as f64 / to as f64;
    let mut shares = vec![0.0; to * from];
    for (at, shares) in shares.chunks_exact_mut(from).enumerate() {
        let centre = (at as f64 + 0.5) * scale;
        if smooths {
            let wide = scale.max(1.0);
            let first = (centre - 2.0 * wide + 0.5).max(0.0) as usize;
            let end = ((centre + 2.0 * wide + 0.5) as usize).min(from);
            let weight = |place: usize| keys((place as f64 + 0.5 - centre) / wide, -0.5);
            let sum: f64 = (first..end).map(weight).sum();
            (first..end).for_each(|place| shares[place] = (weight(place) / sum) as f32);
        } else {
            let middle = (centre - 0.5).floor();
            for tap in -1..=2 {
                let place = middle + f64::from(tap);
                let inside = place.clamp(0.0, (from - 1) as f64) as usize;
                shares[inside] += keys(centre - 0.5 - place, -0.75) as f32;
            }
        }
    }
    shares
}

/// Keys' cubic kernel.
fn keys(distance: f64, a: f64) -> f64 {
    let x = distance.abs();
    match x {
        _ if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * a,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_of_the_same_side_stays_as_it_is() {
        for smooths in [false, true] {
            let shares = bicubic(5, 5, smooths);
            for (place, &share) in shares.iter().enumerate() {
                assert!((share - f32::from(u8::from(place % 6 == 0))).abs() < 1e-7, "{smooths} {place}");
            }
        }
    }

    #[test]
    fn shares_are_those_of_pytorch() {
        // The first row of torch.nn.functional.interpolate(torch.eye(4)[None, :, :, None], size=(3, 1), mode="bicubic"),
        // and the same with antialias=True.
        let plain = [0.856_481_7, 0.160_879_67, -0.017_361_16, 0.0];
        let smooth = [0.752_860_4, 0.304_347_8, -0.057_208_24, 0.0];
        for (smooths, expected) in [(false, plain), (true, smooth)] {
            let shares = bicubic(4, 3, smooths);
            let near = shares.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-5);
            assert!(near, "{smooths}: {shares:?}");
        }
        for smooths in [false, true] {
            for row in bicubic(37, 16, smooths).chunks(37) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
        }
    }
}
